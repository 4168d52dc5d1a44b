#!/bin/sh
# The documents and the program say the same of options, keys and files.
. tests/cli/lib.sh
check "documents and program agree" python3 tests/tools/docs.py "$INFERPROF"
