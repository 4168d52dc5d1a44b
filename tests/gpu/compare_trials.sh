#!/bin/bash
# compare_trials.sh INFERPROF [JOBS]: proof of `compare` on an idle machine, 8 minutes at most. Uses no GPU: run it alone,
# on a machine with many idle cores. 50 slowed trials on cores that are far apart, then 200 trials of equal sides, 10
# processes each; see tests/stats/false_verdicts.py. The result names the noise, the correlation of neighbouring processes
# and the rates with and without blocks. OUT: folder for the times of all processes.
set -u
program=${1:?usage: compare_trials.sh INFERPROF [JOBS]}
jobs=${2:-$(($(nproc) > 4 ? $(nproc) - 2 : 1))}
lscpu | grep -E "Model name|Thread|Core|Socket|^CPU\(s\)|L3"
exec python3 "$(dirname "$0")/../stats/false_verdicts.py" "$program" --real 200 --slowed 50 --jobs "$jobs" --seconds 450 \
    ${OUT:+--save "$OUT/compare_trials.json"}
