#!/bin/bash
# compare_trials.sh INFERPROF [JOBS]: proof of `compare` on an idle machine, 8 minutes at most. Uses no GPU: run it where
# many idle cores are. 200 trials of 15 processes; see tests/stats/false_verdicts.py.
set -u
program=${1:?usage: compare_trials.sh INFERPROF [JOBS]}
jobs=${2:-$(($(nproc) > 4 ? $(nproc) - 2 : 1))}
lscpu | grep -E "Model name|Thread|Core|Socket|^CPU\(s\)"
exec python3 "$(dirname "$0")/../stats/false_verdicts.py" "$program" --real 200 --jobs "$jobs" --seconds 450
