#!/bin/sh
# Every JSON document is valid by its schema in schemas/, and every schema is listed in docs/json.md.
# shellcheck source=tests/cli/lib.sh
. tests/cli/lib.sh
top=$PWD
models=$top/tests/data/models
export XDG_CACHE_HOME="$work/cache"

# valid NAME [--as DOCUMENT] FILE...
valid() {
    name=$1
    shift
    check "$name" python3 "$top/tests/tools/validate_json.py" "$@"
}
# prints NAME COMMAND...: the command succeeds, and its output is valid
prints() {
    name=$1
    shift
    run "$@"
    if [ "$status" -ne 0 ]; then not_ok "$name" "status $status: $(tail -n 3 "$work/err")"; else
        cp "$work/out" "$work/out.json"
        valid "$name" "$work/out.json"
    fi
}

cd "$work" || exit 1
run "$INFERPROF" profile -q repeats=2 profiling.warmup_rounds=1 infer.max_new_tokens=4 output.dir=runs
expect "a profile of the embedded model" 0
dir=$(echo "$work"/runs/*)
valid "metrics.json, findings.json, env.json, static_compute.json of a profile" \
    "$dir/metrics.json" "$dir/findings.json" "$dir/env.json" "$dir/static_compute.json"
valid "predictions.jsonl" --as predictions "$dir/predictions.jsonl"
prints "runs --json" "$INFERPROF" runs --json --stage decode
prints "runs show --json" "$INFERPROF" runs show --json "$(basename "$dir")"
for trace in hta_rank1_a100.json.gz hta_amd_mi250.json.gz; do
    run "$INFERPROF" import -q "$top/tests/data/kineto/$trace" -o "$trace.run"
    valid "metrics.json and findings.json of $trace" "$trace.run/metrics.json" "$trace.run/findings.json"
done
prints "compare --json" "$INFERPROF" compare --json hta_rank1_a100.json.gz.run hta_amd_mi250.json.gz.run
prints "stats --json" "$INFERPROF" stats --json hta_rank1_a100.json.gz.run
prints "trace info --json" "$INFERPROF" trace info --json hta_rank1_a100.json.gz.run
run "$INFERPROF" trace dump --json hta_amd_mi250.json.gz.run
cp out dump.jsonl
valid "trace dump --json" --as trace_dump dump.jsonl
run "$INFERPROF" import -q --into hta_rank1_a100.json.gz.run "$top/tests/data/ncu/copy_blocked_t4_base_units.csv"
valid "ncu.json and metrics.json with Nsight Compute" hta_rank1_a100.json.gz.run/ncu.json hta_rank1_a100.json.gz.run/metrics.json
prints "import --json of an Nsight Compute table" "$INFERPROF" import --json "$top/tests/data/ncu/copy_blocked_t4_base_units.csv"
for model in deepseek-ocr qwen3-30b-a3b gpt-oss-20b; do
    prints "static --json of $model" "$INFERPROF" static --json --gpu h200 "$models/$model.json"
done
prints "static --sweep --json" "$INFERPROF" static --json --sweep batch=1..8 --svg s.svg "$models/qwen3-8b.json"
prints "static --price --json" "$INFERPROF" static --json --gpu h200 --price 3 --mfu 0.4 --mbu 0.6 "$models/qwen3-8b.json"
prints "static --gpu all --json" "$INFERPROF" static --json --gpu all "$models/qwen3-8b.json"
prints "static --tp --ep --dp --json" "$INFERPROF" static --json --gpu h200 --tp 2 --pp 2 --ep 4 --dp 2 "$models/qwen3-30b-a3b.json"
prints "static --link list --json" "$INFERPROF" static --json --link list
prints "static --gpu list --json" "$INFERPROF" static --json --gpu list
prints "doctor --json" "$INFERPROF" doctor --json
prints "profile -p -n -b --json" "$INFERPROF" profile -q -p 8 -n 2 -b 1,2 repeats=1 profiling.warmup_rounds=0 --json
prints "calibrate --json" "$INFERPROF" calibrate --json

echo '{"schema": "inferprof.doctor/1", "inferprof": 5}' >wrong.json
run python3 "$top/tests/tools/validate_json.py" wrong.json
expect "a wrong document is refused" 1 out 'native_path_works' out 'inferprof: 5 is not of type'
listed() { for f in "$top"/schemas/*.json; do grep -q "schemas/$(basename "$f")" "$top/docs/json.md" || return 1; done; }
check "docs/json.md lists every schema" listed
defined() {
    sed -n 's/#define SCHEMA_.*"\(inferprof.*\)"/\1/p' "$top/src/base/schema.h" >names || return 1
    while read -r name; do
        document=${name#inferprof.}
        grep -q "\"const\": \"$name\"" "$top/schemas/${document%/*}.schema.json" || return 1
    done <names
}
check "every schema name of the program has a file with the same version" defined
