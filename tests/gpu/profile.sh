#!/bin/bash
# profile.sh [twice] [ncu] [longrope] [tools] [nsys] [over] [control]: what docs say about `inferprof profile` on a GPU. Needs the GPU and its cores alone; 6 minutes.
#     twice  0.3  two runs of one command, native engine: the medians of every stage differ by at most 10%
#     ncu    0.3  --ncu of the native engine measures every kernel that was chosen
#     longrope 0.2  cuda_graphs of a model whose rotary embedding looks at positions on the host
#     tools  1    --ncu of the Hugging Face engine, to its end
#     nsys   1.3  --nsys of the Hugging Face engine: a report, or raw data, or a message that says that there is neither
#     over   2.4  the default preset costs at most 25% of prefill and decode (hf_overhead.py) of the same process, and the first recorded
#                 request of a process costs as much as the next ones. Its engines load while ncu and tools run. EACH_S, MODELS
#                 ("2*qwen3-8b") and ARMS change it.
#     control 0.9 how much processes differ that record nothing: a library that does nothing takes the place of the collector in four of
#                 five processes of Qwen3-8B. Only if asked for.
# Prints "ok" or "NOT OK" with the measured values; the exit status is the number of lines that are not ok. Leaves $OUT/profile.tar.gz.
set -u
# shellcheck source=tests/gpu/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"
find_collector
unset PYTHONDONTWRITEBYTECODE # byte-compiling transformers takes 10 s, and it is imported many times here
failed=0 said=$WORK/said
mkdir -p "$said"
mkdir -p "$WORK/pages" && cp "$ROOT/samples/page-columns.png" "$WORK/pages"
printf '{"prompt":"%s"}\n' "$(printf 'word %.0s' {1..100})" >"$WORK/prompts.jsonl"
for pair in ocr:deepseek-ocr qwen3-8b:qwen3-8b qwen3-30b-a3b:qwen3-30b-a3b small:llama-3.2-1b-instruct; do
    mkdir -p "$WORK/${pair%%:*}" && cp "$ROOT/tests/data/models/${pair#*:}.json" "$WORK/${pair%%:*}/config.json"
done
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader

result() { # STATUS TEXT...
    if [ "$1" -eq 0 ]; then echo "ok: ${*:2}"; else echo "NOT OK: ${*:2}" && failed=$((failed + 1)); fi
}
profile() { # NAME ARGUMENTS...
    local name=$1
    echo "--- $name: $(date +%T)"
    timeout "${LIMIT:-100}" "$INFERPROF" profile model.weights=synthetic:0 device=cuda:0 infer.ignore_eos=true "output.dir=$WORK/runs" \
        "output.run_id=$name" "${@:2}" >"$said/$name.txt" 2>&1
    echo "--- $name ended with status $?: $(date +%T)"
    grep -E 'Nsight|warning' "$said/$name.txt" | sort -u | tail -n 12
}
ocr() { profile "$1" model=deepseek_ocr "model.path=$WORK/ocr" dataset=images "dataset.root=$WORK/pages" "${@:2}"; }
small() { profile "$1" model=llama model.name=small "model.path=$WORK/small" dataset=prompts "dataset.prompts=$WORK/prompts.jsonl" "${@:2}"; }

twice() {
    local run
    for run in first second; do ocr $run infer.max_new_tokens=64 repeats=20; done
    "$INFERPROF" compare "$WORK/runs/first" "$WORK/runs/second" >"$said/compare.txt" 2>&1
    grep -A 8 '^Stages' "$said/compare.txt"
    python3 - "$WORK/runs/first/metrics.json" "$WORK/runs/second/metrics.json" <<'END'
import json, sys
a, b = ({s["name"]: s["time_ms"] for s in json.load(open(path))["stages"] if s.get("time_ms")} for path in sys.argv[1:])
change = {name: b[name] / a[name] - 1 for name in a}
print(", ".join(f"{name} {a[name]:.4f} and {b[name]:.4f} ms: {100 * c:+.2f}%" for name, c in change.items()))
sys.exit(not change or any(abs(c) > 0.1 for c in change.values()))
END
    result $? "two runs of the native engine agree within 10% in every stage"
}
measured() { # NAME: prints what Nsight left, and succeeds if ncu measured every kernel that was chosen
    python3 - "$said/$1.txt" "$WORK/runs/$1/metrics.json" <<'END'
import json, re, sys
said, run = open(sys.argv[1]).read(), json.load(open(sys.argv[2]))
asked = sum(int(n) for n in re.findall(r"under Nsight Compute: (\d+) kernels", said))
got = [k for k in run["kernels"] if "ncu" in k]
for k in got:
    print(f'{k["name"][:60]}: {k["ncu"].get("duration_ns")} ns, SM {k["ncu"].get("sm_pct")}%, DRAM {k["ncu"].get("dram_pct")}%')
print(f"Nsight Compute: {asked} kernels asked for, {len(got)} classes of kernels have its figures")
sys.exit(not asked or not got or "Nsight Compute measured" in said)
END
}
ncu() {
    LIMIT=90 small ncu engine=native infer.max_new_tokens=8 repeats=2 --ncu --ncu-top 3 --ncu-stage decode --tool-limit 60
    measured ncu
    result $? "--ncu of the native engine measures every kernel that was chosen"
}
hf() { small "$1" engine=hf "engine.command=[$PYTHON, $ROOT/engines/hf/worker.py]" infer.max_new_tokens=4 "${@:2}"; }
tools() {
    LIMIT=120 hf tools repeats=2 --ncu --ncu-top 3 --ncu-stage decode --tool-limit 90
    measured tools
    result $? "--ncu of the Hugging Face engine measures every kernel that was chosen"
}
nsys() {
    local left="$WORK/runs/nsys/nsys" watch
    (sleep 50 && ps -eo pid,ppid,stat,etimes,wchan:24,args --forest | awk '/nsys|worker/' | cut -c 1-160 >"$said/nsys-processes.txt") >/dev/null 2>&1 &
    watch=$!
    LIMIT=110 hf nsys repeats=1 --nsys --tool-limit 55
    kill "$watch" 2>/dev/null
    ls -l "$left"
    tail -n 4 "$left/nsys.log" | cut -c 1-300
    cat "$said/nsys-processes.txt" 2>/dev/null
    if [ -s "$left/report.nsys-rep" ]; then
        result 0 "--nsys of the Hugging Face engine leaves a report"
    elif [ -s "$left/report.qdstrm" ]; then
        grep -q 'only its raw data in nsys/report.qdstrm' "$said/nsys.txt"
        result $? "--nsys of the Hugging Face engine leaves raw data, and says so"
    else
        grep -q 'Nsight Systems wrote no report and no raw data' "$said/nsys.txt"
        result $? "--nsys of the Hugging Face engine leaves nothing, and says so"
    fi
}
longrope() {
    "$PYTHON" "$GPU/hf_longrope.py" "$WORK" 2>"$WORK/longrope.err"
    result $? "cuda_graphs of phi3 with longrope: the tokens of the same steps without a graph"
    tail -n 2 "$WORK/longrope.err"
}
start_over() {
    local lib model models=()
    for model in ${MODELS:-2*ocr 2*qwen3-8b =qwen3-30b-a3b}; do
        models+=("${model%"${model##*[*=]}"}$WORK/${model##*[*=]}$([ "${model##*[*=]}" != ocr ] || echo ":$WORK/pages/page-columns.png")")
    done
    lib=$(dirname "$(dirname "$INFERPROF")")/lib/inferprof
    [ -d "$lib" ] || lib=$(dirname "$INFERPROF")
    COLLECTOR=$lib/libinferprof-collector.so COUNTERS=$lib/inferprof-counters ARMS=${ARMS:-loaded,stages,counters} NEW=${NEW:-5} WAIT_FOR=$WORK/go timeout 330 "$PYTHON" \
        "$GPU/hf_overhead.py" "$said" "${EACH_S:-28}" "${models[@]}" \
        >"$said/over.txt" 2>"$WORK/over.err" &
    over=$!
}
over() {
    echo "--- over: $(date +%T)"
    touch "$WORK/go"
    wait "$over"
    cat "$said/over.txt"
    grep -v '^\[transformers\]' "$WORK/over.err" | tail -n 5
    python3 - "$said"/over-*.json <<'END'
import json, statistics, sys
high, ratios = [], []
for path in sys.argv[1:]:
    d = json.load(open(path))
    for stage in ("prefill", "decode"):
        arms = d["overhead"][stage]
        within = arms.get("counters over loaded") or arms["counters"]  # the model that fits once has no other process
        print(f'{d["model"]} {stage}: {within["percent"]:+.1f}% of the same process')
        high += [f'{d["model"]} {stage} {within["percent"]:+.1f}%'] if within["percent"] > 25 else []
        ratios += [engine[0][stage] / statistics.mean(r[stage] for r in engine[1:]) for engine in d["first"]]
print("first recorded request over the next two:", ", ".join(f"{r:.2f}" for r in sorted(ratios)), "median", f"{statistics.median(ratios):.3f}")
print("above 25%:", "; ".join(high) or "none")
sys.exit(bool(high))
END
    result $? "the default preset costs at most 25% on three models, over the same process"
}
control() {
    echo "--- control: $(date +%T)"
    echo 'int InitializeInjection(void) { return 1; } int InitializeInjectionNvtx2(void *p) { return p == 0; }' >"$WORK/nothing.c"
    gcc -shared -fPIC -o "$WORK/nothing.so" "$WORK/nothing.c" && COLLECTOR=$WORK/nothing.so COUNTERS=none ARMS=loaded NEW=${NEW:-5} timeout 100 \
        "$PYTHON" "$GPU/hf_overhead.py" "$said" "${EACH_S:-30}" "4*$WORK/qwen3-8b" 2>/dev/null | tee "$said/control.txt"
}

[ $# -gt 0 ] || set -- twice ncu longrope tools nsys over
case " $* " in *" twice "*) twice ;; esac
case " $* " in *" over "*) start_over ;; esac
case " $* " in *" ncu "*) ncu ;; esac
case " $* " in *" longrope "*) longrope ;; esac
case " $* " in *" tools "*) tools ;; esac
case " $* " in *" nsys "*) nsys ;; esac
case " $* " in *" over "*) over ;; esac
case " $* " in *" control "*) control ;; esac
tar -C "$WORK" -czf "$OUT/profile.tar.gz" --exclude=inputs --exclude=trace --exclude='*.qdstrm' said runs 2>/dev/null
exit $failed
