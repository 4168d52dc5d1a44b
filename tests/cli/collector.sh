#!/bin/sh
# The real collector inside a program that uses CUDA and NVTX, against mock libraries (tests/mock): what it records, and
# that it harms nobody whatever CUPTI, the driver or the program do.
. tests/cli/lib.sh
mock=$PWD/$BUILD/tests/mock
app=$mock/mock_app
export LD_LIBRARY_PATH="$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# go [NAME=VALUE...] PROGRAM VERBS...: runs the program under the collector; leaves $status, its output and $work/dump
go() {
    rm -rf "$work/t" "$work/dump"
    mkdir -p "$work/t"
    env CUDA_INJECTION64_PATH="$COLLECTOR" NVTX_INJECTION64_PATH="$COLLECTOR" INFERPROF_COLLECT_DIR="$work/t" \
        INFERPROF_COLLECT_FLUSH_MS=50 "$@" >"$work/out" 2>"$work/err"
    status=$?
    sed -i '/^Killed$/d; /^Segmentation fault$/d; /^Aborted$/d; /was not suspended. False leaks/d' "$work/err" # the shell's and LeakSanitizer's own words
    : >"$work/dump"
    for f in "$work"/t/*.ipt; do [ -f "$f" ] && "$INFERPROF" trace dump --json "$f" >>"$work/dump" 2>/dev/null; done
}

# is NAME EXPRESSION VALUE...: the last go() ended well and silently, and the expressions have the values
is() {
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
files() { find "$work/t" -name '*.ipt' | wc -l | tr -d ' '; }

# ---- what is recorded
go "$app" init kernels=1000 graphs=10 copies=5 memsets=3 syncs=4
is "every kernel, copy, launch and sync is there" "len(kernel)" 1160 "len(launch)" 1018 "len(copy)" 8 "len(sync)" 4 \
    "counts['graph_kernels']" 160 "len(lost)" 0
is "every kernel finds its launch, and starts after it" "orphans()" 0 "early()" 0
is "a runtime call and the driver call in it are one launch" "sorted(set(l['api'] for l in launch))" \
    "['cuGraphLaunch', 'cuLaunchKernel', 'cuMemcpyHtoDAsync_v2', 'cuMemsetD8Async']"
is "kernels carry their geometry and names" \
    "sorted(set((k['name'], k['grid_x'], k['block_x'], k['registers'], k['dynamic_smem_bytes']) for k in kernel))[0]" \
    "('_Z9gemm_bf16PfS_', 132, 256, 64, 49152)"
is "syncs know their kind, thread and stream" "sorted(set((s['sync_kind'], s['stream']) for s in sync))" "[(3, 7), (3, 8)]" \
    "set(s['thread'] for s in sync) == set(l['thread'] for l in launch)" True
is "devices are told with limits and UUIDs" "meta['device.0.name'][0]" "NVIDIA Mock 9000" "meta['device.0.sms'][0]" 132 \
    "meta['device.0.uuid'][0]" GPU-00010203-0405-0607-0809-0a0b0c0d0e0f "meta['device.1.uuid'][0][:4]" MIG- \
    "meta['cuda.driver'][0]" 13.0 "meta['context.1.device'][0]" 0
# a record names its device by the process's own number, and the trace says which UUID that is
go "$app" init kernels=3 device=1 kernels=5 copies=2 graphs=1
is "kernels and copies of two GPUs, each with its device" "[sum(k['device'] == d for k in kernel) for d in (0, 1)]" "[3, 21]" \
    "[c['device'] for c in copy]" "[1, 1]" "meta['context.2.device'][0]" 1 "orphans()" 0 "len(meta['device.0.uuid'] + meta['device.1.uuid'])" 2
for seen in 1 MIG-10111213-1415-1617-1819-1a1b1c1d1e1f; do
    go CUDA_VISIBLE_DEVICES=$seen "$app" init kernels=3
    is "CUDA_VISIBLE_DEVICES=$seen: device 0 of the program is that slice" "set(k['device'] for k in kernel)" "{0}" \
        "meta['device.0.uuid']" "['MIG-10111213-1415-1617-1819-1a1b1c1d1e1f']" "'device.1.uuid' in meta" False
done
go CUDA_VISIBLE_DEVICES=1,0 "$app" init kernels=3
is "CUDA_VISIBLE_DEVICES=1,0: the program's own order" "[meta[f'device.{i}.uuid'][0][:3] for i in (0, 1)]" "['MIG', 'GPU']"
go CUDA_VISIBLE_DEVICES= "$app" init push=r pop
is "no visible GPU: ranges alone" "'device.0.uuid' in meta" False "len(range_)" 1

go "$app" init kernels=1000
is "clock pairs, a line through them and its residual are told" "len(meta['clock.pair']) >= 1" True \
    "'residual_ns' in meta['clock.fit'][0]" True

go "$app" init kernels=4 stream=decode kernels=4
is "streams carry the names NVTX gave them" "meta['stream.7.name'][0]" decode

go INFERPROF_COLLECT_WHAT=kernels,launches,nvtx,whole-graphs "$app" init kernels=5 graphs=10
is "graphs as a whole: one record a launch, other kernels as ever" "len(kernel)" 15 "len(launch)" 15 "orphans()" 0 \
    "sum(k['name'] == 'CUDA graph 5' and k['graph'] == 5 and k['graph_node'] == 0 for k in kernel)" 10

go "$app" nvtx push=left-open
is "NVTX in all its forms" "sorted(r['name'] for r in range_)" \
    "['', '', '', '', 'ex', 'first', 'innér', 'left-open', 'mark', 'outer', 'over the domain', 'prefill', 'registered', 'registered', 'second']"
is "ranges know depth, domain, category and payload" \
    "[(r['depth'], r['domain'], r['detail'], r['payload']) for r in range_ if r['name'] == 'registered' and not r['flags']]" \
    "[(0, 'lib', 'category math', -5)]" "[r['depth'] for r in range_ if r['name'] == 'ex']" "[2]" \
    "[r['category'] for r in range_ if r['name'] == 'prefill']" "[1]"
is "a range left open is kept and marked, start/end pairs are free" \
    "[r['flags'] for r in range_ if r['name'] == 'left-open']" "[4]" "sum(r['flags'] == 2 for r in range_)" 3
is "marks of our own domain are tokens" "[(t['count'], t['token_kind']) for t in token]" "[(12, 1)]"
go "$app" "push=aten::mm, op_id = 7, sizes = [[2, 3], [3, 4]], input_op_ids = [(5,0)]" \
    "push=aten::mm, seq = 1, op_id = 8, sizes = [[2, 3], [3, 4]]" pop pop "push=load, op_id" pop "push=aten::t, op_id = 9"
is "PyTorch's operators: the number of the call goes, the shapes are the detail" \
    "[(r['name'], r['detail'], r['category']) for r in sorted(range_, key=lambda r: r['start_ns'])]" \
    "[('aten::mm', 'sizes = [[2, 3], [3, 4]]', 3), ('aten::mm', 'sizes = [[2, 3], [3, 4]]', 3), ('load, op_id', '', 0), ('aten::t', '', 3)]"
go "$app" "push=inferprof:stage prefill" "mark=inferprof:consumed 501" "push=inferprof:module model.layers.0" pop \
    "mark=inferprof:made 1" "mark=inferprof:made x" pop
is "a text alone can name stages, modules and tokens" \
    "[(r['name'], r['flags'], r['category']) for r in sorted(range_, key=lambda r: r['start_ns'])]" \
    "[('prefill', 0, 1), ('model.layers.0', 0, 2), ('inferprof:made x', 1, 0)]" \
    "[(t['count'], t['token_kind']) for t in token]" "[(501, 0), (1, 1)]"
go "$app" push=a nest=300 pop
is "deeper than 256 ranges: the rest is counted" "len(range_)" 256 "lost_of('range', 'memory')" 45

# ---- records that cannot be trusted
for bad in zero reversed early; do
    go MOCK_CUPTI=$bad "$app" init kernels=1000
    is "$bad times are put aside and counted" "len(kernel)" 900 "lost_of('kernel', 'untrusted')" 100 "counts['untrusted']" 100
done
go MOCK_CUPTI=unknown "$app" init kernels=1000
is "records of unknown kinds are stepped over" "len(kernel)" 1000 "counts['unknown']" 100
go MOCK_CUPTI=dropped "$app" init kernels=10
is "what CUPTI dropped is counted" "len(kernel)" 10 "lost_of('kernel', 'source')" 7
go MOCK_CUPTI=cutoff INFERPROF_COLLECT_FLUSH_MS=0 "$app" init kernels=10
is "a buffer cut short costs one record" "len(kernel)" 9

# ---- versions and clocks
for v in 18 22 26 28 130001 130101 130301 130401; do
    go MOCK_CUPTI_VERSION=$v "$app" init kernels=100 copies=3 memsets=2
    is "CUPTI $v: layouts fit" "len(kernel)" 100 "len(copy)" 5 "orphans()" 0 "set(c['bytes'] for c in copy)" "{4096}"
done
go MOCK_CUPTI_VERSION=17 "$app" init push=r pop kernels=100
is "a CUPTI too old is refused in words, ranges stay" "len(kernel)" 0 "len(range_)" 1 "problem('older than CUDA 12.0')" True
go MOCK_CUPTI_VERSION=150000 "$app" init kernels=100
is "a CUPTI newer than any known is tried and named" "len(kernel)" 100 "problem('newer than any')" True
go MOCK_CLOCK_SHIFT=7777000000000 "$app" init kernels=100
is "another clock is brought to the wall clock" "len(kernel)" 100 "early()" 0 \
    "max(abs(k['start_ns'] - launches[k['correlation']]['start_ns']) for k in kernel) < 10**9" True

# ---- CUPTI that refuses, is held, is missing, is slow
go MOCK_CUPTI=refuse "$app" init push=r kernels=100 pop
is "refused kernels: the trace says how to lift it, the rest goes on" "len(kernel)" 0 "len(launch)" 100 "len(range_)" 1 \
    "problem('NVreg_RestrictProfilingToAdminUsers=0')" True
go MOCK_CUPTI=held "$app" init push=r kernels=100 pop
is "CUPTI held by another: said, and NVTX goes on" "len(kernel)" 0 "len(range_)" 1 "problem('CUPTI allows one user a process')" True
go "$app" init kernels=10 takeover kernels=100000
is "buffers taken over by the program: said" "problem('took the records over') or len(kernel) > 0" True
go INFERPROF_COLLECT_CUPTI=/nowhere/libcupti.so "$app" init push=r pop kernels=10
is "no CUPTI: said, and NVTX goes on" "len(range_)" 1 "problem('INFERPROF_COLLECT_CUPTI')" True
go MOCK_CUPTI=late INFERPROF_COLLECT_BUFFER=65536 "$app" init kernels=3000
is "buffers that come back only at the end are all read" "len(kernel)" 3000
go MOCK_CUPTI=late INFERPROF_COLLECT_MEMORY=4194304 INFERPROF_COLLECT_BUFFER=524288 "$app" init kernels=60000
is "buffers that never come back do not eat the memory" "len(kernel) < 60000 and len(kernel) > 1000" True "orphans()" 0
go MOCK_CUPTI=worker "$app" init kernels=20000
is "buffers on a thread of CUPTI's own" "len(kernel)" 20000
go MOCK_CUPTI=hang timeout -s KILL 120 "$app" init kernels=10
is "a flush that never returns is waited for 0.6 s, and the program ends" "problem('did not hand them out within 600 ms')" True
go MOCK_CUPTI=hang INFERPROF_COLLECT_FLUSH_MS=0 INFERPROF_COLLECT_RANGE=r timeout -s KILL 120 "$app" init push=r kernels=10 pop sleep=300
is "nor the one that ends a window" "len(windows())" 1 "len(range_)" 1

# ---- windows
go INFERPROF_COLLECT_RANGE='dec*' "$app" init push=prefill kernels=100 pop push=decode kernels=50 pop kernels=30 push=decode kernels=7 pop
is "kernels of the named ranges alone, ranges all" "len(kernel)" 57 "len(launch)" 57 "len(range_)" 3 "len(windows())" 2
go INFERPROF_COLLECT_DELAY=0.2 INFERPROF_COLLECT_DURATION=0.3 "$app" init kernels=10 sleep=350 kernels=20 sleep=350 kernels=40
is "after a delay, for a duration" "len(windows())" 1 "inside()" True
go INFERPROF_COLLECT_START=1 INFERPROF_COLLECT_DELAY=1 "$app" init kernels=10
is "a delay counts from the start of the program: it is over when CUDA comes late" "len(kernel)" 10
go INFERPROF_COLLECT_START=1 INFERPROF_COLLECT_DELAY=1 INFERPROF_COLLECT_DURATION=1 "$app" init push=r kernels=10 pop
is "the duration too, and that is said" "len(kernel)" 0 "len(range_)" 1 "problem('count from the program\'s start and had passed')" True
go MOCK_CUPTI=hasty INFERPROF_COLLECT_RANGE=work "$app" init push=work kernels=100 pop kernels=50 sleep=300 push=work kernels=7 pop sleep=300
is "a window's last kernels have their times; what was launched after it is left out" "len(kernel)" 107 "orphans()" 0 \
    "counts['untrusted']" 0 "counts['outside'] <= 50" True
go MOCK_CUPTI=fragile INFERPROF_COLLECT_RANGE=work "$app" init push=work kernels=10 pop sleep=1000 push=work kernels=500 pop
is "kernels come again after they were off, because callbacks came first" "len(kernel)" 510 "orphans()" 0
go MOCK_CUPTI=once INFERPROF_COLLECT_RANGE=work "$app" init push=work kernels=10 pop sleep=1000 push=work kernels=500 pop
is "where they do not, it is said" "len(kernel)" 10 "problem('of 510 launches and copies only 10 have a record')" True
go INFERPROF_COLLECT_BUDGET=2 "$app" init sleep=300 kernels=1 sleep=300 kernels=100000 push=range pop sleep=700 kernels=50000 kernels=50000
is "a budget captures some, says when, and keeps NVTX" "0 < len(kernel) < 200000" True "len(windows()) >= 1" True "len(range_)" 1 "orphans()" 0
go INFERPROF_COLLECT_BUDGET=50 "$app" init kernels=1 sleep=300 kernels=1 sleep=300 kernels=1 sleep=300 kernels=5 sleep=300
is "a budget begins with the first call, however few there are" "len(kernel) > 0" True "orphans()" 0
# shellcheck disable=SC2046
go INFERPROF_COLLECT_BUDGET=2 "$app" init $(for _ in 1 2 3 4 5 6 7 8 9; do printf 'kernels=60000 sleep=300 '; done)
is "also of a program that launches all the time; where CUPTI cannot leave it, it is said why" "len(kernel) > 0" True "orphans()" 0 \
    "problem('CUPTI stays in the program between windows (the program\'s kernels run on several streams)')" True
burst="kernels=20000 sleep=100 kernels=20 syncs=1 sleep=300 syncs=1"
# shellcheck disable=SC2086  # a burst is several words
go INFERPROF_COLLECT_BUDGET=5 "$app" init streams=1 kernels=5 sleep=100 $burst kernels=5 sleep=1000 $burst kernels=5 sleep=300
is "between its windows CUPTI leaves where the program waits, and comes again" "counts['left'] > 0" True "len(windows()) > 1" True "orphans()" 0 \
    "len(set(l['correlation'] for l in launch)) == len(launch)" True "counts['kernels'] == counts['calls']" True
last="kernels=100 sleep=300 kernels=1 sleep=300 kernels=50 syncs=1 sleep=100 syncs=1 kernels=50"
stays() { # WHAT [VARIABLE...] PROGRAM...: the window's 100 kernels are there, and CUPTI did not leave
    what=$1
    shift
    go INFERPROF_COLLECT_DURATION=0.2 "$@"
    is "$what" "counts['left']" 0 "len(kernel) >= 100" True "'problem' in meta" False
}
# shellcheck disable=SC2086
{
    go INFERPROF_COLLECT_DURATION=0.2 "$app" init streams=1 $last
    is "after the last window it leaves for good" "counts['left']" 1 "len(kernel)" 100
    go INFERPROF_COLLECT_DURATION=0.2 INFERPROF_COLLECT_WHAT=kernels,launches "$app" init streams=1 $last
    is "also where waits are not recorded" "counts['left']" 1 "len(sync)" 0
    go INFERPROF_COLLECT_DURATION=0.2 "$app" init streams=1 kernels=100 sleep=300 kernels=1 sleep=300 kernels=50 sleep=100
    is "not while the program does not wait for the GPU" "counts['left']" 0
    stays "one that would crash when it comes again stays" MOCK_CUPTI_VERSION=23 "$app" init streams=1 $last
    stays "likewise where a graph was recorded" "$app" init streams=1 graphs=1 $last
    stays "or launched just after the window" "$app" init streams=1 kernels=100 sleep=210 graphs=1 $last
    stays "or where another stream has work of its own" "$app" init streams=2 kernels=2 streams=1 $last
    go MOCK_CUPTI=zero INFERPROF_COLLECT_DURATION=0.2 "$app" init streams=1 $last
    is "or where a launch has no kernel" "counts['left']" 0
    go INFERPROF_COLLECT_BUDGET=5 "$app" init hold streams=1 kernels=5 sleep=100 $burst kernels=5 sleep=1000 $burst kernels=5 sleep=300
    is "another tool that takes its place keeps it, and that is said" "counts['left']" 1 "len(kernel) > 0" True "problem('no more kernels were recorded')" True
    forgets=$(for _ in $(seq 16); do printf 'kernels=4000 sleep=110 kernels=4000 sleep=20 kernels=1 sleep=20 syncs=1 sleep=100 '; done)
    go INFERPROF_COLLECT_BUDGET=3 INFERPROF_COLLECT_MEMORY=4194304 INFERPROF_COLLECT_BUFFER=524288 "$app" init streams=1 $forgets
    is "buffers that it forgot are used again" "counts['left'] > 5" True "len(lost)" 0 "counts['kernels'] == counts['calls']" True
}
go INFERPROF_COLLECT_RANGE='arm*' INFERPROF_COLLECT_ARMS=1 "$app" init "push=arm kernels,launches" kernels=10 pop kernels=20 \
    "push=arm kernels,empty" kernels=30 pop "push=arm kernels,launches,passing" kernels=40 pop "push=arm launches,passing" kernels=50 pop \
    "push=arm kernels,launches" kernels=7 pop
is "arms for measuring: each range gets what it names, and what passes is not recorded" "len(kernel)" 17 "len(launch)" 17 "counts['outside']" 40
go INFERPROF_COLLECT_WHAT=kernels,empty,nvtx "$app" init kernels=10000
is "the empty collector takes records and throws them away" "len(kernel)" 0 "counts['buffers'] > 0" True
go INFERPROF_COLLECT_WHAT=nvtx "$app" init push=r kernels=10 pop
is "ranges alone" "len(kernel) + len(launch)" 0 "len(range_)" 1

# ---- many
go "$app" init threads=64:500
is "64 threads" "counts['kernels']" 32000 "len(kernel) + lost_of('kernel', 'memory')" 32000 \
    "len(launch) + lost_of('launch', 'memory')" 32000 "len(set(l['thread'] for l in launch))" 64
go INFERPROF_COLLECT_MEMORY=4194304 "$app" init threads=64:200
is "more threads than there is memory for their rings" "len(launch) + lost_of('launch', 'memory')" 12800 "counts['calls']" 12800
rm -rf "$work/t" && mkdir "$work/t"
run env CUDA_INJECTION64_PATH="$COLLECTOR" INFERPROF_COLLECT_DIR="$work/t" "$app" init kernels=500000
run "$INFERPROF" trace info "$work"/t/*.ipt
expect "half a million kernels at full speed" 0 out 'kernel +500,000|lost .*kernel'
go INFERPROF_COLLECT_MAX_SIZE=20000 "$app" init threads=8:20000
is "a size limit stops the file and counts the rest" "lost_of('kernel', 'disk') > 0" True

# ---- processes that split, turn into others, or die
go "$app" init push=parent kernels=100 sleep=100 fork pop
is "a forked child has a file of its own" "sorted(r['name'] for r in range_)" "['in the child', 'parent']" "len(kernel)" 100
check "two processes, two files" test "$(files)" = 2
go "$app" push=before pop exec=init,kernels=50,push=after,pop
is "a program that becomes another keeps both lives" "len(kernel)" 50 "[r['name'] for r in range_ if r['name'] == 'after']" "['after']"
go "$app" init kernels=10 dlclose kernels=10 push=still pop
is "dlclose does not take the collector away" "len(kernel)" 20 "len(range_)" 1
for how in _exit=0 kill segv abort; do
    case $how in _exit=0) want_status=0 ;; kill) want_status=137 ;; segv) want_status=139 ;; abort) want_status=134 ;; esac
    go "$app" init push=r pop kernels=1000 sleep=1300 $how
    is "$how: what was collected before stays" "len(kernel)" 1000 "len(range_)" 1
done
want_status=5
go "$app" init kernels=10 exit=5
is "the program's own exit status" "len(kernel)" 10
want_status=0

# ---- places that cannot be written, settings that make no sense
go INFERPROF_COLLECT_DIR=/nonexistent/folder "$app" init push=r kernels=100 pop
is "an unwritable folder: the program runs on" "len(kernel)" 0
go INFERPROF_COLLECT_DIR= "$app" init push=r kernels=100 pop
is "no folder: the collector does nothing" "len(kernel)" 0
rm -rf "$work/t" && mkdir "$work/t"
(
    ulimit -f 8
    CUDA_INJECTION64_PATH="$COLLECTOR" INFERPROF_COLLECT_DIR="$work/t" exec "$app" init threads=8:20000 exit=0
) >"$work/out" 2>"$work/err"
status=$?
: >"$work/dump"
is "a disk that is full: the program runs on"
go INFERPROF_COLLECT_BUDGET=lots INFERPROF_COLLECT_BUGDET=2 INFERPROF_COLLECT_WHAT=kernels,dreams "$app" init kernels=10
is "settings that make no sense are named" "len(kernel)" 10 "problem('INFERPROF_COLLECT_BUDGET=lots cannot be used')" True \
    "problem('INFERPROF_COLLECT_BUGDET is not one')" True "problem(\"'dreams' is not one of\")" True

# ---- tapes: CUPTI's buffers as they came on a real GPU
for tape in tests/mock/tapes/*.gz; do
    [ -f "$tape" ] || continue
    gzip -dc "$tape" >"$work/tape"
    want=$(sed -n "s/^$(basename "$tape" .tape.gz) //p" tests/mock/tapes/kernels.txt)
    go "$app" init tape="$work/tape"
    is "tape $(basename "$tape" .tape.gz): $want kernels, each with its launch" "len(kernel)" "$want" "orphans()" 0 "early()" 0 \
        "counts['untrusted']" 0
done
