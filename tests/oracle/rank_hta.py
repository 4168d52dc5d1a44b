#!/usr/bin/env python3
"""rank_hta.py DIGEST_FOLDER RANK=TRACE.json.gz...: compares digests with Holistic Trace Analysis (Meta, from PyPI) on
the same torch.profiler traces. Start it with a Python that has hta installed (tests/bench/hta.sh makes build/hta).
Equal: compute time, exposed communication + copies, and the share of communication that computation hides."""
import json
import logging
import sys

logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis  # noqa: E402

files = {int(rank): path for rank, path in (a.split("=", 1) for a in sys.argv[2:])}
analysis = TraceAnalysis(trace_files=files, trace_dir="", include_last_profiler_step=True)
overlap = analysis.get_comm_comp_overlap(visualize=False).set_index("rank")
breakdown = analysis.get_temporal_breakdown(visualize=False).set_index("rank")
bad = 0
for rank in files:
    d = json.load(open(f"{sys.argv[1]}/rank-{rank:05}.digest.json", encoding="utf-8"))
    top = [s for s in d["stages"] if s["parent"] is None]
    total = {k: sum(s[k] for s in top) for k in ("compute_ns", "exposed_ns", "copy_ns")}
    rows = (("compute, us", total["compute_ns"] / 1e3, breakdown.loc[rank, "compute_time(us)"], 1),
            ("exposed + copies, us", (total["exposed_ns"] + total["copy_ns"]) / 1e3,
             breakdown.loc[rank, "non_compute_time(us)"], 1),
            ("hidden communication, %", 100 * d["hidden_ns"] / (d["hidden_ns"] + total["exposed_ns"]),
             overlap.loc[rank, "comp_comm_overlap_pctg"], 0.01))
    for what, ours, theirs, limit in rows:
        good = abs(ours - theirs) <= limit
        bad += not good
        print(f"rank {rank}: {what}: inferprof {ours:.2f}, HTA {theirs:.2f}{'' if good else '  DIFFERENT'}")
sys.exit(1 if bad else 0)
