#!/bin/bash
# token_time.sh: time per token of llama-bench and of a PyTorch program with a CUDA graph, unwatched and with the defaults of `run`,
# in turn; 3 minutes, needs the GPU alone. LLAMA: a folder with llama-bench and its libraries. ROUNDS: rounds of DeepSeek-OCR with one
# process per mode (14), every second round in reverse order; no round starts after LIMIT_S seconds (150). The first two rounds also run
# Qwen3-8B, and DeepSeek-OCR for longer. MODES, LONG_MODES: further modes of the short and of the long runs. SHORT=1: only short runs.
# Writes $OUT/token_time.jsonl (one line per process), token_time.txt and the traces, token_time-*.tar.gz.
set -u
# shellcheck source=tests/gpu/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"
find_collector
T=$ROOT/tests/tools
S=$WORK/token_time
lines=$OUT/token_time.jsonl
mkdir -p "$S"
: >"$lines"
# one PROGRAM MODE ROUND COMMAND...: MODE is "plain", or "run" with its options, separated by commas. NAME=A+B among them
# sets a setting of the collector: WHAT=kernels+launches+syncs+nvtx (INFERPROF_COLLECT_WHAT) records no copies.
one() {
    local program=$1 mode=$2 round=$3 run=() options=() word
    shift 3
    local name=$program-${mode//[^a-z0-9]/}-$round
    for word in ${mode//,/ }; do
        case $word in
        *=*) set -- env "INFERPROF_COLLECT_${word//+/,}" "$@" ;;
        *) options+=("$word") ;;
        esac
    done
    [ "$mode" = plain ] || run=("$INFERPROF" "${options[@]}" --no-report -o "$S/$name" --)
    timeout 60 env LD_LIBRARY_PATH="${LLAMA:-}:${LD_LIBRARY_PATH:-}" "${run[@]}" "$@" >"$S/$name.out" 2>"$S/$name.err"
    local rc=$?
    python3 "$T/token_time.py" line "$program" "$mode" "$round" "$rc" "$S/$name.out" >>"$lines"
    [ $rc -eq 0 ] || { echo "$name: exit status $rc"; tail -n 3 "$S/$name.err"; }
}
[ -n "${SHORT:-}" ] || for mode in plain run; do one torch "$mode" 1 "$PYTHON" "$GPU/graph_time.py"; done
if [ -n "${LLAMA:-}" ]; then
    python3 "$T/make_gguf.py" dsocr BF16 "$WORK/dsocr.gguf"
    python3 "$T/make_gguf.py" qwen3-8b BF16 "$WORK/qwen3-8b.gguf"
    bench=("$LLAMA/llama-bench" -ngl 99 -fa 1 -o json -p 0)
    one warm plain 0 "${bench[@]}" -m "$WORK/dsocr.gguf" -n 16 -r 1
    # in_turn PROGRAM ROUND MODES COMMAND...
    in_turn() {
        local program=$1 round=$2 modes=$3 mode
        shift 3
        [ $((round % 2)) -eq 1 ] || modes=$(echo "$modes" | tr ' ' '\n' | tac | tr '\n' ' ')
        for mode in $modes; do one "$program" "$mode" "$round" "$@"; done
    }
    for round in $(seq "${ROUNDS:-14}"); do
        [ $SECONDS -lt "${LIMIT_S:-150}" ] || break
        in_turn dsocr "$round" "plain run ${MODES:-}" "${bench[@]}" -m "$WORK/dsocr.gguf" -n 128 -r 5
        if [ -n "${SHORT:-}" ] || [ "$round" -gt 2 ]; then continue; fi
        in_turn qwen3-8b "$round" "plain run" "${bench[@]}" -m "$WORK/qwen3-8b.gguf" -n 129 -r 3
        in_turn dsocr-long "$round" "plain run ${LONG_MODES:-}" "${bench[@]}" -m "$WORK/dsocr.gguf" -n 1024 -r 3
    done
fi
cd "$S" || exit 1
for run in *-run*-*/; do
    run=${run%/}
    "$INFERPROF" report "$run" >/dev/null 2>"$run.report.err" || echo "$run: no report: $(head -n 1 "$run.report.err")"
done
python3 "$T/token_time.py" table "$lines" "$S" | tee "$OUT/token_time.txt"
tar -czf "$OUT/token_time-traces.tar.gz" ./*-run*/trace ./*-run*-1/report.md ./*-run*-1/metrics.json ./*-run*-1.err 2>/dev/null
