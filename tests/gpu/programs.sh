#!/bin/bash
# programs.sh: programs that know nothing of inferprof, and the native engine without its records; 4 minutes. Compares what `report`
# recognises with what the programs print or log. LLAMA: a folder with llama-bench and its libraries. Traces, truth and reports
# go to $OUT/programs-*.tar.gz, the tables to $OUT/programs.txt. GRAPHS=sample: with the default of `run` instead of every kernel.
# ONLY: names of programs, separated by spaces; the others are left out.
set -u
# shellcheck source=tests/gpu/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"
find_collector
S=$WORK/programs
T=$ROOT/tests/tools
mkdir -p "$S"
table=$OUT/programs.txt
: >"$table"
# bench NAME MODEL OPTIONS ENVIRONMENT...: llama-bench with 3 repeats under `run OPTIONS`
bench() {
    local name=$1 model=$2 options=$3
    shift 3
    case " ${ONLY:-$name} " in *" $name "*) ;; *) return ;; esac
    # shellcheck disable=SC2086
    timeout 60 env LD_LIBRARY_PATH="$LLAMA:${LD_LIBRARY_PATH:-}" "$@" "$INFERPROF" run --graphs "${GRAPHS:-node}" $options -o "$S/$name" -- \
        "$LLAMA/llama-bench" -m "$model" -ngl 99 -fa 1 -p 512 -n 128 -r 3 -o json >"$S/$name.out" 2>"$S/$name.err"
    echo "$name: exit status $?, $(python3 "$T/compare_llama.py" "$S/$name" "$S/$name.out" 2>&1 | tr '\n' ' ')" | tee -a "$table"
}
if [ -n "${LLAMA:-}" ]; then
    python3 "$T/make_gguf.py" dsocr BF16 "$WORK/dsocr.gguf"
    python3 "$T/make_gguf.py" qwen3-8b BF16 "$WORK/qwen3-8b.gguf"
    bench dsocr-graphs "$WORK/dsocr.gguf" ""
    bench dsocr-eager "$WORK/dsocr.gguf" "" GGML_CUDA_DISABLE_GRAPHS=1
    bench dsocr-counters "$WORK/dsocr.gguf" --counters
    bench qwen3-8b-graphs "$WORK/qwen3-8b.gguf" ""
    bench qwen3-8b-eager "$WORK/qwen3-8b.gguf" "" GGML_CUDA_DISABLE_GRAPHS=1
fi
# steps NAME PROGRAM...: @ stands for the file of the truth
steps() {
    local name=$1 words=()
    shift
    case " ${ONLY:-$name} " in *" $name "*) ;; *) return ;; esac
    for word in "$@"; do words+=("${word/#@/$S/$name.truth.jsonl}"); done
    timeout 100 "$INFERPROF" run --graphs "${GRAPHS:-node}" -o "$S/$name" -- "$PYTHON" "${words[@]}" >"$S/$name.out" 2>"$S/$name.err"
    local rc=$?
    [ -e "$S/$name.truth.jsonl" ] || : >"$S/$name.truth.jsonl"
    local partial=()
    [ "${GRAPHS:-node}" = node ] || partial=(--partial)
    echo "$name: exit status $rc, $(python3 "$T/compare_steps.py" "${partial[@]}" "$S/$name" "$S/$name.truth.jsonl" 2>&1 | tr '\n' ' ')" | tee -a "$table"
}
M=$ROOT/tests/data/models
LLAMA_CONFIG=$M/llama-3.2-1b-instruct.json
steps engine-llama "$GPU/step_engine.py" "$INFERPROF" "$LLAMA_CONFIG" @
steps engine-moe "$GPU/step_engine.py" "$INFERPROF" "$M/deepseek-v2-lite.json" @ num_hidden_layers=4
group=()
steps hf-saved "$GPU/step_generate.py" "$LLAMA_CONFIG" saved @ num_hidden_layers=4 & group+=($!)
steps jax "$GPU/step_jax.py" @ & group+=($!)
steps cupy "$GPU/step_other.py" cupy & group+=($!)
steps products "$GPU/step_other.py" products & group+=($!)
wait "${group[@]}"
steps hf-compiled "$GPU/step_generate.py" "$LLAMA_CONFIG" compiled @ num_hidden_layers=4
cd "$S" || exit 1
for name in */; do
    name=${name%/}
    tar -czf "$OUT/programs-$name.tar.gz" "$name/trace" "$name".* "$name"/report.md "$name"/metrics.json 2>/dev/null
done
ls -la "$OUT"
