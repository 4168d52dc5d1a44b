#!/bin/sh
# `inferprof static`: the output in three formats, and what is an error.
# shellcheck source=tests/cli/lib.sh
. tests/cli/lib.sh
models=$PWD/tests/data/models
make_gguf=$PWD/tests/tools/make_gguf.py

# is NAME EXPRESSION VALUE: the last run succeeded, and its JSON has that value
is() {
    if [ "$status" -ne 0 ]; then not_ok "$1" "status $status"; else check "$1" json_is "$work/out" "$2" "$3"; fi
}

cd "$work" || exit 1
run "$INFERPROF" static "$models/deepseek-ocr.json" --gpu h200 --image 1654x2339 --json
expect "static --json succeeds" 0
is "total parameters" 'd["params"]["total"]' 3336106240
is "active parameters" 'd["params"]["active"]' 574127360
is "embedding parameters" 'd["params"]["embedding"]' 165478400
is "the modules sum to the total parameters" 'sum(d["params"]["by_module"].values())' 3336106240
is "name, family and data type" '[d["model"][k] for k in ("name","family","dtype")]' "['deepseek-ocr', 'deepseek_ocr', 'bf16']"
is "tokens of a page image" '[d["workload"][k] for k in ("image_tokens","prompt_tokens","text_tokens")]' '[903, 913, 10]'
is "FLOPs of the image stages" '["%.2f" % (d["stages"][s]["flops"]/1e9) for s in ("sam","clip","projector")]' "['2930.63', '533.74', '4.49']"
is "FLOPs of the decoder in prefill" 'd["stages"]["decoder"]["flops"]' $((817233920 * 913 + 30720 * 913 * 914 + 330956800))
is "prefill is the sum of its parts" \
    'd["stages"]["prefill"]["flops"] == sum(d["stages"][s]["flops"] for s in ("sam","clip","projector","decoder"))' True
is "FLOPs of a decode step at context 914" 'd["stages"]["decode"]["flops_per_token"]' $((1148190720 + 61440 * 914))
is "the prefill stages have bytes, floor and bound" \
    'all(d["stages"][s][k] for s in ("sam","clip","projector","prefill") for k in ("flops","bytes","floor_ms","bound"))' True
is "decode has bytes, floor and bound per token" \
    'all(d["stages"]["decode"][k] for k in ("flops_per_token","bytes_per_token","floor_ms_per_token","bound"))' True
is "KV cache bytes per token" 'd["kv_cache"]["bytes_per_token"]' 61440
is "the operators of sam sum to the stage" \
    'abs(sum(o["flops"] for o in d["operators"] if o["stage"]=="sam") / d["stages"]["sam"]["flops"] - 1) < 1e-12' True
is "the GPU and the source of its peaks" '[d["gpu"]["name"], d["gpu"]["peak_tflops"], d["gpu"]["peak_source"]]' "['H200 SXM', 989.4, 'table']"
is "the assumptions cover head, attention and experts" \
    'all(any(w in a for a in d["assumptions"]) for w in ("head", "causal", "experts"))' True

run "$INFERPROF" static "$models/deepseek-ocr.json" --prompt-tokens 913 --context 4096 --json
is "without a GPU there are no times" '[d["stages"]["prefill"]["floor_ms"], d["stages"]["prefill"]["bound"], d["gpu"]["name"]]' '[None, None, None]'
is "prefill without images is only the decoder" 'd["stages"]["prefill"]["flops"]' $((817233920 * 913 + 30720 * 913 * 914 + 330956800))
is "--context sets the context of decode" 'd["stages"]["decode"]["flops_per_token"]' $((1148190720 + 61440 * 4096))
run "$INFERPROF" static "$models/deepseek-ocr.json" --prompt-tokens 283 --lm-head all --json
is "--lm-head all counts every row of the head" 'd["stages"]["prefill"]["head_flops"]' $((283 * 330956800))
run "$INFERPROF" static "$models/deepseek-ocr.json" --image 1654x2339 --image-mode base --json
is "--image-mode base has one view" 'd["workload"]["prompt_tokens"]' 283

run env MFU_PEAK_TFLOPS=500 "$INFERPROF" static "$models/qwen3-8b.json" --gpu h100 --json
is "MFU_PEAK_TFLOPS overrides the table" '[d["gpu"]["peak_tflops"], d["gpu"]["peak_source"]]' "[500, 'MFU_PEAK_TFLOPS']"
run env MFU_PEAK_TFLOPS=500 "$INFERPROF" static "$models/qwen3-8b.json" --gpu h100 --peak-tflops 400 --peak-gbps 1000 --json
is "options override MFU_PEAK_TFLOPS" '[d["gpu"]["peak_tflops"], d["gpu"]["peak_gbps"]]' '[400, 1000]'
run env MFU_PEAK_TFLOPS=fast "$INFERPROF" static "$models/qwen3-8b.json"
expect "a bad MFU_PEAK_TFLOPS is an error" 1 err "MFU_PEAK_TFLOPS is 'fast'"

run "$INFERPROF" static "$models/llama-3.1-8b-instruct.json" --gpu a100
expect "the text output has parameters, stages, memory and assumptions" 0 out '8,030,261,248 parameters' out 'prefill .*compute' out 'decode step at 513 .*memory' \
    out 'fits the 80.0 GB of A100 80GB SXM' out 'Assumptions'
run "$INFERPROF" static "$models/llama-3.1-8b-instruct.json" --gpu a100 --md --operators
expect "--md prints Markdown tables" 0 out '^# llama-3.1-8b-instruct' out '^\| stage \|' out 'attention.q'
run "$INFERPROF" static "$models/qwen2.5-32b-instruct.json" --gpu 4090
expect "a model larger than the GPU's memory does not fit" 0 out 'does NOT fit the 24.0 GB of RTX 4090'

run "$INFERPROF" static --link list
expect "--link list prints the links and their sources" 0 out '^NVLink 4 +450 +GPUs' out '^InfiniBand NDR +50 +nodes' out 'PCI-SIG'
run "$INFERPROF" static "$models/llama-3.1-8b-instruct.json" --gpu h100 --tp 8 --pp 2 --net ndr --json
is "each GPU has its part of the weights" '[s["layers"] for s in d["parallel"]["stages"]]' '[16, 16]'
is "the job's roofline time includes the links" \
    'abs(d["parallel"]["job"]["decode_floor_ms"] - sum(s["decode_step"]["roofline_ms"] + s["decode_step"]["communication_ms"] for s in d["parallel"]["stages"])) < 1e-12' True
# 16 layers: two all-reduces of 4096 numbers per layer over 8 GPUs, and one of the embedding
is "bytes sent by a GPU of the first stage" 'sum(c["sent_bytes"] for c in d["parallel"]["stages"][0]["decode_step"]["communication"] if c["operation"] == "all-reduce")' \
    "$((33 * 4096 * 2 * 14 / 8))"
run "$INFERPROF" static "$models/llama-3.1-8b-instruct.json" --gpu h100 --tp 8 --pp 2
expect "an unknown network gives no times for the job" 0 out 'link between nodes: unknown' out 'Communication of each GPU per pass'
run "$INFERPROF" static "$models/llama-3.1-8b-instruct.json" --gpu l40s --tp 2 --json
is "a GPU with unknown links has no communication time" '[d["parallel"]["link"], d["parallel"]["job"]["decode_floor_ms"]]' '[None, None]'
run "$INFERPROF" static "$models/llama-3.1-8b-instruct.json" --gpu l40s --tp 2 --link 25 --json
is "--link accepts GB/s" '[d["parallel"]["link"]["gbytes_per_s"], d["parallel"]["job"]["decode_floor_ms"] > 0]' '[25, True]'
run "$INFERPROF" static "$models/llama-3.1-8b-instruct.json" --tp 6
expect "heads that cannot be divided are an error" 1 err '32 attention heads cannot be divided among 6 GPUs'
run "$INFERPROF" static "$models/qwen3-30b-a3b.json" --gpu h200 --tp 2 --ep 8 --dp 4 --md
expect "experts over replicas have an all-to-all" 0 out 'all-to-all .experts, dispatch. . ep' out '^## Parallel layout'
run "$INFERPROF" static "$models/qwen3-8b.json" --tp 2 --sweep batch=1..2
expect "--tp with --sweep is refused" 2 err 'cannot be combined'
run "$INFERPROF" static "$models/qwen3-8b.json" --tp 2 --link nvlink77
expect "an unknown link is an error with a suggestion" 1 err 'did you mean NVLink'
run "$INFERPROF" static --gpu list
expect "--gpu list prints the GPU table" 0 out '^H100 SXM .*989\.4' out '^RTX 4090 .*165\.2' out '^B300'
run "$INFERPROF" static --gpu list --json
is "--gpu list --json has source and compute capability per GPU" 'len(d["gpus"]) >= 30 and all(g["source"] and g["compute_capability"] for g in d["gpus"])' True
run "$INFERPROF" static "$models/qwen3-8b.json" --gpu all --json
is "--gpu all compares all GPUs" 'len(d["gpus"]) >= 30 and [g["fits"] for g in d["gpus"] if g["gpu"] == "T4"]' '[False]'

run "$INFERPROF" static "$models/qwen3-8b.json" --gpu h100 --sweep batch=1..600 --svg sweep.svg
expect "--sweep finds the batch where compute becomes the limit" 0 out 'Sweep' out 'changes from memory-bound to compute-bound at batch 29[0-9]' err 'chart: sweep.svg'
check "the chart is valid XML" python3 -c 'import xml.dom.minidom as x; x.parse("sweep.svg")'
run "$INFERPROF" static "$models/qwen3-8b.json" --gpu h100 --sweep prompt=1..100000:x1.5 --json
is "--sweep --json has the points and the parameters" 'd["sweep"]["name"], len(d["sweep"]["points"]) > 20, d["params"]["total"]' "('prompt', True, 8190735360)"
check "a chart without --svg is named by model and sweep" test -s qwen3-8b-prompt.svg
run "$INFERPROF" static "$models/qwen3-8b.json" --sweep depth=1..4
expect "an unknown sweep variable is misuse" 2 err "expected batch=A..B, prompt=A..B or context=A..B"
run "$INFERPROF" static "$models/qwen3-8b.json" --sweep batch=9..4
expect "a reversed sweep range is misuse" 2 err "is not a range"

# weights next to the config
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
is "weights next to the config are counted" '[d["params"]["total"], d["params"]["files"]["total"], d["params"]["files"]["by_dtype"], d["warnings"]]' \
    "[696, 696, {'bf16': 696}, []]"
run "$INFERPROF" static tiny/model.safetensors
expect "a .safetensors file uses the config in its folder" 0 out '696 parameters' out 'weights on disk: 4 tensors'
mv more.safetensors tiny/model.safetensors
run "$INFERPROF" static tiny
expect "a difference between weights and config is a warning" 0 err 'the weight files have 697 parameters, the config describes 696'
printf 'garbage' >tiny/model.safetensors
run "$INFERPROF" static tiny
expect "damaged weights are a warning" 0 err 'too small for a safetensors file'

echo '{"model_type":"clip_vision_model","hidden_size":128,"num_hidden_layers":2,"num_attention_heads":4,"intermediate_size":256,
 "image_size":56,"patch_size":14}' >tower.json
run "$INFERPROF" static tower.json --gpu h100 --json
is "a vision model alone has one view of its own size" 'd["workload"]["images"][0]["width"], d["stages"]["vision"]["flops"] > 0' "(56, True)"
run "$INFERPROF" static tower.json --gpu h100
expect "a vision model has no prompt and no decode" 0 out '^workload: batch 1, 56x56 image' out '^vision '

# GGUF files
python3 "$make_gguf" llama Q4_K model.gguf && python3 "$make_gguf" mixtral BF16 split 3
run "$INFERPROF" static model.gguf --gpu h200
expect "a GGUF file has the cost of its model and its types by layer" 0 out '^llama, fp16, ggml Q8_0 3%, Q4_K 96%: 1,924,864 parameters' \
    out '^weights on disk: 30 tensors, 1,924,864 parameters' out '^1 to 2, each ' out '^quantised weights: 1.98 PFLOP/s int8 dense'
run "$INFERPROF" static model.gguf --json
is "parameters and bytes of a GGUF file are those of its tensors" \
    '[d["params"]["total"], d["params"]["files"]["total"], d["params"]["files"]["bytes"] == d["memory"]["weights_bytes"], sum(l["bytes"] for l in d["params"]["files"]["layers"]) == d["params"]["files"]["bytes"], d["warnings"]]' \
    '[1924864, 1924864, True, True, []]'
run "$INFERPROF" static split-00002-of-00003.gguf --json
is "a split GGUF file is read as one model" '[d["model"]["family"], d["model"]["experts"], d["params"]["files"]["tensors"]]' "['mixtral', 4, 33]"
mv split-00003-of-00003.gguf away
run "$INFERPROF" static split-00001-of-00003.gguf
expect "a missing part of a GGUF file is an error" 1 err 'split-00003-of-00003.gguf: No such file'
head -c 2000 model.gguf >cut.gguf
run "$INFERPROF" static cut.gguf
expect "a truncated GGUF file is an error with the place" 1 err 'cut.gguf: byte [0-9]*: '

# price and hard bound
run "$INFERPROF" static "$models/llama-3.1-8b-instruct.json" --gpu h100 --price 3.6 --mfu 0.5 --mbu 0.5 --json
is "--price is the roofline time per token times the price" \
    'abs(d["price"]["at_the_roofline"]["prefill_usd_per_million_tokens"] / (d["stages"]["prefill"]["floor_ms"] / 512 * 1e6 * 1e-6) - 1) < 1e-9, abs(d["price"]["at_the_roofline"]["decode_usd_per_million_tokens"] / (d["stages"]["decode"]["generation"]["floor_ms"] / 127) - 1) < 1e-9' \
    '(True, True)'
is "half the efficiency costs twice as much" \
    'all(abs(d["price"]["at_the_efficiency"][k] / v - 2) < 1e-9 for k, v in d["price"]["at_the_roofline"].items())' True
is "the hard bound is at most the roofline time" \
    'all(0 < s["hard_bound_ms"] <= s["floor_ms"] * (1 + 1e-12) for s in (d["stages"]["prefill"], d["stages"]["decode"]["step"])) and abs(d["stages"]["prefill"]["hard_bound_ms"] - max(d["stages"]["prefill"]["compute_ms"], d["stages"]["prefill"]["memory_ms"])) < 1e-12' True
run "$INFERPROF" static "$models/llama-3.1-8b-instruct.json" --gpu h100 --price 3.6
expect "--price is stated as a lower limit" 0 out '^Price at .3.60 per hour' out '^at the roofline: at least .[0-9.]* per million prompt tokens'
run "$INFERPROF" static "$models/llama-3.1-8b-instruct.json" --price 3.6
expect "--price without a device is a warning" 0 err '--price needs a device with known peaks'
run "$INFERPROF" static "$models/qwen3-8b.json" --gpu all --price 3
expect "--price with --gpu all is misuse" 2 err 'price of one device'
run "$INFERPROF" static "$models/qwen3-8b.json" --gpu h100 --mfu 0.5
expect "--mfu without --price is misuse" 2 err 'need a --price'
run "$INFERPROF" static "$models/qwen3-8b.json" --gpu h100 --price 3 --mbu 70
expect "an efficiency above 1 is misuse" 2 err '--mbu is 70; expected a fraction, at most 1'
run "$INFERPROF" static "$models/qwen3-8b.json" --gpu 'GRID A100-10C'
expect "a slice of a card has no peaks" 2 err 'is a slice of a GPU'
run "$INFERPROF" static "$models/gpt-oss-20b.json" --gpu h200
expect "the peak of quantised weights is named with its reason" 0 out '^quantised weights: 989 TFLOP/s bf16 dense; the GPU has no units for this type'

# misuse and bad input
run "$INFERPROF" static
expect "a missing model argument is misuse" 2 err 'expected a model'
run "$INFERPROF" static nowhere
expect "a missing config is an error" 1 err 'nowhere: No such file'
echo '{"model_type":"newthing","hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":9,"intermediate_size":8}' >new.json
run "$INFERPROF" static new.json
expect "an unknown architecture is an error with the known ones" 1 err "model_type 'newthing'.*known: llama"
run "$INFERPROF" static new.json --assume llama
expect "--assume is stated in the text output" 0 out 'read as llama because of --assume'
run "$INFERPROF" static new.json --assume llama --json
is "--assume is stated in the JSON output" 'd["model"]["assumed"], any("--assume" in a for a in d["assumptions"])' "('llama', True)"
run "$INFERPROF" static "$models/qwen3-8b.json" --gpu h1000
expect "an unknown GPU is misuse" 2 err "static: --gpu: no GPU 'h1000'"
run "$INFERPROF" static "$models/qwen3-8b.json" --image 100x100
expect "an image for a text model is an error" 1 err 'does not support images'
run "$INFERPROF" static "$models/deepseek-ocr.json" --image 100by100
expect "a bad image size is misuse" 2 err "is not a size"
run "$INFERPROF" static "$models/qwen3-8b.json" --dtype q5
expect "an unknown data type is misuse" 2 err "unknown type 'q5'"
run "$INFERPROF" static "$models/qwen3-8b.json" --batch 0
expect "batch 0 is misuse" 2 err "--batch: 0 is out of range; expected 1 to"
