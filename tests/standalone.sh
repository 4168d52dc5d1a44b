# The frame of a test script that runs outside of tests/run.sh:
#     set -u
#     cd "$(dirname "$0")/../.." || exit 1
#     . tests/standalone.sh
#     my_tests() { check ...; }
#     standalone 30 my_tests              -- fails unless at least 30 checks pass
# shellcheck shell=sh
TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/inferprof-standalone.XXXXXX")
export TMPDIR
mkdir -p "$TMPDIR/work"
trap 'rm -rf "$TMPDIR"' EXIT
. tests/cli/lib.sh

# standalone LEAST FUNCTION...: runs the functions, prints their checks and a summary
standalone() {
    least=$1
    shift
    for tests in "$@"; do "$tests"; done >"$TMPDIR/log" 2>&1
    cat "$TMPDIR/log"
    f=$(grep -c '^not ok' "$TMPDIR/log")
    p=$(grep -c '^ok' "$TMPDIR/log")
    echo "$p passed, $f failed, 0 skipped"
    [ "$f" -eq 0 ] && [ "$p" -ge "$least" ]
}
