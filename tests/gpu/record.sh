#!/bin/bash
# record.sh: a quick check on a GPU, about 90 s: the collector runs under PyTorch, kernels have their launches, cuBLASLt's log is
# readable. Also records the tapes of CUPTI's buffers for tests/mock. Leaves its files in $OUT.
set -u
# shellcheck source=tests/gpu/lib.sh
. "$(dirname "$0")/lib.sh"
find_collector
tape() { # NAME ROUNDS
    collect "$WORK/$1" INFERPROF_COLLECT_RANGE=measured INFERPROF_COLLECT_RAW="$WORK/$1.tape" -- \
        "$PYTHON" "$GPU/workloads.py" "$1" --rounds "$2"
    gzip -9 -c "$WORK/$1.tape" >"$WORK/$1.tape.gz"
    cat "$WORK/$1"/*.ipt >/dev/null && ls -l "$WORK/$1"/*.ipt "$WORK/$1.tape" "$WORK/$1.tape.gz"
}
tape eager 2
tape graph 4
tape multi 6
# Above, graphs were created while nothing was captured; here, while everything is:
collect "$WORK/graphfull" -- "$PYTHON" "$GPU/workloads.py" graph --rounds 4
collect "$WORK/gemm" INFERPROF_COLLECT_WHAT=kernels,copies,launches,syncs,nvtx,gemms -- \
    "$PYTHON" "$GPU/workloads.py" prefill --rounds 2
"$PYTHON" "$GPU/gemm_log.py" "$WORK/cublaslt.log"
wc -l "$WORK/cublaslt.log"
if [ -n "${INFERPROF:-}" ]; then
    for p in eager graph graphfull multi gemm; do
        "$INFERPROF" trace info "$WORK/$p"/*.ipt
        "$INFERPROF" trace dump --json "$WORK/$p"/*.ipt >"$WORK/$p.jsonl"
        grep -aE '"(problem|clock[.a-z_]*|collector[.a-z]*|cupti[.a-z]*|device.0.[a-z_0-9]*)"' "$WORK/$p.jsonl" | head -n 40
    done
    for p in eager graph multi; do
        "$PYTHON" "$GPU/workloads.py" "$p" --rounds "$(case $p in eager) echo 2 ;; graph) echo 4 ;; *) echo 6 ;; esac)" \
            --torch-profile "$WORK/$p.torch.json" >/dev/null
        "$PYTHON" "$GPU/compare.py" "$WORK/$p.jsonl" "$WORK/$p.torch.json"
    done
fi
tar -C "$WORK" -czf "$OUT/record.tar.gz" --exclude='*.tape' .
ls -l "$OUT"
