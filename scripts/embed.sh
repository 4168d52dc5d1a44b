#!/bin/sh
# embed.sh [NAME=]FILE...: prints C source that embeds the files in the program (src/base/embed.h).
# The assembler includes the bytes (.incbin), so that large files do not slow down the compiler.
set -eu
cat <<'END'
#include "base/embed.h"

#define EMBED(id, path)                                                                                  \
    __asm__(".pushsection .rodata\n.balign 16\nembed_" #id ":\n.incbin \"" path "\"\nembed_end_" #id      \
            ":\n.byte 0\n.popsection\n");                                                                \
    extern const unsigned char embed_##id[] __attribute__((visibility("hidden")));                       \
    extern const unsigned char embed_end_##id[] __attribute__((visibility("hidden")));
END
n=0
for f in "$@"; do
    f=${f#*=}
    case $f in *[!A-Za-z0-9_./-]*) echo "embed.sh: $f: a file name may only have letters, digits, _ . and -" >&2; exit 1 ;; esac
    echo "EMBED($n, \"$f\")"
    n=$((n + 1))
done
echo "const struct embed_file embed_files[] = {"
n=0
for f in "$@"; do
    echo "    { \"${f%%=*}\", embed_$n, embed_end_$n },"
    n=$((n + 1))
done
echo "    { 0 },"
echo "};"
echo "const size_t embed_files_n = $n;"
