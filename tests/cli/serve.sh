#!/bin/sh
# inferprof serve and push: the same checks on SQLite and on PostgreSQL.
. tests/cli/lib.sh
. tests/cli/postgres_lib.sh
# run DATABASE SCRIPT [ARGUMENT...]: prints the results of a script with the name of the database
run() {
    database=$1 script=$2
    shift 2
    python3 "tests/serve/$script.py" "$@" >"$work/tap" 2>"$work/trace"
    sed "s/^\(not \)\{0,1\}ok - /&$database: /" "$work/tap"
    [ -s "$work/tap" ] || not_ok "$script runs on $database"
    [ -s "$work/trace" ] && not_ok "$script finishes on $database" "$(tail -n 5 "$work/trace" | tr '\n' '~')"
}
# Each database gets half of the kills and one of two short scripts. With SERVE_ALL, as in make test-long, both get everything.
export SERVE_KILLS="${SERVE_KILLS:-6}"
run SQLite api "$work/sqlite"
run SQLite hostile "$work/hostile"
run SQLite lists "$work/lists"
python3 tests/serve/routes.py || not_ok "the OpenAPI document lists the routes of the server"
run SQLite safety "$work/safety"
run SQLite kills "$work/kills"
[ -z "${SERVE_ALL:-}" ] || run SQLite ranks "$work/ranks" "$BUILD/tests/make_ranks"
if postgres_start; then
    export SERVE_POSTGRES="$pg_dir"
    run PostgreSQL api "$work/api-postgres" "$pg_url"
    psql -q -c "CREATE DATABASE hostile" "$pg_url"
    run PostgreSQL hostile "$work/hostile-postgres" "postgresql:///hostile?host=$pg_dir&user=tester"
    psql -q -c "CREATE DATABASE lists" "$pg_url"
    run PostgreSQL lists "$work/lists-postgres" "postgresql:///lists?host=$pg_dir&user=tester"
    run PostgreSQL safety "$work/safety-postgres"
    run PostgreSQL kills "$work/kills-postgres"
    run PostgreSQL ranks "$work/ranks-postgres" "$BUILD/tests/make_ranks"
    python3 tests/serve/shared.py "$work/shared" "$pg_url" "$pg_dir/stop" "$pg_dir/start" >"$work/tap" 2>"$work/trace" &
    shared=$!
    # The test asks for the database to be stopped and started by creating files.
    for action in stop start; do
        i=0
        while [ ! -e "$work/shared.$action" ] && kill -0 $shared 2>/dev/null && [ $i -lt 900 ]; do sleep 0.1; i=$((i + 1)); done
        postgres_run $action
        rm -f "$work/shared.$action"
    done
    wait $shared
    cat "$work/tap"
    [ -s "$work/trace" ] && not_ok "the tests of a shared database finish" "$(tail -n 5 "$work/trace" | tr '\n' '~')"
    unset SERVE_POSTGRES
fi
env LD_DEBUG=libs "$INFERPROF" --version >"$work/out" 2>"$work/err"
check "other commands load neither libmicrohttpd, libpq nor libcurl" lacks 'microhttpd|libpq|libcurl|gnutls' "$work/err"
