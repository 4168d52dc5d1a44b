#!/bin/sh
# The command line itself: help, version, misuse, and a standard output that cannot be written.
. tests/cli/lib.sh

run "$INFERPROF" --help
expect "--help lists the commands on stdout" 0 out '^  trace info ' out '^Usage: inferprof COMMAND'
run "$INFERPROF"
expect "a missing command is misuse, and the help goes to stderr" 2 err '^Usage: inferprof COMMAND'
run "$INFERPROF" --version
expect "--version names commit, compiler and libraries" 0 out '^inferprof [0-9]+\.[0-9]+\.[0-9]+ \(commit ' out '^compiler: ' \
    out '^libraries: zstd [0-9.]+, zlib [0-9.]+, SQLite [0-9.]+, jansson [0-9.]+, libyaml [0-9.]+, libpng [0-9.]+, libjpeg[a-z-]* [0-9.]+, PCRE2 [0-9.]+, utf8proc [0-9.]+$' out '^GPU collection: built in'
run "$INFERPROF" trce info x
expect "an unknown command gets the nearest name as a suggestion" 2 err "^inferprof: unknown command 'trce'; did you mean 'trace"
run "$INFERPROF" trace infos x
expect "an unknown subcommand gets the nearest name as a suggestion" 2 err "did you mean 'trace info'"
run "$INFERPROF" trace
expect "a command without its subcommand lists the subcommands" 2 err '^  trace dump '
run "$INFERPROF" trace --help
expect "--help without the subcommand succeeds" 0 out '^  trace dump '
run "$INFERPROF" trace dump --limt 3 x
expect "an unknown option gets the nearest name as a suggestion" 2 err 'unknown option --limt; did you mean --limit\?'
run "$INFERPROF" trace dump --limit three x
expect "text in place of a number is misuse" 2 err "^inferprof: trace dump: --limit: 'three' is not a whole number"
run "$INFERPROF" trace dump
expect "a missing operand is misuse, and the message names it" 2 err 'trace dump: expected RUN_DIR.FILE'
run "$INFERPROF" trace dump a b
expect "too many operands are misuse" 2 err 'too many arguments'
run "$INFERPROF" trace dump --help
expect "--help of a command shows its options" 0 out '-n, --limit N' out '^Usage: inferprof trace dump'
run "$INFERPROF" help trace info
expect "help COMMAND is the same as COMMAND --help" 0 out '^Usage: inferprof trace info'
run "$INFERPROF" trace info -q "$work/none.ipt"
expect "-q still prints errors" 1 err 'none.ipt: No such file'

if [ -w /dev/full ]; then
    "$INFERPROF" --help >/dev/full 2>"$work/err"
    status=$?
    expect "a full disk on stdout is an error" 1 err 'standard output: No space left on device'
else
    skip "a full disk on stdout is an error" "no /dev/full here"
fi
"$BUILD/tests/make_trace" "$work/t.ipt" 8 || exit 1 # its dump is larger than a pipe buffer
{ "$INFERPROF" trace dump "$work/t.ipt" 2>"$work/err"; echo $? >"$work/rc"; } | head -n 1 >"$work/out"
status=$(cat "$work/rc")
expect "a reader that closes the pipe ends the command" 1
check "a closed pipe needs no message" test ! -s "$work/err"
run "$INFERPROF" -q trace info "$work/t.ipt"
expect "-q before the command" 0 out 'kernel'
# Python gives the program a terminal of 60 columns.
cat >"$work/terminal.py" <<'END'
import fcntl, os, pty, struct, sys, termios
pid, fd = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 60, 0, 0))
    os.execvp(sys.argv[1], sys.argv[1:])
out = b""
try:
    while data := os.read(fd, 65536):
        out += data
except OSError:
    pass
os.waitpid(pid, 0)
sys.stdout.write(out.decode().replace("\r\n", "\n"))
END
lines_fit() { # FILE: has more than 10 lines, none over 60 columns without its escape sequences
    python3 -c '
import re, sys
lines = re.sub(r"\x1b\[[0-9;]*m", "", open(sys.argv[1], encoding="utf-8").read()).splitlines()
sys.exit(any(len(line) > 60 for line in lines) or len(lines) <= 10)' "$1"
}
TERM=xterm python3 "$work/terminal.py" "$INFERPROF" report -q -o "$work/narrow.out" "$work/t.ipt" >"$work/narrow.txt"
check "the summary fits a terminal of 60 columns" lines_fit "$work/narrow.txt"
check "the summary on a terminal has bold text" grep -q "$(printf '\033')\[1m" "$work/narrow.txt"
TERM=xterm NO_COLOR=1 python3 "$work/terminal.py" "$INFERPROF" report -q -o "$work/narrow.out" "$work/t.ipt" >"$work/narrow.txt"
check "NO_COLOR: no escape sequences" lacks "$(printf '\033')" "$work/narrow.txt"
TERM=xterm python3 "$work/terminal.py" "$INFERPROF" report --help >"$work/narrow.txt"
check "help fits a terminal of 60 columns" lines_fit "$work/narrow.txt"

for command in "static tests/data/models/qwen3-8b.json --gpu all" "static tests/data/models/qwen3-8b.json --gpu h100 --price 2" \
    "static --gpu list" "static --link list" "stats $work/t.ipt"; do
    # shellcheck disable=SC2086
    TERM=xterm python3 "$work/terminal.py" "$INFERPROF" $command >"$work/narrow.txt"
    check "${command%% /*} fits a terminal of 60 columns" lines_fit "$work/narrow.txt"
done
python3 - "$work" <<'END'
import json, sys
for name, scale in (("before", 1), ("after", 1.5)):
    kernels = [{"short_name": f"kernel {i} " + "x" * (8 * i), "category": "GEMM", "owned_ns": 1000000 * i * scale, "calls": 10 * i}
               for i in range(1, 4)]
    stages = [{"name": s, "time_ms": 11 * scale, "trace": {"steps_ms": [scale * (10 + 0.01 * i) for i in range(20)]}}
              for s in ("prefill", "decode", "projector", "vision encoder", "sampler", "tokenizer")]
    with open(f"{sys.argv[1]}/{name}.json", "w") as f:
        json.dump({"schema": "inferprof-metrics", "schema_version": 1, "run": {"id": name}, "stages": stages, "kernels": kernels}, f)
END
TERM=xterm python3 "$work/terminal.py" "$INFERPROF" compare "$work/before.json" "$work/after.json" >"$work/narrow.txt"
check "compare fits a terminal of 60 columns" lines_fit "$work/narrow.txt"
# README.md shows the tutorial's comparison as a picture.
heading() { grep -m 1 '^stage .* verdict$' "$1" | tr -s ' '; }
"$INFERPROF" compare "$work/before.json" "$work/after.json" >"$work/wide.txt"
check "the tutorial's comparison has the columns of this build" test "$(heading docs/tutorial.md)" = "$(heading "$work/wide.txt")"
for columns in 60 66 70 72 76 80 90 100; do
    sed "s/40, 60,/40, $columns,/" "$work/terminal.py" >"$work/wider.py"
    NO_COLOR=1 TERM=xterm python3 "$work/wider.py" "$INFERPROF" compare "$work/before.json" "$work/after.json"
done >"$work/wider.txt"
check "compare omits values of both sides, at any width" python3 -c '
import sys
heads = [line for line in open(sys.argv[1], encoding="utf-8") if line.startswith(("kernel ", "stage "))]
assert all(("A calls" in h) == ("B calls" in h) and ("  A " in h) == ("  B " in h) for h in heads), heads
assert any("calls" in h for h in heads) and any(h.startswith("kernel") and "calls" not in h for h in heads), heads' "$work/wider.txt"
python3 - "$work" <<'END'
import json, sys
cpu = "AMD EPYC 9654 96-Core Processor, 2 sockets, with a name that is longer than a terminal"
for name, gpus, group in (("h100", "NVIDIA H100 80GB HBM3", "GPU"), ("b200", "NVIDIA B200", "GPU 0 to 7")):
    env = [{"group": group, "key": "Name", "value": gpus}, {"group": "CPU", "key": "CPU", "value": f"{cpu} ({name})"}]
    stages = [{"name": "decode", "time_ms": 11, "timed": {"median": 11}, "repeats_ms": [11, 12]}]
    with open(f"{sys.argv[1]}/{name}.json", "w") as f:
        json.dump({"schema": "inferprof.metrics/2", "run": {"id": name, "model": "m" * 50}, "device": {"name": gpus},
                   "stages": stages, "environment": env}, f)
END
TERM=xterm python3 "$work/terminal.py" "$INFERPROF" compare "$work/h100.json" "$work/b200.json" >"$work/env.txt"
check "long values of the environment fit a terminal of 60 columns" lines_fit "$work/env.txt"
check "the reason of a verdict is moved before values are omitted" grep -Eq '^stage .* A +B .*verdict' "$work/env.txt"
check "no value of the environment is cut" python3 -c '
import sys
text = " ".join(open(sys.argv[1], encoding="utf-8").read().split())
assert text.count("longer than a terminal (h100)") == 1 and text.count("longer than a terminal (b200)") == 1, text
assert text.count("NVIDIA H100") == 1 and text.count("NVIDIA B200") == 1, text' "$work/env.txt"
for command in profile "runs show" compare; do
    # shellcheck disable=SC2086
    TERM=xterm python3 "$work/terminal.py" "$INFERPROF" $command --help >"$work/narrow.help"
    check "$command --help fits a terminal of 60 columns" lines_fit "$work/narrow.help"
done
check "a slower stage is red on a terminal" grep -q "^decode .*$(printf '\033')\[31mslower" "$work/narrow.txt"
TERM=xterm NO_COLOR=1 python3 "$work/terminal.py" "$INFERPROF" compare "$work/before.json" "$work/after.json" >"$work/narrow.txt"
check "NO_COLOR: compare prints no escape sequences" lacks "$(printf '\033')" "$work/narrow.txt"

"$INFERPROF" completion bash >"$work/bash"
check "the bash completion is valid bash" bash -n "$work/bash"
cat >"$work/try" <<'END'
source "$1"
COMP_WORDS=(inferprof trace du) COMP_CWORD=2
_inferprof
[ "${COMPREPLY[*]}" = dump ] || exit 1
COMP_WORDS=(inferprof trace dump --li) COMP_CWORD=3
_inferprof
[ "${COMPREPLY[*]}" = --limit ] || exit 1
offers() { # WANTED WORDS...
    local want=$1
    shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _inferprof
    [ "${COMPREPLY[*]}" = "$want" ] && return
    echo "$*: '${COMPREPLY[*]}', not '$want'"
    exit 1
}
offers 'infer.max_new_tokens=' inferprof profile infer.max
offers embedded inferprof profile model = emb
offers 'true' inferprof profile infer.ignore_eos = t
offers '' inferprof profile repeats = ''
offers 'min max' inferprof run -p m
offers Makefile inferprof report --model Makef
offers '' inferprof engine --threads ''
END
check "the bash completion completes commands, options and keys" bash "$work/try" "$work/bash"
run "$INFERPROF" completion zsh
expect "the zsh completion lists the options" 0 out "^#compdef inferprof" \
    out "'\(-n --limit\)'\{-n\+,--limit=\}'\[print at most N records\]:limit: '" out "'\*'\{-s\+,--stage=\}" \
    out "'\(-j --json\)'\{-j,--json\}'" out "'--detail=\[level of detail of the trace .operators.\]:detail:\(stages modules operators\)'"
"$INFERPROF" completion fish >"$work/fish"
# fish_completes LINE WORD: the completion of LINE offers WORD
fish_completes() {
    HOME=$work XDG_CONFIG_HOME=$work/fishconf fish --no-config -c "source $work/fish; complete -C '$1'" | cut -f 1 | grep -qxF -- "$2"
}
check "the fish completion completes commands" fish_completes 'inferprof rep' report
check "the fish completion completes second words" fish_completes 'inferprof trace ' dump
check "the fish completion completes options" fish_completes 'inferprof report --pe' --peak-tflops
check "the fish completion completes choices" fish_completes 'inferprof export --format ' perfetto
check "the fish completion keeps options of other commands out" sh -c "! HOME=$work fish --no-config -c \"source $work/fish; complete -C 'inferprof stats --pe'\" | grep peak"
run "$INFERPROF" completion tcsh
expect "an unknown shell is misuse" 2 err 'expected bash, zsh or fish'
run "$INFERPROF" report --peak-tflops -1 "$work/t.ipt"
expect "a negative peak is misuse" 2 err "--peak-tflops: -1 is out of range; expected more than 0"
run "$INFERPROF" engine -p x --temperature -1
expect "a negative temperature is misuse" 2 err 'temperature: -1 is out of range; expected 0 or more'
run "$INFERPROF" engine -p x --top-p 9
expect "a top-p above 1 is misuse" 2 err 'top-p: 9 is out of range; expected 0 to 1'
: >"$work/empty"
run "$INFERPROF" static "$work/empty"
expect "an empty config is reported as empty" 1 err '/empty: empty, expected JSON'
run "$INFERPROF" static "$work/t.ipt"
expect "a file that is not JSON is reported as such" 1 err 't.ipt: not JSON'

# With closed standard streams, the trace file gets descriptor 0, 1 or 2. No message may be written into it.
"$INFERPROF" engine -p hi -n 4 --trace "$work/closed.ipt" <&- >&- 2>&-
check "closed standard streams are an error" test $? -eq 1
run "$INFERPROF" trace info --json "$work/closed.ipt"
expect "a trace written with closed streams is readable" 0
check "a trace written with closed streams is complete and undamaged" \
    json_is "$work/out" 'd[0]["finished"], d[0]["damage"], d[0]["kinds"]["token"]["records"] > 0' '(True, None, True)'
