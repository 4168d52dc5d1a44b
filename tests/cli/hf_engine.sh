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

    # the fourth request of that model is its second repeat
    model=$("$python" tests/oracle/hf_models.py short-of-memory "$work")
    echo '{"prompt":"a few words"}' >"$work/prompts.jsonl"
    run "$INFERPROF" profile engine=hf "engine.python=$python" model=llama "model.path=$model" model.weights=synthetic:0 device=cpu \
        dataset=prompts "dataset.prompts=$work/prompts.jsonl" repeats=4 infer.max_new_tokens=3 "output.dir=$work/runs" \
        +engine.load.trust_remote_code=true peak.tflops=1 peak.gbps=10
    expect "a repeat without memory does not end the run" 0 err 'out of device memory: CUDA out of memory'
    check "the report counts it among four" grep -q 'Timed repeats: 4, of them failed: 1' "$work"/runs/*/report.md
else
    skip "the engine answers what plain generate answers" "no Python with torch and transformers (INFERPROF_PYTHON)"
fi
