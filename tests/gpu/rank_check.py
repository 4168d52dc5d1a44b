"""rank_check.py FILE: the collectives of two ranks, as JSON lines, fit together."""
import json
import sys

rows = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
reduces = [r for r in rows if r["op"] == 1 and r["bytes"] == 2 << 20]
ranks = {r: {x["sequence"]: x for x in reduces if x["rank"] == r} for r in (0, 1)}
print(f"{len(rows)} records, {len(reduces)} all-reduces, {[len(v) for v in ranks.values()]} by rank")
assert all(len(v) == 50 for v in ranks.values())
assert set(ranks[0]) == set(ranks[1]), "sequence numbers differ"
assert len({r["communicator"] for r in reduces}) == 1, "communicators differ"
assert all(r["flags"] & 1 for r in reduces), "kernel times are missing"
# An all-reduce cannot end on a rank before it has started on the other one. Both use one GPU and one host clock.
wrong = [s for s in ranks[0] if min(ranks[r][s]["kernel_end_ns"] for r in (0, 1)) < max(ranks[r][s]["kernel_start_ns"] for r in (0, 1)) - 50000]
print(f"{len(wrong)} of 50 end before the other rank starts (more than 50 us)")
assert not wrong
