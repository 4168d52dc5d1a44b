#!/bin/sh
# `inferprof calibrate`: the CPU's levels, old cache files, and GPUs with the mock driver of tests/mock.
. tests/cli/lib.sh
export XDG_CACHE_HOME="$work/cache"
unset CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH
mock="$PWD/$BUILD/tests/mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

run env CUDA_VISIBLE_DEVICES=0 LD_LIBRARY_PATH="$mock" "$INFERPROF" calibrate --json
expect "calibrate measures the CPU and a GPU" 0
cp "$work/out" "$work/measured.json"
check "the rates fall with the size, the last one is DRAM, and the GPU is read past its L2 cache" python3 - "$work/out" <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
levels = d["levels"]
assert [l["bytes"] for l in levels] == [2.0 ** k for k in range(18, 30)], levels
assert all(a["bytes_per_s"] >= b["bytes_per_s"] > 0 for a, b in zip(levels, levels[1:])), levels
assert levels[-1]["level"] == "DRAM" and levels[-1]["bytes_per_s"] == d["bytes_per_s"], levels
assert d["bf16_kernel"] in (None, "amx", "avx512bf16") and (d["bf16_flops_per_s"] is None) == (d["bf16_kernel"] is None), d
gpu, = d["gpus"]
assert gpu["name"] == "NVIDIA Mock 9000" and gpu["l2_bytes"] == 60 << 20 and gpu["problem"] is None, gpu
assert [r["bytes"] > gpu["l2_bytes"] for r in gpu["reads"]] == [False, True, True, True], gpu
assert abs(gpu["reads"][0]["bytes_per_s"] / 8e12 - 1) < 0.01 and abs(gpu["read_bytes_per_s"] / 4e12 - 1) < 0.01, gpu
END

# The cache file: a known CPU makes the numbers certain, and on a busy machine, which caches nothing, saves time.
entry() { # LEVELS [FLOP/s of bf16 numbers, if this CPU has instructions for them]
    mkdir -p "$XDG_CACHE_HOME/inferprof"
    "$INFERPROF" doctor --json 2>/dev/null | python3 -c '
import json, os, sys
line = [c for c in json.load(sys.stdin)["checks"] if c["check"] == "CPU"][0]["found"]
row = {"cpu": line.rsplit(", ", 2)[0], "threads": len(os.sched_getaffinity(0)), "flops_per_s": 1e12, "bytes_per_s": 1e6, "kernel": "x"}
levels = json.loads(sys.argv[1])
if levels: row["levels"] = [{"level": n, "bytes": b, "bytes_per_s": r} for n, b, r in levels]
kernel = json.load(open(sys.argv[4]))["bf16_kernel"]
if kernel and sys.argv[3]: row.update(bf16_kernel=kernel, bf16_flops_per_s=float(sys.argv[3]))
json.dump({"cpus": [row]}, open(sys.argv[2], "w"))' "$1" "$XDG_CACHE_HOME/inferprof/cpu-peak.json" "${2-5e11}" "$work/measured.json"
}
entry '[["DRAM", 536870912, 1e6]]'

run env LD_LIBRARY_PATH="$mock" "$INFERPROF" calibrate --cached
expect "--cached prints the GPU without measuring it" 0 out '^NVIDIA Mock 9000 .from the cache.$' out 'reading DRAM, +[0-9.]+ GB +4.00 TB/s'
run env CUDA_VISIBLE_DEVICES=0 LD_LIBRARY_PATH="$mock" "$INFERPROF" calibrate --cached-cpu
expect "a measurement names its cache file" 0 out "^cached in $XDG_CACHE_HOME/inferprof/gpu-peak.json"
check "a second measurement replaces the row" python3 -c '
import json, sys
rows = json.load(open(sys.argv[1]))["gpus"]
assert [r["name"] for r in rows] == ["NVIDIA Mock 9000"] and len(rows[0]["reads"]) == 4, rows' "$XDG_CACHE_HOME/inferprof/gpu-peak.json"
run env CUDA_VISIBLE_DEVICES=0 LD_LIBRARY_PATH="$mock" XDG_CACHE_HOME=/proc/none "$INFERPROF" calibrate
expect "a cache file that cannot be written is named" 0 err 'not cached: /proc/none/inferprof/gpu-peak.json cannot be written'
for text in '{' '[]' '{"gpus":[{"name":"NVIDIA Mock 9000","reads":[{"bytes":1,"bytes_per_s":-4}]}]}' '{"gpus":{"name":3}}'; do
    echo "$text" >"$XDG_CACHE_HOME/inferprof/gpu-peak.json"
    run "$INFERPROF" calibrate --cached
    expect "a broken cache file has no GPU: $text" 0
    check "no GPU is printed: $text" lacks 'NVIDIA' "$work/out"
done

# gpu_fails FUNCTION PATTERN NAME: that function of the driver fails
gpu_fails() {
    run env CUDA_VISIBLE_DEVICES=0 LD_LIBRARY_PATH="$mock" MOCK_CUDA_FAILS="$1" "$INFERPROF" calibrate --cached-cpu
    expect "$3" 0 out "$2"
}
gpu_fails cuDevicePrimaryCtxRetain 'not measured: creating a context: out of memory .CUDA error 2.' "a GPU without free memory is named with the driver's words"
gpu_fails cuModuleLoadData 'not measured: compiling the kernel: the provided PTX' "a driver that cannot compile the kernel says so"
gpu_fails cuMemAlloc_v2 'not measured: allocating memory: out of memory' "a failed allocation says so"
gpu_fails cuMemGetInfo_v2 'not measured: 20 MB of memory are free: too few' "a full GPU says so"
gpu_fails cuLaunchKernel 'not measured: cuLaunchKernel: mock error' "a failed launch says so"
gpu_fails cuEventSynchronize 'not measured: cuEventSynchronize: an illegal memory access' "a kernel that fails says so"
run env CUDA_VISIBLE_DEVICES=none LD_LIBRARY_PATH="$mock" "$INFERPROF" calibrate --cached-cpu
expect "no visible GPU is named" 0 out 'GPU: not measured: the driver reports no GPU'

entry '[["L2", 262144, 9e11], ["L3", 16777216, 5e11], ["DRAM", 536870912, 1e6]]'
run "$INFERPROF" calibrate --cached
expect "--cached prints the table and measures no GPU" 0 out 'from the cache' out 'reading L3, 16 MiB +500 GB/s' out 'reading DRAM, 512 MiB +1.00 MB/s'
check "no GPU then" lacks "GPU:" "$work/out"
run "$INFERPROF" doctor
expect "doctor prints the levels" 0 out 'OK +CPU peaks +1000.0 GFLOP/s .f32.(, 500.0 .bf16.)?; L2, 256 KiB: 900 GB/s; L3, 16 MiB: 500 GB/s; DRAM, 512 MiB: 1.00 MB/s'
echo '{"id":"one","prompt":"a b c d"}' >"$work/p.jsonl"
run "$INFERPROF" profile dataset=prompts dataset.prompts="$work/p.jsonl" repeats=2 infer.max_new_tokens=4 profiling=min \
    output.dir="$work/runs" output.run_id=levels
expect "profile names the level of each stage" 0 \
    out '^Bandwidth by the bytes that a pass reads: prefill [0-9.]+ MB .measured at 256 KiB, upper bound: 900$' out 'DRAM 1.00 MB/s'
check "each stage has the bandwidth of the largest measured size below its working set" python3 - "$work/runs/levels/metrics.json" <<'END'
import json, sys
run = json.load(open(sys.argv[1]))
levels = run["device"]["bandwidth_levels"]
assert [l["level"] for l in levels] == ["L2", "L3", "DRAM"], levels
stages = [s for s in run["stages"] if s["step_bytes"]]
assert {s["name"] for s in stages} >= {"prefill", "decode"}, stages
source = {s["name"]: (s["experts_source"], s["experts_read"]) for s in stages}
assert source["decode"] == ("the engine's routing", 4) and source["prefill"][0] == "the engine's routing", source
for s in stages:
    want = [l for l in levels if l["bytes"] <= s["step_bytes"]][-1]
    text = want["level"] if want["level"] == "DRAM" or s["step_bytes"] <= 1.05 * want["bytes"] else "measured at"
    assert s["peak_byte_per_s"] == want["byte_per_s"] and s["bandwidth_level"].startswith(text), s
    assert abs(s["mbu"] / (s["bytes"] / (s["time_ms"] / 1e3 * want["byte_per_s"])) - 1) < 0.2, s
    assert abs(s["hard_bound_ms"] / max(s["flops"] / 1e9, s["bytes"] / want["byte_per_s"] * 1e3) - 1) < 1e-6, s
END
run "$INFERPROF" report "$work/runs/levels" -o "$work/again"
expect "a report made again names the levels" 0 out 'Bandwidth by the bytes that a pass reads'
check "and has the same numbers" python3 - "$work/runs/levels/metrics.json" "$work/again/metrics.json" <<'END'
import json, sys
a, b = (json.load(open(p)) for p in sys.argv[1:])
assert a["device"] == b["device"], (a["device"], b["device"])
for s, t in zip(a["stages"], b["stages"]):
    assert all(s[k] == t[k] for k in ("mbu", "mfu", "floor_ms", "bandwidth_level", "peak_byte_per_s", "reason")), (s, t)
END
entry '[["DRAM", 536870912, 1e6]]' 2e12
run "$INFERPROF" profile dataset=prompts dataset.prompts="$work/p.jsonl" repeats=2 infer.max_new_tokens=4 profiling=min \
    output.dir="$work/runs" output.run_id=bf16
expect "a model with bf16 weights has the peak of bf16 products" 0
check "if this CPU has instructions for them" python3 - "$work/runs/bf16/metrics.json" "$work/measured.json" <<'END'
import json, sys
device, kernel = json.load(open(sys.argv[1]))["device"], json.load(open(sys.argv[2]))["bf16_kernel"]
want = ("bf16", 2e12, kernel) if kernel else ("f32", 1e12, "x")
assert (device["peak_type"], device["peak_flop_per_s"]) == want[:2] and f": {want[2]} matrix product" in device["peak_source"], (device, want)
END
entry '[["DRAM", 536870912, 1e6]]' ''
run "$INFERPROF" calibrate --cached
expect "a cache file without the peak of bf16 products" 0
check "is used only if this CPU has no instructions for them" python3 - "$work/out" "$work/measured.json" <<'END'
import json, sys
assert ("(from the cache)" in open(sys.argv[1]).read()) == (json.load(open(sys.argv[2]))["bf16_kernel"] is None)
END
entry '[]'
run "$INFERPROF" calibrate --cached
expect "a cache file of an older version is read" 0 out 'reading memory +1.00 MB/s .cached by an older version'
run "$INFERPROF" profile dataset=prompts dataset.prompts="$work/p.jsonl" repeats=2 infer.max_new_tokens=4 profiling=min \
    output.dir="$work/runs" output.run_id=old
expect "without levels, decoding from a cache is explained" 0 out 'weights in a CPU cache' out '^decode: .*the bandwidth is that of reading DRAM'
