#!/bin/bash
# run_all.sh: what docs/overhead.md says, measured. About 8 minutes on one GPU. Tables on stdout, JSON in $OUT.
# PAIRS=N changes the number of pairs (20).
set -u
# shellcheck source=tests/gpu/lib.sh
. "$(dirname "$0")/lib.sh"
PAIRS=${PAIRS:-20}
find_collector
nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.draw --format=csv,noheader
ON="INFERPROF_COLLECT_RANGE=capture*"
part() { echo; echo "== $1  ($(date +%T))"; }

part "completeness: kernels and their time against torch.profiler"
for p in eager graph multi; do
    collect "$WORK/c-$p" INFERPROF_COLLECT_RANGE=measured -- "$PYTHON" "$GPU/workloads.py" "$p" >/dev/null
    "$PYTHON" "$GPU/workloads.py" "$p" --torch-profile "$WORK/c-$p.json" >/dev/null
    [ -n "${INFERPROF:-}" ] || continue
    "$INFERPROF" trace dump --json "$WORK/c-$p"/*.ipt >"$WORK/c-$p.jsonl"
    "$PYTHON" "$GPU/compare.py" "$p" "$WORK/c-$p.jsonl" "$WORK/c-$p.json"
done | tee "$OUT/completeness.txt"

part "overhead, pairs in one process"
pairs() { # NAME WORKS SETTINGS...
    local name=$1 works=$2
    shift 2
    collect "$WORK/o-$name" "$ON" "$@" -- \
        "$PYTHON" "$GPU/overhead.py" range "$name" "$WORK/o-$name.json" --pairs "$PAIRS" --work "$works"
}
pairs floor eager,graph,prefill INFERPROF_COLLECT_EMPTY=1 INFERPROF_COLLECT_WHAT=kernels,nvtx
pairs collector eager,graph,prefill X=0
pairs kernels eager INFERPROF_COLLECT_WHAT=kernels,nvtx
collect "$WORK/o-budget" "$ON" INFERPROF_COLLECT_BUDGET=2 -- \
    "$PYTHON" "$GPU/overhead.py" range budget-2% "$WORK/o-budget.json" --pairs "$PAIRS" --work eager --scale 3
"$PYTHON" "$GPU/overhead.py" torch torch "$WORK/o-torch.json" --pairs "$PAIRS" --work eager,graph,prefill --scale 0.25

part "overhead, whole processes (seconds in the measured part; seconds of the process)"
whole() { # ARM
    local start end line
    start=$(date +%s.%N)
    if [ "$1" = on ]; then
        line=$(collect "$WORK/w" -- "$PYTHON" "$GPU/workloads.py" eager --rounds 150)
    else
        line=$("$PYTHON" "$GPU/workloads.py" eager --rounds 150)
    fi
    end=$(date +%s.%N)
    echo "$1 $line $start $end"
}
for _ in 1 2 3 4; do
    whole off
    whole on
done | "$PYTHON" -c '
import json, statistics, sys
arms = {"on": [], "off": []}
for line in sys.stdin:
    arm, rest = line.split(" ", 1)
    doc, start, end = rest.rsplit(" ", 2)
    arms[arm].append((json.loads(doc)["seconds"], float(end) - float(start)))
for i, what in enumerate(("measured", "process")):
    n, off, on = len(arms["on"]), *(statistics.median(x[i] for x in arms[a]) for a in ("off", "on"))
    print(f"{what:<10} off {off:.3f} s  on {on:.3f} s  {100 * (on / off - 1):+.2f}%  ({n} runs each)")
json.dump(arms, open(sys.argv[1], "w"))' "$WORK/whole.json"

part "GEMM shapes: a launch-bound decode with and without them, and silence"
for _ in 1 2 3; do
    collect "$WORK/g0" -- "$PYTHON" "$GPU/workloads.py" eager --rounds 100
    collect "$WORK/g1" INFERPROF_COLLECT_WHAT=kernels,copies,launches,syncs,nvtx,gemms -- \
        "$PYTHON" "$GPU/workloads.py" eager --rounds 100
done | tee "$OUT/gemm.txt"
[ -n "${INFERPROF:-}" ] && "$INFERPROF" trace info "$(find "$WORK/g1" -name '*.ipt' | head -n 1)"

part "stopping, and bytes a kernel: 1,000,000 kernels"
for arm in off on; do
    start=$(date +%s.%N)
    if [ $arm = on ]; then line=$(collect "$WORK/s" -- "$PYTHON" "$GPU/workloads.py" tiny --rounds 1000000)
    else line=$("$PYTHON" "$GPU/workloads.py" tiny --rounds 1000000); fi
    end=$(date +%s.%N)
    "$PYTHON" -c '
import json, sys
doc = json.loads(sys.argv[2])
seconds, stop = doc["seconds"], float(sys.argv[3]) - doc["end"]
print(f"{sys.argv[1]:<4} launching {seconds:.2f} s   from the last line to the end of the process {stop:.2f} s")' "$arm" "$line" "$end"
done
ls -l "$WORK"/s/*.ipt
[ -n "${INFERPROF:-}" ] && "$INFERPROF" trace info "$WORK"/s/*.ipt
[ -n "${INFERPROF:-}" ] && "$INFERPROF" trace dump --json -k meta "$WORK"/s/*.ipt | grep -aE 'collector|problem|clock.fit'
[ -n "${INFERPROF:-}" ] && "$INFERPROF" trace dump --json -k meta "$WORK"/o-budget/*.ipt | grep -aE 'collector|problem|capture.window' | tail -n 12
tar -C "$WORK" -czf "$OUT/overhead.tar.gz" --exclude='*.jsonl' --exclude='s' --exclude='o-collector' --exclude='o-kernels' .
ls -l "$OUT"
