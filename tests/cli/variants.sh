#!/bin/sh
# Figures of a trace do not depend on when it was recorded, on numbers of threads and calls, or on a second GPU, process
# or run that does the same.
. tests/cli/lib.sh

for trace in tl_vit_nsfw_h100 tl_sglang_qwen3_8b_decode_mi300 tl_vllm_decode_full_mi300; do
    for variant in later renumbered threads two_gpus two_processes twice; do
        check "$trace: the same figures, $variant" python3 tests/tools/trace_variants.py "$INFERPROF" \
            "tests/data/kineto/$trace.json.gz" "$variant" "$work/$trace.$variant"
    done
done
