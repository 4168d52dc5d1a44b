#!/bin/sh
# The Hugging Face engine on the CPU. INFERPROF_PYTHON names a Python with torch and transformers; without one, only
# what it says about their absence is tested.
. tests/cli/lib.sh
worker=engines/hf/worker.py
python=${INFERPROF_PYTHON:-python3}

mkdir -p "$work/empty"
printf '%s\n' '{"op":"hello"}' >"$work/hello"
# -S and -I keep site-packages away: a Python that has neither torch nor transformers
python3 -S -I "$worker" <"$work/hello" >"$work/out" 2>"$work/err"
status=$?
expect "without torch the engine says how to get it" 0 out '"error": ".*install torch and transformers.*engine.python='

if "$python" -c 'import torch, transformers' 2>/dev/null; then
    check "the engine answers what plain generate answers, and lives through bad requests" \
        "$python" tests/oracle/hf_engine.py "$worker" "$work"
else
    skip "the engine answers what plain generate answers" "no Python with torch and transformers (INFERPROF_PYTHON)"
fi
