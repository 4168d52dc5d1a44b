#!/bin/sh
# inferprof report: reads traces, writes a folder with the report.
. tests/cli/lib.sh
make_run=$PWD/$BUILD/tests/make_run
mkdir -p "$work/run/trace"
"$make_run" "$work/run/trace/gpu-1-4242.ipt" 12 40

run "$INFERPROF" report "$work/run"
expect "report prints the stages and what to change first" 0 out "^decode +6\.7" out "What to change first" out "launch-bound" err "wrote .*report.html"
for f in report.html report.md stakeholder_summary.md metrics.json findings.json stages.csv kernels.csv kernels.md operators.csv operators.md charts/stages.svg charts/kernels.svg charts/power.svg; do
    check "report writes $f" test -s "$work/run/$f"
done
check "report prints at most 45 lines" test "$(wc -l <"$work/out")" -le 45
check "metrics.json has its version, the stages and the kernel count" python3 -c 'import json,sys; d=json.load(open(sys.argv[1])); assert d["schema"]=="inferprof.metrics/2" and "schema_version" not in d; assert [s["name"] for s in d["stages"]][:2]==["prefill","decode"]; assert d["trace"]["kernels"]==520' "$work/run/metrics.json"
check "kernel times add up to the GPU busy time" python3 -c '
import csv, json, sys
busy = json.load(open(sys.argv[1]))["trace"]["conservation"]["gpu_busy_ns"]
rows = list(csv.DictReader(open(sys.argv[2])))
assert abs(sum(float(r["owned_ns"]) for r in rows) - busy) < 1, busy
assert abs(sum(float(r["share"]) for r in rows) - 1) < 1e-9' "$work/run/metrics.json" "$work/run/kernels.csv"
check "the charts are valid XML" python3 -c 'import sys, xml.dom.minidom; [xml.dom.minidom.parse(f) for f in sys.argv[1:]]' "$work"/run/charts/*.svg
check "every Markdown table is valid" python3 tests/tools/markdown_tables.py "$work"/run/*.md
check "the page loads nothing from a server" lacks '(src|href)="(https?:)?//|@import|url\(' "$work/run/report.html"
check "a kernel name cannot open an HTML tag" lacks "<img src=x" "$work/run/report.html"
check "a kernel name cannot end a script" test "$(grep -oF "</script>" "$work/run/report.html" | wc -l)" -eq 3

check "the first line names the longest stage, its limit and the GPU's share" sh -c "sed -n 3p $work/run/report.md | grep -qE '^\*\*decode takes [0-9.,]+ ms\*\*.*: launch-bound, the GPU is busy [0-9.]+% of it'"
run "$INFERPROF" report -q --slim "$work/run" -o "$work/slim"
expect "report --slim succeeds" 0
check "a slim page has the tables but no embedded files" sh -c "grep -q 'data-what=\"kernels\"' $work/slim/report.html && ! grep -qE 'text/csv|Download' $work/slim/report.html"
# ---- metrics.json and report.md hold every analysis
check "metrics.json holds every analysis" python3 - "$work/run/metrics.json" <<'END'
import json, sys
m = json.load(open(sys.argv[1]))
decode = next(s for s in m["stages"] if s["name"] == "decode")
t, idle = decode["trace"], decode["trace"]["idle"]
assert t["occurrences"] == 1 and t["kernels"] == t["launches"] == 480 and t["copies"] == 0 and t["syncs"] == 1
assert t["wall_ns"] > t["gpu_span_ns"] > t["gpu_busy_ns"] and abs(t["idle_ns"] - (t["wall_ns"] - t["gpu_busy_ns"])) < 1
device = m["devices"][0]
parts = [x["time_ns"] for s in m["stages"] if not s["parent"] for x in s["trace"]["device_time"]]
assert abs(sum(parts) + device["unrecorded_ns"] - device["timeline_ns"]) < 1 and m["trace"]["unrecorded_ms"] == 0
assert t["kernels_per_token"] == t["launches_per_token"] == 40 and t["tokens_out"] == 12
for stats in ("wall_per_occurrence", "gpu_busy_per_occurrence", "per_token"):
    assert {"median", "p90", "p99", "min", "max"} <= set(t[stats]), stats
assert t["per_token"]["n"] == 12 and abs(t["per_token"]["median"] - 560000) < 1
assert t["joules"] > 0 and abs(t["joules_per_token"] * 12 - t["joules"]) < 1e-9
assert idle["known"] and abs(sum(idle["by_cause_ns"].values()) - t["idle_ns"]) < 1 and idle["by_cause_ns"]["launch gap"] > 0
assert 0 < idle["graph_removable_ns"] <= t["idle_ns"] and idle["queue_depth_mean"] >= 0 and 0 <= idle["queue_empty_share"] <= 1
assert idle["gap"]["n"] == idle["gaps"] > 0 and idle["launch_interval_median_ns"] == 14000
k = m["kernels"][0]
assert {"calls", "total_ns", "share", "mean_ns", "min_ns", "p50_ns", "p99_ns", "grid", "block", "registers", "smem_bytes", "theoretical_occupancy",
        "library", "category", "name", "short_name"} <= set(k), k
o = m["operators"][0]
assert {"calls", "total_ns", "self_ns", "device_ns", "mean_ns"} <= set(o), o
assert m["power"][0]["throttled_ns"] > 0 and m["power"][0]["throttled_by"] == "power cap"
assert m["devices"][0]["busy_ns"] == m["trace"]["conservation"]["gpu_busy_ns"] and m["devices"][0]["communication_ns"] == 0
END
missing=
for heading in Verdict Stages "Time per output token" "GPU idle time by cause" "Launch queue" "GPU time by category" Kernels Operators \
    "Power and clocks" Environment; do
    grep -q "^## $heading" "$work/run/report.md" || missing="$missing '$heading'"
done
check "report.md has a section per analysis" test -z "$missing"
check "report.md shows the time that a CUDA graph could remove" grep -qE '^\| decode .* 5\.02 \(74\.8%\) \|$' "$work/run/report.md"
check "without communication there is no communication table" lacks '^## Communication' "$work/run/report.md"
run "$INFERPROF" import -q tests/data/kineto/hta_rank0_a100.json.gz -o "$work/nccl"
expect "import of a trace with NCCL kernels succeeds" 0
check "the communication table shows the overlap per device" grep -qE '^\| [01] .*\| [0-9.]+ \| [0-9.]+% \| [0-9.]+ \| [0-9.]+% \|$' "$work/nccl/report.md"

cp "$work/run/metrics.json" "$work/first.json"
run "$INFERPROF" report -q "$work/run"
expect "a second report succeeds" 0 out "launch-bound"
check "a second report does not change metrics.json" cmp "$work/first.json" "$work/run/metrics.json"

run "$INFERPROF" report "$work/run/trace/gpu-1-4242.ipt" -o "$work/elsewhere"
expect "--output sets the folder of the report" 0 out "NVIDIA H200"
check "--output holds the same report" cmp "$work/run/kernels.csv" "$work/elsewhere/kernels.csv"

run "$INFERPROF" report "$work/run" -o "$work/ruled" --stage "steps=dec*"
expect "--stage makes stages of the ranges that match" 0 out "^steps "
run "$INFERPROF" report "$work/run" --stage decode
expect "--stage without a pattern is misuse" 2 err "NAME=GLOB"
run "$INFERPROF" report "$work/run" -o "$work/peaks" --peak-tflops 100 --peak-gbps 1000
expect "peaks from options are marked as given by the user" 0 out "100 TF/s, 1.00 TB/s \(given by the user\)"
run "$INFERPROF" report "$work/run" -o "$work/peaks" --peak-tflops 100
expect "one given peak is distinguished from the other" 0 out "100 TF/s, .* \(peak FLOP/s given by the user; bandwidth: datasheet of "

# ---- peaks far below what ran: every ratio over its limit has its reason
run "$INFERPROF" report "$work/run" -o "$work/over" --model tests/data/models/llama-3.2-1b-instruct.json --peak-tflops 0.001 --peak-gbps 0.1
expect "a ratio beyond its limit has a reason on the screen" 0 out '^decode: distance 0[.][0-9]+x, MFU [0-9.]+%, MBU [0-9.]+%: the peaks are not those of the table' \
    out 'the roofline time .peaks given by the user.'
check "every document has the reason beside the ratio" python3 - "$work/over" <<'END'
import csv, json, pathlib, sys
d = pathlib.Path(sys.argv[1])
run = json.loads((d / "metrics.json").read_text())
for s in run["stages"]:
    over = [k for k in ("mfu", "mbu") if s[k] is not None and s[k] > 1] + (["distance"] if s["distance"] is not None and s["distance"] < 1 else [])
    assert bool(over) == bool(s["reason"]), (s["name"], over, s["reason"])
assert [s for s in run["stages"] if s["reason"]], "no stage is beyond its limit"
assert (run["model"]["mfu"] > 1) == bool(run["model"]["reason"]), run["model"]
for p in run["roofline"]:
    assert not (p["attained"] or 0) > 1 or p["reason"], p
reasons = [s["reason"] for s in run["stages"] if s["reason"]]
for name in "report.html", "report.md", "stakeholder_summary.md":
    text = (d / name).read_text().replace("\\", "").replace("&#39;", "'")
    assert all(r in text for r in reasons), name
rows = {r["stage"]: r for r in csv.DictReader((d / "stages.csv").open())}
assert all(rows[s["name"]]["reason"] == (s["reason"] or "") for s in run["stages"]), rows
assert "peaks given by the user" in (d / "charts/stages.svg").read_text()
END

# ---- a trace with a model: the token records have 913 tokens read and 12 made
config=tests/data/models/llama-3.2-1b-instruct.json
run "$INFERPROF" report "$work/run" -o "$work/model" --model "$config"
expect "--model adds MFU, MBU, floor and distance" 0 out '^prefill .*x +[0-9.]+% +[0-9.]+% ' out '^decode .*x +[0-9.]+% +[0-9.]+% ' out 'roof'
check "the model's numbers match a calculation by hand" python3 - "$work/model/metrics.json" <<'END'
import json, sys
run = json.load(open(sys.argv[1]))
stages = {s["name"]: s for s in run["stages"]}
peak, bandwidth = 989e12, 4.8e12
assert abs(run["device"]["peak_flop_per_s"] / peak - 1) < 0.01 and run["device"]["peak_byte_per_s"] == bandwidth, run["device"]
# Llama 3.2 1B by hand: 16 layers, width 2048, 32 heads of 64 and 8 of keys and values, 8192 inside, 128256 words; tied.
layer = 2 * 2048 * (2048 + 512 + 512 + 2048) + 3 * 2 * 2048 * 8192
pairs = 913 * 914 / 2
flops = 16 * (913 * layer + 4 * 32 * 64 * pairs) + 2 * 2048 * 128256
p = stages["prefill"]
assert abs(p["flops"] / flops - 1) < 1e-6, (p["flops"], flops)
assert abs(p["mfu"] - flops / (p["time_ms"] * 1e-3 * run["device"]["peak_flop_per_s"])) < 1e-9
assert abs(p["distance"] - p["time_ms"] / p["floor_ms"]) < 1e-9
d = stages["decode"]
decode = 16 * (12 * layer + 4 * 32 * 64 * sum(range(914, 926))) + 12 * 2 * 2048 * 128256
assert abs(d["flops"] / decode - 1) < 1e-6, (d["flops"], decode)
weights = 2 * (16 * layer / 2 + 2048 * 128256)  # minimum bytes to read per token, without the cache
assert weights * 12 < d["bytes"] < weights * 12 * 1.05, (d["bytes"], weights * 12)
assert abs(d["mbu"] - d["bytes"] / (d["time_ms"] * 1e-3 * bandwidth)) < 1e-9
END
run "$INFERPROF" report -q "$work/run" -o "$work/split" --model "$config" --tp 4 --pp 2
expect "--tp and --pp are options of report" 0
check "the cost per GPU is its share of the model" python3 - "$work/model/metrics.json" "$work/split/metrics.json" <<'END'
import json, sys
whole, part = ({s["name"]: s for s in json.load(open(p))["stages"]} for p in sys.argv[1:])
for name in ("prefill", "decode"):
    for key in ("flops", "mfu"):
        assert abs(part[name][key] * 8 / whole[name][key] - 1) < 1e-9, (name, key)
    for key in ("bytes", "floor_ms", "mbu"):  # every GPU has whole norms, 16 layers of 2 x 2048 numbers
        assert 1 <= part[name][key] * 8 / whole[name][key] < 1.001, (name, key)
END
run "$INFERPROF" report "$work/run" -o "$work/split" --model "$config" --tp 3
expect "a model that cannot be divided has no costs, and the reason" 0 err '32 attention heads cannot be divided among 3 GPUs'
check "report.md has that reason, and no advice to give a model" grep -q '^No roofline time, MFU or MBU: .*cannot be divided' "$work/split/report.md"
check "the advice is for reports without --model" lacks 'report RUN --model' "$work/split/report.md"
# ---- a trace that does not name its device, with unrecorded time
run "$INFERPROF" import -q -o "$work/nameless" tests/data/kineto/tl_vllm_decode_full_mi300.json.gz
run "$INFERPROF" report "$work/nameless" -o "$work/nopeak" --model tests/data/models/gpt-oss-20b.json
expect "unknown peaks: MFU and MBU are dashes, with the reason; the limit of unrecorded time is printed" 0 out '^stage .* MFU +MBU' out '^decode .* – +– ' \
    out 'peaks of the device are unknown; give' out '^Unrecorded, not idle: .*waits of over [0-9]+ us after a launch'
check "report.md has the reason" grep -q '^No roofline time, MFU or MBU: the peaks of the device are unknown; give' "$work/nopeak/report.md"
check "report.md does not ask for the model again" lacks 'report RUN --model' "$work/nopeak/report.md"
check "metrics.json has the reason" grep -q 'the peaks of the device are unknown' "$work/nopeak/metrics.json"
run "$INFERPROF" stats tests/data/kineto/tl_vllm_decode_full_mi300.json.gz
expect "stats has the limit of unrecorded time" 0 out '^Unrecorded, not idle: .*waits of over [0-9]+ us after a launch'
run "$INFERPROF" report "$work/nameless" -o "$work/nopeak" --model tests/data/models/gpt-oss-20b.json --peak-tflops 1300 --peak-gbps 5300
expect "peaks of the user give MFU and MBU" 0 out '^decode .*[0-9]% +[0-9.]+% '
check "no reason is printed then" lacks 'are unknown' "$work/out"
run "$INFERPROF" import -q -o "$work/ranks" tests/data/kineto/hta_rank0_a100.json.gz
run "$INFERPROF" report "$work/ranks" --model "$config"
expect "the cost of the whole model is not used for one of several ranks" 0 err 'does not contain how they share the model'
run "$INFERPROF" report -q "$work/run" -o "$work/split" --model "$config" --tp 0
expect "--tp 0 is an error" 2 err 'expected 1 to 65536'
# ---- steps with labels of a server: sequences and keys of the label, roofline time and hard bound, also of one rank
for f in tests/data/kineto/tl_sglang_qwen3_8b_decode_mi300.json.gz ../shared/data/kineto/tl_sglang_qwen3_8b_prefill_mi300.json.gz; do
    [ -e "$f" ] || continue # the second one is not in the repository
    check "costs and floors of $(basename "$f") match the Python oracle" \
        python3 tests/oracle/stage_floor.py "$INFERPROF" "$work" tests/data/models/qwen3-8b.json "$f"
done
run "$INFERPROF" report "$work/run" -o "$work/other" --model tests/data/PROFILES.md
expect "--model with a file that is not JSON is an error" 1 err 'PROFILES.md: not JSON'
run "$INFERPROF" report "$work/ruled" --model "$config"
expect "--model with a run without a trace is an error" 1 err 'no trace'

run "$INFERPROF" report "$work/nowhere"
expect "a missing run is an error" 1 err "no such run folder"
mkdir "$work/empty"
run "$INFERPROF" report "$work/empty"
expect "a folder without traces and metrics is an error" 1 err "neither traces"
echo junk >"$work/junk.ipt"
run "$INFERPROF" report "$work/junk.ipt"
expect "a file that is not a trace is an error" 1 err "junk.ipt: not an inferprof trace"
echo '{"schema":"inferprof.metrics/99"}' >"$work/empty/metrics.json"
run "$INFERPROF" report "$work/empty"
expect "metrics.json of a newer version is an error" 1 err "schema version 99"
cp -r "$work/run" "$work/killed"
echo "This run has not finished: it was killed." >"$work/killed/INCOMPLETE"
run "$INFERPROF" report "$work/killed"
expect "the report of a killed run states that it was killed" 0 out "^! This run has not finished: it was killed\."
run "$INFERPROF" report "$work/killed" "$work/killed"
expect "a run named twice is reported once" 0 out "^decode "
"$INFERPROF" report "$work/run/trace" -o "$work/once" >/dev/null 2>&1
"$INFERPROF" report "$work/run/trace" "$work/run/trace" -o "$work/twice" >/dev/null 2>&1
check "the kernels of a trace named twice are counted once" cmp "$work/once/kernels.csv" "$work/twice/kernels.csv"
: >"$work/killed/trace/junk.ipt"
run "$INFERPROF" report "$work/killed"
expect "a file that is not a trace is listed as a problem" 0 out "junk.ipt: not an inferprof trace"
check "the problem is listed once" test "$(grep -c 'junk.ipt' "$work/out")" -eq 1
for f in "$work"/killed/trace/*.ipt; do : >"$f"; done
run "$INFERPROF" report "$work/killed"
expect "a run with unreadable traces is reported from its metrics.json" 0 out "^! Cannot read the trace: "
echo '{' >"$work/killed/metrics.json"
run "$INFERPROF" report "$work/killed"
expect "an unreadable metrics.json is an error that says what to do" 1 err "delete that file to report only the traces.*metrics.json: line"

# A truncated trace, and a trace with only a header.
"$BUILD/tests/make_trace" "$work/whole.ipt" 8
head -c 20000 "$work/whole.ipt" >"$work/half.ipt"
head -c 32 "$work/whole.ipt" >"$work/header.ipt"
run "$INFERPROF" report "$work/half.ipt"
expect "a truncated trace is reported with its damage" 0 out 'half.ipt: damaged at byte [0-9]+ \(file ends inside a chunk\), [0-9]+ bytes in 1 place; the intact part'
check "the damage is listed once" test "$(grep -c '^! half.ipt' "$work/out")" -eq 1
run "$INFERPROF" report "$work/header.ipt"
expect "a trace with only a header is reported" 0 out 'header.ipt: the recorded program was killed or is still running'
check "a trace without records shows no time of 0 ms" lacks '(^| )0\.00' "$work/out"
