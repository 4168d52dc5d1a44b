#!/bin/sh
# launch_instructions.sh [BUILD] [LAUNCHES]: instructions that the collector's launch callback executes per launch (start and
# end of the call), counted by callgrind with the mock CUPTI. Unlike a time, the count is the same on every machine with the
# same compiler, so that two builds can be compared. Draining the ring of launches is counted separately.
set -eu
build=$(cd "${1:-build}" && pwd) launches=${2:-20000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
collector=$build/libinferprof-collector.so
cd "$work"
env LD_LIBRARY_PATH="$build/tests/mock" CUDA_INJECTION64_PATH="$collector" NVTX_INJECTION64_PATH="$collector" INFERPROF_COLLECT_DIR="$work" \
    valgrind --tool=callgrind --callgrind-out-file=cg.out --collect-atstart=no --toggle-collect=on_callback \
    "$build/tests/mock/mock_app" init sleep=500 "kernels=$launches" 2>valgrind.log || { cat valgrind.log >&2; exit 1; }
# The clock fit is ready after 0.2 s, hence the sleep. Without it, each launch would read the clock by a call.
callgrind_annotate --auto=no --threshold=100 cg.out | awk -v n="$launches" '
    / PROGRAM TOTALS/ { gsub(/[,.]/, "", $1); total = $1 }
    /:on_call(back|_enter|_exit)|_dl_tlsdesc/ { gsub(/,/, "", $1); callback += $1 }
    END { printf "%.1f instructions per launch, and %.1f to drain the ring\n", callback / n, (total - callback) / n }'
