#!/bin/sh
# --ncu and --nsys with fake tools that succeed and fail.
. tests/cli/lib.sh
mock=$PWD/$BUILD/tests/mock
app=$mock/mock_app
fake=$PWD/$BUILD/tests/fake_engine
export LD_LIBRARY_PATH="$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
cd "$work" || exit 1
work=$PWD
unset CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH
mkdir tools nothing
cat >tools/ncu <<'EOF'
#!/bin/sh
printf '%s\n' "$@" >"$SEEN/ncu.args"
[ -z "$CREATES" ] || touch "$CREATES"
csv=
while [ $# -gt 0 ]; do
    case $1 in --log-file) csv=$2 ;; esac
    shift
done
row() { printf '"%s","1","x","h","%s","1","7","(256, 1, 1)","%s","0","9.0","2100","55.5","33.25","44.4","12.5","77.5","3.5"\n' "$@"; }
head() {
    echo '==PROF== Connected to process 1'
    printf '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",'
    printf '"gpu__time_duration.sum","sm__throughput.avg.pct_of_peak_sustained_elapsed","gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",'
    printf '"sm__warps_active.avg.pct_of_peak_sustained_active","l1tex__t_sector_hit_rate.pct","lts__t_sector_hit_rate.pct",'
    printf '"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"\n'
    echo '"","","","","","","","","","","","ns","%","%","%","%","%","inst"'
}
grid='(132, 2, 1)'
case $FAKE in
good) { head; row 0 _Z9gemm_bf16PfS_ "$grid"; row 1 rms_norm "$grid"; row 2 _ZN5flash4attnEv "$grid"; } >"$csv" ;;
part) { head; row 0 rms_norm "$grid"; echo '==ERROR== Failed to profile "attn"'; } >"$csv"; exit 1 ;;
wrong) { head; row 0 somebody_elses_kernel "$grid"; } >"$csv" ;;
other_grid) { head; row 0 rms_norm '(7, 1, 1)'; } >"$csv" ;;
empty) echo '==WARNING== No kernels were profiled.' >"$csv" ;;
refused) echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters' >"$csv"; exit 1 ;;
silent) ;;
hang) { head; row 0 rms_norm "$grid"; } >"$csv"; sleep 60 & echo $! >"$SEEN/child"; sleep 60 ;;
esac
exit 0
EOF
cat >tools/nsys <<'EOF'
#!/bin/sh
printf '%s\n' "$@" >"$SEEN/nsys.args"
[ -z "$CREATES" ] || [ ! -e "$CREATES" ] || touch "$SEEN/left"
while [ $# -gt 0 ]; do
    case $1 in --output) base=$2 ;; esac
    shift
done
case $FAKE in
good) echo report >"$base.nsys-rep" ;;
raw) echo raw >"$base.qdstrm" ;;
late) trap 'echo report >"$base.nsys-rep"; exit 0' INT; for _ in $(seq 600); do sleep 0.1; done ;;
broken) echo report >"$base.nsys-rep"; echo 'some error: it broke'; exit 3 ;;
esac
exit 0
EOF
chmod +x tools/ncu tools/nsys
export SEEN="$work"
work_load="init push=prefill kernels=30 pop push=decode kernels=40 pop push=decode kernels=40 pop push=decode kernels=40 pop"

# tool BEHAVIOUR OPTIONS...: one run with the fake tools
tool() {
    how=$1
    shift
    rm -rf r ncu.args nsys.args
    # shellcheck disable=SC2086
    run env FAKE="$how" PATH="$work/tools:$PATH" "$INFERPROF" run "$@" -o r -- "$app" $work_load
}
tool good --ncu
expect "--ncu profiles the kernels with the most time" 0 err 'running it again under Nsight Compute: 3 kernels of decode'
check "kernels.md shows the counters of ncu" grep -q 'ncu achieved occupancy.*ncu L1 hit' r/kernels.md
check "report.html shows the counters of ncu" grep -q 'ncu achieved occupancy' r/report.html
counters='[(k["ncu"]["sm_pct"], k["ncu"]["dram_pct"], k["ncu"]["l2_hit_pct"], k["ncu"]["stall"]) for k in d["kernels"] if "ncu" in k]'
check "metrics.json holds throughput, hit rate and stall per kernel" \
    json_is r/metrics.json "(${counters})[0], len(${counters})" "((55.5, 33.25, 77.5, 'long_scoreboard'), 3)"
check "the CSV of ncu is kept" test -s r/ncu/1-decode.csv
check "ncu does not change the clocks" sh -c 'tr "\n" " " <ncu.args | grep -q -- "--clock-control none"'
check "ncu selects the kernels by name" sh -c 'grep -q "^regex:^(.*rms_norm.*)\$\$" ncu.args'
check "ncu is limited to the NVTX range of the stage" sh -c 'tr "\n" " " <ncu.args | grep -q -- "--nvtx --nvtx-include decode/"'
check "ncu skips to the middle step and profiles three launches" sh -c 'tr "\n" " " <ncu.args | grep -q -- "--launch-skip 40 --launch-count 3 "'
tool good --ncu --ncu-stage prefill --ncu-top 2
expect "--ncu-stage and --ncu-top select stage and number of kernels" 0 err '2 kernels of prefill'
check "ncu skips nothing in a stage that occurs once" sh -c 'tr "\n" " " <ncu.args | grep -q -- "--nvtx-include prefill/ --nvtx-include inferprof:stage prefill/ --launch-skip 0 --launch-count 2 "'
tool good --ncu --ncu-stage nowhere
expect "an unknown --ncu-stage is an error" 1 err "no kernel of a stage 'nowhere'"
tool part --ncu
expect "a failing ncu is reported with its last error, and its results are kept" 0 \
    err 'ncu ended with exit status 1: ==ERROR== Failed to profile' err 'measured 1 of 3 kernels'
check "metrics.json holds the kernel that ncu measured" json_is r/metrics.json "$counters" "[(55.5, 33.25, 77.5, 'long_scoreboard')]"
tool wrong --ncu
expect "results for other kernels are an error" 1 err 'measured 1 launches, none of the requested kernels'
check "results for other kernels are not in metrics.json" lacks somebody r/metrics.json
tool other_grid --ncu
expect "the same kernel name with another grid is another kernel" 1 err 'none of the requested kernels'
tool empty --ncu
expect "an ncu that matches no launch is an error with the reason" 1 err 'measured nothing: no launch matched' err 'No kernels were profiled'
check "the report states that ncu measured nothing" grep -q 'measured nothing' r/report.md
tool refused --ncu
expect "a permission error of ncu is reported in its words" 1 err 'ERR_NVGPUCTRPERM'
tool silent --ncu
expect "an ncu that writes nothing is an error" 1 err 'measured nothing'
tool hang --ncu --tool-limit 1
expect "an ncu that hangs is ended, and its results are kept" 0 err 'timed out after 1 s and was stopped' err 'measured 1 of 3'
check "the children of an ncu that hangs are ended" gone "$(cat child)"
run env PATH="$work/nothing:/usr/bin:/bin" "$INFERPROF" run --ncu --nsys -o none -- "$app" init push=decode kernels=10 pop
expect "missing tools are an error, and the run is kept" 1 err 'Nsight Compute \(ncu\) found neither' err 'Nsight Systems \(nsys\) found neither' err 'run folder: none'
check "a run with missing tools has a report" test -s none/report.html
tool good --nsys
expect "--nsys runs the program under Nsight Systems" 0 err 'running it again under Nsight Systems'
check "the run folder holds the report of nsys" test -s r/nsys/report.nsys-rep
check "nsys records CUDA and NVTX, and waits for the program only" sh -c 'tr "\n" " " <nsys.args | grep -q -- "--trace cuda,nvtx --sample none --cpuctxsw none --wait primary"'
tool raw --nsys
expect "an nsys that leaves only raw data is an error" 1 err 'wrote no report, only its raw data'
tool broken --nsys
expect "the report of a failing nsys is kept" 0 err 'nsys ended with exit status 3: some error: it broke; its report is kept'
tool silent --nsys
expect "an nsys that leaves nothing is an error" 1 err 'Nsight Systems wrote no report and no raw data; its output is in nsys/nsys.log'
tool late --nsys --tool-limit 1
expect "an nsys that is late saves its report" 0 err 'nsys timed out after 1 s and was stopped; its report is kept'
rm -rf f
run env FAKE=good PATH="$work/tools:$PATH" "$INFERPROF" run --ncu -o f -- "$app" init push=decode kernels=10 pop exit=3
expect "a program that failed is not run again under ncu" 3 err 'not run again under Nsight'

# ---- the same for an engine, which gets the requests of the representative run again
cat >engine.sh <<EOF
#!/bin/sh
"$app" init push=decode kernels=30 pop
exec "\$@"
EOF
chmod +x engine.sh
mkdir -p conf/engine data
printf 'defaults: [native, _self_]\nname: fake\ncommand: [x]\ndevices: [cpu, cuda]\n' >conf/engine/fake.yaml
export XDG_CACHE_HOME="$work/cache"
echo '{"prompt": "one"}' >data/p.jsonl
engine() { # BEHAVIOUR OPTIONS...
    how=$1
    shift
    rm -rf runs state ncu.args
    run env FAKE="$how" PATH="$work/tools:$PATH" "$INFERPROF" profile --conf-dir conf engine=fake dataset=prompts dataset.prompts="$work/data/p.jsonl" \
        repeats=2 infer.max_new_tokens=4 peak.tflops=0.1 peak.gbps=10 output.dir="$work/runs" output.run_id=e device=cuda:0 \
        "engine.command=[$work/engine.sh, $fake, $work/state]" "$@"
}
engine good --ncu
expect "profile --ncu runs the engine under ncu" 0 err 'running it again under Nsight Compute: 3 kernels of decode'
check "metrics.json of the engine's run holds the counters" json_is runs/e/metrics.json "(${counters})[0]" "(55.5, 33.25, 77.5, 'long_scoreboard')"
check "report.md of the engine's run shows the counters" grep -q "ncu achieved occupancy" runs/e/report.md
check "engine_requests.jsonl holds the requests from hello to bye" python3 -c '
import json
ops = [json.loads(line)["op"] for line in open("runs/e/engine_requests.jsonl")]
assert ops[0] == "hello" and "infer" in ops and ops[-1] == "bye", ops'
check "ncu starts the engine itself" grep -q 'engine.sh$' ncu.args
export CREATES="$work/runs/e/nsight.ipt" # the engine creates this trace, and does not overwrite one
engine good --ncu --nsys
unset CREATES
expect "profile runs the engine under ncu, then under nsys" 0 err 'running it again under Nsight Systems'
check "the engine's trace is removed before each tool" test ! -e left
engine empty --ncu
expect "profile --ncu fails when no launch matches" 1 err 'measured nothing'
check "the report of the engine's run states that ncu measured nothing" grep -q 'measured nothing' runs/e/report.md
# the native engine's own records have names of operators, which ncu cannot find
if "$INFERPROF" --version | grep -q 'NVIDIA GPUs of compute'; then
    for options in "" "--ncu"; do
        # shellcheck disable=SC2086 # no option, or one
        engine good engine.name=native profiling.counters=false $options
        expect "profile ${options:-without tools} of the native engine succeeds" 0
        if [ "$options" ]; then want="stages graph with"; else want="operators auto without"; fi
        check "recorded detail, kind of decoding and collector of the native engine ${options:-without tools}: $want" python3 - "$want" <<'END'
import json, os, sys
log, run = open("runs/e/inferprof.log").read(), json.load(open("runs/e/metrics.json"))
detail = log.split("representative run: ")[1].split("detail ")[1].split("\n")[0].strip()
noted = any("the native engine ran with engine.decode=graph, and its kernels were recorded by the collector" in p for p in run["problems"])
kernels = any(k.get("name", "").startswith("rms_norm") for k in run["kernels"])
assert noted == kernels, (noted, run["problems"])
decode = "auto"
if os.path.exists("runs/e/engine_requests.jsonl"):
    sent = {r["op"]: r for r in map(json.loads, open("runs/e/engine_requests.jsonl"))}
    decode = sent["load"].get("decode")
    assert sent["infer"]["detail"] == detail, sent["infer"]
assert f"{detail} {decode} {'with' if kernels else 'without'}" == sys.argv[1], (detail, decode, kernels)
END
    done
else
    skip_without_nvcc "profile --ncu of the native engine"
fi
engine good --ncu device=cpu
expect "profile --ncu on the CPU is skipped with a note" 0 err 'need a GPU'
