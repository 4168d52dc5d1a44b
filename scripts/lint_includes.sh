#!/bin/sh
# Checks the direction of includes: a folder of src/ may only include from the folders in its row (docs/architecture.md).
set -eu
root=${1:-src}
allowed() {
    case $1 in
    base) echo "base" ;;
    driver) echo "base driver" ;;
    trace) echo "base trace" ;;
    collect) echo "base trace collect" ;;
    counters) echo "base trace driver counters" ;;
    timeline) echo "base trace timeline" ;;
    llm) echo "base llm" ;;
    conf) echo "base conf" ;;
    import) echo "base trace import" ;;
    engine) echo "base trace llm driver engine" ;;
    session) echo "base trace conf llm driver session" ;;
    analyze) echo "base trace timeline llm analyze" ;;
    ranks) echo "base trace timeline llm analyze ranks" ;;
    run) echo "base trace timeline llm conf engine session analyze ranks run" ;;
    report) echo "base trace timeline llm analyze ranks run report" ;;
    history) echo "base run history" ;;
    serve) echo "base session run report history serve" ;;
    cmd) echo "base trace timeline llm conf import engine session analyze ranks run report history serve cmd gen" ;;
    main) echo "base cmd" ;;
    *) echo "" ;;
    esac
}
# Sub-folders that have an order of their own. "engine" is the files directly in src/engine.
# A folder that is not listed here may include anything its parent may.
allowed_sub() {
    case $1 in
    engine/compute) echo "engine/compute" ;;
    engine/image) echo "engine/image" ;;
    engine/tokenizer) echo "engine/tokenizer" ;;
    engine/sampling) echo "engine/sampling" ;;
    engine/record) echo "engine/compute engine/record" ;;
    engine/ops) echo "engine/compute engine/record engine/ops" ;;
    engine/weights) echo "engine/compute engine/ops engine/weights" ;;
    engine/decoder) echo "engine/compute engine/record engine/ops engine/weights engine/decoder" ;;
    engine/vision) echo "engine/compute engine/record engine/ops engine/weights engine/image engine/tokenizer engine/vision" ;;
    engine/ocr) echo "engine/compute engine/record engine/ops engine/weights engine/image engine/tokenizer engine/vision engine/ocr" ;;
    engine) (cd "$root" && printf '%s\n' engine engine/*/) | sed -e 's|/$||' -e '/protocol$/d' | tr '\n' ' ' ;;
    engine/protocol) echo "engine engine/record engine/protocol" ;;
    engine/*) echo "engine/compute engine/ops $1" ;; # a backend
    *) echo "" ;;
    esac
}
check_sub() { # file folder
    may=$(allowed_sub "$2")
    [ -n "$may" ] || return 0
    # shellcheck disable=SC2013
    for to in $(sed -n 's/^ *# *include *"\([^"]*\)\/[^"\/]*".*/\1/p' "$1" | grep "^${2%%/*}\(/\|\$\)" | sort -u); do
        case " $may " in
        *" $to "*) ;;
        *) echo "$1: includes from $to/, but $2/ may use only: $may" >&2; bad=1 ;;
        esac
    done
}
bad=0
for f in $(find "$root" -name '*.[ch]' | sort); do
    rel=${f#"$root"/}
    case $rel in */*) from=${rel%%/*} ;; *) from=main ;; esac
    may=$(allowed "$from")
    if [ -z "$may" ]; then
        echo "$f: folder '$from' is not in scripts/lint_includes.sh" >&2
        bad=1
        continue
    fi
    # shellcheck disable=SC2013
    for to in $(sed -n 's/^ *# *include *"\([^"/]*\)\/.*/\1/p' "$f" | sort -u); do
        case " $may " in
        *" $to "*) ;;
        *) echo "$f: includes from $to/, but $from/ may use only: $may" >&2; bad=1 ;;
        esac
    done
    case $rel in */*) check_sub "$f" "${rel%/*}" ;; esac
    if grep -n '^ *# *include *"[^/"]*"' "$f" >&2; then
        echo "$f: include by path from src/, as \"base/err.h\"" >&2
        bad=1
    fi
done
exit $bad
