#!/bin/bash
# hf_recording.sh [stages] [ocr] [dense] [thin] [moe] [tools]: what recording and the timing of sub-stages cost in the Hugging Face
# engine (4 minutes). `stages`: hf_stages.py. The models run with the default preset: prefill and decode of the recorded request over
# the timed repeats are in $OUT/NAME.overhead. `thin` records the operators of one layer in four. `tools`: --ncu and --nsys, with memory and call paths.
set -u
# shellcheck source=tests/gpu/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"
find_collector
new=${NEW:-64} keep_trace=(--exclude=trace)
printf '{"prompt":"%s"}\n' "$(printf 'word %.0s' {1..100})" >"$WORK/prompts.jsonl"
mkdir -p "$WORK/pages" && cp "$ROOT/samples/page-columns.png" "$WORK/pages"
for pair in ocr:deepseek-ocr qwen3-8b:qwen3-8b qwen3-30b-a3b:qwen3-30b-a3b; do
    mkdir -p "$WORK/${pair%%:*}" && cp "$ROOT/tests/data/models/${pair#*:}.json" "$WORK/${pair%%:*}/config.json"
done

# shellcheck disable=SC2086
profile() { # NAME ARGUMENTS...
    local name=$1
    shift
    echo "--- $name: $(date +%T)"
    timeout "${LIMIT:-100}" "$INFERPROF" profile engine=hf "engine.python=$PYTHON" model.weights=synthetic:0 device=cuda:0 \
        "repeats=${REPEATS:-5}" "infer.max_new_tokens=$new" infer.ignore_eos=true "output.dir=$WORK/runs/$name" "$@" 2>&1 | tail -n 30
    tar -C "$WORK/runs" -czf "$OUT/$name.tar.gz" --exclude=inputs "${keep_trace[@]}" "$name"
    python3 - "$WORK/runs/$name"/*/metrics.json <<'END_OF_CODE' | tee "$OUT/$name.overhead"
import json, sys
for s in json.load(open(sys.argv[1]))["stages"]:
    if s.get("recording_overhead_ratio"):
        print(f'{s["name"]}: {100 * (s["recording_overhead_ratio"] - 1):+.1f}% of {s["time_ms"]:.2f} ms')
END_OF_CODE
}

dense() { profile "$1" model=llama model.path="$WORK/qwen3-8b" dataset=prompts "dataset.prompts=$WORK/prompts.jsonl" "${@:2}"; }

[ $# -gt 0 ] || set -- stages ocr dense thin tools moe
for part in "$@"; do
    case $part in
    stages) "$PYTHON" "$GPU/hf_stages.py" "$WORK/ocr" "$WORK/pages/page-columns.png" "$OUT/stages.json" 15 2>&1 | tail -n 40 ;;
    ocr) profile ocr model=deepseek_ocr "model.path=$WORK/ocr" dataset=images "dataset.root=$WORK/pages" ;;
    dense) dense dense ;;
    thin) dense thin +engine.infer.operator_layers=4 ;;
    tools)
        keep_trace=()
        new=4 REPEATS=2 dense tools --ncu --ncu-top 3 --ncu-stage decode --nsys --tool-limit 45 \
        profiling.profile_memory=true profiling.with_stack=true profiling.warmup_rounds=1 ;;
    moe) new=24 profile moe model=llama model.path="$WORK/qwen3-30b-a3b" dataset=prompts "dataset.prompts=$WORK/prompts.jsonl" ;;
    esac
done
