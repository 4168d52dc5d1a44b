#!/bin/bash
# hf_foreign.sh: `inferprof run` on programs without any support for it: one calls model.generate, one replays CUDA graphs. Their
# output is in $OUT/foreign-*.txt, the run folders in $OUT/foreign.tar.gz.
set -u
# shellcheck source=tests/gpu/lib.sh
. "$(dirname "$0")/lib.sh"
find_collector
mkdir -p "$WORK/llama-3.2-1b"
cp "$ROOT/tests/data/models/llama-3.2-1b-instruct.json" "$WORK/llama-3.2-1b/config.json"
mkdir -p "$WORK/foreign"
cd "$WORK" || exit 1
cp "$GPU/foreign_generate.py" "$GPU/foreign_graphs.py" .
foreign() { # NAME ARGS...
    local name=$1
    shift
    "$INFERPROF" run --graphs node --output "$WORK/foreign/$name" "$@" >"$OUT/foreign-$name.txt" 2>&1
    echo "exit status $?" >>"$OUT/foreign-$name.txt"
    cat "$OUT/foreign-$name.txt"
}
foreign graphs --counters -- "$PYTHON" foreign_graphs.py
foreign generate -- "$PYTHON" foreign_generate.py llama-3.2-1b
tar -C "$WORK" -czf "$OUT/foreign.tar.gz" foreign
