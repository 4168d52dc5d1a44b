#!/bin/sh
# Exported functions and variables must have a user in another file. A symbol used only in its own file should be static
# (unless tests call it too), and a symbol used only by tests should be removed. Works on the built objects.
# Input: BUILD (default: build), after `make test-build`.
set -eu
BUILD=${BUILD:-build}
# Called by name from outside: the C library, CUDA, NVTX and NCCL.
entry_points="main InitializeInjection InitializeInjectionNvtx2 ncclProfiler_v2 ncclProfiler_v3 ncclProfiler_v4 ncclProfiler_v5 ncclProfiler_v6 ncclProfiler_v7"
# Used only by tests, fuzzers and benchmarks. The comment at each declaration says so and gives the reason.
for_tests="alloc_guard_fail_nth cpu_scratch_bytes cpu_test_bf16 decoder_forward decoder_steps_read tokenizer_decode
    tokenizer_token trace_writer_stats gguf_parse gguf_version gguf_files gguf_values gguf_value_at"

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
find "$BUILD/obj" "$BUILD/pic" "$BUILD/tests/obj" -name '*.o' | sort >"$tmp/objects"
# "symbol file" per line; file is the source without its ending: src/base/file, tests/unit/main.
symbols() { # LETTERS NM_OPTIONS...
    letters=$1
    shift
    xargs nm -A -P "$@" <"$tmp/objects" | sed -n \
        -e "s|^$BUILD/tests/obj/\(.*\)\.o: \([A-Za-z_][A-Za-z0-9_]*\) [$letters].*|\2 tests/\1|p" \
        -e "s|^$BUILD/[a-z]*/\(.*\)\.o: \([A-Za-z_][A-Za-z0-9_]*\) [$letters].*|\2 src/\1|p" | sort -u
}
symbols TDBR -g --defined-only | grep ' src/' | grep -v ' src/gen/' >"$tmp/defined"
symbols U -u >"$tmp/used"
# `make test-build` does not compile these.
cat tests/fuzz/*.c tests/bench/*.c tests/mock/*.c | grep -o '[A-Za-z_][A-Za-z0-9_]*' | sort -u >"$tmp/words"
awk -v entry_points="$entry_points" -v for_tests="$for_tests" '
    function add(set, words,    list, n) { n = split(words, list, " "); while (n) set[list[n--]] = 1 }
    function uses(file, symbol,    line, n) { # lines with the symbol; 1: only its definition
        n = 0
        while ((getline line < file) > 0) n += line ~ ("(^|[^A-Za-z0-9_])" symbol "($|[^A-Za-z0-9_])")
        close(file)
        return n
    }
    BEGIN { add(entry, entry_points); add(allowed, for_tests) }
    FILENAME ~ /used$/ { if ($2 ~ /^src/) in_src[$1] = 1; else in_tests[$1] = 1; next }
    FILENAME ~ /words$/ { in_tests[$1] = 1; next }
    {
        file = $2 ".c"
        if (in_src[$1] && allowed[$1]) {
            print file ": " $1 ": the program uses it: remove it from the list in scripts/lint_exports.sh"
            bad = 1
        }
        if (in_src[$1] || entry[$1]) next
        n = uses(file, $1)
        if (n == 0 || (n > 1 && in_tests[$1]) || allowed[$1]) next # 0: object of a removed or renamed function
        print file ": " $1 (in_tests[$1] ? ": only tests use it: remove it, or list it in scripts/lint_exports.sh" : \
                            n > 1 ? ": only this file uses it: make it static" : ": unused: remove it")
        bad = 1
    }
    END { exit bad }' "$tmp/used" "$tmp/words" "$tmp/defined" >&2
