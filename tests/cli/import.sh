#!/bin/sh
# `stats` and `import` on real files of other tools. An independent computation in Python checks the numbers.
. tests/cli/lib.sh

# Larger traces are not part of the tree. Those in ../shared/data are checked too, if that folder exists.
shared() { # FOLDER PATTERN
    for f in ../shared/data/"$1"/$2; do
        [ -e "$f" ] && ! [ -e "tests/data/$1/$(basename "$f")" ] && ! [ -e "tests/data/$1/$(basename "$f").gz" ] && echo "$f"
    done
}
# shellcheck disable=SC2046
for f in tests/data/kineto/*.json* $(shared kineto '*.json*'); do
    run "$INFERPROF" stats --json "$f"
    cp "$work/out" "$work/stats.json"
    expect "stats reads $(basename "$f")" 0
    check "the numbers of $(basename "$f") match the Python oracle" python3 tests/oracle/kineto_stats.py --compare "$work/stats.json" "$f"
done
# shellcheck disable=SC2046
for f in tests/data/kineto/*.json* $(shared kineto '*.json*'); do
    check "the times of stages of $(basename "$f") match the Python oracle" python3 tests/oracle/stage_time.py "$INFERPROF" "$work" "$f"
done
# headline FILE STAGE STEPS MS BUSY_PERCENT TOKENS: what the report says first
headline() {
    "$INFERPROF" import -o "$work/headline-$1" "tests/data/kineto/$1.json.gz" >"$work/headline.txt" 2>&1
    check "the headline of $1 is what the trace shows" python3 - "$work/headline-$1/metrics.json" "$@" <<'END'
import json, sys
path, _, name, steps, ms, busy, tokens = sys.argv[1:]
stage, = [s for s in json.load(open(path))["stages"] if s["name"] == name]
got = (stage["trace"]["occurrences"], round(stage["time_ms"], 2), round(100 * stage["gpu_busy_share"], 2), stage["tokens"])
assert got == (int(steps), float(ms), float(busy), json.loads(tokens)), got
END
}
headline hta_ns_resolution_v100 step 5 96.70 97.71 null     # asynchronous: ranges close before their kernels run
headline tl_vllm_prefill_b200 prefill 1 87.41 13.27 888     # its copy on the GPU is not a second step
headline tl_vllm_decode_full_mi300 decode 1 10.74 99.76 32  # its first copy waits for unrecorded kernels
headline tl_vllm_prefilldecode_piecewise mixed 1 156.47 99.76 8192  # capture begins while unrecorded kernels run
headline tl_qwen1.5_0.5b_h100 step 1 35.18 90.68 null       # kernels of the step before it have no launch
headline tl_timesformer_h100 step 1 382.54 41.42 null       # its copy on the GPU is not a second step
run "$INFERPROF" report -q --model tests/data/models/gpt-oss-20b.json "$work/headline-tl_vllm_prefilldecode_piecewise" -o "$work/mixed"
expect "report --model of a step of prompts and generated tokens says why there is no MFU" 0 out 'read prompts and generate tokens at the same time'
run "$INFERPROF" report -q --model tests/data/models/gpt-oss-20b.json --tp 8 "$work/headline-tl_vllm_prefill_b200" -o "$work/mxfp4"
expect "report --model of a rank with --tp succeeds" 0
check "the header names the peak of 4-bit weights, and the peak of MFU" \
    grep -q '^Peaks: .*dense bf16; mxfp4 weights: dense mxfp4, .*; MFU of prefill: relative to 5.33 PF/s' "$work/mxfp4/report.md"
check "gpt-oss has no shared experts, and a QKV product per layer" json_is "$work/headline-tl_vllm_decode_full_mi300/metrics.json" \
    '[(r["role"], r["calls"]) for r in d["recognition"]["anatomy"]["roles"] if r["role"] in ("experts", "shared experts", "QKV", "LM head")]' \
    "[('experts', 48), ('QKV', 24), ('LM head', 1)]"

# both ranks in one file: the same times as above
python3 - "$work" <<'END'
import gzip, json, sys
joined = [json.load(gzip.open(f"tests/data/kineto/hta_rank{rank}_a100.json.gz", "rt")) for rank in (0, 1)]
del joined[0]["distributedInfo"]
joined[0]["traceEvents"] += joined[1]["traceEvents"]
json.dump(joined[0], open(f"{sys.argv[1]}/joined.json", "w"))
END
run "$INFERPROF" import -o "$work/joined" "$work/joined.json"
expect "ranks in one file are two processes" 0 err '^step takes 438.7 ms \(mean of 4 steps on 2 devices\), the GPU is busy 64.3%' \
    err 'joined.ipt: contains 2 processes'

# rank 1 lost its kernels
python3 - "$work" <<'END'
import gzip, json, sys
for rank in (0, 1):
    d = json.load(gzip.open(f"tests/data/kineto/hta_rank{rank}_a100.json.gz", "rt"))
    if rank == 1:
        d["traceEvents"] = [e for e in d["traceEvents"] if e.get("cat") not in ("kernel", "gpu_memcpy", "gpu_memset")]
    json.dump(d, open(f"{sys.argv[1]}/half_rank{rank}.json", "w"))
END
run "$INFERPROF" import -o "$work/half-ranks" "$work/half_rank0.json" "$work/half_rank1.json"
expect "a rank without kernels is named, and is not the fastest" 0 err 'The traces of 1 rank contain no kernels \(the first is rank 1\)' err '^step +2 .* 105.2 +105.2 '
# the two ranks in one file, and its export read again
python3 - "$work/joined.json" <<'END'
import gzip, json, sys
ranks = [json.load(gzip.open(f"tests/data/kineto/hta_rank{rank}_a100.json.gz", "rt")) for rank in (0, 1)]
json.dump({"traceEvents": ranks[0]["traceEvents"] + ranks[1]["traceEvents"]}, open(sys.argv[1], "w"))
END
"$INFERPROF" import -q -o "$work/joined" "$work/joined.json" >/dev/null 2>&1
"$INFERPROF" export -q -f sqlite -o "$work/joined.sqlite" "$work/joined" >/dev/null
"$INFERPROF" import -q -o "$work/joined-again" "$work/joined.sqlite" >/dev/null 2>&1
for r in joined joined-again; do
    check "two ranks in one file have the times of their own files ($r)" json_is "$work/$r/metrics.json" \
        '[(s["trace"]["kernels"], round(s["time_ms"])) for s in d["stages"] if s["name"] == "step"]' '[(2258, 439)]'
done
# Nsight Systems: process 1 has a kernel, process 2 makes a call and has none, process 3 has a kernel
python3 - "$work/processes.sqlite" <<'END'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("create table CUPTI_ACTIVITY_KIND_RUNTIME(start, end, eventClass, globalTid, correlationId, nameId)")
db.execute("create table CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, contextId, streamId, correlationId, globalPid)")
for pid in 1, 2, 3:
    db.execute("insert into CUPTI_ACTIVITY_KIND_RUNTIME values (?, ?, 0, ?, 5, NULL)", (10 * pid, 10 * pid + 5, (pid << 24) + 1))
    if pid != 2:
        db.execute("insert into CUPTI_ACTIVITY_KIND_KERNEL values (100, 200, ?, 1, 7, 5, ?)", (pid // 2, pid << 24))
db.commit()
END
run "$INFERPROF" stats --json "$work/processes.sqlite"
cp "$work/out" "$work/processes.json"
check "stats has a rank per process with work on a GPU" json_is "$work/processes.json" \
    '([r["kernels"] for r in d["ranks"]], d["gpu"]["0"]["kernels"], d["gpu"]["1"]["kernels"])' '([1, 1], 1, 1)'
check "the times of stages of two ranks match the Python oracle" python3 tests/oracle/stage_time.py "$INFERPROF" "$work" --ranks tests/data/kineto/hta_rank0_a100.json.gz tests/data/kineto/hta_rank1_a100.json.gz
# also for other folders: trace_properties.py INFERPROF SCRATCH FOLDER
check "sums, shares, savings and explanations hold, and an idle device or a second rank changes nothing" \
    python3 tests/oracle/trace_properties.py "$INFERPROF" "$work" tests/data/kineto/tl_vllm_decode_full_mi300.json.gz tests/data/kineto/hta_amd_mi250.json.gz
for f in tl_vllm_decode_full_mi300 hta_amd_mi250; do
    python3 tests/oracle/mutate_trace.py "tests/data/kineto/$f.json.gz" "$work/mutations"
    check "they also hold for 12 damaged and unusual variants of $f" \
        python3 tests/oracle/trace_properties.py "$INFERPROF" "$work" "$work/mutations"
done
python3 tests/oracle/mutate_trace.py tests/data/kineto/tl_vllm_decode_full_mi300.json.gz "$work/mutations"
"$INFERPROF" import -q -o "$work/no-launches" "$work/mutations/without_launches.json" >/dev/null
check "without launches, a stage during which no kernel ran has no time, busy share and launches per token" json_is \
    "$work/no-launches/metrics.json" '[(s["time_ms"], s["gpu_busy_share"], s["trace"]["launches_per_token"]) for s in d["stages"]][0]' '(None, None, None)'
check "nor does it have work" json_is "$work/no-launches/metrics.json" \
    '[[s["trace"][k] for k in ("kernels", "copies", "gpu_owned_ns", "gpu_owned_self_ns", "kernels_per_token")] for s in d["stages"]][0]' \
    '[None, None, None, None, None]'
python3 tests/oracle/mutate_trace.py tests/data/kineto/tl_qwen1.5_0.5b_h100.json.gz "$work/mutations"
"$INFERPROF" import -q -o "$work/no-products" "$work/mutations/without_launches.json" >/dev/null
check "without launches, kernels that run while an operator is open are not its products" \
    json_is "$work/no-products/metrics.json" '[o["name"] for o in d["operators"] if o["flops"]]' '[]'
# device 9 is used first, and devices 2 and 9 are not rows 0 and 1
cat >"$work/devices.json" <<'END'
[{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":5,"tid":5,"ts":0,"dur":90,"args":{}},
{"ph":"X","cat":"kernel","name":"a","pid":9,"tid":7,"ts":10,"dur":30,"args":{"device":9,"stream":7,"correlation":1}},
{"ph":"X","cat":"kernel","name":"a","pid":9,"tid":7,"ts":50,"dur":30,"args":{"device":9,"stream":7,"correlation":2}},
{"ph":"X","cat":"kernel","name":"b","pid":2,"tid":7,"ts":20,"dur":5,"args":{"device":2,"stream":7,"correlation":3}}]
END
check "tables and CSV files show the device numbers of the trace" python3 tests/oracle/stage_time.py "$INFERPROF" "$work" "$work/devices.json"
"$INFERPROF" export -q "$work/stage_time" -f csv >/dev/null
check "exports have the device numbers of the trace" python3 - "$work/stage_time/trace.csv/kernels.csv" <<'END'
import csv, sys
rows = [(r["name"], r["device"]) for r in csv.DictReader(open(sys.argv[1]))]
assert sorted(rows) == [("a", "9"), ("a", "9"), ("b", "2")], rows
END
run "$INFERPROF" import -o "$work/two-devices" "$work/devices.json"
expect "a headline over several devices says so" 0 err '^whole trace takes .* \(mean over 2 devices\), the GPU is busy'
# Three steps are launched 1 ms apart and take 3 ms on the GPU. Recording ends 5 ms after the start, but the
# last range ends after 20 ms.
python3 - "$work/ended.json" <<'END'
import json, sys
events, correlation = [], 0
for step in range(3):
    events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 5, "tid": 5, "ts": 1000 * step,
                   "dur": 990 if step < 2 else 18000})
    for n in range(30):
        correlation += 1
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": 5,
                       "ts": 1000 * step + 10 + 10 * n, "dur": 5, "args": {"correlation": correlation}})
        start = 20 + 100 * (correlation - 1)
        if start < 5000:
            events.append({"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": start, "dur": 100,
                           "args": {"device": 0, "stream": 7, "correlation": correlation}})
json.dump(events, open(sys.argv[1], "w"))
END
run "$INFERPROF" import -o "$work/ended" "$work/ended.json"
expect "a GPU with queued work is not idle after the end of recording" 0 err '^step takes 3.02 ms \(1 step; recording ended in 2 more\), the GPU is busy 99.6%'
check "that time is unrecorded" json_is "$work/ended/metrics.json" 'round(d["devices"][0]["unrecorded_ns"] / 1e6, 2)' 14.98
check "the report names the steps in which recording ended" grep -q 'step: recording ended in 2 of 3 occurrences' "$work/ended/report.md"
for f in tests/data/nsys/*.sqlite.gz; do
    gunzip -c "$f" >"$work/$(basename "$f" .gz)"
    check "the times of stages of $(basename "$f") match the Python oracle" python3 tests/oracle/stage_time.py "$INFERPROF" "$work" "$work/$(basename "$f" .gz)"
done
for f in $(shared nsys '*.sqlite'); do
    check "the times of stages of $(basename "$f") match the Python oracle" python3 tests/oracle/stage_time.py "$INFERPROF" "$work" "$f"
done
# shellcheck disable=SC2046
for f in tests/data/nsys/*.sqlite.gz $(shared nsys '*.sqlite'); do
    run "$INFERPROF" stats --json "$f"
    cp "$work/out" "$work/stats.json"
    expect "stats reads $(basename "$f")" 0
    check "the numbers of $(basename "$f") match the Python oracle" python3 tests/oracle/nsys_stats.py "$work/stats.json" "$f"
done

oracle operator_flops_equal_tracelens tests/oracle/operator_flops.py "$INFERPROF"
oracle kernels_have_the_category_a_person_gives_them tests/oracle/kernel_classes.py "$INFERPROF"

run "$INFERPROF" stats tests/data/kineto/hta_rank0_a100.json.gz tests/data/kineto/hta_rank1_a100.json.gz
expect "stats names the slowest rank and its own share" 0 out 'share of sum' out 'Slowest rank, excluding communication: .*hta_rank1_a100' out '^rank .* comm share '
run "$INFERPROF" stats --json tests/data/kineto/hta_rank0_a100.json.gz tests/data/kineto/hta_rank1_a100.json.gz
cp "$work/out" "$work/stats.json"
check "the numbers of two ranks match the Python oracle" python3 tests/oracle/kineto_stats.py --compare "$work/stats.json" tests/data/kineto/hta_rank0_a100.json.gz tests/data/kineto/hta_rank1_a100.json.gz
run "$INFERPROF" stats tests/data/nsys/dsocr_clip_cuda_gpu_kern_sum.csv
expect "stats reads a summary of nsys" 0 out '^void cutlass::Kernel2.* 22 +0.908 +26.5% +41.26$' out '^Events: kernel 387$'
run "$INFERPROF" import tests/data/nsys/dsocr_clip_cuda_gpu_kern_sum.csv
expect "import prints a summary of nsys" 0 out '^void cutlass::Kernel2.* 22 +0.908 +26.5% +41.26$' out '^Events: kernel 387$'
run "$INFERPROF" stats tests/data/ncu/dropout_head.csv
expect "stats reads the CSV of ncu" 0 out 'fused_dropout_kernel_vec.* 7 +0.049 +100.0% +7.04$' out '^Events: kernel 8$'

run "$INFERPROF" import -o "$work/run" tests/data/kineto/hta_rank0_a100.json.gz tests/data/kineto/hta_rank1_a100.json.gz
expect "import writes a run folder" 0 out "$work/run" err 'rank 1'
check "kernel tables of two devices name the device" sh -c "head -1 $work/run/kernels.csv | grep -q ',device$' && grep -q '^| kernel .* device ' $work/run/report.md"
check "import writes one trace per rank" test -s "$work/run/trace/hta_rank0_a100.ipt" -a -s "$work/run/trace/hta_rank1_a100.ipt"
check "import writes the report" test -s "$work/run/report.html" -a -s "$work/run/metrics.json" -a -s "$work/run/kernels.csv"
run "$INFERPROF" import -o "$work/run" tests/data/kineto/hta_plain_json.json
expect "import does not add traces to a folder with traces" 1 err 'already contains traces'
run "$INFERPROF" import --no-report -o "$work/nsys" tests/data/nsys/tiny_rtx3080_2026.1.sqlite.gz
expect "import reads an nsys database" 0 out "$work/nsys" err '2 kernels'
check "--no-report writes no report" test ! -e "$work/nsys/report.html"
run "$INFERPROF" stats --json "$work/run"
expect "stats reads a run folder" 0
check "stats of the run folder match stats of the imported files" python3 - "$work/out" "$work/stats.json" <<'END'
import json, os, sys
def load(path):
    d = json.load(open(path))
    for x in d["ranks"]:
        x["file"] = os.path.basename(x["file"]).split(".")[0]
    d["together"]["slowest_file"] = os.path.basename(d["together"]["slowest_file"]).split(".")[0]
    return d
a, b = load(sys.argv[1]), load(sys.argv[2])
assert [x["file"] for x in a["ranks"]] == ["hta_rank0_a100", "hta_rank1_a100"]
assert a["together"]["slowest_file"] == "hta_rank1_a100"
assert a == b, [k for k in a if a[k] != b[k]]
END
run "$INFERPROF" import tests/data/ncu/k0001_ncu.*.csv tests/data/ncu/k0003_ncu.*.csv
expect "import prints the kernels of ncu" 0 out '^kernel +launches +mean us ' \
    out '^void Kernel2<cutlass_80_wmma.* 1 +13.31 +33.4% +48.0% +11.3% .* latency$'
run "$INFERPROF" import --into "$work/run" tests/data/ncu/copy_blocked_t4_base_units.csv
expect "--into adds the counters of ncu to a run" 0 err 'run/ncu.json: 1 launches'
expect "import lists kernels of ncu that the run does not have" 0 err '0 of them occur in this run.*Not found in this run.*copy_blocked'
check "ncu.json holds the counters" json_is "$work/run/ncu.json" '[(k["grid"], k["dram_pct"]) for k in d["kernels"]]' "[('(1024, 1, 1)', 61.84)]"

# the kernels of that profile, with the names that torch.profiler prints
cat >"$work/gemms.json" <<'JSON'
{"traceEvents":[
{"ph":"X","cat":"kernel","name":"void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8>(cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8::Params)",
 "pid":0,"tid":7,"ts":10,"dur":13,"args":{"device":0,"stream":7,"correlation":1,"grid":[72,4,1],"block":[128,1,1]}},
{"ph":"X","cat":"kernel","name":"other","pid":0,"tid":7,"ts":30,"dur":5,"args":{"device":0,"stream":7,"correlation":2,"grid":[1,1,1],"block":[32,1,1]}}]}
JSON
run "$INFERPROF" import -o "$work/gemms" "$work/gemms.json"
expect "import reads a minimal torch.profiler file" 0
run "$INFERPROF" import --into "$work/gemms" tests/data/ncu/k0003_ncu.*.csv tests/data/ncu/copy_blocked_t4_base_units.csv
expect "import matches the counters of ncu to kernels" 0 err '2 kernels; 1 of them occur in this run and account for 72.2%.*Not found in this run.*copy_blocked'
check "kernels.md shows the counters of ncu" grep -qE 'cutlass.* 13.31 \| 33.4% \| 48.0% \| 11.3% \| 13.7% \| 2.71% \| 91.8% \| – \| latency' "$work/gemms/kernels.md"
check "kernels.csv shows the counters of ncu" grep -q ',13310,33.36,47.96,11.28,' "$work/gemms/kernels.csv"
check "report.md counts the kernels that ncu profiled" grep -q 'profiled 2 kernels; 1 of them' "$work/gemms/report.md"
check "report.html shows the counters of ncu" grep -q 'ncu achieved occupancy' "$work/gemms/report.html"
check "metrics.json records how a kernel was matched" json_is "$work/gemms/metrics.json" \
    '["ncu" in k and (k["ncu"]["matched_by"], k["ncu"]["duration_ns"]) for k in d["kernels"]]' "[('name', 13310), False]"
run "$INFERPROF" import --no-report -o "$work/both" "$work/gemms.json" tests/data/ncu/k0003_ncu.section_SpeedOfLight.csv
expect "import reads traces and counters in one call" 0 err 'both/ncu.json: 1 launches'
run "$INFERPROF" report "$work/both"
expect "report succeeds on a run with ncu.json" 0
check "report reads ncu.json" json_is "$work/both/metrics.json" 'd["ncu"]["kernels"], d["ncu"]["matched"]' '(1, 1)'
echo '{"schema": 7}' >"$work/both/ncu.json"
run "$INFERPROF" report "$work/both"
expect "a damaged ncu.json does not fail the report" 0
check "a damaged ncu.json is reported" grep -q 'ncu.json: not written by' "$work/both/report.md"

# .nsys-rep: NVIDIA's nsys converts it to SQLite. Here a fake nsys records its arguments.
mkdir "$work/bin"
gzip -dc tests/data/nsys/tiny_rtx3080_2026.1.sqlite.gz >"$work/tiny.sqlite"
cat >"$work/bin/nsys" <<EOF
#!/bin/sh
echo "\$*" >"$work/nsys.args"
echo "progress of nsys"
[ "\$8" = "$work/broken.nsys-rep" ] && exit 3
cp "$work/tiny.sqlite" "\$7"
EOF
chmod +x "$work/bin/nsys"
echo "binary" >"$work/a.nsys-rep"
cp "$work/a.nsys-rep" "$work/broken.nsys-rep"
run env PATH="$work/bin:$PATH" "$INFERPROF" import --no-report -o "$work/rep" "$work/a.nsys-rep"
expect "import converts .nsys-rep files with nsys" 0 out "^$work/rep\$" err '2 kernels'
check "import calls nsys export with type sqlite" grep -qE "^export --type sqlite --force-overwrite true --output [^ ]*[.]sqlite $work/a.nsys-rep\$" "$work/nsys.args"
check "import removes the files of nsys" test -z "$(find "$work/rep/trace" "$TMPDIR" -maxdepth 1 \( -name '*.sqlite' -o -name '*.log' \) -newer "$work/a.nsys-rep")"
check "the output of nsys does not reach stdout" test "$(cat "$work/out")" = "$work/rep"
run "$INFERPROF" trace dump -k meta "$work/rep/trace/"*.ipt
expect "the trace names the .nsys-rep file it came from" 0 out 'import.file.*a.nsys-rep'
run env PATH="$work/bin:$PATH" "$INFERPROF" import -o "$work/rep2" "$work/broken.nsys-rep"
expect "a failing nsys is reported with its last line" 1 err 'broken.nsys-rep: nsys export failed: nsys ended with exit status 3: progress of nsys'
run env PATH="$work/none" "$INFERPROF" stats "$work/a.nsys-rep"
expect "without nsys the message gives the export command" 1 err 'nsys export --type sqlite'

# properties of the whole trace: shared correlation ids, work without a launch, overlap on a stream
cat >"$work/links.json" <<'JSON'
[{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":1,"dur":1,"args":{"correlation":5}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":3,"dur":1,"args":{"correlation":5}},
{"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":10,"dur":10,"args":{"correlation":5,"device":0,"stream":7}},
{"ph":"X","cat":"kernel","name":"b","pid":0,"tid":7,"ts":15,"dur":10,"args":{"correlation":6,"device":0,"stream":7}},
{"ph":"X","cat":"kernel","name":"c","pid":0,"tid":7,"ts":30,"dur":5,"args":{"device":0,"stream":7}}]
JSON
run "$INFERPROF" stats --json "$work/links.json"
cp "$work/out" "$work/stats.json"
expect "stats counts duplicate and missing links" 0 out '"duplicate_correlation": 1' out '"no_launch": 2' out '"overlap_on_stream": 1' out '"no_correlation": 1'
check "the counts of links match the Python oracle" python3 tests/oracle/kineto_stats.py --compare "$work/stats.json" "$work/links.json"

head -c 100000 tests/data/kineto/tl_vit_nsfw_h100.json.gz >"$work/cut.json.gz"
run "$INFERPROF" stats --json "$work/cut.json.gz"
expect "a truncated gzip file is read up to the damage" 0 out '"damaged_compression": 1' out '"truncated": 1' out '"cpu_op": [1-9]'
gunzip -c tests/data/kineto/tl_vllm_prefill_b200.json.gz | head -c 12800000 >"$work/half.json"
run "$INFERPROF" import -o "$work/half" "$work/half.json"
expect "a truncated file is reported once" 0 err '^warning: half.json: the file ends early$'
check "the summary does not repeat it" test "$(grep -c 'half.json: the file' "$work/err")" -eq 1
check "the caveat is at the top of the page" python3 -c '
import sys
page = open(sys.argv[1]).read()
assert 0 < page.index("class=\"notice\"") < page.index("half.json: the file ends early") < page.index("id=\"stages\"")' "$work/half/report.html"
check "a truncated trace has kernels, but no busy share and no idle causes" json_is "$work/half/metrics.json" \
    '[(s["trace"]["kernels"] > 100, s["gpu_busy_share"], s["trace"]["idle"]["known"]) for s in d["stages"] if s["name"] == "prefill"]' "[(True, None, False)]"
printf '{"traceEvents": [' >"$work/stub.json"
run "$INFERPROF" import -o "$work/stub" "$work/stub.json"
expect "a file that ends before its first event is refused" 1 err 'stub.json: no event can be read: the file ends early'
check "no folder is left" test ! -e "$work/stub"
run "$INFERPROF" import -o "$work/sync" tests/data/kineto/hta_alexnet_a100.json.gz
expect "a trace with kernels in a part of its time gets a caveat" 0 err '! all kernels lie within [0-9.]+ ms of [0-9.]+ ms'
printf 'hello\n' >"$work/plain.txt"
run "$INFERPROF" import -o "$work/none" "$work/plain.txt"
expect "import rejects an unknown format" 1 err 'unknown format'
: >"$work/empty.json"
run "$INFERPROF" stats "$work/empty.json"
expect "stats rejects an empty file" 1 err 'is empty'
run "$INFERPROF" stats "$work/missing.json"
expect "stats names a missing file" 1 err 'missing.json: No such file'
printf '{"a": 1}' >"$work/other.json"
run "$INFERPROF" stats "$work/other.json"
expect "stats rejects JSON without trace events" 1 err 'no trace events'
run "$INFERPROF" import -o "$work/left" "$work/other.json"
expect "import rejects JSON without trace events" 1 err 'no trace events'
check "a failed import leaves no folder" test ! -e "$work/left"
mkdir "$work/mine"
run "$INFERPROF" import -o "$work/mine" "$work/other.json"
expect "import into an existing folder rejects JSON without trace events" 1 err 'no trace events'
check "a failed import keeps a folder that existed before" test -d "$work/mine" -a ! -e "$work/mine/trace"
cp tests/data/kineto/hta_alexnet_a100.json.gz "$work/.it's.json.gz"
run "$INFERPROF" import -q -o "$work/hidden" "$work/.it's.json.gz"
expect "import -q succeeds" 0 out '/hidden$'
check "import -q prints no messages" test ! -s "$work/err"
check "the trace of a hidden file gets a visible name" test -s "$work/hidden/trace/it's.ipt"
check "the report quotes the import command" grep -qF "inferprof import '$work/.it'\\''s.json.gz'" "$work/hidden/report.md"

# A full disk: the message names the file.
run sh -c 'trap "" XFSZ; ulimit -f 16; exec "$@"' sh "$INFERPROF" import -o "$work/no-room" tests/data/kineto/hta_rank0_a100.json.gz
expect "a full disk fails the import and names the trace" 1 err 'no-room/trace/hta_rank0_a100.ipt: trace incomplete: '
check "an import that failed on a full disk leaves no folder" test ! -e "$work/no-room"

# SIGTERM while nsys runs: nsys and its children end, and no file stays behind.
mkdir "$work/slow"
cat >"$work/slow/nsys" <<END
#!/bin/sh
: >"\$7"
sleep 60 &
echo \$! >"$work/slow/child"
echo \$\$ >"$work/slow/pid"
wait
END
chmod +x "$work/slow/nsys"
PATH="$work/slow:$PATH" timeout --foreground -k 10 "$command_seconds" "$INFERPROF" import -o "$work/never" "$work/a.nsys-rep" >"$work/out" 2>"$work/err" &
importer=$!
for _ in $(seq 200); do [ -s "$work/slow/pid" ] && break; sleep 0.05; done
kill -TERM $importer
wait $importer
check "an interrupted import ends by the signal" test $? -eq 143
check "an interrupted import ends nsys" gone "$(cat "$work/slow/pid")"
check "an interrupted import ends the children of nsys" gone "$(cat "$work/slow/child")"
check "an interrupted import leaves no folder" test ! -e "$work/never"

# ---- files that are made to exhaust time, memory or disk
python3 tests/tools/hostile_files.py "$work/hostile"
command_seconds=60
run "$INFERPROF" stats "$work/hostile/virtual.sqlite"
expect "a virtual table with 10^15 rows is not read" 1 err 'none of its tables \(views and virtual tables are ignored\)'
run "$INFERPROF" stats "$work/hostile/shared.sqlite"
expect "a table that refers to its own pages is stopped" 1 err 'takes more steps than a file of this size needs'
run "$INFERPROF" stats "$work/hostile/damaged.sqlite"
expect "a damaged database is called damaged" 1 err 'damaged.sqlite: the SQLite file is damaged: .*malformed'
run "$INFERPROF" stats "$work/hostile/bomb.sqlite.gz"
expect "a compressed database that unpacks to 1 GB is refused" 1 err 'bomb.sqlite.gz: unpacks to more than 1[0-9]+ MB; .*gunzip'
run timeout 20 "$INFERPROF" stats "$work/hostile/nested.json"
expect "180,000 nested annotations are read in linear time" 0 out '^Events: cpu_op 180000$'
run timeout 20 "$INFERPROF" stats "$work/hostile/nested_work.json"
expect "60,000 kernels inside 90,000 nested ranges are counted in linear time" 0 out '^f1 +6,000 .* 240\.000 .* 0\.000$'
run timeout 20 "$INFERPROF" import -o "$work/hostile/nested_work.ipt" "$work/hostile/nested_work.json"
run timeout 20 "$INFERPROF" report -o "$work/hostile/nested_work" "$work/hostile/nested_work.ipt"
expect "and reported" 0 out 'gemm'
run timeout 20 "$INFERPROF" import -o "$work/hostile/open_at_once" "$work/hostile/open_at_once.json"
expect "150,000 steps that are open at once are reported in linear time" 0 err 'mean of 150,000 steps'
run "$INFERPROF" import -o "$work/hostile/damaged_times.ipt" "$work/hostile/damaged_times.json"
expect "a trace with an event at time 0 and one without an end does not take years" 0 err '^whole trace +19\.9'
run "$INFERPROF" stats "$work/hostile/damaged_times.json"
expect "and these events are counted" 0 out '^Problem: far_from_the_rest 2'
for command in stats import "trace info" report static; do
    # shellcheck disable=SC2086
    run timeout 10 "$INFERPROF" $command "$work/hostile/fifo"
    expect "$command does not wait for the writer of a named pipe" 1 err 'fifo: (a pipe or device|not a regular file|empty)'
done

# ---- two threads, each with a model of its own on one GPU
python3 - >"$work/threads.json" <<'END'
import json
events = []
for thread, step in ((1, 1), (2, 1), (1, 2), (2, 2)):
    t, id = 1000 + 1000 * step, 10 * thread + step
    events += [{"ph": "X", "pid": 9, "tid": thread, "cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": t, "dur": 1000},
               {"ph": "X", "pid": 9, "tid": thread, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": t + 3, "dur": 3,
                "args": {"correlation": id}},
               {"ph": "X", "pid": 0, "tid": 6 + thread, "cat": "kernel", "name": "gemm", "ts": t + 10, "dur": 600,
                "args": {"device": 0, "stream": 6 + thread, "correlation": id}}]
print(json.dumps({"deviceProperties": [{"id": 0, "name": "NVIDIA H100"}], "traceEvents": events}))
END
run "$INFERPROF" import -o "$work/threads" "$work/threads.json"
expect "steps that are open at once are not said to take half of their time" 0 \
    err '^step takes 0\.500 ms \(mean of 4 steps, 2\.0 at once, each open for 1\.00 ms\)'

# ---- two kinds of GPUs
sed 's/"id": 0, "name": "NVIDIA H100"}/&, {"id": 1, "name": "NVIDIA A100"}/; s/"device": 0, "stream": 8/"device": 1, "stream": 8/g' \
    "$work/threads.json" >"$work/kinds.json"
run "$INFERPROF" import -o "$work/kinds" "$work/kinds.json"
expect "GPUs with different peaks have none, and the report says why" 0 \
    err "No roofs, MFU and MBU: the GPUs differ \('NVIDIA H100', 'NVIDIA A100'\); give --peak-tflops" \
    err '^step takes 1\.00 ms \(mean of 4 steps on 2 devices\)'

# ---- a part of a card
cat >"$work/slice.json" <<'END'
{"deviceProperties":[{"id":0,"name":"GRID A100-10C"}],"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":10,
 "dur":5,"args":{"device":0,"context":1,"stream":7,"correlation":1}}]}
END
run "$INFERPROF" import -o "$work/slice" "$work/slice.json"
expect "a vGPU has no peaks, and the report says why" 0 err "No roofs, MFU and MBU: 'GRID A100-10C' is a slice of a GPU"
run "$INFERPROF" report "$work/slice" -o "$work/slice2" --peak-tflops 30 --peak-gbps 200
expect "peaks given by the user replace them" 0 out "30.0 TF/s, 200 GB/s"
check "no reason is needed then" lacks "No roofs" "$work/out"

# ---- hostile names
python3 - "$work/names.json" <<'END'
import json, sys
evil = "![p](http://evil/p.png)[x](javascript:alert(1))<img src=q onerror=r>\x1b[31m\u202e|`=cmd() me@e.vil;"
events = [{"ph": "X", "cat": "user_annotation", "name": "prefill", "pid": 1, "tid": 1, "ts": 0, "dur": 100},
          {"ph": "X", "cat": "cpu_op", "name": evil, "pid": 1, "tid": 1, "ts": 1, "dur": 90},
          {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 2, "dur": 5, "args": {"correlation": 1}},
          {"ph": "X", "cat": "kernel", "name": evil, "pid": 0, "tid": 7, "ts": 10, "dur": 40,
           "args": {"correlation": 1, "device": 0, "stream": 7}}]
json.dump({"traceEvents": events}, open(sys.argv[1], "w"))
END
run "$INFERPROF" import -o "$work/names" "$work/names.json"
expect "a file with hostile names is imported" 0
"$INFERPROF" export -q "$work/names" -f csv -o "$work/names/csv" >/dev/null
for format in collapsed speedscope; do "$INFERPROF" export -q "$work/names" -f $format -o "$work/names/$format" >/dev/null; done
check "stacks keep what can be printed" grep -q 'alert(1)).*cmd() me@e.vil:' "$work/names/collapsed"
"$INFERPROF" stats "$work/names.json" >"$work/names/stats.txt"
echo garbage >"$work/garbage.json"
run "$INFERPROF" import "$work/garbage.json" "$work/garbage.json"
expect "an input that is given twice fails with one message" 1
check "the same problem is printed once" test "$(grep -c garbage.json "$work/err")" -eq 1
esc=$(printf '\033') override=$(printf '\342\200\256')
check "no document has control characters or overrides of the text direction" \
    sh -c "! grep -rlI --exclude='*.ipt' -e '$esc' -e '$override' '$work/names'"
check "no Markdown document has a link, an image or HTML from a name" \
    sh -c "! grep -rlE --include='*.md' -e '[^\\\\]\]\(http://evil' -e '[^\\\\]\]\(javascript' -e '<img src=q' -e '[^>]@e.vil' '$work/names'"
check "no page has HTML from a name" sh -c "! grep -l '<img src=q' '$work/names/report.html'"
