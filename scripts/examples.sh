#!/bin/sh
# examples.sh [--check]: writes the reports in docs/examples again, from the traces and metrics.json.gz in their folders.
# --check compares the texts, and the headings and styles of the pages, with the committed files instead. Environment: INFERPROF (default:
# build/inferprof).
set -eu
cd "$(dirname "$0")/.."
inferprof=${INFERPROF:-build/inferprof}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
differ=0

# headings FILE: prints the titles of sections, columns, tabs and figures of a page
headings() {
    grep -oE '<(h[1-4]|th|dt|nav|a href="#)[^>]*>[^<]*(<button[^>]*>[^<]*)?' "$1" | sed 's/<[^>]*>//g'
}

# everything FOLDER: prints what --check compares
everything() {
    cat "$1/screen.txt" "$1/report.md" "$1/stakeholder_summary.md"
    headings "$1/report.html"
    sed -n '/<style>/,/<\/style>/p' "$1/report.html"
}

# compare EXAMPLE: compares the new files in $work/out with the committed ones
compare() {
    everything "$1" >"$work/old"
    everything "$work/out" >"$work/new"
    if ! diff "$work/old" "$work/new" >"$work/diff"; then
        echo "the report in $1 differs from that of this build; run: sh scripts/examples.sh"
        cut -c 1-160 "$work/diff" | head -n 6
        differ=1
    fi
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
