#!/bin/sh
# The native engine on a GPU, compared with the CPU and timed. Needs a GPU.
#     make STATIC=1 test-build && BUILD=build/static sh tests/gpu/cuda.sh [SECTION...]
# Run from the root of the source tree. Without arguments: ops tokens logits steps long many memory speed. JOBS=N runs N
# commands at a time, each on its own cores (not where speed is measured); LIMIT_S, 300: the longest that a command may
# take. Minutes on an H200 machine with 16 cores, one command at a time:
#     ops        0.3  every operator against the CPU's, with each kind of product (0.2 of it estimated)
#     tokens     0.6  64 greedy tokens of every fixture, exact and with bf16 rounding (0.2 of it estimated)
#     logits     0.2  logits of layers and encoders of full size
#     steps      3    logits of a decoding step of layers of full size, of the graph and of operators (estimated)
#     long       0.7  1,000 tokens up to the end of the context, the same twice (0.6 of it estimated)
#     many       0.2  10,000 requests: no growth of memory
#     memory     0.4  a model that is too large is refused before it is loaded; a batch that is too large is an error,
#                     and the next requests are served (0.3 of it estimated)
#     speed      0.3  prompts, pages, decoding
#     recording  1    what recording the operators of a page, a prompt and a batch costs
#     persistent 0.5  the persistent kernel against the graph, also with random delays before its barriers
#     batch      0.5  products of batches against the CPU; graphs of 2 to 32 sequences against operators, and their speed
#     fp8        0.7  models with fp8 weights: logits against the CPU, long texts, batches, speed beside bf16
#     products   0.1  single products and attention
#     ptx        6    ops, tokens, logits, steps and long with the code for other GPUs, compiled by the driver (4 of
#                     it estimated)
#     sanitizer  10   memcheck, racecheck, initcheck and synccheck of the operators, of two small models, of the
#                     persistent kernel and of batches (3 of it estimated)
set -eu
check=${BUILD:-build}/tests/cuda_check
models=tests/data/models
fixtures="llama llama3 mistral qwen2 qwen3 mixtral qwen3_moe deepseek_v2 deepseek_v2_groups dsocr_whole"
# without a graph: the rotary positions follow the length of the text, or the shared expert has a gate
fixtures="$fixtures dynamic phi3 phi3_long qwen2_moe"
sanitizer=${COMPUTE_SANITIZER:-/usr/local/cuda/bin/compute-sanitizer}
jobs=${JOBS:-1} limit_s=${LIMIT_S:-300}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$work/failed"
# A FIFO with one line per free place: its cores.
mkfifo "$work/places"
exec 3<>"$work/places"
each=$(($(nproc) / jobs))
[ "$each" -gt 0 ] || each=1
i=0
while [ "$((i += 1))" -le "$jobs" ]; do
    first=$(((i - 1) * each % $(nproc)))
    echo "$first-$((first + each - 1))" >&3
done

check_one() { # CORES COMMAND...: the output of commands beside each other is printed command by command
    place=$1
    shift
    log=$(mktemp "$work/log.XXXXXX")
    status=0
    timeout "$limit_s" taskset -c "$place" "$@" >"$log" 2>&1 || status=$?
    [ $status = 0 ] || echo "$status: $what" >>"$work/failed"
    { flock 4 && echo "-- $what" && cat "$log"; } 4>>"$work/lock"
    rm -f "$log"
    echo "$place" >&3
}
run() { # counts failures and goes on
    what="$(env | grep -E '^(CUDA_CHECK|CUDA_FORCE|INFERPROF_CUDA)' | tr '\n' ' ')$*"
    if [ "$jobs" -gt 1 ]; then
        read -r place <&3
        check_one "$place" "$@" &
    else
        echo "-- $what"
        timeout "$limit_s" "$@" || echo "$?: $what" >>"$work/failed"
    fi
}
steps() { # MODEL [WINDOW]: two layers, of which the second one of DeepSeek's models has experts
    run "$check" steps "$models/$1.json" 2 300 8 ${2:+"$2"}
}
# With rounding, the tolerance is 50 times as large; exact numbers run the same kernels, with a float cache.
steps_section() {
    steps_models="qwen3-8b deepseek-ocr deepseek-v2-lite qwen3-30b-a3b llama-3.1-8b-instruct"
    for CUDA_CHECK_WEIGHTS in bf16 fp8; do
        export CUDA_CHECK_WEIGHTS
        for INFERPROF_CUDA_MATH in default exact; do
            export INFERPROF_CUDA_MATH
            for model in $steps_models; do steps "$model"; done
            steps llama-3.1-8b-instruct 64
        done
    done
    for CUDA_CHECK_WEIGHTS in f16 f32 fp8-rows fp8-matrices; do
        for INFERPROF_CUDA_MATH in default exact; do steps qwen3-8b; done
    done
    unset CUDA_CHECK_WEIGHTS INFERPROF_CUDA_MATH
    # from position 1536 on, more blocks share a key head
    run "$check" steps $models/qwen3-8b.json 2 1530 12
}
section() {
    case $1 in
    ops)
        run "$check" ops
        run env INFERPROF_CUDA_PRODUCTS=mma "$check" ops
        run env INFERPROF_CUDA_PRODUCTS=cublaslt "$check" ops
        ;;
    tokens)
        # shellcheck disable=SC2086
        run env INFERPROF_CUDA_MATH=exact "$check" tokens $fixtures
        # shellcheck disable=SC2086
        run "$check" tokens $fixtures
        ;;
    logits)
        run "$check" logits $models/qwen3-8b.json 2 300
        run "$check" logits $models/deepseek-ocr.json 2 300
        run "$check" logits $models/deepseek-ocr.json 2 0 samples/page-text.png
        ;;
    steps) steps_section ;;
    long)
        run "$check" long $models/deepseek-ocr.json 7193 1000
        run "$check" long $models/qwen3-8b.json 39961 1000
        ;;
    many) # alone: it reads the free memory of the GPU
        wait
        before=$jobs
        jobs=1
        run "$check" many llama 10000
        jobs=$before
        ;;
    memory) # alone: it takes the free memory of the GPU
        wait
        before=$jobs
        jobs=1
        run "$check" memory $models/qwen2.5-32b-instruct.json 600
        run "$check" recovery $models/qwen3-8b.json 4
        run "$check" recovery $models/qwen3-30b-a3b.json 2
        jobs=$before
        ;;
    speed)
        run "$check" speed $models/deepseek-ocr.json 951 300
        run "$check" speed $models/deepseek-ocr.json 0 100 samples/page-text.png
        run "$check" speed $models/qwen3-8b.json 512 128
        run "$check" speed $models/qwen3-8b.json 2048 16
        run "$check" speed $models/deepseek-v2-lite.json 512 128
        ;;
    recording)
        for CUDA_CHECK_DECODE in graph persistent; do
            export CUDA_CHECK_DECODE
            run "$check" recording $models/deepseek-ocr.json 0 100 20 samples/page-text.png
        done
        unset CUDA_CHECK_DECODE
        run "$check" recording $models/qwen3-8b.json 2048 16 8
        run "$check" recording $models/qwen3-8b.json 512 32 4 32
        run "$check" recording $models/deepseek-v2-lite.json 512 32 4 8
        ;;
    persistent)
        for layers in 1 2; do run "$check" persistent $models/deepseek-ocr.json $layers 40 40; done
        run "$check" persistent $models/deepseek-ocr.json 12 951 300
        run env INFERPROF_CUDA_DELAY=1 "$check" persistent $models/deepseek-ocr.json 3 40 60
        ;;
    batch)
        run "$check" skinny
        for n in 2 9 32; do run "$check" batch $models/qwen3-8b.json 4 $n 60 24; done
        for model in qwen3-8b deepseek-v2-lite; do run "$check" batch $models/$model.json 2 9 60 24 60; done
        run "$check" batch $models/qwen3-8b.json 36 32 512 64
        for n in 2 9 32; do run "$check" batch $models/deepseek-v2-lite.json 4 $n 60 24; done
        run "$check" batch $models/deepseek-v2-lite.json 27 32 512 64
        ;;
    fp8)
        for model in qwen3-8b deepseek-ocr deepseek-v2-lite; do
            run env CUDA_CHECK_WEIGHTS=fp8 "$check" logits $models/$model.json 2 300
        done
        run env CUDA_CHECK_WEIGHTS=fp8 "$check" long $models/deepseek-ocr.json 7193 1000
        for n in 2 9 32; do run env CUDA_CHECK_WEIGHTS=fp8 "$check" batch $models/qwen3-8b.json 4 $n 60 24; done
        for model in qwen3-8b deepseek-ocr; do
            run env CUDA_CHECK_DECODE=graph "$check" speed $models/$model.json 512 128
            run env CUDA_CHECK_WEIGHTS=fp8 CUDA_CHECK_DECODE=graph "$check" speed $models/$model.json 512 128
        done
        ;;
    products) run "$check" products ;;
    ptx)
        CUDA_FORCE_PTX_JIT=1 INFERPROF_CUDA_PRODUCTS=mma
        export CUDA_FORCE_PTX_JIT INFERPROF_CUDA_PRODUCTS
        for part in ops tokens logits steps long; do section $part; done
        unset CUDA_FORCE_PTX_JIT INFERPROF_CUDA_PRODUCTS
        ;;
    sanitizer)
        for tool in memcheck racecheck initcheck synccheck; do
            run "$sanitizer" --tool $tool --error-exitcode 9 "$check" few llama 4
            run "$sanitizer" --tool $tool --error-exitcode 9 "$check" few dsocr_whole 4 128
            run env CUDA_CHECK_WEIGHTS=fp8 "$sanitizer" --tool $tool --error-exitcode 9 "$check" few deepseek_v2 4
            run env INFERPROF_CUDA_RACECHECK=1 "$sanitizer" --tool $tool --error-exitcode 9 "$check" persistent \
                $models/deepseek-ocr.json 2 20 3 2112
            products=cublaslt
            [ $tool != racecheck ] || products=wgmma # racecheck reports kernels of cuBLASLt
            run env INFERPROF_CUDA_PRODUCTS=$products "$sanitizer" --tool $tool --error-exitcode 9 "$check" ops
            run "$sanitizer" --tool $tool --error-exitcode 9 "$check" skinny few
            run env INFERPROF_CUDA_PRODUCTS=wgmma "$sanitizer" --tool $tool --error-exitcode 9 "$check" batch \
                $models/qwen3-8b.json 1 9 8 2
            run env INFERPROF_CUDA_PRODUCTS=wgmma "$sanitizer" --tool $tool --error-exitcode 9 "$check" batch \
                $models/deepseek-v2-lite.json 2 3 8 2
        done
        ;;
    *)
        echo "cuda.sh: no section '$1'" >&2
        exit 2
        ;;
    esac
}
[ $# -gt 0 ] || set -- ops tokens logits steps long many memory speed
for s in "$@"; do
    echo "== $s"
    section "$s"
done
wait
sed 's/^/FAILED with status /' "$work/failed"
echo "$(wc -l <"$work/failed") failed"
[ ! -s "$work/failed" ]
