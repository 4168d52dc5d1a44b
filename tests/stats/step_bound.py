#!/usr/bin/env python3
"""step_bound.py: how many steps of 2% any test can find within 5 runs, if whole runs have 1% noise.

The simulated test knows what no real test knows: the level before the step, the noise, and how long the new level lasts. After
every run it compares the mean of the last 5 runs with the known level. Its critical value gives one false alarm per hundred
series of 30 runs. docs/serve.md cites the result.
"""
import math
import random

SERIES, RUNS, AFTER, STEP, ALARMS = 40000, 30, 5, 2.0, 0.01  # step in units of the noise


def largest(values):
    """The largest statistic over all looks at a series."""
    return max(abs(sum(values[i - AFTER:i])) / math.sqrt(AFTER) for i in range(AFTER, len(values) + 1))


random.seed(1)
null = sorted((largest([random.gauss(0, 1) for _ in range(RUNS)]) for _ in range(SERIES)), reverse=True)
critical = null[int(SERIES * ALARMS)]
found = 0
for _ in range(SERIES):
    before = [random.gauss(0, 1) for _ in range(AFTER - 1)]
    after = [random.gauss(STEP, 1) for _ in range(AFTER)]
    found += largest((before + after)[1:]) > critical
print(f"critical value {critical:.2f}, {100 * found / SERIES:.1f}% of the steps found")
