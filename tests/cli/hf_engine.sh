#!/bin/sh
# The Hugging Face engine on the CPU. INFERPROF_PYTHON names a Python with torch and transformers. Without one, only the
# error message about the missing packages is tested.
. tests/cli/lib.sh
worker=engines/hf/worker.py
python=${INFERPROF_PYTHON:-python3}

mkdir -p "$work/empty"
printf '%s\n' '{"op":"hello"}' >"$work/hello"
# -S and -I hide site-packages: this Python finds neither torch nor transformers
python3 -S -I "$worker" <"$work/hello" >"$work/out" 2>"$work/err"
status=$?
expect "without torch the engine's error says what to install" 0 out '"error": ".*install torch and transformers.*engine.python='

if "$python" -c 'import torch, transformers' 2>/dev/null; then
    check "the engine's answers match generate(), and bad requests do not end it" \
        "$python" tests/oracle/hf_engine.py "$worker" "$work"
    check "operators are recorded without views; a module that is missing costs its sub-stage only" \
        "$python" tests/oracle/hf_ranges.py "$(dirname "$worker")"

    check "attn_implementation=auto takes FlashAttention 2 where it is installed, and falls back with a note" \
        "$python" tests/oracle/hf_attention.py "$(dirname "$worker")"

    # the model fails at its fourth request, which is the second repeat
    model=$("$python" tests/oracle/hf_models.py short-of-memory "$work")
    echo '{"prompt":"a few words"}' >"$work/prompts.jsonl"
    run "$INFERPROF" profile engine=hf "engine.python=$python" model=llama "model.path=$model" model.weights=synthetic:0 device=cpu \
        dataset=prompts "dataset.prompts=$work/prompts.jsonl" repeats=4 infer.max_new_tokens=3 "output.dir=$work/runs" \
        +engine.load.trust_remote_code=true peak.tflops=1 peak.gbps=10
    expect "a repeat that runs out of memory does not end the run" 0 err 'out of device memory: CUDA out of memory'
    check "the report counts the failed repeat" grep -q 'Timed repeats: 4 (failed: 1)' "$work"/runs/*/report.md
    check "the report lists the engine's options" grep -q 'engine options . trust..remote..code=true' "$work"/runs/*/report.md

    for batch in 1 4; do
        run "$INFERPROF" profile engine=hf "engine.python=$python" model=llama "model.path=$work/no_weights" model.weights=synthetic:0 \
            device=cpu dataset=prompts "dataset.prompts=$work/prompts.jsonl" repeats=2 infer.max_new_tokens=5 \
            "output.dir=$work/batch-$batch" "+engine.load.batch=$batch" peak.tflops=1 peak.gbps=10
        expect "a run with batch $batch succeeds" 0
    done
    check "batch 4 has four times the tokens and FLOPs of batch 1" python3 -c '
import glob, json, sys
one, four = (json.load(open(glob.glob(f"{sys.argv[1]}/batch-{n}/*/metrics.json")[0])) for n in (1, 4))
for a, b in zip(one["stages"], four["stages"]):
    assert b["name"] == a["name"] and b["tokens"] == 4 * a["tokens"] and abs(b["flops"] / a["flops"] - 4) < 1e-9, (a, b)
    assert b["bytes"] < 4 * a["bytes"], "the weights are read once"
figures = {f["key"]: f["repeats"] for f in four["figures"]}
for rate, ms in zip(figures["decode_tokens_per_s"], figures["time_per_token"]):
    assert abs(rate * ms / 4e3 - 1) < 1e-9, figures' "$work"
else
    skip "the engine's answers match generate()" "no Python with torch and transformers (INFERPROF_PYTHON)"
fi
