# `stats` and `import` on real files of other tools, held to an independent computation where python3 is there.
# shellcheck shell=sh
. tests/cli/lib.sh

oracle() { # NAME SCRIPT ARGS...
    name=$1
    shift
    if command -v python3 >/dev/null 2>&1; then check "$name" python3 "$@"; else skip "$name" "no python3"; fi
}

for f in tests/data/kineto/*.json*; do
    run "$INFERPROF" stats --json "$f"
    cp "$work/out" "$work/stats.json"
    expect "stats_reads_$(basename "$f")" 0 out '"kernels"'
    oracle "stats_equal_the_oracle_on_$(basename "$f")" tests/oracle/kineto_stats.py --compare "$work/stats.json" "$f"
done
for f in tests/data/nsys/*.sqlite.gz; do
    run "$INFERPROF" stats --json "$f"
    cp "$work/out" "$work/stats.json"
    expect "stats_reads_$(basename "$f")" 0 out '"kernels"'
    oracle "stats_equal_the_oracle_on_$(basename "$f")" tests/oracle/nsys_stats.py "$work/stats.json" "$f"
done

run "$INFERPROF" stats tests/data/kineto/hta_rank0_a100.json.gz tests/data/kineto/hta_rank1_a100.json.gz
expect stats_names_the_slowest_rank 0 out 'Slowest outside communication: .*rank[01]' out 'comm share'
run "$INFERPROF" stats tests/data/nsys/dsocr_clip_cuda_gpu_kern_sum.csv
expect stats_reads_an_nsys_summary 0 out 'Kernels' out 'Events: kernel [0-9]+'
run "$INFERPROF" stats tests/data/ncu/dropout_head.csv
expect stats_reads_ncu 0 out 'fused_dropout_kernel_vec'

run "$INFERPROF" import -o "$work/run" tests/data/kineto/hta_rank0_a100.json.gz tests/data/kineto/hta_rank1_a100.json.gz
expect import_writes_a_run_folder 0 out "$work/run" err 'rank 1'
check import_keeps_a_trace_a_rank test -s "$work/run/trace/hta_rank0_a100.ipt" -a -s "$work/run/trace/hta_rank1_a100.ipt"
check import_writes_the_report test -s "$work/run/report.html" -a -s "$work/run/metrics.json" -a -s "$work/run/kernels.csv"
run "$INFERPROF" import -o "$work/run" tests/data/kineto/hta_plain_json.json
expect import_does_not_mix_two_runs 1 err 'holds traces already'
run "$INFERPROF" import --no-report -o "$work/nsys" tests/data/nsys/tiny_rtx3080_2026.1.sqlite.gz
expect import_reads_nsys 0 out "$work/nsys" err '2 kernels'
check import_can_leave_the_report_out test ! -e "$work/nsys/report.html"
run "$INFERPROF" stats --json "$work/run"
cp "$work/out" "$work/from_run.json"
expect stats_reads_a_run_folder 0 out '"slowest_rank"'
run "$INFERPROF" import tests/data/ncu/k0001_ncu.*.csv tests/data/ncu/k0003_ncu.*.csv
expect import_prints_kernels_of_ncu 0 out 'latency|memory|compute' out 'launches'
run "$INFERPROF" import --into "$work/run" tests/data/ncu/copy_blocked_t4_base_units.csv
expect import_adds_ncu_to_a_run 0 err 'ncu.json'
check import_ncu_json_is_there grep -q '"dram_pct"' "$work/run/ncu.json"

head -c 100000 tests/data/kineto/tl_vit_nsfw_h100.json.gz >"$work/cut.json.gz"
run "$INFERPROF" stats --json "$work/cut.json.gz"
expect a_cut_gzip_keeps_what_is_sound 0 out '"damaged_compression": 1' out '"truncated": 1' out '"cpu_op": [1-9]'
printf 'hello\n' >"$work/plain.txt"
run "$INFERPROF" import -o "$work/none" "$work/plain.txt"
expect import_refuses_what_it_does_not_know 1 err 'not a format known here'
: >"$work/empty.json"
run "$INFERPROF" stats "$work/empty.json"
expect stats_refuses_an_empty_file 1 err 'is empty'
run "$INFERPROF" stats "$work/missing.json"
expect stats_names_a_missing_file 1 err 'missing.json: No such file'
printf '{"a": 1}' >"$work/other.json"
run "$INFERPROF" stats "$work/other.json"
expect stats_refuses_json_without_events 1 err 'no trace events'
run "$INFERPROF" import -o "$work/left" "$work/other.json"
expect import_refuses_json_without_events 1 err 'no trace events'
check a_failed_import_leaves_no_folder test ! -e "$work/left"
mkdir "$work/mine"
run "$INFERPROF" import -o "$work/mine" "$work/other.json"
check a_failed_import_keeps_a_folder_it_did_not_make test -d "$work/mine" -a ! -e "$work/mine/trace"
cp tests/data/kineto/hta_alexnet_a100.json.gz "$work/.it's.json.gz"
run "$INFERPROF" import -q -o "$work/hidden" "$work/.it's.json.gz"
expect import_is_silent_when_told_to_be 0 out '/hidden$'
check import_said_nothing test ! -s "$work/err"
check import_names_a_trace_of_a_hidden_file test -s "$work/hidden/trace/it's.ipt"
check import_can_be_repeated_from_its_report grep -qF "inferprof import '$work/.it'\\''s.json.gz'" "$work/hidden/report.md"
