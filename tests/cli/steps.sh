#!/bin/sh
# Steps, tokens and phases of programs without annotations, against the truth; and against the labels of servers.
. tests/cli/lib.sh

# scene NAME SEED STEPS: makes and imports it
scene() {
    python3 tests/tools/make_steps.py "$1" "$work/$1.json" "$work/$1.truth" "$2" "$3"
    rm -rf "${work:?}/$1"
    "$INFERPROF" import -o "$work/$1" "$work/$1.json" >"$work/$1.out" 2>&1
}
for program in server mixed padded; do
    for seed in 1 2; do
        scene $program $seed 80
        check "steps of $program with seed $seed are certain and exact" python3 tests/tools/compare_steps.py "$work/$program" "$work/$program.truth"
    done
done
scene llama 1 10
check "steps of llama.cpp are certain and exact" python3 tests/tools/compare_steps.py "$work/llama" "$work/llama.truth"
check "12 layers, vocabulary copied to the host, weights loaded" python3 - "$work/llama/metrics.json" <<'END'
import json, sys
m = json.load(open(sys.argv[1]))
r = m["recognition"]
roles = {x["role"]: x for x in r["anatomy"]["roles"]}
assert r["language_model"] and r["layers"] == 12 and r["kinds"] == {"prefill": 5, "decode": 50}, r
assert r["phases"]["warm_up_steps"] == 1 and r["phases"]["load_bytes"] == 2 << 30, r["phases"]
assert roles["norm"]["calls"] == 25 and roles["QKV"]["calls"] == 36 and roles["attention"]["calls"] == 24, roles
assert abs(roles["LM head"]["ns_per_token"] - 235e3) < 12e3, roles["LM head"]
assert abs(sum(x["ns_per_token"] for x in roles.values()) / r["anatomy"]["step_ns"] - 1) < 1e-6
stages = {s["name"]: s for s in m["stages"]}
assert stages["decode"]["trace"]["occurrences"] == 50 and stages["decode"]["tokens"] == 1, stages["decode"]
assert not any("no verdict" in n["text"] for n in m["notes"]), m["notes"]
assert any("260 launches were captured" in n["text"] for n in m["notes"]), m["notes"]
END
check "the terminal has phases" grep -q 'Recognised without annotations' "$work/llama.out"
check "the page draws the anatomy of a token" grep -q 'Anatomy of a token' "$work/llama/report.html"
check "anatomy.csv and the chart are written" test -s "$work/llama/anatomy.csv" -a -s "$work/llama/charts/anatomy.svg"
scene unified 1 80
check "no step is certain and wrong if prompts and generated tokens share an attention kernel" sh -c "python3 tests/tools/compare_steps.py '$work/unified' '$work/unified.truth' | grep 'certain and wrong 0'"
for program in loop train; do
    scene $program 1 40
    check "$program is no language model" python3 tests/tools/compare_steps.py "$work/$program" "$work/$program.truth"
done
check "the steps of a loop are its stage" grep -q '^step,' "$work/loop/stages.csv"

# servers that label their steps: the steps are read without the labels
for f in tl_sglang_qwen3_8b_decode_mi300 tl_vllm_decode_full_mi300; do
    "$INFERPROF" import -q -o "$work/$f" "tests/data/kineto/$f.json.gz" >/dev/null 2>&1
    check "$f: the step is read as its label says" grep -q '1 of 1 labelled steps were read the same' "$work/$f/metrics.json"
    check "$f: 32 tokens of 32 requests" grep -q '^decode,certain,32,32,' "$work/$f/steps.csv"
done
for f in tl_vit_nsfw_h100 hta_alexnet_a100; do
    "$INFERPROF" import -q -o "$work/$f" "tests/data/kineto/$f.json.gz" >/dev/null 2>&1
    check "$f: no language model is claimed" sh -c "! grep -q '\"language_model\": true' '$work/$f/metrics.json'"
done

run "$INFERPROF" report --whole-trace -o "$work/whole" "$work/llama"
expect "--whole-trace takes the trace as one stage" 0 out '^whole trace takes'
