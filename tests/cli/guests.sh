#!/bin/sh
# The collector inside programs that mistreat it (tests/guests): exit status, output and files of each must be as without it,
# and each must end in time. docs/collector-promises.md names these tests.
. tests/cli/lib.sh
case $BUILD in
*tsan*)
    skip "hostile guests" "the thread sanitizer takes what they do on purpose for data races, and hangs in their copies"
    exit 0
    ;;
esac
mock=$PWD/$BUILD/tests/mock
guests=$PWD/$BUILD/tests/guests
app=$mock/mock_app
query=$PWD/tests/mock/query.py
export LD_LIBRARY_PATH="$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
cd "$work" || exit 1
work=$PWD
unset CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" # what a copy of a process does not free is the original's
case $BUILD in *san*) sanitized=1 ;; *) sanitized=0 ;; esac # address-space limits and preloaded libraries do not work with sanitizers

now_ms() { echo $(($(date +%s%N) / 1000000)); }

# alone FOLDER COMMAND...: runs it in an empty folder, at most 60 s; leaves FOLDER.out, .err and .status beside the folder
alone() {
    folder=$1
    shift
    rm -rf "$folder" && mkdir -p "$folder"
    (cd "$folder" && timeout -s KILL 60 "$@" >"../$folder.out" 2>"../$folder.err")
    echo $? >"$folder.status"
}

dump_all() { for f; do [ -f "$f" ] && "$INFERPROF" trace dump --json "$f" 2>/dev/null; done >records; }

# How long guests wait for the collector: long enough for exact counts on a loaded machine or with sanitizers.
# Tests of the limit itself set the default, 1000.
wait_ms=30000

# guest COMMAND...: runs it without and with the collector; sets $difference, $took_ms and the file records (of all traces)
guest() {
    alone without "$@"
    rm -rf t && mkdir t
    start=$(now_ms)
    alone with env CUDA_INJECTION64_PATH="$COLLECTOR" NVTX_INJECTION64_PATH="$COLLECTOR" INFERPROF_COLLECT_DIR="$work/t" \
        INFERPROF_COLLECT_FLUSH_MS=50 INFERPROF_COLLECT_WAIT_MS="$wait_ms" "$@"
    took_ms=$(($(now_ms) - start))
    difference=
    for what in status out err; do
        cmp -s "without.$what" "with.$what" || difference="$difference $what: $(head -c 300 "without.$what") / $(head -c 600 "with.$what")"
    done
    diff -r without with >files.diff 2>&1 || difference="$difference files: $(head -c 600 files.diff)"
    dump_all t/*.ipt
}

# unchanged NAME [EXPRESSION VALUE]...: the last guest() was the same without and with the collector, and the expressions
# (tests/mock/query.py) have these values
unchanged() {
    name=$1
    shift
    if [ -n "$difference" ]; then
        not_ok "$name" "$difference"
    elif why=$(python3 "$query" records "$@" 2>&1); then
        ok "$name"
    else
        not_ok "$name" "$(echo "$why" | tail -n 3)" "$(grep -a problem records | head -n 3)"
    fi
}

# ---- descriptors
for how in close_range loop dup2; do
    guest "$guests/descriptors" $how
    unchanged "a program that takes all descriptors ($how) keeps its file, and is recorded to the end" "len(range_)" 100 "len(kernel)" 100 "len(lost)" 0
    [ $how = close_range ] && continue # the next systems do not have it
    guest "$guests/sandbox" noclose_range -- "$guests/descriptors" $how
    unchanged "the same before Linux 5.9 ($how): without close_range()" "len(range_)" 100 "len(kernel)" 100 "len(lost)" 0
    guest "$guests/sandbox" noclose_range nounshare -- "$guests/descriptors" $how
    unchanged "the same where descriptors cannot be private ($how): the trace is opened again" "len(range_)" 100 "len(kernel)" 100 "len(lost)" 0
done
guest "$guests/context"
unchanged "errno, signals, open descriptors and the next one are as without us" "len(range_) >= 5" True
guest "$guests/sandbox" noclose_range -- "$guests/context"
unchanged "the same before Linux 5.9" "len(range_) >= 5" True

# ---- exit in a signal handler
wait_ms=1000
failed_runs=0 slowest=0
for us in 300 700 1100 1700 2300 3100 4100 5300 6700 8300 10007 13001 17011 23003 31013; do
    guest "$guests/signal_exit" exit $us
    if [ -n "$difference" ] || [ "$(cat with.status)" != 3 ]; then
        failed_runs=$((failed_runs + 1))
        echo "# $us us: $difference"
    fi
    [ "$took_ms" -le "$slowest" ] || slowest=$took_ms
done
check "exit in a signal handler inside the collector ends the program, with its status" test $failed_runs = 0
[ $sanitized = 1 ] || check "it never waits longer than its second ($slowest ms)" test "$slowest" -lt 3000
guest "$guests/signal_exit" nvtx
unchanged "a signal handler that uses NVTX inside the collector does not hang" "len(range_) > 500" True
# Without a flush, the mock CUPTI keeps its first buffer and requests no memory. Without TLS descriptors (Makefile), the first
# access to a thread-local variable allocates.
preload=
[ $sanitized = 1 ] || ! readelf -rW "$COLLECTOR" | grep -q TLSDESC || preload=$guests/libno_malloc.so
guest env INFERPROF_COLLECT_FLUSH_MS=0 LD_PRELOAD="$preload" "$guests/signal_exit" first
unchanged "the first calls of a thread may be in a handler that interrupted malloc()" \
    "sum(r['name'] == 'in the handler' for r in range_)" 64 "len(kernel)" 67 "len(lost)" 0

# ---- copies of the process
wait_ms=30000
for how in _Fork clone; do
    guest "$guests/copies" $how
    unchanged "a child of $how that exits neither hangs nor writes" "len(meta['process.pid'])" 1 \
        "sum(r['name'] == 'in the copy' for r in range_)" 0 "len(range_) > 64" True
done
for what in kernels,launches,nvtx kernels,gemms; do
    guest env INFERPROF_COLLECT_WHAT=$what "$guests/loader"
    unchanged "no thread of the collector holds the loader's lock ($what)" "len(kernel)" 10
done
guest "$guests/copies" vfork
unchanged "a child of vfork does not disturb the trace" "len(meta['process.pid'])" 1 "len(range_) > 64" True
if [ $sanitized = 1 ]; then
    skip "children of fork are recorded, each in its own file" "in a child of fork(), a lock of the address sanitizer's malloc() may stay held"
else
    guest "$guests/copies" fork
    unchanged "children of fork are recorded, each in its own file" "len(meta['process.pid'])" 41 "sum(r['name'] == 'in the copy' for r in range_)" 4000
fi
guest sh -c "reached=\$('$guests/daemon'); test ! -e daemon.txt && echo \"\$reached\"; while ! test -s daemon.txt || ls -l /proc/[0-9]*/exe 2>/dev/null | grep -q '$guests/daemon\$'; do sleep 0.05; done"
unchanged "a daemon lets go of its starter's pipe, keeps its low descriptors, and is recorded" "len(kernel)" 10 \
    "sorted(r['name'] for r in range_)" "['before', 'in the daemon']"

# ---- stacks and threads
for mode in used unused child; do
    guest "$guests/main_ends" $mode
    unchanged "a program whose main thread ends by pthread_exit() ends with its last thread ($mode)" \
        "sum(r['name'] == 'in a thread' for r in range_)" 400
    guest env INFERPROF_COLLECT_DIR=/proc/nowhere "$guests/main_ends" $mode
    unchanged "so does one that cannot be recorded ($mode)"
done
guest "$guests/threads" 1 18
unchanged "a thread with 18 KiB of stack may open the trace" "sorted(r['name'] for r in range_)" "['mark', 'range of a thread']"
guest "$guests/threads" 2000 64
unchanged "2,000 threads at once are recorded" "sum(r['name'] == 'range of a thread' for r in range_)" 2000 "len(lost)" 0

# ---- locale
mkdir -p locales
if localedef -i de_DE -f UTF-8 "$work/locales/de_DE.UTF-8" >localedef.out 2>&1; then
    export LOCPATH="$work/locales"
    guest "$guests/locale" de_DE.UTF-8
    unchanged "a decimal comma in the program's locale does not reach the trace" "len(kernel)" 120 "',' in meta['clock.fit'][0] + meta['collector.stop_ms'][0]" False
    check "the program has its decimal comma" grep -qx '0,5' with.out
    run timeout -s KILL 60 env LC_ALL=de_DE.UTF-8 "$INFERPROF" run --delay 0.3 --duration 0.5 --budget 1.5 --range 'ran*' -o comma -- "$guests/locale" de_DE.UTF-8
    check "--delay, --duration and --budget have an effect in a program with a decimal comma" test "$status" = 0
    dump_all comma/trace/*-*.ipt
    difference=
    unchanged "their values arrive exactly" "meta['setting.delay_us'] + meta['setting.duration_us'] + meta['setting.budget_ppm']" "['300000', '500000', '15000']" \
        "0 < len(kernel) < 120" True "inside()" True "'problem' in meta" False
    unset LOCPATH
else
    not_ok "localedef makes a locale" "$(head -n 3 localedef.out)"
fi
# shellcheck disable=SC2016
check "no conversion in the collector and in the sampler of counters depends on the locale" sh -c '! grep -nE "%[-0-9.*]*[eEgGaA]|%[-0-9*]*(\.[1-9*])?f|strtod|strtof|atof|[^_]tolower|toupper|strn?casecmp|[^_]is(alpha|digit|space|print|alnum|upper|lower)\(|fnmatch|strcoll|setlocale" \
    "$0"/src/collect/*.[ch] "$0"/src/counters/*.[ch] "$0"/src/trace/writer*.[ch] "$0"/src/base/secret.c "$0"/src/base/err.c | grep -v "glob.h:"' "$OLDPWD"

# ---- limits
for limit in nofile=16 nofile=8 fsize=64 fsize=4096; do
    guest "$guests/sandbox" $limit -- "$app" init say=hello push=r kernels=2000 pop sleep=300
    unchanged "a program with the limit $limit runs as without us"
done
guest "$guests/sandbox" nothreads -- "$app" init say=hello push=r kernels=100 pop
unchanged "a program that may start no thread runs as without us" "len(range_)" 0
if [ $sanitized = 0 ]; then
    for mib in 8 16 24 40 80 200; do
        guest "$guests/sandbox" as=$((mib << 20)) -- "$app" init say=hello push=r kernels=2000 pop sleep=300
        unchanged "a program with $mib MiB of address space runs as without us"
    done
fi
rm -rf t && mkdir t
run timeout -s KILL 60 "$INFERPROF" run -o unrecorded -- "$guests/sandbox" nothreads -- "$app" push=r pop
expect "run reports why a process was not recorded" 1 err 'process .* was not recorded: .*thread'

# ---- a disk that hangs
wait_ms=1000
if [ $sanitized = 0 ]; then
    for stuck in open 1 2 3 6; do
        guest env STUCK=$stuck LD_PRELOAD="$guests/libstuck.so" "$app" init say=hello push=r kernels=20000 pop sleep=300 exit=5
        unchanged "a disk that hangs (STUCK=$stuck) does not keep the program from ending"
        [ $sanitized = 1 ] || check "it costs at most a second at each end ($took_ms ms)" test "$took_ms" -lt 4000
    done
fi

if [ $sanitized = 0 ]; then
    guest env STUCK=open LD_PRELOAD="$guests/libstuck.so" "$guests/sandbox" nothreads -- "$app" init say=hello push=r kernels=100 pop exit=5
    unchanged "a program that may start no thread does not wait for a disk that hangs" "len(range_)" 0
    check "it ends at once ($took_ms ms)" test "$took_ms" -lt 3000
fi

# ---- a file that opens late: the program waits for it for 1 s, then goes on
if [ $sanitized = 0 ]; then
    guest env STUCK=late LD_PRELOAD="$guests/libstuck.so" "$app" push=r init kernels=2000 pop sleep=1500 push=s kernels=10 pop
    unchanged "launches and kernels without an open file are counted as lost" "len(launch)" 10 "len(kernel)" 10 \
        "lost_of('launch', 'memory')" 2000 "lost_of('kernel', 'memory')" 2000 "lost_of('range', 'memory')" 1 "'problem' in meta" False
fi

# ---- another root
if [ "$(id -u)" = 0 ]; then
    mkdir -p jail
    guest sh -c "rm -rf '$work/jail' && mkdir '$work/jail' && '$guests/jail' '$work/jail'; echo \$?; cat '$work/jail/from-the-jail.txt'"
    unchanged "a program that changes its root runs as without us; the trace that was open goes on" \
        "sum(r['name'] == 'outside' for r in range_)" 20 "sum(r['name'] == 'inside' for r in range_)" 20
else
    skip "a program that changes its root runs as without us; the trace that was open goes on" "chroot needs root"
fi
