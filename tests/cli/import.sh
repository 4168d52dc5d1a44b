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
run "$INFERPROF" stats --json tests/data/kineto/hta_rank0_a100.json.gz tests/data/kineto/hta_rank1_a100.json.gz
cp "$work/out" "$work/stats.json"
oracle ranks_equal_the_oracle tests/oracle/kineto_stats.py --compare "$work/stats.json" tests/data/kineto/hta_rank0_a100.json.gz tests/data/kineto/hta_rank1_a100.json.gz
run "$INFERPROF" stats tests/data/nsys/dsocr_clip_cuda_gpu_kern_sum.csv
expect stats_reads_an_nsys_summary 0 out 'Kernels' out 'Events: kernel [0-9]+'
run "$INFERPROF" import tests/data/nsys/dsocr_clip_cuda_gpu_kern_sum.csv
expect import_prints_an_nsys_summary 0 out 'Kernels' out 'Events: kernel [0-9]+'
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
expect import_names_what_it_could_not_match 0 err '0 of them are in this run.*Not in it.*copy_blocked'
check import_ncu_json_is_there grep -q '"dram_pct"' "$work/run/ncu.json"

# the kernels of that profile as torch.profiler prints them
cat >"$work/gemms.json" <<'JSON'
{"traceEvents":[
{"ph":"X","cat":"kernel","name":"void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8>(cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8::Params)",
 "pid":0,"tid":7,"ts":10,"dur":13,"args":{"device":0,"stream":7,"correlation":1,"grid":[72,4,1],"block":[128,1,1]}},
{"ph":"X","cat":"kernel","name":"other","pid":0,"tid":7,"ts":30,"dur":5,"args":{"device":0,"stream":7,"correlation":2,"grid":[1,1,1],"block":[32,1,1]}}]}
JSON
run "$INFERPROF" import -o "$work/gemms" "$work/gemms.json"
run "$INFERPROF" import --into "$work/gemms" tests/data/ncu/k0003_ncu.*.csv tests/data/ncu/copy_blocked_t4_base_units.csv
expect import_matches_ncu_to_kernels 0 err '2 kinds of kernels; 1 of them are in this run and own 72.2%.*Not in it.*copy_blocked'
check kernels_md_shows_ncu grep -qE 'cutlass.* 13.31 \| 33.4% \| 48.0% \| 11.3% \| 13.7% \| 2.71% \| 91.8% \| – \| latency' "$work/gemms/kernels.md"
check kernels_csv_shows_ncu grep -q ',13310,33.36,47.96,11.28,' "$work/gemms/kernels.csv"
check report_md_counts_what_ncu_saw grep -q 'profiled 2 kinds of kernels; 1 of them' "$work/gemms/report.md"
check report_html_shows_ncu grep -q 'ncu occupancy' "$work/gemms/report.html"
check metrics_json_says_how_ncu_matched grep -q '"matched_by": "name"' "$work/gemms/metrics.json"
run "$INFERPROF" import --no-report -o "$work/both" "$work/gemms.json" tests/data/ncu/k0003_ncu.section_SpeedOfLight.csv
expect import_takes_traces_and_ncu_together 0 err 'ncu.json'
run "$INFERPROF" report "$work/both"
check report_reads_ncu_json grep -q '"ncu"' "$work/both/metrics.json"
echo '{"schema": 7}' >"$work/both/ncu.json"
run "$INFERPROF" report "$work/both"
expect a_damaged_ncu_json_costs_only_itself 0
check a_damaged_ncu_json_is_reported grep -q 'ncu.json: not what' "$work/both/report.md"

# .nsys-rep: NVIDIA's nsys turns it into SQLite; here a stand-in that notes how it was called
mkdir "$work/bin"
gzip -dc tests/data/nsys/tiny_rtx3080_2026.1.sqlite.gz >"$work/tiny.sqlite"
cat >"$work/bin/nsys" <<EOF
#!/bin/sh
echo "\$*" >"$work/nsys.args"
echo "talk of nsys"
[ "\$8" = "$work/broken.nsys-rep" ] && exit 3
cp "$work/tiny.sqlite" "\$7"
EOF
chmod +x "$work/bin/nsys"
echo "binary" >"$work/a.nsys-rep"
cp "$work/a.nsys-rep" "$work/broken.nsys-rep"
run env PATH="$work/bin:$PATH" "$INFERPROF" import --no-report -o "$work/rep" "$work/a.nsys-rep"
expect import_reads_nsys_reports_through_nsys 0 out "^$work/rep\$" err '2 kernels'
check nsys_is_called_to_export_sqlite grep -qE "^export --type sqlite --force-overwrite true --output [^ ]*[.]sqlite $work/a.nsys-rep\$" "$work/nsys.args"
check nsys_leaves_no_file_behind test -z "$(find "$work/rep/trace" "$TMPDIR" -maxdepth 1 \( -name '*.sqlite' -o -name '*.log' \) -newer "$work/a.nsys-rep")"
check the_talk_of_nsys_is_not_the_product test "$(cat "$work/out")" = "$work/rep"
run "$INFERPROF" trace dump -k meta "$work/rep/trace/"*.ipt
expect the_trace_names_the_report_it_was_made_of 0 out 'import.file.*a.nsys-rep'
run env PATH="$work/bin:$PATH" "$INFERPROF" import -o "$work/rep2" "$work/broken.nsys-rep"
expect a_failing_nsys_is_reported 1 err 'broken.nsys-rep: nsys export failed: nsys ended with exit status 3: talk of nsys'
run env PATH="$work/none" "$INFERPROF" stats "$work/a.nsys-rep"
expect without_nsys_it_says_how_to_export 1 err 'nsys export --type sqlite'

# what only the whole trace shows: shared correlation ids, work without a launch, overlap on a stream
cat >"$work/links.json" <<'JSON'
[{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":1,"dur":1,"args":{"correlation":5}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":3,"dur":1,"args":{"correlation":5}},
{"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":10,"dur":10,"args":{"correlation":5,"device":0,"stream":7}},
{"ph":"X","cat":"kernel","name":"b","pid":0,"tid":7,"ts":15,"dur":10,"args":{"correlation":6,"device":0,"stream":7}},
{"ph":"X","cat":"kernel","name":"c","pid":0,"tid":7,"ts":30,"dur":5,"args":{"device":0,"stream":7}}]
JSON
run "$INFERPROF" stats --json "$work/links.json"
cp "$work/out" "$work/stats.json"
expect stats_count_odd_links 0 out '"duplicate_correlation": 1' out '"no_launch": 2' out '"overlap_on_stream": 1' out '"no_correlation": 1'
oracle odd_links_equal_the_oracle tests/oracle/kineto_stats.py --compare "$work/stats.json" "$work/links.json"

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

# A disk that takes no more: the message names the file.
run sh -c 'trap "" XFSZ; ulimit -f 16; exec "$@"' sh "$INFERPROF" import -o "$work/no-room" tests/data/kineto/hta_rank0_a100.json.gz
expect a_trace_that_finds_no_room_is_named 1 err 'no-room/trace/hta_rank0_a100.ipt: trace incomplete: '
check and_nothing_of_it_stays test ! -e "$work/no-room"

# Interrupted while nsys works: it ends with its children, and nothing of either stays.
mkdir "$work/slow"
cat >"$work/slow/nsys" <<END
#!/bin/sh
: >"\$7"
sleep 60 &
echo \$! >"$work/slow/child"
echo \$\$ >"$work/slow/pid"
wait
END
chmod +x "$work/slow/nsys"
PATH="$work/slow:$PATH" timeout --foreground -k 10 "$command_seconds" "$INFERPROF" import -o "$work/never" "$work/a.nsys-rep" >"$work/out" 2>"$work/err" &
importer=$!
for _ in $(seq 200); do [ -s "$work/slow/pid" ] && break; sleep 0.05; done
kill -TERM $importer
wait $importer
check an_interrupted_import_dies_of_the_signal test $? -eq 143
check nsys_ends_with_it gone "$(cat "$work/slow/pid")"
check and_so_do_its_children gone "$(cat "$work/slow/child")"
check and_no_file_stays test ! -e "$work/never"
