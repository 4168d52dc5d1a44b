#!/bin/sh
# `inferprof static` from the outside: what it prints, in three formats, and what it refuses.
# shellcheck source=tests/cli/lib.sh
. tests/cli/lib.sh
models=$PWD/tests/data/models

# field FILE EXPRESSION: a value of the JSON in FILE, by a Python expression on d
field() { python3 -c 'import json,sys; d=json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1" "$2"; }
# is NAME EXPRESSION VALUE: of the last run's JSON
is() {
    got=$(field "$work/out" "$2" 2>&1)
    if [ "$got" = "$3" ]; then ok "$1"; else not_ok "$1" "$2 is $got, expected $3"; fi
}

cd "$work" || exit 1
run "$INFERPROF" static "$models/deepseek-ocr.json" --gpu h200 --image 1654x2339 --json
expect "static --json answers" 0
is "parameters, total" 'd["params"]["total"]' 3336106240
is "parameters, active" 'd["params"]["active"]' 574127360
is "parameters, embedding" 'd["params"]["embedding"]' 165478400
is "parts sum to the whole" 'sum(d["params"]["by_module"].values())' 3336106240
is "name, family and type" '[d["model"][k] for k in ("name","family","dtype")]' "['deepseek-ocr', 'deepseek_ocr', 'bf16']"
is "tokens of a page" '[d["workload"][k] for k in ("image_tokens","prompt_tokens","text_tokens")]' '[903, 913, 10]'
is "image sub-stages" '["%.2f" % (d["stages"][s]["flops"]/1e9) for s in ("sam","clip","projector")]' "['2930.63', '533.74', '4.49']"
is "the decoder's share of prefill" 'd["stages"]["decoder"]["flops"]' $((817233920 * 913 + 30720 * 913 * 914 + 330956800))
is "prefill is the sum of its sub-stages" \
    'd["stages"]["prefill"]["flops"] == sum(d["stages"][s]["flops"] for s in ("sam","clip","projector","decoder"))' True
is "decode at context 914" 'd["stages"]["decode"]["flops_per_token"]' $((1148190720 + 61440 * 914))
is "stages carry bytes, floor and bound" \
    'all(d["stages"][s][k] for s in ("sam","clip","projector","prefill") for k in ("flops","bytes","floor_ms","bound"))' True
is "decode carries bytes, floor and bound" \
    'all(d["stages"]["decode"][k] for k in ("flops_per_token","bytes_per_token","floor_ms_per_token","bound"))' True
is "cache per token" 'd["kv_cache"]["bytes_per_token"]' 61440
is "operators sum to stages" \
    'abs(sum(o["flops"] for o in d["operators"] if o["stage"]=="sam") / d["stages"]["sam"]["flops"] - 1) < 1e-12' True
is "the device and its source" '[d["gpu"]["name"], d["gpu"]["peak_tflops"], d["gpu"]["peak_source"]]' "['H200 SXM', 989.4, 'table']"
is "assumptions speak of head, attention and experts" \
    'all(any(w in a for a in d["assumptions"]) for w in ("head", "causal", "experts"))' True

run "$INFERPROF" static "$models/deepseek-ocr.json" --prompt-tokens 913 --context 4096 --json
is "no device, no times" '[d["stages"]["prefill"]["floor_ms"], d["stages"]["prefill"]["bound"], d["gpu"]["name"]]' '[None, None, None]'
is "prefill without images is the decoder alone" 'd["stages"]["prefill"]["flops"]' $((817233920 * 913 + 30720 * 913 * 914 + 330956800))
is "decode at a context of its own" 'd["stages"]["decode"]["flops_per_token"]' $((1148190720 + 61440 * 4096))
run "$INFERPROF" static "$models/deepseek-ocr.json" --prompt-tokens 283 --lm-head all --json
is "all rows of the head" 'd["stages"]["prefill"]["head_flops"]' $((283 * 330956800))
run "$INFERPROF" static "$models/deepseek-ocr.json" --image 1654x2339 --image-mode base --json
is "one fixed view" 'd["workload"]["prompt_tokens"]' 283

MFU_PEAK_TFLOPS=500 "$INFERPROF" static "$models/qwen3-8b.json" --gpu h100 --json >"$work/out"
is "the environment overrides the table" '[d["gpu"]["peak_tflops"], d["gpu"]["peak_source"]]' "[500, 'MFU_PEAK_TFLOPS']"
MFU_PEAK_TFLOPS=500 "$INFERPROF" static "$models/qwen3-8b.json" --gpu h100 --peak-tflops 400 --peak-gbps 1000 --json >"$work/out"
is "options override the environment" '[d["gpu"]["peak_tflops"], d["gpu"]["peak_gbps"]]' '[400, 1000]'
MFU_PEAK_TFLOPS=fast run "$INFERPROF" static "$models/qwen3-8b.json"
expect "a bad environment is an error" 1 err "MFU_PEAK_TFLOPS is 'fast'"

run "$INFERPROF" static "$models/llama-3.1-8b-instruct.json" --gpu a100
expect "the table for people" 0 out '8,030,261,248 parameters' out 'prefill .*compute' out 'decode step at 513 .*memory' \
    out 'fits the 80.0 GB of A100 80GB SXM' out 'Assumptions'
run "$INFERPROF" static "$models/llama-3.1-8b-instruct.json" --gpu a100 --md --operators
expect "the same as Markdown" 0 out '^# llama-3.1-8b-instruct' out '^\| stage \|' out 'attention.q'
run "$INFERPROF" static "$models/qwen2.5-32b-instruct.json" --gpu 4090
expect "a model too large for its card" 0 out 'does NOT fit the 24.0 GB of RTX 4090'

run "$INFERPROF" static --gpu list
expect "the device table" 0 out '^H100 SXM .*989\.4' out '^RTX 4090 .*165\.2' out '^B300'
run "$INFERPROF" static --gpu list --json
is "the device table as JSON" 'len(d) >= 30 and all(g["source"] and g["compute_capability"] for g in d)' True
run "$INFERPROF" static "$models/qwen3-8b.json" --gpu all --json
is "all devices compared" 'len(d["gpus"]) >= 30 and [g["fits"] for g in d["gpus"] if g["gpu"] == "T4"]' '[False]'

run "$INFERPROF" static "$models/qwen3-8b.json" --gpu h100 --sweep batch=1..600 --svg sweep.svg
expect "a sweep" 0 out 'Sweep' out 'gives way to the compute roof at batch 29[0-9]' err 'chart: sweep.svg'
check "the chart is well-formed XML" python3 -c 'import xml.dom.minidom as x; x.parse("sweep.svg")'
run "$INFERPROF" static "$models/qwen3-8b.json" --gpu h100 --sweep prompt=1..100000:x1.5 --json
is "a sweep as JSON keeps the answer" 'd["sweep"]["name"], len(d["sweep"]["points"]) > 20, d["params"]["total"]' "('prompt', True, 8190735360)"
check "a chart without --svg is named by model and sweep" test -s qwen3-8b-prompt.svg
run "$INFERPROF" static "$models/qwen3-8b.json" --sweep depth=1..4
expect "an unknown sweep" 2 err "does not say what to vary"
run "$INFERPROF" static "$models/qwen3-8b.json" --sweep batch=9..4
expect "an empty sweep" 2 err "is not a range"

# weights beside the config
mkdir tiny
cat >tiny/config.json <<'J'
{"model_type":"llama","architectures":["LlamaForCausalLM"],"hidden_size":8,"num_hidden_layers":1,"num_attention_heads":2,
 "vocab_size":16,"intermediate_size":12,"tie_word_embeddings":true,"torch_dtype":"bfloat16"}
J
python3 - <<'P'
import json, struct
# 16x8 embedding, 4 8x8 projections, 3 12x8, 3 norms of 8: 128 + 256 + 288 + 24
head, at = {}, 0
for name, shape in [("e", [16, 8]), ("q", [4, 8, 8]), ("m", [3, 12, 8]), ("n", [3, 8])]:
    n = 2
    for s in shape: n *= s
    head[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + n]}
    at += n
text = json.dumps(head).encode()
open("tiny/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + bytes(at))
head["extra"] = {"dtype": "F32", "shape": [1], "data_offsets": [at, at + 4]}
text = json.dumps(head).encode()
open("more.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + bytes(at + 4))
P
run "$INFERPROF" static tiny --json
is "weights beside the config are counted" '[d["params"]["total"], d["params"]["files"]["total"], d["params"]["files"]["by_dtype"], d["warnings"]]' \
    "[696, 696, {'bf16': 696}, []]"
run "$INFERPROF" static tiny/model.safetensors
expect "a .safetensors file finds its config" 0 out '696 parameters' out 'weights on disk: 4 tensors'
mv more.safetensors tiny/model.safetensors
run "$INFERPROF" static tiny
expect "a difference is a warning" 0 err 'the weights hold 697 parameters, the config describes 696'
printf 'garbage' >tiny/model.safetensors
run "$INFERPROF" static tiny
expect "damaged weights are a warning" 0 err 'too few for a safetensors file'

echo '{"model_type":"clip_vision_model","hidden_size":128,"num_hidden_layers":2,"num_attention_heads":4,"intermediate_size":256,
 "image_size":56,"patch_size":14}' >tower.json
run "$INFERPROF" static tower.json --gpu h100 --json
is "a tower alone looks at one view of its own size" 'd["workload"]["images"][0]["width"], d["stages"]["vision"]["flops"] > 0' "(56, True)"
run "$INFERPROF" static tower.json --gpu h100
expect "a tower has no prompt and no decode" 0 out '^workload: batch 1, 56x56 image' out '^vision '

# misuse and bad input
run "$INFERPROF" static
expect "no model is misuse" 2 err 'name a model'
run "$INFERPROF" static nowhere
expect "no such file" 1 err 'nowhere'
echo '{"model_type":"newthing","hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":9,"intermediate_size":8}' >new.json
run "$INFERPROF" static new.json
expect "an unknown architecture" 1 err "model_type 'newthing'.*known: llama"
run "$INFERPROF" static new.json --assume llama
expect "an assumed architecture says so" 0 out 'taken for llama as told'
run "$INFERPROF" static new.json --assume llama --json
is "an assumed architecture says so in JSON" 'd["model"]["assumed"], any("--assume" in a for a in d["assumptions"])' "('llama', True)"
run "$INFERPROF" static "$models/qwen3-8b.json" --gpu h1000
expect "an unknown device" 2 err "static: --gpu: no GPU 'h1000'"
run "$INFERPROF" static "$models/qwen3-8b.json" --image 100x100
expect "an image for a model that has no eyes" 1 err 'reads no images'
run "$INFERPROF" static "$models/deepseek-ocr.json" --image 100by100
expect "a bad image size" 2 err "is not a size"
run "$INFERPROF" static "$models/qwen3-8b.json" --dtype q5
expect "an unknown type" 2 err "'q5' is not a type known here"
run "$INFERPROF" static "$models/qwen3-8b.json" --batch 0
expect "a batch of nothing" 2 err "--batch: 0 is out of range; expected 1 to"
