#!/bin/sh
# Manual pages: one per command, valid roff, complete, and free of paths of the machine that made them.
. tests/cli/lib.sh

run "$INFERPROF" man --output "$work/man/deep/er"
expect "all pages are written to a new folder" 0
pages=$work/man/deep/er
"$INFERPROF" --help | sed -n 's/^  \([a-z][a-z ]*[a-z]\)  .*/\1/p' >"$work/commands"
check "every command has a page, and inferprof itself" \
    test "$(find "$pages" -name 'inferprof*.1' | wc -l)" -eq $(($(wc -l <"$work/commands") + 1))

# text PAGE: as a reader sees it, one long line per paragraph, without hyphenation
text() { groff -man -ww -Tascii -rLL=1000n -rHY=0 -P-c -P-b -P-u "$1" 2>>"$work/warnings"; }

bad='' : >"$work/warnings"
while read -r command; do
    page=$pages/inferprof-$(echo "$command" | tr ' ' '-').1
    text "$page" >"$work/text"
    for heading in NAME SYNOPSIS DESCRIPTION OPTIONS 'EXIT STATUS' ENVIRONMENT 'SEE ALSO'; do
        grep -qx "$heading" "$work/text" || bad="$bad '$command: no $heading'"
    done
    # shellcheck disable=SC2086
    "$INFERPROF" $command --help >"$work/help"
    sed -n 's/^  *\(-[a-z], \)*\(--[a-z-]*\).*/\1\2/p' "$work/help" >"$work/options"
    while read -r option; do
        grep -qE -- "^ +$option( |\$)" "$work/text" || bad="$bad '$command: no $option'"
    done <"$work/options"
    grep -qF "inferprof $command [options]" "$work/text" || bad="$bad '$command: no usage'"
    text "$pages/inferprof.1" | grep -qF "inferprof-$(echo "$command" | tr ' ' '-')(1)" || bad="$bad '$command: not in inferprof(1)'"
done <"$work/commands"
check "every page has its sections and every option of --help" test -z "$bad"
[ -z "$bad" ] || echo "#$bad"
check "groff has no warning about any page" test ! -s "$work/warnings"
check "no path of this machine is in a page" sh -c "! grep -lE '$PWD|$HOME/|/root/|/home/' '$pages'/*.1"
check "no text line of a page starts with a roff control character" \
    sh -c "! grep -hE '^[.]' '$pages'/*.1 | grep -vE '^[.](TH|SH|TP|PP|RS 4|RE|nf|fi|BR)( |\$)'"

# Variables that the program reads must be documented. PATH, HOME and TERM are every program's.
grep -rhoE 'getenv\("[A-Z0-9_]+"\)' src/base src/cmd src/conf src/engine src/session src/counters/api.c |
    sed 's/.*"\(.*\)".*/\1/' | sort -u | grep -vxE 'PATH|HOME|TERM' >"$work/variables"
bad=
while read -r name; do
    grep -qF "$name" "$pages"/*.1 || bad="$bad $name"
done <"$work/variables"
check "every environment variable is on a page" test -z "$bad"
[ -z "$bad" ] || echo "#$bad"
check "the list of variables is not empty" test "$(wc -l <"$work/variables")" -ge 6

run "$INFERPROF" man trace info
expect "one page goes to standard output" 0 out '^\.TH INFERPROF-TRACE-INFO 1 ' out '^\.SH SEE ALSO$'
check "and is the file of that name" cmp -s "$work/out" "$pages/inferprof-trace-info.1"
run "$INFERPROF" man
expect "no command: the page of inferprof" 0 out '^\.TH INFERPROF 1 '
run "$INFERPROF" man nonsense
expect "an unknown command is misuse" 2 err "man: unknown command 'nonsense'"
run "$INFERPROF" man -o "$work/x" profile
expect "a command with --output is misuse" 2 err '--output writes all pages'
check "and writes nothing" test ! -e "$work/x"
: >"$work/file"
run "$INFERPROF" man -o "$work/file"
expect "a folder that cannot be made is an error" 1 err "$work/file"
