#!/bin/sh
# rank_hta.sh: compares the digests of two ranks of a public 128-rank job with Holistic Trace Analysis on the same files. Part of
# `make test-long`; skipped if HTA cannot be installed. 20 seconds. INFERPROF names the program.
set -eu
cd "$(dirname "$0")/../.."
installed=$(sh tests/bench/hta.sh --install)
if [ -n "$installed" ]; then
    echo "Holistic Trace Analysis: $installed"
    exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
data=tests/data/kineto
"$INFERPROF" import -q --no-report "$data/hta_rank0_a100.json.gz" "$data/hta_rank1_a100.json.gz" -o "$folder/run"
"$INFERPROF" digest -q "$folder/run" -o "$folder/digests" >/dev/null
build/hta/bin/python tests/oracle/rank_hta.py "$folder/digests" "0=$data/hta_rank0_a100.json.gz" "1=$data/hta_rank1_a100.json.gz"
