#!/bin/sh
# The documents match the program: options, configuration keys, links and printed examples.
. tests/cli/lib.sh
check "the documents list the options and keys of the program" python3 tests/tools/docs.py "$INFERPROF"

mkdir -p "$work/examples/runs/ocr/trace"
"$BUILD/tests/make_trace" "$work/examples/decode.ipt" 64 || exit 1
"$BUILD/tests/make_run" "$work/examples/runs/ocr/trace/a.ipt" 64 1219 || exit 1
"$BUILD/tests/make_ranks" "$work/examples/job" ranks=8 per_node=4 layers=6 slow=5 slow_percent=20 move_ns=5000 || exit 1
# metrics DIR ID DECODE_MS RATES GEMV_NS DRIVER: writes the parts of metrics.json that `compare` reads; 5 processes of 2 repeats
metrics() {
    mkdir -p "$1"
    cat >"$1/metrics.json" <<END
{"schema":"inferprof-metrics","schema_version":1,"run":{"id":"$2"},"device":{"name":"NVIDIA H200"},
 "stages":[{"name":"prefill","parent":null,"repeats_ms":[41.0,41.2,41.1,40.9,41.0,41.1,41.2,41.0,40.9,41.0],"time_ms":41.0},
           {"name":"decode","parent":null,"repeats_ms":[$3],"time_ms":630}],
 "figures":[{"key":"tokens_per_s","name":"Decode rate","unit":"tok/s","larger_is_better":true,"repeats":[$4]}],
 "repeats":[{"process":1},{"process":1},{"process":2},{"process":2},{"process":3},{"process":3},{"process":4},{"process":4},{"process":5},{"process":5}],
 "kernels":[{"short_name":"gemv bf16","category":"GEMV","owned_ns":$5,"calls":4096}],
 "operators":[{"name":"aten::linear","total_ns":212000000,"calls":4096}],
 "environment":[{"group":"GPU","key":"Driver","value":"$6"}]}
END
}
metrics "$work/examples/runs/before" 20261114-before 630,631,629,630,632,631,628,630,631,632 101.6,101.4,101.7,101.6,101.3,101.4,101.9,101.6,101.4,101.3 61000000 580.1
metrics "$work/examples/runs/after" 20261115-after 661,662,660,663,661,660,662,661,664,662 96.8,96.7,97.0,96.5,96.8,97.0,96.7,96.8,96.4,96.7 92000000 580.2
python3 tests/tools/doc_examples.py "$INFERPROF" "$work/examples" docs/compare.md docs/configuration.md docs/export.md docs/import.md \
    docs/profile.md docs/ranks.md docs/report.md docs/static.md docs/stats.md docs/trace.md >"$work/log"
check "the examples in the documents match the program's output" test $? -eq 0
sed 's/^/# /' "$work/log"

sh scripts/examples.sh --check >"$work/log" 2>&1
check "the reports in docs/examples are those of this program" test $? -eq 0
sed 's/^/# /' "$work/log"
