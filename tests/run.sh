#!/bin/sh
# run.sh [PATTERN...]: every unit-test binary and every tests/cli script, and one closing line:
#     N passed, N failed, N skipped
# A skip that tests/expected_skips.txt does not list is a failure. Input: BUILD.
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
INFERPROF=$PWD/$BUILD/inferprof
COLLECTOR=$PWD/$BUILD/libinferprof-collector.so
TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/inferprof-tests.XXXXXX")
log=$TMPDIR/log
export BUILD INFERPROF COLLECTOR TMPDIR LC_ALL=C.UTF-8
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=1:abort_on_error=0}" UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 130' INT TERM
passed=0 failed=0 skipped=0

wanted() { # no pattern, or one that matches
    [ $# -eq 1 ] && return 0
    name=$1
    shift
    for p in "$@"; do case $name in *$p*) return 0 ;; esac; done
    return 1
}

# Reads TAP ("ok N - name", "not ok N - name", "not ok N # SKIP name", "ok - name # SKIP why") from $log.
count() { # suite status
    p=$(grep -cE '^ok ' "$log")
    s=$(grep -cE '^(not )?ok .*# SKIP' "$log")
    f=$(grep -cE '^not ok [0-9]*' "$log")
    fs=$(grep -cE '^not ok .*# SKIP' "$log")
    f=$((f - fs))
    p=$((p - s + fs))
    grep -E '^not ok [0-9]* ?- ' "$log" | sed "s|^not ok [0-9]* *- |FAILED $1: |"
    unexpected=$(grep -E '^(not )?ok .*# SKIP' "$log" | sed -E 's/^not ok [0-9]+ # SKIP //; s/^ok [0-9]*[ -]*//; s/ *# SKIP.*//' |
        while read -r n; do grep -qE "^$n( |:|\$)" tests/expected_skips.txt || echo "$n"; done)
    for n in $unexpected; do echo "FAILED $1: $n was skipped, and tests/expected_skips.txt does not list it"; f=$((f + 1)); s=$((s - 1)); done
    if [ "$2" -ne 0 ] && [ "$f" -eq 0 ]; then
        echo "FAILED $1: exit status $2"
        f=1
    fi
    if [ $((p + f + s)) -eq 0 ]; then echo "FAILED $1: ran no test"; f=1; fi
    [ "$f" -gt 0 ] && sed 's/^/    | /' "$log" | tail -n 60
    echo "$1: $p ok, $f failed, $s skipped"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

for bin in "$BUILD"/tests/unit-*; do
    case $bin in *.d) continue ;; esac
    wanted "$(basename "$bin")" "$@" || continue
    CMOCKA_MESSAGE_OUTPUT=TAP "$bin" >"$log" 2>&1
    # cmocka closes a group that failed with a line of its own, which is no test
    status=$?
    sed -i '/^# *not ok - /d' "$log"
    count "$(basename "$bin")" $status
done
for script in tests/cli/*.sh; do
    [ "$(basename "$script")" = lib.sh ] && continue
    wanted "$(basename "$script" .sh)" "$@" || continue
    mkdir -p "$TMPDIR/work"
    sh "$script" >"$log" 2>&1
    count "$(basename "$script" .sh)" $?
    rm -rf "$TMPDIR/work"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
