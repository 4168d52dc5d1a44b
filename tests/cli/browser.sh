#!/bin/sh
# Opens report.html in a real browser (Debian's chromium, headless): a small report, and one with 240,000 slices.
. tests/cli/lib.sh
. tests/cli/browser_lib.sh
browser_or_skip "the browser shows the report"
mkdir -p "$work/small/trace" "$work/large/trace"
"$PWD/$BUILD/tests/make_run" "$work/small/trace/a.ipt" 12 40
"$INFERPROF" report -q "$work/small" >/dev/null
timeout 200 python3 tests/browser/drive.py "$browser" "$work/small/report.html" || not_ok "the browser loads the small report"
timeout 100 python3 tests/browser/perfetto_handover.py "$browser" "$work/small/report.html" || not_ok "the timeline is handed to Perfetto"

"$PWD/$BUILD/tests/make_ranks" "$work/ranks" ranks=4 per_node=2 steps=6 layers=2 slow=3 slow_percent=20 move_ns=5000 >/dev/null
"$INFERPROF" report -q "$work/ranks" -o "$work/job" >/dev/null
timeout 100 python3 tests/browser/drive.py "$browser" "$work/job/ranks.html" --ranks || not_ok "the browser loads the page of ranks"

"$PWD/$BUILD/tests/make_run" "$work/large/trace/a.ipt" 300 400
"$INFERPROF" report -q "$work/large" >/dev/null
check "a page with 240,000 slices stays under 5 MB" test "$(wc -c <"$work/large/report.html")" -lt 5000000
check "a page with 240,000 slices states that it draws a window" grep -q "Window: .* of .* slices" "$work/large/report.html"
check "the window holds 40,000 to 100,000 slices" python3 -c '
import json, re, sys
page = open(sys.argv[1], encoding="utf-8").read()
data = json.loads(re.search(r"id=\"timeline-data\">(.*?)</script>", page, re.S).group(1))
n = sum(len(t["s"]) for t in data["tracks"])
assert 40000 <= n <= 100000, n' "$work/large/report.html"
timeout 200 python3 tests/browser/drive.py "$browser" "$work/large/report.html" >"$work/large.tap" || not_ok "the browser loads the large report"
sed 's/^\(not \)\{0,1\}ok - /&large: /' "$work/large.tap"
check "category colors differ, also for color-blind readers and in grey print" \
    python3 tests/tools/color_difference.py "$work/small/report.html" 15
