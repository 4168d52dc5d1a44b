#!/bin/sh
# inferprof serve and push: the same checks on SQLite and on PostgreSQL.
. tests/cli/lib.sh
. tests/cli/postgres_lib.sh
python3 tests/serve/api.py "$work/sqlite" >"$work/tap" 2>"$work/trace" || [ -s "$work/tap" ] || not_ok "the server tests run" "$(tail -n 5 "$work/trace")"
sed 's/^\(not \)\{0,1\}ok - /&SQLite: /' "$work/tap"
[ -s "$work/trace" ] && not_ok "the server tests on SQLite finish" "$(tail -n 5 "$work/trace" | tr '\n' '~')"
# hostile NAME ROOT [URL]
hostile() {
    name=$1
    shift
    python3 tests/serve/hostile.py "$@" >"$work/tap" 2>"$work/trace"
    sed "s/^\(not \)\{0,1\}ok - /&$name: /" "$work/tap"
    [ -s "$work/trace" ] && not_ok "the hostile requests on $name finish" "$(tail -n 5 "$work/trace" | tr '\n' '~')"
}
hostile SQLite "$work/hostile"
# lists NAME ROOT [URL]
lists() {
    name=$1
    shift
    python3 tests/serve/lists.py "$@" >"$work/tap" 2>"$work/trace"
    sed "s/^\(not \)\{0,1\}ok - /&$name: /" "$work/tap"
    [ -s "$work/trace" ] && not_ok "the lists of many runs on $name finish" "$(tail -n 5 "$work/trace" | tr '\n' '~')"
}
lists SQLite "$work/lists"
python3 tests/serve/routes.py || not_ok "the OpenAPI document lists the routes of the server"
python3 tests/serve/safety.py "$work/safety" || not_ok "the safety checks finish"
python3 tests/serve/ranks.py "$work/ranks" "$BUILD/tests/make_ranks" || not_ok "the tests of a pushed job finish"
python3 tests/serve/kills.py "$work/kills" || not_ok "the kills finish"
if postgres_start; then
    python3 tests/serve/api.py "$work/postgres" "$pg_url" >"$work/tap" 2>"$work/trace"
    sed 's/^\(not \)\{0,1\}ok - /&PostgreSQL: /' "$work/tap"
    [ -s "$work/trace" ] && not_ok "the server tests on PostgreSQL finish" "$(tail -n 5 "$work/trace" | tr '\n' '~')"
    psql -q -c "CREATE DATABASE hostile" "$pg_url"
    hostile PostgreSQL "$work/hostile-postgres" "postgresql:///hostile?host=$pg_dir&user=tester"
    psql -q -c "CREATE DATABASE lists" "$pg_url"
    lists PostgreSQL "$work/lists-postgres" "postgresql:///lists?host=$pg_dir&user=tester"
    python3 tests/serve/shared.py "$work/shared" "$pg_url" "$pg_dir/stop" "$pg_dir/start" >"$work/tap" 2>"$work/trace" &
    shared=$!
    # The test asks for the database to be stopped and started by creating files.
    for action in stop start; do
        i=0
        while [ ! -e "$work/shared.$action" ] && kill -0 $shared 2>/dev/null && [ $i -lt 300 ]; do sleep 0.1; i=$((i + 1)); done
        postgres_run $action
        rm -f "$work/shared.$action"
    done
    wait $shared
    cat "$work/tap"
    [ -s "$work/trace" ] && not_ok "the tests of a shared database finish" "$(tail -n 5 "$work/trace" | tr '\n' '~')"
fi
env LD_DEBUG=libs "$INFERPROF" --version >"$work/out" 2>"$work/err"
check "other commands load neither libmicrohttpd, libpq nor libcurl" lacks 'microhttpd|libpq|libcurl|gnutls' "$work/err"
