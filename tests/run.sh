#!/bin/sh
# run.sh [PATTERN...]: runs the unit-test binaries and the tests/cli scripts whose name contains a pattern, or all.
# The last line is "N passed, N failed, N skipped".
# A skip that tests/expected_skips.txt does not list is a failure.
# Environment: BUILD (the build folder), SUITE_SECONDS (the time limit of one suite).
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
INFERPROF=$PWD/$BUILD/inferprof
COLLECTOR=$PWD/$BUILD/libinferprof-collector.so
TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/inferprof-tests.XXXXXX")
log=$TMPDIR/log
suite_pid=
export BUILD INFERPROF COLLECTOR TMPDIR LC_ALL=C.UTF-8
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=1:abort_on_error=0}" UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"
export TSAN_OPTIONS="${TSAN_OPTIONS:-die_after_fork=0:report_thread_leaks=0}" # threads are abandoned when a process ends in bounded time
case $BUILD in *san*) export INFERPROF_COLLECT_WAIT_MS=6000 ;; esac # writing takes many times longer; 1000 otherwise
trap 'rm -rf "$TMPDIR"' EXIT
trap '[ -z "$suite_pid" ] || kill "$suite_pid"; exit 130' INT TERM
# The load of this machine must not change results: `profile` finds an idle machine.
mkdir "$TMPDIR/proc"
echo "0.10 0.10 0.10 1/100 1" >"$TMPDIR/proc/loadavg"
export INFERPROF_PROC="$TMPDIR/proc"
passed=0 failed=0 skipped=0

# selected NAME PATTERN...: true without a pattern, or if one matches
selected() {
    [ $# -eq 1 ] && return 0
    name=$1
    shift
    for p in "$@"; do case $name in *$p*) return 0 ;; esac; done
    return 1
}

# run_suite NAME COMMAND...
# Background jobs ignore SIGINT, and nohup ignores SIGHUP. Tests send these signals, so each suite starts with the
# defaults. `timeout` puts the suite into its own process group; `wait` lets a signal to this script stop it.
run_suite() {
    name=$1
    shift
    env --default-signal=HUP,INT,QUIT,TERM,PIPE,XFSZ timeout -k 10 "${SUITE_SECONDS:-1800}" "$@" >"$log" 2>&1 &
    suite_pid=$!
    wait "$suite_pid"
    status=$?
    suite_pid=
    awk -v suite="$name" -v status="$status" -f tests/tap.awk tests/expected_skips.txt "$log" >"$TMPDIR/result"
    sed '$d' "$TMPDIR/result"
    # shellcheck disable=SC2046
    set -- $(tail -n 1 "$TMPDIR/result") # passed N failed N skipped N
    [ "$4" -gt 0 ] && sed 's/^/    | /' "$log" | tail -n 60
    echo "$name: $2 ok, $4 failed, $6 skipped"
    passed=$((passed + $2)) failed=$((failed + $4)) skipped=$((skipped + $6))
}

export CMOCKA_MESSAGE_OUTPUT=TAP
for bin in "$BUILD"/tests/unit-*; do
    case $bin in *.d) continue ;; esac
    selected "$(basename "$bin")" "$@" || continue
    run_suite "$(basename "$bin")" "$bin"
done
for script in tests/cli/*.sh; do
    case $script in */lib.sh | */*_lib.sh) continue ;; esac
    selected "$(basename "$script" .sh)" "$@" || continue
    mkdir -p "$TMPDIR/work"
    run_suite "$(basename "$script" .sh)" sh "$script"
    rm -rf "$TMPDIR/work"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
