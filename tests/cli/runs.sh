#!/bin/sh
# inferprof runs: the same checks on SQLite and on PostgreSQL.
. tests/cli/lib.sh
. tests/cli/postgres_lib.sh

# metrics DIR ID MODEL STARTED_S DECODE_MS: a run folder with the parts of metrics.json that the index reads
metrics() {
    mkdir -p "$1"
    cat >"$1/metrics.json" <<END
{"schema":"inferprof-metrics","schema_version":1,
 "run":{"id":"$2","title":"$3 on H200","model":"$3","engine":"native","inferprof_version":"0.1.0","started_unix_ns":${4}000000000,"incomplete":false,"unstable":false,"repeats":3,"failed_repeats":0},
 "device":{"name":"NVIDIA H200"},"model":{"mfu":0.25,"mbu":0.5},
 "stages":[{"name":"prefill","parent":null,"time_ms":41.0,"tokens":512},{"name":"decode","parent":null,"time_ms":$5,"tokens":64,"timed":{"n":3,"ci95_low":$5,"ci95_high":$5}}],
 "figures":[{"key":"time_to_first_token","name":"Time to first token","unit":"ms","larger_is_better":false,"stats":{"n":3,"median":41.5,"mean":41.5}}],
 "findings":[{"rank":1,"rule":"launch-bound","stage":"decode","title":"decode waits for launches","saving_ms":10,"saving_percent":5,"confidence":"high"}],
 "kernels":[{"short_name":"gemv <bf16>","category":"GEMV","owned_ns":1000000,"calls":10,"share":0.5}],
 "environment":[{"group":"System","key":"host","value":"node7"}]}
END
}
# An older folder, with only the members that version 0.1.0 wrote first.
old_run() {
    mkdir -p "$1"
    echo '{"schema":"inferprof-metrics","schema_version":1,"run":{"id":"old"},"stages":[{"name":"decode","parent":null,"time_ms":9,"repeats_ms":[9,9]}]}' >"$1/metrics.json"
}

# suite NAME URL: URL is empty for SQLite
suite() {
    db=$1 root=$work/$1
    set -- ${2:+--database "$2"}
    metrics "$root/alpha" alpha llama 1790000000 640
    metrics "$root/beta" beta llama 1790086400 320
    metrics "$root/team/gamma" gamma qwen 1790172800 128
    old_run "$root/old"
    mkdir -p "$root/died/trace" && echo killed >"$root/died/INCOMPLETE"
    run "$INFERPROF" runs "$root" "$@" --json
    expect "$db: runs are listed, newest first, also in folders below" 0
    check "$db: every run is there" json_is "$work/out" \
        '[r["run"] for r in d["runs"] if r["started"][:7] == "2026-09"], d["total"], sorted(r["run"] for r in d["runs"] if r["incomplete"])' \
        "(['gamma', 'beta', 'alpha'], 5, ['died'])"
    check "$db: values that a folder lacks are null" json_is "$work/out" \
        '[(r["model"], r["mfu"], r["time_per_token_ms"], r["tags"]) for r in d["runs"] if r["run"] == "old"]' "[(None, None, None, [])]"
    run "$INFERPROF" runs "$root" "$@" --model llama --stage decode --sort time_per_token
    expect "$db: filters and sorts by a stage" 0 out '^beta .* 320\.0 +5\.00 ' out '^alpha .* 640\.0 +10\.00 '
    check "$db: the fastest comes first" sh -c "sed -n 2p '$work/out' | grep -q '^beta'"
    run "$INFERPROF" runs "$root" "$@" --model 'LL*' --since 2026-09-22 --json
    expect "$db: patterns and times filter" 0
    check "$db: one run is left" json_is "$work/out" '[r["run"] for r in d["runs"]]' "['beta']"
    run "$INFERPROF" runs "$root" "$@" -n 2 --sort name --json
    next=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["next"])' "$work/out")
    run "$INFERPROF" runs "$root" "$@" -n 2 --sort name --json --cursor "$next"
    check "$db: the second page continues after the first" json_is "$work/out" '[r["run"] for r in d["runs"]]' "['died', 'gamma']"
    run "$INFERPROF" runs "$root" "$@" --cursor "1.zz"
    expect "$db: a damaged cursor is rejected" 1 err 'cursor is not valid'
    run "$INFERPROF" runs show --root "$root" "$@" alp
    expect "$db: a run is found by the start of its name" 0 out '^decode +640\.0 +640\.0 to 640\.0 +10\.00 ' out 'decode waits for launches'
    run "$INFERPROF" runs tag --root "$root" "$@" alpha nightly main
    run "$INFERPROF" runs tag --root "$root" "$@" alpha --remove main
    run "$INFERPROF" runs "$root" "$@" --tag nightly
    expect "$db: tags are added and removed" 0 out '^alpha .*#nightly$'
    run "$INFERPROF" runs tag --root "$root" "$@" alpha "'; DROP TABLE runs; --"
    expect "$db: a tag with other characters is rejected" 1 err 'is not a tag'
    mv "$root/beta" "$work/$db-beta"
    run "$INFERPROF" runs "$root" "$@"
    expect "$db: a moved folder is shown as missing" 0 out '^beta .*missing$'
    run "$INFERPROF" runs "$root" "$@" --reindex
    expect "$db: a new index counts the missing run" 0 err ' 1 missing'
    mv "$work/$db-beta" "$root/beta"
    run "$INFERPROF" runs "$root" "$@" --reindex --json
    check "$db: a folder that came back is there again, and tags survive a new index" json_is "$work/out" \
        '[(r["run"], r["missing"], r["tags"]) for r in d["runs"] if r["run"] in ("alpha", "beta")]' "[('beta', False, []), ('alpha', False, ['nightly'])]"
    run "$INFERPROF" runs delete --root "$root" "$@" gamma
    expect "$db: delete asks for --yes" 2 err 'add --yes'
    run "$INFERPROF" runs delete --root "$root" "$@" gamma old --yes
    expect "$db: runs are deleted" 0
    check "$db: their folders are gone" sh -c "[ ! -e '$root/team/gamma' ] && [ ! -e '$root/old' ]"
    run "$INFERPROF" runs show --root "$root" "$@" gamma
    expect "$db: a deleted run is not found" 1 err "no run 'gamma'"
    metrics "$root/alpha" alpha llama 1790000000 700
    run "$INFERPROF" runs "$root" "$@" --stage decode --model llama
    expect "$db: a report that was written again is read again" 0 out '^alpha .* 700\.0 '
    echo '{"schema":"inferprof-metrics",' >"$root/alpha/metrics.json"
    run "$INFERPROF" runs "$root" "$@" --reindex
    expect "$db: a damaged metrics.json is reported, and the run stays listed" 0 err 'alpha/metrics.json' out '^alpha .*incomplete'
}

# rejected NAME ROOT OPTIONS...: the table of runs refuses the model "refused"
rejected() {
    db=$1 root=$2
    shift 2
    for i in 1 2 3; do metrics "$root/new-$i" new-$i "$([ $i = 2 ] && echo refused || echo llama)" 179030000$i 640; done
    run "$INFERPROF" runs "$root" "$@" --reindex
    expect "$db: a run that the database does not accept is reported and skipped" 0 err 'new-2: .*refused' err '^2 runs indexed, 0 missing'
    check "$db: the other runs are indexed" sh -c "grep -q '^new-1 ' '$work/out' && grep -q '^new-3 ' '$work/out' && ! grep -q '^new-2 ' '$work/out'"
}

# Migrations: databases that older programs wrote are migrated, a newer one is refused.
# old_database ROOT: the folders of the runs in tests/data/history
old_database() {
    root=$1
    metrics "$root/alpha" alpha llama 1790000000 640
    metrics "$root/beta" beta qwen 1790086400 320
    mkdir -p "$root/.inferprof"
    printf 0123456789abcdef0123456789abcdef >"$root/.inferprof/store-id"
}
# tagged_database ROOT: the same runs with tags, as in schema version 4
tagged_database() {
    old_database "$1"
    for name in alpha beta; do echo nightly >"$root/$name/.tags"; done
}
# tagged NAME ROOT OPTIONS...: a tag finds the runs of the old database in the order of time, also with other filters
tagged() {
    name=$1 root=$2
    shift 2
    run "$INFERPROF" runs "$root" "$@" --tag nightly --json
    check "$name: a tag finds its runs" json_is "$work/out" '[r["run"] for r in d["runs"]], d["total"]' "(['beta', 'alpha'], 2)"
    run "$INFERPROF" runs "$root" "$@" --tag nightly --model llama --device 'nvidia*' --host node7 --since 2026-09-21 --json
    check "$name: a tag and other filters find a run" json_is "$work/out" '[r["run"] for r in d["runs"]], d["total"]' "(['alpha'], 1)"
}
# migrated NAME ROOT OPTIONS...: the runs are still there, and counts and search include them
migrated() {
    name=$1 root=$2
    shift 2
    run "$INFERPROF" runs "$root" "$@"
    expect "$name is migrated" 0 out '^alpha ' out '^beta '
    run "$INFERPROF" runs "$root" "$@" --search LLAMA --json
    check "$name: its runs are found" json_is "$work/out" '[r["run"] for r in d["runs"]], d["total"]' "(['alpha'], 1)"
    metrics "$root/gamma" gamma qwen 1790172800 128
    run "$INFERPROF" runs "$root" "$@" --model 'q*' --json
    check "$name: old and new runs are counted" json_is "$work/out" '[r["run"] for r in d["runs"]], d["total"]' "(['gamma', 'beta'], 2)"
}

mkdir -p "$work/released/native"
cp tests/data/history/metrics-0.1.json "$work/released/native/metrics.json" # written by inferprof 0.1.0
run "$INFERPROF" runs "$work/released" --stage decode --json
check "a run of inferprof 0.1.0 is indexed" json_is "$work/out" '[(r["run"], r["model"], r["incomplete"]) for r in d["runs"]]' "[('native', 'embedded', False)]"

suite SQLite ""
if postgres_start; then
    suite PostgreSQL "$pg_url"
    psql -q -c "CREATE DATABASE strict" "$pg_url"
    strict_url="postgresql:///strict?host=$pg_dir&user=tester"
    mkdir -p "$work/strict-postgres"
    run "$INFERPROF" runs "$work/strict-postgres" --database "$strict_url"
    psql -q -c "ALTER TABLE runs ADD CONSTRAINT refused CHECK (model <> 'refused')" "$strict_url"
    rejected PostgreSQL "$work/strict-postgres" --database "$strict_url"
    psql -q -c "CREATE DATABASE old" "$pg_url"
    old_url="postgresql:///old?host=$pg_dir&user=tester"
    old_database "$work/old-postgres"
    check "the database of an older program is loaded" psql -q -v ON_ERROR_STOP=1 -f tests/data/history/version3.postgres.sql "$old_url"
    migrated "a PostgreSQL database of schema version 3" "$root" --database "$old_url"
    for version in 1 2; do # a database of version 2 is one of version 1 with more tables
        psql -q -c "CREATE DATABASE old$version" "$pg_url"
        old_database "$work/old$version-postgres"
        for v in 1 2; do
            [ $v -gt $version ] || psql -q -v ON_ERROR_STOP=1 -f tests/data/history/version$v.postgres.sql "postgresql:///old$version?host=$pg_dir&user=tester"
        done
        migrated "a PostgreSQL database of schema version $version" "$root" --database "postgresql:///old$version?host=$pg_dir&user=tester"
    done
    root=$work/old-postgres
    psql -q -c "CREATE DATABASE old4" "$pg_url"
    tagged_database "$work/old4-postgres"
    psql -q -v ON_ERROR_STOP=1 -f tests/data/history/version4.postgres.sql "postgresql:///old4?host=$pg_dir&user=tester"
    migrated "a PostgreSQL database of schema version 4" "$root" --database "postgresql:///old4?host=$pg_dir&user=tester"
    tagged "a PostgreSQL database of schema version 4" "$root" --database "postgresql:///old4?host=$pg_dir&user=tester"
    psql -q -c "UPDATE inferprof_schema SET version = 999" "$old_url"
    run "$INFERPROF" runs "$root" --database "$old_url"
    expect "a PostgreSQL database of a newer program is refused" 1 err 'schema version 999, and this inferprof reads versions up to [0-9]+; use a newer inferprof'
    postgres_run stop
    run "$INFERPROF" runs "$work/PostgreSQL" --database "postgresql://tester:hunter2@/postgres?host=$pg_dir"
    expect "a database that is down is reported" 1 err 'connection to server'
    check "the password is not printed" lacks hunter2 "$work/err"
fi

sql() { python3 -c 'import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); r = c.execute(sys.argv[2]).fetchall(); c.commit(); print(r)' "$root/.inferprof/index.sqlite" "$1"; }
root=$work/strict
mkdir -p "$root"
run "$INFERPROF" runs "$root"
sql "CREATE TRIGGER refuse BEFORE INSERT ON runs WHEN NEW.model = 'refused' BEGIN SELECT RAISE(ABORT, 'refused'); END" >/dev/null
rejected SQLite "$root"
for version in 1 2 3 4; do
    if [ $version = 4 ]; then tagged_database "$work/old-4"; else old_database "$work/old-$version"; fi
    [ $version != 2 ] || python3 -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(open(sys.argv[2]).read())' \
        "$root/.inferprof/index.sqlite" tests/data/history/version1.sqlite.sql
    python3 -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(open(sys.argv[2]).read())' \
        "$root/.inferprof/index.sqlite" tests/data/history/version$version.sqlite.sql
    migrated "an SQLite database of schema version $version" "$root"
    check "an SQLite database of schema version $version: the new tables exist" sh -c "[ '$(sql "SELECT COUNT(*) FROM jobs")' = '[(0,)]' ]"
done
tagged "an SQLite database of schema version 4" "$root"
root=$work/old-3
sql "UPDATE inferprof_schema SET version = 999" >/dev/null
run "$INFERPROF" runs "$root"
expect "a database of a newer program is refused" 1 err 'schema version 999, and this inferprof reads versions up to [0-9]+; use a newer inferprof'
run timeout 20 "$INFERPROF" serve --root "$root" --listen 127.0.0.1:0
expect "serve does not start with a database of a newer program" 1 err 'schema version 999'
run timeout 20 "$INFERPROF" serve --root "$root" --listen 127.0.0.1:0 --allow-jobs --job-root "$work/none"
expect "serve names a folder of jobs that does not exist" 1 err '--job-root .*/none: no such folder'
run timeout 20 "$INFERPROF" serve --root "$work/typo" --listen 127.0.0.1:0 --database "postgresql:///none?host=$work/none"
expect "serve names a root folder that it creates" 1 err '/typo: no such folder; it is created' err '/none/.s.PGSQL'
echo 'not a database, but long enough to be checked' >"$root/.inferprof/index.sqlite"
run "$INFERPROF" runs "$root"
expect "a damaged index is reported with its remedy" 1 err 'delete it to rebuild the index'
run "$INFERPROF" runs "$work/none"
expect "a folder that does not exist is reported" 1 err 'no such folder'
run env LD_DEBUG=libs "$INFERPROF" runs "$work/SQLite"
check "SQLite does not load libpq" lacks libpq "$work/err"
