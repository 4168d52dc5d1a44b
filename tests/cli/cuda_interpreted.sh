#!/bin/sh
# The GPU kernels on a machine without a GPU: an interpreter runs the PTX that nvcc made of them (tests/ptx), for Hopper and
# for other GPUs. It checks results, accesses to memory and barriers, not speed. More of it: tests/ptx/long.sh.
. tests/cli/lib.sh
ptx=$PWD/build/cuda/ptx
program=$PWD/$BUILD/tests/cuda_check
LD_LIBRARY_PATH=$PWD/$BUILD/tests/ptx:$PWD/$BUILD/tests/mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH CUDA_CHECK_TOKENS=4 CUDA_CHECK_VOCABULARY=1024

# ---- the interpreter itself, on kernels written for this
export INFERPROF_PTX=tests/ptx/kernels
kernel() { run "$PWD/$BUILD/tests/ptx_run" "$@"; }
kernel part 40 40
expect "lanes that part at a branch meet again" 0 out '^0\.5 3 2\.5 9 4\.5 15 '
kernel sum 96 96
expect "shuffles, shared memory and a barrier add the numbers of three warps" 0 out '^4560 4560 4560 .*4560$'
kernel race 64 64
expect "what is read before it is written is not a number" 0 out 'nan'
kernel outside 4 4
expect "a store outside of the memory is an error" 86 err 'checks\.ptx:[0-9]+: outside, block 0 0, warp 0: 4 bytes at 0x[0-9a-f]+ are not allocated'
kernel unaligned 1 4
expect "so is an access that is not aligned" 86 err 'unaligned.*4 bytes at 0x[0-9a-f]+ are not aligned'
kernel shared_outside 1 1
expect "and one outside of the shared memory" 86 err 'shared_outside.*4 bytes at 0x800 are outside of the shared memory'
kernel absent 32 1
expect "a shuffle from a lane that does not take part is an error" 86 err 'absent.*lane 0 reads from lane 1, which does not take part'
kernel parted 32 1
expect "lanes that wait for each other at two barriers are an error" 86 err 'parted.*lanes [0-9a-f]+ wait for [0-9a-f]+'
kernel alone 32 1
expect "a barrier that too few threads reach is an error" 86 err 'alone.*all warps wait'
kernel arrivals 1 1
expect "too many arrivals at a barrier are an error" 86 err 'arrivals.*more arrivals at a barrier than it expects'
kernel unawaited 4 4
expect "a copy that was not waited for is not there" 0 out '^-?nan -?nan -?nan -?nan$'

# ---- the engine's kernels
if ! "$INFERPROF" --version | grep -q 'NVIDIA GPUs'; then
    skip_without_nvcc "the engine's kernels run on an interpreter"
    exit 0
fi
arch() { # 80 or 90
    INFERPROF_PTX=$ptx/$1 INFERPROF_PTX_ARCH=$1 INFERPROF_CUDA_PRODUCTS=wgmma
    [ "$1" = 90 ] || INFERPROF_CUDA_PRODUCTS=mma
    export INFERPROF_PTX INFERPROF_PTX_ARCH INFERPROF_CUDA_PRODUCTS
}
for a in 80 90; do
    arch $a
    run "$program" ops
    expect "every operator equals the CPU's, sm_$a" 0 out '^ok +experts_one' out '^ok +linear f8_e4m3' out '^0 failures$'
done
run "$program" skinny few
expect "products of batches equal the CPU's" 0 out '^ok +few rows, fp8' out '^0 failures$'
INFERPROF_PTX_SEED=1 run "$program" few llama 3
expect "an answer with warps in random order" 0 out '^0 failures$'
for m in qwen3 deepseek_v2; do
    run env INFERPROF_CUDA_MATH=exact "$program" tokens $m
    expect "the first tokens of $m, six kinds of weights" 0 out "^ok +tokens $m, bf16: graph and operators" out '^0 failures$'
done
run env INFERPROF_PTX_SMS=104 "$program" persistent tests/data/models/deepseek-ocr.json 2 4 3 1024
expect "the persistent kernel equals the graph" 0 out '3 of 3 tokens equal' out '^0 failures$'
set -- --image samples/page-text.png --image-mode tiny -n 3
run "$INFERPROF" engine "$@" --device cpu
cp "$work/out" "$work/cpu"
run "$INFERPROF" engine "$@" --device cuda:0
expect "the engine reads a page" 0 err '^vision: sam'
check "the text is the CPU's" cmp "$work/cpu" "$work/out"
run "$INFERPROF" profile -q device=cuda:0 repeats=1 profiling.warmup_rounds=0 infer.max_new_tokens=2 model.preprocess.mode=tiny \
    output.dir="$work/runs"
expect "profile of the engine on a GPU" 0
run cat "$work"/runs/*/metrics.json
check "its kernels have times" json_is "$work/out" "any(k['name'].startswith('flash_attention') and k['mean_ns'] > 0 for k in d['kernels'])" True
