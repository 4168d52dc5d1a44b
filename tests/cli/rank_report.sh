#!/bin/sh
# The report and the exports of a job of several ranks: simulated jobs with known findings.
# shellcheck source=tests/cli/lib.sh
. tests/cli/lib.sh
top=$PWD
make_ranks=$top/$BUILD/tests/make_ranks
cd "$work" || exit 1

# simulate DIR key=value...
simulate() { "$make_ranks" "$@" || not_ok "make_ranks $*" "failed"; }
# finds NAME DIR EXPRESSION VALUE: the value of an expression over ranks.json, f: findings by rule
finds() {
    python3 - "$2/ranks.json" "$3" "$4" >"$work/log" 2>&1 <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
f = {x["rule"]: x for x in d["findings"]}
got = eval(sys.argv[2])
print(got)
sys.exit(0 if str(got) == sys.argv[3] else 1)
END
    check "$1: $(tr '\n' ' ' <"$work/log")" test $? -eq 0
}

# ---- a slow GPU
simulate slow ranks=8 per_node=4 steps=20 layers=6 offset_ms=20 drift_ppm=20 slow=5 slow_percent=20 move_ns=5000
run "$INFERPROF" report slow -o slow-report
expect "a job of several ranks has a summary of its ranks" 0 out '^8 of 8 ranks with data on 2 nodes' out '^layout: tp 4, pp 1, dp 2 .from the communicators' \
    out 'all ranks wait for rank 5: its kernels are slower' err 'ranks.html'
finds "the slow GPU is found" slow-report '(f["slow-gpu"]["rank"], d["straggler"]["reason"])' "(5, 'slower kernels')"
# 6 layers of 8 kernels of 20 us, 20% longer: 192 us per step
finds "its saving is what its kernels take longer" slow-report 'abs(f["slow-gpu"]["saving_ms_per_step"] - 0.192) < 0.01' True
finds "savings of a stage do not exceed its step" slow-report 'sum(x["saving_ms_per_step"] for x in f.values()) <= f["slow-gpu"]["step_ms"]' True
check "ranks.json is valid" python3 "$top/tests/tools/validate_json.py" slow-report/ranks.json
check "ranks.html has heat map, skew and timeline of three ranks" \
    sh -c 'grep -q "Time per step by rank and stage" slow-report/ranks.html && grep -q "slowest, median and fastest" slow-report/ranks.html && grep -q ">slowest<" slow-report/ranks.html'
check "every heading of ranks.html explains itself" sh -c '! grep -oE "<th( [^>]*)?>" slow-report/ranks.html | grep -v title='
check "report.md does not advise to overlap what is waiting for other ranks" \
    sh -c 'grep -q "ranks communicate or wait for other ranks for " slow-report/report.md && grep -q "See the findings of ranks.md" slow-report/report.md && ! grep -q "Overlap it with" slow-report/report.md'
check "report.html links the report of the ranks" grep -q '<a href="ranks.html">Ranks</a>' slow-report/report.html
check "ranks.md has a table per node and the heat map as numbers" \
    sh -c 'grep -q "^| node0" slow-report/ranks.md && grep -q "Compute / waiting / moving / idle" slow-report/ranks.md'
finds "each rank has its place in the layout" slow-report '[(r["tp"], r["dp"]) for r in d["ranks"]][5]' '(1, 1)'

"$INFERPROF" stats --json slow >slow-stats.json
check "stats has the delays and matched collectives of the report" python3 - slow-stats.json slow-report/ranks.json <<'END'
import json, sys
s, r = (json.load(open(f)) for f in sys.argv[1:])
assert len(s["ranks"]) == 8 and all(abs(x["late_ms"] * 1e6 - y["late_ns"]) < 1e-3 for x, y in zip(s["ranks"], r["ranks"]))
assert s["together"]["matched_collectives"] == r["matched"] > 0 and s["together"]["skew_mean_ms"] > 0
END

# five nodes: the ranks of a late node arrive together, and only the slow one of them is late because of itself
simulate nodes ranks=40 per_node=8 steps=8 layers=3 move_ns=8000 offset_ms=300 drift_ppm=60 slow=33 slow_percent=25
run "$INFERPROF" report -q nodes -o nodes-report
finds "a slow GPU is found among 40" nodes-report '(f["slow-gpu"]["rank"], d["straggler"]["reason"])' "(33, 'slower kernels')"

# ---- other findings, and none
check "ranks.md has the timeline of three ranks" sh -c 'grep -q "^rank 5 *slowest *[#=.]\{100\}$" slow-report/ranks.md'
check "ranks.json has it: all three ranks leave the collective of the job at the same time" python3 - slow-report/ranks.json <<'END'
import json, sys
t = json.load(open(sys.argv[1]))["timeline"]
ends = [[e for e, c in zip(r["end_ns"], r["communication"]) if c] for r in t["ranks"]]
print([(r["rank"], r["role"]) for r in t["ranks"]], [len(e) for e in ends])
together = [a for a in ends[0] if all(any(abs(a - b) < 2000 for b in lane) for lane in ends[1:])]
sys.exit(0 if len(t["ranks"]) == 3 and t["ranks"][0]["rank"] == 5 and together else 1)
END

simulate quiet ranks=4 per_node=4 steps=10 layers=6 move_ns=1000
run "$INFERPROF" report -q quiet -o quiet-report
finds "a balanced job has no finding" quiet-report 'sorted(f)' '[]'
simulate exposed ranks=4 per_node=4 steps=10 layers=6 move_ns=60000 noise=0
run "$INFERPROF" report -q exposed -o exposed-report
finds "exposed communication is found" exposed-report 'sorted(f)' "['exposed-communication']"
finds "its saving is the time that moves bytes" exposed-report 'abs(f["exposed-communication"]["saving_ms_per_step"] - 6 * 0.060) < 0.02' True
simulate lazy ranks=4 per_node=4 steps=10 layers=6 move_ns=1000 lazy=2 lazy_us=60
run "$INFERPROF" report -q lazy -o lazy-report
finds "a host that launches later is found" lazy-report '(sorted(f), f["slow-host"]["rank"])' "(['slow-host'], 2)"
simulate busy ranks=4 per_node=4 steps=10 layers=6 move_ns=1000 busy=1 busy_percent=30
run "$INFERPROF" report -q busy -o busy-report
finds "a rank with more tokens is found" busy-report '(sorted(f), f["token-imbalance"]["rank"])' "(['token-imbalance'], 1)"

# in every step another rank has 40% larger kernels: 6 x 8 kernels of 20 us
simulate tokens ranks=4 per_node=4 steps=12 layers=6 move_ns=1000 noise=0 rotate_percent=40 rotate_tokens=1
run "$INFERPROF" report -q tokens -o tokens-report
finds "uneven sequence lengths are found" tokens-report '(sorted(f), f["token-imbalance"]["rank"])' "(['token-imbalance'], None)"
# the slowest rank needs 384 us more than the others, and 3/4 of that more than the mean
finds "their saving is the slowest rank above the mean" tokens-report 'abs(f["token-imbalance"]["saving_ms_per_step"] - 0.75 * 0.384) < 0.01' True
simulate experts ranks=4 per_node=4 steps=12 layers=6 move_ns=1000 noise=0 rotate_percent=40 exchange=1
run "$INFERPROF" report -q experts -o experts-report
finds "uneven experts are found in a job with an all-to-all" experts-report '(sorted(f), d["layout"]["ep"])' "(['expert-imbalance'], 4)"
simulate link ranks=8 per_node=2 steps=10 layers=6 noise=0 slow_link=2 link_percent=150 hide=0
run "$INFERPROF" report -q link -o link-report
finds "a slow link is found" link-report '("ranks 4 to 5" in f["slow-link"]["title"], f["slow-link"]["confidence"])' "(True, 'high')"
# 6 collectives of 75 us instead of 30 us
finds "its saving is what its collectives take longer" link-report 'abs(f["slow-link"]["saving_ms_per_step"] - 6 * 0.045) < 0.02' True
simulate pipe ranks=4 per_node=4 steps=10 layers=2 move_ns=10000 pipeline=1
run "$INFERPROF" report -q pipe -o pipe-report
finds "pipeline bubbles are found" pipe-report '(sorted(f)[-1], d["layout"]["pp"])' "('pipeline-bubbles', 4)"
finds "no rank of a pipeline is blamed for the order of its stages" pipe-report '(sorted(f), d["straggler"]["rank"])' "(['pipeline-bubbles'], None)"
# a stage works 16 x 21 us and moves 2 x 10 us in a step of 4 x (16 x 21 + 10) us
finds "their saving is what the busiest stage waits" pipe-report \
    'abs(f["pipeline-bubbles"]["saving_ms_per_step"] - (4 * 0.346 - 0.356)) < 0.03' True

# An imported pipeline of three ranks in one group: each computes 100 us and sends 10 us; receives start with the step.
# Events name the other end as PyTorch does; with a second argument they do not.
make_kineto() {
    python3 - "$@" <<'END'
import json, os, sys
os.mkdir(sys.argv[1])
for rank in range(3):
    events, counter = [], [0]
    def kernel(name, ts, dur, **args):
        counter[0] += 1
        args = dict(device=0, stream=7, grid=[1, 1, 1], block=[32, 1, 1], correlation=counter[0], **args)
        events.append(dict(ph="X", cat="cuda_runtime", name="cudaLaunchKernel", pid=9, tid=1, ts=ts - 0.5, dur=0.2, args={"correlation": counter[0]}))
        events.append(dict(ph="X", cat="kernel", name=name, pid=0, tid=7, ts=ts, dur=dur, args=args))
    def pair(name, ts, dur, **other):
        group = {"Process Group Name": "pp", "Process Group Description": "mesh_pp", "Process Group Ranks": "[0, 1, 2]"}
        kernel("ncclDevKernel_SendRecv", ts, dur, **{"Collective name": name, "Group size": 3, "dtype": "BFloat16", "Seq": counter[0],
               "In msg nelems": 4096, "Out msg nelems": 4096}, **group, **(other if len(sys.argv) < 3 else {}))
    for step in range(6):
        begin = 1000 + 400 * step
        events.append(dict(ph="X", cat="user_annotation", name="decode", pid=9, tid=1, ts=begin - 1, dur=390))
        if rank: pair("recv", begin, rank * 110, **{"Src Rank": rank - 1})
        kernel("layer", begin + rank * 110, 100)
        if rank < 2: pair("send", begin + rank * 110 + 100, 10, **{"Dst Rank": rank + 1})
    info = {"backend": "nccl", "rank": rank, "world_size": 3}
    json.dump({"distributedInfo": info, "traceEvents": events, "baseTimeNanoseconds": 10**18}, open(f"{sys.argv[1]}/rank{rank}.json", "w"))
END
}
make_kineto ends && "$INFERPROF" import -q --no-report ends/*.json -o ends.run && run "$INFERPROF" report -q ends.run -o ends-report
# the receives of ranks 1 and 2 wait 100 and 210 us per step and move 10 us
finds "sends and receives of an imported trace are matched" ends-report \
    '(d["matched"], [round(r["wait_ns"] / 6000) for r in d["ranks"]])' '(12, [0, 100, 210])'
make_kineto open unknown && "$INFERPROF" import -q --no-report open/*.json -o open.run && run "$INFERPROF" report -q open.run -o open-report
finds "the waiting of receives that are not matched is unknown" open-report \
    '([r["wait_ns"] for r in d["ranks"]], any("is not part of it" in x["evidence"] for x in f.values()))' '([None, None, None], False)'

# ---- links, layouts, models
run "$INFERPROF" report -q slow -o slow-report --link nvlink4 --net ndr
# 8 MB over 4 GPUs in 5 us: faster than the link, which shows in the share
finds "the bus bandwidth is compared with the given link" slow-report \
    'sorted({(c["link"], c["link_bytes_per_s"]) for c in d["collectives"]})' "[('InfiniBand NDR', 200000000000), ('NVLink 4', 450000000000)]"
run "$INFERPROF" report -q slow -o slow-report
finds "an unknown link has no share" slow-report '{(c["link"], c["link_share"]) for c in d["collectives"]}' '{(None, None)}'
run "$INFERPROF" report -q busy -o busy-report --model "$top/tests/data/models/qwen3-8b.json" --peak-tflops 1000 --peak-gbps 4000
simulate kernels ranks=4 per_node=2 steps=6 collectives=0
run "$INFERPROF" report -q kernels -o kernels-report
finds "kernels without records do not show which ranks belong together: the layout is a dash" kernels-report \
    '(d["layout"]["source"], "give --tp" in d["layout"]["reason"])' "(None, True)"
simulate shared ranks=8 per_node=4 steps=11 layers=6 prompt=512
run "$INFERPROF" report -q shared -o shared-report --model "$top/tests/data/models/qwen3-8b.json" --tp 4
expect "a job with a model is reported" 0
"$INFERPROF" static "$top/tests/data/models/qwen3-8b.json" --tp 4 --gpu h200 --prompt-tokens 512 --context 518 --json >shared.json
check "every GPU is charged with its part of the model, as static counts it; the job with the mean" python3 - shared-report/ranks.json shared.json <<'END'
import json, sys
job, static = (json.load(open(p)) for p in sys.argv[1:])
part = static["parallel"]["stages"][0]
peak = static["gpu"]["peak_tflops"] * 1e12
for i, (stage, key) in enumerate((("prefill", "prefill"), ("decode", "decode_step"))):
    mfus, walls = [], []
    for rank in job["ranks"]:
        cell = rank["stages"][i]
        want = part[key]["flops"] * cell["occurrences"]
        assert abs(cell["flops"] / want - 1) < 1e-9, (stage, cell["flops"], want)
        assert abs(cell["mfu"] / (want / (cell["wall_ns"] * 1e-9) / peak) - 1) < 1e-6, (stage, cell["mfu"])
        mfus.append(cell["mfu"] * cell["wall_ns"])
        walls.append(cell["wall_ns"])
    assert abs(job["stages"][i]["mfu"] - sum(mfus) / sum(walls)) < 1e-9, stage
END
run "$INFERPROF" report -q shared -o told-report --model "$top/tests/data/models/qwen3-8b.json" --tp 2 --pp 2 --dp 2
expect "told sizes of all three kinds are placed in a stated order" 0 out 'numbered tp first, then dp, then pp'
finds "each rank has its pipeline stage, its replica and an MFU" told-report \
    '([(r["pp"], r["dp"]) for r in d["ranks"]][2::2], min(x["mfu"] for x in d["stages"][:2]) > 0)' "([(0, 1), (1, 0), (1, 1)], True)"
finds "decode without prompts has no known context, so no MFU" busy-report \
    '(d["no_costs"], d["stages"][0]["mfu"] is None)' "('the traces have no tokens of prefill and decode', True)"
run "$INFERPROF" report -q slow -o slow-report --tp 3
expect "a layout that contradicts the job is an error" 1 err 'do not make up the 8 ranks'
run "$INFERPROF" report -q slow -o slow-report --link nvlink77
expect "an unknown link is an error" 1 err 'no link'
run "$INFERPROF" report -q slow/node0-1000.ipt -o one --link nvlink4
expect "--link needs several ranks" 1 err 'several ranks'

# ---- digests only, missing ranks
run "$INFERPROF" merge slow --output merged
run "$INFERPROF" report -q merged -o merged-report
finds "a merged folder gives the same findings" merged-report 'f["slow-gpu"]["rank"]' 5
mkdir digests && cp merged/digest/* digests/
run "$INFERPROF" report -q digests -o digests-report
expect "digests alone are reported" 0
check "without traces there is no timeline" sh -c '! grep -q ">slowest<" digests-report/ranks.html'
rm slow/node0-1002.ipt
run "$INFERPROF" report slow -o missing-report
expect "a missing rank is named" 0 out '^7 of 8 ranks with data.* 1 missing' out 'caveat: .*2'

simulate alone ranks=2 per_node=1 steps=8 layers=3 slow=1 slow_percent=20
run "$INFERPROF" report -q alone -o alone-report
check "nobody waits in a communicator of one rank" python3 - alone-report/ranks.json alone/truth.json <<'END'
import json, sys
job, truth = (json.load(open(p)) for p in sys.argv[1:])
for r, t in zip(job["ranks"], truth):
    assert r["matched_share"] == 1 and abs(r["wait_ns"] - t["wait_ns"]) < 1000, (r, t)
END
simulate unknown ranks=2 per_node=1 steps=1 layers=1 slow=1 slow_percent=20
run "$INFERPROF" report -q unknown -o unknown-report
finds "clocks with an unknown error name no late rank" unknown-report \
    '(d["clock_error_ns"], d["straggler"]["rank"], [n["latest"] for n in d["nodes"]])' '(None, None, [None, None])'
cp unknown/node0-1000.ipt unknown/again.ipt
run "$INFERPROF" report unknown -o twice-report
expect "a rank with two traces is named" 0 err 'two traces of rank 0 have GPU work: .*again.ipt and .*node0-1000.ipt'

head -c 100 unknown/node1-1001.ipt >cut.ipt && cp cut.ipt unknown/again.ipt
run "$INFERPROF" report -q unknown -o cut-report
finds "a trace from which nothing could be read is named" cut-report 'any("again.ipt: nothing could be read" in p for p in d["problems"])' True
simulate linked ranks=4 per_node=2 steps=10 layers=6 noise=0 slow_link=1 link_percent=150 hide=0 move_ns=60000
run "$INFERPROF" report -q linked -o linked-report
# 6 collectives of 150 us instead of 60 us, and one of 60 us; all of 60 us with equal links
finds "exposed communication does not include what a slow link costs" linked-report \
    '(abs(f["slow-link"]["saving_ms_per_step"] - 6 * 0.09) < 0.03, abs(f["exposed-communication"]["saving_ms_per_step"] - 7 * 0.06) < 0.05)' '(True, True)'
finds "no rank of the slow link is a straggler" linked-report 'd["straggler"]["rank"]' None

# without the slow link, the job would still wait for rank 3: 48 kernels of 20 us, 15% longer
simulate both ranks=8 per_node=4 steps=10 layers=6 noise=0 slow=3 slow_percent=15 slow_link=1 link_percent=150 hide=0 move_ns=40000
run "$INFERPROF" report -q both -o both-report
finds "a saving ends at the next slowest group" both-report \
    '(abs(f["slow-link"]["saving_ms_per_step"] - (6 * 0.06 - 0.144)) < 0.02, "slow-gpu" in f)' '(True, False)'

# ---- exports on one clock
simulate clocks ranks=4 per_node=2 steps=5 offset_ms=50 drift_ppm=20 jitter_ns=200
run "$INFERPROF" export -q clocks --format chrome --output clocks.json
check "ranks are processes, and collectives end at the same time on all of them" python3 - clocks.json <<'END'
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
names = sorted(e["args"]["name"] for e in events if e.get("name") == "process_name")
assert [n for n in names if n.startswith("rank 3")] == ["rank 3 on node1", "rank 3: GPU 0 Simulated GPU"], names
ends = {}
for e in events:
    if e.get("cat") == "kernel" and e["name"].startswith("nccl"):
        ends.setdefault(e["pid"], []).append(e["ts"] + e["dur"])
last = [max(v) for v in ends.values()]
assert len(last) == 4 and max(last) - min(last) < 2, last
END
run "$INFERPROF" export -q clocks --output clocks.perfetto
python3 "$top/tests/tools/perfetto_check.py" clocks.perfetto >clocks.check
check "the Perfetto trace has the tracks of all ranks" grep -q '"kernel": 740' clocks.check
check "every process has one track of its stages" grep -q '"Stages": \[1, 1, 1, 1\]' clocks.check

# ---- comparison
simulate four ranks=4 per_node=4 steps=6
simulate slower ranks=4 per_node=4 steps=6 slow=2 slow_percent=40 seed=2
simulate eight ranks=8 per_node=8 steps=6
for job in four slower eight; do "$INFERPROF" report -q "$job" >/dev/null 2>&1; done
run "$INFERPROF" compare four slower
expect "two jobs are compared per step, whatever the number of ranks" 0 out '^decode +ms +0\.[78][0-9]* +(0\.9|1\.)[0-9]*.*slower'
run "$INFERPROF" compare four eight
expect "a different number of ranks is noted" 0 out 'device or number of ranks' out '^ranks +4 +8'
