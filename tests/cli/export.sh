#!/bin/sh
# inferprof export: every format has the same totals.
. tests/cli/lib.sh
mkdir -p "$work/run/trace"
"$PWD/$BUILD/tests/make_run" "$work/run/trace/a.ipt" 12 40

for format in perfetto chrome csv sqlite; do
    run "$INFERPROF" export "$work/run" --format $format
    expect "export as $format prints the output path" 0 out "^$work/run/trace\." err "records"
done
check "all formats hold the same kernels" python3 - "$work/run" <<'END'
import csv, json, sqlite3, subprocess, sys
run = sys.argv[1]
rows = list(csv.DictReader(open(run + "/trace.csv/kernels.csv")))
want = (len(rows), sum(int(r["duration_ns"]) for r in rows))
assert want[0] == 520, want
events = json.load(open(run + "/trace.chrome.json"))["traceEvents"]
kernels = [e for e in events if e.get("cat") == "kernel"]
assert (len(kernels), round(sum(e["dur"] for e in kernels) * 1000)) == want
starts = {e["id"] for e in events if e["ph"] == "s"}
ends = {e["id"] for e in events if e["ph"] == "f"}
assert starts == ends and len(starts) == 520
db = sqlite3.connect(run + "/trace.sqlite")
assert db.execute("SELECT count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone() == want
# The joins that scripts for Nsight Systems use: kernel to launch by process and correlation, names by id.
joined = db.execute("""SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r
    ON r.correlationId = k.correlationId AND r.globalTid / 0x1000000 = k.globalPid / 0x1000000
    JOIN StringIds n ON n.id = k.demangledName WHERE k.start >= r.start""").fetchone()[0]
assert joined == 520, joined
assert db.execute("SELECT count(*) FROM NVTX_EVENTS WHERE text IN ('prefill', 'decode') AND eventType = 59").fetchone()[0] == 2
seen = json.loads(subprocess.check_output([sys.executable, "tests/tools/perfetto_check.py", run + "/trace.perfetto-trace"]))
assert (seen["count"]["kernel"], seen["total_ns"]["kernel"]) == want, seen
assert seen["open"] == 0 and seen["flows"] == 520 and seen["counters"] == 80, seen
assert seen["track_names"] == ["GPU 0 NVIDIA H200", "Power", "SM clock", "Stages", "Stream 7"], seen
assert seen["count"] == {"stage": 4, "op": 520, "launch": 520, "kernel": 520, "copy": 1, "sync": 1}, seen
END

run "$INFERPROF" export "$work/run" -f chrome --window decode:1ms..2ms -o "$work/w.json"
expect "--window with a time range succeeds" 0
check "the time window holds the kernels of that time" python3 -c '
import json, sys
k = [e for e in json.load(open(sys.argv[1]))["traceEvents"] if e.get("cat") == "kernel"]
assert 68 <= len(k) <= 74, len(k)' "$work/w.json"
run "$INFERPROF" export "$work/run" -f csv --window prefill:0 -o "$work/prefill"
expect "--window with an occurrence succeeds" 0
check "the occurrence holds its kernels" test "$(wc -l <"$work/prefill/kernels.csv")" -eq 41
run "$INFERPROF" export "$work/run" --window decod
expect "an unknown stage gets the known ones as a suggestion" 1 err "no stage 'decod' in the trace; there is 'decode'"
run "$INFERPROF" export "$work/run" --window decode:5..1
expect "a reversed range is misuse" 2 err "is not a valid window"
run "$INFERPROF" export "$work/run" --window decode:7
expect "an occurrence above the count is an error" 1 err "occurs 1 time"
run "$INFERPROF" export "$work/run" --format parquet
expect "an unknown format is misuse" 2 err "'parquet' is not one of perfetto.chrome.csv.sqlite"
run "$INFERPROF" export "$work/run" -f sqlite -o "$work/no/such/x.sqlite"
expect "an output path in a missing folder is an error" 1 err "no/such/x.sqlite: No such file or directory"

# Importing an export gives the same totals.
"$INFERPROF" report -q "$work/run" >/dev/null
for format in sqlite chrome; do
    case $format in sqlite) file=trace.sqlite ;; *) file=trace.chrome.json ;; esac
    run "$INFERPROF" import -q "$work/run/$file" -o "$work/back-$format"
    expect "the $format export can be imported" 0
    "$INFERPROF" report -q "$work/back-$format" >/dev/null
    check "$format export and import keep kernels, launches, busy time, stages and operators" python3 - "$work/run" "$work/back-$format" <<'END'
import json, sys
def totals(run):
    m = json.load(open(run + "/metrics.json"))
    t = m["trace"]
    stages = [(s["name"], s["trace"]["kernels"], s["trace"]["gpu_busy_ns"], s["trace"]["wall_ns"]) for s in m["stages"]]
    operators = sorted((o["name"], o["calls"], o["device_ns"]) for o in m["operators"])
    return t["kernels"], t["launches"], t["conservation"]["gpu_busy_ns"], stages, operators
a, b = totals(sys.argv[1]), totals(sys.argv[2])
assert a == b, (a, b)
END
done

# SQLite keeps every kind of record through export and import.
mkdir -p "$work/more/trace"
"$PWD/$BUILD/tests/make_run" "$work/more/trace/a.ipt" 12 40 0 1
run "$INFERPROF" export "$work/more" -f sqlite
expect "counters, power, tokens and GEMM shapes are exported" 0
run "$INFERPROF" import -q "$work/more/trace.sqlite" -o "$work/back-more"
expect "counters, power, tokens and GEMM shapes are imported" 0
"$INFERPROF" export -q "$work/more" -f csv >/dev/null
"$INFERPROF" export -q "$work/back-more" -f csv >/dev/null
for f in power tokens gemms; do
    # column 2: the process id, which import assigns again (in power.csv: the device)
    for side in more back-more; do cut -d, -f 1,3- "$work/$side/trace.csv/$f.csv" >"$work/$side.$f"; done
    check "SQLite export and import keep the $f" cmp "$work/more.$f" "$work/back-more.$f"
done
check "GPU_METRICS joins its names as in Nsight Systems and keeps the samples" python3 - "$work/more" "$work/back-more" <<'END'
import csv, sqlite3, sys
db = sqlite3.connect(sys.argv[1] + "/trace.sqlite")
rows = db.execute("""SELECT names.metricName, count(*), avg(m.value), m.typeId & 0xFF FROM GPU_METRICS m JOIN TARGET_INFO_GPU_METRICS names
    ON m.typeId = names.typeId AND m.metricId = names.metricId GROUP BY m.typeId, m.metricId""").fetchall()
assert [(n.split(".")[0], c, v, d) for n, c, v, d in rows] == [("sm__throughput", 146, 25.5, 0), ("dram__read_throughput", 146, 12.25, 0)], rows
assert db.execute("SELECT sum(count) FROM INFERPROF_TOKENS WHERE kind = 1").fetchone()[0] == 12
read = lambda run: [(r["end_ns"], r["metric"], r["value"]) for r in csv.DictReader(open(run + "/trace.csv/counters.csv"))]
assert read(sys.argv[1]) == read(sys.argv[2]) and len(read(sys.argv[1])) == 292
END

mkfifo "$work/pipe"
for format in chrome sqlite; do
    run "$INFERPROF" export "$work/run" --format $format -o "$work/pipe"
    expect "export as $format does not replace a pipe" 1 err 'pipe: a device or pipe'
done
check "the pipe is still a pipe" test -p "$work/pipe"

# A full disk: no empty folder stays behind.
"$BUILD/tests/make_trace" "$work/large.ipt" 64
run sh -c 'trap "" XFSZ; ulimit -f 16; exec "$@"' sh "$INFERPROF" export -f csv -o "$work/tables" "$work/large.ipt"
expect "a full disk fails the CSV export and names the file" 1 err 'tables/[a-z]*.csv: File too large'
check "a failed CSV export leaves no folder" test ! -e "$work/tables"

run "$INFERPROF" export -f chrome -o - "$work/run"
expect "--output - writes to stdout" 0 out '"traceEvents"'
check "--output - writes the same bytes as to a file" cmp "$work/out" "$work/run/trace.chrome.json"
check "--output - leaves no temporary folder" test -z "$(find "$TMPDIR" -maxdepth 1 -name 'inferprof-export*')"
run "$INFERPROF" export -f csv -o - "$work/run"
expect "--output - with csv is misuse" 2 err 'folder of files'
