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
 "environment":[{"group":"GPU","key":"Driver","value":"$3"},{"key":"OS","value":"Debian 12"},
  {"group":"Model","key":"weights","value":"1 GB"},{"group":"Engine","key":"weights","value":"random"}]}
END
}
metrics "$work/a.json" "630,631,629,630,632" 580.1
metrics "$work/b.json" "661,662,660,663,661" 580.2
metrics "$work/c.json" "630,632,628,631,630" 580.1

# side NAME SCALE DRIVER: five metrics.json of one process each, $work/NAME1.json to NAME5.json; decode is scaled
side() {
    for i in 1 2 3 4 5; do
        metrics "$work/$1$i.json" "$(awk -v s="$2" -v i="$i" 'BEGIN { for (k = 0; k < 5; k++) printf "%s%.2f", k ? "," : "", s * (630 + (i * 7 + k) % 5 - 2) }')" "$3"
    done
}
side A 1 580.1
side B 1.05 580.2
side C 1.0003 580.1
# sides OPTIONS...: five processes against five, and what differs
all() { echo "$work/${1}1.json" "$work/${1}2.json" "$work/${1}3.json" "$work/${1}4.json" "$work/${1}5.json"; }

# shellcheck disable=SC2046
run "$INFERPROF" compare --runs $(all A) -- $(all B)
expect "a slower stage is reported with its interval and the smallest believable difference" 0 \
    out "^decode .*\+5\.[0-9]+% +\+4\.[0-9]+% to \+5\.[0-9]+% +0\.[0-9]+% +5 / 5 +25 / 25 +slower" \
    out "^prefill .*no difference shown" out "^Driver +580.1 +580.2" out "^A +run-580.1 and 4 more runs"
check "an equal environment value is not listed" lacks Debian "$work/out"
check "rows of two groups with the same name are not compared with each other" lacks weights "$work/out"
# The machine becomes 20% faster after the first four runs; B is slower by 4%.
# alternating SIDE SCALE STARTS...: five runs that started at these times
alternating() {
    name=$1 scale=$2 i=0
    shift 2
    for start in "$@"; do
        i=$((i + 1))
        metrics "$work/$name$i.json" "$(awk -v s="$scale" -v t="$start" -v i="$i" 'BEGIN { for (k = 0; k < 5; k++) printf "%s%.2f", k ? "," : "", s * (t < 4 ? 1.2 : 1) * (630 + (i * 7 + k) % 5 - 2) }')" 580.1
        sed "s|\"run\":{|&\"started_unix_ns\":170000000${start}000000000,|" "$work/$name$i.json" >"$work/started" && mv "$work/started" "$work/$name$i.json"
    done
}
alternating D 1 0 3 4 7 8
alternating E 1.04 1 2 5 6 9
# shellcheck disable=SC2046
run "$INFERPROF" compare --json --runs $(all D) -- $(all E)
expect "runs that alternate are compared" 0
check "drift between blocks of neighbouring runs is removed" json_is "$work/out" \
    '[d["blocks"]] + [(r["verdict"], round(r["change"], 2), r["unstable"]) for r in d["stages"] if r["name"] == "decode"]' \
    "[2, ('slower', 0.04, False)]"
sed "s|\"started_unix_ns\":[0-9]*|\"started_unix_ns\":1.7e27|" "$work/D1.json" >"$work/far.json"
run "$INFERPROF" compare --runs "$work/far.json" "$work/D2.json" -- "$work/E1.json" "$work/E2.json"
expect "a start that is no time is unknown" 0
# shellcheck disable=SC2046
run "$INFERPROF" compare --runs $(all D) -- $(all E)
expect "the blocks are named above the table" 0 out "alternate. Drift between 2 blocks of neighbouring runs is removed"
# shellcheck disable=SC2046
run "$INFERPROF" compare --json --runs $(all A) -- $(all B)
check "runs without a start time are one block" json_is "$work/out" 'd["blocks"]' "1"
# Kernels of three runs per side, of which one was not recorded; the finding is in two of three runs of A.
kernels() { # FILE NS FINDINGS: empty NS: not recorded
    sed "s|^ \"kernels\".*|\"kernels\":[${2:+{\"short_name\":\"gemv\",\"category\":\"GEMV\",\"owned_ns\":$2,\"calls\":10\}}],\"findings\":[$3],|;s|^ \"operators\".*|\"operators\":[],|" \
        "$work/A1.json" >"$work/$1"
}
slow='{"rule":"launch-bound","stage":"decode","saving_ms":50}' other='{"rule":"small-grids","stage":"decode","saving_ms":5}'
kernels k1.json 3000000 "$other"; kernels k2.json 5000000 "$slow"; kernels k3.json "" "$slow"
kernels m1.json 8000000 "$other"; kernels m2.json 8000000 "$other"; kernels m3.json 8000000 "$slow"
run "$INFERPROF" compare --json --runs "$work/k1.json" "$work/k2.json" "$work/k3.json" -- "$work/m1.json" "$work/m2.json" "$work/m3.json"
expect "several runs per side are compared" 0
check "kernels are means over the recorded runs" json_is "$work/out" \
    '[(d["a_recorded_runs"], d["b_recorded_runs"])] + [(k["a_ns"], k["b_ns"], k["a_calls"]) for k in d["kernels"]]' \
    "[(2, 3), (4000000, 8000000, 10)]"
check "a finding of most runs of A that few of B have is fixed in B" json_is "$work/out" \
    '[(p["rule"], p["bound_ms"]) for p in d["promises"]]' "[('launch-bound', 50)]"
# shellcheck disable=SC2046
run "$INFERPROF" compare --fail-above 4 --runs $(all A) -- $(all B)
expect "--fail-above exits with 3 above the threshold" 3 err "decode is slower by 5"
# shellcheck disable=SC2046
run "$INFERPROF" compare --fail-above 4.99 --runs $(all A) -- $(all B)
expect "--fail-above exits with 0 if the interval reaches below the threshold" 0
# shellcheck disable=SC2046
run "$INFERPROF" compare --fail-above 0 --runs $(all B) -- $(all A)
expect "a faster run passes --fail-above, and less energy is better, not faster" 0 out "decode .*faster" out "Energy per new token .*better"
# shellcheck disable=SC2046
run "$INFERPROF" compare --fail-above 0 --runs $(all A) -- $(all C)
expect "noise passes --fail-above" 0 out "decode .*no difference shown"
# shellcheck disable=SC2046
run "$INFERPROF" compare --json --runs $(all A) -- $(all B)
expect "compare --json succeeds" 0
check "compare --json has a verdict per stage" json_is "$work/out" '{s["name"]: s["verdict"] for s in d["stages"]}' \
    "{'prefill': 'no difference shown', 'sam': 'no difference shown', 'decode': 'slower'}"
check "compare --json has medians, processes, repeats and interval" json_is "$work/out" \
    '[(s["a"], s["a_processes"], s["b_repeats"], s["unstable"], s["reason"], s["change_ci95_low"] < s["change"] < s["change_ci95_high"], 0 < s["smallest_believable_change"] < 0.01, s["p_adjusted"] <= 0.05) for s in d["stages"] if s["name"] == "decode"]' \
    '[(630, 5, 25, False, None, True, True, True)]'
run "$INFERPROF" compare "$work/a.json" "$work/b.json"
expect "one process per side cannot show a small difference" 0 \
    out "^decode .*\+4\.9.* 1 / 1 +5 / 5 +cannot tell: one process per side; run with processes=5"
sed 's/41.0,41.2,41.1/41.3,41.2,41.1/' "$work/b.json" >"$work/b2.json"
run "$INFERPROF" compare "$work/a.json" "$work/b2.json" --fail-above 4
expect "--fail-above does not pass if no stage could be tested" 1 err "no stage could be tested: one process per side; run with processes=5"
metrics "$work/double.json" "1260,1262,1261,1259,1260" 580.1
run "$INFERPROF" compare "$work/a.json" "$work/double.json" --fail-above 4
expect "one process per side shows a difference far beyond that of processes of one binary" 3 out "^decode .*\+100.* 1 / 1 .*slower"
metrics "$work/unsteady.json" "1260,1500,1900,1400,1200" 580.1
run "$INFERPROF" compare "$work/a.json" "$work/unsteady.json"
expect "one unstable process shows nothing" 0 out "^decode .*cannot tell: one process per side"
run "$INFERPROF" compare --runs "$work/a.json" "$work/b.json"
expect "--runs without a second side is misuse" 2 err "expected --runs A... -- B..."
run "$INFERPROF" compare "$work/a.json" "$work/b.json" "$work/c.json"
expect "three runs without --runs are misuse" 2 err "several runs per side"
"$INFERPROF" compare "$work/a.json" "$work/b.json" --markdown >"$work/compare.md"
check "compare --markdown prints valid Markdown tables" python3 tests/tools/markdown_tables.py "$work/compare.md"

# ---- findings of A that are gone in B
with_findings() { sed "s/\"kernels\"/\"findings\":[$1],\"kernels\"/" "$2" >"$3"; }
bound='{"rule":"launch-bound","stage":"decode","saving_ms":33.5}' grids='{"rule":"small-grids","stage":"decode","saving_ms":5}'
with_findings "$bound,$grids,{\"rule\":\"unstable\",\"stage\":null},7" "$work/B1.json" "$work/promise.json"
with_findings "$grids" "$work/A1.json" "$work/kept.json"
before="$work/promise.json $work/B2.json $work/B3.json $work/B4.json $work/B5.json"
after="$work/kept.json $work/A2.json $work/A3.json $work/A4.json $work/A5.json"
# shellcheck disable=SC2086
run "$INFERPROF" compare --runs $before -- $after
expect "a finding that is gone in B is listed with the time its stage gained" 0 out "^decode +launch-bound +33.50 +31.50 +[23][0-9.]+ to 3[0-9.]+$" \
    out "^decode .*faster"
check "a finding that is still in B is not listed" lacks small-grids "$work/out"
run "$INFERPROF" compare "$work/promise.json" "$work/a.json"
expect "compare succeeds without findings in B" 0
check "no finding is listed when B has no findings" lacks launch-bound "$work/out"
run "$INFERPROF" compare "$work/promise.json" "$work/kept.json" --json
expect "compare --json has the finding's upper bound" 0 out '"bound_ms": 33.5'

# Another device: what B gained has other causes than the findings of A. Each difference is printed once.
for i in kept A2 A3 A4 A5; do sed 's/NVIDIA H200/NVIDIA H100/' "$work/$i.json" >"$work/h100-$i.json"; done
# shellcheck disable=SC2086
run "$INFERPROF" compare --runs $before -- "$work/h100-kept.json" "$work/h100-A2.json" "$work/h100-A3.json" "$work/h100-A4.json" "$work/h100-A5.json"
expect "runs on two devices are called different" 0 out "^device +NVIDIA H200 +NVIDIA H100$" out "^Driver"
check "findings of another device have no measured saving" lacks launch-bound "$work/out"
# shellcheck disable=SC2086
run "$INFERPROF" compare --runs $before -- $after "$work/h100-A2.json" "$work/h100-A3.json"
check "an environment that several runs share is printed once" test "$(grep -c '^device  *NVIDIA H200  *NVIDIA H100$' "$work/out")" -eq 1
# A number of inputs is neither better nor worse.
for i in 1 2 3 4 5; do
    for side in A B; do
        n=$((913 + (${#side} + i) % 2)); [ $side = A ] || n=$((n / 2))
        sed "s/\"figures\":\[/&{\"key\":\"prompt_tokens\",\"name\":\"Prompt tokens\",\"unit\":\"tokens\",\"larger_is_better\":false,\"repeats\":[$n,$n,$n]},/" \
            "$work/$side$i.json" >"$work/tokens-$side$i.json"
    done
done
# shellcheck disable=SC2046
run "$INFERPROF" compare --runs $(all tokens-A) -- $(all tokens-B)
expect "fewer prompt tokens are different, not better" 0 out "^Prompt tokens .* different$"
run "$INFERPROF" compare "$work/tokens-A1.json" "$work/tokens-A2.json"
expect "counts that do not vary are different with one process per side, too" 0 out "^Prompt tokens .* different$"

"$make_run" "$work/x.ipt" 12 40
"$make_run" "$work/y.ipt" 12 40 30
run "$INFERPROF" compare "$work/x.ipt" "$work/y.ipt" --fail-above 20
expect "two traces cannot show a difference" 1 out "^decode .*\+[23][0-9.]+%.*cannot tell: one process per side" err "no stage could be tested"
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
expect "a single repeat never shows a difference" 0 out "^decode .*5 / 1  cannot tell: one process per side"
sed 's/"name":"decode"/"name":"steps"/' "$work/b.json" >"$work/renamed.json"
run "$INFERPROF" compare "$work/a.json" "$work/renamed.json"
expect "a stage in only one run is marked" 0 out "^decode .*only in A" out "^steps .*only in B"
echo '{"schema":"inferprof-metrics","schema_version":1,"run":{"id":"x"},"stages":[{"name":"sort","repeats_ms":[1,2],"time_ms":1}]}' >"$work/x.json"
run "$INFERPROF" compare "$work/a.json" "$work/x.json"
expect "runs without a common stage are compared" 0 out "^decode .*only in A" out "^sort .*only in B"
run "$INFERPROF" compare "$work/a.json" "$work/x.json" --fail-above 4
expect "--fail-above fails without a common stage" 1 err "no stage has a time in both runs"
sed 's/"run":{"id":"run-580.2"}/"run":{"id":"r","model":"qwen3-8b"}/' "$work/b.json" >"$work/qwen.json"
sed 's/"run":{"id":"run-580.1"}/"run":{"id":"r","model":"llama"}/' "$work/a.json" >"$work/llama.json"
run "$INFERPROF" compare "$work/llama.json" "$work/qwen.json"
expect "runs of different models get a note" 0 out "use a different model, engine, device or number of ranks" out "^model +llama +qwen3-8b"
sed 's/"name":"decode","parent":null/"name":"decode","parent":null,"tokens":63/' "$work/a.json" >"$work/short.json"
sed 's/"name":"decode","parent":null/"name":"decode","parent":null,"tokens":127/' "$work/a.json" >"$work/long.json"
run "$INFERPROF" compare "$work/short.json" "$work/long.json" --markdown
expect "runs with different token counts get a note" 0 out "processed different numbers of tokens" out "tokens of decode \| 63 \| 127"
run "$INFERPROF" compare "$work/a.json" "$work/a.json" --fail-above 0
expect "a run compared with itself shows no difference" 0 out "^decode .*0\.00%.*no difference shown"
check "a run compared with itself lists no environment difference" lacks "Environment differences" "$work/out"

# ---- steps of a trace
python3 - "$work" <<'END'
import json, sys
for name, scale in (("s", 1), ("t", 1.5)):
    with open(f"{sys.argv[1]}/{name}.json", "w") as f:
        json.dump({"schema": "inferprof-metrics", "schema_version": 1, "run": {"id": name}, "stages": [
            {"name": "decode", "time_ms": 11 * scale, "trace": {"steps_ms": [scale * (10 + 0.01 * i) for i in range(20)]}}]}, f)
END
run "$INFERPROF" compare "$work/s.json" "$work/t.json"
expect "a trace is compared by the median of its steps" 0 out "^decode +ms +10\.09 +15\.1.*\+50\.0% .*1 / 1  20 / 20  slower"

# ---- level and power, on simulated processes
check "compare holds its level and sees a slowdown of 5%" python3 tests/stats/false_verdicts.py "$INFERPROF" --trials 100

# ---- formats of other tools
# shellcheck disable=SC2046
run "$INFERPROF" compare --junit --runs $(all A) -- $(all B)
expect "--junit fails the slower stage" 0 out '<testsuite .*failures="[1-9]' out 'name="decode"><failure message="decode: A 630'
for i in 1 2 3 4 5; do
    sed "s/\"repeats\":\[101,102,101\]/\"repeats\":[8$i.1,8$i.2,8$i.1]/" "$work/A$i.json" >"$work/fell-$i.json"
    sed "s/\"repeats\":\[101,102,101\]/\"repeats\":[10$i.1,10$i.2,10$i.1]/" "$work/A$i.json" >"$work/rate-$i.json"
done
run "$INFERPROF" compare --junit --fail-above 5 --runs "$work"/rate-?.json -- "$work"/fell-?.json
expect "--junit fails a rate that fell" 0 out 'name="Decode rate"><failure message="Decode rate: .*slower'
run "$INFERPROF" compare --junit --fail-above 5 --runs "$work"/fell-?.json -- "$work"/rate-?.json
expect "--junit passes a rate that rose" 0 out 'name="Decode rate"><system-out>.*faster'
# shellcheck disable=SC2046
run "$INFERPROF" compare --junit --runs $(all A) -- $(all B)
check "--junit is XML" python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$work/out"
# shellcheck disable=SC2046
run "$INFERPROF" compare --github --runs $(all A) -- $(all B)
expect "--github starts with the verdict" 0 out '^### inferprof: :small_red_triangle: 1 stage slower' out '<details>'
expect "--github has a table with the slower change in bold" 0 out '^| stage | A | B | change | 95% CI | verdict |$' \
    out '^| decode | 630.* | [*][*]+5[.0-9]*%[*][*] | +[.0-9]*% to +[.0-9]*% | slower |$'
# shellcheck disable=SC2046
run "$INFERPROF" compare --bencher --runs $(all A) -- $(all B)
check "--bencher has the values of B in ns" json_is "$work/out" 'round(d["decode"]["latency"]["value"] / 1e6), d["decode"]["latency"]["lower_value"] < d["decode"]["latency"]["upper_value"]' "(662, True)"
# shellcheck disable=SC2046
run "$INFERPROF" compare --mlflow abc --runs $(all A) -- $(all B)
check "--mlflow is a batch of metrics" json_is "$work/out" 'd["run_id"], [m["key"] for m in d["metrics"]][:2]' "('abc', ['prefill', 'prefill.change'])"
run "$INFERPROF" compare --json --junit "$work/a.json" "$work/b.json"
expect "two formats exclude each other" 2 err 'exclude each other'

# ---- caveats of the runs
head -c $(($(wc -c <"$work/x.ipt") / 2)) "$work/x.ipt" >"$work/damaged.ipt"
run "$INFERPROF" compare "$work/damaged.ipt" "$work/y.ipt"
expect "a damaged trace is a caveat of its side" 0 out '^! A: damaged.ipt: damaged at byte'
run "$INFERPROF" compare --json "$work/damaged.ipt" "$work/y.ipt"
check "caveats are in the JSON" json_is "$work/out" '[(c["side"], "damaged at byte" in c["text"]) for c in d["caveats"]][0]' "('A', True)"
run "$INFERPROF" compare --markdown "$work/y.ipt" "$work/damaged.ipt"
expect "caveats are in the Markdown" 0 out '^- B: damaged\.ipt: damaged at byte'
run "$INFERPROF" compare "$work/x.ipt" "$work/y.ipt"
check "complete traces have no caveat of damage" lacks damaged "$work/out"
