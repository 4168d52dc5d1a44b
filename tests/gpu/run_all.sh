#!/bin/bash
# run_all.sh: measures the figures of docs/overhead.md, about 8 minutes on one GPU. Tables on stdout, JSON in $OUT.
# PARTS="overhead budget" runs only these parts; LONG=2 measures twice as long.
set -u
# shellcheck source=tests/gpu/lib.sh
. "$(dirname "$0")/lib.sh"
PARTS=${PARTS:-completeness overhead continuous budget graphs torch stop whole}
LONG=${LONG:-1}
find_collector
nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.draw --format=csv,noheader
trace() { [ -n "${INFERPROF:-}" ] && "$INFERPROF" trace "$@"; }
ALL=kernels,copies,launches,syncs,nvtx
arms() { # NAME [SETTING=VALUE...] -- ARGS...: overhead.py with the collector injected
    local dir=$WORK/$1 env=()
    shift
    while [ "$1" != -- ]; do
        env+=("INFERPROF_COLLECT_$1")
        shift
    done
    shift
    collect "$dir" INFERPROF_COLLECT_RANGE='capture*' INFERPROF_COLLECT_ARMS=1 "${env[@]}" -- "$PYTHON" "$GPU/overhead.py" "$@"
}

completeness() { # kernels and their time against torch.profiler
    collect "$WORK/c" INFERPROF_COLLECT_RANGE=measured -- "$PYTHON" "$GPU/workloads.py" eager,graph,multi >/dev/null
    "$PYTHON" "$GPU/workloads.py" eager,graph,multi --torch-profile "$WORK/c.json" 2>/dev/null
    trace dump --json "$WORK"/c/*.ipt >"$WORK/c.jsonl" && "$PYTHON" "$GPU/compare.py" "$WORK/c.jsonl" "$WORK/c.json"
    trace info "$WORK"/c/*.ipt
    grep -aE '"clock.fit"|"collector.counts"' "$WORK/c.jsonl"
}

overhead() { # arms in one process
    arms eager -- range "$OUT/eager.json" --arms floor,collector --work eager --seconds $((30 * LONG))
    trace dump --json -k launch "$WORK"/eager/*.ipt >"$WORK/eager.jsonl" && "$PYTHON" "$GPU/launch_time.py" "$WORK/eager.jsonl"
    arms rest -- range "$OUT/rest.json" --arms floor,collector --work graph,reading,prefill --seconds $((8 * LONG))
}

graphs() { # whole-graph records must be enabled before the first graph exists: one process per program
    local work
    for work in graph reading; do
        arms "graphs-$work" WHAT=$ALL,whole-graphs -- range "$OUT/graphs-$work.json" --arms graphs --work $work --seconds $((3 * LONG))
    done
}

continuous() { # continuous recording, against the same process before its first recording
    "$PYTHON" "$GPU/continuous.py" $((45 * LONG)) "$COLLECTOR" "$WORK/continuous"
}

budget_of() { "$PYTHON" "$GPU/budget.py" "$3" "$COLLECTOR" "$INFERPROF" "$WORK/budget-$1" "$1" "$2"; } # PROGRAM PCT SECONDS
budget() { # callbacks between windows, before and after kernels were first recorded; whole runs under a budget
    arms between -- range "$OUT/between.json" --arms between --work eager --seconds $((8 * LONG))
    arms between-once -- range "$OUT/between-once.json" --arms between --work eager --seconds $((8 * LONG)) --once
    budget_of eager 2 $((40 * LONG))
    budget_of reading 1 $((20 * LONG))
}

torch() { # torch.profiler in its own process; 10 repeats are 20 pairs
    "$PYTHON" "$GPU/overhead.py" torch "$OUT/torch.json" --work eager,graph,reading,prefill --seconds 1 --repeats 10 2>/dev/null
}

whole() { # whole processes
    "$PYTHON" "$GPU/whole_process.py" "${WHOLE_SECONDS:-90}" "$COLLECTOR" "$WORK/w"
}

stop() { # time to stop, and bytes per kernel: 600,000 kernels at full speed
    local arm line
    for arm in off on; do
        if [ $arm = on ]; then line=$(collect "$WORK/s" -- "$PYTHON" "$GPU/workloads.py" tiny --rounds 600000)
        else line=$("$PYTHON" "$GPU/workloads.py" tiny --rounds 1000); fi
        "$PYTHON" -c '
import json, sys
doc = json.loads(sys.argv[2])
stop = float(sys.argv[3]) - doc["end"]
print("{} {} launches in {:.2f} s   end of output to end of process {:.2f} s".format(sys.argv[1], doc["rounds"], doc["seconds"], stop))' \
            "$arm" "$line" "$(date +%s.%N)"
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
