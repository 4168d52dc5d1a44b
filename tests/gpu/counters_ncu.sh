#!/bin/bash
# counters_ncu.sh: compares counters fitted from samples with Nsight Compute's, per kernel class (docs/counters.md). About 2 minutes.
# SECONDS_EACH=S: duration of each section of the program (0.6). NCU_LIMIT=S: time limit for Nsight Compute (75).
set -u
# shellcheck source=tests/gpu/lib.sh
. "$(dirname "$0")/lib.sh"
[ -n "${INFERPROF:-}" ] || find_collector
SECONDS_EACH=${SECONDS_EACH:-0.6}
NCU=${NCU:-$(command -v ncu || ls /usr/local/cuda/bin/ncu 2>/dev/null)}
sections="micro dense-prefill dense-decode dense-graph moe-prefill moe-decode moe-graph"
"$NCU" --query-metrics --chip gh100 >"$OUT/ncu-metrics.txt" 2>&1
# The sampler's metrics; a metric that this ncu does not have is replaced by its nearest equivalent.
metrics=gpu__time_duration.sum
add() { # NAME...: adds the first one that ncu supports
    for name; do
        grep -q "^${name%%.*} " "$OUT/ncu-metrics.txt" && { metrics=$metrics,$name; return; }
    done
    metrics=$metrics,$1
}
pct=pct_of_peak_sustained_elapsed
add sm__cycles_active.avg.$pct
add sm__pipe_tensor_cycles_active.avg.$pct
add dram__read_throughput.avg.$pct dram__bytes_read.sum.$pct
add dram__write_throughput.avg.$pct dram__bytes_write.sum.$pct
add gpc__cycles_elapsed.avg.per_second
echo "metrics: $metrics"
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,power.draw --format=csv,noheader
"$NCU" --version | tail -n 2

stages=()
for s in $sections; do stages+=(--stage "$s=$s"); done
for us in 100 20; do
    echo "== sampled every $us us ($(date +%T))"
    timeout -k 2 45 "$INFERPROF" run -q --counters --counter-interval $us "${stages[@]}" -o "$OUT/run-$us" -- \
        "$PYTHON" "$GPU/counters_classes.py" --seconds "$SECONDS_EACH" ||
        echo "exit status $?"
    "$INFERPROF" trace dump --kind meta "$OUT/run-$us/trace/counters.ipt" | grep -a counters
done
echo "== Nsight Compute ($(date +%T))"
timeout -k 2 "${NCU_LIMIT:-75}" "$NCU" --profile-from-start off --cache-control none --clock-control none --nvtx \
    --print-kernel-base mangled --csv --page raw --print-units base --metrics "$metrics" --log-file "$OUT/ncu.csv" \
    "$PYTHON" "$GPU/counters_classes.py" --once || echo "exit status $?"
grep -av '^"' "$OUT/ncu.csv" | sed 's/^\(==PROF== Profiling \)\(.\{40\}\).*: \(0%.*\)$/\1\2 \3/' | head -n 3
grep -a 'passes' "$OUT/ncu.csv" | sed 's/.* - //' | sort | uniq -c
echo "== joined ($(date +%T))"
"$PYTHON" "$GPU/counters_join.py" "$OUT/ncu.csv" "$OUT/run-100" "$OUT/run-20" | tee "$OUT/counters.md"
