#!/bin/sh
# inferprof compare: faster, slower, or no difference shown.
. tests/cli/lib.sh
make_run=$PWD/$BUILD/tests/make_run

# metrics FILE DECODE_TIMES DRIVER: writes the parts of metrics.json that compare reads
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
expect "a slower stage is reported with its confidence interval" 0 out "^decode .*\+4\.9.*\+2[0-9.]+ to \+3[0-9.]+.*5 / 5  slower" out "^prefill .*no difference shown" out "^Driver +580.1 +580.2"
check "an equal environment value is not listed" lacks Debian "$work/out"
run "$INFERPROF" compare "$work/a.json" "$work/b.json" --fail-above 4
expect "--fail-above exits with 3 above the threshold" 3 err "decode is slower by 4.9"
run "$INFERPROF" compare "$work/a.json" "$work/b.json" --fail-above 10
expect "--fail-above exits with 0 below the threshold" 0
run "$INFERPROF" compare "$work/b.json" "$work/a.json" --fail-above 0
expect "a faster run passes --fail-above, and less energy is better, not faster" 0 out "decode .*faster" out "Energy per new token .*better"
run "$INFERPROF" compare "$work/a.json" "$work/c.json" --fail-above 0
expect "noise passes --fail-above" 0 out "decode .*no difference shown"
run "$INFERPROF" compare "$work/a.json" "$work/b.json" --json
expect "compare --json succeeds" 0
check "compare --json has a verdict per stage" json_is "$work/out" '{s["name"]: s["verdict"] for s in d["stages"]}' \
    "{'prefill': 'no difference shown', 'sam': 'no difference shown', 'decode': 'slower'}"
check "compare --json has values, repeats and interval" json_is "$work/out" \
    '[(s["a"], s["b"], s["a_repeats"], s["difference_of_means"], round(s["ci95_low"], 2), round(s["ci95_high"], 2)) for s in d["stages"] if s["name"] == "decode"]' \
    '[(630, 661, 5, 31, 29.34, 32.66)]'
"$INFERPROF" compare "$work/a.json" "$work/b.json" --markdown >"$work/compare.md"
check "compare --markdown prints valid Markdown tables" python3 tests/tools/markdown_tables.py "$work/compare.md"

# ---- findings of A that are gone in B
with_findings() { sed "s/\"kernels\"/\"findings\":[$1],\"kernels\"/" "$2" >"$3"; }
bound='{"rule":"launch-bound","stage":"decode","saving_ms":33.5}' grids='{"rule":"small-grids","stage":"decode","saving_ms":5}'
with_findings "$bound,$grids,{\"rule\":\"unstable\",\"stage\":null},7" "$work/b.json" "$work/promise.json"
with_findings "$grids" "$work/a.json" "$work/kept.json"
run "$INFERPROF" compare "$work/promise.json" "$work/kept.json"
expect "a finding that is gone in B is listed with the time its stage gained" 0 out "^decode +launch-bound +33.50 +31.00 +29.[0-9]+ to 32.[0-9]+$" \
    out "^decode .*faster"
check "a finding that is still in B is not listed" lacks small-grids "$work/out"
run "$INFERPROF" compare "$work/promise.json" "$work/a.json"
expect "compare succeeds without findings in B" 0
check "no finding is listed when B has no findings" lacks launch-bound "$work/out"
run "$INFERPROF" compare "$work/promise.json" "$work/kept.json" --json
expect "compare --json has the finding's upper bound" 0 out '"bound_ms": 33.5'

"$make_run" "$work/x.ipt" 12 40
"$make_run" "$work/y.ipt" 12 40 30
run "$INFERPROF" compare "$work/x.ipt" "$work/y.ipt" --fail-above 20
expect "two traces are compared with the note that there are too few repeats" 3 out "^decode .*\+[23][0-9.]+%.*no difference can be shown: too few repeats" err "decode is slower|prefill is slower"
run "$INFERPROF" compare "$work/a.json"
expect "a single run is misuse" 2 err "expected A B"
run "$INFERPROF" compare "$work/a.json" "$work/none"
expect "a missing run is an error" 1 err "none: no such run"
echo '{"schema":"other"}' >"$work/other.json"
run "$INFERPROF" compare "$work/a.json" "$work/other.json"
expect "JSON with another schema is an error" 1 err "not the metrics.json of a run"

# ---- edges
metrics "$work/once.json" "661" 580.1
run "$INFERPROF" compare "$work/a.json" "$work/once.json"
expect "a single repeat never shows a difference" 0 out "^decode .*5 / 1  no difference can be shown: too few repeats"
sed 's/"name":"decode"/"name":"steps"/' "$work/b.json" >"$work/renamed.json"
run "$INFERPROF" compare "$work/a.json" "$work/renamed.json" --fail-above 4
expect "a stage in only one run is marked and passes --fail-above" 0 out "^decode .*only in A" out "^steps .*only in B"
echo '{"schema":"inferprof-metrics","schema_version":1,"run":{"id":"x"},"stages":[{"name":"sort","repeats_ms":[1,2],"time_ms":1}]}' >"$work/x.json"
run "$INFERPROF" compare "$work/a.json" "$work/x.json"
expect "runs without a common stage are compared" 0 out "^decode .*only in A" out "^sort .*only in B"
run "$INFERPROF" compare "$work/a.json" "$work/x.json" --fail-above 4
expect "--fail-above fails without a common stage" 1 err "no stage has a time in both runs"
sed 's/"run":{"id":"run-580.2"}/"run":{"id":"r","model":"qwen3-8b"}/' "$work/b.json" >"$work/qwen.json"
sed 's/"run":{"id":"run-580.1"}/"run":{"id":"r","model":"llama"}/' "$work/a.json" >"$work/llama.json"
run "$INFERPROF" compare "$work/llama.json" "$work/qwen.json"
expect "runs of different models get a note" 0 out "use a different model, engine or device" out "^model +llama +qwen3-8b"
sed 's/"name":"decode","parent":null/"name":"decode","parent":null,"tokens":63/' "$work/a.json" >"$work/short.json"
sed 's/"name":"decode","parent":null/"name":"decode","parent":null,"tokens":127/' "$work/a.json" >"$work/long.json"
run "$INFERPROF" compare "$work/short.json" "$work/long.json" --markdown
expect "runs with different token counts get a note" 0 out "processed different numbers of tokens" out "tokens of decode \| 63 \| 127"
run "$INFERPROF" compare "$work/a.json" "$work/a.json" --fail-above 0
expect "a run compared with itself shows no difference" 0 out "^decode .*0\.00%.*no difference shown"
check "a run compared with itself lists no environment difference" lacks "Environment differences" "$work/out"
