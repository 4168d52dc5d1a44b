#!/bin/sh
# Hardware counters against a mock of PM sampling (tests/mock/pm.c).
. tests/cli/lib.sh
mock=$PWD/$BUILD/tests/mock
app=$mock/mock_app
sampler=$PWD/$BUILD/inferprof-counters
export LD_LIBRARY_PATH="$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
cd "$work" || exit 1
work=$PWD
unset CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH

# Until the sampler samples, or has said why it does not, and a moment longer.
a_moment() {
    tries=0
    until [ -s said ] || [ $((tries += 1)) -gt 150 ]; do sleep 0.02; done
    sleep 0.2
}

# sampled BEHAVIOUR [DEVICE...]: samples for a moment; what it says of itself is in out
sampled() {
    how=$1
    shift
    rm -f c.ipt said
    a_moment | MOCK_PM=$how "$sampler" c.ipt 100000 "$@" >said 2>"$work/err"
    run "$INFERPROF" trace dump --kind meta c.ipt
}
sampled on 0
expect "samples come without a gap, by time" 0 out 'samples [1-9][0-9]+, missing 0, overflows 0, out of order 0, trigger by time, chip GH100'
check "it says what it samples once it does" grep -q '^ready sm__cycles_active.*;gpc__cycles_elapsed' said
run "$INFERPROF" trace dump --kind sample --json c.ipt
expect "values are in the order of the metrics" 0 out '"v0":50,"v1":25,"v2":30,"v3":10,"v4":40,"v5":1500000000,'
sampled on
expect "every GPU is sampled" 0 out 'counters.0.*samples [1-9][0-9]+, missing 0,' out 'counters.1.*samples [1-9][0-9]+, missing 0,'
sampled on,second=43
expect "one GPU that cannot be sampled: the other is" 0 out 'counters.0.*samples [1-9]' out 'problem.*counters of GPU 1: .*MIG.*use the whole GPU'
sampled on,die=999 0
expect "sampling that fails on the way leaves what it had, and says so" 0 out 'problem.*counters of GPU 0: decoding samples.*999' out 'samples [1-9]'
sampled on,clock 0
expect "where the chip cannot trigger by time, by clock" 0 out 'samples [1-9].* missing 0,.* trigger by clock'
sampled on,narrow 0
check "as many metrics as one pass takes" test "$(tr ';' '\n' <said | wc -l)" = 3
sampled on,gap 0
expect "samples that never came are counted" 0 out 'missing [1-9][0-9]+, overflows 0'
run "$INFERPROF" trace info c.ipt
expect "and the trace says so" 0 out 'lost'
sampled on,disorder 0
expect "samples out of order are counted and kept, none is missed" 0 out 'missing 0, overflows 0, out of order [1-9]'
sampled on,full 0
expect "an overflow of the hardware is counted" 0 out 'overflows [1-9]'
sampled on,choke 0
expect "more than can be decoded: that is lost, the rest is not" 0 out 'samples [1-9][0-9]+, .* overflows 1,'

sampled on,stuck 0
expect "a sampler that CUPTI holds ends all the same, and says so" 0 out 'did not stop within 2 s'
rm -f c.ipt
mkfifo open
exec 9<>open
MOCK_PM=on,stuck timeout -k 3 1 "$sampler" c.ipt 100000 0 <&9 >said 2>/dev/null
check "also on SIGTERM: it need not be killed" test $? -eq 124
exec 9<&-

# Others may have the counters meanwhile; the pause is no gap in the samples.
rm -f c.ipt said
mkfifo words
MOCK_PM=on "$sampler" c.ipt 100000 0 <words >said 2>/dev/null &
exec 8>words
a_moment
said_all() {
    tries=0
    until [ "$(wc -l <said)" -ge "$1" ] || [ $((tries += 1)) -gt 150 ]; do sleep 0.02; done
}
echo pause >&8
said_all 2
sleep 0.3
echo resume >&8
said_all 3
sleep 0.1
exec 8>&-
wait
check "a pause and its end are answered" test "$(cut -c1-6 said | tr '\n' ' ')" = "ready  paused ready "
run "$INFERPROF" trace dump --kind meta c.ipt
expect "samples from before and after a pause, none missed" 0 out 'samples [1-9][0-9]+, missing 0,'

# No permission: one line with the remedy, and everything else goes on.
refused() { # NAME BEHAVIOUR PATTERN
    rm -rf refused
    run env MOCK_PM="on,$2" "$INFERPROF" run --counters -o refused -- "$app" init push=prefill kernels=100 pop
    expect "$1: one line with the remedy, the run goes on" 0 err "hardware counters are not sampled: .*$3" err 'prefill'
    check "$1: said once" test "$(grep -c 'warning.*ounters' err)" = 1
}
refused "counters for administrators only" fail=35 'ERR_NVGPUCTRPERM.*NVreg_RestrictProfilingToAdminUsers=0'
refused "counters held by DCGM" fail=26 'dcgmi profile --pause'
refused "counters that another inferprof samples" ask=26 'a second inferprof.*stop it'
refused "a MIG slice" fail=43 'MIG.*use the whole GPU'
refused "a virtual GPU" fail=33 'its host must allow profiling'
refused "a virtual GPU without the right" fail=40 'its host must allow profiling'
refused "a confidential GPU" fail=41 'confidential computing is on'
refused "a GPU without PM sampling" fail=27 'Turing or later'

run env MOCK_PM=on "$INFERPROF" run --counters -o full -- "$app" init push=prefill kernels=2000 sleep=100 kernels=2000 pop
expect "a run with counters" 0 err 'prefill'
check "counters in the report" grep -q 'Measured by hardware counters' full/report.md
check "the preset's interval" grep -q '"interval_ns": *100000,' full/metrics.json
check "every class and stage in metrics.json" grep -q '"standard_error":' full/metrics.json
run env MOCK_PM=on "$INFERPROF" run --preset max -o max -- "$app" init push=prefill kernels=2000 sleep=100 pop
expect "the largest preset samples too" 0
check "five times as often" grep -q '"interval_ns": *20000,' max/metrics.json
run env MOCK_PM=on,second=35 "$INFERPROF" run --counters -o half -- "$app" init push=prefill kernels=2000 sleep=100 kernels=2000 pop
expect "a GPU without counters does not end the run" 0 err 'prefill'
check "the report says of which GPU there are none" grep -q 'counters of GPU 1: .*only administrators' half/report.md
