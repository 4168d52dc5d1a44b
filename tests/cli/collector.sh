#!/bin/sh
# The real collector, injected into a program that uses mock CUDA libraries (tests/mock): what it records, and that it does
# not harm the program, whatever CUPTI, the driver or the program do.
. tests/cli/lib.sh
mock=$PWD/$BUILD/tests/mock
app=$mock/mock_app
export LD_LIBRARY_PATH="$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# record [NAME=VALUE...] PROGRAM VERBS...: runs the program with the collector; sets $status, $work/out, $work/err, $work/dump
record() {
    rm -rf "$work/t" "$work/dump"
    mkdir -p "$work/t"
    env CUDA_INJECTION64_PATH="$COLLECTOR" NVTX_INJECTION64_PATH="$COLLECTOR" INFERPROF_COLLECT_DIR="$work/t" \
        INFERPROF_COLLECT_FLUSH_MS=50 "$@" >"$work/out" 2>"$work/err"
    status=$?
    sed -i '/^Killed$/d; /^Segmentation fault$/d; /^Aborted$/d; /was not suspended. False leaks/d' "$work/err" # messages of the shell and of LeakSanitizer
    : >"$work/dump"
    for f in "$work"/t/*.ipt; do [ -f "$f" ] && "$INFERPROF" trace dump --json "$f" >>"$work/dump" 2>/dev/null; done
}

# expect_trace NAME [EXPRESSION VALUE]...: the last record() had status $want_status and no output, and the expressions
# (tests/mock/query.py) have these values
expect_trace() {
    name=$1
    shift
    if [ "$status" -ne "${want_status:-0}" ] || [ -s "$work/out" ] || [ -s "$work/err" ]; then
        not_ok "$name" "status $status; out: $(head -c 300 "$work/out") err: $(head -c 800 "$work/err")"
        return
    fi
    if why=$(python3 tests/mock/query.py "$work/dump" "$@" 2>&1); then
        ok "$name"
    else
        not_ok "$name" "$(echo "$why" | tail -n 3)" "$(grep -a problem "$work/dump" | head -n 3)"
    fi
}
file_count() { find "$work/t" -name '*.ipt' | wc -l | tr -d ' '; }

# ---- what is recorded
record "$app" init kernels=1000 graphs=10 copies=5 memsets=3 syncs=4
expect_trace "every kernel, copy, launch and sync is recorded" "len(kernel)" 1160 "len(launch)" 1018 "len(copy)" 8 "len(sync)" 4 \
    "counts['graph_kernels']" 160 "len(lost)" 0
expect_trace "every kernel has a launch and starts after it" "orphans()" 0 "early()" 0
expect_trace "a runtime call and its driver call are one launch" "sorted(set(l['api'] for l in launch))" \
    "['cuGraphLaunch', 'cuLaunchKernel', 'cuMemcpyHtoDAsync_v2', 'cuMemsetD8Async']"
expect_trace "kernels carry their geometry and names" \
    "sorted(set((k['name'], k['grid_x'], k['block_x'], k['registers'], k['dynamic_smem_bytes']) for k in kernel))[0]" \
    "('_Z9gemm_bf16PfS_', 132, 256, 64, 49152)"
expect_trace "syncs have a kind, a thread and a stream" "sorted(set((s['sync_kind'], s['stream']) for s in sync))" "[(3, 7), (3, 8)]" \
    "set(s['thread'] for s in sync) == set(l['thread'] for l in launch)" True
expect_trace "devices are described with limits and UUIDs" "meta['device.0.name'][0]" "NVIDIA Mock 9000" "meta['device.0.sms'][0]" 132 \
    "meta['device.0.uuid'][0]" GPU-00010203-0405-0607-0809-0a0b0c0d0e0f "meta['device.1.uuid'][0][:4]" MIG- \
    "meta['cuda.driver'][0]" 13.0 "meta['context.1.device'][0]" 0
# records use the device numbers of the process; the trace maps them to UUIDs
record "$app" init kernels=3 device=1 kernels=5 copies=2 graphs=1
expect_trace "kernels and copies of two GPUs have their device" "[sum(k['device'] == d for k in kernel) for d in (0, 1)]" "[3, 21]" \
    "[c['device'] for c in copy]" "[1, 1]" "meta['context.2.device'][0]" 1 "orphans()" 0 "len(meta['device.0.uuid'] + meta['device.1.uuid'])" 2
for seen in 1 MIG-10111213-1415-1617-1819-1a1b1c1d1e1f; do
    record CUDA_VISIBLE_DEVICES=$seen "$app" init kernels=3
    expect_trace "CUDA_VISIBLE_DEVICES=$seen: device 0 of the program is the MIG slice" "set(k['device'] for k in kernel)" "{0}" \
        "meta['device.0.uuid']" "['MIG-10111213-1415-1617-1819-1a1b1c1d1e1f']" "'device.1.uuid' in meta" False
done
record CUDA_VISIBLE_DEVICES=1,0 "$app" init kernels=3
expect_trace "CUDA_VISIBLE_DEVICES=1,0: devices in the program's order" "[meta[f'device.{i}.uuid'][0][:3] for i in (0, 1)]" "['MIG', 'GPU']"
record CUDA_VISIBLE_DEVICES= "$app" init push=r pop
expect_trace "no visible GPU: only ranges are recorded" "'device.0.uuid' in meta" False "len(range_)" 1

record "$app" init kernels=1000
expect_trace "clock pairs, the fitted line and its residual are recorded" "len(meta['clock.pair']) >= 1" True \
    "'residual_ns' in meta['clock.fit'][0]" True

record "$app" init kernels=4 stream=decode kernels=4
expect_trace "streams have their NVTX names" "meta['stream.7.name'][0]" decode

record INFERPROF_COLLECT_WHAT=kernels,launches,nvtx,whole-graphs "$app" init kernels=5 graphs=10
expect_trace "whole graphs: one record per graph launch, other kernels as usual" "len(kernel)" 15 "len(launch)" 15 "orphans()" 0 \
    "sum(k['name'] == 'CUDA graph 5' and k['graph'] == 5 and k['graph_node'] == 0 for k in kernel)" 10

# Each graph launch has 16 kernels. On two streams CUPTI stays attached; the sleep lets the collector disable kernel records.
replays() { record INFERPROF_COLLECT_REPLAYS=50 "$app" init "$@"; }
replays graphs=50 syncs=1 sleep=50 graphs=200
expect_trace "after 50 replays of a graph, its kernels are no longer recorded; further replays are counted" "len(launch)" 50 "len(kernel)" 800 \
    "len(replay)" 200 "set(r['graph'] for r in replay) == set(k['graph'] for k in kernel)" True "inside()" True "len(windows())" 1 "len(lost)" 0
replays graphs=100 sleep=50 graphs=100
expect_trace "the same for a program that does not wait" "len(launch)" 53 "len(kernel)" 848 "len(replay)" 147 "inside()" True
replays graphs=50 syncs=1 sleep=50 graph-made=3 graphs=50 syncs=1 graph=0 graphs=10
expect_trace "a new graph is recorded again" "[sum(k['graph'] == g for k in kernel) for g in (5, 8)]" "[800, 800]" "len(replay)" 10 "orphans()" 0
replays graphs=50 syncs=1 sleep=50 graphs=10 kernels=500 graphs=10
expect_trace "kernels outside of graphs are recorded again, from the first one on" "sum(not k['graph'] for k in kernel)" 500 "inside()" True
replays graphs=50 syncs=1 sleep=50 graphs=3000 sleep=50 graphs=10
expect_trace "a few later replays are recorded" "50 < len(launch) < 120" True "len(windows()) >= 2" True "inside()" True
replays graphs=50 syncs=1 sleep=50 graphs=300 graph-updated=0 graphs=100
expect_trace "an updated graph is recorded again, briefly" "50 < len(launch) < 70" True "inside()" True
# A detach fails if our own thread is inside CUPTI at that moment, and is tried again at the next synchronisation.
wait="syncs=1 sleep=20 syncs=1 sleep=20 syncs=1 sleep=20 syncs=1 sleep=20 syncs=1"
# shellcheck disable=SC2086  # split $wait into words
{
# The mock aborts the program if CUPTI is detached after a graph was launched while kernel records were disabled.
replays streams=1 kernels=300 copies=5 graphs=50 $wait graphs=500 kernels=100 syncs=1
expect_trace "CUPTI is detached when the program waits for its graph, after 50 replays" "counts['left']" 1 "len(kernel)" 1100 "len(replay)" 0 "inside()" True "orphans()" 0
record MOCK_CUPTI=lengthy INFERPROF_COLLECT_REPLAYS=50 "$app" init streams=1 graphs=49 sleep=450 graphs=1 syncs=30 $wait graphs=20
expect_trace "CUPTI is detached after a flush that lasted for many synchronisations" "counts['left']" 1 "len(launch)" 50
replays streams=1 graphs=50 $wait graphs=500 attached=2 sleep=100 graphs=10 $wait graphs=500
expect_trace "it is attached again after 2 s for a few replays" "counts['left']" 2 "len(windows())" 2 "len(launch)" 60 "inside()" True "orphans()" 0
replays streams=1 graphs=50 $wait capture attached=2 sleep=100 kernels=20 captured graphs=10 $wait attached=3 sleep=100 graphs=10 $wait
expect_trace "a capture that began before CUPTI was attached again does not keep it attached" "counts['left']" 3 "len(windows())" 3 "inside()" True
# Programs that call the runtime through slots, resolved at the first call or when the module is loaded.
for how in lazy now; do
    replays streams=1 module=libgraphs-$how.so calls=50 $wait replaced calls=500
    expect_trace "$how: while CUPTI is detached, the launches of graphs are counted by their slots" "counts['left']" 1 "len(launch)" 50 "len(replay)" 500 \
        "set((r['graph'], r['detach']) for r in replay)" "{(5, 1)}" "[r['start_ns'] for r in replay] == sorted(r['start_ns'] for r in replay)" True
    replays streams=1 module=libgraphs-$how.so calls=50 $wait replaced calls=100 fork unload module=libgraphs-$how.so calls=50
    expect_trace "$how: a module that is unloaded and loaded again does no harm" "len(replay) >= 100" True "counts['left']" 1
    replays streams=1 module=libgraphs-$how.so calls=50 $wait replaced calls=20 attached=2 sleep=100 calls=10 $wait sleep=100 calls=30
    expect_trace "$how: while CUPTI is attached again, launches are recorded and not counted" "len(launch)" 60 \
        "[sum(r['detach'] == n for r in replay) for n in (0, 1, 2)]" "[0, 20, 30]"
    replays streams=1 module=libgraphs-$how.so calls=50 destroy graph=1 calls=50 $wait replaced calls=5 destroy calls=7
    expect_trace "$how: a graph that was destroyed is unknown" "[r['graph'] for r in replay]" "[6, 6, 6, 6, 6, 0, 0, 0, 0, 0, 0, 0]"
done
}
replays streams=2 graphs=50 syncs=2 graphs=100 syncs=2
expect_trace "CUPTI is not detached if graphs run on several streams" "counts['left']" 0 "len(kernel)" 800 "inside()" True
replays kernels=2000 graphs=20 kernels=2000
expect_trace "a program with few replays is recorded as a whole" "len(kernel)" 4320 "len(replay)" 0 "len(windows())" 0
set -- # 200 kernels between two replays
while [ $# -lt 20 ]; do set -- "$@" graphs=1 kernels=200; done
record INFERPROF_COLLECT_REPLAYS=5 "$app" init "$@"
expect_trace "a program that works mostly outside of graphs is recorded as a whole" "len(kernel)" 2160 "len(replay)" 0

record "$app" nvtx push=left-open
expect_trace "all forms of NVTX are recorded" "sorted(r['name'] for r in range_)" \
    "['', '', '', '', 'ex', 'first', 'innér', 'left-open', 'mark', 'outer', 'over the domain', 'prefill', 'registered', 'registered', 'second']"
expect_trace "ranges have depth, domain, category and payload" \
    "[(r['depth'], r['domain'], r['detail'], r['payload']) for r in range_ if r['name'] == 'registered' and not r['flags']]" \
    "[(0, 'lib', 'category math', -5)]" "[r['depth'] for r in range_ if r['name'] == 'ex']" "[2]" \
    "[r['category'] for r in range_ if r['name'] == 'prefill']" "[1]"
expect_trace "an open range is kept and flagged, start/end ranges are flagged as free" \
    "[r['flags'] for r in range_ if r['name'] == 'left-open']" "[4]" "sum(r['flags'] == 2 for r in range_)" 3
expect_trace "marks of the inferprof domain are tokens" "[(t['count'], t['token_kind']) for t in token]" "[(12, 1)]"
record "$app" "push=aten::mm, op_id = 7, sizes = [[2, 3], [3, 4]], input_op_ids = [(5,0)]" \
    "push=aten::mm, seq = 1, op_id = 8, sizes = [[2, 3], [3, 4]]" pop pop "push=load, op_id" pop "push=aten::t, op_id = 9"
expect_trace "PyTorch operators: the call number is removed, the shapes become the detail" \
    "[(r['name'], r['detail'], r['category']) for r in sorted(range_, key=lambda r: r['start_ns'])]" \
    "[('aten::mm', 'sizes = [[2, 3], [3, 4]]', 3), ('aten::mm', 'sizes = [[2, 3], [3, 4]]', 3), ('load, op_id', '', 0), ('aten::t', '', 3)]"
record "$app" "push=inferprof:stage prefill" "mark=inferprof:consumed 501" "push=inferprof:module model.layers.0" pop \
    "mark=inferprof:made 1" "mark=inferprof:made x" pop
expect_trace "text prefixes mark stages, modules and tokens" \
    "[(r['name'], r['flags'], r['category']) for r in sorted(range_, key=lambda r: r['start_ns'])]" \
    "[('prefill', 0, 1), ('model.layers.0', 0, 2), ('inferprof:made x', 1, 0)]" \
    "[(t['count'], t['token_kind']) for t in token]" "[(501, 0), (1, 1)]"
record "$app" push=a nest=300 pop
expect_trace "ranges nested deeper than 256 are counted as lost" "len(range_)" 256 "lost_of('range', 'memory')" 45

# ---- invalid records
for bad in zero reversed early; do
    record MOCK_CUPTI=$bad "$app" init kernels=1000
    expect_trace "kernels with $bad times are discarded and counted" "len(kernel)" 900 "lost_of('kernel', 'untrusted')" 100 "counts['untrusted']" 100
done
record MOCK_CUPTI=unknown "$app" init kernels=1000
expect_trace "records of unknown kinds are skipped" "len(kernel)" 1000 "counts['unknown']" 100
record MOCK_CUPTI=dropped "$app" init kernels=10
expect_trace "records dropped by CUPTI are counted" "len(kernel)" 10 "lost_of('kernel', 'source')" 7
record MOCK_CUPTI=cutoff INFERPROF_COLLECT_FLUSH_MS=0 "$app" init kernels=10
expect_trace "a truncated buffer loses one record" "len(kernel)" 9

# ---- versions and clocks
for v in 18 22 26 28 130001 130101 130301 130401; do
    record MOCK_CUPTI_VERSION=$v "$app" init kernels=100 copies=3 memsets=2
    expect_trace "CUPTI $v: record layout" "len(kernel)" 100 "len(copy)" 5 "orphans()" 0 "set(c['bytes'] for c in copy)" "{4096}"
done
record MOCK_CUPTI_VERSION=17 "$app" init push=r pop kernels=100
expect_trace "a CUPTI that is too old is reported; ranges are recorded" "len(kernel)" 0 "len(range_)" 1 "problem('older than CUDA 12.0')" True
record MOCK_CUPTI_VERSION=150000 "$app" init kernels=100
expect_trace "a CUPTI newer than any tested version is used, with a warning" "len(kernel)" 100 "problem('newer than the versions')" True
record MOCK_CLOCK_SHIFT=7777000000000 "$app" init kernels=100
expect_trace "times of another clock are converted to the wall clock" "len(kernel)" 100 "early()" 0 \
    "max(abs(k['start_ns'] - launches[k['correlation']]['start_ns']) for k in kernel) < 10**9" True

# ---- CUPTI fails, is in use, is missing, or is slow
record MOCK_CUPTI=refuse "$app" init push=r kernels=100 pop
expect_trace "no permission for kernels: the trace holds the remedy, the rest is recorded" "len(kernel)" 0 "len(launch)" 100 "len(range_)" 1 \
    "problem('NVreg_RestrictProfilingToAdminUsers=0')" True
record MOCK_CUPTI=held "$app" init push=r kernels=100 pop
expect_trace "CUPTI in use by another tool: reported, and NVTX is recorded" "len(kernel)" 0 "len(range_)" 1 "problem('CUPTI allows one subscriber per process')" True
record "$app" init kernels=10 takeover kernels=100000
expect_trace "buffers taken over by the program: reported" "problem('took over the records') or len(kernel) > 0" True
record INFERPROF_COLLECT_CUPTI=/nowhere/libcupti.so "$app" init push=r pop kernels=10
expect_trace "no CUPTI: reported, and NVTX is recorded" "len(range_)" 1 "problem('INFERPROF_COLLECT_CUPTI')" True
record MOCK_CUPTI=late INFERPROF_COLLECT_BUFFER=65536 "$app" init kernels=3000
expect_trace "buffers returned only at the end are all read" "len(kernel)" 3000
record MOCK_CUPTI=late INFERPROF_COLLECT_MEMORY=4194304 INFERPROF_COLLECT_BUFFER=524288 "$app" init kernels=60000
expect_trace "buffers that are not returned do not exceed the memory limit" "len(kernel) < 60000 and len(kernel) > 1000" True "orphans()" 0
record MOCK_CUPTI=worker "$app" init kernels=20000
expect_trace "buffers returned on a thread of CUPTI" "len(kernel)" 20000
record INFERPROF_COLLECT_WAIT_MS=1000 MOCK_CUPTI=hang timeout -s KILL 120 "$app" init kernels=10
expect_trace "the exit waits at most 0.6 s for a flush that hangs" "problem('did not deliver them within 600 ms')" True
record MOCK_CUPTI=hang INFERPROF_COLLECT_FLUSH_MS=0 INFERPROF_COLLECT_RANGE=r timeout -s KILL 120 "$app" init push=r kernels=10 pop sleep=300
expect_trace "a flush that hangs after a window does not block the exit" "len(windows())" 1 "len(range_)" 1

# ---- windows
record INFERPROF_COLLECT_RANGE='dec*' "$app" init push=prefill kernels=100 pop push=decode kernels=50 pop kernels=30 push=decode kernels=7 pop
expect_trace "--range: only kernels in matching ranges, but all ranges" "len(kernel)" 57 "len(launch)" 57 "len(range_)" 3 "len(windows())" 2
record INFERPROF_COLLECT_RANGE=work INFERPROF_COLLECT_WARMUP_RANGE=warm "$app" init kernels=5 push=warm kernels=20 pop push=work kernels=7 pop kernels=5
expect_trace "a warm-up: CUPTI records its kernels, and the collector discards them" "len(kernel)" 7 "len(launch)" 7 "len(range_)" 1 \
    "len(windows())" 1 "counts['outside'] >= 20" True "orphans()" 0
record INFERPROF_COLLECT_RANGE=work INFERPROF_COLLECT_WARMUP_RANGE=warm "$app" init push=warm kernels=20 pop sleep=400 kernels=50
expect_trace "kernels after a warm-up are not recorded" "len(kernel)" 0 "len(windows())" 0 "20 <= counts['outside'] < 70" True
record INFERPROF_COLLECT_DELAY_US=200000 INFERPROF_COLLECT_DURATION_US=300000 "$app" init kernels=10 sleep=350 kernels=20 sleep=350 kernels=40
expect_trace "delay and duration limit the capture" "len(windows())" 1 "inside()" True
record INFERPROF_COLLECT_START=1 INFERPROF_COLLECT_DELAY_US=1000000 "$app" init kernels=10
expect_trace "a delay counts from the start of the program, not from the first use of CUDA" "len(kernel)" 10
record INFERPROF_COLLECT_START=1 INFERPROF_COLLECT_DELAY_US=1000000 INFERPROF_COLLECT_DURATION_US=1000000 "$app" init push=r kernels=10 pop
expect_trace "a duration that is over before the first use of CUDA is reported" "len(kernel)" 0 "len(range_)" 1 "problem('count from the program\'s start and were over')" True
record MOCK_CUPTI=hasty INFERPROF_COLLECT_RANGE=work "$app" init push=work kernels=100 pop kernels=50 sleep=300 push=work kernels=7 pop sleep=300
expect_trace "the last kernels of a window have times; later kernels are discarded" "len(kernel)" 107 "orphans()" 0 \
    "counts['untrusted']" 0 "counts['outside'] <= 50" True
record MOCK_CUPTI=fragile INFERPROF_COLLECT_RANGE=work "$app" init push=work kernels=10 pop sleep=1000 push=work kernels=500 pop
expect_trace "kernels are delivered after a disable and enable, because callbacks were enabled first" "len(kernel)" 510 "orphans()" 0
record MOCK_CUPTI=once INFERPROF_COLLECT_RANGE=work "$app" init push=work kernels=10 pop sleep=1000 push=work kernels=500 pop
expect_trace "missing kernels after a disable and enable are reported" "len(kernel)" 10 "problem('only 10 of 510 launches and copies have a record')" True
record INFERPROF_COLLECT_BUDGET_PPM=20000 "$app" init sleep=300 kernels=1 sleep=300 kernels=100000 push=range pop sleep=700 kernels=50000 kernels=50000
expect_trace "a budget captures some kernels, records its windows, and all NVTX ranges" "0 < len(kernel) < 200000" True "len(windows()) >= 1" True "len(range_)" 1 "orphans()" 0
record INFERPROF_COLLECT_BUDGET_PPM=500000 "$app" init kernels=1 sleep=300 kernels=1 sleep=300 kernels=1 sleep=300 kernels=5 sleep=300
expect_trace "the first window of a budget opens at the first call" "len(kernel) > 0" True "orphans()" 0
# Each replay is charged 16 x 1.7 us. The account of 0.01% goes negative at once; CUPTI is detached and not attached again.
record INFERPROF_COLLECT_BUDGET_PPM=100 INFERPROF_COLLECT_REPLAYS=5000 "$app" init streams=1 graphs=1 syncs=1 attached=1 sleep=100 graphs=1500 syncs=1 sleep=100 \
    detached=1 sleep=2500 graphs=100 syncs=1
expect_trace "a budget pays for the kernels of graphs, and detaches CUPTI when it is spent" "counts['left']" 1 "len(windows())" 1 "counts['graph_kernels'] < 1600 * 16" True \
    "inside()" True "problem('was too short for a budget of 0.01%')" True
record INFERPROF_COLLECT_BUDGET_PPM=10000 "$app" init kernels=20000 sleep=300
expect_trace "a run that is too short for its budget is reported" "problem('was too short for a budget of 1.00%')" True
# shellcheck disable=SC2046
record INFERPROF_COLLECT_BUDGET_PPM=20000 "$app" init $(for _ in 1 2 3 4 5 6 7 8 9; do printf 'kernels=60000 sleep=300 '; done)
expect_trace "a budget on a busy program captures; why CUPTI cannot be detached is reported" "len(kernel) > 0" True "orphans()" 0 \
    "problem('CUPTI stays attached between windows (the program\'s kernels run on several streams)')" True
burst="kernels=20000 sleep=100 kernels=20 detached=1"
# shellcheck disable=SC2086  # split $burst into words
record INFERPROF_COLLECT_BUDGET_PPM=50000 "$app" init streams=1 kernels=5 sleep=100 $burst kernels=5 attached=2 sleep=100 kernels=5 sleep=300
expect_trace "CUPTI is detached between windows when the program synchronises, and attached again" "counts['left'] > 0" True "len(windows()) > 1" True "orphans()" 0 \
    "len(set(l['correlation'] for l in launch)) == len(launch)" True "counts['kernels'] == counts['calls']" True
last="kernels=100 sleep=300 kernels=1 sleep=300 kernels=50 syncs=1 sleep=100 syncs=1 kernels=50"
stays_attached() { # NAME [VARIABLE...] PROGRAM...: the window's 100 kernels are recorded, and CUPTI was not detached
    name=$1
    shift
    record INFERPROF_COLLECT_DURATION_US=200000 "$@"
    expect_trace "$name" "counts['left']" 0 "len(kernel) >= 100" True "'problem' in meta" False
}
# shellcheck disable=SC2086
{
    record INFERPROF_COLLECT_DURATION_US=200000 "$app" init streams=1 $last
    expect_trace "CUPTI is detached after the last window" "counts['left']" 1 "len(kernel)" 100
    record INFERPROF_COLLECT_DURATION_US=200000 INFERPROF_COLLECT_WHAT=kernels,launches "$app" init streams=1 $last
    expect_trace "CUPTI is detached even if synchronisations are not recorded" "counts['left']" 1 "len(sync)" 0
    record INFERPROF_COLLECT_DURATION_US=200000 "$app" init streams=1 kernels=100 sleep=300 kernels=1 sleep=300 kernels=50 sleep=100
    expect_trace "CUPTI is not detached if the program does not synchronise" "counts['left']" 0
    stays_attached "CUPTI is not detached if a reattach would crash" MOCK_CUPTI_VERSION=23 "$app" init streams=1 $last
    stays_attached "CUPTI is not detached after a recorded graph" "$app" init streams=1 graphs=1 $last
    stays_attached "CUPTI is not detached after a graph launch just after the window" "$app" init streams=1 kernels=100 sleep=210 graphs=1 $last
    stays_attached "CUPTI is not detached if there is work on another stream" "$app" init streams=2 kernels=2 streams=1 $last
    record MOCK_CUPTI=zero INFERPROF_COLLECT_DURATION_US=200000 "$app" init streams=1 $last
    expect_trace "CUPTI is not detached if a launch has no kernel record" "counts['left']" 0
    record INFERPROF_COLLECT_BUDGET_PPM=50000 "$app" init hold streams=1 kernels=5 sleep=100 $burst kernels=5 sleep=1000 $burst kernels=5 sleep=300
    expect_trace "a tool that subscribes while CUPTI is detached keeps it, and that is reported" "counts['left']" 1 "len(kernel) > 0" True "problem('no more kernels were recorded')" True
    lossy=$(for _ in $(seq 16); do printf 'kernels=4000 sleep=110 kernels=4000 sleep=20 kernels=1 sleep=20 syncs=1 sleep=100 '; done)
    record INFERPROF_COLLECT_BUDGET_PPM=30000 INFERPROF_COLLECT_MEMORY=4194304 INFERPROF_COLLECT_BUFFER=524288 "$app" init streams=1 $lossy
    expect_trace "buffers lost by a detach are reused" "counts['left'] > 5" True "len(lost)" 0 "counts['kernels'] == counts['calls']" True
}
record INFERPROF_COLLECT_RANGE='arm*' INFERPROF_COLLECT_ARMS=1 "$app" init "push=arm kernels,launches" kernels=10 pop kernels=20 \
    "push=arm kernels,empty" kernels=30 pop "push=arm kernels,launches,passing" kernels=40 pop "push=arm launches,passing" kernels=50 pop \
    "push=arm kernels,launches" kernels=7 pop
expect_trace "ARMS: each range captures what its name lists, and passing calls are not recorded" "len(kernel)" 17 "len(launch)" 17 "counts['outside']" 40
record INFERPROF_COLLECT_WHAT=kernels,empty,nvtx "$app" init kernels=10000
expect_trace "the empty collector discards its records" "len(kernel)" 0 "counts['buffers'] > 0" True
record INFERPROF_COLLECT_WHAT=nvtx "$app" init push=r kernels=10 pop
expect_trace "WHAT=nvtx records only ranges" "len(kernel) + len(launch)" 0 "len(range_)" 1

record MOCK_CUPTI=clings INFERPROF_COLLECT_DURATION_US=200000 "$app" init streams=1 kernels=100 sleep=300 kernels=1 sleep=300 kernels=50 syncs=1 sleep=100 syncs=1
expect_trace "a detach that fails leaves CUPTI attached, is reported and not repeated" "counts['left']" 0 "len(kernel)" 100 \
    "problem('CUPTI could not be detached between windows')" True
record MOCK_CUPTI=slowoff INFERPROF_COLLECT_RANGE=r INFERPROF_COLLECT_BUDGET_PPM=500000 "$app" init streams=1 kernels=1 sleep=50 push=r kernels=10 sleep=50 pop \
    await push=r release sleep=100 kernels=50 sleep=50 pop
expect_trace "a range pushed while the window is being switched is captured as soon as that is done" "len(launch)" 60 "len(windows()) >= 1" True
record INFERPROF_COLLECT_RANGE=left "$app" init leave=left kernels=10
expect_trace "a range that its thread leaves open is written, and closes its window" "[(r['name'], r['flags']) for r in range_]" "[('left', 4)]" \
    "len(kernel)" 0 "len(windows())" 1

# ---- large numbers
record "$app" init threads=64:500
expect_trace "launches of 64 threads are recorded" "counts['kernels']" 32000 "len(kernel) + lost_of('kernel', 'memory')" 32000 \
    "len(launch) + lost_of('launch', 'memory')" 32000 "len(set(l['thread'] for l in launch))" 64
record INFERPROF_COLLECT_MEMORY=4194304 "$app" init threads=64:200
expect_trace "threads without memory for a ring record their launches" "len(launch) + lost_of('launch', 'memory')" 12800 "counts['calls']" 12800
rm -rf "$work/t" && mkdir "$work/t"
run env CUDA_INJECTION64_PATH="$COLLECTOR" INFERPROF_COLLECT_DIR="$work/t" "$app" init kernels=500000
run "$INFERPROF" trace info "$work"/t/*.ipt
expect "500,000 kernels at full speed are recorded" 0 out 'kernel +500,000|lost .*kernel'
record INFERPROF_COLLECT_MAX_SIZE=20000 "$app" init threads=8:20000
expect_trace "a size limit stops the file; the rest is counted as lost" "lost_of('kernel', 'disk') > 0" True

# ---- fork, exec, and ways to end
case $BUILD in
*tsan*)
    skip "a forked child has its own file" "the thread sanitizer cannot start threads in a forked child"
    skip "a forked child of a CUDA program does not attach to CUPTI again" "the same"
    ;;
*)
    record "$app" init push=parent kernels=100 sleep=100 fork pop
    expect_trace "a forked child has its own file" "sorted(r['name'] for r in range_)" "['in the child', 'parent']" "len(kernel)" 100
    check "one file per process" test "$(file_count)" = 2
    record INFERPROF_COLLECT_RANGE='in the*' "$app" init push=before kernels=10 pop fork push='in the parent' kernels=5 pop
    expect_trace "a forked child of a CUDA program does not attach to CUPTI again" "len(kernel)" 5 "len(meta['cupti.version'])" 1 "len(windows())" 1 "len(range_)" 3
    ;;
esac
record "$app" push=before pop exec=init,kernels=50,push=after,pop
expect_trace "after exec, the traces of both programs are kept" "len(kernel)" 50 "[r['name'] for r in range_ if r['name'] == 'after']" "['after']"
record "$app" init kernels=10 dlclose kernels=10 push=still pop
expect_trace "dlclose does not unload the collector" "len(kernel)" 20 "len(range_)" 1
for how in _exit=0 kill segv abort; do
    case $how in _exit=0) want_status=0 ;; kill) want_status=137 ;; segv) want_status=139 ;; abort) want_status=134 ;; esac
    record "$app" init push=r pop kernels=1000 sleep=1300 $how
    expect_trace "$how: records from before are kept" "len(kernel)" 1000 "len(range_)" 1
done
want_status=5
record "$app" init kernels=10 exit=5
expect_trace "the exit status of the program is unchanged" "len(kernel)" 10
want_status=0

# ---- unwritable folders and invalid settings
record INFERPROF_COLLECT_DIR=/nonexistent/folder "$app" init push=r kernels=100 pop
expect_trace "the program runs if the folder cannot be written" "len(kernel)" 0
record INFERPROF_COLLECT_DIR= "$app" init push=r kernels=100 pop
expect_trace "without a folder the collector does nothing" "len(kernel)" 0
rm -rf "$work/t" && mkdir "$work/t"
(
    ulimit -f 8
    CUDA_INJECTION64_PATH="$COLLECTOR" INFERPROF_COLLECT_DIR="$work/t" exec "$app" init threads=8:20000 exit=0
) >"$work/out" 2>"$work/err"
status=$?
: >"$work/dump"
expect_trace "the program runs if the disk is full"
record INFERPROF_COLLECT_BUDGET_PPM=lots INFERPROF_COLLECT_BUGDET=2 INFERPROF_COLLECT_WHAT=kernels,dreams "$app" init kernels=10
expect_trace "invalid settings are reported" "len(kernel)" 10 "problem('INFERPROF_COLLECT_BUDGET_PPM=lots is invalid')" True \
    "problem('unknown variable INFERPROF_COLLECT_BUGDET')" True "problem(\"'dreams' is not one of\")" True

# ---- files with weights: path, size and description, never contents. The paths are in variables, so that they are no arguments
m=$(realpath "$work")/models
mkdir -p "$m/hf" "$m/cache/models--org--tiny/blobs" "$m/cache/models--org--tiny/snapshots/1a2b"
python3 tests/tools/make_gguf.py qwen3 Q8_0 "$m/a.gguf"
python3 tests/tools/make_gguf.py llama F16 "$m/split" 3
printf 'x%.0s' $(seq 200) >"$m/other.gguf"
cp "$m/a.gguf" "$m/a.bin"
python3 - "$m" <<'END'
import json, struct, sys
head = json.dumps({"lm_head.weight": {"dtype": "BF16", "shape": [4, 8], "data_offsets": [0, 64]}}).encode()
for name in ("hf/model.safetensors", "cache/models--org--tiny/blobs/" + "0123456789abcdef" * 4):
    open(f"{sys.argv[1]}/{name}", "wb").write(struct.pack("<Q", len(head)) + head + b"SECRETWEIGHTS".ljust(64))
for folder in ("hf", "cache/models--org--tiny/snapshots/1a2b"):
    open(f"{sys.argv[1]}/{folder}/config.json", "w").write('{"model_type": "llama"}')
END
files="sorted(set((f['path'].rsplit('/', 1)[1], f.get('format', ''), f.get('flags', 0)) for f in model_file))"
record A="$m/a.gguf" "$app" init open=A sleep=200 close kernels=10
expect_trace "a GGUF file that was closed before the first kernel is recorded" "$files" "[('a.gguf', 'gguf', 1)]" \
    "model_file[0]['file_bytes']" "$(stat -c %s "$m/a.gguf")" "model_file[0]['text_bytes'] < 4000" True
record A="$m/a.gguf" "$app" open=A map=A init kernels=10 sleep=100
expect_trace "an open and mapped file is recorded once" "len(model_file)" 1
cp "$m/a.gguf" "$m/gone.gguf"
record A="$m/gone.gguf" "$app" map=A unlink=A init kernels=10 sleep=300
expect_trace "a mapped file that was deleted is recorded from memory" "$files" "[('gone.gguf', 'gguf', 10)]" \
    "model_file[0]['text_bytes'] < 4000" True
cp "$m/a.gguf" "$m/gone.gguf"
record A="$m/gone.gguf" "$app" open=A unlink=A init kernels=10 sleep=100
expect_trace "an open file that was deleted is recorded" "$files" "[('gone.gguf', 'gguf', 9)]"
record A="$m/split-00001-of-00003.gguf" B="$m/split-00002-of-00003.gguf" C="$m/split-00003-of-00003.gguf" "$app" map=A map=B map=C init kernels=10 sleep=300
expect_trace "all parts of a split model are recorded" "len(set(f['path'] for f in model_file))" 3
record A="$m/hf/model.safetensors" "$app" open=A init kernels=10 sleep=100
expect_trace "a safetensors file is recorded with its config" "$files" "[('config.json', 'config.json', 0), ('model.safetensors', 'safetensors', 1)]" \
    "any('SECRET' in f['text'] for f in model_file)" False
record A="$m/cache/models--org--tiny/blobs/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" "$app" open=A init kernels=10 sleep=100
expect_trace "a file of Hugging Face's cache is recorded with its config" "sorted(f['format'] for f in model_file)" "['config.json', 'safetensors']"
record A="$m/a.bin" B="$m/other.gguf" "$app" open=A open=B init kernels=10 sleep=100
expect_trace "files without weights, or with other names, are not recorded" "len(model_file)" 0
record "$app" say="$m/a.gguf" init kernels=10 sleep=100
: >"$work/out" # the argument is printed
expect_trace "a file that an argument names is recorded" "$files" "[('a.gguf', 'gguf', 4)]"

# ---- tapes: CUPTI's buffers recorded on a real GPU
for tape in tests/mock/tapes/*.gz; do
    [ -f "$tape" ] || continue
    gzip -dc "$tape" >"$work/tape"
    want=$(sed -n "s/^$(basename "$tape" .tape.gz) //p" tests/mock/tapes/kernels.txt)
    record "$app" init tape="$work/tape"
    expect_trace "tape $(basename "$tape" .tape.gz): $want kernels, each with a launch" "len(kernel)" "$want" "orphans()" 0 "early()" 0 \
        "counts['untrusted']" 0
done
