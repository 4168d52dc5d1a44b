#!/bin/bash
# hf_recording.sh [over] [twice] [tools] [stages] [ocr] [dense] [moe]: what recording and the timing of sub-stages cost in the Hugging
# Face engine (5 minutes; needs the GPU and its cores alone). `stages`: hf_stages.py. `over`: hf_overhead.py, recorded and plain
# requests of the three example models in turn. `ocr`, `dense`, `moe`: the default preset of `profile`; prefill and decode of the recorded request
# over the timed repeats are in $OUT/NAME.overhead. `tools`: --ncu and --nsys, with memory and call paths. `twice`: two equal runs,
# compared.
set -u
# shellcheck source=tests/gpu/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"
find_collector
new=${NEW:-64} keep_trace=(--exclude=trace)
printf '{"prompt":"%s"}\n' "$(printf 'word %.0s' {1..100})" >"$WORK/prompts.jsonl"
mkdir -p "$WORK/pages" && cp "$ROOT/samples/page-columns.png" "$WORK/pages"
for pair in ocr:deepseek-ocr qwen3-8b:qwen3-8b qwen3-30b-a3b:qwen3-30b-a3b small:llama-3.2-1b-instruct; do
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

text() { profile "$1" model=llama "model.name=$2" "model.path=$WORK/$2" dataset=prompts "dataset.prompts=$WORK/prompts.jsonl" "${@:3}"; }
ocr() { profile "$1" model=deepseek_ocr "model.path=$WORK/ocr" dataset=images "dataset.root=$WORK/pages" "${@:2}"; }

over() { # MODEL...
    local lib
    lib=$(dirname "$(dirname "$INFERPROF")")/lib/inferprof
    [ -d "$lib" ] || lib=$(dirname "$INFERPROF")
    COLLECTOR=$lib/libinferprof-collector.so COUNTERS=$lib/inferprof-counters timeout "${LIMIT:-200}" \
        "$PYTHON" "$GPU/hf_overhead.py" "$OUT" "${EACH_S:-20}" "$@" 2>"$WORK/over.err" | tee "$OUT/over.txt"
    grep -v '^\[transformers\]' "$WORK/over.err" | tail -n 5
}

[ $# -gt 0 ] || set -- over twice tools stages
for part in "$@"; do
    case $part in
    stages) "$PYTHON" "$GPU/hf_stages.py" "$WORK/ocr" "$WORK/pages/page-columns.png" "$OUT/stages.json" 15 2>&1 | tail -n 40 ;;
    over) over "$WORK/ocr:$WORK/pages/page-columns.png" "$WORK/qwen3-8b" "=$WORK/qwen3-30b-a3b" ;;
    ocr) ocr ocr ;;
    dense) text dense qwen3-8b ;;
    moe) new=24 text moe qwen3-30b-a3b ;;
    tools)
        keep_trace=()
        new=4 REPEATS=2 text tools small --ncu --ncu-top 3 --ncu-stage decode --nsys --tool-limit 45 \
            profiling.profile_memory=true profiling.with_stack=true ;;
    twice)
        keep_trace=()
        ocr first
        ocr second
        "$INFERPROF" compare "$WORK"/runs/first/* "$WORK"/runs/second/* | tee "$OUT/compare.txt" ;;
    esac
done
