#include "history/schema.h"

#include <string.h>

#include "base/strbuf.h"
#include "base/util.h"

/* migrations[n-1] brings a database from version n-1 to version n. Rows are never changed after a release.
 * "@ID" is replaced by the type of a primary key that the database assigns, "@GENERATED" by the kind of a
 * computed column. Run folders are the source of all tables except `jobs` and `tokens`. */
static const char *const migrations[] = {
    /* 1: runs and their figures. Unknown values are NULL; flags are 0 or 1; points in time are Unix ns. */
    "CREATE TABLE runs (id @ID, store TEXT NOT NULL, path TEXT NOT NULL, name TEXT NOT NULL UNIQUE,"
    " digest TEXT, title TEXT, model TEXT, device TEXT, engine TEXT, host TEXT, version TEXT, command TEXT,"
    " started_ns BIGINT NOT NULL, repeats BIGINT, failed_repeats BIGINT, findings BIGINT,"
    " incomplete INTEGER NOT NULL, unstable INTEGER NOT NULL, missing INTEGER NOT NULL,"
    " mfu DOUBLE PRECISION, mbu DOUBLE PRECISION, time_to_first_token_ms DOUBLE PRECISION,"
    " time_per_token_ms DOUBLE PRECISION, tokens_per_s DOUBLE PRECISION,"
    " metrics_mtime_ns BIGINT NOT NULL, metrics_bytes BIGINT NOT NULL, UNIQUE (store, path));"
    "CREATE INDEX runs_started ON runs (started_ns, id);"
    "CREATE INDEX runs_series ON runs (model, device, engine, started_ns, id);"
    "CREATE INDEX runs_digest ON runs (digest);"
    "CREATE INDEX runs_host ON runs (host, device, started_ns);"
    "CREATE INDEX runs_time_per_token ON runs (time_per_token_ms, id);"
    "CREATE INDEX runs_tokens_per_s ON runs (tokens_per_s, id);"
    "CREATE INDEX runs_first_token ON runs (time_to_first_token_ms, id);"
    "CREATE TABLE stages (run BIGINT NOT NULL REFERENCES runs ON DELETE CASCADE, position INTEGER NOT NULL,"
    " name TEXT NOT NULL, parent TEXT, time_ms DOUBLE PRECISION, ci95_low_ms DOUBLE PRECISION,"
    " ci95_high_ms DOUBLE PRECISION, repeats BIGINT, tokens DOUBLE PRECISION,"
    " time_per_token_ms DOUBLE PRECISION, tokens_per_s DOUBLE PRECISION, mfu DOUBLE PRECISION,"
    " mbu DOUBLE PRECISION, floor_ms DOUBLE PRECISION, distance DOUBLE PRECISION,"
    " gpu_busy_share DOUBLE PRECISION, PRIMARY KEY (run, position));"
    "CREATE INDEX stages_time ON stages (name, time_ms, run);"
    "CREATE INDEX stages_time_per_token ON stages (name, time_per_token_ms, run);"
    "CREATE TABLE figures (run BIGINT NOT NULL REFERENCES runs ON DELETE CASCADE, position INTEGER NOT NULL,"
    " key TEXT NOT NULL, name TEXT, unit TEXT, larger_is_better INTEGER NOT NULL, median DOUBLE PRECISION,"
    " mean DOUBLE PRECISION, std DOUBLE PRECISION, ci95_low DOUBLE PRECISION, ci95_high DOUBLE PRECISION,"
    " repeats BIGINT, PRIMARY KEY (run, position));"
    "CREATE TABLE kernel_classes (run BIGINT NOT NULL REFERENCES runs ON DELETE CASCADE,"
    " position INTEGER NOT NULL, name TEXT NOT NULL, category TEXT, library TEXT, stage TEXT, calls BIGINT,"
    " owned_ns DOUBLE PRECISION, share DOUBLE PRECISION, PRIMARY KEY (run, position));"
    "CREATE TABLE findings (run BIGINT NOT NULL REFERENCES runs ON DELETE CASCADE, position INTEGER NOT NULL,"
    " rule TEXT NOT NULL, stage TEXT, title TEXT, evidence TEXT, advice TEXT, saving_ms DOUBLE PRECISION,"
    " saving_percent DOUBLE PRECISION, confidence TEXT, PRIMARY KEY (run, position));"
    "CREATE INDEX findings_rule ON findings (rule, run);"
    "CREATE TABLE environment (run BIGINT NOT NULL REFERENCES runs ON DELETE CASCADE,"
    " position INTEGER NOT NULL, kind TEXT, key TEXT NOT NULL, value TEXT, PRIMARY KEY (run, position));"
    "CREATE TABLE tags (run BIGINT NOT NULL REFERENCES runs ON DELETE CASCADE, tag TEXT NOT NULL,"
    " PRIMARY KEY (run, tag));"
    "CREATE INDEX tags_tag ON tags (tag, run);"
    /* folders that contain run folders, with their mtime at the last scan */
    "CREATE TABLE folders (store TEXT NOT NULL, path TEXT NOT NULL, mtime_ns BIGINT NOT NULL,"
    " PRIMARY KEY (store, path));"
    /* grows with every change of the tables above */
    "CREATE TABLE revision (value BIGINT NOT NULL);"
    "INSERT INTO revision VALUES (1);",
    /* 2: the server's tokens and its queue of jobs */
    "CREATE TABLE tokens (name TEXT NOT NULL PRIMARY KEY, role TEXT NOT NULL, hash TEXT NOT NULL UNIQUE,"
    " created_ns BIGINT NOT NULL);"
    "CREATE TABLE jobs (id @ID, run_id TEXT NOT NULL UNIQUE, store TEXT NOT NULL, state TEXT NOT NULL,"
    " device TEXT NOT NULL, request TEXT NOT NULL, message TEXT, attempts INTEGER NOT NULL,"
    " created_ns BIGINT NOT NULL, started_ns BIGINT, ended_ns BIGINT);"
    "CREATE INDEX jobs_state ON jobs (store, state, id);",
    /* 3: search, and unfinished runs, without reading every row. The index contains the searched text, at
     * most 600 characters: PostgreSQL limits an entry of an index to 2,704 bytes. */
    "ALTER TABLE runs ADD COLUMN search TEXT GENERATED ALWAYS AS (SUBSTR(LOWER(name || ' ' || "
    "COALESCE(model, '') || ' ' || COALESCE(device, '') || ' ' || COALESCE(host, '') || ' ' || "
    "COALESCE(title, '')), 1, 600)) @GENERATED;"
    "CREATE INDEX runs_search ON runs (started_ns, id, search);"
    "DROP INDEX runs_started;"
    "CREATE INDEX runs_unfinished ON runs (store) WHERE incomplete = 1;",
};

static int schema_latest(void) { return (int)COUNTOF(migrations); }

static int read_version(struct database *db, int *version, struct err *err) {
    struct db_result r;
    if (database_query(db, "SELECT version FROM inferprof_schema", NULL, &r, err) < 0) return -1;
    *version = (int)db_cell_int(&r, 0, 0);
    db_result_free(&r);
    return 0;
}

static int run_migration(struct database *db, int version, struct err *err) {
    struct strbuf sql = STRBUF_INIT;
    const char *id = database_is_postgres(db) ? "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"
                                              : "INTEGER PRIMARY KEY AUTOINCREMENT";
    const char *generated = database_is_postgres(db) ? "STORED" : "VIRTUAL";
    strbuf_addstr(&sql, migrations[version - 1]);
    strbuf_replace(&sql, "@ID", 3, id, strlen(id));
    strbuf_replace(&sql, "@GENERATED", 10, generated, strlen(generated));
    strbuf_addf(&sql, "UPDATE inferprof_schema SET version = %d;", version);
    int rc = database_script(db, sql.buf, err);
    strbuf_free(&sql);
    return rc < 0 ? err_wrap(err, "migration %d", version) : 0;
}

static int check_not_newer(int version, struct err *err) {
    if (version <= schema_latest()) return 0;
    return err_set(err,
                   "the database has schema version %d, and this inferprof reads versions up to %d; use a "
                   "newer inferprof, or another database (--database)",
                   version, schema_latest());
}

static int migrate(struct database *db, struct err *err) {
    int version;
    /* The version is read again: another process may have migrated the database in the meantime. */
    if (database_is_postgres(db) &&
        database_query(db, "LOCK TABLE inferprof_schema IN EXCLUSIVE MODE", NULL, NULL, err) < 0)
        return -1;
    if (read_version(db, &version, err) < 0 || check_not_newer(version, err) < 0) return -1;
    while (version < schema_latest())
        if (run_migration(db, ++version, err) < 0) return -1;
    return 0;
}

static int create_version_table(struct database *db, struct err *err) {
    if (database_begin(db, err) < 0) return -1;
    /* In PostgreSQL, CREATE TABLE IF NOT EXISTS can fail if two processes run it at once. Therefore a
     * lock is taken first. The number of the lock is arbitrary. */
    if ((database_is_postgres(db) &&
         database_query(db, "SELECT pg_advisory_xact_lock(7227450)", NULL, NULL, err) < 0) ||
        database_query(db, "CREATE TABLE IF NOT EXISTS inferprof_schema (version BIGINT NOT NULL)", NULL,
                       NULL, err) < 0 ||
        database_query(db,
                       "INSERT INTO inferprof_schema SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM "
                       "inferprof_schema)",
                       NULL, NULL, err) < 0) {
        database_rollback(db);
        return -1;
    }
    return database_commit(db, err);
}

int schema_prepare(struct database *db, struct err *err) {
    int version;
    struct err ignored;
    if (read_version(db, &version, &ignored) == 0) {
        if (check_not_newer(version, err) < 0) return -1;
        if (version == schema_latest()) return 0;
    } else if (create_version_table(db, err) < 0) {
        return -1;
    }
    if (database_begin(db, err) < 0) return -1;
    if (migrate(db, err) < 0) {
        database_rollback(db);
        return -1;
    }
    return database_commit(db, err);
}
