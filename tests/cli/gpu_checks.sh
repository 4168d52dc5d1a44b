#!/bin/sh
# The program that compares GPUs with the CPU (tests/gpu/cuda), with the CPU as both devices: it must agree with itself, and
# reject what it does not know. Its checks of kernels need a GPU (tests/gpu/cuda.sh).
. tests/cli/lib.sh
program=$PWD/$BUILD/tests/cuda_check
export CUDA_CHECK_SELF=1
run "$program" tokens llama deepseek_v2 qwen2_moe
expect "64 tokens of three models, six kinds of weights" 0 out '^ok +tokens llama, bf16' out '^ok +tokens qwen2_moe, fp8-matrices' out '^0 failures$'
check "no check failed" lacks '^FAIL' "$work/out"
run "$program" steps tests/data/models/llama-3.2-1b-instruct.json 1 20 3 8
expect "steps with a window" 0 out '^ok ' out '^0 failures$'
run "$program" persistent tests/data/models/deepseek-ocr.json 1 5 5
expect "jobs that need a GPU say so" 1 err 'CUDA_CHECK_SELF|needs a GPU'
run "$program" everything
expect "an unknown job is misuse" 2 err 'usage'
check "no temporary folder is left" sh -c "! ls -d '$TMPDIR'/cuda_check.* 2>/dev/null"
