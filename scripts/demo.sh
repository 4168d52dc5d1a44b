#!/bin/sh
# Shows the trace tools on a made-up decode. Input: BUILD.
set -eu
out=$(mktemp -d "${TMPDIR:-/tmp}/inferprof-demo.XXXXXX")
"$BUILD/tests/make_trace" "$out/decode.ipt" 64
"$BUILD/inferprof" trace info "$out/decode.ipt" | tee "$out/report.txt"
echo "report: $out/report.txt"
