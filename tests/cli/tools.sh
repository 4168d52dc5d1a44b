#!/bin/sh
# --ncu and --nsys against fake tools that behave and misbehave.
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
while [ $# -gt 0 ]; do
    case $1 in --output) base=$2 ;; esac
    shift
done
case $FAKE in
good) echo report >"$base.nsys-rep" ;;
raw) echo raw >"$base.qdstrm" ;;
broken) echo report >"$base.nsys-rep"; echo 'some error: it broke'; exit 3 ;;
esac
exit 0
EOF
chmod +x tools/ncu tools/nsys
export SEEN="$work"
work_load="init push=prefill kernels=30 pop push=decode kernels=40 pop push=decode kernels=40 pop push=decode kernels=40 pop"

# tool BEHAVIOUR OPTIONS...: one run under the fake tools
tool() {
    how=$1
    shift
    rm -rf r ncu.args nsys.args
    # shellcheck disable=SC2086
    run env FAKE="$how" PATH="$work/tools:$PATH" "$INFERPROF" run "$@" -o r -- "$app" $work_load
}
tool good --ncu
expect "Nsight Compute on the kernels with the most time" 0 err 'running it again under Nsight Compute: 3 kernels of decode'
check "its figures stand beside ours in Markdown" grep -q 'ncu occupancy.*ncu L1 hit' r/kernels.md
check "in the page" grep -q 'ncu occupancy' r/report.html
check "in metrics.json: throughput, hit rates, stalls" sh -c 'grep -q "\"l2_hit_pct\": 77.5" r/metrics.json && grep -q long_scoreboard r/metrics.json'
check "and its own file is kept" test -s r/ncu/1-decode.csv
check "clocks are left alone" sh -c 'tr "\n" " " <ncu.args | grep -q -- "--clock-control none"'
check "kernels by name" sh -c 'grep -q "^regex:^(.*rms_norm.*)\$\$" ncu.args'
check "in the range of their stage" sh -c 'tr "\n" " " <ncu.args | grep -q -- "--nvtx --nvtx-include decode/"'
check "the middle step: 40 launches are skipped, three are looked at" sh -c 'tr "\n" " " <ncu.args | grep -q -- "--launch-skip 40 --launch-count 3 "'
tool good --ncu --ncu-stage prefill --ncu-top 2
expect "one stage alone, two kernels" 0 err '2 kernels of prefill'
check "its range, nothing skipped" sh -c 'tr "\n" " " <ncu.args | grep -q -- "--nvtx-include prefill/ --nvtx-include inferprof:stage prefill/ --launch-skip 0 --launch-count 2 "'
tool good --ncu --ncu-stage nowhere
expect "a stage that is not there is said, and fails" 1 err "no kernel of a stage 'nowhere'"
tool part --ncu
expect "a failed pass: said with its own words, and what was measured is shown" 0 \
    err 'ncu ended with exit status 1: ==ERROR== Failed to profile' err 'measured 1 of 3 kernels'
check "what there is" grep -q '"l2_hit_pct": 77.5' r/metrics.json
tool wrong --ncu
expect "other kernels than asked for: no success" 1 err 'measured 1 launches, none of them of the kernels asked for'
check "and not in the report" sh -c '! grep -q somebody r/metrics.json'
tool other_grid --ncu
expect "the right name with another geometry is another kernel" 1 err 'none of them of the kernels asked for'
tool empty --ncu
expect "nothing matched: no success, and why" 1 err 'measured nothing: no launch matched' err 'No kernels were profiled'
check "the report says so too" grep -q 'measured nothing' r/report.md
tool refused --ncu
expect "no permission: its own words" 1 err 'ERR_NVGPUCTRPERM'
tool silent --ncu
expect "a tool that writes nothing" 1 err 'measured nothing'
tool hang --ncu --tool-limit 1
expect "a tool that hangs is ended; what it had is kept" 0 err 'was not done after 1 s and was ended' err 'measured 1 of 3'
check "with its children" gone "$(cat child)"
run env PATH="$work/nothing:/usr/bin:/bin" "$INFERPROF" run --ncu --nsys -o none -- "$app" init push=decode kernels=10 pop
expect "tools that are not there: said, the run is kept, the status is 1" 1 err 'Nsight Compute \(ncu\) is neither' err 'Nsight Systems \(nsys\) is neither' err 'run folder: none'
check "its report is whole" test -s none/report.html
tool good --nsys
expect "Nsight Systems" 0 err 'running it again under Nsight Systems'
check "its report is in the run folder" test -s r/nsys/report.nsys-rep
check "for CUDA and NVTX" grep -q '^cuda,nvtx' nsys.args
tool raw --nsys
expect "raw data alone is no report" 1 err 'left no report, only its raw data'
tool broken --nsys
expect "a failure that left a report" 0 err 'nsys ended with exit status 3: some error: it broke; its report is kept'
tool silent --nsys
expect "nothing at all" 1 err 'Nsight Systems left no report'
rm -rf f
run env FAKE=good PATH="$work/tools:$PATH" "$INFERPROF" run --ncu -o f -- "$app" init push=decode kernels=10 pop exit=3
expect "a program that failed is not run again" 3 err 'not run again under Nsight'

# ---- the same for an engine: it gets the requests of the representative run again
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
expect "Nsight Compute under profile" 0 err 'running it again under Nsight Compute: 3 kernels of decode'
check "its figures are in the report" sh -c 'grep -q "\"l2_hit_pct\": 77.5" runs/e/metrics.json && grep -q "ncu occupancy" runs/e/report.md'
check "what the engine was asked, from hello to bye" sh -c 'head -n 1 runs/e/engine_requests.jsonl | grep -q hello && tail -n 1 runs/e/engine_requests.jsonl | grep -q bye'
check "the engine itself is what runs under it" grep -q 'engine.sh$' ncu.args
engine empty --ncu
expect "nothing matched: no success" 1 err 'measured nothing'
check "and the report says so" grep -q 'measured nothing' runs/e/report.md
engine good --ncu device=cpu
expect "on the CPU there is nothing to look at" 1 err 'look at a GPU'
