#!/bin/sh
# `inferprof engine`: the protocol on a pipe, prompts on the command line, and bad input.
. tests/cli/lib.sh

# say LINE...: sends the lines to a new engine
say() { printf '%s\n' "$@" | limited "$INFERPROF" engine >"$work/out" 2>"$work/err"; status=$?; }

say '{"op":"hello","id":7}' '{"op":"load","threads":1}' \
    '{"op":"infer","prompt_ids":[0,65,66],"max_new_tokens":5,"ignore_eos":true,"id":"x"}' '{"op":"bye"}'
expect "the engine answers every request in order" 0 \
    out '^\{"op":"hello","protocol":1,"name":"native",.*"model":null,"stages":\[\],"id":7\}$' \
    out '^\{"op":"load",.*"name":"deepseek-ocr-small".*"stages":\["prefill","sam","clip","projector","decode"\]\}$' \
    out '^\{"op":"infer","prefill_ms":.*"prompt_tokens":3,"new_tokens":5,.*"stop":"length","id":"x"\}$' \
    out '^\{"op":"bye"\}$'
check "the engine counts the experts of its routing: 4 of one token, and no more than all of several" python3 - "$work/out" <<'END'
import json, sys
replies = [json.loads(line) for line in open(sys.argv[1])]
answer, = [r for r in replies if r["op"] == "infer"]
experts = answer["experts_read"]
assert experts["decode"] == 4 and 4 <= experts["prefill"] <= 12, experts
END
check "the engine writes one line per request" test "$(wc -l <"$work/out")" -eq 4

say '{"op":"load","threads":1,"device":"cpu"}' '{"op":"load","device":"tpu:0"}' '{"op":"load","device":"cpu:1"}' \
    '{"op":"load","device":7}' '{"op":"load","decode":"fast"}' '{"op":"infer"}'
expect "the device of a load request selects the backend" 0 \
    out '^\{"op":"load",.*"device":"cpu","isa":"(portable|avx2|avx512|avx512vnni|avx512bf16|amx)"' \
    out "device 'tpu:0': the native engine runs on cpu" \
    out "device 'cpu:1': the native engine runs on cpu" \
    out '\\"device\\" must be a string' \
    out "decode 'fast': expected auto, graph or persistent" \
    out 'no model is loaded'

old_path=${LD_LIBRARY_PATH:-}
export LD_LIBRARY_PATH="$PWD/$BUILD/tests/mock${old_path:+:$old_path}" MOCK_CUDA_VERSION=11080
say '{"op":"load","device":"cuda:0"}' '{"op":"load","threads":1}'
expect "an old driver, or a build without nvcc, is reported with the remedy, and auto takes the CPU" 0 \
    out '"error":"CUDA: (the NVIDIA driver supports CUDA 11.8, but the engine needs 12.0: install a newer driver|this program was built without nvcc).*device=cpu' \
    out '^\{"op":"load",.*"device":"cpu"'
export MOCK_CUDA_VERSION=13000
say '{"op":"load","device":"cuda:0"}'
expect "a driver without the functions of the engine is reported" 0 \
    out '"error":"CUDA: (libcuda.so.1 has no cu[A-Za-z_0-9]+: install a newer NVIDIA driver|this program was built without nvcc)'
unset MOCK_CUDA_VERSION
export LD_LIBRARY_PATH="$old_path"

say '{"op":"infer"}' 'no json' '{"op":"infr"}' '[]' '{"op":"load","model":"/nowhere"}' '{"op":"load","weights":"synthetic:x"}' \
    '{"op":"load","weights":"guess"}' '{"op":"load","dtype":"f8"}' '{"op":"load","threads":1,"max_context":32}' \
    '{"op":"infer","prompt_ids":[99999]}' \
    '{"op":"infer","prompt_ids":[1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9]}' \
    '{"op":"infer","prompt":7}' '{"op":"infer","max_new_tokens":0}' '{"op":"infer","detail":"all"}' \
    '{"op":"infer","detail":"stages"}' '{"op":"infer","prompt_ids":[1],"max_new_tokens":100,"ignore_eos":true}' '{"op":"hello"}'
expect "the engine answers bad requests with an error and continues" 0 \
    out 'no model is loaded' \
    out '"op":null,"error":"request' \
    out 'did you mean \\"infer\\"' \
    out 'expected an object' \
    out '"op":"load","error":"/nowhere' \
    out 'seed must be a whole number' \
    out 'expected auto or synthetic:SEED' \
    out 'expected auto, bf16, f16 or f32' \
    out 'token id 99999 at position 0' \
    out 'the prompt has 36 tokens, but the context has only 32 positions' \
    out '\\"prompt\\" must be a string' \
    out '\\"max_new_tokens\\" must be a whole number' \
    out '\\"detail\\" must be none, stages, modules or operators' \
    out 'names no file for the records' \
    out '"new_tokens":32,.*"stop":"context"' \
    out '^\{"op":"hello".*"max_context":32'

say '{"op":"load","threads":1}' \
    "{\"op\":\"infer\",\"prompt_ids\":[0,65],\"max_new_tokens\":3,\"ignore_eos\":true,\"detail\":\"operators\",\"trace\":\"$work/t.ipt\"}" \
    "{\"op\":\"infer\",\"prompt_ids\":[0,65],\"detail\":\"stages\",\"trace\":\"$work/no/such/t.ipt\"}"
expect "the engine records a request and reports an unwritable trace" 0 out '"new_tokens":3' out '"error":".*no/such'
run "$INFERPROF" trace dump "$work/t.ipt"
expect "the trace holds stages, modules, operators, kernels and tokens" 0 \
    out 'category=1 .*name="prefill"' out 'category=1 .*name="decode"' out 'category=2 .*name="layer.0.attn"' \
    out 'category=3 .*name="lm_head" detail="x\[1,256\]f32 w\[1024,256\]bf16" flops=524288' \
    out '^kernel .*name="gemv_bf16"' out '^token .*count=2'

# Limits of the address space, at which loading, the image or nothing fails. Every request gets an answer.
case $BUILD in
*san*) skip "the engine answers every request with little memory" "sanitizers need more address space" ;;
*)
    answered=0 no_load=0 no_image=0
    limits='60000 80000 90000 94000 96000 98000 100000 102000 104000 106000 110000 130000 150000 200000'
    for kib in $limits; do
        printf '%s\n' '{"op":"load","threads":1,"max_context":4096}' '{"op":"load","threads":1,"max_context":1024}' \
            '{"op":"infer","inputs":["samples/page-text.png"],"image":{"mode":"gundam"},"max_new_tokens":1,"ignore_eos":true}' \
            '{"op":"infer","prompt_ids":[0,65],"max_new_tokens":2,"ignore_eos":true}' |
            limited prlimit --as=$((kib * 1024)) "$INFERPROF" engine >"$work/out" 2>"$work/err" &&
            [ "$(wc -l <"$work/out")" = 4 ] && [ ! -s "$work/err" ] && answered=$((answered + 1))
        if sed -n 1p "$work/out" | grep -q '"error":".*out of memory'; then no_load=$((no_load + 1)); fi
        if sed -n 3p "$work/out" | grep -q '"error":".*memory' && sed -n 4p "$work/out" | grep -q '"new_tokens":2'; then no_image=$((no_image + 1)); fi
    done
    check "the engine answers every request with little memory" test $answered = "$(echo "$limits" | wc -w)"
    check "a model that does not fit is an error" test $no_load -ge 2
    check "a page that does not fit is an error, and the next request is served" test $no_image -ge 2
    ;;
esac

run "$INFERPROF" engine --prompt hello -n 4 --threads 1 --ignore-eos
expect "the engine answers a prompt from the command line" 0 err 'decode: 3 tokens' err 'prefill: [0-9]+ tokens'
run "$INFERPROF" engine --prompt hello --image "$work/none.png"
expect "the engine reports a missing image" 1 err 'none.png: No such file'
run "$INFERPROF" engine --model x
expect "--model without a prompt is misuse" 2 err 'without --prompt or --image the engine serves its protocol'

# Invalid UTF-8 and bad images.
say '{"op":"load","threads":1}' '{"op":"infer","prompt_ids":[[0,65,66],[0,71]],"max_new_tokens":3,"ignore_eos":true}' \
    '{"op":"infer","prompt_ids":[[0],7]}' '{"op":"infer","prompt_ids":[[0],[99999]]}'
expect "the engine runs a batch of sequences" 0 out '"max_batch":256' \
    out '"prompt_tokens":5,"new_tokens":6,"batch":2,.*"sequences":\[\{"prompt_tokens":3,"new_tokens":3,.*\{"prompt_tokens":2,"new_tokens":3,' \
    out '"error":".*prompt_ids.*1\] must be a list of token ids' out '"error":"sequence 1: token id 99999'
printf '{"op":"infer","prompt":"\377\376"}\n{"op":"hello"}\n' | limited "$INFERPROF" engine >"$work/out" 2>"$work/err"
status=$?
expect "the engine rejects a line that is not UTF-8 and continues" 0 out '"op":null,"error":"request' out '^\{"op":"hello"'
head -c 2000 tests/data/engine/dsocr_page.png >"$work/cut.png"
say '{"op":"load","threads":1}' "{\"op\":\"infer\",\"inputs\":[\"$work/cut.png\"]}" '{"op":"infer","inputs":["/dev/null"]}' \
    '{"op":"infer","prompt":"<image><image>","inputs":["tests/data/engine/dsocr_page.png"]}' '{"op":"hello"}'
expect "the engine reports bad images and continues" 0 out '"error":".*cut.png' out '"error":".*/dev/null' \
    out '"error":"the prompt contains 2 times <image>' out '^\{"op":"hello".*"vision":true'
# The header claims 60000 x 60000 pixels, which would take 10 GB.
printf '\211PNG\r\n\032\n\0\0\0\015IHDR\0\0\352\140\0\0\352\140\010\002\0\0\0\017\260\342\025\0\0\0\0IDAT\065\257\006\036' >"$work/huge.png"
say '{"op":"load","threads":1}' "{\"op\":\"infer\",\"inputs\":[\"$work/huge.png\"]}" '{"op":"hello"}'
expect "the engine rejects an image above the size limit and continues" 0 \
    out '"op":"infer","error":".*huge.png: 60000 x 60000 pixels are more than the limit' out '^\{"op":"hello".*"vision":true'
run "$INFERPROF" engine --prompt "$(printf 'a\377\200b')" -n 2 --threads 1 --ignore-eos
expect "the engine replaces invalid UTF-8 in a prompt" 0 err 'decode: 1 tokens'
run "$INFERPROF" engine --prompt "$(printf '%0999d' 0)" --max-context 64 --threads 1
expect "a prompt longer than the context is an error with the limit" 1 err 'the prompt has [0-9]+ tokens, but the context has only 64 positions: shorten it'

# Folders without a model that the engine can run.
sizes='"hidden_size":16,"num_hidden_layers":1,"num_attention_heads":2,"num_key_value_heads":2,"intermediate_size":16,"vocab_size":32,"max_position_embeddings":64'
for kind in starship gpt2 llama; do
    mkdir -p "$work/$kind"
    printf '{"model_type":"%s",%s}' "$kind" "$sizes" >"$work/$kind/config.json"
done
cp -r "$work/llama" "$work/cut"
printf '\377\0\0\0\0\0\0\0{"model.norm.weight":{"dtype"' >"$work/cut/model.safetensors"
say "{\"op\":\"load\",\"model\":\"$work/starship\"}" "{\"op\":\"load\",\"model\":\"$work/gpt2\",\"weights\":\"synthetic:1\"}" \
    "{\"op\":\"load\",\"model\":\"$work/llama\"}" "{\"op\":\"load\",\"model\":\"$work/cut\"}" '{"op":"load","threads":1}'
expect "the engine reports unsupported models and missing or truncated weights, and continues" 0 \
    out '"error":".*starship' out 'does not support .gpt2. models; it supports llama' \
    out '"error":"weights \(weights=synthetic:0 runs the model without weight files\): .*llama' \
    out '"error":"weights .*cut/model.safetensors' out '"name":"deepseek-ocr-small"'

# The client closes the pipe: before the reply, during a request, and during a command-line prompt.
printf '{"op":"hello"}\n{"op":"hello"}\n' | { limited "$INFERPROF" engine 2>"$work/err"; echo $? >"$work/status"; } | true
check "the engine exits without a signal when its client closes the pipe" test "$(cat "$work/status")" -le 1
long='{"op":"infer","prompt":"x","max_new_tokens":4000,"ignore_eos":true}'
printf '%s\n' '{"op":"load","threads":1}' "$long" "$long" | { limited "$INFERPROF" engine 2>"$work/err"; echo $? >"$work/status"; } | head -n 1 >"$work/out"
status=$(cat "$work/status")
expect "the engine ends when its client closes the pipe during a request" 1 out '^\{"op":"load"' err 'writing a reply: Broken pipe'
{ limited "$INFERPROF" engine --prompt x -n 4000 --threads 1 --ignore-eos --no-repeat-ngram 0 2>"$work/err"; echo $? >"$work/status"; } | head -c 1 >"$work/out"
status=$(cat "$work/status")
expect "the engine stops generating when its reader closes the pipe" 1 err 'cancelled after [0-9]+ of 4000 tokens: the client no longer reads the answer'

# An NVTX tool gets the stages.
cat >"$work/tool.c" <<'C'
#include <stdint.h>
#include <stdio.h>
struct callbacks { size_t size; int (*get)(uint32_t, void ****, uint32_t *); };
static int push(const char *name) { fprintf(stderr, "nvtx push %s\n", name); return 0; }
static int pop(void) { fprintf(stderr, "nvtx pop\n"); return 0; }
int InitializeInjectionNvtx2(const void *(*table)(uint32_t)) {
    const struct callbacks *c = table(1);
    void ***slots;
    uint32_t n;
    if (!c || !c->get(1, &slots, &n) || n < 16 || c->get(3, &slots, &n)) return 0;
    *slots[9] = (void *)push;
    *slots[11] = (void *)pop;
    return 1;
}
C
if ${CC:-cc} -shared -fPIC -o "$work/tool.so" "$work/tool.c" 2>"$work/err"; then
    run env NVTX_INJECTION64_PATH="$work/tool.so" "$INFERPROF" engine --prompt hello -n 2 --threads 1 --ignore-eos \
        --trace "$work/n.ipt" --detail modules
    expect "the engine sends its stages and modules to an NVTX tool" 0 err '^nvtx push prefill$' err '^nvtx push layer.3.moe$' \
        err '^nvtx push decode$' err '^nvtx pop$'
else
    not_ok "the fake NVTX tool compiles" "$(cat "$work/err")"
fi

# Operator shapes can be switched off.
for shapes in true false; do
    printf '{"op":"load"}\n{"op":"infer","prompt":"hi","max_new_tokens":2,"detail":"operators","record_shapes":%s,"trace":"%s"}\n' \
        $shapes "$work/shapes-$shapes.ipt" | limited "$INFERPROF" engine >"$work/out" 2>"$work/err"
done
# operators PATTERN TRACE: the number of operator ranges that match
operators() { "$INFERPROF" trace dump --kind range "$2" | grep -cE "category=3 .*$1"; }
total=$(operators '' "$work/shapes-true.ipt")
check "every operator has shapes by default" test "$total" -gt 0 -a "$(operators ' detail="' "$work/shapes-true.ipt")" -eq "$total"
check "record_shapes=false records the same operators" test "$(operators '' "$work/shapes-false.ipt")" -eq "$total"
check "record_shapes=false records no shapes" test "$(operators ' detail="' "$work/shapes-false.ipt")" -eq 0

# Attention shapes grow with each token. Rounding them keeps the operator tables short.
run "$INFERPROF" engine --prompt hello -n 60 --ignore-eos --trace "$work/long.ipt"
expect "the engine records a long answer" 0
"$INFERPROF" trace dump --kind range "$work/long.ipt" | grep -o 'q\[1,256\]f32 kv\[[^ "]*' | sort -u >"$work/out"
check "key shapes of decode steps are rounded up to a power of two" test "$(cat "$work/out")" = 'q[1,256]f32 kv[<=64,256]bf16'
printf '{"op":"load","kv_dtype":"f32"}\n{"op":"infer","prompt":"hi","max_new_tokens":3,"ignore_eos":true,"detail":"operators","trace":"%s"}\n' \
    "$work/kv-f32.ipt" | limited "$INFERPROF" engine >"$work/out" 2>"$work/err"
check "the shape of attention names the type of the cache" sh -c \
    "'$INFERPROF' trace dump --kind range '$work/kv-f32.ipt' | grep -q 'q.1,256.f32 kv.<=64,256.f32'"

# ---- images that are made to exhaust memory
python3 - "$work" <<'END'
import struct, sys, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
def png(name, width, height):
    packer = zlib.compressobj(9)
    row = bytes(1 + width)
    rows = max(1, (1 << 20) // len(row))
    data = b"".join(packer.compress(row * min(rows, height - y)) for y in range(0, height, rows)) + packer.flush()
    with open(f"{sys.argv[1]}/{name}.png", "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)))
        f.write(chunk(b"IDAT", data) + chunk(b"IEND", b""))
png("tall", 1, 4000000)
png("wide", 40000000, 1)
END
say '{"op":"load","threads":1}' "{\"op\":\"infer\",\"inputs\":[\"$work/tall.png\"],\"max_new_tokens\":1,\"id\":1}" \
    "{\"op\":\"infer\",\"inputs\":[\"$work/wide.png\"],\"max_new_tokens\":1,\"id\":2}" \
    '{"op":"infer","prompt_ids":[0,65],"max_new_tokens":2,"ignore_eos":true}'
expect "images that would need gigabytes are answered with an error" 0 \
    out 'tall.png: an image of 1 x 4000000 pixels cannot be resized to .* too long and narrow' \
    out 'wide.png: an image of 40000000 x 1 pixels cannot be resized' out '"new_tokens":2'

# GGUF
gguf=$work/gguf
mkdir -p "$gguf"
python3 tests/tools/make_gguf.py llama Q4_K "$gguf/model.gguf" && python3 tests/tools/make_gguf.py mixtral BF16 "$gguf/split" 3
ids='{"op":"infer","prompt_ids":[1,2,3],"max_new_tokens":3,"ignore_eos":true}'
say "{\"op\":\"load\",\"model\":\"$gguf/model.gguf\",\"threads\":1}" "$ids" \
    "{\"op\":\"load\",\"model\":\"$gguf/split-00001-of-00003.gguf\",\"threads\":1}" "$ids" '{"op":"infer","prompt":"x"}'
expect "the engine runs GGUF files, single and split" 0 out '"architecture":"llama".*"weights":"files","dtype":"mixed","parameters":1924864' \
    out '"architecture":"mixtral".*"dtype":"mixed"' out '"prompt_tokens":3,"new_tokens":3'
run "$INFERPROF" profile --dry-run model.path="$gguf/model.gguf"
expect "profile plans a run of a GGUF file" 0 out 'model.gguf'
