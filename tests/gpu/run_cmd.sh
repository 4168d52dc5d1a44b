#!/bin/bash
# run_cmd.sh: `inferprof run` and `inferprof doctor` on a real GPU with programs of all kinds, in parallel; 40 s.
# Prints "ok" or "FAIL" per check; metrics and notes of the run folders go to $OUT/run.
set -u
# shellcheck source=tests/gpu/lib.sh
. "$(dirname "$0")/lib.sh"
find_collector
[ -n "${INFERPROF:-}" ] || { echo "inferprof was not found"; exit 1; }
R=$WORK/run
mkdir -p "$R" "$OUT/run"
edge() { echo "$PYTHON $GPU/edge_programs.py $*"; }
work() { echo "$PYTHON $GPU/workloads.py $*"; }

# try NAME COMMAND...: runs it; leaves its output and status beside its run folder
try() {
    local name=$1
    shift
    "$@" >"$R/$name.out" 2>"$R/$name.err"
    echo $? >"$R/$name.status"
}
prof() { # NAME OPTIONS... -- PROGRAM...
    local name=$1
    shift
    try "$name" "$INFERPROF" run -o "$R/$name" "$@"
}
# shellcheck disable=SC2046  # split the commands into words
start_all() {
    prof eager -- $(work eager) &
    prof graph --graphs node -- $(work graph) &
    prof stage --stage 'decode=measured' -- $(work eager) &
    prof range --range measured -- $(work eager) &
    prof time --delay 20 --duration 0.3 -- $(work eager --until 21.5) &
    prof size --max-size 60000 -- $(work eager --rounds 300) &
    wait
    prof gemm --gemm-shapes -- $(work eager) &
    prof budget --budget 5 -- $(work eager --rounds 1000) &
    prof budget-graph --budget 2 -- $(work graph --rounds 3000) &
    prof budget-multi --budget 5 -- $(work multi --rounds 3000) &
    prof workers -- $(edge workers) &
    prof profiler -- $(edge profiler) &
    prof first -- $(edge profiler-first) &
    prof holder -- $(edge holder) &
    prof status -- $(edge end status) &
    prof kill -- $(edge end kill) &
    prof segv -- $(edge end segv) &
    prof interrupt -- $(edge end wait) &
    CUDA_VISIBLE_DEVICES=$(nvidia-smi --query-gpu=uuid --format=csv,noheader | head -n 1) prof visible -- $(edge device) &
    CUDA_VISIBLE_DEVICES='' prof hidden -- "$PYTHON" -c 'import torch; print(torch.cuda.is_available())' &
    press_ctrl_c
    wait
}
press_ctrl_c() { # as in a terminal, SIGINT goes to inferprof and to the program
    for _ in $(seq 150); do grep -q pid "$R/interrupt.out" 2>/dev/null && break; sleep 0.2; done
    local program
    program=$("$PYTHON" -c 'import json,sys; print(json.load(open(sys.argv[1]))["pid"])' "$R/interrupt.out")
    kill -INT "$program" "$(ps -o ppid= -p "$program")"
}

start_all
"$PYTHON" "$GPU/run_check.py" "$INFERPROF" "$R" "$OUT/run"
failed=$?
echo "== doctor"
"$INFERPROF" doctor
echo "exit $?"
"$INFERPROF" doctor --json >"$OUT/run/doctor.json"
exit $failed
