#!/bin/bash
# example.sh NAME RUN_DIR CHECKS.json: makes docs/examples/NAME from a run of hf_profile.sh or native.sh: the traces of the recorded
# request, all numbers, the table of independent checks (CHECKS.json "-": none), and the report as scripts/examples.sh writes it. Names of
# the machine are removed. RANGE: the range of the request in the trace (native engine: prefill).
set -eu
name=$1 run=$2 checks=$3
root=$(cd "$(dirname "$0")/../.." && pwd)
export INFERPROF=${INFERPROF:-$root/build/inferprof}
out=$root/docs/examples/$name
rm -rf "$out" && mkdir -p "$out/trace"
"$INFERPROF" trace cut -q "$run" -o "$out/trace" --range "${RANGE:-inferprof request}" --duration 1000 --anonymous
[ "$checks" = - ] || python3 "$root/tests/gpu/hf_table.py" "$run" "$checks" "$INFERPROF" >"$out/checks.md"
python3 - "$run/metrics.json" <<'END' | gzip -9n >"$out/metrics.json.gz"
import re, sys
subs = [(r"/(tmp|dev/shm)/(tmp\.\w+|work|\w+-\w{6})\b", "/data"), (r"/\S*?/inferprof-[\w.]+-linux-x86_64/", "/opt/inferprof/"),
        (r"GPU-[0-9a-f]{8}-[0-9a-f-]{27}", "GPU-..."), (r'\{[^{}]*"key": ?"host"[^{}]*\},?\s*', "")]
with open(sys.argv[1], encoding="utf-8") as f:
    text = f.read()
for pattern, replacement in subs:
    text = re.sub(pattern, replacement, text)
sys.stdout.write(text)
END
sh "$root/scripts/examples.sh"
du -sh "$out"
