#!/bin/bash
# example.sh NAME RUN_DIR CHECKS.json SECONDS: makes docs/examples/NAME from a run of hf_profile.sh: the report as `inferprof report`
# writes it today, the first SECONDS of the recorded request as a trace, and the table of independent checks. Names of the machine
# are removed.
set -eu
name=$1 run=$2 checks=$3 seconds=$4
root=$(cd "$(dirname "$0")/../.." && pwd)
inferprof=${INFERPROF:-$root/build/inferprof}
out=$root/docs/examples/$name
rm -rf "$out" && mkdir -p "$out/trace"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$inferprof" report -q --slim "$run" -o "$work" >"$work/screen.txt"
"$inferprof" trace cut -q "$run" -o "$out/trace" --range prefill --duration "$seconds" --anonymous
python3 "$root/tests/gpu/hf_table.py" "$run" "$checks" "$inferprof" >"$out/checks.md"
cp -r "$work"/{report.html,report.md,stakeholder_summary.md,metrics.json,charts,screen.txt} "$out"
python3 - "$out" <<'END'
import glob, os, re, sys
subs = [(r"/tmp/(tmp\.\w+|work)\b", "/data"), (r"/\S*?/inferprof-[\w.]+-linux-x86_64/", "/opt/inferprof/"),
        (r"GPU-[0-9a-f]{8}-[0-9a-f-]{27}", "GPU-..."), (r"(?m)^\| host \|.*\n", ""),
        (r">(host</\w+>\s*<\w+[^>]*>)[^<]*<", r">\1-<"), (r'\{[^{}]*"key": ?"host"[^{}]*\},?\s*', "")]
for path in glob.glob(sys.argv[1] + "/*.*") + glob.glob(sys.argv[1] + "/charts/*"):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    for pattern, replacement in subs:
        text = re.sub(pattern, replacement, text)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
END
gzip -9n "$out/metrics.json"
du -sh "$out"
