#!/bin/sh
# Recording the ranks of a job: one run folder, with mpirun inside or outside; ranks that die, fail or never start; two nodes.
# shellcheck source=tests/cli/lib.sh
. tests/cli/lib.sh
top=$PWD
mock=$top/$BUILD/tests/mock
guests=$top/$BUILD/tests/guests
app=$mock/mock_app
export LD_LIBRARY_PATH="$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
cd "$work" || exit 1
work=$PWD
unset CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH NCCL_PROFILER_PLUGIN RANK WORLD_SIZE

# mpi N ARGS...: N processes on this machine, whatever its number of cores. A failing rank does not stop the others.
mpi_options="--oversubscribe --bind-to none --mca orte_abort_on_non_zero_status 0 --mca plm isolated --mca btl self,vader"
[ "$(id -u)" = 0 ] && mpi_options="$mpi_options --allow-run-as-root"
have_mpi=yes
# shellcheck disable=SC2086 # the options are words
mpirun $mpi_options -np 2 true >"$work/mpi.out" 2>&1 || have_mpi=
mpi() {
    n=$1
    shift
    # shellcheck disable=SC2086
    run env OMPI_MCA_rmaps_base_oversubscribe=1 mpirun $mpi_options -np "$n" "$@"
}
# traces DIR: the ranks in the names of the traces, in order
traces() { find "$1/trace" -name '*-rank*.ipt' | sed 's/.*-rank\([0-9]*\)-.*/\1/' | sort -n | tr '\n' ' '; }
meta() { "$INFERPROF" trace dump --kind meta "$1" | sed -n "s/.*key=\"$2\" value=\"\(.*\)\"/\1/p"; }

if [ -z "$have_mpi" ]; then
    skip "OpenMPI: 8 ranks" "mpirun does not run here: $(tail -n 1 "$work/mpi.out")"
else
    mpi 8 "$INFERPROF" run -o inner -- "$app" init push=decode kernels=20 pop
    expect "mpirun inferprof run: 8 ranks, one report" 0 err '^Kernels: 160'
    check "there is one trace per rank" test "$(traces inner)" = "0 1 2 3 4 5 6 7 "
    check "one rank reported, and the run is complete" sh -c '[ -s inner/report.md ] && [ -s inner/ranks/reported-by ] && [ ! -e inner/INCOMPLETE ]'
    check "power is sampled once per node" test "$(find inner/trace -name 'nvml*' | wc -l)" = 1
    check "the files of the ranks are valid" python3 "$top/tests/tools/validate_json.py" inner/ranks/*.json
    check "metrics.json has the ranks" json_is inner/metrics.json 'd["schema"]' inferprof.metrics/2
    mpi 8 "$INFERPROF" run -o inner -- "$app" init kernels=1
    check "a second job does not write into the folder" grep -q 'contains a finished run: choose another folder' err

    # shellcheck disable=SC2086
    run env "$INFERPROF" run -o outer -- mpirun $mpi_options -np 8 "$app" init push=decode kernels=20 pop
    expect "inferprof run -- mpirun: one report" 0 err '^Kernels: 160'
    check "the children are recorded, one trace per rank" test "$(traces outer)" = "0 1 2 3 4 5 6 7 "
    trace=$(echo outer/trace/*-rank5-*.ipt)
    check "a trace names rank, world size, local rank and launcher" \
        test "$(meta "$trace" rank),$(meta "$trace" world_size),$(meta "$trace" local_rank),$(meta "$trace" launcher)" = 5,8,5,openmpi

    # shellcheck disable=SC2016 # expanded by the shell of each rank
    mpi 4 sh -c 'a="init push=decode kernels=20 pop sleep=300"; [ "$OMPI_COMM_WORLD_RANK" = 2 ] && a="$a kill"
        exec "$0" run -o killed -- "$1" $a' "$INFERPROF" "$app"
    check "a killed rank: the others are reported, and the rank is named" \
        grep -qE 'Rank 2 on .* ended with signal 9' killed/report.md
    check "the records of the other three ranks are in the report" json_is killed/metrics.json 'sum(v["kernels"] for v in d["devices"] if v["kernels"]) >= 60' True
    cat >gone.sh <<'END'
if [ "$OMPI_COMM_WORLD_RANK" != 1 ]; then exec "$1" run -o gone -- "$2" init push=decode kernels=20 pop; fi
"$1" run -q -o gone -- "$2" init push=decode kernels=20 pop sleep=30000 &
tries=0
until ls gone/trace/*-rank1-*.ipt >/dev/null 2>&1 || [ $((tries += 1)) -gt 200 ]; do sleep 0.1; done
kill -9 $!
for f in gone/trace/*-rank1-*.ipt; do pid=${f##*-} && kill -9 "${pid%.ipt}"; done
wait
END
    mpi 3 sh gone.sh "$INFERPROF" "$app"
    check "a rank whose inferprof was killed leaves the run incomplete" test -e gone/INCOMPLETE
    run "$INFERPROF" report gone
    expect "'report' reports the others and names it" 0 out 'Rank 1 did not end'
fi

# Ranks as a launcher of any kind would start them: by variables
rank() { # rank world folder args...
    r=$1 w=$2 dir=$3
    shift 3
    run env RANK="$r" WORLD_SIZE="$w" "$INFERPROF" run -q -o "$dir" -- "$@"
}
for r in 0 1 3; do rank $r 5 some "$app" init push=decode kernels=10 pop; done
check "ranks that never started leave the run incomplete" test -e some/INCOMPLETE
run "$INFERPROF" report some
expect "they are named" 0 out 'Ranks 2, 4 never started here'
check "they are named once in the report" test "$(grep -c '2, 4' some/report.md)" = 1
rank 1 5 some "$app" init
expect "a rank does not record twice into a folder" 1 err 'rank 1 has already been recorded in some'
rank 2 5 some no-such-program
check "a rank whose program does not exist leaves no file" test ! -e some/ranks/rank-00002.json
rank 2 5 some true
expect "a rank that records nothing fails" 1 err 'rank 2: nothing was recorded from true'
mkdir other && echo x >other/file
rank 0 2 other "$app" init
expect "a folder with other files is refused" 1 err 'other is not empty'
run env RANK=0 WORLD_SIZE=2 "$INFERPROF" run -- true
expect "a rank needs a folder" 2 err 'give --output DIR'
run env RANK=0 WORLD_SIZE=2 "$INFERPROF" run --ncu -o x -- true
expect "a rank cannot be run again alone" 2 err 'run the program again'
for r in 0 1; do
    run env RANK=$r WORLD_SIZE=2 TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=1 "$INFERPROF" run -q -o again -- "$app" init kernels=5
done
check "ranks that torchrun restarts are a run of their own" test -s again/restart-1/report.md

# A rank on a node whose disk is full: its folder is on a file system of 64 KiB
mkdir full
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=64k tmpfs full 2>/dev/null; then
    rank 1 2 full/run "$app" init push=decode kernels=200000 pop
    status_full=$status
    find full/run -type f | sed 's/.*/&/' >full.list
    cp -r full/run fullcopy 2>/dev/null
    umount full
    check "a full disk: the program's status is kept" test "$status_full" = 0
    run "$INFERPROF" report fullcopy
    expect "the part that was written is reported, and the loss is named" 0 out 'kernel records were lost|has not finished'
else
    skip "a full disk on one node" "needs root and mount"
fi

# Two nodes with different clocks: namespaces with their own host name and network, else only another name
cat >node.sh <<'END'
# node.sh NAME FIRST-RANK SHIFT-MS INFERPROF APP LIBRARY [own]: four ranks; own: in namespaces of its own
[ "${7:-}" = own ] && hostname "$1"
for i in 0 1 2 3; do
    INFERPROF_RANK=$(($2 + i)) INFERPROF_WORLD_SIZE=8 INFERPROF_LOCAL_RANK=$i "$4" run -q -o nodes -- \
        env LD_PRELOAD="$6" SHIFT_CLOCK_MS="$3" "$5" init push=decode kernels=20 pop sleep=100 &
done
wait
END
node() { # name first-rank shift_ms
    set -- "$@" "$INFERPROF" "$app" "$guests/libshift_clock.so"
    if unshare --net --uts true 2>/dev/null; then limited unshare --net --uts sh node.sh "$@" own
    else INFERPROF_NODE=$1 limited sh node.sh "$@"; fi >>nodes.out 2>&1
}
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0"
node alpha 0 0 &
first=$!
node beta 4 90000
wait "$first"
check "two nodes: one trace per rank" test "$(traces nodes)" = "0 1 2 3 4 5 6 7 "
check "the traces are named by node" test "$(find nodes/trace -name 'beta-rank*' | wc -l)" = 4
check "power is sampled once on each node" test "$(find nodes/trace -name 'nvml-*' | wc -l)" = 2
check "one rank reported" test -s nodes/report.md
first_start() { "$INFERPROF" trace dump --kind launch --json "$1" | python3 -c 'import json, sys; print(json.loads(sys.stdin.readline())["start_ns"])'; }
a=$(first_start "$(echo nodes/trace/alpha-rank0-*.ipt)")
b=$(first_start "$(echo nodes/trace/beta-rank4-*.ipt)")
check "the traces of node beta have its clock, 90 s ahead" python3 -c "assert 60e9 < $b - $a < 120e9, $b - $a"
