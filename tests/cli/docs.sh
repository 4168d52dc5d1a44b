#!/bin/sh
# The documents and the program say the same of options, keys and files.
. tests/cli/lib.sh
check "documents and program agree" python3 tests/tools/docs.py "$INFERPROF"

mkdir -p "$work/examples/runs/ocr/trace"
"$BUILD/tests/make_trace" "$work/examples/decode.ipt" 64 || exit 1
"$BUILD/tests/make_run" "$work/examples/runs/ocr/trace/a.ipt" 64 1219 || exit 1
python3 tests/tools/doc_examples.py "$INFERPROF" "$work/examples" docs/configuration.md docs/export.md docs/import.md docs/report.md \
    docs/static.md docs/stats.md docs/trace.md >"$work/log"
check "what the documents show is what is printed" test $? -eq 0
sed 's/^/# /' "$work/log"
