#!/bin/bash
# steps.sh: records programs without annotations whose steps are known, and compares what `report` recognises with the truth that
# the programs logged; 4 minutes. Traces and truth files go to $OUT/steps-*.tar.gz, the tables to $OUT/steps.txt.
set -u
# shellcheck source=tests/gpu/lib.sh
. "$(dirname "$0")/lib.sh"
find_collector
S=$WORK/steps
mkdir -p "$S"
record() { # NAME PROGRAM...: @ stands for the file of the truth
    local name=$1 words=()
    shift
    for word in "$@"; do words+=("${word/#@/$S/$name.truth.jsonl}"); done
    timeout 150 "$INFERPROF" run --graphs node -o "$S/$name" -- "$PYTHON" "${words[@]}" >"$S/$name.out" 2>"$S/$name.err"
    echo "$name: exit status $?, $(tail -n 1 "$S/$name.err")"
}
M=$ROOT/tests/data/models
LLAMA=$M/llama-3.2-1b-instruct.json
record compiled "$GPU/step_generate.py" "$LLAMA" compiled @ num_hidden_layers=4 &
compiled=$!
group=()
finish() { # waits for the programs of the group
    wait "${group[@]}"
    group=()
}
record dynamic "$GPU/step_generate.py" "$LLAMA" dynamic @ num_hidden_layers=8 & group+=($!)
record jax "$GPU/step_jax.py" @ & group+=($!)
record eager "$GPU/step_server.py" eager @ & group+=($!)
record experts "$GPU/step_server.py" experts @ 60 & group+=($!)
finish
record static "$GPU/step_generate.py" "$LLAMA" static @ num_hidden_layers=8 & group+=($!)
record qwen3 "$GPU/step_generate.py" "$M/qwen3-8b.json" dynamic @ num_hidden_layers=4 & group+=($!)
record moe "$GPU/step_generate.py" "$M/qwen3-30b-a3b.json" dynamic @ num_hidden_layers=4 & group+=($!)
record mixed "$GPU/step_server.py" mixed @ & group+=($!)
finish
record graph "$GPU/step_server.py" graph @ & group+=($!)
for name in cupy image train sort; do record "$name" "$GPU/step_other.py" "$name" & group+=($!); done
finish
wait "$compiled"
cd "$S" || exit 1
pack() { # FILE NAME...
    local file=$1 paths=()
    shift
    for name in "$@"; do
        for path in "$name/trace" "$name".*; do [ -e "$path" ] && paths+=("$path"); done
    done
    tar -czf "$OUT/steps-$file.tar.gz" "${paths[@]}"
}
pack generate compiled dynamic static qwen3 moe
pack server eager mixed graph experts
pack other jax cupy image train sort
