#!/bin/sh
# `inferprof run` against the mock libraries.
. tests/cli/lib.sh
mock=$PWD/$BUILD/tests/mock
app=$mock/mock_app
export LD_LIBRARY_PATH="$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
cd "$work" || exit 1
work=$PWD
unset CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH

run "$INFERPROF" run -o one -- "$app" init say=hello push=prefill kernels=100 pop push=decode kernels=50 pop sleep=150
expect "a run says what it found on stderr; stdout is the program's" 0 out '^hello$' err 'prefill' err 'run folder: one'
check "stdout holds nothing else" test "$(cat out)" = hello
for f in report.html report.md metrics.json kernels.csv env.json trace/nvml.ipt; do
    check "the run folder has $f" test -s "one/$f"
done
check "a finished run is not marked incomplete" test ! -e one/INCOMPLETE
run "$INFERPROF" trace dump -k power one/trace/nvml.ipt
expect "NVML was sampled; what a GPU does not answer is unknown" 0 out 'power_mw=300000' out 'device=1 .*power_mw=4294967295'
run "$INFERPROF" run -o one -- "$app" init
expect "a folder that is in use is not written into" 1 err 'one is not empty'

run "$INFERPROF" run -o two -- "$app" init kernels=10 exit=7
expect "the program's status is ours" 7 err 'exit status 7'
run "$INFERPROF" run -o three -- "$app" init kernels=10 sleep=1900 kill
expect "128 + n after a signal; what was collected is reported" 137 err 'signal 9' err 'run folder: three'
check "and the report is there" test -s three/report.md
run "$INFERPROF" run -o four -- true
expect "a program without CUDA: said loudly, status 1" 1 err 'nothing was collected from true: no process of it initialised CUDA'
run "$INFERPROF" run -o five -- false
expect "its own failure wins" 1 err 'nothing was collected'
run "$INFERPROF" run -o six --stage 'step=it *' -- no-such-program
expect "a program that is not there" 1 err "cannot start 'no-such-program'"
check "a program that never began leaves no folder" test ! -e six
# Two workers that each call their GPU number 0
cat >workers.sh <<EOF
CUDA_VISIBLE_DEVICES=0 "$app" init push=decode kernels=30 pop
CUDA_VISIBLE_DEVICES=1 "$app" init push=decode kernels=50 pop
EOF
run "$INFERPROF" run -o gpus -- sh workers.sh
expect "workers on different GPUs" 0 err 'run folder: gpus'
run python3 -c 'import json; print([(d["name"][-8:], d["kernels"]) for d in json.load(open("gpus/metrics.json"))["devices"] if d["kernels"]])'
expect "the report keeps their GPUs apart, by UUID" 0 out "ock 9000', 30.*1g.10gb', 50"
run env MOCK_CUPTI=held "$INFERPROF" run -o seven -- "$app" init kernels=10
expect "why nothing was collected is said in words" 1 err 'CUPTI allows one user a process' err 'nothing was collected'
run "$INFERPROF" run -o eight --stage 'step=it *' -- "$app" init push="it 1" kernels=10 pop push="it 2" kernels=10 pop
expect "stages by rule" 0 err '^step '
same_report "a second report of the run is the same, rules and all" eight
run "$INFERPROF" run -o graphs --graphs graph -- "$app" init push=decode graphs=50 pop
expect "graphs as a whole: said, and no verdict on idle time" 0 err 'no verdict on idle time: CUDA graphs were recorded as a whole'
run "$INFERPROF" run -o part --range 'decode*' -- "$app" init push=prefill kernels=50 sleep=20 pop push=decode kernels=50 pop
expect "a part was captured: its share is told, nothing is scaled up" 0 err 'kernels were recorded in [0-9.]+% of the time \(1 window\)' \
    err '^prefill .*–'
run "$INFERPROF" run --stage nonsense -- true
expect "a rule without a glob" 2 err 'is not NAME=GLOB'
run "$INFERPROF" run
expect "no program" 2 err 'PROGRAM'
run "$INFERPROF" run -o nine --preset min -- "$app" init push=r kernels=10 pop
expect "the least preset records ranges alone" 0
run "$INFERPROF" trace info nine/trace/*-*.ipt
check "and no kernels" sh -c '! grep -q "^ *kernel " out'
run env NVTX_INJECTION64_PATH=/opt/other.so "$INFERPROF" run -o ten -- "$app" init kernels=10
expect "an injection of the user's stays, and is named" 0 err 'NVTX_INJECTION64_PATH=/opt/other.so was set already'
run "$INFERPROF" run --counters -o counters -- "$app" init push=r kernels=10 pop exit=0
expect "counters that cannot be: one line says why and what to do, the run goes on" 0 err 'hardware counters are not sampled: .*inferprof doctor' \
    err 'run folder: counters'
run "$INFERPROF" run --counters --counter-interval 0 -- "$app" init
expect "a counter interval of nothing is misuse" 2 err "--counter-interval: 0 is out of range; expected 1 to 1000000"
run "$INFERPROF" run -- "$app" init push=r pop
expect "a folder of its own by time and name" 0 err 'run folder: inferprof-runs/[0-9]{8}-[0-9]{6}-mock_app'
"$INFERPROF" run -o eleven -- sh -c 'trap "exit 9" TERM; echo ready; while :; do sleep 0.05; done' >out 2>err &
pid=$!
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do grep -q ready out && break; sleep 0.1; done
kill -TERM $pid
wait $pid
status=$?
expect "signals are handed on, and the run is finished" 9 err 'run folder: eleven'

# ---- a disk that takes no more while the report is written: files over 8 KiB fail (SIGXFSZ is ignored, as a full disk sends none)
run sh -c 'trap "" XFSZ; ulimit -f 16; exec "$@"' sh "$INFERPROF" run -o "$work/full" -- "$app" init push=decode kernels=20 pop
expect "a report that cannot be written is no success" 1 err 'full/[^ ]*: File too large'
check "and the folder says so" grep -q 'could not be written' "$work/full/INCOMPLETE"
run "$INFERPROF" report "$work/full"
expect "the report can be made later" 0

# ---- options behind the program are the program's, with and without --
cat >"$work/args" <<'END'
#!/bin/sh
echo "args: $*"
END
chmod +x "$work/args"
run "$INFERPROF" run -q -o "$work/own1" "$work/args" -o "$work/taken" --foo -q -- x
expect "a program's options are its own" 1 out "^args: -o $work/taken --foo -q -- x\$"
run "$INFERPROF" run -q -o "$work/own2" -- "$work/args" --preset nonsense
expect "with a -- before it too" 1 out '^args: --preset nonsense$'
check "and none of them is taken for ours" test -d "$work/own1" -a -d "$work/own2" -a ! -e "$work/taken"
