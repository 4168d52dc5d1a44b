#!/bin/sh
# fuzz.sh TARGET...: runs each target for FUZZ_SECONDS on its seeds (tests/fuzz/corpus/NAME) and on the inputs that earlier
# runs found (tests/fuzz/corpus/NAME.tar.gz). New inputs that reach new code are kept under build/. A crash ends the target,
# its input is kept in build/fuzz-findings/, and the script exits with 1.
set -u
BUILD=${BUILD:-build}
seconds=${FUZZ_SECONDS:-30}
failed=0
mkdir -p build/fuzz-findings
for target in "$@"; do
    name=${target#fuzz_}
    mkdir -p "build/fuzz-corpus/$name"
    seeds=tests/fuzz/corpus/$name
    [ -f "$seeds.tar.gz" ] && tar -C "build/fuzz-corpus/$name" -xzf "$seeds.tar.gz"
    [ -d "$seeds" ] || seeds=
    dict=tests/fuzz/$name.dict
    if [ -f "$dict" ]; then dict=-dict=$dict; else dict=; fi
    # shellcheck disable=SC2086
    if "$BUILD/fuzz/$target" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 $dict \
        -artifact_prefix="build/fuzz-findings/$name-" "build/fuzz-corpus/$name" $seeds >"build/fuzz-$name.log" 2>&1; then
        echo "$name: clean, $(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz-$name.log") runs in $seconds s"
    else
        echo "$name: FAILED, see build/fuzz-$name.log and build/fuzz-findings/"
        tail -n 20 "build/fuzz-$name.log"
        failed=1
    fi
done
exit $failed
