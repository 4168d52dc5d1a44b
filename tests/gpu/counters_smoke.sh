#!/bin/bash
# counters_smoke.sh: checks that the sampler sees the work of another process: copies, then matrix products, sampled at two
# intervals. Prints the mean of every metric per phase; leaves the traces in $OUT.
set -u
# shellcheck source=tests/gpu/lib.sh
. "$(dirname "$0")/lib.sh"
find_collector
make build/inferprof-counters INFERPROF_NO_DEPS=1 >/dev/null 2>&1
counters=build/inferprof-counters
[ -x "$counters" ] || counters=$(ls build/dist/inferprof-*/lib/inferprof/inferprof-counters)
for interval in 100000 20000; do
    rm -f "$WORK/counters.ipt"
    mkfifo "$WORK/alive" 2>/dev/null
    "$counters" "$WORK/counters.ipt" "$interval" <"$WORK/alive" >"$WORK/counters.out" &
    exec 9>"$WORK/alive"
    for _ in $(seq 100); do grep -qE '^(ready|failed)' "$WORK/counters.out" && break; sleep 0.1; done
    cat "$WORK/counters.out"
    "$PYTHON" "$GPU/counters_load.py" "$WORK/phases.json"
    exec 9>&-
    wait
    "$INFERPROF" trace info "$WORK/counters.ipt"
    "$INFERPROF" trace dump --kind meta "$WORK/counters.ipt" | grep -a counters
    "$INFERPROF" trace dump --kind sample --json "$WORK/counters.ipt" >"$WORK/samples.jsonl"
    "$PYTHON" "$GPU/counters_means.py" "$WORK/phases.json" "$WORK/samples.jsonl"
    cp "$WORK/counters.ipt" "$OUT/counters-$interval.ipt"
done
