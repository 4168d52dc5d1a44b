#!/bin/sh
# Runs clang-format, cppcheck, shellcheck and the checks of includes, exported symbols, texts and comma statements.
# Environment: C_FILES, SH_FILES, BUILD (with the objects of `make test-build`).
set -eu
fail=0
# shellcheck disable=SC2086
clang-format --dry-run -Werror $C_FILES || { echo "lint: run 'make format'" >&2; fail=1; }
# shellcheck disable=SC2046,SC2086
cppcheck --quiet --library=scripts/cppcheck.cfg --std=c11 --language=c -Isrc --inline-suppr --error-exitcode=1 -j 2 \
    --enable=warning,performance,portability --suppress=missingInclude --suppress=missingIncludeSystem \
    --suppress=unknownMacro --suppress=internalAstError $(echo $C_FILES | tr ' ' '\n' | grep '\.c$') || fail=1
sh scripts/lint_includes.sh || fail=1
sh scripts/lint_exports.sh || fail=1
sh scripts/lint_text.sh || fail=1
# shellcheck disable=SC2086
python3 scripts/lint_commas.py $C_FILES || fail=1
# shellcheck disable=SC2086
shellcheck $SH_FILES || fail=1
[ $fail = 0 ] && echo "lint: clean"
exit $fail
