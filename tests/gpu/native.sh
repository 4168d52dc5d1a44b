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
#     load         0.5  start, load from safetensors in the page cache, two tokens, end
#     stop         0.3  Ctrl-C while a step of the persistent kernel runs
#     mps          0.3  the persistent kernel with half of the multiprocessors: graphs, and a warning
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

engine_loads() { # three times: seconds of the whole process, and the engine's own load_ms
    local i start
    "$PYTHON" "$GPU/checkpoint.py" "$ROOT/tests/data/models/deepseek-ocr.json" "$WORK/checkpoint"
    for i in 1 2 3; do
        start=$(date +%s%N)
        printf '%s\n' '{"op":"load","model":"'"$WORK/checkpoint"'","device":"cuda:0","max_context":1024}' \
            '{"op":"infer","prompt_ids":[0,5,9],"max_new_tokens":2,"ignore_eos":true}' | "$INFERPROF" engine >"$WORK/load.jsonl"
        echo "load $i: $((($(date +%s%N) - start) / 1000000)) ms in all; $(grep -o '"load_ms":[0-9.]*' "$WORK/load.jsonl"), $(grep -o '"ids":[^]]*]' "$WORK/load.jsonl")"
    done
}
# Requests of 3 s, almost all of it in the persistent kernel. The signal comes in the middle of the second one.
stop_in_a_step() {
    local i log pid start status=0
    # not through profile(): the signal must reach inferprof itself, and a shell's background jobs ignore it
    env --default-signal=INT "$INFERPROF" profile model=deepseek_ocr "model.path=$WORK/ocr" model.weights=synthetic:0 dataset=images "dataset.root=$WORK/pages" \
        device=cuda:0 engine=native engine.decode=persistent engine.max_context=8192 infer.max_new_tokens=7000 infer.ignore_eos=true \
        repeats=500 "output.dir=$runs/stopped" >"$WORK/stopped.log" 2>&1 &
    pid=$!
    for i in $(seq 600); do
        log=$(find "$runs/stopped" -name inferprof.log 2>/dev/null)
        [ -n "$log" ] && grep -q 'repeat 1 of' "$log" && break
        sleep 0.1
    done
    sleep 1.2
    start=$(date +%s%N)
    kill -INT "$pid"
    wait "$pid" || status=$?
    echo "stop: ended $((($(date +%s%N) - start) / 1000000)) ms after Ctrl-C with status $status"
    grep -E 'Interrupt|engine ended' "$log"
    ls "$(dirname "$log")"/metrics.json "$(dirname "$log")"/report.html
}
half_of_the_gpu() {
    export CUDA_MPS_PIPE_DIRECTORY=$WORK/mps CUDA_MPS_LOG_DIRECTORY=$WORK/mps-log
    mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
    nvidia-cuda-mps-control -d
    CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50 timeout 60 "$INFERPROF" engine --model "$WORK/ocr" --weights synthetic:0 --device cuda:0 \
        --decode persistent --prompt x -n 64 --ignore-eos 2>&1 >/dev/null | tail -n 4
    echo quit | nvidia-cuda-mps-control
    unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
}

[ $# -gt 0 ] || set -- graph persistent hf qwen hf-qwen peers table load stop mps
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
    load) engine_loads ;;
    stop) stop_in_a_step ;;
    mps) half_of_the_gpu ;;
    table) "$PYTHON" "$GPU/native_table.py" "$OUT" "$runs" | tee "$OUT/table.md" ;;
    *)
        echo "native.sh: no part '$part'" >&2
        exit 2
        ;;
    esac
done
