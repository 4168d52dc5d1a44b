#!/bin/sh
# tests/run.sh itself, on suites that print a fixed result. Each suite is a script in the place of a unit-test binary.
. tests/cli/lib.sh
mkdir -p "$work/fake/tests"

# suite NAME STATUS LINE...: a suite that prints the lines and exits with STATUS
suite() {
    file=$work/fake/tests/unit-$1 lines=$work/fake/$1.tap code=$2
    shift 2
    printf '%s\n' "$@" >"$lines"
    printf '#!/bin/sh\ncat "%s"\nexit %s\n' "$lines" "$code" >"$file"
    chmod +x "$file"
}
# run_only NAME: tests/run.sh on that suite alone
run_only() { run env BUILD="$work/fake" sh tests/run.sh "unit-$1"; }

suite pass 0 'ok 1 - one' 'ok 2 - two words'
run_only pass
expect "passed tests are counted" 0 out '^unit-pass: 2 ok, 0 failed, 0 skipped \([0-9]+ s\)$' out '^2 passed, 0 failed, 0 skipped$'

suite fail 1 'ok 1 - one' 'not ok 2 - two words' '# not ok - unit'
run_only fail
expect "a failed test is counted once and named" 1 out '^FAILED unit-fail: two words$' out '^1 passed, 1 failed, 0 skipped$'

suite skip 0 'ok - one' 'ok - an unlisted skip # SKIP no reason at all'
run_only skip
expect "an unlisted skip with several words in its name is one failure" 1 \
    out '^FAILED unit-skip: an unlisted skip: skipped' out '^1 passed, 1 failed, 0 skipped$'

suite cmocka 0 'ok 1 - one' 'not ok 2 # SKIP unlisted_in_c'
run_only cmocka
expect "an unlisted skip of cmocka is one failure" 1 out '^FAILED unit-cmocka: unlisted_in_c: skipped' \
    out '^1 passed, 1 failed, 0 skipped$'

listed=$(grep -v '^#' tests/expected_skips.txt | sed -n '1s/: .*//p')
suite listed 0 'ok - one' "ok - $listed # SKIP not installed"
run_only listed
expect "a listed skip is a skip" 0 out '^1 passed, 0 failed, 1 skipped$'
suite prefix 0 'ok - one' "ok - ${listed%% *} # SKIP not installed"
run_only prefix
expect "the first word of a listed name is not listed" 1 out '^1 passed, 1 failed, 0 skipped$'
suite regex 0 'ok - one' 'ok - .* # SKIP not installed'
run_only regex
expect "a name is not a pattern" 1 out '^FAILED unit-regex: \.\*: skipped' out '^1 passed, 1 failed, 0 skipped$'

suite crash 9 'ok 1 - one'
run_only crash
expect "a suite that ends with an error fails" 1 out '^FAILED unit-crash: exit status 9$' out '^1 passed, 1 failed, 0 skipped$'
suite none 0 'nothing to report'
run_only none
expect "a suite without tests fails" 1 out '^FAILED unit-none: ran no test$' out '^0 passed, 1 failed, 0 skipped$'
run_only nothing-of-that-name
expect "a pattern that selects no suite fails" 1 out '^0 passed, 0 failed, 0 skipped$'

suite slow 0 'ok 1 - one'
sed -i '$i sleep 60' "$work/fake/tests/unit-slow"
run env SUITE_SECONDS=1 BUILD="$work/fake" sh tests/run.sh unit-slow
expect "a suite that hangs is stopped and fails" 1 out '^FAILED unit-slow: stopped at its time limit$'

suite signals 0 'ok 1 - one'
# shellcheck disable=SC2016
sed -i '$i kill -INT $$; echo "not ok 2 - SIGINT was ignored"' "$work/fake/tests/unit-signals"
run sh -c 'trap "" INT HUP; BUILD=$1 sh tests/run.sh unit-signals' sh "$work/fake"
expect "a suite gets the default signals, also in a background job" 1 out '^FAILED unit-signals: exit status 130$'

for n in w1 w2 w3 w4; do suite "$n" 0 'ok 1 - one' 'ok 2 - two'; done
printf '#!/bin/sh\nmkdir "%s/here" && sleep 0.2 && rmdir "%s/here" && echo "ok - alone" || echo "not ok - alone"\n' "$work" "$work" |
    tee "$work/fake/tests/unit-one" >"$work/fake/tests/unit-two"
chmod +x "$work/fake/tests/unit-one" "$work/fake/tests/unit-two"
run env SUITE_JOBS=3 BUILD="$work/fake" sh tests/run.sh unit-w
expect "three workers run each suite once" 0 out '^8 passed, 0 failed, 0 skipped$'
check "each suite is printed once" test "$(grep -c '^unit-w[1-4]: 2 ok' "$work/out")" -eq 4
run env SUITE_JOBS=1 BUILD="$work/fake" sh tests/run.sh unit-one unit-two
expect "SUITE_JOBS=1 runs the suites one after the other" 0 out '^2 passed, 0 failed, 0 skipped$'

suite stopped 0 'ok 1 - one'
sed -i "\$i echo \$\$ >'$work/pid'; exec sleep 60" "$work/fake/tests/unit-stopped"
env BUILD="$work/fake" sh tests/run.sh unit-stopped >"$work/out" 2>&1 &
runner=$!
for _ in $(seq 100); do [ -s "$work/pid" ] && break; sleep 0.1; done
kill "$runner"
wait "$runner"
check "a stopped run reports status 130" test $? -eq 130
check "a stopped run stops its suites" gone "$(cat "$work/pid")"
