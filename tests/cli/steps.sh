#!/bin/sh
# Steps, tokens and phases of programs without annotations, against the truth; and against the labels of servers.
. tests/cli/lib.sh

# scene NAME SEED STEPS: makes and imports it
scene() {
    python3 tests/tools/make_steps.py "$1" "$work/$1.json" "$work/$1.truth" "$2" "$3"
    rm -rf "${work:?}/$1"
    "$INFERPROF" import -o "$work/$1" "$work/$1.json" >"$work/$1.out" 2>&1
}
for program in server mixed padded vision; do
    for seed in 1 2; do
        scene $program $seed 80
        check "steps of $program with seed $seed are certain and exact" python3 tests/tools/compare_steps.py "$work/$program" "$work/$program.truth"
    done
done
# A graph of the padded scene has the rows of its largest batch. Only copies of ids show how many of them are used.
for kind in Memcpy DtoH HtoD; do
    python3 - "$work/padded.json" "$work/less.json" $kind <<'END'
import json, sys
trace = json.load(open(sys.argv[1]))
trace["traceEvents"] = [e for e in trace["traceEvents"] if e["cat"] != "gpu_memcpy" or sys.argv[3] not in e["name"]]
json.dump(trace, open(sys.argv[2], "w"))
END
    rm -rf "${work:?}/less"
    "$INFERPROF" import -q -o "$work/less" "$work/less.json" >/dev/null 2>&1
    check "no step of padded graphs is certain and wrong without $kind" sh -c "python3 tests/tools/compare_steps.py '$work/less' '$work/padded.truth' | grep 'certain and wrong 0'"
done
check "the chart of the batch draws the requests and prompts of each step" python3 - "$work/server" <<'END'
import csv, json, re, sys
truth = [json.loads(line) for line in open(sys.argv[1] + ".truth")]
truth = truth[len(truth) - len(list(csv.DictReader(open(sys.argv[1] + "/steps.csv")))):]  # without warm-up
assert len(truth) >= 78, len(truth)
svg = open(sys.argv[1] + "/charts/batch.svg").read()
most, tokens = max(t["requests"] for t in truth), max(t["tokens"] for t in truth if t["kind"] != "decode")
assert f">{tokens:,}<" in svg and f">{most}<" in svg, (most, tokens)
bars = [float(re.search('height="([0-9.]+)"', r)[1]) for r in re.findall("<rect[^>]*>", svg) if 'class="mark"' in r]
prompts = [t["tokens"] for t in truth if t["kind"] != "decode"]
room = max(bars)
assert len(bars) == len(prompts) and all(abs(b - room * p / tokens) < 0.6 for b, p in zip(bars, prompts)), (bars, prompts)
line = re.search('<path[^>]*class="line"[^>]*>', svg)[0]
ys = [float(y) for y in re.findall(r"[ML ]?-?[0-9.]+[ ,](-?[0-9.]+)", re.search(' d="([^"]*)"', line)[1])]
floor, top = 190 - 26, 26  # BOTTOM and TOP of chart_batch.c
want = [floor - (floor - top) * t["requests"] / most for t in truth for _ in range(2)]
assert len(ys) == len(want) and all(abs(a - b) < 0.6 for a, b in zip(ys, want)), (len(ys), len(want), ys[:6], want[:6])
END
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
# a fifth of the kernels outside of graphs is missing
python3 - "$work/llama.json" "$work/missing.json" <<'END'
import json, random, sys
trace, chance = json.load(open(sys.argv[1])), random.Random(1)
trace["traceEvents"] = [e for e in trace["traceEvents"] if e["cat"] != "kernel" or "graph id" in e["args"] or chance.random() >= 0.2]
json.dump(trace, open(sys.argv[2], "w"))
END
"$INFERPROF" import -q -o "$work/missing" "$work/missing.json" >/dev/null 2>&1
check "weights are loaded before the first step although kernels are missing" python3 - "$work/missing/metrics.json" <<'END'
import json, sys
r = json.load(open(sys.argv[1]))["recognition"]
assert 2 << 30 <= r["phases"]["load_bytes"] < (2 << 30) + 65536 and r["phases"]["warm_up_steps"] == 1 and r["layers"] == 12, r["phases"]
END
scene bench 1 40
check "steps of llama-bench are certain and exact" python3 tests/tools/compare_steps.py "$work/bench" "$work/bench.truth"
check "tokens that warm up are in no total" python3 - "$work/bench" <<'END'
import csv, json, sys
r = json.load(open(sys.argv[1] + "/metrics.json"))["recognition"]
kinds = {k["kind"]: k["steps"] for k in r["by_kind"]}
assert kinds == {"prefill": 3, "decode": 120} and r["kinds"] == kinds and r["phases"]["warm_up_steps"] == 2, r
assert r["steps"] == r["certain"] == 123, r
steps = list(csv.DictReader(open(sys.argv[1] + "/steps.csv")))
assert [s["kind"] for s in steps[:5]] == ["prefill"] * 3 + ["warm-up", "decode"], steps[:5]
stages = {s["name"]: s for s in json.load(open(sys.argv[1] + "/metrics.json"))["stages"]}
assert stages["decode"]["trace"]["occurrences"] == 120 and stages["warm-up"]["trace"]["occurrences"] == 1, stages
assert not any(f["stage"] == "warm-up" for f in json.load(open(sys.argv[1] + "/findings.json"))["findings"])
END
# The default of `run`: 50 replays are recorded and take 400 us longer, the others are counted.
scene sampled 1 80
for how in counted uncounted attached; do
    "$BUILD/tests/sample_trace" "$work"/sampled/trace/*.ipt "$work/$how.ipt" 50 $how
    "$INFERPROF" report -o "$work/sampled-$how" "$work/$how.ipt" >"$work/sampled-$how.out" 2>&1
done
check "the time per token is that of the steps that were not recorded" python3 - "$work" <<'END'
import json, statistics, sys
folder = sys.argv[1] + "/sampled-"
starts = sorted(e["ts"] for e in json.load(open(sys.argv[1] + "/sampled.json"))["traceEvents"] if e["name"] == "cudaGraphLaunch")[50:]
true_ms = (starts[-1] - starts[0]) / (len(starts) - 1) * 1e-3
m = json.load(open(folder + "counted/metrics.json"))
decode = next(s for s in m["stages"] if s["name"] == "decode")
kind = next(k for k in m["recognition"]["by_kind"] if k["kind"] == "decode")
for got in (decode["time_ms"], decode["unrecorded"]["mean_ms"], kind["unrecorded_mean_ns"] * 1e-6, m["recognition"]["anatomy"]["step_ns"] * 1e-6,
            1e3 / decode["tokens_per_s"], statistics.mean(decode["trace"]["steps_ms"])):
    assert abs(got / true_ms - 1) < 1e-4, (got, true_ms)
assert true_ms < kind["unrecorded_worst_ns"] * 1e-6 < true_ms + 0.38, kind
assert decode["recorded_only"] is None and kind["steps"] == 50 and kind["unrecorded_steps"] == decode["unrecorded"]["steps"] == 189, kind
assert abs(kind["median_ns"] * 1e-6 - true_ms - 0.4) < 0.02 and decode["unrecorded"]["recorded_ms"] > true_ms + 0.38, (kind, true_ms)
assert abs(decode["gpu_busy_share"] * true_ms - decode["trace"]["gpu_busy_ns"] * 1e-6 / 50) < 1e-3, decode
note = next(n["text"] for n in m["notes"] if "detaching CUPTI took" in n["text"])
assert note.startswith("decode: recording 50 steps and detaching CUPTI took 20") and "% of the 2" in note, note
text = open(folder + "counted.out").read().replace("\n", " ")
assert "steps that were not recorded" in text and ", slowest 1." in text and "while recorded" not in text, text
for how, why in ("uncounted", "does not call the CUDA runtime through a shared library"), ("attached", "CUPTI stayed attached"):
    m = json.load(open(folder + how + "/metrics.json"))
    decode = next(s for s in m["stages"] if s["name"] == "decode")
    assert why in decode["recorded_only"] and "unrecorded" not in decode and "recorded steps" in decode["time_source"], decode
    text = " ".join(open(folder + how + ".out").read().split())
    assert "decode takes 1.43 ms while recorded" in text and "1.43 (recorded)" in text and why in text, text
END
# the table of tests/gpu/token_time.sh: folders of modes with settings of the collector are found
mkdir "$work/dsocr-runkernels-1"
cp "$work/sampled-counted/metrics.json" "$work/dsocr-runkernels-1"
echo '{"program": "dsocr", "mode": "run,WHAT=kernels", "round": 1, "status": 0, "mean_ms": 1.1, "later_ms": 1.0, "first_ms": 1.5}' >"$work/lines"
run python3 tests/tools/token_time.py table "$work/lines" "$work"
expect "token_time.py reads the report of each mode" 0 out '^dsocr-runkernels-1 report: not recorded 1\.0[0-9]* ms .program after the first repeat 1\.0000'
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

# recorded on an H200: llama-bench reads back the routing of a prompt after some of its layers
"$INFERPROF" report -q -o "$work/prompts" tests/data/recorded/llama-prompts >/dev/null 2>&1
check "parts of prompts are no second model" python3 - "$work/prompts" <<'END'
import csv, json, sys
r = json.load(open(sys.argv[1] + "/metrics.json"))["recognition"]
assert r["layers"] == 12 and not r["other_layers"] and r["certain"] == r["steps"] == 29, r
steps = [(s["kind"], s["tokens"], s["requests"], s["layers"]) for s in csv.DictReader(open(sys.argv[1] + "/steps.csv")) if s["kind"] != "warm-up"]
assert steps == [("prefill", "512", "1", "12")] * 3 + [("decode", "1", "1", "12")] * 26, steps
END
# recorded on an H200: the native engine without its records, DeepSeek-V2-Lite with 4 layers. prompt tokens, new tokens:
python3 - "$work/engine.truth" <<'END'
import json, sys
with open(sys.argv[1], "w") as f:
    for prompt, new in (37, 24), (300, 40), (64, 24), (100, 1), (5, 30):
        for tokens in [prompt] + [1] * (new - 1):
            f.write(json.dumps({"kind": "prefill" if tokens > 1 else "decode", "tokens": tokens, "requests": 1}) + "\n")
END
"$INFERPROF" report -q -o "$work/engine" tests/data/recorded/engine-experts >/dev/null 2>&1
check "steps of a recorded engine with latent attention are certain and exact" sh -c "python3 tests/tools/compare_steps.py '$work/engine' '$work/engine.truth' | grep 'steps 118 + 1 warm-up of 119, certain and exact 118, certain and wrong 0'"
check "latent attention: the product with its values belongs to the output projection" python3 - "$work/engine/anatomy.csv" <<'END'
import csv, sys
calls = {r["role"]: r["calls"] for r in csv.DictReader(open(sys.argv[1]))}
assert calls == {"QKV": "8", "attention": "4", "output projection": "8", "MLP": "8", "LM head": "1", "idle": ""}, calls
END
# Without copies or lookups, a prompt of 100 tokens with one new token and the next prompt have no border between them.
"$INFERPROF" export -q -f chrome -o "$work/engine.json" tests/data/recorded/engine-experts >/dev/null 2>&1
for kind in gpu_memcpy embed; do
    python3 - "$work/engine.json" "$work/less.json" $kind <<'END'
import json, sys
trace = json.load(open(sys.argv[1]))
trace["traceEvents"] = [e for e in trace["traceEvents"] if e.get("cat") != sys.argv[3] and not e.get("name", "").startswith(sys.argv[3])]
json.dump(trace, open(sys.argv[2], "w"))
END
    rm -rf "${work:?}/less"
    "$INFERPROF" import -q -o "$work/less" "$work/less.json" >/dev/null 2>&1
    check "a prompt before another pass is not called an encoder ($kind missing)" python3 - "$work/less/steps.csv" <<'END'
import csv, sys
steps = list(csv.DictReader(open(sys.argv[1])))
certain = [(s["kind"], s["tokens"]) for s in steps if s["confidence"] == "certain" and s["kind"] != "warm-up"]
assert not any(s["kind"] == "encode" for s in steps) and 100 <= certain.count(("decode", "1")) <= 114, certain
assert set(certain) <= {("decode", "1"), ("prefill", "300"), ("prefill", "64"), ("prefill", "5")}, set(certain)
assert any(s["confidence"] == "uncertain" for s in steps)
END
done

# servers that label their steps: the steps are read without the labels
for f in tl_sglang_qwen3_8b_decode_mi300 tl_vllm_decode_full_mi300; do
    "$INFERPROF" import -q -o "$work/$f" "tests/data/kineto/$f.json.gz" >/dev/null 2>&1
    check "$f: the step is read as its label says" grep -q '1 of 1 labelled steps were read the same' "$work/$f/metrics.json"
    check "$f: 32 tokens of 32 requests" grep -q '^decode,certain,32,32,' "$work/$f/steps.csv"
done
# The same without the copy of 37 sampled ids on the device: prompts and generated tokens use one attention kernel.
python3 - "$work/ids_from_host.json" <<'END'
import gzip, json, sys
trace = json.load(gzip.open("tests/data/kineto/tl_vllm_prefilldecode_piecewise.json.gz"))
trace["traceEvents"] = [e for e in trace["traceEvents"] if e.get("args", {}).get("bytes") != 4 * 37]
json.dump(trace, open(sys.argv[1], "w"))
END
"$INFERPROF" import -q -o "$work/ids_from_host" "$work/ids_from_host.json" >/dev/null 2>&1
# one clock: a recognised step has the time and the rate of its labelled stage, without unrecorded time
for f in tl_sglang_qwen3_8b_decode_mi300 tl_vllm_decode_full_mi300 tl_vllm_prefill_b200 tl_vllm_prefilldecode_piecewise ids_from_host; do
    [ -e "$work/$f" ] || "$INFERPROF" import -q -o "$work/$f" "tests/data/kineto/$f.json.gz" >/dev/null 2>&1
    check "$f: the step has the time of its labelled stage" python3 - "$work/$f" <<'END'
import csv, json, sys
m = json.load(open(sys.argv[1] + "/metrics.json"))
kind, = m["recognition"]["by_kind"]
step, = csv.DictReader(open(sys.argv[1] + "/steps.csv"))
label = kind["labelled"] or kind["kind"]
stage, = [s for s in m["stages"] if s["name"] == label and not s["parent"]]
other = "ids_from_host" in sys.argv[1]
assert step["label"] == label and (label == "mixed") == (other or "piecewise" in sys.argv[1]), (step, kind)
assert (step["kind"], step["confidence"]) == (("prefill", "uncertain") if other else (label, "certain")), step
for got in kind["median_ns"] * 1e-6, kind["slow_ns"] * 1e-6, float(step["time_ms"]):
    assert abs(got / stage["time_ms"] - 1) < 1e-6, (got, stage["time_ms"])
if other:  # the stage counts other tokens
    assert kind["labelled"] == "mixed" and kind["tokens_per_s"] is None, kind
else:
    assert abs(kind["tokens_per_s"] / stage["tokens_per_s"] - 1) < 1e-6, (kind, stage["tokens_per_s"])
assert float(step["span_ms"]) > 0, step
text = open(sys.argv[1] + "/report.md").read()
assert "Times are those of the labelled stages, without unrecorded time." in text and ("| step | labelled |" in text) == other
assert "Times are those of the labelled stages" in open(sys.argv[1] + "/report.html").read()
END
done
# A stage without labels contains the step: the step lasts from its first call on, without the 463 ms of unrecorded time.
python3 - "$work/unlabelled.json" <<'END'
import gzip, json, sys
trace = json.load(gzip.open("tests/data/kineto/tl_sglang_qwen3_8b_decode_mi300.json.gz"))
for e in trace["traceEvents"]:
    if e.get("cat") in ("user_annotation", "gpu_user_annotation"):
        e["name"] = "ProfilerStep#1"
json.dump(trace, open(sys.argv[1], "w"))
END
"$INFERPROF" import -q -o "$work/unlabelled" "$work/unlabelled.json" >/dev/null 2>&1
check "unrecorded time is in no step" python3 - "$work/unlabelled" <<'END'
import csv, json, sys
m = json.load(open(sys.argv[1] + "/metrics.json"))
step, = csv.DictReader(open(sys.argv[1] + "/steps.csv"))
assert m["trace"]["unrecorded_ms"] > 400 and not m["recognition"]["is_stages"], m["trace"]
assert float(step["span_ms"]) > 400 and 9 < float(step["time_ms"]) < 12 and not step["label"], step
assert "No step is a stage of its own." in open(sys.argv[1] + "/report.md").read()
END

# other steps of the same servers: batches that change, prompts between decode steps, cut traces, two devices
K=tests/data/kineto
S=$K/tl_sglang_qwen3_8b_decode_mi300.json.gz
V=$K/tl_vllm_decode_full_mi300.json.gz
cat >"$work/steps.py" <<'END'
import csv, sys
steps = [f"{s['kind']} {s['tokens']} {s['requests']}".strip() + " ?" * (s["confidence"] != "certain") for s in csv.DictReader(open(sys.argv[1]))]
assert ", ".join(steps) == sys.argv[2], steps
END
# changed PART...: imports the parts (change_steps.py)
changed() {
    python3 tests/tools/change_steps.py "$work/changed.json" "$@"
    rm -rf "${work:?}/changed"
    "$INFERPROF" import -q -o "$work/changed" "$work/changed.json" >/dev/null 2>&1
}
# steps_are NAME EXPECTED: kind, tokens and requests of each step, and "?" if it is uncertain
steps_are() { check "$1" python3 "$work/steps.py" "$work/changed/steps.csv" "$2"; }
changed $V $V:batch=32,17 $K/tl_vllm_prefilldecode_piecewise.json.gz $V:batch=32,9 $V
steps_are "vLLM: the batch changes, a mixed step is between decode steps" "decode 32 32, decode 17 17, mixed 8192 46, decode 9 9, decode 32 32"
changed $S $S:batch=32,17 $S:batch=32,1 $S $S:batch=32,31
steps_are "SGLang: the batch changes" "decode 32 32, decode 17 17, decode 1 1, decode 32 32, decode 31 31"
changed $V $S:device=5
steps_are "two servers on two devices" "decode 32 32, decode 32 32"
# a draft model of 24 layers, and a model of 36 layers in turn
changed $V $V $S:on=2 $V $V $S:on=2 $V $V $S:on=2
check "steps of two models on one device are separate" python3 - "$work/changed" <<'END'
import csv, json, sys
steps = [(s["kind"], s["tokens"], s["requests"], s["layers"]) for s in csv.DictReader(open(sys.argv[1] + "/steps.csv"))]
draft, model = ("decode", "32", "32", "24"), ("decode", "32", "32", "36")
assert steps == [draft, draft, model] * 3, steps
m = json.load(open(sys.argv[1] + "/metrics.json"))
assert {m["recognition"]["layers"], m["recognition"]["other_layers"]} == {24, 36}, m["recognition"]
assert any("steps of two models, with" in n["text"] for n in m["notes"]), m["notes"]
END
changed $V:copies=32,17
steps_are "copies that contradict grids make a step uncertain" "decode 32 32 ?"
changed $K/tl_vllm_prefill_b200.json.gz:start=0.3
steps_are "a trace that begins inside its step is uncertain" "prefill 888 1 ?"
check "its number of layers is unknown" python3 -c "import json, sys; sys.exit(json.load(open('$work/changed/metrics.json'))['recognition']['layers'] is not None)"
changed $K/tl_vllm_prefill_b200.json.gz:end=0.5
steps_are "a trace that ends inside its step is uncertain" "step 888 ?"
check "its number of layers is unknown, too" python3 -c "import json, sys; sys.exit(json.load(open('$work/changed/metrics.json'))['recognition']['layers'] is not None)"
# Few steps and images before most prompts: less than 90% of the layers are in passes of 16. The whole trace is not one pass.
scene vision 33 50
for part in start=0.71 end=0.5; do
    changed "$work/vision.json:$part"
    check "the decoder of a part ($part) with images has 16 layers" python3 - "$work/changed/metrics.json" <<'END'
import json, sys
r = json.load(open(sys.argv[1]))["recognition"]
assert r["layers"] == 16 and r["certain"] >= 0.8 * r["steps"] > 10, (r["layers"], r["certain"], r["steps"])
END
done

for f in tl_vit_nsfw_h100 hta_alexnet_a100; do
    "$INFERPROF" import -q -o "$work/$f" "tests/data/kineto/$f.json.gz" >/dev/null 2>&1
    check "$f: no language model is claimed" sh -c "! grep -q '\"language_model\": true' '$work/$f/metrics.json'"
done

run "$INFERPROF" report --whole-trace -o "$work/whole" "$work/llama"
expect "--whole-trace takes the trace as one stage" 0 out '^whole trace takes'

# the model: from a file that the program had open, in another trace of the same job. The weights are 5.9 GB of holes.
python3 tests/tools/make_gguf.py dsocr BF16 "$work/dsocr.gguf"
mkdir -p "$work/model"
env A="$work/dsocr.gguf" LD_LIBRARY_PATH="$PWD/$BUILD/tests/mock" CUDA_INJECTION64_PATH="$COLLECTOR" INFERPROF_COLLECT_DIR="$work/model" \
    "$BUILD/tests/mock/mock_app" open=A init sleep=200
# the bytes of a decode step: 25 steps recorded on an H200 with counters (tests/data/recorded)
python3 tests/tools/make_gguf.py dsocr Q8_0 "$work/q8.gguf"
for m in dsocr q8; do "$INFERPROF" report --model "$work/$m.gguf" -o "$work/bytes-$m" tests/data/recorded/llama-counters >/dev/null 2>&1; done
check "the DRAM counters agree with the model that ran, and not with one of half the bytes" python3 - "$work/bytes-" <<'END'
import json, sys
for model, differs, severity, words in ("dsocr", 0.01, "info", "they agree (+0.2%)"), ("q8", 0.9, "warning", "weights are read more than once"):
    m = json.load(open(sys.argv[1] + model + "/metrics.json"))
    a = m["recognition"]["anatomy"]
    note, = [n for n in m["notes"] if "by the DRAM counters" in n["text"]]
    assert abs(abs(a["dram_bytes"] / a["model_bytes"] - 1) - differs) < 0.03 and a["steps"] == 25, a
    assert note["severity"] == severity and words in note["text"], note
    roles = {r["role"]: r for r in a["roles"]}
    assert abs(roles["LM head"]["dram_pct"] - 30) < 1 and abs(roles["LM head"]["ns_per_token"] - 232e3) < 1e3, roles["LM head"]
found = [f["title"] for f in json.load(open(sys.argv[1] + "dsocr/findings.json"))["findings"]]
assert "LM head: 232 us per token at 30% of the DRAM peak; at 85% it would take 82.8 us" in found, found
assert any(f.startswith("experts: 292 us per token at 36% of the DRAM peak") for f in found), found
assert "11 launches of one block per token for router: 42.8 us" in found, found  # too few bytes for a bandwidth
END
rm "$work/dsocr.gguf" # the trace is enough
run "$INFERPROF" report -o "$work/known" "$work"/llama/trace/*.ipt "$work"/model/*.ipt
expect "the model of the program's file gives floors" 0 out 'the roofline time'
check "model, floors and roles are as computed by hand" python3 - "$work/known" <<'END'
import json, sys
m = json.load(open(sys.argv[1] + "/metrics.json"))
f = m["model"]
assert (f["architecture"], f["layers"], f["hidden_size"], f["vocab_size"], f["experts"], f["experts_per_token"], f["costs_from"]) == \
    ("deepseek2-ocr", 12, 1280, 129280, 64, 6, "files of the program"), f
assert f["parameters"] == 2934734080 and f["weight_bytes"] == 5871334400, f
h, head = 1280, 129280 * 1280 * 2
experts, shared, mlp, qkv, output = 11 * 6 * 3 * h * 896 * 2, 11 * 3 * h * 1792 * 2, 3 * h * 6848 * 2, 12 * 3 * h * h * 2, 12 * h * h * 2
router = 11 * 64 * h * 4
roles = {r["role"]: r for r in m["recognition"]["anatomy"]["roles"]}
for role, want in (("LM head", head), ("QKV", qkv), ("output projection", output)):
    assert abs(roles[role]["bytes"] / want - 1) < 0.01, (role, roles[role]["bytes"], want)
r = roles["LM head"]
assert abs(r["roof"] - r["bytes"] / (r["ns_per_token"] * 1e-9) / 4.8e12) < 1e-6 and 0.27 < r["roof"] < 0.32, r
assert abs(r["distance"] - r["ns_per_token"] / r["floor_ns"]) < 1e-9 and abs(r["floor_ns"] - r["bytes"] / 4.8e3) < 1, r
decode = next(s for s in m["stages"] if s["name"] == "decode")
need = head + qkv + output + mlp + experts + shared + router
assert 1 < decode["bytes"] / need < 1.03, (decode["bytes"], need)  # and norms, the cache and a row of the embedding
assert abs(decode["floor_ms"] / (decode["bytes"] / 4.8e9) - 1) < 0.02, decode
assert any("by the files that the program used" in n["text"] for n in m["notes"]), m["notes"]
found = [x for x in json.load(open(sys.argv[1] + "/findings.json"))["findings"] if x["title"].startswith("LM head: ")]
assert len(found) == 1 and "of the DRAM peak; at 85% it would take 81.1 us" in found[0]["title"], found
saved = r["ns_per_token"] * 1e-6 * (1 - r["roof"] / 0.85)
assert abs(found[0]["saving_ms"] - saved) < 1e-6 and saved < decode["time_ms"], (found, saved)
END
python3 tests/tools/make_gguf.py qwen3-8b BF16 "$work/other.gguf"
run "$INFERPROF" report --model "$work/other.gguf" -o "$work/other" "$work"/llama/trace/*.ipt "$work"/model/*.ipt
check "--model replaces the model of the trace" grep -q '"architecture": "qwen3"' "$work/other/metrics.json"
check "a warning names a --model with another number of layers" grep -q 'has 36 layers, but the steps of the trace have 12: check --model' "$work/other/metrics.json"
mkdir -p "$work/model2"
env A="$work/other.gguf" LD_LIBRARY_PATH="$PWD/$BUILD/tests/mock" CUDA_INJECTION64_PATH="$COLLECTOR" INFERPROF_COLLECT_DIR="$work/model2" \
    "$BUILD/tests/mock/mock_app" open=A init sleep=200
run "$INFERPROF" report -o "$work/wrong" "$work"/llama/trace/*.ipt "$work"/model2/*.ipt
check "a model with another number of layers is not used" grep -q 'the model has 36 layers, but the steps of the trace have 12' "$work/wrong/metrics.json"
run "$INFERPROF" report -o "$work/loop2" "$work"/loop/trace/*.ipt "$work"/model/*.ipt
check "a loop that opens a model gets no floors and no model" python3 - "$work/loop2/metrics.json" <<'END'
import json, sys
m = json.load(open(sys.argv[1]))
assert m["model"]["layers"] is None and all(s["floor_ms"] is None and s["mfu"] is None for s in m["stages"]), m["stages"]
END
