#!/bin/sh
# The build results: what the injected library links and exports, the include check, installation.
. tests/cli/lib.sh

if [ -f "$COLLECTOR" ] && ! nm -D "$COLLECTOR" | grep -q __asan; then
    readelf -d "$COLLECTOR" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | sort >"$work/needed"
    if grep -qvE '^(libc\.so\.6|ld-linux-x86-64\.so\.2|libm\.so\.6)$' "$work/needed"; then
        not_ok "the collector links only libc" "$(tr '\n' ' ' <"$work/needed")"
    else ok "the collector links only libc"; fi
    nm -D --defined-only "$COLLECTOR" | awk '{print $3}' | sort >"$work/exports"
    printf '%s\n' InitializeInjection InitializeInjectionNvtx2 ncclProfiler_v2 ncclProfiler_v3 ncclProfiler_v4 ncclProfiler_v5 ncclProfiler_v6 ncclProfiler_v7 >"$work/wanted"
    check "the collector exports only the entry points of CUDA, NVTX and NCCL" diff "$work/wanted" "$work/exports"
fi

# Scripts that need a GPU do not run here: a renamed setting would be found late.
cat >"$work/settings.py" <<'END'
import glob, re, sys
known = set(re.findall(r'\{ "([A-Z_]+)", (?:TEXT|COUNT|SWITCH)', open("src/collect/settings.c").read()))
documented = set(re.findall(r"`([A-Z_]+)`", re.search(r"\| `INFERPROF_COLLECT_\.\.\.`.*?\n\n|$", open("docs/run.md").read() + "\n\n", re.S)[0]))
wrong = [f"docs/run.md: {n}" for n in known - documented]
for path in [p for p in glob.glob("tests/*/*") if not p.startswith("tests/cli/") and p.endswith((".py", ".sh"))]:
    text = open(path).read()
    used = set(re.findall(r"INFERPROF_COLLECT_([A-Z][A-Z_]*)\b", text))
    if path.startswith("tests/gpu/"):  # injected.py adds the prefix
        used |= set(re.findall(r'"([A-Z][A-Z_]+)": ', text))
    wrong += [f"{path}: {n}" for n in used - known]
sys.exit("\n".join(wrong) if wrong or len(known) < 10 else 0)
END
check "every setting of the collector in scripts exists, and is documented" python3 "$work/settings.py"

mkdir -p "$work/src/base" "$work/src/trace"
echo '#include "trace/reader.h"' >"$work/src/base/bad.c"
run sh scripts/lint_includes.sh "$work/src"
expect "the lint rejects an include against the layers" 1 err 'base/bad.c: includes from trace/, but base/ may use only: base'
run sh scripts/lint_includes.sh src
expect "the project's includes follow the layers" 0

lint_text=$PWD/scripts/lint_text.sh
printf '/* %0109d */\n' 0 >"$work/src/base/long.c"
printf 'The user is %s of it.\n' told >"$work/page.md"
run sh -c "cd '$work' && sh '$lint_text' src/base/long.c page.md"
expect "long lines and unclear phrases fail the lint" 1 err 'long.c:1: 115 columns' err 'page.md:1:is t.ld'
# One phrase per line. The ^ is removed; it hides the phrases from the lint of this file.
phrases=0 rejected=0
while read -r phrase; do
    phrases=$((phrases + 1))
    printf '/* %s */\n' "$(echo "$phrase" | tr -d '^')" >"$work/src/base/phrase.c"
    (cd "$work" && sh "$lint_text" src/base/phrase.c 2>/dev/null) || rejected=$((rejected + 1))
done <<'END'
this CUPTI be^ars it
a window is to^ld when it opens
wh^o finds the switch taken
leaves it t^o the other
costs only wh^o launches more
and so te^lls
put a pipe out of the wor^ld
to be doub^ted
ask NVML every so oft^en
through the doo^rs of CUDA
whoev^er knows Hydra
this is to lea^ve
END
check "the lint rejects every one of $phrases unclear phrases" test "$phrases $rejected" = "12 12"
printf '## Unreleased\n### Added\n- One.\n- One.\n### News\n- Two\n  lines.\n' >"$work/CHANGELOG.md"
run sh -c "cd '$work' && sh '$lint_text' CHANGELOG.md"
expect "a changelog has sections of one line per change" 1 err ':4: this line is there twice' err ':5: sections are' err ':7: one line'
printf 'void f(void) {\n    if (a) g(), h();\n}\n' >"$work/src/base/comma.cu"
run python3 scripts/lint_commas.py "$work/src/base/comma.cu"
expect "the lint rejects comma statements" 1 err 'comma.cu:2: .*write one statement per expression'

# Installed files are readable by all users, regardless of the umask. Nothing is rebuilt.
if [ "$BUILD" = build ]; then
    (umask 077 && make -s --no-print-directory install DESTDIR="$work/de st" PREFIX=/usr >"$work/log" 2>&1)
    check "make install accepts a folder with a blank in its name" test -x "$work/de st/usr/bin/inferprof"
    check "installed files are readable by all users" test -z "$(find "$work/de st/usr" ! -perm -a=r)"
    for page in inferprof inferprof-profile inferprof-trace-info; do
        check "$page(1) is installed" gzip -t "$work/de st/usr/share/man/man1/$page.1.gz"
    done
    check "the marker of a build folder is not installed" test -z "$(find "$work/de st" -name .inferprof-build)"
    # Copies where only a build folder is searched, and none in lib.
    lib="$work/de st/usr/lib/inferprof"
    cp "$lib/libinferprof-collector.so" "$work/de st/usr/"
    mv "$lib/libinferprof-collector.so" "$work/de st/"
    run "$work/de st/usr/bin/inferprof" run -o "$work/none" -- true
    expect "an installed program does not search the folders above it" 1 \
        err 'libinferprof-collector.so was not found in .*/usr/bin/../lib/inferprof'
    mv "$work/de st/libinferprof-collector.so" "$lib/"
    run "$work/de st/usr/bin/inferprof" run -o "$work/some" -- true
    expect "an installed program finds the collector in its lib folder" 1 \
        err 'nothing was recorded from true'
fi
