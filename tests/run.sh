#!/bin/sh
# run.sh [PATTERN...]: runs the unit-test binaries and the tests/cli scripts whose name contains a pattern, or all.
# The last line is "N passed, N failed, N skipped".
# A skip that tests/expected_skips.txt does not list is a failure.
# Environment: BUILD (the build folder), SUITE_SECONDS (the time limit of one suite), SUITE_JOBS (how many suites run at
# the same time; default: one per core).
set -u
cd "$(dirname "$0")/.." || exit 1
BUILD=${BUILD:-build}
INFERPROF=$PWD/$BUILD/inferprof
COLLECTOR=$PWD/$BUILD/libinferprof-collector.so
top=$(mktemp -d "${TMPDIR:-/tmp}/inferprof-tests.XXXXXX")
export BUILD INFERPROF COLLECTOR LC_ALL=C.UTF-8 CMOCKA_MESSAGE_OUTPUT=TAP
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=1:abort_on_error=0}" UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"
export TSAN_OPTIONS="${TSAN_OPTIONS:-die_after_fork=0:report_thread_leaks=0}" # threads are abandoned when a process ends in bounded time
case $BUILD in *san*) export INFERPROF_COLLECT_WAIT_MS=6000 ;; esac # writing takes many times longer; 1000 otherwise
suite_pid='' worker_pids=''
trap 'rm -rf "$top"' EXIT
# shellcheck disable=SC2086
trap '[ -z "$worker_pids" ] || { kill $worker_pids; wait; }; exit 130' INT TERM

# selected NAME PATTERN...: true without a pattern, or if one matches
selected() {
    [ $# -eq 1 ] && return 0
    name=$1
    shift
    for p in "$@"; do case $name in *$p*) return 0 ;; esac; done
    return 1
}

# suite_names PATTERN...: the selected suites, one per line. The slowest come first, so that no core waits for one of them
# at the end.
suite_names() {
    {
        printf '%s\n' cuda_interpreted serve guests collector profile requirements import serve_browser unit-engine-models browser
        for f in tests/cli/*.sh; do basename "$f" .sh; done
        for f in "$BUILD"/tests/unit-*; do basename "$f"; done
    } | awk '!seen[$0]++' | while read -r n; do
        case $n in
        lib | *_lib | *.d) continue ;;
        unit-*) [ -x "$BUILD/tests/$n" ] || continue ;;
        *) [ -f "tests/cli/$n.sh" ] || continue ;;
        esac
        if selected "$n" "$@"; then echo "$n"; fi
    done
}

# run_suite NAME: in a folder of its own, $top/NAME; leaves "PASSED FAILED SKIPPED" in $top/NAME.counts
# Background jobs ignore SIGINT, and nohup ignores SIGHUP. Tests send these signals, so each suite starts with the
# defaults. `timeout` puts the suite into its own process group; `wait` lets a signal to this script stop it.
run_suite() {
    name=$1
    case $name in
    unit-*) set -- "$BUILD/tests/$name" ;;
    *) set -- sh "tests/cli/$name.sh" ;;
    esac
    # The load of this machine must not change results: `profile` finds an idle machine.
    mkdir "$top/$name/work" "$top/$name/proc"
    echo "0.10 0.10 0.10 1/100 1" >"$top/$name/proc/loadavg"
    started=$(date +%s)
    TMPDIR=$top/$name INFERPROF_PROC=$top/$name/proc env --default-signal=HUP,INT,QUIT,TERM,PIPE,XFSZ \
        timeout -k 10 "${SUITE_SECONDS:-1800}" "$@" >"$top/$name.log" 2>&1 &
    suite_pid=$!
    wait "$suite_pid"
    status=$?
    suite_pid=
    awk -v suite="$name" -v status="$status" -f tests/tap.awk tests/expected_skips.txt "$top/$name.log" >"$top/$name.tap"
    # shellcheck disable=SC2046
    set -- $(tail -n 1 "$top/$name.tap") # passed N failed N skipped N
    {
        sed '$d' "$top/$name.tap"
        [ "$4" -eq 0 ] || sed 's/^/    | /' "$top/$name.log" | tail -n 60
        echo "$name: $2 ok, $4 failed, $6 skipped ($(($(date +%s) - started)) s)"
    } >"$top/$name.text"
    echo "$2 $4 $6" >"$top/$name.counts"
    cat "$top/$name.text"
    rm -rf "${top:?}/$name/work"
}

# worker NAME...: takes the suites that no other worker has taken. mkdir succeeds for one worker only.
worker() {
    trap '[ -z "$suite_pid" ] || kill "$suite_pid"; exit 130' INT TERM
    for n in "$@"; do
        if mkdir "$top/$n" 2>/dev/null; then run_suite "$n"; fi
    done
}

# shellcheck disable=SC2046
set -- $(suite_names "$@")
jobs=${SUITE_JOBS:-$(nproc)}
while [ "$jobs" -gt 0 ]; do
    worker "$@" &
    worker_pids="$worker_pids $!"
    jobs=$((jobs - 1))
done
wait
# A suite without counts is a failure: its worker ended early.
total=$(for n in "$@"; do cat "$top/$n.counts" || echo 0 1 0; done |
    awk '{ p += $1; f += $2; s += $3 } END { print p + 0, f + 0, s + 0 }')
read -r passed failed skipped <<END
$total
END
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
