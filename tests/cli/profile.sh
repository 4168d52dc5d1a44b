#!/bin/sh
# `inferprof profile` end to end: configuration, checks before the run, whole runs with the fake engine (fixed numbers),
# engine failures, interruption, and one short run of the native engine.
. tests/cli/lib.sh
fake_engine '{"prompt": "one | two", "id": "a|b"}' '{"prompt": "<b>", "id": "c"}'

# ---- configuration
run "$INFERPROF" profile --show-config prompt='-1: list the items'
expect "--show-config quotes a text that starts like a number" 0 out '^prompt: "-1: list the items"'
run "$INFERPROF" profile --show-config repeats=3 model=deepseek_ocr model.path=/m
expect "--show-config names the origin of every value" 0 \
    out '^repeats: 3 +# command line$' out '^  path: /m +# command line$' \
    out '^  max_new_tokens: 8192 +# built-in conf/model/deepseek_ocr.yaml:[0-9]+$' out '^  top_k: 0 +# built-in conf/config.yaml:[0-9]+$' \
    out '^  no_repeat_ngram_size: 20 +# built-in conf/config.yaml:[0-9]+ as \$\{model.no_repeat_ngram_size\}$'
run "$INFERPROF" profile repeats=ten max_new_token=5 infer.top_p=7
expect "wrong keys and types are listed together" 2 \
    err "unknown key 'max_new_token'; did you mean 'infer.max_new_tokens'" err "repeats is 'ten', expected a whole number" \
    err "infer.top_p is '7', expected a number from 0 to 1"
run "$INFERPROF" profile model.path=/no/model dataset.root=/no/data device=cuda:9 output.dir=/dev/null/x engine.command='[/no/engine]'
expect "all obstacles to a run are listed together, before any work" 1 err 'model.path=/no/model: no such folder' \
    err 'dataset.root=/no/data: no such folder' err 'device=cuda:9' err '/no/engine: no such program' err 'is a file, not a folder'
run "$INFERPROF" profile --dry-run engine.devices='[cpu, cuda]' device=cuda:0
if [ "$status" -eq 0 ]; then skip "without a GPU cuda:0 is refused, and device=cpu is suggested" "this machine has a GPU"
else expect "without a GPU cuda:0 is refused, and device=cpu is suggested" 1 err "use device=cpu"; fi
run "$INFERPROF" profile --conf-dir /no/conf
expect "a missing --conf-dir is an error" 1 err "/no/conf: not a folder"
run "$INFERPROF" profile --rerun /no/run
expect "--rerun of a missing run is an error" 1 err '/no/run: not a run folder'

# ---- a busy machine
busy=$work/busy
mkdir "$busy"
echo "9999.5 50.0 20.0 3/100 1" >"$busy/loadavg"
export INFERPROF_PROC="$busy"
profile_fake ""
expect "a busy machine is reported on the terminal before the times" 0 out 'machine was busy.*load average was 9999.5 on [0-9]+ cores'
check "a busy machine is reported once" test "$(grep -c 'load average was' "$work/out")" -eq 1
export INFERPROF_PROC="$TMPDIR/proc"
check "the verdict of a busy machine does not compare with the roofline" python3 - "$dir" <<'END'
import json, sys
m = json.load(open(sys.argv[1] + "/metrics.json"))
assert m["problems"][0].startswith("The machine was busy: the load average was 9999.5"), m["problems"]
assert sum("machine was busy" in p for p in m["problems"]) == 1
assert m["findings"] and all(f["confidence"] == "low" and f["advice"].startswith("First repeat the run on an idle machine")
                             for f in m["findings"]), m["findings"]
text = open(sys.argv[1] + "/report.md").read()
verdict = text[text.index("The machine was busy"):].split("\n")[0]
assert "roofline time" not in verdict and " takes " in verdict, verdict
END
"$INFERPROF" report -q "$dir" >/dev/null
check "a new report of the run keeps the caveat and the softer findings" python3 - "$dir" <<'END'
import json, sys
m = json.load(open(sys.argv[1] + "/metrics.json"))
assert m["problems"][0].startswith("The machine was busy") and all(f["confidence"] == "low" for f in m["findings"])
END
run "$INFERPROF" runs "$work/runs"
expect "the list of runs marks the busy machine" 0 out '^run .* notes$' out '-embedded .* busy( .*)?$'
rm -rf "$work/runs"

# ---- a whole run
profile_fake "" --dry-run
expect "--dry-run prints the plan" 0 out '^engine +fake: ' out '^phase 2 +4 timed repeats, up to 5 new tokens'
check "--dry-run creates no folder" test ! -e "$work/runs"
profile_fake ""
expect "the last line of a run is the path of its folder" 0 out "^$work/runs/[0-9]{8}-[0-9]{6}-embedded\$"
first=$dir
missing=
for f in report.html report.md stakeholder_summary.md metrics.json operators.md operators.csv kernels.md kernels.csv stages.csv \
    findings.json static_compute.json static_compute.md predictions.jsonl predictions.md env.json inputs.yaml config.yaml \
    assumptions.md inferprof.log trace/engine.ipt; do
    [ -s "$dir/$f" ] || missing="$missing $f"
done
check "the run folder holds every file" test -z "$missing"
check "a finished run folder has no INCOMPLETE file" test ! -e "$dir/INCOMPLETE"
check "every Markdown table is valid" python3 tests/tools/markdown_tables.py "$dir"
check "the JSON files hold the engine's answers and times" python3 -c "
import json, sys
d = sys.argv[1]
for f in ('metrics', 'findings', 'static_compute', 'env'):
    json.load(open(f'{d}/{f}.json'))
rows = [json.loads(l) for l in open(f'{d}/predictions.jsonl')]
assert [r['phase'] for r in rows] == ['representative'] + ['timing'] * 4, rows
assert rows[1]['input'] == 'a|b' and rows[2]['input'] == 'c'
m = json.load(open(f'{d}/metrics.json'))
s = {s['name']: s for s in m['stages']}
assert s['prefill']['repeats_ms'] == [102, 100, 101, 102] and s['prefill']['time_ms'] == 101.5, s['prefill']
assert s['sam']['repeats_ms'] == [40] * 4 and s['sam']['parent'] == 'prefill', s['sam']
assert s['decode']['repeats_ms'] == [50] * 4, s['decode']
f = {f['key']: f['repeats'] for f in m['figures']}
assert f['time_to_first_token'] == [108, 106, 107, 108] and f['decode_tokens_per_s'] == [80] * 4, f" "$dir"
check "the report has the answers" grep -qxF '<b>bold</b> | pipe' "$dir/report.md"
check "the page has the configuration" python3 -c "
import re, sys
page = open(sys.argv[1], encoding='utf-8').read()
conf = re.search(r'<summary>Configuration</summary><pre>(.*?)</pre>', page, re.S).group(1)
assert re.search(r'^repeats: 4$', conf, re.M) and re.search(r'^  max_new_tokens: 5$', conf, re.M), conf" "$dir/report.html"
same_report "a second report rewrites every file without a change" "$dir"
check "the log holds the time of the last repeat" grep -q 'repeat 4 of 4: prefill 102.000 ms' "$dir/inferprof.log"

printf '{"prompt": "changed", "id": "a|b"}\n{"prompt": "<b>", "id": "c"}\n' >"$work/data/p.jsonl"
rm -f "$work/state"
run "$INFERPROF" profile --rerun "$first"
expect "--rerun asks before it runs a program that the folder names" 1 err "runs the program: $fake $work/state; add --trust"
run "$INFERPROF" profile --rerun "$first" --trust
dir=$(tail -n 1 "$work/out")
expect "--rerun warns about an input that has changed" 0 err 'a\|b has changed since '
grep -v "^#" "$first/config.yaml" >"$work/a" && grep -v "^#" "$dir/config.yaml" >"$work/b"
check "--rerun has the same configuration" cmp "$work/a" "$work/b"

run "$INFERPROF" profile --trust --rerun "$first" output.run_id=same
expect "output.run_id sets the name of the folder" 0 out "^$work/runs/same\$"
rm -f "$work/state"
run "$INFERPROF" profile --trust --rerun "$first" output.run_id=same
expect "a second run with the same id gets the next free name" 0 out "^$work/runs/same-2\$"
check "two runs with the same id get two folders" test -s "$work/runs/same/report.md" -a -s "$work/runs/same-2/report.md"

# ---- several processes, and inputs of different size
profile_fake "" processes=3
expect "processes=3 runs all repeats in each of three processes" 0
check "metrics.json has the process and the input of each repeat" json_is "$dir/metrics.json" \
    '([r["process"] for r in d["repeats"]], [r["input"] for r in d["repeats"]][:3], len(d["stages"][0]["repeats_ms"]))' \
    "([1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3], ['a|b', 'c', 'a|b'], 12)"
same_report "a second report of several processes changes nothing" "$dir"
three=$dir
profile_fake "" processes=5
run "$INFERPROF" compare "$three" "$dir"
expect "compare counts the processes of a run" 0 out '^prefill .* 3 / 5 +12 / 20 +no difference shown'
profile_fake 6=crash processes=2
expect "a restarted engine is another process" 0
check "repeats after a restart have the number of the new process" json_is "$dir/metrics.json" '[r["process"] for r in d["repeats"]]' \
    "[1, 1, 1, 1, 2, 3, 3, 3]"
printf '{"prompt": "%0200d", "id": "large"}\n{"prompt": "12345", "id": "small"}\n' 1 >"$work/data/sizes.jsonl"
profile_fake sizes dataset.prompts="$work/data/sizes.jsonl" repeats=9
expect "inputs of different size are profiled" 0
check "different inputs are not called unstable" lacks 'nstable: prefill|varies too much' "$dir/report.md"
check "cost, time and floor are of each repeat's own input" python3 - "$dir" <<'END'
import json, statistics, sys
m = json.load(open(f"{sys.argv[1]}/metrics.json"))
s = {s["name"]: s for s in m["stages"]}["prefill"]
t = [t for t in m["analysis_input"]["timings"] if t["stage"] == "prefill"][0]
assert len(set(t["floor_ms"])) == 2 and t["tokens_in"][:2] == [5600, 140], t
assert abs(s["distance"] - statistics.median(a / b for a, b in zip(t["ms"], t["floor_ms"]))) < 1e-9, s["distance"]
assert abs(s["mfu"] - 1e3 / (statistics.median(a / b for a, b in zip(t["ms"], t["flops"])) * 0.1e12)) < 1e-9, s["mfu"]
assert s["timed"]["cv"] < 0.05 and not m["run"]["unstable"], s["timed"]
assert s["representative_ms"] == 2001 and abs(s["recording_overhead_ratio"] - 1) < 0.01, s
assert s["tokens"] == 5600, s["tokens"]
roof = [f for f in m["findings"] if f["rule"] == "roof-distance" and f["stage"] == "prefill"]
assert roof and f"{s['distance']:.1f}x" in roof[0]["title"] and f"{s['distance']:.1f}x the roofline time" in roof[0]["evidence"], roof
END
same_report "a second report of inputs of different size changes nothing" "$dir"
# ---- --rerun of a folder from somebody else
# rerun_with LINE: --rerun of a folder with this line below `engine:`
rerun_with() {
    rm -rf "$work/given" && mkdir "$work/given"
    printf 'engine:\n  name: hf\n  %s\n' "$1" >"$work/given/config.yaml"
    shift
    run "$INFERPROF" profile --rerun "$work/given" engine=hf output.dir="$work/runs" "$@"
}
rerun_with 'python: /tmp/own/python'
expect "--rerun refuses an interpreter that the folder names" 1 err 'runs the program: /tmp/own/python inferprof:engines/hf/worker.py'
rerun_with 'env: {LD_PRELOAD: /tmp/own.so}'
expect "--rerun refuses variables that the folder sets" 1 err 'sets engine.env.LD_PRELOAD; add --trust'
for value in 'OMP_TOOL_LIBRARIES: /tmp/own.so' 'INFERPROF_COLLECT_CUPTI: /tmp/own.so'; do
    rerun_with "env: {$value}"
    expect "--rerun refuses settings that load a library ($value)" 1 err "sets engine.env.${value%%:*}; add --trust"
done
for value in 1 yes '"true"' '[x]'; do
    rerun_with "load: {trust_remote_code: $value}"
    expect "--rerun takes every value for the permission of remote code ($value)" 1 err 'runs the code in the model.s folder'
done
rerun_with 'load: {attn_implementation: someone/kernels}'
expect "--rerun refuses a repository of kernels" 1 err 'runs the code of someone/kernels'
rerun_with 'load: {attn_implementation: {text_config: sdpa, vision_config: someone/kernels}}'
expect "--rerun refuses one for a part of the model" 1 err 'runs the code of someone/kernels'
# A dry run asks engine.python for its packages.
printf '#!/bin/sh\n: >"%s"\n' "$work/own-python-ran" >"$work/own-python" && chmod +x "$work/own-python"
rerun_with "$(printf 'python: %s\n  command: [python3, "inferprof:engines/hf/worker.py"]' "$work/own-python")" --dry-run
expect "--rerun --dry-run refuses an interpreter besides engine.command" 1 err "runs the program: $work/own-python .*add --trust"
check "and does not start it" test ! -e "$work/own-python-ran"
: >"$work/given/config.yaml"
run "$INFERPROF" profile --rerun "$work/given" output.dir="$work/runs"
expect "--rerun refuses an empty configuration" 1 err 'not a run folder'
rerun_with 'load: {trust_remote_code: true}'
expect "--rerun refuses remote code that the folder allows" 1 err 'runs the code in the model.s folder'
if [ "$(id -u)" -eq 0 ]; then
    chown 12345 "$work/given"
    run "$INFERPROF" profile --trust --rerun "$work/given" engine=hf
    expect "--trust does not apply to a folder of another user" 1 err 'belongs to another user and runs the code'
else skip "--trust does not apply to a folder of another user" "only root can give a folder away"; fi

# ---- Python does not import modules from the current folder, which may belong to another user
mkdir -p "$work/foreign" && echo "open('$work/imported', 'w')" >"$work/foreign/csv.py"
cp "$work/foreign/csv.py" "$work/foreign/torch.py"
run env -C "$work/foreign" "$INFERPROF" doctor
run env -C "$work/foreign" "$INFERPROF" profile --dry-run engine=hf model.path="$PWD/tests/data/models" output.dir="$work/runs"
check "doctor and --dry-run import no modules from the current folder" test ! -e "$work/imported"

# ---- a configuration that is a pipe
mkfifo "$work/pipe.yaml"
run "$INFERPROF" profile --config "$work/pipe.yaml" --dry-run
expect "--config of a pipe is refused" 1 err 'pipe.yaml: a pipe or device, expected a regular file'

# ---- secrets
# leaks FOLDER: prints the files below it with the value of a secret
leaks() { grep -rl 'hunter2' "$1"; }
profile_fake "" output.run_id=secret +engine.env.HF_TOKEN=hunter2-token +engine.env.PRIVATE=hunter2-env +engine.env.OMP_NUM_THREADS=3 \
    "engine.command=[$fake, $work/state, --api-key, hunter2-key]"
expect "a run with secrets succeeds" 0
check "the secrets are in no file of the run folder" test -z "$(leaks "$dir")"
check "config.yaml keeps the names of secrets and the settings" sh -c "grep -q 'HF_TOKEN: .*oc.env:HF_TOKEN' '$dir/config.yaml' && grep -q 'OMP_NUM_THREADS: 3' '$dir/config.yaml'"
same_report "a second report of a run with secrets changes nothing" "$dir"
rm -f "$work/state"
run env -u HF_TOKEN "$INFERPROF" profile --trust --rerun "$dir" output.run_id=secret-again
expect "--rerun names the secrets that are missing" 2 err 'a run folder does not contain secrets: set .*HF_TOKEN, PRIVATE'
run env HF_TOKEN=hunter2 PRIVATE=hunter2 INFERPROF_ENGINE_COMMAND_3=hunter2 "$INFERPROF" profile --trust --rerun "$dir" output.run_id=secret-again
expect "--rerun takes secrets from the environment" 0 out 'secret-again$'
check "the repeated run has no secrets either" test -z "$(leaks "$work/runs/secret-again")"
first_secret=$dir
profile_fake "" output.run_id=secret-map 'engine.env={PRIVATE: hunter2-env, LD_X: "https://u:hunter2-url@h", PATHX: hunter2-path}' \
    "engine.command=[$fake, $work/state, \"x --token hunter2-word\"]"
expect "a run with a map of secrets succeeds" 0
check "secrets in maps, URLs and scripts are in no file of the run folder" test -z "$(leaks "$dir")"
check "nor on the terminal" lacks hunter2 "$work/err"
dir=$first_secret
sed -i 's/"[$]{oc.env:HF_TOKEN}"/hunter2-old/' "$dir/config.yaml"
python3 - "$dir/metrics.json" <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
d["run"]["command"] += " --token hunter2-old"
json.dump(d, open(sys.argv[1], "w"))
END
run "$INFERPROF" report -q "$dir"
rm "$dir/config.yaml"
check "the report of an older run is masked" test -z "$(leaks "$dir")"

# ---- pictures of the inputs are decoration
mkdir -p "$work/pages"
cp tests/data/image/grey8.png "$work/pages/page.png"
cp tests/data/image/grey.jpg "$work/pages/page.jpg"
cp tests/data/image/grey8.png "$work/pages/page-2.png"
python3 - "$work/pages/long.png" "$work/data/pages.jsonl" "$work/pages" <<'END'
import json, struct, sys, zlib
width, height = 200, 70000
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
open(sys.argv[1], "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
                              chunk(b"IDAT", zlib.compress(bytes((width + 1) * height), 9)) + chunk(b"IEND", b""))
with open(sys.argv[2], "w") as f:
    for page, name in ("page.png", "page.png"), ("page.jpg", "page.jpg"), ("page-2.png", "page-2.png"), ("long.png", "i" * 300):
        f.write(json.dumps({"prompt": "<image>x", "image": sys.argv[3] + "/" + page, "id": name}) + "\n")
END
profile_fake "" dataset.prompts="$work/data/pages.jsonl" model.ocr=true output.run_id=pages
expect "a run with long names and pages is finished" 0 out 'runs/pages$'
check "each input has its own thumbnail" test "$(find "$dir/thumbs" -name '*.jpg' | wc -l)" -eq 4
check "inputs that differ in their ending have different names" test -s "$dir/thumbs/page.jpg" -a -s "$dir/thumbs/page-2.jpg" -a -d "$dir/viz/page" -a -d "$dir/viz/page-2"
check "a picture that cannot be written is a warning" grep -q 'no boxes for i*: .*200 x 70000 pixels exceed the limit of JPEG' "$work/err"
check "the run with a failed picture has its report" test -s "$dir/report.md" -a -s "$dir/predictions.md" -a ! -e "$dir/INCOMPLETE"

# ---- failures
profile_fake "2=error, 3=error, 4=error, 5=error"
check "without a repeat that worked no stage has a time" json_is "$dir/metrics.json" \
    '[(s["name"], s["time_ms"], s["time_source"]) for s in d["stages"] if s["name"] == "decode"]' "[('decode', None, 'none: 4 timed repeats failed')]"
check "without a repeat that worked no finding promises a saving" json_is "$dir/metrics.json" '[f["rule"] for f in d["findings"] if f["saving_ms"]]' "[]"
run "$INFERPROF" compare "$dir" "$first"
expect "compare takes no time from a run whose repeats all failed" 0 out '^decode .* unknown' out '^prefill .* unknown'
profile_fake 3=crash
expect "a crash of the engine fails one repeat and is reported" 0 err 'repeat 2 of 4 failed: the engine died \(signal 11'
check "the report names the failed repeat" grep -q 'Repeat 2 of 4 failed' "$dir/report.md"
check "the report states that the engine was restarted" grep -q 'The engine was restarted 1 time' "$dir/report.md"
run sh -c '"$@" 2>&1' sh "$INFERPROF" report "$dir"
expect "a report of the run shows its failures" 0 out '^! Repeat 2 of 4 failed: the engine died'
# the messages and the summary in one file, as on a terminal
rm -f "$work/state"
run sh -c '"$@" 2>&1' sh "$INFERPROF" profile --conf-dir "$work/conf" engine=fake dataset=prompts dataset.prompts="$work/data/p.jsonl" \
    repeats=4 infer.max_new_tokens=5 peak.tflops=0.1 peak.gbps=10 output.dir="$work/runs" "engine.command=[$fake, $work/state, 3=crash]"
check "a failure that was printed during the run is not printed again in the summary" \
    test "$(tr '\n' ' ' <"$work/out" | grep -oi 'repeat 2 of 4 failed' | wc -l)" -eq 1
for step in load warmup 0; do
    profile_fake $step=crash
    expect "a run without results prints only its folder on stdout ($step)" 1 out "^$work/runs/"
    check "the cause of a run without results is printed in one line, once ($step)" \
        test "$(cat "$work/err" "$work/out" | grep -c 'the engine died (signal 11')" -eq 1 -a "$(wc -l <"$work/out")" -eq 1
done
expect "an engine that crashes at every request fails the run" 1 err 'failed again right after its restart'
check "a failed run still has a report" grep -q 'failed again right after its restart' "$dir/report.md"
profile_fake 3=int
expect "SIGINT ends the run with status 130" 130 err 'the report is written from the results so far'
check "an interrupted run has a complete report" test -s "$dir/report.html" -a -s "$dir/metrics.json" -a ! -e "$dir/INCOMPLETE"
check "the report states when the run was interrupted" grep -q 'stopped by Interrupt during repeat 2 of 4' "$dir/report.md"
profile_fake 1=term
expect "SIGTERM ends the run with status 143" 143
check "a run ended before the first repeat has a report" grep -q 'stopped by Terminated during the representative run' "$dir/report.md"

# ---- a full disk: writes beyond 4 KiB fail (SIGXFSZ is ignored, because a full disk sends no signal)
rm -f "$work/state"
run sh -c 'trap "" XFSZ; ulimit -f 8; exec "$@"' sh "$INFERPROF" profile --trust --rerun "$first" output.run_id=full
expect "a full disk is an error that names the file" 1 err 'full/.*: File too large'
check "the run folder has an INCOMPLETE file after a full disk" test -s "$work/runs/full/INCOMPLETE"

# ---- the native engine, a small run
run "$INFERPROF" profile dataset=prompts dataset.prompts="$work/data/p.jsonl" repeats=2 infer.max_new_tokens=4 \
    peak.tflops=0.1 peak.gbps=10 output.dir="$work/runs" output.run_id=native
expect "the native engine runs under profile" 0 out "^$work/runs/native\$"
check "the operator table has the native engine's lm_head" \
    grep -qE '^lm_head,"x\[1,256\]f32 w\[1024,256\]bf16",op,[a-z]+,[0-9]+,' "$work/runs/native/operators.csv"
same_report "a second report of the native engine's run changes nothing" "$work/runs/native"
{ sed '/^## Environment/,$d' "$work/runs/native/report.md"; sed '/^## Environment/,/^## Aggregates/d' "$work/runs/native/stakeholder_summary.md"
  python3 tests/tools/visible_text.py "$work/runs/native/report.html" environment; cat "$work/out"; } >"$work/said"
check "the report of a CPU run does not mention GPUs, CUDA or launches" lacks '[Gg][Pp][Uu]|[Cc][Uu][Dd][Aa]|[Ll]aunch' "$work/said"
check "times of the timed repeats and of the recorded run have their names" python3 - "$work/runs/native" "$work/out" <<'END'
import re, sys
pages = {name: open(f"{sys.argv[1]}/{name}", encoding="utf-8").read() for name in ("report.html", "report.md", "stakeholder_summary.md")}
for name, text in pages.items():
    heads = re.findall(r"<th[ >].*?</th>", text, re.S) if name.endswith("html") else [c for line in text.split("\n") if line.startswith("| stage |") for c in line.split("|")]
    heads = [re.sub(r"<[^>]+>", "", h).strip() for h in heads]
    assert "time ms (timed)" in heads and "busy ms (recorded)" in heads, (name, heads)
    assert name == "stakeholder_summary.md" or "Kernels" in text and "so are kernels and operators" in text, name
for section in ("timeline", "kernels", "operators", "gemms", "flame"):
    part = re.search(rf'<section id="{section}">.*?</section>', pages["report.html"], re.S).group(0)
    assert "From the recorded run, not from the timed repeats." in part, section
screen = open(sys.argv[2], encoding="utf-8").read()
assert "\nKernels of the recorded run: " in screen and "\nKernels: " not in screen, screen
END
check "the busy time in the report is that of the recorded run" python3 - "$work/runs/native" <<'END'
import json, sys
stages = {s["name"]: s for s in json.load(open(sys.argv[1] + "/metrics.json", encoding="utf-8"))["stages"]}
lines = open(sys.argv[1] + "/report.md", encoding="utf-8").read().split("\n")
first = next(i for i, line in enumerate(lines) if line.startswith("| stage | time ms (timed) | busy ms (recorded) |"))
rows = {cells[1].strip(): cells[3].strip() for cells in (line.split("|") for line in lines[first + 2:first + 4])}
assert {"prefill", "decode"} == set(rows), rows
for name, shown in rows.items():
    busy_ms = stages[name]["trace"]["gpu_busy_ns"] / 1e6
    assert abs(float(shown.replace(",", "")) - busy_ms) < 0.006, (name, shown, busy_ms)
END
check "the report of a CPU run has the CPU section" grep -q 'CPU time by category' "$work/said"

# ---- models with images in the native engine; weights are synthetic
for family in qwen2_5_vl llava; do
    mkdir -p "$work/$family/images"
    python3 -c "import json, sys; json.dump(json.load(open(sys.argv[1]))['config'], open(sys.argv[2], 'w'))" \
        "tests/data/engine/$family.json" "$work/$family/config.json"
    cp "tests/data/engine/$family.png" "$work/$family/images"
    config=qwen_vl
    [ $family = qwen2_5_vl ] || config=$family
    run "$INFERPROF" profile "model=$config" engine=native device=cpu "model.path=$work/$family" model.weights=synthetic:1 dataset=images \
        "dataset.root=$work/$family/images" repeats=2 infer.max_new_tokens=4 "output.dir=$work/vision" "output.run_id=$family"
    expect "profile runs $family with an image" 0 out '^  vision '
    check "the vision stage of $family has a floor" json_is "$work/vision/$family/metrics.json" \
        '[s["floor_ms"] > 0 for s in d["stages"] if s["name"] == "vision"]' "[True]"
done

# ---- energy of the timed repeats, from the GPU's energy counter: the mock's counter grows by 30 mJ per reading
mock=$PWD/$BUILD/tests/mock
LD_LIBRARY_PATH=$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} profile_fake "0=slow" engine.devices='[cpu, cuda]' device=cuda:0
expect "a run on the mock GPU succeeds" 0
check "each repeat used 0.03 J for its 5 tokens" python3 -c "
import json, sys
f = {f['key']: f for f in json.load(open(sys.argv[1]))['figures']}['joules_per_new_token']
assert f['unit'] == 'J/token' and all(abs(v - 0.006) < 1e-9 for v in f['repeats']) and len(f['repeats']) == 4, f" "$dir/metrics.json"
check "the report has the energy per new token" grep -q 'Energy per new token (whole request) | J/token | 0.0060' "$dir/report.md"
LD_LIBRARY_PATH=$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} profile_fake "0=crash" engine.devices='[cpu, cuda]' device=cuda:0
expect "an engine that never answers fails the run" 1
for f in out report.md report.html stakeholder_summary.md; do
    [ "$f" = out ] && f=$work/out || f=$dir/$f
    check "without any answer ${f##*/} has no row for the whole trace" lacks 'whole trace' "$f"
done
LD_LIBRARY_PATH=$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} profile_fake "" engine.devices='[cpu, cuda]' device=cuda:0
expect "a run with short repeats succeeds" 0
check "repeats shorter than the counter's update interval have no energy" \
    json_is "$dir/metrics.json" '"joules_per_new_token" in [f["key"] for f in d["figures"]]' False
# ---- which processes of the engine run with the collector: the native engine records its kernels itself
printf '#!/bin/sh\nenv | grep -c ^CUDA_INJECTION64_PATH= >>"%s"\nexec "%s" "$@"\n' "$work/injected" "$fake" >"$work/counted.sh" && chmod +x "$work/counted.sh"
if "$INFERPROF" --version | grep -q 'NVIDIA GPUs of compute'; then
    for detail in operators stages; do
        : >"$work/injected"
        LD_LIBRARY_PATH=$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} profile_fake "" engine.name=native engine.devices='[cpu, cuda]' device=cuda:0 \
            profiling.detail=$detail profiling.counters=false "engine.command=[$work/counted.sh, $work/state]"
        expect "the native engine on a GPU is profiled with $detail" 0
        [ $detail = operators ] && want=0 || want='1 0'
        check "processes of the native engine with the collector, recording $detail: $want" test "$(paste -sd ' ' "$work/injected")" = "$want"
    done
else
    skip_without_nvcc "the native engine on a GPU is profiled without the collector"
fi
# ---- the read bandwidth that `calibrate` measured: a second roof beside the given one. The mock reads 4 TB/s
run env XDG_CACHE_HOME="$work/cache" LD_LIBRARY_PATH="$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$INFERPROF" calibrate --json
expect "calibrate measures the mock GPU" 0
XDG_CACHE_HOME=$work/cache LD_LIBRARY_PATH=$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} profile_fake "" engine.devices='[cpu, cuda]' device=cuda:0 \
    peak.tflops=100 peak.gbps=5000
expect "profile shows the measured read bandwidth beside the peak" 0 \
    out '^Reading measured by inferprof calibrate: 4.00 TB/s .80.0% of the peak.. MBU of it: prefill '
check "each stage has its MBU of the measured bandwidth" python3 - "$dir/metrics.json" <<'END'
import json, sys
run = json.load(open(sys.argv[1]))
assert abs(run["device"]["read_byte_per_s"] / 4e12 - 1) < 0.01 and run["device"]["peak_byte_per_s"] == 5e12, run["device"]
stages = [s for s in run["stages"] if s["mbu"] is not None]
assert {s["name"] for s in stages} >= {"prefill", "decode"}, stages
assert all(abs(s["mbu_read"] / (s["mbu"] * 5e12 / run["device"]["read_byte_per_s"]) - 1) < 1e-9 for s in stages), stages
END
check "the measured roof is in the chart" grep -q 'roof dashed' "$dir/charts/roofline.svg"
same_report "a second report keeps the measured read bandwidth" "$dir"
# ---- quantised weights: products with them use the peak that their type has on the GPU
mkdir -p "$work/fp8"
python3 -c 'import json, sys
config = json.load(open("tests/data/models/llama-3.1-8b-instruct.json"))
config["quantization_config"] = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
json.dump(config, open(sys.argv[1], "w"))' "$work/fp8/config.json"
for gpu in h100 a100; do
    rm -f "$work/state"
    run env LD_LIBRARY_PATH="$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$INFERPROF" profile --conf-dir "$work/conf" engine=fake dataset=prompts \
        dataset.prompts="$work/data/p.jsonl" repeats=2 infer.max_new_tokens=5 output.dir="$work/runs" output.run_id="fp8-$gpu" \
        "engine.command=[$fake, $work/state]" engine.devices='[cpu, cuda]' device=cuda:0 "hardware.gpu=$gpu" model=llama \
        "model.path=$work/fp8" model.weights=synthetic:0
    expect "fp8 weights run with the peaks of $gpu" 0 out 'fp8 weights: dense'
done
check "MFU uses the fp8 peak for the quantised products of an H100, and the bf16 peak of an A100, which has no fp8 units" python3 - "$work/runs" <<'END'
import json, sys
for gpu, low, high in (("h100", 1.7 * 989.4e12, 2 * 989.5e12), ("a100", 311e12, 313e12)):
    run = json.load(open(f"{sys.argv[1]}/fp8-{gpu}/metrics.json"))
    for s in run["stages"]:
        if s["name"] not in ("prefill", "decode"):
            continue
        assert low < s["peak_flop_per_s"] < high, (gpu, s["name"], s["peak_flop_per_s"])
        assert abs(s["mfu"] / (s["flops"] / (s["time_ms"] / 1e3 * s["peak_flop_per_s"])) - 1) < 0.05, (gpu, s)
END
printf '#!/bin/sh\nfor i in 1 2; do "%s" nothreads -- "%s" push=r pop; done\nexec "%s" "$@"\n' "$PWD/$BUILD/tests/guests/sandbox" "$mock/mock_app" \
    "$fake" >"$work/unrecorded.sh" && chmod +x "$work/unrecorded.sh"
LD_LIBRARY_PATH=$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} profile_fake "" engine.devices='[cpu, cuda]' device=cuda:0 \
    "engine.command=[$work/unrecorded.sh, $work/state]"
expect "profile reports why processes of the engine were not recorded" 0 err 'process .*-[0-9]+ was not recorded: no thread could be started' \
    err 'not recorded for the same reason: 1 more'
# shellcheck disable=SC2016
check "the reason is given once, on the screen and in the report" \
    test "$(grep -c 'no thread could be started' "$work/err") $(grep -c 'no thread could be started' "$dir/report.md")" = '1 1'
check "every Markdown table of all runs is valid" python3 tests/tools/markdown_tables.py "$work/runs"
bad=$(printf 'x\377y')
if mkdir "$work/$bad" 2>/dev/null; then
    run sh -c "cd '$work/$bad' && exec '$INFERPROF' profile"
    expect "an output folder that is not valid UTF-8 is refused before any work" 1 err 'output.dir: .*: the name is not valid UTF-8'
    check "a refused run creates no folder" test ! -e "$work/$bad/runs"
else
    skip "an output folder that is not valid UTF-8 is refused before any work" "this file system accepts only UTF-8 names"
fi
