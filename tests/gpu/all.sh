#!/bin/bash
# all.sh [SECTION...]: runs the GPU tests in sequence, or only the sections named. Minutes on an H200:
#     calibrate 1, record 1.5, run_all 8, run_cmd 1, counters_smoke 0.5, counters_ncu 2: docs/overhead.md, docs/counters.md
#     hf_smoke 1, hf_profile 3, hf_recording 4, hf_foreign 1: docs/engine-hf.md
#     profile 6: docs/profile.md, docs/compare.md, docs/overhead.md
#     steps 4, programs 4: docs/foreign-programs.md. LLAMA=FOLDER: programs also runs llama-bench from this folder.
#     token_time 3: docs/overhead.md; with LLAMA=FOLDER
#     ranks 2: docs/ranks.md
#     cuda 1.5: docs/engine.md; needs the tests (make STATIC=1 test-build)
set -u
cd "$(dirname "$0")/../.." || exit 1
if [ $# -eq 0 ]; then
    set -- calibrate record run_all run_cmd counters_smoke counters_ncu hf_smoke hf_profile hf_recording hf_foreign profile steps programs token_time ranks cuda
fi
failed=0
for section; do
    if [ ! -f "tests/gpu/$section.sh" ]; then
        echo "all.sh: there is no section $section" >&2
        exit 2
    fi
    echo "===== $section"
    bash "tests/gpu/$section.sh" || failed=1
done
exit $failed
