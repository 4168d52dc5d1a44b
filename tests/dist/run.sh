#!/bin/sh
# Unpacks the tarball into a root folder that holds only glibc, and runs it there. Environment: TARBALL, BUILD.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/standalone.sh
root=$work/root

# in_root PROGRAM ARGS...: runs it with chroot, in a user namespace if the user is not root
in_root() {
    if [ "$(id -u)" = 0 ]; then run chroot "$root" "$@"; else run unshare -r chroot "$root" "$@"; fi
}

dist_tests() {
    mkdir -p "$root/opt" "$root/tmp" "$root/lib64" "$root/lib/x86_64-linux-gnu" "$root/proc" "$root/dev"
    tar -xzf "$TARBALL" -C "$root/opt" || exit 1
    folder=$(basename "$TARBALL" .tar.gz)
    cp -L /lib64/ld-linux-x86-64.so.2 "$root/lib64/"
    for l in libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1; do
        [ -f "/lib/x86_64-linux-gnu/$l" ] && cp -L "/lib/x86_64-linux-gnu/$l" "$root/lib/x86_64-linux-gnu/"
    done
    bin=/opt/$folder/bin/inferprof
    in_root "$bin" --version
    expect "inferprof runs in an empty root" 0 out '^inferprof '
    "$BUILD/tests/make_trace" "$root/tmp/t.ipt" 4
    in_root "$bin" trace info /tmp/t.ipt
    expect "inferprof reads a trace in an empty root" 0 out 'kernel +2,140 '
    mv "$root/opt/$folder" "$root/tmp/elsewhere"
    in_root /tmp/elsewhere/bin/inferprof --help
    expect "inferprof runs from another folder" 0 out 'Usage: inferprof'
    newest=$(objdump -T "$root/tmp/elsewhere/bin/inferprof" "$root"/tmp/elsewhere/lib/inferprof/*.so* | grep -oE 'GLIBC_2\.[0-9]+' |
        sort -t . -k 2 -n | tail -n 1)
    check "inferprof needs glibc 2.36 or older ($newest)" test "${newest#GLIBC_2.}" -le 36
    check "the tarball contains the manual pages" gzip -t "$root"/tmp/elsewhere/share/man/man1/inferprof.1.gz "$root"/tmp/elsewhere/share/man/man1/inferprof-run.1.gz
    check "the tarball contains the collector" test -f "$root/tmp/elsewhere/lib/inferprof/libinferprof-collector.so"
    readelf -d "$root"/tmp/elsewhere/bin/inferprof "$root"/tmp/elsewhere/lib/inferprof/*.so* | grep -E 'R(UN)?PATH' >"$work/paths"
    check "every run path is relative" sh -c "[ -s '$work/paths' ] && ! grep -v ORIGIN '$work/paths'"
}

standalone 7 dist_tests
