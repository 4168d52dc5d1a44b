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

# Perfetto's own protobuf classes read what we write. They are in a package from PyPI, installed once per build folder.
protos=$BUILD/perfetto-protos
[ -e "$protos/ready" ] || { python3 -m pip install -q --disable-pip-version-check --retries 1 --timeout 10 --no-deps \
    --target "$protos" perfetto==0.59.1 protobuf==7.36.2 >/dev/null 2>&1 && : >"$protos/ready"; }
# perfetto_decodes RUN PROCESS_NAME
perfetto_decodes() {
    "$INFERPROF" export -q "$1" >/dev/null && "$INFERPROF" export -q -f csv "$1" >/dev/null &&
        PYTHONPATH=$protos python3 tests/tools/perfetto_protos.py "$1/trace.perfetto-trace" "$1/trace.csv" "$2"
}
"$INFERPROF" import -q tests/data/kineto/hta_rank0_a100.json.gz -o "$work/rank0" >/dev/null
if [ -e "$protos/ready" ]; then
    check "Perfetto's classes decode every slice, annotation and counter of a recorded run" \
        perfetto_decodes "$work/more" "python ocr.py page.png"
    check "Perfetto's classes decode every slice and annotation of an imported trace, with shapes" \
        perfetto_decodes "$work/rank0" "rank 0: pyper:trainer:0:0"
else
    skip "Perfetto's classes decode the trace" "the perfetto package cannot be installed"
fi

# overlapping N: a trace with N kernels on one stream, each of which crosses all others
overlapping() {
    python3 - "$1" >"$work/crossing-$1.json" <<'END'
import json, sys
n = int(sys.argv[1])
print(json.dumps([{"ph": "X", "cat": "kernel", "name": f"k{i}", "pid": 0, "tid": 7, "ts": 1 + i, "dur": 2 * n,
                   "args": {"device": 0, "stream": 7, "correlation": i + 1, "memory bandwidth (GB/s)": 2 if i % 2 else 2.5}} for i in range(n)]))
END
    "$INFERPROF" import -q "$work/crossing-$1.json" -o "$work/crossing-$1" >/dev/null
    run "$INFERPROF" export "$work/crossing-$1"
}
overlapping 40
expect "40 kernels that cross each other are all exported to Perfetto" 0 err '^40 records$'
check "no slice of them is missing" lacks 'missing' "$work/err"
overlapping 1100
expect "export reports slices that do not fit in Perfetto's tracks" 0 err '^1,024 records$' err 'warning: 76 slices are missing from the file'
check "whole numbers and fractions among the arguments stay what they are" \
    python3 tests/tools/chrome_round_trip.py "$INFERPROF" "$work/crossing-40.json"

# Chrome JSON keeps Kineto traces: CPU only, shapes, AMD, synchronisation, Triton, old names, Python functions.
for t in hta_cpu_only_small hta_amd_mi250 hta_event_sync_multistream_a100 hta_gpu_annotation_gp100 hta_triton_a100 \
    hta_legacy_inference_rank1 hta_rank0_a100 tl_sglang_qwen3_8b_decode_mi300 tl_vit_nsfw_h100; do
    check "import and export keep category, name, arguments and flows of $t" \
        python3 tests/tools/chrome_round_trip.py "$INFERPROF" tests/data/kineto/$t.json.gz
done
"$INFERPROF" import -q tests/data/kineto/tl_vit_nsfw_h100.json.gz -o "$work/vit" >/dev/null
run "$INFERPROF" export -q "$work/vit" "$work/rank0" -f chrome -o "$work/two.json"
expect "two imported processes are exported together" 0
check "correlation ids of two processes stay apart, flows follow them" python3 - "$work/two.json" <<'END'
import collections, json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
cat = collections.Counter(e.get("cat") for e in events if e["ph"] == "X")
assert cat["python_function"] and cat["cpu_op"] and cat["kernel"], cat
assert any("Input Dims" in e.get("args", {}) for e in events)
calls = [e["args"]["correlation"] for e in events if e.get("cat") == "cuda_runtime"]
assert len(set(calls)) == len(calls), "correlation ids of two processes are equal"
kernels = {e["args"]["correlation"] for e in events if e.get("cat") == "kernel"}
assert {e["id"] for e in events if e["ph"] == "s" and e["cat"] == "ac2g"} & kernels
END
run "$INFERPROF" export -q "$work/rank0" -f chrome --window step:0ms..20ms -o "$work/part.json"
expect "a window of an imported trace is exported" 0
check "the window holds the kernels of that time, each with its launch" python3 - "$work/part.json" tests/data/kineto/hta_rank0_a100.json.gz <<'END'
import gzip, json, sys
part, whole = json.load(open(sys.argv[1]))["traceEvents"], json.load(gzip.open(sys.argv[2]))["traceEvents"]
of = lambda events, cat: {e["args"]["correlation"] for e in events if e.get("cat") == cat}
kernels, calls = of(part, "kernel"), of(part, "cuda_runtime") | of(part, "cuda_driver")
assert 0 < len(kernels) < len(of(whole, "kernel")), len(kernels)
assert kernels & of(whole, "cuda_runtime") <= calls, kernels - calls
END
check "shapes of recorded operators are Input Dims and Input type" python3 - "$work/more/trace.chrome.json" "$work/more" "$INFERPROF" <<'END'
import csv, json, subprocess, sys
subprocess.run([sys.argv[3], "export", "-q", "-f", "chrome", sys.argv[2], "-o", sys.argv[1]], check=True, stdout=subprocess.DEVNULL)
shapes = [r["detail"] for r in csv.DictReader(open(sys.argv[2] + "/trace.csv/ranges.csv")) if r["detail"]]
args = [e["args"] for e in json.load(open(sys.argv[1]))["traceEvents"] if e.get("args", {}).get("Input Dims")]
assert len(args) == len(shapes) == 520, (len(args), len(shapes))
assert all(a == {"Input Dims": [[1, 8, 1280], [1280, 1280]], "Input type": ["c10::BFloat16"] * 2} for a in args)
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
