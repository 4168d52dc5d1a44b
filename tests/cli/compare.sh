#!/bin/sh
# inferprof compare: faster, slower, or not to be told.
. tests/cli/lib.sh
make_run=$PWD/$BUILD/tests/make_run

# metrics.json of a profiled run, as far as compare reads it: $1 file, $2 decode times, $3 driver
metrics() {
    cat >"$1" <<END
{"schema":"inferprof-metrics","schema_version":1,"run":{"id":"run-$3"},"device":{"name":"NVIDIA H200"},
 "stages":[{"name":"prefill","parent":null,"repeats_ms":[41.0,41.2,41.1,40.9,41.0],"time_ms":41.0},
           {"name":"sam","parent":"prefill","repeats_ms":[16.0,30.1],"time_ms":16.0},
           {"name":"decode","parent":null,"repeats_ms":[$2],"time_ms":630}],
 "figures":[{"key":"tokens_per_s","name":"Decode rate","unit":"tok/s","larger_is_better":true,"repeats":[101,102,101]},
            {"key":"joules_per_new_token","name":"Energy per new token","unit":"J/token","larger_is_better":false,"repeats":[$2]}],
 "kernels":[{"short_name":"gemv","category":"GEMV","owned_ns":1000000,"calls":10}],
 "operators":[{"name":"aten::mm","total_ns":2000000,"calls":10}],
 "environment":[{"group":"GPU","key":"Driver","value":"$3"},{"key":"OS","value":"Debian 12"}]}
END
}
metrics "$work/a.json" "630,631,629,630,632" 580.1
metrics "$work/b.json" "661,662,660,663,661" 580.2
metrics "$work/c.json" "630,632,628,631,630" 580.1

run "$INFERPROF" compare "$work/a.json" "$work/b.json"
expect "a slower stage is called slower, with its interval" 0 out "^decode .*\+4\.9.*\+2[0-9.]+ to \+3[0-9.]+.*5 / 5  slower" out "^prefill .*no difference shown" out "^Driver +580.1 +580.2"
check "what is the same is not listed" test "$(grep -c Debian "$work/out")" -eq 0
run "$INFERPROF" compare "$work/a.json" "$work/b.json" --fail-above 4
expect "more than allowed ends with 3" 3 err "decode is slower by 4.9"
run "$INFERPROF" compare "$work/a.json" "$work/b.json" --fail-above 10
expect "less than allowed ends with 0" 0
run "$INFERPROF" compare "$work/b.json" "$work/a.json" --fail-above 0
expect "faster is no failure, and joules are better, not faster" 0 out "decode .*faster" out "Energy per new token .*better"
run "$INFERPROF" compare "$work/a.json" "$work/c.json" --fail-above 0
expect "noise is no failure" 0 out "decode .*no difference shown"
run "$INFERPROF" compare "$work/a.json" "$work/b.json" --json
expect "JSON" 0 out '"verdict": "slower"'
check "is JSON" python3 -m json.tool "$work/out"
"$INFERPROF" compare "$work/a.json" "$work/b.json" --markdown >"$work/compare.md"
check "Markdown tables parse" python3 tests/tools/markdown_tables.py "$work/compare.md"

# ---- what A promised
with_findings() { sed "s/\"kernels\"/\"findings\":[$1],\"kernels\"/" "$2" >"$3"; }
bound='{"rule":"launch-bound","stage":"decode","saving_ms":33.5}' grids='{"rule":"small-grids","stage":"decode","saving_ms":5}'
with_findings "$bound,$grids,{\"rule\":\"unstable\",\"stage\":null},7" "$work/b.json" "$work/promise.json"
with_findings "$grids" "$work/a.json" "$work/kept.json"
run "$INFERPROF" compare "$work/promise.json" "$work/kept.json"
expect "a finding that is gone stands beside what its stage gained" 0 out "^decode +launch-bound +33.50 +31.00 +29.[0-9]+ to 32.[0-9]+$" \
    out "^decode .*faster"
check "one that stayed does not" test "$(grep -c small-grids "$work/out")" -eq 0
run "$INFERPROF" compare "$work/promise.json" "$work/a.json"
check "without findings in B nothing is said" test "$(grep -c launch-bound "$work/out")" -eq 0
run "$INFERPROF" compare "$work/promise.json" "$work/kept.json" --json
expect "promises in JSON" 0 out '"bound_ms": 33.5'

"$make_run" "$work/x.ipt" 12 40
"$make_run" "$work/y.ipt" 12 40 30
run "$INFERPROF" compare "$work/x.ipt" "$work/y.ipt" --fail-above 20
expect "traces compare too, and say that there are no repeats" 3 out "^decode .*\+[23][0-9.]+%.*no difference can be shown: too few repeats" err "decode is slower|prefill is slower"
run "$INFERPROF" compare "$work/a.json"
expect "one run is misuse" 2
run "$INFERPROF" compare "$work/a.json" "$work/none"
expect "a run that is not there" 1 err "none: no such run"
echo '{"schema":"other"}' >"$work/other.json"
run "$INFERPROF" compare "$work/a.json" "$work/other.json"
expect "a document of another kind" 1 err "not the metrics.json of a run"

# ---- edges
metrics "$work/once.json" "661" 580.1
run "$INFERPROF" compare "$work/a.json" "$work/once.json"
expect "one repeat shows no difference, however large" 0 out "^decode .*5 / 1  no difference can be shown: too few repeats"
sed 's/"name":"decode"/"name":"steps"/' "$work/b.json" >"$work/renamed.json"
run "$INFERPROF" compare "$work/a.json" "$work/renamed.json" --fail-above 4
expect "a stage that only one run has is said to be so, and fails nothing" 0 out "^decode .*only in A" out "^steps .*only in B"
echo '{"schema":"inferprof-metrics","schema_version":1,"run":{"id":"x"},"stages":[{"name":"sort","repeats_ms":[1,2],"time_ms":1}]}' >"$work/x.json"
run "$INFERPROF" compare "$work/a.json" "$work/x.json"
expect "runs with nothing in common can be looked at" 0 out "^decode .*only in A" out "^sort .*only in B"
run "$INFERPROF" compare "$work/a.json" "$work/x.json" --fail-above 4
expect "but not be a gate that passes" 1 err "no stage has a time in both runs"
sed 's/"run":{"id":"run-580.2"}/"run":{"id":"r","model":"qwen3-8b"}/' "$work/b.json" >"$work/qwen.json"
sed 's/"run":{"id":"run-580.1"}/"run":{"id":"r","model":"llama"}/' "$work/a.json" >"$work/llama.json"
run "$INFERPROF" compare "$work/llama.json" "$work/qwen.json"
expect "another model is named as such" 0 out "not of the same model, engine and device" out "^model +llama +qwen3-8b"
sed 's/"name":"decode","parent":null/"name":"decode","parent":null,"tokens":63/' "$work/a.json" >"$work/short.json"
sed 's/"name":"decode","parent":null/"name":"decode","parent":null,"tokens":127/' "$work/a.json" >"$work/long.json"
run "$INFERPROF" compare "$work/short.json" "$work/long.json" --markdown
expect "other numbers of tokens too" 0 out "did not read and make as many tokens" out "tokens of decode \| 63 \| 127"
run "$INFERPROF" compare "$work/a.json" "$work/a.json" --fail-above 0
expect "a run against itself: no difference shown, nothing to report" 0 out "^decode .*0\.00%.*no difference shown"
check "and no environment that differs" test "$(grep -c "what differs" "$work/out")" -eq 0
