#!/bin/bash
# hf_profile.sh [ocr] [moe] [eager] [graphs] [compiled]: `inferprof profile engine=hf` end to end with random weights: a full-size
# DeepSeek-OCR-class model, a mixture-of-experts and a dense text model; the dense one also with CUDA graphs, and compiled with CUDA
# graphs, compared with the eager run. After each, hf_checks.py measures the same figures without inferprof. Leaves
# $OUT/NAME.tar.gz and NAME.checks.json. CHECKS=0 skips the checks, ONLY=ids,rate runs only these.
set -u
# shellcheck source=tests/gpu/lib.sh
. "$(dirname "$0")/lib.sh"
find_collector
runs=$WORK/runs new=${NEW:-64}
prompt=$(printf 'word %.0s' {1..100})
printf '{"prompt":"%s"}\n' "$prompt" >"$WORK/prompts.jsonl"
page=$ROOT/samples/page-columns.png page_prompt=$'<image>\n<|grounding|>Convert the document to markdown.'
unset PYTHONDONTWRITEBYTECODE # byte-compiling transformers takes 10 s, and it is imported many times here
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader

folder() { # NAME CONFIG: a model folder with only a config
    mkdir -p "$WORK/$1" && cp "$ROOT/tests/data/models/$2.json" "$WORK/$1/config.json"
}

# The process of the checks loads while the profile runs, and then waits: what it times later has the machine to itself.
start_checks() { # NAME OPTIONS...
    local name=$1
    shift
    [ "${CHECKS:-1}" = 1 ] || return 0
    "$PYTHON" "$GPU/hf_checks.py" "$WORK/$name" "$OUT/$name.checks.json" --new "$new" --rate-seconds "${RATE_S:-40}" \
        ${ONLY:+--only "$ONLY"} --after "$WORK/$name.go" "$@" >"$WORK/$name.checks.log" 2>&1 &
    checks=$!
}

finish_checks() { # NAME
    [ -n "${checks:-}" ] || return 0
    touch "$WORK/$1.go"
    wait "$checks"
    checks=
    grep -v '^\[transformers\]' "$WORK/$1.checks.log"
}

# shellcheck disable=SC2086
profile() { # NAME ARGUMENTS...; more arguments in EXTRA
    local name=$1
    shift
    echo "--- $name: $(date +%T)  $*"
    timeout "${LIMIT:-200}" "$INFERPROF" profile engine=hf "engine.python=$PYTHON" model.weights=synthetic:0 device=cuda:0 \
        "repeats=${REPEATS:-10}" "infer.max_new_tokens=$new" infer.ignore_eos=true "output.dir=$runs/$name" "$@" ${EXTRA:-} 2>&1 | tail -n 45
    echo "--- $name ended: $(date +%T)"
    tar -C "$runs" -czf "$OUT/$name.tar.gz" --exclude=inputs "$name"
}

text() { # NAME MODEL_DIR ARGUMENTS...
    local name=$1 dir=$2
    shift 2
    profile "$name" model=llama "model.name=$dir" "model.path=$WORK/$dir" dataset=prompts "dataset.prompts=$WORK/prompts.jsonl" "$@"
}

[ $# -gt 0 ] || set -- ocr moe eager graphs compiled
for part in "$@"; do
    case $part in
    ocr)
        folder ocr deepseek-ocr
        start_checks ocr --image "$page" --prompt "$page_prompt" --no-repeat-ngram 20
        mkdir -p "$WORK/pages" && cp "$page" "$WORK/pages"
        profile ocr model=deepseek_ocr "model.path=$WORK/ocr" dataset=images "dataset.root=$WORK/pages"
        finish_checks ocr
        ;;
    moe)
        folder qwen3-30b-a3b qwen3-30b-a3b
        start_checks qwen3-30b-a3b --prompt "$prompt"
        text moe qwen3-30b-a3b
        finish_checks qwen3-30b-a3b
        ;;
    eager)
        folder qwen3-8b qwen3-8b
        start_checks qwen3-8b --prompt "$prompt"
        text eager qwen3-8b
        finish_checks qwen3-8b
        ;;
    graphs)
        folder qwen3-8b qwen3-8b
        text graphs qwen3-8b +engine.load.cuda_graphs=true
        ;;
    compiled)
        folder qwen3-8b qwen3-8b
        text compiled qwen3-8b +engine.load.compile=reduce-overhead profiling.warmup_rounds=2
        ;;
    esac
done
for faster in graphs compiled; do
    if [ -d "$runs/eager" ] && [ -d "$runs/$faster" ]; then
        "$INFERPROF" compare "$runs"/eager/* "$runs/$faster"/* | tee "$OUT/compare-$faster.txt" | head -n 40
    fi
done
