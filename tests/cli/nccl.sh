#!/bin/sh
# The collector as a profiler plugin of NCCL: a mock NCCL drives it through all versions of the interface, and misbehaves.
# shellcheck source=tests/cli/lib.sh
. tests/cli/lib.sh
top=$PWD
mock=$top/$BUILD/tests/mock
app=$mock/mock_app
export LD_LIBRARY_PATH="$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
cd "$work" || exit 1
work=$PWD
unset CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH NCCL_PROFILER_PLUGIN RANK WORLD_SIZE

cat >records.py <<'END'
"""records.py VERSION FILE: the collectives that the mock made with this version, in a trace dump."""
import json, sys

UNKNOWN = 2**32 - 1
version = int(sys.argv[1])
rows = sorted((json.loads(line) for line in open(sys.argv[2])), key=lambda r: r["start_ns"])
reduces = [r for r in rows if r["name"] == "AllReduce"]
sends = [r for r in rows if r["op"] == 9]
recvs = [r for r in rows if r["op"] == 10]
ce = [r for r in rows if r["algorithm"] == "CE"]
assert [len(reduces), len(sends), len(recvs), len(ce)] == [20, 2, 1, int(version >= 6)], [len(reduces), len(sends), len(recvs), len(ce)]
for i, r in enumerate(reduces):
    assert (r["op"], r["sequence"], r["count"], r["bytes"]) == (1, i, 1000, 2000), r
    assert (r["communicator"], r["algorithm"], r["protocol"], r["data_type"], r["channels"]) == (0xC0FFEE, "RING", "SIMPLE", "bf16", 2), r
    assert r["communicator_name"] == ("old comm" if version < 4 else "tp_group"), r
    assert (r["rank"], r["size"]) == (1, UNKNOWN if version < 4 else 4), r
    assert r["start_ns"] <= r["end_ns"] and not r["flags"] & 4, r
    assert bool(r["flags"] & 64) == (version < 5), r  # version 5 reports the call before the launch
for r in sends + recvs:
    assert (r["peer"], r["bytes"], r["communicator"]) == (2, 40, 0xC0FFEE) and r["flags"] & 8, r
assert [r["sequence"] for r in sends + recvs] == [0, 1, 0], sends
for r in reduces + sends + recvs:
    assert r["flags"] & 3 == (0 if version == 2 else 1 if version == 3 else 3), r
    if version > 2:  # the GPU of the mock is 5 s behind the host; its kernels take 0.2 ms
        assert r["start_ns"] <= r["kernel_start_ns"] < r["kernel_end_ns"] and r["kernel_end_ns"] - r["kernel_start_ns"] >= 200000, r
        assert r["kernel_start_ns"] - r["start_ns"] < 4e9, r
for r in ce:
    assert (r["op"], r["sequence"], r["bytes"], r["flags"] & 1) == (2, 7, 64, 0), r
END
for v in 2 3 4 5 6 7; do
    run "$INFERPROF" run -q -o "v$v" -- "$app" init kernels=2 "nccl=$v:20"
    expect "version $v: NCCL runs with the plugin" 0
    "$INFERPROF" trace dump --kind collective --json "v$v"/trace/*-[0-9]*.ipt >"v$v.jsonl"
    check "version $v: every collective, send and receive is recorded" python3 records.py "$v" "v$v.jsonl"
done
run "$INFERPROF" export -q --format csv -o csv v6
check "collectives.csv has them" grep -q 'all_reduce,12648430,tp_group,19,1,4,,,2000,1000,bf16,RING,SIMPLE,2' csv/collectives.csv

for v in 2 3 4 5 6 7; do
    run "$INFERPROF" run -q -o "broken$v" -- "$app" init kernels=2 "nccl-broken=$v" say=alive
    expect "version $v: a broken NCCL does not harm the program" 0 out '^alive$'
    "$INFERPROF" trace dump --kind collective "broken$v"/trace/*-[0-9]*.ipt >broken.txt
    check "version $v: operations that were never ended are written as open" grep -q 'flags=\(4\|12\|68\|76\) ' broken.txt
    "$INFERPROF" trace dump --kind collective --json "broken$v"/trace/*-[0-9]*.ipt >broken.jsonl
    check "version $v: no kernel ends before it starts, whatever the GPU's clock says" python3 -c '
import json
rows = [json.loads(line) for line in open("broken.jsonl")]
assert sum(r["name"] == "Jump" for r in rows) == 1 and all(r["kernel_start_ns"] <= r["kernel_end_ns"] for r in rows)'
done
run "$INFERPROF" run -q -o threads -- "$app" init kernels=2 nccl-threads=6:8:500
expect "8 threads use one communicator" 0
check "no operation is lost" test "$("$INFERPROF" trace dump --kind collective threads/trace/*-[0-9]*.ipt | wc -l)" = 4000
check "all of them have kernel times and an end" sh -c "'$INFERPROF' trace dump --kind collective threads/trace/*-[0-9]*.ipt | grep -c 'flags=67 ' | grep -qx 4000"

run env NCCL_PROFILER_PLUGIN=other "$INFERPROF" run -o kept -- "$app" init kernels=2
expect "a plugin that the user chose is kept, and reported" 0 err 'NCCL_PROFILER_PLUGIN=other is already set'
run env NCCL_PROFILER_PLUGIN="$COLLECTOR" "$app" nccl=6:3
check "without a folder the plugin declines: NCCL runs without it" test "$status" = 91
