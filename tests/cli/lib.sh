# Helpers for tests/cli scripts, sourced: . tests/cli/lib.sh
# Each check prints one TAP line. $work is an empty folder of this script's own.
# shellcheck shell=sh
work=${TMPDIR:?run the tests by tests/run.sh or make test}/work

ok() { echo "ok - $1"; }
not_ok() { # name [details...]
    echo "not ok - $1"
    shift
    printf '# %s\n' "$@"
}
skip() { echo "ok - $1 # SKIP $2"; }

# check NAME COMMAND...: passes if the command succeeds
check() {
    name=$1
    shift
    if "$@" >"$work/check.out" 2>&1; then ok "$name"; else not_ok "$name" "$* failed: $(tail -n 5 "$work/check.out" | tr '\n' '~')"; fi
}

# gone PID: it has ended, whether or not somebody has asked how
gone() { [ ! -e "/proc/$1" ] || grep -q '^State:.*Z' "/proc/$1/status"; }

# same_report NAME DIR: what `report` writes into a finished folder is what is there already
same_report() {
    rm -rf "$work/before" && cp -r "$2" "$work/before"
    if ! "$INFERPROF" report -q "$2" >"$work/check.out" 2>&1; then
        not_ok "$1" "report failed: $(tail -n 5 "$work/check.out" | tr '\n' '~')"
    elif diff -r "$work/before" "$2" >"$work/check.out" 2>&1; then
        ok "$1"
    else
        not_ok "$1" "$(head -c 2000 "$work/check.out" | tr '\n' '~')"
    fi
}

# run COMMAND...: leaves $status, $work/out and $work/err
run() {
    "$@" >"$work/out" 2>"$work/err"
    status=$?
}

# expect NAME STATUS [out|err PATTERN]...: what the last run() left; patterns are grep -E
expect() {
    name=$1 want=$2
    shift 2
    if [ "$status" -ne "$want" ]; then
        not_ok "$name" "status $status, expected $want; stderr: $(tr '\n' '~' <"$work/err")"
        return
    fi
    while [ $# -ge 2 ]; do
        if ! grep -qE -- "$2" "$work/$1"; then
            not_ok "$name" "$1 lacks /$2/:" "$(tr '\n' '~' <"$work/$1" | cut -c 1-2000)"
            return
        fi
        shift 2
    done
    ok "$name"
}
