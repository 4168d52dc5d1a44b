#!/bin/sh
# The checks of tests/gpu/cuda.sh, smaller, on the interpreter of PTX: the kernels for Hopper and those for other GPUs. Run
# from the root of the source tree, after `make test-build`.
#     sh tests/ptx/long.sh [SECTION...]      ops tokens steps batch persistent small recovery random
# JOBS=N: commands at a time. Prints a line per command with its seconds. Exit status 1: something differs.
set -eu
build=${BUILD:-build} jobs=${JOBS:-2}
check=$build/tests/cuda_check
models=tests/data/models
fixtures="llama llama3 mistral qwen2 qwen3 mixtral qwen3_moe deepseek_v2 deepseek_v2_groups dsocr_whole dynamic phi3 phi3_long
    qwen2_moe"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
LD_LIBRARY_PATH=$build/tests/ptx${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH CUDA_CHECK_TOKENS=6 CUDA_CHECK_VOCABULARY=1024

arch() { # 80 or 90: without cuBLASLt, which is not on this device
    INFERPROF_PTX=build/cuda/ptx/$1 INFERPROF_PTX_ARCH=$1 INFERPROF_CUDA_PRODUCTS=wgmma
    [ "$1" = 90 ] || INFERPROF_CUDA_PRODUCTS=mma
    INFERPROF_PTX_KERNELS=$work/kernels$1
    export INFERPROF_PTX INFERPROF_PTX_ARCH INFERPROF_CUDA_PRODUCTS INFERPROF_PTX_KERNELS
}
check_one() { # NUMBER WHAT COMMAND...
    log=$work/$1 what=$2 start=$(date +%s) status=0
    shift 2
    nice "$@" >"$log" 2>&1 || status=$?
    echo "$([ $status = 0 ] && echo ok || echo FAIL) $what ($(($(date +%s) - start)) s)"
    [ $status = 0 ] || { grep -v '^ok' "$log"; echo "$what" >>"$work/failed"; }
}
number=0 running=0
run() { # COMMAND...
    number=$((number + 1))
    what="sm_$INFERPROF_PTX_ARCH $(env | grep -E '^(CUDA_CHECK_WEIGHTS|INFERPROF_CUDA_MATH|INFERPROF_CUDA_DELAY|INFERPROF_PTX_SEED)' |
        tr '\n' ' ')$*"
    check_one $number "$what" "$check" "$@" &
    running=$((running + 1))
    [ $running -lt "$jobs" ] || { wait; running=0; }
}
section() {
    case $1 in
    ops)
        for a in 80 90; do
            arch $a
            run ops
        done
        run skinny few
        ;;
    tokens)
        for a in 80 90; do
            arch $a
            for INFERPROF_CUDA_MATH in exact default; do
                export INFERPROF_CUDA_MATH
                for f in $fixtures; do run tokens "$f"; done
            done
        done
        unset INFERPROF_CUDA_MATH
        ;;
    steps)
        for a in 80 90; do
            arch $a
            for CUDA_CHECK_WEIGHTS in bf16 fp8; do
                export CUDA_CHECK_WEIGHTS
                for m in qwen3-8b deepseek-ocr deepseek-v2-lite qwen3-30b-a3b; do run steps $models/$m.json 2 10 3; done
                run steps $models/llama-3.1-8b-instruct.json 1 80 3 64
            done
            for CUDA_CHECK_WEIGHTS in f16 f32 fp8-rows fp8-matrices; do run steps $models/qwen3-8b.json 1 10 3; done
            unset CUDA_CHECK_WEIGHTS
        done
        ;;
    batch)
        arch 90
        for CUDA_CHECK_WEIGHTS in bf16 fp8; do
            export CUDA_CHECK_WEIGHTS
            run batch $models/qwen3-8b.json 1 5 9 3
            run batch $models/qwen3-8b.json 1 3 9 6 9
            run batch $models/deepseek-v2-lite.json 2 3 6 3
            run batch $models/deepseek-ocr.json 2 3 6 3
            run batch $models/qwen3-30b-a3b.json 1 3 6 3
        done
        unset CUDA_CHECK_WEIGHTS
        ;;
    persistent)
        arch 90
        INFERPROF_PTX_SMS=104
        export INFERPROF_PTX_SMS
        for layers in 1 2; do run persistent $models/deepseek-ocr.json $layers 5 4 1024; done
        INFERPROF_CUDA_DELAY=1
        export INFERPROF_CUDA_DELAY
        run persistent $models/deepseek-ocr.json 2 5 4 1024
        unset INFERPROF_CUDA_DELAY INFERPROF_PTX_SMS
        ;;
    small) # GPUs with 99 kB of shared memory
        arch 80
        INFERPROF_PTX_ARCH=86
        run ops
        run logits $models/qwen2.5-32b-instruct.json 1 3
        run steps $models/qwen3-8b.json 1 5 3
        run steps $models/deepseek-v2-lite.json 2 5 3
        ;;
    recovery)
        arch 90
        run recovery $models/qwen3-8b.json 1
        run recovery $models/qwen3-30b-a3b.json 1
        ;;
    random)
        arch 90
        for INFERPROF_PTX_SEED in 1 2 3; do
            export INFERPROF_PTX_SEED
            run ops
            run skinny few
            run tokens llama
            run tokens deepseek_v2
        done
        unset INFERPROF_PTX_SEED
        ;;
    *)
        echo "unknown section $1" >&2
        exit 2
        ;;
    esac
    wait
    running=0
}
[ $# -gt 0 ] || set -- ops tokens steps batch persistent small recovery random
for s in "$@"; do section "$s"; done
# Kernels of this device that no command has run.
kernels() { # 80 or 90
    [ -s "$work/kernels$1" ] || return 0
    sed -n 's/^\.visible \.entry \([A-Za-z0-9_]*\)(.*/\1/p' build/cuda/ptx/"$1"/*.ptx | sort -u >"$work/all"
    sort -u "$work/kernels$1" >"$work/run"
    echo "sm_$1: $(wc -l <"$work/run") of $(wc -l <"$work/all") kernels ran; not: $(comm -13 "$work/run" "$work/all" | tr '\n' ' ')"
}
kernels 80
kernels 90
if [ -s "$work/failed" ]; then
    echo "failed:"
    cat "$work/failed"
    exit 1
fi
echo "all $number passed"
