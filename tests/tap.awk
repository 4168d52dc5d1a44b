# Counts the results of one test suite: awk -v suite=NAME -v status=EXIT_STATUS -f tap.awk expected_skips.txt LOG
# Prints a line "FAILED suite: why" per failure, then "passed N failed N skipped N" as the last line.
# Result lines, from cmocka and from tests/cli/lib.sh:
#     ok 1 - name        ok - name        not ok 1 - name        not ok - name
#     not ok 1 # SKIP name                ok - name # SKIP why
# A skip counts as a failure unless expected_skips.txt has a line "name: why" with exactly that name.
function fail(why) {
    failed++
    print "FAILED " suite ": " why
}
# The name in a result line, without the result, the number and the comment after it.
function test_name(line) {
    sub(/^(not )?ok +[0-9]* */, "", line)
    if (line !~ /^# SKIP /) sub(/ *# SKIP.*/, "", line)
    sub(/^(# SKIP|-) +/, "", line)
    return line
}
function skip_is_expected(name, i) {
    for (i = 1; i <= expected; i++)
        if (index(allowed[i], name ": ") == 1) return 1
    return 0
}
FILENAME == ARGV[1] {
    if ($0 !~ /^#/) allowed[++expected] = $0
    next
}
!/^(not )?ok / { next }
/# SKIP/ {
    name = test_name($0)
    if (skip_is_expected(name)) skipped++
    else fail(name ": skipped, but tests/expected_skips.txt does not list it")
    next
}
/^ok / { passed++ }
/^not ok / { fail(test_name($0)) }
END {
    if (status == 124) fail("stopped at its time limit")
    else if (status == 137) fail("killed: it ignored SIGTERM at its time limit, or memory ran out")
    else if (status != 0 && failed == 0) fail("exit status " status)
    if (passed + failed + skipped == 0) fail("ran no test")
    print "passed " passed + 0 " failed " failed + 0 " skipped " skipped + 0
}
