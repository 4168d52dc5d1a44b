#!/bin/sh
# Line lengths and plain English. C and CUDA files have at most 110 columns, Markdown at most 120 outside of code blocks and
# tables. Phrases that are hard to read are rejected in all text files.
# Usage: lint_text.sh [FILE...]; default: all files of the repository.
set -eu
# Data tables with one row per line.
wide="src/llm/gpus.c src/engine/tokenizer/builtin_data.h src/report/export_records.c"

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# Not checked: output of programs, data from elsewhere, and the list of phrases below.
# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- $(git ls-files '*.c' '*.h' '*.cu' '*.cuh' '*.py' '*.sh' '*.md' '*.yaml' '*.js' |
    grep -vE '^(docs/examples/[^/]*/|tests/data/|tests/mock/tapes/|scripts/lint_text.sh)')
bad=0
for file in "$@"; do
    case $file in
    src/*.[ch] | src/*.cu | src/*.cuh | tests/*.[ch])
        case " $wide " in *" $file "*) continue ;; esac
        awk -v file="$file" 'length > 110 { print file ":" NR ": " length " columns; at most 110"; bad = 1 } END { exit bad }' \
            "$file" >&2 || bad=1
        ;;
    CHANGELOG.md)
        awk '
            function fail(why) { print "CHANGELOG.md:" NR ": " why; bad = 1 }
            /^  / { fail("one line per change") }
            /^## / { split("", seen) }
            /^### / && !/^### (Added|Changed|Fixed)$/ { fail("sections are Added, Changed and Fixed") }
            /^- / && seen[$0]++ { fail("this line is there twice") }
            END { exit bad }' "$file" >&2 || bad=1
        ;;
    esac
    case $file in
    *.md)
        awk -v file="$file" '
            /^ *```/ { code = !code }
            !code && !/^ *[|]/ && length > 120 { print file ":" NR ": " length " columns; at most 120"; bad = 1 }
            END { exit bad }' "$file" >&2 || bad=1
        ;;
    esac
done

cat >"$tmp/phrases" <<'END'
\b(is|are|was|were|be|being|been|unless|as) (told|said)\b
\btells? (it|of|that|so|whether|how|what|apart)\b
\bwhoever\b
\bbears\b
\bsays nothing of\b
\bsays otherwise\b
\bis to (leave|come|be had|go)\b
\b(is|are) no (verdict|figure|word|key|text|number)\b
\bcould not be had\b
\bdearer\b
\bthe like of\b
\bto be doubted\b
^#+ again$
\bevery so often\b
\bdoors\b
\band so tells\b
\bleaves it to\b
_is_told\b
\bkernel_name_look\b
\bkeeper\b
\ba thing of\b
\bof no (use|window|avail)\b
\bout of the world\b
\bmakes? no sense\b
\bfor want of\b
\bwhere there is none\b
\blast words\b
\btaken for\b
\b(lies|lie) beside\b
\b(belongs?|counts?) (to|in|for) no\b
\bare no (tensors|lengths|products)\b
\b(do|does) not hold\b
\bwhat the hardware allows\b
\bno implementation (is|can be) faster\b
\b(held|stopped) for good\b
\bnot ours any more\b
\bnobody (reads|uses|knows|prints)\b
\bcharged (its|the whole)\b
\b(products|launches|kernels|blocks|bytes) a (token|step|second|launch|kernel|multiprocessor|pass)\b
\b(one|once|two) a (line|kernel|token|file|folder|row|run|launch|layer|step|second|process|core)\b
END
if grep -noiHE -f "$tmp/phrases" "$@" >"$tmp/found"; then
    sed 's/$/: write it in plain English/' "$tmp/found" >&2
    bad=1
fi
# "who" is for people.
if grep -noiHP "(?<!user )(?<!users )(?<!people )(?<!person )\\bwho (?!oil)[a-z]+\\b" "$@" >"$tmp/found"; then
    sed 's/$/: write it in plain English/' "$tmp/found" >&2
    bad=1
fi
exit $bad
