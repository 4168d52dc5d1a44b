# Helpers for the scripts of tests/cli, which source it: . tests/cli/lib.sh
# Each check prints one TAP line. $work is an empty folder for the script that runs.
# shellcheck shell=sh
work=${TMPDIR:?start the tests with make test or tests/run.sh}/work
command_seconds=300 # time limit of one command; a command that reaches it ends with status 124

ok() { echo "ok - $1"; }
not_ok() { # name [details...]
    echo "not ok - $1"
    shift
    printf '# %s\n' "$@"
}
skip() { echo "ok - $1 # SKIP $2"; }
# skip_without_nvcc NAME: for a test of GPU kernels that the program lacks. In CI this is a failure.
skip_without_nvcc() {
    if [ "${CI:-}" = true ]; then not_ok "$1" "this machine has no nvcc"; else skip "$1" "built without nvcc"; fi
}

# check NAME COMMAND...: passes if the command succeeds
check() {
    name=$1
    shift
    if "$@" >"$work/check.out" 2>&1; then ok "$name"; else not_ok "$name" "$* failed: $(tail -n 5 "$work/check.out" | tr '\n' '~')"; fi
}

# lacks PATTERN FILE: FILE is not empty, and no line of it matches the pattern (grep -E)
lacks() {
    [ -s "$2" ] || { echo "$2: missing or empty"; return 1; }
    ! grep -nE -- "$1" "$2"
}

# json_is FILE EXPRESSION VALUE: the Python expression on d, the JSON in FILE, prints as VALUE
json_is() {
    python3 - "$@" <<'END'
import json, sys
path, expression, want = sys.argv[1:]
d = json.load(open(path, encoding="utf-8"))
got = str(eval(expression))
sys.exit(0 if got == want else f"{expression} is {got}, expected {want}")
END
}

# gone PID: the process has ended, or is a zombie. A process that was killed may take a moment to end.
gone() {
    [ -n "$1" ] || return 1
    for _ in $(seq 200); do
        case $(sed -n 's/^State:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null) in "" | [ZX]*) return 0 ;; esac
        sleep 0.05
    done
    return 1
}

# limited PROGRAM ARGS...: stops the program after $command_seconds
# --foreground: the program stays in the process group of the test, and only the program itself gets the signal.
limited() { timeout --foreground -k 10 "$command_seconds" "$@"; }

# same_report NAME DIR: `report` rewrites a finished folder without any change
same_report() {
    rm -rf "$work/before" && cp -r "$2" "$work/before"
    if ! limited "$INFERPROF" report -q "$2" >"$work/check.out" 2>&1; then
        not_ok "$1" "report failed: $(tail -n 5 "$work/check.out" | tr '\n' '~')"
    elif diff -r "$work/before" "$2" >"$work/check.out" 2>&1; then
        ok "$1"
    else
        not_ok "$1" "$(head -c 2000 "$work/check.out" | tr '\n' '~')"
    fi
}

# run PROGRAM ARGS...: leaves $status, $work/out and $work/err; not for shell functions
run() {
    limited "$@" >"$work/out" 2>"$work/err"
    status=$?
}

# expect NAME STATUS [out|err PATTERN]...: checks what the last run() left; patterns are grep -E
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

# fake_engine PROMPTS: configures the engine `fake` in $work/conf; PROMPTS are the lines of $work/data/p.jsonl.
# Its numbers are fixed (tests/programs/fake_engine.c).
fake_engine() {
    fake=$PWD/$BUILD/tests/fake_engine
    export XDG_CACHE_HOME="$work/cache"
    mkdir -p "$work/conf/engine" "$work/data"
    printf 'defaults: [native, _self_]\nname: fake\ncommand: [%s, %s]\n' "$fake" "$work/state" >"$work/conf/engine/fake.yaml"
    printf '%s\n' "$@" >"$work/data/p.jsonl"
}

# profile_fake FAULTS ARGUMENTS...: a run of 4 repeats with the fake engine; $dir is its folder
profile_fake() {
    faults=$1
    shift
    rm -f "$work/state"
    run "$INFERPROF" profile --conf-dir "$work/conf" engine=fake dataset=prompts dataset.prompts="$work/data/p.jsonl" \
        repeats=4 infer.max_new_tokens=5 peak.tflops=0.1 peak.gbps=10 output.dir="$work/runs" \
        "engine.command=[$fake, $work/state${faults:+, $faults}]" "$@"
    # shellcheck disable=SC2034 # for the script that called it
    dir=$(tail -n 1 "$work/out")
}
