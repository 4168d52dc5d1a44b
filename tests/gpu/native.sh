#!/bin/bash
# native.sh [PART...]: profiles DeepSeek-OCR (random weights, one page with tiles) on a GPU with the native engine and with Hugging
# Face, compares the two runs, and measures llama.cpp on files of the same shapes. Needs a GPU. Parts and minutes:
#     graph        0.3  native engine, decoding steps as CUDA graphs
#     persistent   0.3  native engine, decoding steps in one kernel
#     hf           1.2  Hugging Face, and `compare` with the native runs
#     qwen         0.6  Qwen3-8B, native engine: prompts of 2,048 and 512 tokens, batches of 1 and 32
#     hf-qwen      0.8  the first of these with Hugging Face
#     peers        1    llama-bench (LLAMA_BENCH=PATH, MKGGUF=SCRIPT): decode and prompts of DeepSeek-OCR and Qwen3-8B; batches
#                       with llama-batched-bench (LLAMA_BATCHED_BENCH=PATH)
#     table        0    the table of docs/engine.md from the results of the other parts (native_table.py)
# Leaves $OUT/NAME.tar.gz, $OUT/compare-*.txt, $OUT/*.json and $OUT/table.md.
set -u
# shellcheck source=tests/gpu/lib.sh
. "$(dirname "$0")/lib.sh"
find_collector
runs=$WORK/runs new=${NEW:-64}
mkdir -p "$WORK/ocr" "$WORK/pages" "$runs"
cp "$ROOT/tests/data/models/deepseek-ocr.json" "$WORK/ocr/config.json"
cp "$ROOT/samples/page-columns.png" "$WORK/pages"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader

profile() { # NAME ARGUMENTS...
    local name=$1
    shift
    echo "--- $name: $(date +%T)"
    timeout "${LIMIT:-120}" "$INFERPROF" profile model=deepseek_ocr "model.path=$WORK/ocr" model.weights=synthetic:0 dataset=images \
        "dataset.root=$WORK/pages" device=cuda:0 "infer.max_new_tokens=$new" infer.ignore_eos=true "output.dir=$runs/$name" "$@" 2>&1 |
        tail -n 45
    echo "--- $name ended: $(date +%T)"
    tar -C "$runs" -czf "$OUT/$name.tar.gz" --exclude=inputs "$name"
}
compare() { # NAME BEFORE AFTER
    [ -d "$runs/$2" ] && [ -d "$runs/$3" ] || return 0
    "$INFERPROF" compare "$runs/$2"/*/ "$runs/$3"/*/ >"$OUT/compare-$1.txt" 2>&1
    tail -n 30 "$OUT/compare-$1.txt"
}
bench() { # NAME ARGUMENTS...: llama-bench on a file of that shape
    local name=$1 file=$WORK/$1.gguf
    shift
    [ -f "$file" ] || "$PYTHON" "$MKGGUF" "$name" "$file" || return
    timeout 60 "$LLAMA_BENCH" -m "$file" -ngl 99 -fa 1 -o jsonl "$@" 2>/dev/null >>"$OUT/llama.jsonl"
    tail -n 1 "$OUT/llama.jsonl"
}
batches() { # NAME ARGUMENTS...: writes NAME.json
    local name=$1
    shift
    mkdir -p "$WORK/qwen3-8b"
    cp "$ROOT/tests/data/models/qwen3-8b.json" "$WORK/qwen3-8b/config.json"
    timeout "${LIMIT:-60}" "$INFERPROF" profile "model.path=$WORK/qwen3-8b" model.weights=synthetic:0 device=cuda:0 "$@" --json >"$OUT/$name.json"
    grep -E 'batch"|prefill_ms|tokens_per_s' "$OUT/$name.json" | tr -d '\n'
    echo
}

[ $# -gt 0 ] || set -- graph persistent hf qwen hf-qwen peers table
for part in "$@"; do
    case $part in
    graph) profile graph engine=native engine.decode=graph "repeats=${REPEATS:-20}" ;;
    persistent) profile persistent engine=native engine.decode=persistent "repeats=${REPEATS:-20}" ;;
    hf)
        profile hf engine=hf "engine.python=$PYTHON" "repeats=${HF_REPEATS:-6}"
        compare hf-graph hf graph
        compare hf-persistent hf persistent
        compare graph-persistent graph persistent
        ;;
    peers)
        bench dsocr -p 0 -n 128 -d 951
        bench qwen3-8b -p 2048 -n 0
        bench qwen3-8b -p 0 -n 64 -d 512
        [ -n "${LLAMA_BATCHED_BENCH:-}" ] || continue
        timeout 60 "$LLAMA_BATCHED_BENCH" -m "$WORK/qwen3-8b.gguf" -c 20480 -b 2048 -ub 512 -npp 512 -ntg 64 -npl 1,32 -ngl 99 -fa on \
            2>"$OUT/batched-bench.log" | grep '|' | tee "$OUT/batched-bench.txt"
        ;;
    qwen)
        batches qwen-prompt engine=native -p 2048 -n 16 -b 1
        batches qwen-batch engine=native -p 512 -n 64 -b 1,32
        ;;
    hf-qwen) batches hf-prompt engine=hf "engine.python=$PYTHON" repeats=3 -p 2048 -n 16 -b 1 ;;
    table) "$PYTHON" "$GPU/native_table.py" "$OUT" "$runs" | tee "$OUT/table.md" ;;
    *)
        echo "native.sh: no part '$part'" >&2
        exit 2
        ;;
    esac
done
