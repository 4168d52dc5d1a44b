#!/bin/bash
# ranks.sh: jobs of two ranks on one GPU: torchrun with gloo, both orders, and NCCL with the plugin; 2 minutes.
# One NCCL rank alone comes first, so that NCCL calls the plugin even if it refuses two ranks on a GPU.
# Needs torch with its own NCCL. Two NCCL ranks on one GPU need NCCL_MULTI_RANK_GPU_ENABLE=1 (NCCL 2.30); where NCCL
# refuses, its message is printed and the part is listed as skipped. NCCL_LIBRARY=FILE: the two ranks use this
# libnccl.so.2 instead of torch's. Records and reports go to $OUT/ranks.
set -u
# shellcheck source=tests/gpu/lib.sh
. "$(dirname "$0")/lib.sh"
find_collector
[ -n "${INFERPROF:-}" ] || { echo "inferprof was not found"; exit 1; }
R=$WORK/ranks
mkdir -p "$R" "$OUT/ranks"
failed=0
ok() { echo "ok $1"; }
bad() { echo "FAIL $1"; failed=1; }
verify() { # NAME COMMAND...
    local name=$1
    shift
    if "$@" >"$R/verify.out" 2>&1; then ok "$name"; else bad "$name: $(tail -n 3 "$R/verify.out")"; fi
}
launch=("$PYTHON" -m torch.distributed.run --nproc-per-node 2 --master-port 29511)
count() { find "$1/trace" -name '*-rank[01]-*.ipt' | wc -l; }

timeout 60 "${launch[@]}" --no-python "$INFERPROF" run -q -o "$R/inside" -- "$PYTHON" "$GPU/rank_program.py" gloo >"$R/inside.out" 2>&1
verify "torchrun inferprof run: status 0" test $? = 0
verify "one trace per rank" test "$(count "$R/inside")" = 2
verify "one report" test -s "$R/inside/report.md"
timeout 60 "$INFERPROF" run -q -o "$R/outside" -- "${launch[@]}" "$GPU/rank_program.py" gloo >"$R/outside.out" 2>&1
verify "inferprof run -- torchrun: status 0" test $? = 0
verify "one trace per rank" test "$(count "$R/outside")" = 2
trace=$(find "$R/outside/trace" -name '*-rank1-*.ipt' | head -n 1)
"$INFERPROF" trace dump --kind meta "$trace" >"$R/meta.txt"
verify "the launcher is torchrun" grep -q 'key="launcher" value="torchrun"' "$R/meta.txt"

# One NCCL rank alone. NCCL runs all-reduces of one rank as copies, without its profiler; sends and receives to itself are kernels.
# This part uses torch's NCCL. With NCCL_LIBRARY preloaded too, calls would mix two NCCL libraries in one process, and NCCL
# fails with "corrupted comm object detected".
NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,PROFILE timeout 60 "$INFERPROF" run -q -o "$R/one" -- "$PYTHON" "$GPU/nccl_one.py" >"$R/one.out" 2>&1
verify "one NCCL rank with the plugin: status 0" test $? = 0
grep -E '^NCCL [0-9]+' "$R/one.out"
grep -iE 'profiler' "$R/one.out" | sed 's/^[^ ]* //' | sort -u | head -n 5
verify "NCCL has loaded the plugin" grep -qiE 'Successfully loaded.*inferprof|profiler.*inferprof' "$R/one.out"
trace=$(find "$R/one/trace" -name '*.ipt' ! -name 'nvml*' ! -name 'counters*' | head -n 1)
"$INFERPROF" trace dump --kind collective --json "$trace" >"$R/one.jsonl"
echo "records of one rank: $("$PYTHON" -c 'import collections, json, sys
rows = [json.loads(line) for line in sys.stdin]
print(dict(collections.Counter((r["name"], "kernel times" if r["flags"] & 1 else "no kernel times") for r in rows)))' <"$R/one.jsonl")"
verify "the plugin recorded the sends and receives" "$PYTHON" -c 'import json, sys
assert sum(json.loads(line)["op"] in (9, 10) for line in open(sys.argv[1])) == 20' "$R/one.jsonl"

nccl=()
[ -n "${NCCL_LIBRARY:-}" ] && nccl=("LD_PRELOAD=$NCCL_LIBRARY")
NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_DEBUG=INFO timeout 90 env "${nccl[@]}" "$INFERPROF" run -q -o "$R/nccl" -- "${launch[@]}" "$GPU/rank_program.py" nccl >"$R/nccl.out" 2>&1
status=$?
grep -iE 'profiler|plugin' "$R/nccl.out" | sort -u | head -n 5
if [ "$status" -ne 0 ]; then
    echo "skipped: two NCCL ranks on one GPU: $(grep -E 'Error|WARN|Duplicate' "$R/nccl.out" | head -n 3 | tr '\n' ' ')"
else
    for f in "$R"/nccl/trace/*-rank[01]-*.ipt; do "$INFERPROF" trace dump --kind collective --json "$f"; done >"$R/collectives.jsonl"
    verify "the plugin recorded 2 x 50 all-reduces with kernel times and equal numbers" "$PYTHON" "$GPU/rank_check.py" "$R/collectives.jsonl"
    "$INFERPROF" report "$R/nccl" >"$R/report.out" 2>&1
    verify "the report matches the collectives of both ranks" grep -qE 'clocks: .* 5[0-9] collectives matched' "$R/report.out"
    grep -E 'ranks with data|layout|clocks|straggler' "$R/report.out"
    "$INFERPROF" export -q --format csv -o "$OUT/ranks/csv" "$R/nccl"
fi
cp "$R"/*.out "$R"/*.jsonl "$R/meta.txt" "$OUT/ranks" 2>/dev/null
for run in inside outside one nccl; do [ -d "$R/$run" ] && cp -r "$R/$run" "$OUT/ranks/"; done
exit $failed
