#!/bin/sh
# examples.sh [--check]: writes the reports in docs/examples again, from the traces and metrics.json.gz in their folders.
# --check compares them with the committed files instead, and prints the names of files that differ. Styles and
# scripts inside report.html are not compared. Environment: INFERPROF (default: build/inferprof).
set -eu
cd "$(dirname "$0")/.."
inferprof=${INFERPROF:-build/inferprof}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
differ=0

# without_code FILE: prints the page without styles and scripts, one tag per line
without_code() {
    python3 -c '
import re, sys
with open(sys.argv[1], encoding="utf-8") as f:
    text = re.sub(r"<(script|style)\b.*?</\1>", "", f.read(), flags=re.S)
print(text.replace("<", "\n<"))' "$1"
}

# compare EXAMPLE: compares the new files in $work/out with the committed ones
compare() {
    for file in report.html report.md screen.txt stakeholder_summary.md; do
        if [ "$file" = report.html ]; then
            without_code "$work/out/$file" >"$work/new"
            without_code "$1/$file" >"$work/old"
        else
            cp "$work/out/$file" "$work/new"
            cp "$1/$file" "$work/old"
        fi
        diff "$work/old" "$work/new" >"$work/diff" && continue
        echo "$1/$file differs from the report of this build; run: sh scripts/examples.sh"
        cut -c 1-160 "$work/diff" | head -n 6
        differ=1
    done
}

for metrics in docs/examples/*/metrics.json.gz; do
    example=$(dirname "$metrics")
    rm -rf "$work/run" "$work/out"
    mkdir "$work/run"
    cp -r "$example/trace" "$work/run/"
    gzip -dc "$metrics" >"$work/run/metrics.json"
    "$inferprof" report -q --slim "$work/run" -o "$work/out" >"$work/screen.txt"
    mv "$work/screen.txt" "$work/out/"
    if [ "${1-}" = --check ]; then
        compare "$example"
        continue
    fi
    rm -rf "$example/charts"
    (cd "$work/out" && cp -r report.html report.md stakeholder_summary.md charts screen.txt "$OLDPWD/$example/")
    gzip -9nc "$work/out/metrics.json" >"$metrics"
    echo "$example"
done
exit "$differ"
