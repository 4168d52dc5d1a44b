#!/bin/sh
# inferprof digest and merge: simulated jobs with known times and clocks, and inputs that are not one job.
# shellcheck source=tests/cli/lib.sh
. tests/cli/lib.sh
top=$PWD
make_ranks=$top/$BUILD/tests/make_ranks
cd "$work" || exit 1

# simulate DIR key=value...
simulate() { "$make_ranks" "$@" || not_ok "make_ranks $*" "failed"; }
# merge OPERAND...: into the folder job, without the output of an earlier merge
merge() {
    rm -rf job
    run "$INFERPROF" merge "$@" --output job
}

# ---- times
simulate two ranks=8 per_node=4 steps=20 layers=4 offset_ms=50 drift_ppm=30 slow=5 slow_percent=10 hide=0.3
merge two
expect "a job on two nodes is merged" 0 out "^8 of 8 ranks on 2 nodes; 180 matched collectives"
check "computation and exposed communication of every rank are those simulated" \
    python3 "$top/tests/tools/check_ranks.py" two/truth.json job/digest
check "digests are valid by their schema" python3 "$top/tests/tools/validate_json.py" job/digest/*.json
# the sum of waiting over all ranks, in percent of their time, from truth.json
expect "the slow rank is the straggler, because of its kernels" 0 out "^straggler: rank 5, .*reason: slower kernels" \
    out "the same kernels with the same grids take [0-9.]+% longer"
python3 - two/truth.json "$work/out" >"$work/waits" <<'END'
import json, re, sys
truth = json.load(open(sys.argv[1]))
line = [l for l in open(sys.argv[2]) if l.startswith("time of all ranks")][0]
share = lambda what: float(re.search(what + r" ([0-9.]+)%", line)[1])
compute, wait, move = share("compute"), share("waiting for other ranks"), share("moving bytes")
scale = compute / sum(r["compute_ns"] for r in truth)
want_wait = scale * sum(r["wait_ns"] for r in truth)
want_move = scale * sum(r["exposed_ns"] - r["wait_ns"] for r in truth)
print(wait, want_wait, move, want_move)
sys.exit(0 if abs(wait - want_wait) < 0.15 and abs(move - want_move) < 0.15 else 1)
END
check "waiting and moving are those simulated" test $? -eq 0
check "the clock of the other node is fitted to better than 5 us" python3 - two/truth.json "$work/out" <<'END'
import json, re, sys
truth = {r["node"]: r for r in json.load(open(sys.argv[1]))}
line = [l for l in open(sys.argv[2]) if l.startswith("clock of node1")][0]
assert "collectives" in line, line
value, unit, error, error_unit = re.search(r"offset (-?[0-9.]+) (\w+),.*error ([0-9.]+) (\w+)", line).groups()
scale = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
assert abs(float(value) * scale[unit] - truth[1]["clock_offset_ns"]) < 0.005 * abs(truth[1]["clock_offset_ns"]), line
assert float(error) * scale[error_unit] < 5000, line
END

simulate lazy ranks=4 per_node=4 steps=20 lazy=2 lazy_us=40
merge lazy
expect "a rank that launches later is named with this reason" 0 out "^straggler: rank 2, .*reason: later launches"
simulate busy ranks=4 per_node=4 steps=20 busy=1 busy_percent=20
merge busy
expect "a rank with more tokens is named with this reason" 0 out "^straggler: rank 1, .*reason: more tokens"
simulate throttled ranks=8 per_node=4 steps=20 slow=6 slow_percent=10 power=1 throttled=6
merge throttled
expect "a rank with a lower clock is named with this reason; the power is in one file per node" 0 \
    out "^straggler: rank 6, .*reason: throttled clocks" out "SM clock 1386 MHz \(typical rank: 1980 MHz\)"
check "the power of a node is saved once" test "$(find job/trace -name '*nvml*' | wc -l)" -eq 2
run "$INFERPROF" digest throttled --output throttled_digests --part 1/2
check "a part of the job finds the power, too" json_is throttled_digests/rank-00001.digest.json 'd["sm_mhz_mean"]' 1980
simulate cool ranks=4 per_node=4 steps=20 slow=2 slow_percent=10 power=1
merge cool
expect "with the same clock, only its kernels are slower" 0 out "^straggler: rank 2, .*reason: slower kernels"
simulate experts ranks=4 per_node=4 steps=20 experts=1 experts_percent=30
merge experts
expect "a rank with more work in its experts is named with this reason" 0 \
    out "^straggler: rank 1, .*reason: more work in its experts" out "its expert kernels take (29|30)\.[0-9]% longer"
simulate slow_moe ranks=4 per_node=4 steps=20 experts=9 slow=1 slow_percent=15
merge slow_moe
expect "in a model with experts, the reason of a slow GPU is its kernels, not its experts" 0 out "^straggler: rank 1, .*reason: slower kernels"
simulate extra ranks=4 per_node=4 steps=20 extra=3 extra_kernels=2
merge extra
expect "a rank with more kernels is named with this reason" 0 out "^straggler: rank 3, .*reason: more or larger kernels"
simulate late ranks=4 per_node=4 steps=20 late=3 late_steps=8 slow=3 slow_percent=10
merge late
expect "a rank that started late is named, and is compared per step" 0 err "The first record of rank 3 is later" \
    out "^straggler: rank 3, .*reason: slower kernels"
run "$INFERPROF" report -q late
check "its first step is the ninth step of the job" python3 - late/ranks.json <<'END'
import json, sys
steps = json.load(open(sys.argv[1]))["steps"][0]
late = [row[3] for row in steps["compute_ns"]]
print(late)
sys.exit(0 if all(v is None for v in late[:8]) and all(v for v in late[8:20]) else 1)
END
simulate even ranks=4 per_node=4 steps=20
merge even
expect "without a slow rank there is no straggler" 0 out "^4 of 4 ranks on 1 node"
check "no straggler is printed" lacks straggler "$work/out"

# ---- a second implementation
run "$INFERPROF" import -q --no-report "$top/tests/data/kineto/hta_rank0_a100.json.gz" \
    "$top/tests/data/kineto/hta_rank1_a100.json.gz" -o real
simulate hidden ranks=4 per_node=4 steps=6 layers=2 slow=2 slow_percent=15 hide=0.3
for job in two hidden real; do
    check "the oracle computes the same times: $job" python3 "$top/tests/oracle/rank_time.py" "$INFERPROF" "$job" oracle
done

# ---- missing and dead ranks
simulate hole ranks=4 per_node=2 steps=10 missing=2 killed=1
merge hole
expect "missing and dead ranks are named, and the job is merged without them" 0 out "^3 of 4 ranks" \
    err "There is no trace of rank 2" err "The trace of rank 1 was not closed"

mkdir -p hole/ranks && echo '{"rank": 1}' >hole/ranks/rank-1.json
merge hole
check "the files about the ends of the ranks are kept" test -e job/ranks/rank-1.json

# ---- digests
run "$INFERPROF" digest two --output parts --part 0/2
expect "digest reads its part of the traces" 0
check "half of the ranks are in a part of two" test "$(find parts -name '*.digest.json' | wc -l)" -eq 4
run "$INFERPROF" digest two --output parts --part 1/2
check "the other part has the other ranks" test "$(find parts -name '*.digest.json' | wc -l)" -eq 8
mpi_options="--oversubscribe --bind-to none --mca plm isolated --mca btl self,vader"
[ "$(id -u)" = 0 ] && mpi_options="$mpi_options --allow-run-as-root"
# shellcheck disable=SC2086 # the options are words
if mpirun $mpi_options -np 2 true >mpi.out 2>&1; then
    # shellcheck disable=SC2086
    run env OMPI_MCA_rmaps_base_oversubscribe=1 mpirun $mpi_options -np 3 "$INFERPROF" digest two --output mpi
    expect "mpirun -np 3 inferprof digest" 0
    check "each process has read its share of the traces" test "$(grep -c collectives "$work/out")" -eq 8
    check "all ranks have a digest" test "$(find mpi -name '*.digest.json' | wc -l)" -eq 8
else
    skip "mpirun inferprof digest" "mpirun does not run here: $(tail -n 1 mpi.out)"
fi
for i in 0 1 2; do OMPI_COMM_WORLD_RANK=$i OMPI_COMM_WORLD_SIZE=3 "$INFERPROF" digest two --output shared >>shared.out || echo failed >>shared.out; done
check "under a launcher, each process takes its share of the traces" test "$(grep -c collectives shared.out)" -eq 8
check "together they make all digests" test "$(find shared -name '*.digest.json' | wc -l)" -eq 8
merge two && grep -E "^(8|time|straggler)" "$work/out" >from_traces
merge parts && grep -E "^(8|time|straggler)" "$work/out" >from_digests
check "digests give the same figures as traces" diff from_traces from_digests
run "$INFERPROF" digest two
expect "digest writes into the run folder by default" 0 out "^two/digest/rank-00007.digest.json: "
run "$INFERPROF" merge two --output job2
expect "digests in a folder are used instead of its traces" 0 out "^8 of 8 ranks"

# ---- inputs that are not one job
simulate other ranks=4 per_node=4 steps=2 seed=2
merge two other
expect "different world sizes are refused" 1 err "two/.* has world size 8, but other/.* has world size 4"
simulate third ranks=8 per_node=4 steps=2 seed=3
merge two/node0-1000.ipt third/node1-1004.ipt
expect "different jobs are refused" 1 err "has job simulated-1, but third/.* has job simulated-3"
cp two/node0-1000.ipt again.ipt
merge two/node0-1000.ipt again.ipt
expect "two traces of the same rank are refused" 1 err "two traces of rank 0 have GPU work: two/node0-1000.ipt and again.ipt"
mkdir -p damaged && cp parts/*.json damaged && printf '{"schema":"inferprof.digest/1","rank":3}' >damaged/rank-00003.digest.json
merge damaged
expect "a damaged digest is named and left out" 0 out "^7 of 8 ranks" err "rank-00003.digest.json: damaged digest"
mkdir -p empty && merge empty
expect "a folder without traces is refused" 1 err "empty: contains neither traces"
run "$INFERPROF" merge two --output two
expect "merge does not write into a folder with files" 1 err "two: exists and is not an empty folder"
merge nowhere
expect "a missing operand is named" 1 err "nowhere: no such folder, trace or digest"
run "$INFERPROF" digest two --part 2/2
expect "a part that does not exist is misuse" 2 err "is not I/N with I below N"

# ---- clocks that are set while the job runs
simulate stepped ranks=8 per_node=4 steps=20 step_us=200 offset_ms=5 drift_ppm=30
merge stepped
expect "a step of a clock is named with its ranks, its height and its error, and is removed" 0 \
    err "The clock of node node1 \(ranks 4 to 7\) was set forward by 200 us \(error [0-9.]+ ns\), 8.[0-9]+ ms after the start of the job: the step was removed from all times" \
    out "^clock of node1: collectives, offset .*, drift [-+][0-9.]+ us/s \(error [0-9.]+ us/s\)"
check "digests without the step are valid" python3 "$top/tests/tools/validate_json.py" job/digest/*.json
run "$INFERPROF" digest stepped --output stepped_digests
rm -rf job && run "$INFERPROF" merge stepped_digests/*.json --output job
expect "digests whose traces are still there are made again without the step" 0 err "the step was removed"
mkdir -p moved && cp stepped_digests/*.json moved && mv stepped gone && rm -rf job && run "$INFERPROF" merge moved --output job
expect "without the traces, the step is named but stays" 0 err "set forward by 200 us .*Merge the traces to remove it"
simulate last_step ranks=6 per_node=2 steps=20 layers=4 offset_ms=80 drift_ppm=70 step_us=300 step_node=1 step_ms=15.6
merge last_step
expect "a step before the last two collectives is part of the stated error" 0 out "^clock of node1: .*remaining error 300 us" \
    err "2 matched collectives at the end of the job: on node node1, the end is 300 us later than its clock predicts"
simulate shared_clock ranks=2 per_node=2 steps=10 step_us=-200 step_node=0
merge shared_clock
expect "a backward step of the only clock is noticed" 0 err "Rank 1: [0-9]+ records end before they start .*its clock was set back"
check "times of 6 clusters with skewed, drifting and stepped clocks are within 5 us" \
    python3 "$top/tests/tools/step_sweep.py" "$make_ranks" "$INFERPROF" 6
