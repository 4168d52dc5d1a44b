# A PostgreSQL server for tests: runs as an ordinary user, listens only on a socket in its own folder.
# Sourced after lib.sh:  postgres_start; ... "$pg_url" ...; postgres_stop
# shellcheck shell=sh disable=SC2154,SC2034
pg_dir='' pg_url=''
pg_bin=
for bin in /usr/lib/postgresql/*/bin; do pg_bin=$bin; done

# PostgreSQL refuses to run as root.
as_user() {
    if [ "$(id -u)" = 0 ]; then setpriv --reuid=nobody --regid=nogroup --clear-groups "$@"; else "$@"; fi
}

postgres_run() { # start|stop
    as_user "$pg_bin/pg_ctl" -s -w -m fast -D "$pg_dir/data" -l "$pg_dir/log" \
        -o "-c listen_addresses= -c unix_socket_directories=$pg_dir -c fsync=off -c max_connections=50" "$1" >/dev/null 2>&1
}

postgres_start() {
    pg_dir=$(mktemp -d /tmp/inferprof-pg.XXXXXX)
    chmod 755 "$pg_dir"
    [ "$(id -u)" = 0 ] && chown nobody:nogroup "$pg_dir"
    (cd "$pg_dir" && as_user "$pg_bin/initdb" -D "$pg_dir/data" -U tester -A trust --no-sync -E UTF8 --locale=C.UTF-8) \
        >"$work/initdb.log" 2>&1
    if ! postgres_run start; then
        not_ok "PostgreSQL starts" "$(tail -n 3 "$work/initdb.log" "$pg_dir/log" 2>&1 | tr '\n' '~')"
        return 1
    fi
    pg_url="postgresql:///postgres?host=$pg_dir&user=tester"
}

postgres_stop() {
    [ -n "$pg_dir" ] || return 0
    postgres_run stop
    rm -rf "$pg_dir"
    pg_dir=
}
trap postgres_stop EXIT
