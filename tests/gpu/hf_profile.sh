#!/bin/bash
# hf_profile.sh: `inferprof profile engine=hf` end to end with random weights: a full-size DeepSeek-OCR-class model and an 8B
# text model; then the text model with CUDA graphs, and the two laid side by side. Leaves the run folders in $OUT/runs.tar.gz.
set -u
# shellcheck source=tests/gpu/lib.sh
. "$(dirname "$0")/lib.sh"
find_collector
runs=$WORK/runs
mkdir -p "$WORK/ocr" "$WORK/qwen3-8b"
cp "$ROOT/tests/data/models/deepseek-ocr.json" "$WORK/ocr/config.json"
cp "$ROOT/tests/data/models/qwen3-8b.json" "$WORK/qwen3-8b/config.json"
# shellcheck disable=SC2046
printf '{"prompt":"%s"}\n' "$(printf 'word %.0s' $(seq 100))" >"$WORK/prompts.jsonl"
profile() { # NAME WORDS...
    echo "--- $*"
    local name=$1
    shift
    timeout "${LIMIT:-200}" "$INFERPROF" profile engine=hf "engine.python=$PYTHON" model.weights=synthetic:0 device=cuda:0 \
        "repeats=${REPEATS:-10}" infer.max_new_tokens=64 "output.dir=$runs/$name" "$@" 2>&1 | tail -n 45
}
text="model=llama model.name=qwen3-8b model.path=$WORK/qwen3-8b dataset=prompts dataset.prompts=$WORK/prompts.jsonl"
profile ocr model=deepseek_ocr "model.path=$WORK/ocr"
# shellcheck disable=SC2086
profile eager $text
# shellcheck disable=SC2086
profile graphs $text +engine.load.compile=reduce-overhead profiling.warmup_rounds=3
"$INFERPROF" compare "$runs"/eager/* "$runs"/graphs/* | head -n 40
"$PYTHON" "$GPU/plain_loop.py" "$WORK/qwen3-8b" 500 64
tar -C "$runs" -czf "$OUT/runs.tar.gz" --exclude=inputs .
