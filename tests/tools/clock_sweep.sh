#!/bin/sh
# clock_sweep.sh [CLUSTERS]: fits the clocks of many simulated clusters (tests/unit/ranks/test_clocks.c) and prints the
# largest error. `make test` simulates 30 of them; this script 1,000 by default, in about a minute.
set -eu
cd "$(dirname "$0")/../.."
CLOCK_CLUSTERS=${1:-1000} TMPDIR=${TMPDIR:-/tmp} "${BUILD:-build}/tests/unit-ranks" 2>&1 | grep -E "clusters|FAILED|PASSED"
