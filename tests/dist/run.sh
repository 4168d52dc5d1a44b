#!/bin/sh
# Unpacks the tarball into a root folder that holds only glibc, and runs it there. Environment: TARBALL, BUILD.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/standalone.sh
. tests/cli/postgres_lib.sh
trap 'stop_server; postgres_stop; rm -rf "$TMPDIR"' EXIT
root=$work/root
server=

# with_chroot COMMAND PROGRAM...: `COMMAND PROGRAM...` with chroot; in a user namespace if the user is not root.
# /proc is mounted in a mount namespace: the loader reads the path of the program there, to find its libraries.
# shellcheck disable=SC2016
with_chroot() {
    command=$1
    shift
    user=-r
    [ "$(id -u)" = 0 ] && user=
    # shellcheck disable=SC2086
    "$command" unshare $user -m sh -c 'mount --rbind /proc "$0/proc" && exec chroot "$0" "$@"' "$root" "$@"
}
in_root() { with_chroot run "$@"; }

# start_server OPTIONS...: inferprof serve in the root folder; $url: its address, empty if it does not start
start_server() {
    : >"$work/serve.out"
    with_chroot exec "$bin" serve --root /tmp/runs --listen 127.0.0.1:0 "$@" >"$work/serve.out" 2>"$work/serve.err" &
    server=$!
    url='' i=0
    while [ -z "$url" ] && [ $i -lt 100 ]; do
        sleep 0.1
        i=$((i + 1))
        url=$(grep -oE 'http://[0-9.]+:[0-9]+' "$work/serve.out")
    done
}
stop_server() {
    [ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null
    server=
}

# stored_runs NUMBER: the server lists this many runs and shows its page
stored_runs() {
    python3 -c 'import json, sys, urllib.request as r
get = lambda path: r.urlopen(sys.argv[1] + path, timeout=30).read()
assert json.loads(get("/api/v1/runs"))["total"] == int(sys.argv[2]) and b"<title>" in get("/runs")' "$url" "$1" 2>"$work/err"
}

# serve, push and PostgreSQL use the libraries of the tarball: the root folder has no others.
server_tests() {
    mkdir -p "$root/tmp/source/one" "$root/tmp/source/two"
    for name in one two; do
        printf '{"schema": "inferprof-metrics", "schema_version": 1, "run": {"id": "%s"}}' "$name" >"$root/tmp/source/$name/metrics.json"
    done
    start_server
    in_root "$bin" push "$url" /tmp/source/one
    expect "push sends a run to serve, both from the tarball" 0 out '^one: stored'
    check "the server of the tarball shows the run" stored_runs 1
    stop_server
    postgres_start || return
    mkdir -p "$root/tmp/pg"
    ln "$pg_dir/.s.PGSQL.5432" "$root/tmp/pg/" # the root folder cannot reach the folder of the database
    database='postgresql:///postgres?host=/tmp/pg&user=tester'
    in_root "$bin" runs /tmp/runs --database "$database"
    expect "runs of the tarball writes to PostgreSQL" 0 out '^one '
    start_server --database "$database"
    in_root "$bin" push "$url" /tmp/source/two
    expect "push sends a run to serve with PostgreSQL" 0 out '^two: stored'
    check "the server of the tarball shows the runs of PostgreSQL" stored_runs 2
    stop_server
}

# Commands other than serve, push and --database start without these libraries.
start_tests() {
    for words in --version "trace info /tmp/t.ipt" "runs /tmp" "serve --help" "push --help"; do
        # shellcheck disable=SC2086
        (export LD_DEBUG=files; in_root "$bin" $words; [ "$status" -eq 0 ] || rm -f "$work/err") 2>/dev/null
        check "inferprof $words loads only glibc and libraries of its own" lacks 'libmicrohttpd|libpq|libcurl|gnutls|krb5|libldap|libssl' "$work/err"
    done
}

dist_tests() {
    mkdir -p "$root/opt" "$root/tmp" "$root/lib64" "$root/lib/x86_64-linux-gnu" "$root/proc" "$root/dev"
    tar -xzf "$TARBALL" -C "$root/opt" || exit 1
    folder=$(basename "$TARBALL" .tar.gz)
    cp -L /lib64/ld-linux-x86-64.so.2 "$root/lib64/"
    for l in libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libresolv.so.2; do
        [ -f "/lib/x86_64-linux-gnu/$l" ] && cp -L "/lib/x86_64-linux-gnu/$l" "$root/lib/x86_64-linux-gnu/"
    done
    bin=/opt/$folder/bin/inferprof
    in_root "$bin" --version
    expect "inferprof runs in an empty root" 0 out '^inferprof '
    "$BUILD/tests/make_trace" "$root/tmp/t.ipt" 4
    in_root "$bin" trace info /tmp/t.ipt
    expect "inferprof reads a trace in an empty root" 0 out 'kernel +2,140 '
    start_tests
    server_tests
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

standalone 17 dist_tests
