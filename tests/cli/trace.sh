#!/bin/sh
# `inferprof trace info`, `trace dump` and `trace cut` on good, truncated and foreign files.
. tests/cli/lib.sh

"$BUILD/tests/make_trace" "$work/t.ipt" 4 || exit 1
run "$INFERPROF" trace info "$work/t.ipt"
expect "trace info shows process, device and records per kind" 0 out 'command +python3 generate.py' out 'device 0 +NVIDIA H200' \
    out '^ +kernel +2,140 ' out '^ +launch +2,140 '
run "$INFERPROF" trace info --json "$work/t.ipt"
expect "trace info --json succeeds" 0
cat >"$work/check.py" <<'END'
import json, sys
(t,) = json.load(open(sys.argv[1]))
assert t["kinds"]["kernel"]["records"] == 4 * 535, t["kinds"]
assert t["finished"] is True and t["damage"] is None and t["lost"] == []
assert ["process.pid", "4242"] in t["meta"]
assert t["duration_ns"] > 0
END
check "trace info --json has the same numbers" python3 "$work/check.py" "$work/out"
run "$INFERPROF" trace dump --kind kernel --limit 2 "$work/t.ipt"
expect "trace dump prints one line per record" 0 out '^kernel start_ns=17000000000000.* name="_ZN2at6native'
check "trace dump --limit stops at the limit" test "$(wc -l <"$work/out")" -eq 2
"$INFERPROF" trace dump --json "$work/t.ipt" >"$work/all.jsonl"
cat >"$work/check.py" <<'END'
import collections, json, sys
kinds = collections.Counter(json.loads(line)["kind"] for line in open(sys.argv[1]))
assert kinds == {"meta": 5, "range": 4, "token": 4, "kernel": 2140, "launch": 2140}, kinds
END
check "trace dump --json prints all records, one JSON object per line" python3 "$work/check.py" "$work/all.jsonl"
run "$INFERPROF" trace dump --kind kernl "$work/t.ipt"
expect "an unknown kind gets the nearest one as a suggestion" 2 err "unknown kind 'kernl'; did you mean 'kernel'\?"

# stats against the records themselves
"$INFERPROF" trace cut -q docs/examples/qwen3-8b/trace/*[0-9].ipt -o "$work/qwen3" --range prefill --duration 0.2
for trace in "$work/t.ipt" "$work"/qwen3/*.ipt; do
    "$INFERPROF" trace dump --json "$trace" >"$work/dump.jsonl"
    "$INFERPROF" stats --json "$trace" >"$work/stats.json"
    check "stats of $(basename "$trace") equal the oracle" python3 tests/oracle/trace_stats.py "$work/stats.json" "$work/dump.jsonl"
done

head -c 20000 "$work/t.ipt" >"$work/cut.ipt"
run "$INFERPROF" stats --json "$work/cut.ipt" "$work/absent.ipt"
expect "stats counts the damage of a trace, and names one it cannot read" 1 out '"damaged_places": 1' out '"unfinished_trace": 1' \
    err 'absent.ipt: No such file'
run "$INFERPROF" trace info "$work/cut.ipt"
expect "a truncated file is read up to the damage, and the damage is reported" 0 out 'damage +1 place.*file ends inside a chunk' \
    out 'unfinished'
run "$INFERPROF" trace info "$work/t.ipt" "$work/absent.ipt"
expect "a missing file is an error, and the other file is shown" 1 out 'NVIDIA H200' err 'absent.ipt: No such file'
echo '{"traceEvents": []}' >"$work/chrome.json.................................."
run "$INFERPROF" trace info "$work/chrome.json.................................."
expect "a foreign file is rejected" 1 err 'not an inferprof trace'
mkdir -p "$work/none" "$work/run [1]/trace"
run "$INFERPROF" trace info "$work/none"
expect "a folder without traces is an error" 1 err 'none: no traces'
cp "$work/t.ipt" "$work/run [1]/trace/a.ipt"
cp "$work/t.ipt" "$work/run [1]/trace/b.ipt"
run "$INFERPROF" trace info "$work/run [1]" "$work/run [1]/trace/a.ipt"
expect "a run folder means its traces" 0 out 'trace/b.ipt'
check "a trace named twice is shown once" test "$(grep -c '/a.ipt' "$work/out")" -eq 1
run "$INFERPROF" trace dump --kind meta --limit 1000 "$work/run [1]"
expect "trace dump reads the traces of a run folder" 0 out '^meta '
one=$("$INFERPROF" trace dump --kind kernel "$work/t.ipt" | wc -l)
check "trace dump prints the records of both traces" test "$("$INFERPROF" trace dump --kind kernel "$work/run [1]" | wc -l)" -eq $((2 * one))
check "--limit applies to all traces together" test "$("$INFERPROF" trace dump --limit $((one + 1)) --kind kernel "$work/run [1]" | wc -l)" -eq $((one + 1))
"$INFERPROF" stats --json "$work/t.ipt" >"$work/once.json"
"$INFERPROF" stats --json "$work/t.ipt" "$work/t.ipt" >"$work/twice.json"
check "stats counts a trace given twice once" cmp "$work/once.json" "$work/twice.json"

# ---- trace cut: part of a trace as a new trace
run "$INFERPROF" trace cut "$work/t.ipt" --output "$work/part" --range decode
expect "trace cut keeps the file names" 0 err 'wrote .*/part/t.ipt'
"$INFERPROF" trace dump --json "$work/t.ipt" >"$work/whole.jsonl"
"$INFERPROF" trace dump --json "$work/part/t.ipt" >"$work/part.jsonl"
cat >"$work/check.py" <<'END'
import json, sys
whole, part = ([json.loads(line) for line in open(f)] for f in sys.argv[1:3])
last = max((r for r in whole if r["kind"] == "range" and r["name"] == "decode"), key=lambda r: r["start_ns"])
inside = lambda r: last["start_ns"] <= r.get("start_ns", r.get("time_ns")) < last["end_ns"]
for kind in ("kernel", "launch", "token"):
    want = [r for r in whole if r["kind"] == kind and inside(r)]
    assert [r for r in part if r["kind"] == kind] == want and (want or kind == "token"), kind
assert [r for r in part if r["kind"] == "range"] == [last]
assert {r["key"] for r in part if r["kind"] == "meta"} == {r["key"] for r in whole if r["kind"] == "meta"} | {"cut"}
END
check "trace cut keeps every record that starts within the range, unchanged" python3 "$work/check.py" "$work/whole.jsonl" "$work/part.jsonl"
run "$INFERPROF" trace cut "$work/t.ipt" --output "$work/short" --range decode --duration 0.001
expect "trace cut --duration succeeds" 0
"$INFERPROF" trace dump --json --kind range "$work/short/t.ipt" >"$work/out"
check "a range that crosses the end of the cut is shortened" python3 -c '
import json, sys
(r,) = [json.loads(line) for line in open(sys.argv[1])]
assert r["end_ns"] - r["start_ns"] == 1000000, r' "$work/out"
run "$INFERPROF" report "$work/short/t.ipt" -o "$work/short-report"
expect "the report of a cut trace has a caveat" 0 out 'shortened 1 range; their times'
run "$INFERPROF" report "$work/part/t.ipt" -o "$work/part-report"
check "a cut at the ends of a range needs no caveat" lacks shortened "$work/out"
run "$INFERPROF" trace cut "$work/t.ipt" --output "$work/nobody" --range decode --anonymous
expect "trace cut --anonymous succeeds" 0
"$INFERPROF" trace dump --kind meta "$work/nobody/t.ipt" >"$work/out"
check "an anonymous trace does not contain the command" sh -c "grep -q process.pid $work/out && ! grep -qE 'command|generate.py' $work/out"
run "$INFERPROF" trace cut "$work/t.ipt" --output "$work/part" --range prefill
expect "an unknown range is an error" 1 err "no range named 'prefill'"
run "$INFERPROF" trace cut "$work/t.ipt"
expect "trace cut without --output and --range is misuse" 2 err '--output DIR .* --range NAME'
