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
expect "the report goes to stderr, stdout is the program's" 0 out '^hello$' err 'prefill' err 'run folder: one'
check "stdout has only the program's output" test "$(cat out)" = hello
for f in report.html report.md metrics.json kernels.csv env.json trace/nvml.ipt; do
    check "the run folder has $f" test -s "one/$f"
done
check "a finished run is not marked incomplete" test ! -e one/INCOMPLETE
run "$INFERPROF" trace dump -k power one/trace/nvml.ipt
expect "NVML is sampled; values that a GPU does not support are unknown" 0 out 'power_mw=300000' out 'device=1 .*power_mw=4294967295'
run "$INFERPROF" run -o one -- "$app" init
expect "a folder that is not empty is refused" 1 err 'one is not empty'

run "$INFERPROF" run -o secret -- "$app" init kernels=10 exit=0 --password 'hunter2 two words' HF_TOKEN=hunter2 https://me:hunter2@host
check "secrets in the arguments are in no file of the run folder" sh -c '[ -s secret/report.md ] && ! grep -rl hunter2 secret'
run "$INFERPROF" trace info secret/trace/*.ipt
expect "a trace holds the command line with its secrets masked" 0 out '--password [*]{3} HF_TOKEN=[*]{3} https://me:[*]{3}@host'
run "$INFERPROF" run -o two -- "$app" init kernels=10 exit=7
expect "the exit status is the program's" 7 err 'exit status 7'
run env --ignore-signal=CHLD "$INFERPROF" run -o ignored -- "$app" init kernels=10 exit=7
expect "the exit status is the program's, also if SIGCHLD is ignored" 7 err 'exit status 7'
run env --ignore-signal=CHLD,PIPE "$INFERPROF" run -q -o signals -- grep SigIgn /proc/self/status
check "the program has the signals that run was started with" sh -c "env --ignore-signal=CHLD,PIPE grep SigIgn /proc/self/status | diff - '$work/out'"
run "$INFERPROF" run -o three -- "$app" init kernels=10 sleep=1900 kill
expect "exit status 128 + n after signal n; the records from before are reported" 137 err 'signal 9' err 'run folder: three'
check "the report of a killed program is written" test -s three/report.md
run "$INFERPROF" run -o four -- true
expect "a program without CUDA: an error and status 1" 1 err 'nothing was recorded from true: none of its processes initialised CUDA'
for more in "--stage a=b" --counters "--counters --stage a=b"; do
    # shellcheck disable=SC2086 # several words
    run env LD_LIBRARY_PATH= "$INFERPROF" run -o "reason-$more" $more -- true
    expect "traces of inferprof itself are not traces of the program: $more" 1 err 'none of its processes initialised CUDA'
done
run "$INFERPROF" run -o five -- false
expect "the status of a program that fails is kept" 1 err 'false ended with exit status 1 before it initialised CUDA or NVTX: nothing was recorded'
check "the failure is one line" test "$(grep -cvE '^run folder' err)" -eq 1
run "$INFERPROF" run -o six --stage 'step=it *' -- no-such-program
expect "a program that does not exist" 1 err "cannot start 'no-such-program'"
check "no folder is left for a program that was not started" test ! -e six
# Two workers whose GPU is device 0 for each of them
cat >workers.sh <<EOF
CUDA_VISIBLE_DEVICES=0 "$app" init push=decode kernels=30 pop
CUDA_VISIBLE_DEVICES=1 "$app" init push=decode kernels=50 pop
EOF
run "$INFERPROF" run -o gpus -- sh workers.sh
expect "workers on different GPUs are recorded" 0 err 'run folder: gpus'
run python3 -c 'import json; print([(d["name"][-8:], d["kernels"]) for d in json.load(open("gpus/metrics.json"))["devices"] if d["kernels"]])'
expect "the report distinguishes their GPUs by UUID" 0 out "ock 9000', 30.*1g.10gb', 50"
run env MOCK_CUPTI=held "$INFERPROF" run -o seven -- "$app" init kernels=10
expect "the reason why nothing was recorded is printed" 1 err 'CUPTI allows one subscriber per process' err 'nothing was recorded'
run "$INFERPROF" run -o eight --stage 'step=it *' -- "$app" init push="it 1" kernels=10 pop push="it 2" kernels=10 pop
expect "--stage makes stages" 0 err '^step '
same_report "a second report of the run is the same, stage rules included" eight
run "$INFERPROF" run -o graphs --graphs graph -- "$app" init push=decode graphs=50 pop
expect "whole graphs: idle time is not classified, with the reason" 0 err 'idle time not classified: CUDA graphs were recorded as a whole'
run "$INFERPROF" run -o part --range 'decode*' -- "$app" init push=prefill kernels=50 sleep=20 pop push=decode kernels=50 pop
expect "a partial capture: its share is reported, nothing is extrapolated" 0 err 'kernels were recorded in [0-9.]+% of the time \(1 window\)' \
    err '^prefill .*–'
run "$INFERPROF" run --stage nonsense -- true
expect "a stage rule without a pattern is misuse" 2 err 'is not NAME=GLOB'
run "$INFERPROF" run
expect "no program is misuse" 2 err 'PROGRAM'
run "$INFERPROF" run -o nine --preset min -- "$app" init push=r kernels=10 pop
expect "--preset min runs" 0
run "$INFERPROF" trace info nine/trace/*-*.ipt
check "--preset min records no kernels" sh -c '! grep -q "^ *kernel " out'
run env NVTX_INJECTION64_PATH=/opt/other.so "$INFERPROF" run -o ten -- "$app" init kernels=10
expect "an injection variable set by the user is kept, with a warning" 0 err 'NVTX_INJECTION64_PATH=/opt/other.so is already set'
run "$INFERPROF" run --counters -o counters -- "$app" init push=r kernels=10 pop exit=0
expect "counters that cannot be sampled: one warning with the remedy, the run continues" 0 err 'hardware counters are not sampled: .*inferprof doctor' \
    err 'run folder: counters'
run "$INFERPROF" run --counters --counter-interval 0 -- "$app" init
expect "a counter interval of 0 is misuse" 2 err "--counter-interval: 0 is out of range; expected 1 to 1000000"
run "$INFERPROF" run -- "$app" init push=r pop
expect "the default folder is named by time and program" 0 err 'run folder: runs/[0-9]{8}-[0-9]{6}-mock_app'
"$INFERPROF" run -o eleven -- sh -c 'trap "exit 9" TERM; echo ready; while :; do sleep 0.05; done' >out 2>err &
pid=$!
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do grep -q ready out && break; sleep 0.1; done
kill -TERM $pid
wait $pid
status=$?
expect "signals are forwarded, and the run is finished" 9 err 'run folder: eleven'

# ---- a full disk while the report is written: files over 8 KiB fail (SIGXFSZ is ignored, as a full disk sends no signal)
run sh -c 'trap "" XFSZ; ulimit -f 16; exec "$@"' sh "$INFERPROF" run -o "$work/full" -- "$app" init push=decode kernels=20 pop
expect "a report that cannot be written is a failure" 1 err 'full/[^ ]*: File too large'
check "INCOMPLETE says that the report could not be written" grep -q 'Cannot write the report' "$work/full/INCOMPLETE"
run "$INFERPROF" report "$work/full"
expect "the report can be made later" 0

# ---- options after the program's name belong to the program, with and without --
cat >"$work/args" <<'END'
#!/bin/sh
echo "args: $*"
END
chmod +x "$work/args"
run "$INFERPROF" run -q -o "$work/own1" "$work/args" -o "$work/taken" --foo -q -- x
expect "options after the program belong to it" 1 out "^args: -o $work/taken --foo -q -- x\$"
run "$INFERPROF" run -q -o "$work/own2" -- "$work/args" --preset nonsense
expect "options after -- and the program belong to it" 1 out '^args: --preset nonsense$'
check "inferprof ignores the program's options" test -d "$work/own1" -a -d "$work/own2" -a ! -e "$work/taken"
