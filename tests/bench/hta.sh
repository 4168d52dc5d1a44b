#!/bin/sh
# hta.sh FILE: prints the CPU time in ns that Holistic Trace Analysis (Meta, from PyPI) takes to load a torch.profiler trace into
# its data frame, or "skipped: REASON". The first run installs it under build/; --no-deps avoids its notebook server.
# hta.sh --install: only installs it.
set -u
cd "$(dirname "$0")/../.." || exit 1
venv=build/hta
version=0.5.0
skip() {
    echo "skipped: $1"
    exit 0
}
[ -z "${BENCH_NO_NETWORK:-}" ] || [ -e "$venv/ready" ] || skip "BENCH_NO_NETWORK is set"
command -v python3 >/dev/null 2>&1 || skip "no python3"
if [ ! -e "$venv/ready" ]; then
    python3 -m venv "$venv" >/dev/null 2>&1 || skip "python3 has no venv"
    "$venv/bin/pip" install -q --disable-pip-version-check --retries 1 --timeout 10 --no-deps "HolisticTraceAnalysis==$version" \
        numpy pandas python-dateutil pytz tzdata six plotly narwhals packaging networkx pydot pyparsing psutil pyyaml >/dev/null 2>&1 ||
        skip "PyPI cannot be reached"
    touch "$venv/ready"
fi
[ "${1:-}" != --install ] || exit 0
"$venv/bin/python" - "$1" 2>/dev/null <<'PYTHON' || skip "Holistic Trace Analysis failed on this file"
import logging, sys, time
logging.disable(logging.CRITICAL)
from hta.common.trace import Trace
start = time.process_time_ns()
trace = Trace(trace_files={0: sys.argv[1]}, trace_dir="")
trace.parse_traces(max_ranks=1, use_multiprocessing=False, use_memory_profiling=False)
assert len(trace.get_trace(0))
print(time.process_time_ns() - start)
PYTHON
