#!/bin/sh
# Wrong arguments end with status 2 before any work, and the message says what is expected.
. tests/cli/lib.sh
model=tests/data/models/qwen3-8b.json
huge=99999999999999999999

# misuse PATTERN ARGUMENTS...: status 2, the pattern on stderr, nothing on stdout
misuse() {
    pattern=$1
    shift
    run "$INFERPROF" "$@"
    if [ -s "$work/out" ]; then
        not_ok "misuse: $*" "stdout is not empty: $(head -n 1 "$work/out")"
    else
        expect "misuse: $*" 2 err "$pattern"
    fi
}

misuse "unknown key 'foo'; --show-config lists" profile foo=1
misuse "unknown key 'profiling.foo'; --show-config lists" profile profiling.foo=1
misuse "unknown key 'infer.max_new_token'; did you mean 'infer.max_new_tokens'\?" profile infer.max_new_token=1
misuse "unknown key 'max_new_tokens'; did you mean 'infer.max_new_tokens'\?" profile max_new_tokens=1
misuse "repeats is 'many', expected a whole number from" profile repeats=many
misuse "repeats is '-1', expected a whole number from" profile repeats=-1
misuse "repeats is '$huge', expected a whole number from" profile repeats=$huge
misuse 'model=nope: no such choice; choices: ' profile model=nope
misuse 'cannot remove nope: no such key' profile '~nope'
misuse '--config and --rerun exclude each other' profile --config a --rerun b

misuse '--delay: -1 is out of range; expected 0 to' run --delay -1 -- true
misuse '--budget: 1000 is out of range; expected 0 to 100' run --budget 1000 -- true
misuse '--counter-interval: 0 is out of range; expected 1 to' run --counter-interval 0 -- true
misuse "--power-interval: $huge is out of range; expected 0 to" run --power-interval $huge -- true
misuse "--memory: $huge is too large" run --memory $huge -- true
misuse 'run: expected -- PROGRAM ARGS' run --

misuse '--peak-tflops: 0 is out of range; expected more than 0' report --peak-tflops 0 x
misuse '--peak-gbps: 1e999 is too large' report --peak-gbps 1e999 x
misuse '--json, --markdown, .* exclude each other' compare --json --markdown a b
misuse '--fail-above: -1 is out of range; expected 0 or more' compare --fail-above -1 a b
misuse "'5..2' is not a valid window" export --window decode:5..2 x
misuse "does not name a stage" export --window '' x

misuse '--peak-tflops: 0 is out of range; expected more than 0' static --peak-tflops 0 $model
misuse '--batch: -1 is negative; expected 1 to' static --batch -1 $model
misuse "--batch: $huge is out of range; expected 1 to" static --batch $huge $model
misuse "--gpu: no GPU 'nope' in the table; see .--gpu list. for all" static --gpu nope $model
misuse "--assume: 'nope' is not a known family; known: llama" static --assume nope $model
misuse "--sweep: 'batch': expected batch=A..B, prompt=A..B or context=A..B" static --sweep batch $model
misuse '--svg needs a --sweep' static --svg x.svg $model

misuse '--max-new-tokens: 0 is out of range; expected 1 to' engine -p x -n 0
misuse '--threads: 100000 is out of range; expected 0 to 256' engine -p x -t 100000
misuse "unknown kind 'nope'; expected one of meta, " trace dump --kind nope x
misuse "--limit: $huge is too large; at most 18446744073709551615" trace dump --limit $huge x
misuse '--top: -1 is negative; expected 0 or more' stats --top -1 x

# options that would have no effect
misuse '--ncu-top and --ncu-stage require --ncu' run --ncu-top 3 -- true
misuse '--ncu-top and --ncu-stage require --ncu' profile --ncu-stage decode
misuse '--tool-limit requires --ncu or --nsys' run --tool-limit 3 -- true
misuse '--counter-interval requires --counters' run --counter-interval 50 -- true
misuse '--gpu all cannot be combined with --sweep or --operators' static --gpu all --operators $model
misuse '--gpu all uses the peaks of each device' static --gpu all --peak-tflops 3 $model
misuse '--image-mode and --max-tiles need an --image' static --max-tiles 3 $model
misuse 'accepts no options: .load. and .infer. requests set them' engine --temperature 1
misuse 'accepts no options: .load. and .infer. requests set them' engine --threads 2
misuse '--detail needs --trace' engine -p x --detail stages
misuse '--image-mode and --max-tiles need an --image' engine -p x --image-mode tiny
trace=tests/data/kineto/hta_rank0_a100.json.gz sums=tests/data/nsys/dsocr_clip_cuda_gpu_kern_sum.csv counters=tests/data/ncu/copy_blocked_t4_base_units.csv
misuse "for a timeline use 'inferprof stats --json'" import --json $trace
misuse "for a timeline use 'inferprof stats --json'" import --json $counters $trace
misuse "for a timeline use 'inferprof stats --top'" import --top 3 $trace
misuse 'adds Nsight Compute counters to a run, but no input has any' import --into "$work" $trace
misuse 'summaries without timestamps are only printed' import -o "$work/x" $sums
check "a refused import writes nothing" test ! -e "$work/x"
run "$INFERPROF" import --json --top 1 $counters
expect "import --json prints counters as JSON" 0 out '"kernels": \['

# Every option that --help lists, for every command: a missing value is misuse, and the message names the option.
"$INFERPROF" --help | sed -n 's/^  \([a-z][a-z ]*[a-z]\)  .*/\1/p' >"$work/commands"
bad=
while read -r command; do
    # shellcheck disable=SC2086
    "$INFERPROF" $command --help >"$work/help"
    # shellcheck disable=SC2086
    "$INFERPROF" $command --no-such-option >/dev/null 2>"$work/err" </dev/null
    [ $? -eq 2 ] || bad="$bad '$command --no-such-option'"
    sed -n 's/^  *\(-[a-z], \)*--\([a-z-]*\) \([A-Za-z[|].*\)/\2/p' "$work/help" >"$work/options"
    while read -r option; do
        # shellcheck disable=SC2086
        "$INFERPROF" $command --"$option" >/dev/null 2>"$work/err" </dev/null
        [ $? -eq 2 ] && grep -q -- "--$option needs a value" "$work/err" || bad="$bad '$command --$option'"
    done <"$work/options"
done <"$work/commands"
check "--help lists all 25 commands" test "$(wc -l <"$work/commands")" -eq 25
check "every command rejects unknown options and missing values" test -z "$bad"
