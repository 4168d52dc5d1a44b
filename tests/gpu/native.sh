#!/bin/bash
# native.sh [PART...]: profiles DeepSeek-OCR (random weights, one page with tiles) on a GPU with the native engine and with Hugging
# Face, compares the two runs, and measures llama.cpp on files of the same shapes. Needs a GPU. Parts and minutes:
#     graph        0.3  native engine, decoding steps as CUDA graphs
#     persistent   0.3  native engine, decoding steps in one kernel
#     hf           1.2  Hugging Face, and `compare` with the native runs
#     peers        1    llama-bench (LLAMA_BENCH=PATH, MKGGUF=SCRIPT): decode and prompts of DeepSeek-OCR and Qwen3-8B
#     batch        0.6  Qwen3-8B, batches of 1 and 32: native engine, and llama-batched-bench (LLAMA_BATCHED_BENCH=PATH)
# Leaves $OUT/NAME.tar.gz and $OUT/compare-*.txt.
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
    timeout 60 "$LLAMA_BENCH" -m "$file" -ngl 99 -fa 1 "$@" 2>/dev/null | grep '|'
}

[ $# -gt 0 ] || set -- graph persistent hf peers
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
        ;;
    batch)
        mkdir -p "$WORK/qwen3-8b"
        cp "$ROOT/tests/data/models/qwen3-8b.json" "$WORK/qwen3-8b/config.json"
        timeout 60 "$INFERPROF" profile engine=native "model.path=$WORK/qwen3-8b" model.weights=synthetic:0 device=cuda:0 \
            -p 512 -n 64 -b 1,32
        [ -n "${LLAMA_BATCHED_BENCH:-}" ] || continue
        file=$WORK/qwen3-8b.gguf
        [ -f "$file" ] || "$PYTHON" "$MKGGUF" qwen3-8b "$file" || continue
        timeout 60 "$LLAMA_BATCHED_BENCH" -m "$file" -c 20480 -b 2048 -ub 512 -npp 512 -ntg 64 -npl 1,32 -ngl 99 -fa on \
            2>"$OUT/batched-bench.log" | grep '|'
        ;;
    *)
        echo "native.sh: no part '$part'" >&2
        exit 2
        ;;
    esac
done
