#!/bin/sh
# The pages of inferprof serve in a real browser: every page in light and dark, on a phone, printed; keys and links.
. tests/cli/lib.sh
. tests/cli/browser_lib.sh
browser_or_skip "the browser shows the pages of the server"
timeout 280 python3 tests/browser/serve_pages.py "$browser" "$work/runs" ${SCREENSHOTS:+--screenshots "$SCREENSHOTS"} >"$work/tap" 2>"$work/trace"
cat "$work/tap"
[ -s "$work/trace" ] && not_ok "the browser shows the pages of the server" "$(tail -n 5 "$work/trace" | tr '\n' '~')"
check "every check of the pages ran" grep -q 'pages work without scripts' "$work/tap"
