#!/bin/bash
# all.sh: runs all GPU tests in sequence (about 16 minutes on an H200). The latest results are in docs/overhead.md,
# docs/counters.md and docs/engine-hf.md.
set -u
cd "$(dirname "$0")/../.." || exit 1
failed=0
for part in calibrate record run_all run_cmd counters_smoke counters_ncu hf_smoke hf_profile hf_foreign; do
    echo "===== $part"
    bash "tests/gpu/$part.sh" || failed=1
done
exit $failed
