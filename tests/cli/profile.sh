#!/bin/sh
# `inferprof profile` end to end: configuration, refusals, whole runs against the fake engine (whose numbers are made
# up), the ways an engine can fail, interruption, and one short run of the real one.
. tests/cli/lib.sh
fake=$PWD/$BUILD/tests/fake_engine
export XDG_CACHE_HOME="$work/cache"
mkdir -p "$work/conf/engine" "$work/data"
cat >"$work/conf/engine/fake.yaml" <<END
defaults: [native, _self_]
name: fake
command: [$fake, $work/state]
END
printf '{"prompt": "one | two", "id": "a|b"}\n{"prompt": "<b>", "id": "c"}\n' >"$work/data/p.jsonl"

# fake DEEDS WORDS...: a run of 4 repeats; $dir is its folder
profile_fake() {
    deeds=$1
    shift
    rm -f "$work/state"
    run "$INFERPROF" profile --conf-dir "$work/conf" engine=fake dataset=prompts dataset.prompts="$work/data/p.jsonl" \
        repeats=4 infer.max_new_tokens=5 peak.tflops=0.1 peak.gbps=10 output.dir="$work/runs" \
        "engine.command=[$fake, $work/state${deeds:+, $deeds}]" "$@"
    dir=$(tail -n 1 "$work/out")
}

# ---- configuration
run "$INFERPROF" profile --show-config repeats=3 model=deepseek_ocr model.path=/m
expect "--show-config names the origin of every value" 0 \
    out '^repeats: 3 +# command line$' out '^  path: /m +# command line$' \
    out '^  max_new_tokens: 64 +# built-in conf/config.yaml:[0-9]+$' \
    out '^  no_repeat_ngram_size: 20 +# built-in conf/config.yaml:[0-9]+ as \$\{model.no_repeat_ngram_size\}$'
run "$INFERPROF" profile repeats=ten max_new_token=5 infer.top_p=7
expect "wrong keys and types are listed together" 2 \
    err "unknown key 'max_new_token'; did you mean 'infer.max_new_tokens'" err "repeats is 'ten', expected a whole number" \
    err "infer.top_p is '7', expected a number from 0 to 1"
run "$INFERPROF" profile model.path=/no/model dataset.root=/no/data device=cuda:9 output.dir=/dev/null/x engine.command='[/no/engine]'
expect "what stands against a run is listed at once, before any work" 1 err 'model.path=/no/model: no such folder' \
    err 'dataset.root=/no/data: no such folder' err 'device=cuda:9' err '/no/engine: no such program' err 'is a file, not a folder'
run "$INFERPROF" profile --dry-run engine.devices='[cpu, cuda]' device=cuda:0
case $(cat "$work/err") in *"run on the CPU with device=cpu"*) ok "without a GPU cuda:0 is refused with the way out" ;;
*) if [ "$status" -eq 0 ]; then skip "without a GPU cuda:0 is refused with the way out" "a GPU is here"
   else not_ok "without a GPU cuda:0 is refused with the way out" "$(cat "$work/err")"; fi ;;
esac
run "$INFERPROF" profile --conf-dir /no/conf
expect "a --conf-dir that is not there is refused, not ignored" 1 err "/no/conf: not a folder"
run "$INFERPROF" profile --rerun /no/run
expect "a run that is not there cannot be repeated" 1 err '/no/run: not a run folder'

# ---- a whole run
profile_fake "" --dry-run
expect "--dry-run prints the plan" 0 out '^engine +fake: ' out '^phase 2 +4 timed repeats, up to 5 new tokens'
check "--dry-run makes no folder" test ! -e "$work/runs"
profile_fake ""
expect "a run ends with the path of its folder" 0 out "^$work/runs/[0-9]{8}-[0-9]{6}-embedded\$"
first=$dir
missing=
for f in report.html report.md stakeholder_summary.md metrics.json operators.md operators.csv kernels.md kernels.csv stages.csv \
    findings.json static_compute.json static_compute.md predictions.jsonl predictions.md env.json inputs.yaml config.yaml \
    assumptions.md inferprof.log trace/engine.ipt; do
    [ -s "$dir/$f" ] || missing="$missing $f"
done
check "the folder holds every artifact" test -z "$missing"
check "a finished folder is not marked incomplete" test ! -e "$dir/INCOMPLETE"
check "every Markdown table has one width" python3 tests/tools/markdown_tables.py "$dir"
check "every JSON file is JSON" python3 -c "
import json, sys
d = sys.argv[1]
for f in ('metrics', 'findings', 'static_compute', 'env'):
    json.load(open(f'{d}/{f}.json'))
rows = [json.loads(l) for l in open(f'{d}/predictions.jsonl')]
assert [r['phase'] for r in rows] == ['representative'] + ['timing'] * 4, rows
assert rows[1]['input'] == 'a|b' and rows[2]['input'] == 'c'
m = json.dumps(json.load(open(f'{d}/metrics.json')))
assert '102' in m and '\"prefill\"' in m" "$dir"
check "the report has the answers" grep -q "## Answers" "$dir/report.md"
check "and the configuration" grep -q "<summary>Configuration" "$dir/report.html"
same_report "a second report of the folder is the same, file by file" "$dir"
check "the log has every step" grep -q 'repeat 4 of 4: prefill 102.000 ms' "$dir/inferprof.log"

printf '{"prompt": "changed", "id": "a|b"}\n{"prompt": "<b>", "id": "c"}\n' >"$work/data/p.jsonl"
rm -f "$work/state"
run "$INFERPROF" profile --rerun "$first"
dir=$(tail -n 1 "$work/out")
expect "a run can be repeated, and says which input has changed" 0 err 'a\|b is not the file it was in '
grep -v "^#" "$first/config.yaml" >"$work/a" && grep -v "^#" "$dir/config.yaml" >"$work/b"
check "the repeated run has the same configuration" cmp "$work/a" "$work/b"

run "$INFERPROF" profile --rerun "$first" output.run_id=same
rm -f "$work/state"
run "$INFERPROF" profile --rerun "$first" output.run_id=same
check "two runs of one name get two folders" test -s "$work/runs/same/report.md" -a -s "$work/runs/same-2/report.md"

# ---- failures
profile_fake 3=crash
expect "a crash costs one repeat and is reported" 0 err 'repeat 2 of 4 failed: the engine died \(signal 11'
check "the report says so" grep -q 'Repeat 2 of 4 failed' "$dir/report.md"
check "and that the engine was restarted" grep -q 'The engine was restarted 1 time' "$dir/report.md"
profile_fake 0=crash
expect "an engine that always crashes fails the run" 1 err 'failed again right after its restart'
check "which still leaves a report" grep -q 'failed again right after its restart' "$dir/report.md"
profile_fake 3=int
expect "Ctrl-C ends the run with status 130" 130 err 'the report is written from what there is'
check "and a complete report" test -s "$dir/report.html" -a -s "$dir/metrics.json" -a ! -e "$dir/INCOMPLETE"
check "that says it was interrupted" grep -q 'ended by Interrupt during repeat 2 of 4' "$dir/report.md"
profile_fake 1=term
expect "SIGTERM ends the run with status 143" 143
check "and a report of nothing but the attempt" grep -q 'ended by Terminated during the representative run' "$dir/report.md"

# ---- a disk that takes no more: files over 4 KiB fail (SIGXFSZ is ignored, as a full disk sends none)
rm -f "$work/state"
run sh -c 'trap "" XFSZ; ulimit -f 8; exec "$@"' sh "$INFERPROF" profile --rerun "$first" output.run_id=full
expect "a full disk is a clear error" 1 err 'full/.*: File too large'
check "and the folder says that it is incomplete" test -s "$work/runs/full/INCOMPLETE"

# ---- the real engine, small
run "$INFERPROF" profile dataset=prompts dataset.prompts="$work/data/p.jsonl" repeats=2 infer.max_new_tokens=4 \
    peak.tflops=0.1 peak.gbps=10 output.dir="$work/runs" output.run_id=native
expect "the native engine runs under profile" 0 out "^$work/runs/native\$"
check "and its operators are in the tables" grep -q 'lm_head\|head' "$work/runs/native/operators.csv"
same_report "a second report of the native engine's run is the same" "$work/runs/native"
{ sed '/^## Environment/,$d' "$work/runs/native/report.md"; sed '/^## Environment/,/^## Aggregates/d' "$work/runs/native/stakeholder_summary.md"
  python3 tests/tools/visible_text.py "$work/runs/native/report.html" environment; cat "$work/out"; } >"$work/said"
check "of a run on the CPU nothing is said of GPUs, CUDA or launches" test "$(grep -ciE 'GPU|CUDA|launch' "$work/said")" -eq 0
check "but of what the CPU did" grep -q 'What the CPU did' "$work/said"

# ---- energy of the timed repeats, from a GPU's counter: the mock's grows by 30 mJ with each reading
mock=$PWD/$BUILD/tests/mock
LD_LIBRARY_PATH=$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} profile_fake "0=slow" engine.devices='[cpu, cuda]' device=cuda:0
expect "a run on the mock's GPU" 0
check "each repeat took 0.03 J for its 5 tokens" python3 -c "
import json, sys
f = {f['key']: f for f in json.load(open(sys.argv[1]))['figures']}['joules_per_new_token']
assert f['unit'] == 'J/token' and all(abs(v - 0.006) < 1e-9 for v in f['repeats']) and len(f['repeats']) == 4, f" "$dir/metrics.json"
check "and the report says so" grep -q 'Energy per new token (whole request) | J/token | 0.0060' "$dir/report.md"
LD_LIBRARY_PATH=$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} profile_fake "0=crash" engine.devices='[cpu, cuda]' device=cuda:0
expect "an engine that never ran: nothing is not 0 ms long" 1
for f in out report.md report.html stakeholder_summary.md; do
    [ "$f" = out ] && f=$work/out || f=$dir/$f
    check "${f##*/}" test "$(grep -c 'whole trace' "$f")" -eq 0
done
LD_LIBRARY_PATH=$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} profile_fake "" engine.devices='[cpu, cuda]' device=cuda:0
check "repeats shorter than the counter's steps have no energy" test "$(grep -c joules_per_new_token "$dir/metrics.json")" -eq 0
check "every Markdown table of all runs has one width" python3 tests/tools/markdown_tables.py "$work/runs"
bad=$(printf 'x\377y')
if mkdir "$work/$bad" 2>/dev/null; then
    run sh -c "cd '$work/$bad' && exec '$INFERPROF' profile"
    expect "a folder that JSON cannot name is refused before any work" 1 err 'output.dir: .*: the name is not valid UTF-8'
    check "and nothing was begun in it" test ! -e "$work/$bad/runs"
else
    skip "a folder that JSON cannot name is refused before any work" "this file system takes UTF-8 names only"
fi
