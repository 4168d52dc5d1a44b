#!/bin/bash
# run_all.sh: what docs/overhead.md says, measured. About 4 minutes on one GPU. Tables on stdout, JSON in $OUT.
# REPEATS=N changes the number of repeats (40); PARTS="overhead budget" runs only these parts.
set -u
# shellcheck source=tests/gpu/lib.sh
. "$(dirname "$0")/lib.sh"
REPEATS=${REPEATS:-40}
PARTS=${PARTS:-completeness overhead budget torch whole stop}
find_collector
nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.draw --format=csv,noheader
trace() { [ -n "${INFERPROF:-}" ] && "$INFERPROF" trace "$@"; }
ALL=kernels,copies,launches,syncs,nvtx
arms() { # WHAT ARGS...: overhead.py with the collector's arms; WHAT is on until the first of them
    local what=$1
    shift
    collect "$WORK/arms" INFERPROF_COLLECT_RANGE='capture*' INFERPROF_COLLECT_ARMS=1 INFERPROF_COLLECT_WHAT="$what" -- \
        "$PYTHON" "$GPU/overhead.py" range "$@"
}

completeness() { # kernels and their time against torch.profiler
    local p
    for p in eager graph multi; do
        collect "$WORK/c-$p" INFERPROF_COLLECT_RANGE=measured -- "$PYTHON" "$GPU/workloads.py" "$p" >/dev/null
        "$PYTHON" "$GPU/workloads.py" "$p" --torch-profile "$WORK/c-$p.json" >/dev/null 2>&1
        trace dump --json "$WORK/c-$p"/*.ipt >"$WORK/c-$p.jsonl" || continue
        "$PYTHON" "$GPU/compare.py" "$p" "$WORK/c-$p.jsonl" "$WORK/c-$p.json"
    done
}

overhead() { # arms in one process
    arms $ALL "$OUT/eager.json" --arms floor,collector,kernels,gemms --work eager --repeats "$REPEATS"
    arms $ALL "$OUT/graph.json" --arms floor,collector --work graph --repeats "$REPEATS"
    arms $ALL,whole-graphs "$OUT/graphs.json" --arms graphs --work graph --repeats "$REPEATS"
    arms $ALL "$OUT/prefill.json" --arms floor,collector --work prefill --repeats "$REPEATS"
}

budget() { # --budget 2
    collect "$WORK/budget" INFERPROF_COLLECT_RANGE='capture*' INFERPROF_COLLECT_BUDGET=2 -- \
        "$PYTHON" "$GPU/overhead.py" budget "$OUT/budget.json" --work eager --repeats "$REPEATS"
    trace dump --json -k meta "$WORK"/budget/*.ipt >"$WORK/budget.jsonl"
    grep -aE 'collector|problem' "$WORK/budget.jsonl"
    "$PYTHON" -c '
import json, sys
w = [tuple(map(int, r["value"].split())) for r in map(json.loads, open(sys.argv[1])) if r["key"] == "capture.window" and " " in r["value"]]
ms = sorted((b - a) / 1e6 for a, b in w)
print(f"{len(w)} windows, {ms[0]:.0f} to {ms[-1]:.0f} ms, {sum(ms) / 1e3:.2f} s in all")' "$WORK/budget.jsonl"
}

torch() { # torch.profiler in its own process
    "$PYTHON" "$GPU/overhead.py" torch "$OUT/torch.json" --work eager,graph,prefill --repeats "$((REPEATS / 2))" 2>/dev/null
}

whole_one() { # ARM: one process; prints the arm, its JSON line, start and end
    local start line
    start=$(date +%s.%N)
    if [ "$1" = on ]; then line=$(collect "$WORK/w" -- "$PYTHON" "$GPU/workloads.py" eager --rounds 150)
    else line=$("$PYTHON" "$GPU/workloads.py" eager --rounds 150); fi
    echo "$1 $start $line $(date +%s.%N)"
}
whole() { # processes from start to end
    for _ in 1 2 3; do
        whole_one off
        whole_one on
    done | "$PYTHON" "$GPU/whole.py"
}

stop() { # the end, and bytes a kernel: 1,000,000 kernels as fast as they go
    local arm line
    for arm in off on; do
        if [ $arm = on ]; then line=$(collect "$WORK/s" -- "$PYTHON" "$GPU/workloads.py" tiny --rounds 1000000)
        else line=$("$PYTHON" "$GPU/workloads.py" tiny --rounds 1000000); fi
        "$PYTHON" -c '
import json, sys
doc = json.loads(sys.argv[2])
seconds, stop = doc["seconds"], float(sys.argv[3]) - doc["end"]
print(f"{sys.argv[1]:<4} launching {seconds:.2f} s   from the last line to the end of the process {stop:.2f} s")' "$arm" "$line" "$(date +%s.%N)"
    done
    trace info "$WORK"/s/*.ipt
    trace dump --json -k meta "$WORK"/s/*.ipt | grep -aE 'collector\.|problem|clock.fit'
}

for part in $PARTS; do
    echo
    echo "== $part  ($(date +%T))"
    "$part"
done 2>&1 | tee "$OUT/run_all.txt"
echo "done $(date +%T)"
