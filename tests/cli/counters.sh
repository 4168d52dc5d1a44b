#!/bin/sh
# Hardware counters, with a mock of PM sampling (tests/mock/pm.c).
. tests/cli/lib.sh
mock=$PWD/$BUILD/tests/mock
app=$mock/mock_app
sampler=$PWD/$BUILD/inferprof-counters
export LD_LIBRARY_PATH="$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
cd "$work" || exit 1
work=$PWD
unset CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH

# wait_for_answer: until the sampler has answered in the file `answers`, and 0.2 s longer
wait_for_answer() {
    tries=0
    until [ -s answers ] || [ $((tries += 1)) -gt 150 ]; do sleep 0.02; done
    sleep 0.2
}

# sample BEHAVIOUR [DEVICE...]: samples for 0.2 s; leaves its answer in `answers` and the meta of its trace in `out`
sample() {
    how=$1
    shift
    rm -f c.ipt answers
    wait_for_answer | MOCK_PM=$how "$sampler" c.ipt 100000 "$@" >answers 2>"$work/err"
    run "$INFERPROF" trace dump --kind meta c.ipt
}
sample on 0
expect "samples are contiguous, triggered by time" 0 out 'samples [1-9][0-9]+, missing 0, overflows 0, out of order 0, trigger by time, chip GH100'
check "the metrics are listed when sampling has started" grep -q '^ready sm__cycles_active.*;gpc__cycles_elapsed' answers
run "$INFERPROF" trace dump --kind sample --json c.ipt
expect "values are in the order of the metrics" 0 out '"v0":50,"v1":25,"v2":30,"v3":10,"v4":40,"v5":1500000000,'
sample on
expect "every GPU is sampled" 0 out 'counters.0.*samples [1-9][0-9]+, missing 0,' out 'counters.1.*samples [1-9][0-9]+, missing 0,'
sample on,second=43
expect "if one GPU cannot be sampled, the other is" 0 out 'counters.0.*samples [1-9]' out 'problem.*counters of GPU 1: .*MIG.*use the whole GPU'
sample on,first=43
expect "if the first GPU cannot be sampled, the second is" 0 out 'counters.1.*samples [1-9]' out 'problem.*counters of GPU 0: .*MIG.*use the whole GPU'
check "the ready line lists the metrics of a GPU that is sampled" grep -q '^ready sm__cycles_active' answers
sample on,die=999 0
expect "if sampling fails midway, earlier samples are kept and the error is reported" 0 out 'problem.*counters of GPU 0: decoding samples.*999' out 'samples [1-9]'
sample on,clock 0
expect "a chip that cannot trigger by time triggers by clock" 0 out 'samples [1-9].* missing 0,.* trigger by clock'
sample on,narrow 0
check "as many metrics as fit into one pass" test "$(tr ';' '\n' <answers | wc -l)" = 3
sample on,gap 0
expect "samples that were not delivered are counted" 0 out 'missing [1-9][0-9]+, overflows 0'
run "$INFERPROF" trace info c.ipt
expect "missing samples are in the trace info" 0 out 'lost'
sample on,disorder 0
expect "samples out of order are counted and kept, none is missing" 0 out 'missing 0, overflows 0, out of order [1-9]'
sample on,full 0
expect "a hardware overflow is counted" 0 out 'overflows [1-9]'
sample on,choke 0
expect "a backlog that cannot be decoded is lost, later samples are not" 0 out 'samples [1-9][0-9]+, .* overflows 1,'

sample on,stuck 0
expect "a sampler that hangs in CUPTI exits, with a message" 0 out 'did not stop within 2 s'
rm -f c.ipt
mkfifo open
exec 9<>open
MOCK_PM=on,stuck timeout -k 3 1 "$sampler" c.ipt 100000 0 <&9 >answers 2>/dev/null
check "a sampler that hangs in CUPTI exits on SIGTERM" test $? -eq 124
exec 9<&-

# pause and resume: the pause is not a gap in the samples
rm -f c.ipt answers
mkfifo commands
MOCK_PM=on "$sampler" c.ipt 100000 0 <commands >answers 2>/dev/null &
exec 8>commands
wait_for_answer
wait_for_lines() {
    tries=0
    until [ "$(wc -l <answers)" -ge "$1" ] || [ $((tries += 1)) -gt 150 ]; do sleep 0.02; done
}
echo pause >&8
wait_for_lines 2
sleep 0.3
echo resume >&8
wait_for_lines 3
sleep 0.1
exec 8>&-
wait
check "pause and resume are answered" test "$(cut -c1-6 answers | tr '\n' ' ')" = "ready  paused ready "
run "$INFERPROF" trace dump --kind meta c.ipt
expect "samples from before and after a pause, none missing" 0 out 'samples [1-9][0-9]+, missing 0,'

# Counters that cannot be sampled: one line with the remedy, and the run continues.
refused() { # NAME BEHAVIOUR PATTERN
    rm -rf refused
    run env MOCK_PM="on,$2" "$INFERPROF" run --counters -o refused -- "$app" init push=prefill kernels=100 pop
    expect "$1: one line with the remedy, the run continues" 0 err "hardware counters are not sampled: .*$3" err 'prefill'
    check "$1: reported once" test "$(grep -c 'warning.*ounters' err)" = 1
}
refused "counters for administrators only" fail=35 'ERR_NVGPUCTRPERM.*NVreg_RestrictProfilingToAdminUsers=0'
refused "counters in use by DCGM" fail=26 'dcgmi profile --pause'
refused "counters in use by another inferprof" ask=26 'a second inferprof.*stop it'
refused "a MIG slice" fail=43 'MIG.*use the whole GPU'
refused "a virtual GPU" fail=33 'the host must enable profiling'
refused "a virtual GPU without the right" fail=40 'the host must enable profiling'
refused "a confidential GPU" fail=41 'confidential computing is enabled'
refused "a GPU without PM sampling" fail=27 'Turing or later'

run env MOCK_PM=on "$INFERPROF" run --counters -o full -- "$app" init push=prefill kernels=2000 sleep=100 kernels=2000 pop
expect "a run with counters succeeds" 0 err 'prefill'
check "the report has counters" grep -q 'Hardware counters and model estimates' full/report.md
check "the default interval is 100 us" grep -q '"interval_ns": *100000,' full/metrics.json
check "metrics.json has the fitted counters" grep -q '"standard_error":' full/metrics.json
run env MOCK_PM=on "$INFERPROF" run --preset max -o max -- "$app" init push=prefill kernels=2000 sleep=100 pop
expect "--preset max samples counters" 0
check "--preset max samples every 20 us" grep -q '"interval_ns": *20000,' max/metrics.json
run env MOCK_PM=on,second=35 "$INFERPROF" run --counters -o half -- "$app" init push=prefill kernels=2000 sleep=100 kernels=2000 pop
expect "a run with one GPU without counters succeeds" 0 err 'prefill'
check "the report names the GPU without counters" grep -q 'counters of GPU 1: .*only administrators' half/report.md
