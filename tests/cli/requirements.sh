#!/bin/sh
# The requirements of docs/requirements.md: one check per point, named after it. Most runs use the fake engine, whose
# numbers are fixed (tests/programs/fake_engine.c).
. tests/cli/lib.sh
check "every point of docs/requirements.md names a test that exists, or a decision" python3 tests/tools/requirements.py docs/requirements.md
fake_engine '{"prompt": "one", "id": "a"}' '{"prompt": "two", "id": "b"}'

# native ARGUMENTS...: one repeat of the native engine over a built-in page
native() {
    run "$INFERPROF" profile device=cpu repeats=1 infer.max_new_tokens=4 profiling.warmup_rounds=0 model.preprocess.mode=tiny \
        peak.tflops=0.1 peak.gbps=10 output.dir="$work/native" "$@"
    dir=$(tail -n 1 "$work/out")
}

# ---- context length of decode FLOPs
stage() { echo "[s for s in d[\"stages\"] if s[\"name\"] == \"$1\"][0]"; }
profile_fake ""
auto=$dir
check "context_len_mode=auto: prompt and half of the new tokens" json_is "$auto/metrics.json" \
    'd["model"]["context_len_mode"], d["model"]["context_len"]' "('auto', 282.5)"
check "context_len_mode=auto is in the report" grep -q '28[23] tokens on average .prompt + half of the new tokens' "$auto/assumptions.md"
profile_fake "" infer.context_len_mode=max
check "context_len_mode=max: the context window of the model" json_is "$dir/metrics.json" 'd["model"]["context_len"]' 4096
check "context_len_mode=max raises the decode FLOPs and MFU, and nothing else" python3 - "$auto" "$dir" <<'END_OF_CODE'
import json, sys
a, b = ({s["name"]: s for s in json.load(open(f"{p}/metrics.json"))["stages"]} for p in sys.argv[1:])
assert b["decode"]["flops"] > 1.5 * a["decode"]["flops"] and b["decode"]["mfu"] > 1.5 * a["decode"]["mfu"]
assert all(a["decode"][k] == b["decode"][k] for k in ("bytes", "floor_ms")), (a["decode"], b["decode"])
assert a["prefill"]["flops"] == b["prefill"]["flops"]
END_OF_CODE
same_report "a second report keeps the context length" "$dir"
profile_fake "" infer.context_len_mode=fixed infer.context_len_fixed=512
check "context_len_mode=fixed: infer.context_len_fixed" json_is "$dir/metrics.json" 'd["model"]["context_len"]' 512
check "the report names the context length in use" grep -q 'context of 512 tokens .infer.context_len_mode=fixed' "$dir/assumptions.md"
native infer.context_len_mode=fixed infer.context_len_fixed=8
expect "context_len_mode=fixed does not limit the KV cache" 0
native engine.max_context=8
expect "engine.max_context limits the KV cache" 1 err 'but the context has only 8 positions'

# ---- subset_filelist
mkdir -p "$work/pages/images" "$work/pages/subsets"
page="page-text.png"
cp "samples/$page" "$work/pages/images/"
printf 'images/%s \t\r\n' "$page" >"$work/pages/subsets/dev-1.txt"
printf 'images/%s\nimages/%s\n' "$page" "$page" >"$work/list-in-current-folder.txt"
plan() { (cd "$work" && limited "$INFERPROF" profile --dry-run device=cpu dataset=omnidocbench dataset.root="$work/pages" "$@"); }
plan dataset.subset_filelist=subsets/dev-1.txt >"$work/out" 2>"$work/err"
status=$?
expect "subset_filelist is relative to dataset.root; trailing blanks are trimmed" 0 \
    out "pages in $work/pages listed in $work/pages/subsets/dev-1.txt: 1, of which 1 are used"
plan dataset.subset_filelist=list-in-current-folder.txt >"$work/out" 2>"$work/err"
status=$?
expect "subset_filelist: then the current folder" 0 out "listed in $work/list-in-current-folder.txt: 2"
plan dataset.subset_filelist=no-such-list.txt >"$work/out" 2>"$work/err"
status=$?
expect "a missing subset_filelist is an error that names both folders" 1 err 'no-such-list.txt.*looked in dataset.root='
run "$INFERPROF" profile --dry-run device=cpu dataset.subset_filelist=no-such-list.txt
expect "subset_filelist is refused with the built-in pages" 1 err 'the built-in pages cannot be listed'
profile_fake "" --dry-run dataset.subset_filelist=x.txt
expect "subset_filelist is refused with prompts" 1 err 'cannot be used with dataset.kind=prompts'

# ---- failures
profile_fake 0=error
expect "equal failures of every request stop the run after the second" 1 err 'Every request failed with the same message' \
    err 'repeat 1 of 4 failed with the same message'
check "the engine was asked twice" grep -qx 2 "$work/state"
check "failures have their own finding, and there is no other" json_is "$dir/metrics.json" \
    '[(f["rule"], f["title"]) for f in d["findings"]]' "[('failed-requests', 'All requests failed: 2')]"
check "a run of failures gets no advice about tuning" lacks 'Lock clocks|pin the process' "$dir/report.md"
check "the engine's message is listed once among the caveats" sh -c \
    "test \$(sed -n '/^## Caveats/,/^## [^C]/p' '$dir/report.md' | grep -c 'too dark to read') = 1"
same_report "a second report keeps the failures" "$dir"
profile_fake 2=error
expect "one failure does not stop the run" 0
check "a single failure is a finding with the engine's message" json_is "$dir/metrics.json" \
    '[f["title"] for f in d["findings"] if f["rule"] == "failed-requests" and "too dark" in f["evidence"]]' "['1 of 5 requests failed']"

# ---- the vendor's values for DeepSeek-OCR
run "$INFERPROF" profile --show-config model=deepseek_ocr model.path=/m
expect "model=deepseek_ocr stops at the end token, after 8192 tokens, with the n-gram rule" 0 out '^  max_new_tokens: 8192 ' \
    out '^  ignore_eos: false ' out '^  no_repeat_ngram_size: 20 ' out '^  temperature: 0.0 ' out '^    mode: gundam '
run "$INFERPROF" profile --show-config model=deepseek_ocr model.path=/m
expect "model=deepseek_ocr has the prompt of the vendor" 0 out 'prompt: "<image>.n<.grounding.>Convert the document to markdown."'
run "$INFERPROF" profile --show-config
expect "the recorded run makes at most 64 tokens" 0 out '^  rep_max_new_tokens: 64 '
expect "defaults: 10 repeats, one round of warm-up, 50 rows in the tables" 0 out '^repeats: 10 ' out '^  warmup_rounds: 1 ' out '^  top_k: 50 '
profile_fake "" infer.max_new_tokens=100
check "rep_max_new_tokens limits the recorded run only" python3 - "$dir" <<'END_OF_CODE'
import json, sys
made = [(r["phase"], r["new_tokens"]) for r in map(json.loads, open(sys.argv[1] + "/predictions.jsonl"))]
assert made == [("representative", 64)] + 4 * [("timing", 100)], made
END_OF_CODE

# ---- vision, decoder, tokens and metadata in every report
native repeats=3 infer.max_new_tokens=8 peak.tflops=10 peak.gbps=1000 # far above any CPU: findings are certain, MFU is small
expect "terminal: vision in total and the decoder's rest of prefill" 0 out '^Vision in total: .* ms, .*F, MFU .*Rest of prefill .decoder.: '
run "$INFERPROF" report "$dir" --peak-tflops 0.000001 -o "$work/small-peak"
expect "MFU of vision and of the decoder over 100% has its reason" 0 out 'Vision in total: .*\(over 100%: the peak is that of'
check "aggregates: mean and std of prefill, decode, vision, tokens and rate, and MFU by stage" python3 - "$dir" <<'END_OF_CODE'
import json, math, statistics, sys
d = json.load(open(sys.argv[1] + "/metrics.json"))
runs = [r for r in map(json.loads, open(sys.argv[1] + "/predictions.jsonl")) if r["phase"] == "timing"]
a, stages = d["aggregates"], {s["name"]: s for s in d["stages"]}
vision = [sum(r["stages"].values()) for r in runs]
for key, values in (("prefill_ms", [r["prefill_ms"] for r in runs]), ("decode_ms", [r["decode_ms"] for r in runs]), ("vision_ms", vision),
                    ("tokens", [r["new_tokens"] for r in runs]),
                    ("prefill_without_vision_ms", [r["prefill_ms"] - v for r, v in zip(runs, vision)])):
    assert math.isclose(a[key]["mean"], statistics.mean(values), rel_tol=1e-9), (key, a[key], values)
    assert math.isclose(a[key]["std"], statistics.stdev(values), rel_tol=1e-6, abs_tol=1e-9), (key, a[key], values)
assert set(runs[0]["stages"]) == {"sam", "clip", "projector"}, runs[0]
assert a["mfu_model"] == d["model"]["mfu"] and a["mfu_stage"]["sam"] == stages["sam"]["mfu"] > 0
peak = d["device"]["peak_flop_per_s"]
flops = sum(stages[s]["flops"] for s in ("sam", "clip", "projector"))
assert math.isclose(a["vision_flops"], flops, rel_tol=1e-9)
assert math.isclose(a["mfu_stage"]["vision_total"], flops / (statistics.median(vision) * 1e-3 * peak), rel_tol=1e-6)
assert a["tokens_per_s"]["mean"] > 0
END_OF_CODE
check "predictions.jsonl: input, times, tokens, prompt length and sub-stages of each run" python3 - "$dir" <<'END_OF_CODE'
import json, sys
runs = [json.loads(line) for line in open(sys.argv[1] + "/predictions.jsonl")]
assert [r["phase"] for r in runs] == ["representative"] + 3 * ["timing"] and len({r["input"] for r in runs}) == 3, runs
for r in runs:
    assert r["input"].startswith("page-") and r["prompt_tokens"] > 50 and r["new_tokens"] == len(r["ids"]) == 8, r
    assert min(r["prefill_ms"], r["decode_ms"]) > 0 and list(r["stages"]) == ["sam", "clip", "projector"], r
    assert 0 < sum(r["stages"].values()) < r["prefill_ms"], r
END_OF_CODE
check "mfu_model: FLOPs of prefill and decode, vision counted once, over their time" python3 - "$dir" <<'END_OF_CODE'
import json, sys
d = json.load(open(sys.argv[1] + "/metrics.json"))
runs = [r for r in map(json.loads, open(sys.argv[1] + "/predictions.jsonl")) if r["phase"] == "timing"]
s = {s["name"]: s for s in d["stages"]}
work = (s["prefill"]["flops"] + s["decode"]["flops"]) / d["device"]["peak_flop_per_s"] * 1e3  # ms at the peak; all pages have one size
slowest, fastest = (sum(f(r[key] for r in runs) for key in ("prefill_ms", "decode_ms")) for f in (max, min))
assert s["prefill"]["flops"] > sum(s[name]["flops"] for name in ("sam", "clip", "projector")), s["prefill"]
assert work / slowest * 0.999 <= d["model"]["mfu"] <= work / fastest * 1.001, (d["model"]["mfu"], work, slowest, fastest)
END_OF_CODE
check "stakeholder_summary.md: findings with their saving and a remedy" python3 - "$dir" <<'END_OF_CODE'
import json, sys
text, findings = open(sys.argv[1] + "/stakeholder_summary.md").read(), json.load(open(sys.argv[1] + "/metrics.json"))["findings"]
assert findings and "What to change first" in text and all(f["title"].replace("_", "\\_") in text for f in findings[:3]), findings
assert "(at most " in text and findings[0]["advice"].split(".")[0] in text, findings[0]
END_OF_CODE
check "kernels.csv and metrics.json: the device of each kernel; env.json: its name" python3 - "$dir" <<'END_OF_CODE'
import csv, json, sys
d, env = (json.load(open(f"{sys.argv[1]}/{name}.json")) for name in ("metrics", "env"))
rows = list(csv.DictReader(open(sys.argv[1] + "/kernels.csv")))
assert rows and all(r["device"] != "" and int(r["calls"]) > 0 and float(r["mean_ns"]) > 0 for r in rows), rows[:1]
assert all(k["device"] < len(d["devices"]) for k in d["kernels"]), d["kernels"][0]
assert env["CPU"]["CPU"] and env["CPU"]["CPU"] in d["device"]["name"], (env["CPU"], d["device"])
END_OF_CODE
for f in report.md stakeholder_summary.md; do
    check "$f: MFU of sub-stages, vision in total, the decoder's rest of prefill" \
        grep -qE 'sam [0-9.,]+ ms, MFU .*Vision in total: .*F, MFU .*Rest of prefill .decoder.: .*MFU' "$dir/$f"
    check "$f: mean and deviation of vision and tokens" grep -qE '^\| New tokens +\| tokens' "$dir/$f"
    check "$f: metadata of the model" grep -qE '^\| context window +\| 4096 tokens' "$dir/$f"
done
check "report.html: vision in total and metadata of the model" grep -q 'Vision in total' "$dir/report.html"
check "env.json: metadata of the model" json_is "$dir/env.json" 'd["Model"]["layers"], d["Model"]["experts"], d["Model"]["hidden size"]' \
    "('4', '16, 4 per token', '256')"
check "metrics.json: metadata of the model" json_is "$dir/metrics.json" \
    '[d["model"][k] for k in ("family", "layers", "hidden_size", "experts", "dtype", "context")]' "['deepseek_ocr', 4, 256, 16, 'bf16', 4096]"
same_report "a second report keeps vision and metadata" "$dir"

# ---- static compute
check "static_compute.json: modules and operators add up to prefill" python3 - "$dir" <<'END_OF_CODE'
import json, math, sys
d = json.load(open(sys.argv[1] + "/static_compute.json"))
prefill = next(s for s in d["stages"] if s["name"] == "prefill")
for rows in (d["modules"], d["operators"]):
    assert math.isclose(sum(r["prefill_flops"] for r in rows), prefill["flops"], rel_tol=1e-9), (rows, prefill)
top = d["operators"][0]
assert math.isclose(top["prefill_flops_per_layer"] * max(top["layers"], 1), top["prefill_flops"])
assert any(o["activation_bytes_per_layer"] > 0 for o in d["operators"][:3])
assert 0.9 < sum(m["parameters"] for m in d["modules"]) / d["model"]["parameters"] <= 1
assert all(v > 0 for v in d["peak_activation_bytes"].values())
END_OF_CODE
check "static_compute.md: modules, hotspots and activations" sh -c \
    "grep -q '^## Modules' '$dir/static_compute.md' && grep -q '^## Hotspots' '$dir/static_compute.md' && grep -q 'Largest activations' '$dir/static_compute.md'"
check "static_compute.json: hotspots are sorted by their FLOPs" python3 - "$dir" <<'END_OF_CODE'
import json, sys
flops = [o["prefill_flops"] for o in json.load(open(sys.argv[1] + "/static_compute.json"))["operators"]]
assert len(set(flops)) > 5 and flops == sorted(flops, reverse=True), flops
END_OF_CODE
run "$INFERPROF" static tests/data/models/qwen3-8b.json -p 100 -n 8 --json
check "static --json and static_compute.json list stages alike" python3 - "$dir/static_compute.json" "$work/out" <<'END_OF_CODE'
import json, sys
run, static = (json.load(open(p)) for p in sys.argv[1:])
assert [set(s) for s in run["stages"]][:1] == [set(s) for s in static["stage_list"]][:1], (run["stages"][0], static["stage_list"][0])
assert [s["name"] for s in static["stage_list"]] == ["prefill", "decode"]
END_OF_CODE

# ---- the same sections in every run
tables() { # FILE HEADING...: a table follows each heading
    python3 - "$@" <<'END_OF_CODE'
import re, sys
text = open(sys.argv[1], encoding="utf-8").read()
for heading in sys.argv[2:]:
    assert re.search(rf"^#+ {re.escape(heading)}\n\n\|.*\n\| -", text, re.M), heading
END_OF_CODE
}
profile_fake 0=error
for d in "$dir" "$auto"; do
    check "summary: all six tables ($(basename "$d"))" tables "$d/stakeholder_summary.md" Environment Aggregates 'Per-Stage Timings' MFU \
        'Top Operators' 'Top Kernels'
    check "report: tables of stages, repeats, kernels, operators, environment" tables "$d/report.md" Stages 'Timed repeats' Kernels Operators \
        Environment
    check "operators.md and kernels.md are tables" sh -c "grep -q '^| operator' '$d/operators.md' && grep -q '^| kernel' '$d/kernels.md'"
done
check "operators by device self time and by total time" grep -q '^# Operators by total time' "$auto/operators.md"
check "totals and counts per stage" json_is "$auto/metrics.json" \
    '[(s["total_ms"], s["timed"]["n"]) for s in d["stages"] if s["name"] == "decode"]' '[(200, 4)]'
native --ncu --nsys
expect "on the CPU --ncu and --nsys are skipped with a note" 0 err 'were skipped: they need a GPU'
check "the note is in the report" grep -q 'were skipped: they need a GPU' "$dir/report.md"

# ---- dry run
mkdir -p "$work/config-only" && cp tests/data/models/qwen3-8b.json "$work/config-only/config.json"
cat >"$work/no-torch" <<'END_OF_SCRIPT'
#!/bin/sh
echo "ModuleNotFoundError: No module named 'torch'" >&2
exit 1
END_OF_SCRIPT
chmod +x "$work/no-torch"
run "$INFERPROF" profile --dry-run engine=hf engine.python="$work/no-torch" device=cpu model=llama model.path="$work/config-only" dataset=images \
    dataset.root="$work/pages/images"
expect "dry run: missing weights, missing torch and images for a text model, all at once" 1 err 'contains no weights' \
    err 'cannot import torch and transformers: .*No module named' err 'reads text only, but the inputs are images'
PATH=/usr/bin:/bin run "$INFERPROF" profile --dry-run device=cuda:7 --ncu --nsys model.path="$work/config-only" dataset=images dataset.root=/no-such
expect "dry run: missing Nsight tools, device, weights and inputs, all at once" 1 err 'Nsight Compute .ncu. found neither' \
    err 'Nsight Systems .nsys. found neither' err 'device=cuda:7: ' err 'contains no weights' err 'dataset.root=/no-such: no such folder'
printf 'x' >"$work/config-only/model.safetensors"
run "$INFERPROF" profile --dry-run device=cpu model=llama model.path="$work/config-only"
expect "dry run: broken weights" 1 err 'weights: .*model.safetensors'
rm "$work/config-only/model.safetensors"
run "$INFERPROF" profile --dry-run device=cpu model=llama model.path="$work/config-only" model.weights=synthetic:0
expect "a text model with dataset=samples gets sample prompts" 0 out 'the built-in sample prompts: 4'
mkdir -p "$work/here/samples"
run sh -c 'cd "$1" && shift && exec "$@"' sh "$work/here" "$INFERPROF" profile --dry-run device=cpu dataset=images dataset.root=samples
expect "a folder named samples is not confused with the built-in pages" 1 err 'write dataset.root=./samples for the folder'
mkdir -p "$work/tiny"
echo '{"model_type":"llama","architectures":["LlamaForCausalLM"],"hidden_size":64,"intermediate_size":128,"num_hidden_layers":2,
    "num_attention_heads":4,"num_key_value_heads":2,"vocab_size":320,"max_position_embeddings":512,"torch_dtype":"float32"}' >"$work/tiny/config.json"
run "$INFERPROF" profile "$work/tiny" model.weights=synthetic:0 device=cpu repeats=1 infer.max_new_tokens=3 "output.dir=$work/tiny-runs" \
    peak.tflops=1 peak.gbps=10
expect "a text model of a config alone runs the sample prompts: one token per byte" 0 out 'New tokens 3.00'

# ---- prompts of a given length, by batch size
batches() { # FAULTS ARGUMENTS...
    faults=$1
    shift
    rm -f "$work/state"
    run "$INFERPROF" profile --conf-dir "$work/conf" engine=fake repeats=3 peak.tflops=0.1 peak.gbps=10 \
        "engine.command=[$fake, $work/state${faults:+, $faults}]" "$@"
}
batches batches embedded -p 100 -n 11 -b 1,4,32
expect "profile MODEL -p -n -b prints a row per batch size, with roofs, MFU and MBU, and a chart" 0 out '^batch +prompt +prefill ms +roof ms +tok/s +MFU +MBU' \
    out '^batch +new +step ms +roof ms +tok/s +MFU +MBU' out '^ +4 +100 ' out '^ +4 +11 ' out '^batch 32: the engine accepts at most 8 sequences' out 'decode tokens/s' out '^ +4 .*#'
batches "" embedded -p 100 -n 11 -b 1,4
expect "an engine without batches gets dashes and the reason" 0 out '^ +4 +100 +. +' out '^batch 4: the engine has no batch form'
batches batches embedded -p 100 -n 11 -b 1,4 --json --chart "$work/rates.svg"
check "--json: times, rates and shares of the peak" python3 - "$work/out" <<'END_OF_CODE'
import json, math, sys
one, four = json.load(open(sys.argv[1]))["rows"]
assert math.isclose(one["step_ms"], 5) and math.isclose(one["decode_tokens_per_s"], 200) and math.isclose(four["decode_tokens_per_s"], 800)
assert four["prefill_tokens_per_s"] > 3.9 * one["prefill_tokens_per_s"] and four["repeats"] == 3
assert math.isclose(four["decode_mfu"], 4 * one["decode_mfu"], rel_tol=0.05) and one["decode_mbu"] < four["decode_mbu"] < 4 * one["decode_mbu"]
assert one["decode_roof_tokens_per_s"] > 0 and one["note"] is None
END_OF_CODE
check "--chart writes an SVG" grep -q '<svg' "$work/rates.svg"
batches batches embedded -p 100 -n 11 -b 1,4 --csv
expect "--csv" 0 out '^batch,prompt_tokens,new_tokens,' out '^4,100,11,3,'
batches batches embedded -p 100 -n 11 -b 1,4 --dry-run
expect "the dry run of -b prints its plan" 0 out '^inputs +synthetic prompts of 100 tokens, 11 new tokens each' out '^timing +3 repeats per batch size: 1,4'
batches "" embedded -b 1,x
expect "wrong batch sizes are misuse" 2 err '-b expects batch sizes'
run "$INFERPROF" profile embedded device=cpu -p 40 -n 4 repeats=1 peak.tflops=0.1 peak.gbps=10
expect "the native engine measures prompts of exactly that many tokens" 0 out '^ +1 +40 +[0-9]' out '^ +1 +4 +[0-9]'
mkdir -p "$work/hub/models--Some--Model/snapshots/abc" "$work/hub/models--Some--Model/refs"
printf abc >"$work/hub/models--Some--Model/refs/main"
cp tests/data/models/qwen3-8b.json "$work/hub/models--Some--Model/snapshots/abc/config.json"
HF_HUB_CACHE=$work/hub run "$INFERPROF" profile --dry-run Some/Model device=cpu model.weights=synthetic:0
expect "a model of the hub is found in the local cache" 0 out "^model +Model .*$work/hub/models--Some--Model/snapshots/abc"
HF_HUB_CACHE=$work/hub run "$INFERPROF" profile --dry-run Some/Other device=cpu
expect "a model that is not in the cache: the command that downloads it" 1 err 'download it with: hf download Some/Other'
printf '{"prompt_ids": [5, 6, 7], "id": "ids"}\n' >"$work/data/ids.jsonl"
profile_fake "" dataset.prompts="$work/data/ids.jsonl"
expect "prompt_ids are accepted in JSON Lines" 0
check "prompt_ids reach the engine" json_is "$dir/metrics.json" 'd["aggregates"]["prompt_tokens"]["mean"]' 3
echo '{"prompt_ids": [5, "x"]}' >"$work/data/ids.jsonl"
profile_fake "" dataset.prompts="$work/data/ids.jsonl"
expect "wrong prompt_ids are an error with file and line" 1 err 'ids.jsonl:1: expected an object with'

# ---- matrix products
run "$INFERPROF" import tests/data/kineto/tl_qwen1.5_0.5b_h100.json.gz --report -o "$work/gemms"
expect "GEMM table: a trace with shapes is imported" 0
check "GEMM table: M, N, K, batch, calls and time agree with TraceLens" python3 - "$work/gemms" <<'END_OF_CODE'
import ast, collections, csv, re, sys
theirs, ours = collections.defaultdict(lambda: [0, 0.0]), collections.defaultdict(lambda: [0, 0.0])
for r in csv.DictReader(open("tests/data/kineto/tracelens_GEMM.csv")):
    if r["trace"] != "tl_qwen1.5_0.5b_h100":
        continue
    kernels = ast.literal_eval(re.sub(r"np\.float64\(([^)]*)\)", r"\1", r["kernel_details__summarize_kernel_stats"]))
    row = theirs[tuple(int(r["param: " + p]) for p in "BMNK")]
    row[0] += int(r["name_count"])
    row[1] += sum(k["total_duration_us"] for k in kernels if "Memset" not in k["name"])
for r in csv.DictReader(open(sys.argv[1] + "/gemms.csv")):
    row = ours[tuple(int(r[p]) for p in ("batch", "m", "n", "k"))]
    row[0] += int(r["calls"])
    row[1] += float(r["total_ns"]) / 1e3
    assert r["types"] and r["algorithm"] and float(r["flop_per_s"]) > 0, r
assert len(theirs) >= 3 and all(ours[s][0] == n and abs(ours[s][1] / us - 1) < 0.01 for s, (n, us) in theirs.items()), (theirs, ours)
END_OF_CODE
check "GEMM table in report.html" grep -q '<h2[^>]*>Matrix products' "$work/gemms/report.html"
check "GEMM table in gemms.md" grep -q '| step | 8,944 | 2,816 | 1,024 | 1 | bf16,bf16 |' "$work/gemms/gemms.md"
native
check "GEMM table of the native engine" grep -q '^| sam | 1,024 | 512 | 128 | 1 | fp32,bf16 | gemm' "$dir/gemms.md"

# ---- memory
check "a run without profile_memory has no memory table" test ! -e "$dir/memory.csv"
native profiling.profile_memory=true profiling.top_k=3 profiling.warmup_rounds=1 profiling.warmup_synthetic=true
check "profile_memory: peak by stage and kind of the native engine" python3 - "$dir" <<'END_OF_CODE'
import csv, json, sys
rows = {r["stage"]: r for r in json.load(open(sys.argv[1] + "/metrics.json"))["memory"]}
assert {"whole trace", "prefill", "prefill/sam", "decode"} <= set(rows), rows
kinds = ("weights_bytes", "kv_cache_bytes", "activations_bytes", "workspace_bytes")
for r in rows.values():
    assert r["bytes"] == sum(r[k] for k in kinds) and r["weights_bytes"] > 0 and r["kv_cache_bytes"] > 0, r
assert rows["prefill/sam"]["activations_bytes"] > rows["decode"]["activations_bytes"], rows
series = [float(r["bytes"]) for r in csv.DictReader(open(sys.argv[1] + "/memory.csv"))]
assert len(series) > 10 and max(series) == rows["whole trace"]["bytes"], (len(series), max(series))
END_OF_CODE
check "top_k limits operators.md and kernels.md; rows have total, calls and mean; the second table is sorted by total time" python3 - "$dir" <<'END_OF_CODE'
import re, sys
tables = []
for name, first in (("operators", "operator"), ("kernels", "kernel")):
    for part in re.split(r"^# .*$", open(f"{sys.argv[1]}/{name}.md").read(), flags=re.M)[1:]:
        rows = [[c.strip() for c in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")]
        assert rows[0][0] == first and {"total ms", "calls", "mean us"} <= set(rows[0]) and len(rows) == 2 + 3, rows
        tables.append([float(r[rows[0].index("total ms")].replace(",", "")) for r in rows[2:]])
assert len(tables) == 3 and tables[1] == sorted(tables[1], reverse=True), tables
END_OF_CODE
check "warmup_synthetic: the engine warms up with a synthetic page" sh -c \
    "grep -q 'warm.*a synthetic page' '$dir/inferprof.log' && file_type=\$(head -c 8 '$dir/warmup.png' | od -An -tx1) && test \"\$file_type\" = ' 89 50 4e 47 0d 0a 1a 0a'"
check "profile_memory: table and chart in the report" sh -c \
    "grep -q '^## Memory' '$dir/report.md' && grep -q '<h2>Memory' '$dir/report.html' && test -s '$dir/charts/memory.svg'"
check "[memory] events of an imported Kineto trace: the allocator's peak" python3 - "$work/gemms" <<'END_OF_CODE'
import gzip, json, sys
events = json.load(gzip.open("tests/data/kineto/tl_qwen1.5_0.5b_h100.json.gz"))["traceEvents"]
peak = max(e["args"]["Total Allocated"] for e in events if e.get("name") == "[memory]" and e["args"]["Device Type"] == 1)
rows = json.load(open(sys.argv[1] + "/metrics.json"))["memory"]
assert [r["bytes"] for r in rows if r["stage"] == "whole trace" and r["device"] != "host memory"] == [peak], (peak, rows)
END_OF_CODE
mock=$PWD/$BUILD/tests/mock
LD_LIBRARY_PATH="$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" run "$INFERPROF" run --allocations -o "$work/allocations" -- \
    "$mock/mock_app" init alloc=1000 push=prefill alloc=500 kernels=10 free pop push=decode alloc=300 kernels=10 pop sleep=150
expect "run --allocations: a program that allocates device memory" 0
check "run --allocations: the peak of the program and of its stages" python3 - "$work/allocations" <<'END_OF_CODE'
import json, sys
rows = {r["stage"]: r["bytes"] for r in json.load(open(sys.argv[1] + "/metrics.json"))["memory"]}
assert rows == {"whole trace": 1500, "prefill": 1500, "decode": 1300}, rows
END_OF_CODE

# ---- call paths
for format in speedscope collapsed pprof; do
    run "$INFERPROF" export "$work/gemms" --format "$format"
    expect "export --format $format" 0 out "trace.$format"
done
check "call paths add up to the time of the kernels, and contain Python frames" python3 - "$work/gemms" <<'END_OF_CODE'
import gzip, json, sys
events = json.load(gzip.open("tests/data/kineto/tl_qwen1.5_0.5b_h100.json.gz"))["traceEvents"]
kernels = sum(round(e["dur"] * 1000) for e in events if e.get("cat") == "kernel")
scope = json.load(open(sys.argv[1] + "/trace.speedscope.json"))
device = next(p for p in scope["profiles"] if p["name"] == "device time")
assert abs(sum(device["weights"]) / kernels - 1) < 1e-4 and device["endValue"] == sum(device["weights"]), kernels
frames = [f["name"] for f in scope["shared"]["frames"]]
assert any("modeling_qwen2.py" in f for f in frames) and "aten::mm" in frames, frames[:50]
lines = open(sys.argv[1] + "/trace.collapsed.txt").read().splitlines()
assert sum(int(l.rsplit(" ", 1)[1]) for l in lines) == sum(device["weights"])
assert any("modeling_qwen2.py" in l and ";aten::mm;" in l for l in lines)


def fields(data):  # the fields of a protobuf message
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        key = varint()
        value = varint()
        if key & 7 == 2:
            at += value
            value = data[at - value:at]
        yield key >> 3, value


def varints(data):
    out, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 127) << shift
        shift = shift + 7 if byte > 127 else 0
        if byte < 128:
            out.append(value)
            value = 0
    return out


profile = list(fields(open(sys.argv[1] + "/trace.pprof.pb", "rb").read()))
texts = [v.decode() for f, v in profile if f == 6]
assert texts[0] == "" and {"host", "device", "nanoseconds", "aten::mm"} <= set(texts)
values = [varints(dict(fields(v))[2]) for f, v in profile if f == 2]
assert sum(v[2] for v in values) == sum(device["weights"]), "device time of pprof"
END_OF_CODE
check "a flame graph in report.html" grep -q '<h2>Call paths.*' "$work/gemms/report.html"
run "$INFERPROF" export "$work/gemms" --format pprof --window step
expect "--window is refused for call paths" 2 err 'cannot be used with --format pprof'
cat >"$work/stack.py" <<'END_OF_CODE'
import sys
sys.path[:0] = ["python", "engines/hf"]
import domain
from inferprof import _nvtx
client, own = _nvtx.client(), domain.find()
own.push(domain.STAGE, "prefill")
client.push(b"aten::mm, op_id = 0, sizes = [[2, 3]f32, [3, 4]f32], stack = run.py:main:3;model.py:forward:7")
client.pop()
own.push(domain.USER, "tokenizer")
own.pop()
own.pop()
END_OF_CODE
case $BUILD in
*san*) skip "with_stack: Python frames" "the sanitizer's library must be loaded before Python" ;;
*)
    run "$INFERPROF" run --no-report -o "$work/stacks" -- python3 "$work/stack.py"
    run "$INFERPROF" trace dump -k range "$work"/stacks/trace/*.ipt
    expect "stages have plain names in the NVTX domain inferprof; there is a tokenizer range" 0 \
        out 'category=1 domain="inferprof" name="prefill"' out 'domain="inferprof" name="tokenizer"'
    expect "with_stack: the Python frames of an operator are recorded" 0 out 'name="aten::mm" .*stack="run.py:main:3;model.py:forward:7"'
    run "$INFERPROF" export "$work"/stacks/trace/*.ipt --format collapsed -o "$work/stacks.txt"
    check "with_stack: the call path is stage, frames, operator" grep -q '^prefill;run.py:main:3;model.py:forward:7;aten::mm [0-9]' "$work/stacks.txt"
    ;;
esac

run "$INFERPROF" run --no-report -o "$work/native-nvtx" -- "$INFERPROF" engine --prompt hello -n 2 --threads 1 --ignore-eos --trace "$work/n.ipt"
run "$INFERPROF" trace dump -k range "$work"/native-nvtx/trace/*.ipt
expect "the native engine has plain names in the NVTX domain inferprof, and a tokenizer range" 0 out 'domain="inferprof" name="tokenizer"' \
    out 'domain="inferprof" name="prefill"' out 'domain="inferprof" name="decode"'

# ---- activities, preprocessing
native "profiling.activities=[cuda]"
check "activities without cpu: no operators and modules" sh -c "! grep -q gemm '$dir/operators.md' && ! test -e '$dir/gemms.md'"
native profiling=min
check "profiling=min: stages, and no operators" sh -c "grep -q '| sam ' '$dir/report.md' && ! grep -q gemm '$dir/operators.md' && ! test -e '$dir/gemms.md'"
# the engine starts a program that launches kernels on the mock GPU
printf '#!/bin/sh\n"%s" init push=decode kernels=30 pop\nexec "$@"\n' "$mock/mock_app" >"$work/engine.sh"
chmod +x "$work/engine.sh"
for activities in "[cpu, cuda]" "[cpu]"; do
    LD_LIBRARY_PATH="$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" profile_fake "" engine.devices='[cpu, cuda]' device=cuda:0 profiling.counters=false \
        "engine.command=[$work/engine.sh, $fake, $work/state]" "profiling.activities=$activities"
    expect "activities=$activities: a run on the mock GPU" 0
    kernels=0 ranges=0
    for t in "$dir"/trace/*.ipt; do
        kernels=$((kernels + $("$INFERPROF" trace dump -k kernel "$t" | wc -l) + $("$INFERPROF" trace dump -k launch "$t" | wc -l)))
        ranges=$((ranges + $("$INFERPROF" trace dump -k range "$t" | wc -l)))
    done
    case $activities in
    *cuda*) check "activities with cuda: kernels, launches and ranges are recorded" test $kernels -ge 60 -a $ranges -ge 1 ;;
    *) check "activities without cuda: ranges are recorded, kernels and launches are not" test $kernels -eq 0 -a $ranges -ge 1 ;;
    esac
done
native model.preprocess.base_size=512 model.preprocess.image_size=384 model.preprocess.crop_mode=true
expect "base_size, image_size and crop_mode replace those of the mode" 0
check "the cost of free sizes: tokens of the request agree with the plan" python3 - "$dir" <<'END_OF_CODE'
import json, sys
static = json.load(open(sys.argv[1] + "/static_compute.json"))
text = open(sys.argv[1] + "/predictions.jsonl").readline()
tokens = json.loads(text)["prompt_tokens"]
# view 8 x 9 + 1; a page of the samples is cut into w x h tiles of 6 x 6 tokens
assert tokens > 8 * 9 + 1 and any(abs(tokens - 73 - 6 * h * (6 * w + 1)) < 40 for w in range(1, 10) for h in range(1, 10)), tokens
END_OF_CODE
native model.preprocess.image_size=100
expect "a size that is no multiple of 64 is an error" 1 err 'image_size=100: expected a multiple of 64'

# ---- familiar spellings
run "$INFERPROF" profile --show-config --model-path /m --input-dir /in --repeats 7 --device cpu
expect "--model-path, --input-dir, --repeats, --device" 0 out '^repeats: 7 ' out '^device: cpu ' out '^  path: /m ' out '^  root: /in ' out '^  name: images '
for word in model/deepseek_ocr/arch=deepseek_ocr.default profiling/torch=torch-profiler.max infer=x experiment=stage1 use_flash_attn=true; do
    run "$INFERPROF" profile --show-config "$word"
    expect "$word names the spelling to use" 2 err "$word: not a setting here; write "
done
# shellcheck disable=SC2016 # a reference of the configuration, not of the shell
(cd "$work" && limited "$INFERPROF" profile --show-config model=llama 'model.path=${hydra:runtime.cwd}/models/x') >"$work/out" 2>"$work/err"
status=$?
expect "hydra:runtime.cwd is the current folder" 0 out "^  path: $work/models/x "

# ---- unknown models
mkdir -p "$work/strange"
sed 's/"model_type": *"[^"]*"/"model_type": "strange"/; s/Qwen3ForCausalLM/StrangeForCausalLM/' tests/data/models/qwen3-8b.json >"$work/strange/config.json"
profile_fake "" model=llama model.path="$work/strange" model.weights=synthetic:0
expect "an unknown model runs" 0
check "MFU of an unknown model comes from assumed formulas, marked as such" sh -c \
    "grep -q 'MFU and MBU are estimates: they use the formulas of llama' '$dir/report.md' && grep -q 'costs_from.: .assumed family' '$dir/metrics.json'"
profile_fake "" model=llama model.path="$work/strange" model.weights=synthetic:0 model.assume=qwen3
check "model.assume chooses the formulas" grep -q 'the formulas of qwen3 .model.assume' "$dir/report.md"
mkdir -p "$work/strange-tiny"
sed 's/"llama"/"strangenet"/; s/LlamaForCausalLM/StrangeNet/' "$work/tiny/config.json" >"$work/strange-tiny/config.json"
run "$INFERPROF" profile --dry-run "$work/strange-tiny" model.weights=synthetic:0 device=cpu
expect "the native engine does not guess the family of an unknown model" 1 err 'does not know the architecture StrangeNet; model.assume=llama runs it'
run "$INFERPROF" profile "$work/strange-tiny" model.assume=llama model.weights=synthetic:0 device=cpu repeats=1 infer.max_new_tokens=3 \
    "output.dir=$work/strange-runs" peak.tflops=1 peak.gbps=10
expect "the native engine runs an unknown model as the family of model.assume" 0 out 'New tokens 3.00'
