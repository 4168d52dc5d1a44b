#!/bin/bash
# Real launchers on this machine, with the mock GPU: torchrun, srun and Ray, and digest under mpirun and srun. One minute.
# A launcher that is not installed is skipped. Debian packages: python3-torch (or torch from PyPI), slurmd, slurmctld,
# slurm-client, munge, openmpi-bin. From PyPI: ray. PYTHON_TORCH and PYTHON_RAY name the interpreters that have them.
# shellcheck source=tests/cli/lib.sh
. tests/cli/lib.sh
top=$PWD
here=$top/tests/launchers
mock=$top/$BUILD/tests/mock
app=$mock/mock_app
torch=${PYTHON_TORCH:-/usr/bin/python3}
ray=${PYTHON_RAY:-python3}
export LD_LIBRARY_PATH="$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
cd "$work" || exit 1
work=$PWD
unset CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH NCCL_PROFILER_PLUGIN RANK WORLD_SIZE

traces() { find "$1/trace" -name '*-rank*.ipt' | sed 's/.*-rank\([0-9]*\)-.*/\1/' | sort -n | tr '\n' ' '; }
meta() { "$INFERPROF" trace dump --kind meta "$1" | sed -n "s/.*key=\"$2\" value=\"\(.*\)\"/\1/p"; }
# identity FOLDER RANK: what the trace of the rank says about it
identity() {
    local trace
    trace=$(echo "$1"/trace/*-rank"$2"-*.ipt)
    echo "$(meta "$trace" rank),$(meta "$trace" world_size),$(meta "$trace" local_rank),$(meta "$trace" launcher)"
}
# recorded NAME FOLDER RANKS LAUNCHER KERNELS: all ranks are in the folder, and each has this many kernels
recorded() {
    local last=$(($3 - 1)) trace
    check "$1: one trace per rank" test "$(traces "$2")" = "$(seq 0 $last | tr '\n' ' ')"
    check "$1: rank, world size, local rank and launcher are those of the launcher" test "$(identity "$2" $last)" = "$4"
    for trace in "$2"/trace/*-rank*.ipt; do "$INFERPROF" trace dump --kind kernel "$trace" | wc -l; done | sort -u >kernels.txt
    check "$1: every rank has its $5 kernels" test "$(cat kernels.txt)" = "$5"
    check "$1: there is one report" test -s "$2/report.md"
}

# ---- torchrun. -r and -t: torch 1.13 fails without them under Python 3.11
if "$torch" -c 'import torch.distributed as d; assert d.is_gloo_available()' >/dev/null 2>&1; then
    launch=("$torch" -m torch.distributed.run -r 1 -t 1 --nproc_per_node 3 --master_addr 127.0.0.1 --master_port 29541)
    run "${launch[@]}" --no_python "$INFERPROF" run -q -o inside -- "$torch" "$here/rank.py" 10
    expect "torchrun inferprof run: the program runs, with gloo over all ranks" 0 out 'done, 3 ranks in the process group'
    recorded "torchrun inferprof run" inside 3 2,3,2,torchrun 200
    run "$INFERPROF" run -q -o outside -- "${launch[@]}" "$here/rank.py" 10
    expect "inferprof run -- torchrun" 0 out 'done, 3 ranks in the process group'
    recorded "inferprof run -- torchrun" outside 3 2,3,2,torchrun 200
else
    skip "torchrun" "$torch has no torch with gloo"
fi

# ---- srun
if [ "$(id -u)" = 0 ] && command -v slurmd >/dev/null && command -v munged >/dev/null; then
    run bash "$here/slurm.sh" slurm start
    expect "a Slurm cluster of one node starts" 0 out 'SLURM_CONF='
    trap 'bash "$here/slurm.sh" "$work/slurm" stop' EXIT
    export SLURM_CONF=$work/slurm/slurm.conf
    run srun -n 4 -O "$INFERPROF" run -q -o slurm-inside -- "$app" init push=decode kernels=20 pop
    expect "srun inferprof run" 0
    recorded "srun inferprof run" slurm-inside 4 3,4,3,slurm 20
    run "$INFERPROF" run -q -o slurm-outside -- srun -n 4 -O "$app" init push=decode kernels=20 pop
    expect "inferprof run -- srun" 0
    recorded "inferprof run -- srun" slurm-outside 4 3,4,3,slurm 20
    "$top/$BUILD/tests/make_ranks" job ranks=6 per_node=2 steps=3
    run srun -n 3 -O "$INFERPROF" digest job --output digests
    expect "srun inferprof digest: each process takes its share" 0
    check "every rank has one digest" test "$(find digests -name '*.digest.json' | wc -l)" = 6
    check "no rank was read twice" test "$(grep -c collectives "$work/out")" = 6
else
    skip "srun" "needs root, slurmd, slurmctld and munged"
fi

# ---- Ray
if "$ray" -c 'import ray' >/dev/null 2>&1; then
    run env RAY_USAGE_STATS_ENABLED=0 "$ray" "$here/ray_job.py" 2 "$top/$BUILD/libinferprof-collector.so" ray-run
    expect "Ray: actors with the collector in their environment" 0 out 'worker processes: 2'
    run "$INFERPROF" report -q ray-run
    expect "Ray: the folder of the traces is reported" 0
    recorded "Ray" ray-run 2 1,2,,ray 200
    check "Ray: the traces of actors that were terminated are closed" lacks 'was not closed|killed' ray-run/report.md
else
    skip "Ray" "$ray has no ray"
fi
