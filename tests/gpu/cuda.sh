#!/bin/sh
# The native engine on a GPU, compared with the CPU and timed. Needs a GPU and about 2 minutes (4 with PTX).
#     make STATIC=1 test-build && BUILD=build/static sh tests/gpu/cuda.sh [ptx]
# Run from the root of the source tree. ptx: also runs the checks with the code for other GPUs, compiled by the driver.
set -eu
check=${BUILD:-build}/tests/cuda_check
fixtures="llama llama3 mistral qwen2 qwen3 mixtral qwen3_moe deepseek_v2 deepseek_v2_groups dsocr_whole"
checks() {
    "$check" ops
    # shellcheck disable=SC2086
    INFERPROF_CUDA_MATH=exact "$check" tokens $fixtures
    # shellcheck disable=SC2086
    "$check" tokens $fixtures
}
checks
"$check" speed tests/data/models/deepseek-ocr.json 951 300
"$check" speed tests/data/models/deepseek-ocr.json 0 100 samples/page-text.png
"$check" speed tests/data/models/qwen3-8b.json 512 128
if [ "${1:-}" = ptx ]; then
    export CUDA_FORCE_PTX_JIT=1
    checks
fi
