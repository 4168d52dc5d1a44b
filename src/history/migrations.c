#include "history/migrations.h"

#include "base/util.h"

/* ---- migration 4 */

#define IS_GROUP_OF(table, row)                                         \
    "COALESCE(" table "model, '') = COALESCE(" row ".model, '') AND "   \
    "COALESCE(" table "device, '') = COALESCE(" row ".device, '') AND " \
    "COALESCE(" table "engine, '') = COALESCE(" row ".engine, '') AND " \
    "COALESCE(" table "host, '') = COALESCE(" row ".host, '')"
#define OLD_GROUP                                                                \
    "model = COALESCE(OLD.model, '') AND device = COALESCE(OLD.device, '') AND " \
    "engine = COALESCE(OLD.engine, '') AND host = COALESCE(OLD.host, '')"
#define GROUP_CHANGED "NOT (" IS_GROUP_OF("OLD.", "NEW") ") OR OLD.started_ns <> NEW.started_ns"
#define COUNT_NEW                                                                                         \
    "INSERT INTO run_groups VALUES (COALESCE(NEW.model, ''), COALESCE(NEW.device, ''), "                  \
    "COALESCE(NEW.engine, ''), COALESCE(NEW.host, ''), 1, NEW.started_ns) "                               \
    "ON CONFLICT (model, device, engine, host) DO UPDATE SET runs = run_groups.runs + 1, last_ns = CASE " \
    "WHEN excluded.last_ns > run_groups.last_ns THEN excluded.last_ns ELSE run_groups.last_ns END;"
/* The newest run of a group is looked up only if the removed run was the newest. */
#define UNCOUNT_OLD                                                                                     \
    "UPDATE run_groups SET runs = runs - 1, last_ns = CASE WHEN OLD.started_ns < last_ns THEN last_ns " \
    "ELSE COALESCE((SELECT MAX(r.started_ns) FROM runs r WHERE " IS_GROUP_OF(                           \
        "r.", "OLD") "), 0) END "                                                                       \
                     "WHERE " OLD_GROUP ";"                                                             \
                     "DELETE FROM run_groups WHERE runs = 0 AND " OLD_GROUP ";"

#define GROUPS_AND_INDEXES                                                                           \
    "CREATE TABLE run_groups (model TEXT NOT NULL, device TEXT NOT NULL, engine TEXT NOT NULL,"      \
    " host TEXT NOT NULL, runs BIGINT NOT NULL, last_ns BIGINT NOT NULL,"                            \
    " PRIMARY KEY (model, device, engine, host));"                                                   \
    "INSERT INTO run_groups SELECT COALESCE(model, ''), COALESCE(device, ''), COALESCE(engine, '')," \
    " COALESCE(host, ''), COUNT(*), MAX(started_ns) FROM runs GROUP BY 1, 2, 3, 4;"                  \
    "DROP INDEX runs_host;"                                                                          \
    "CREATE INDEX runs_of_model ON runs (model, started_ns, id);"                                    \
    "CREATE INDEX runs_of_device ON runs (device, started_ns, id);"                                  \
    "CREATE INDEX runs_of_engine ON runs (engine, started_ns, id);"                                  \
    "CREATE INDEX runs_of_host ON runs (host, started_ns, id);"                                      \
    "CREATE INDEX runs_of_version ON runs (version, started_ns, id);"                                \
    "CREATE INDEX runs_by_model ON runs ((COALESCE(model, '')), id);"                                \
    "CREATE INDEX runs_by_device ON runs ((COALESCE(device, '')), id);"                              \
    "CREATE INDEX runs_by_engine ON runs ((COALESCE(engine, '')), id);"                              \
    "CREATE INDEX runs_mfu ON runs (mfu, id);"                                                       \
    "CREATE INDEX runs_mbu ON runs (mbu, id);"                                                       \
    "CREATE INDEX stages_tokens_per_s ON stages (name, tokens_per_s, run);"                          \
    "CREATE INDEX stages_mfu ON stages (name, mfu, run);"                                            \
    "CREATE INDEX stages_mbu ON stages (name, mbu, run);"                                            \
    "CREATE INDEX stages_distance ON stages (name, distance, run);"

#define SQLITE_TRIGGERS                                                                                 \
    "CREATE TRIGGER run_added AFTER INSERT ON runs BEGIN " COUNT_NEW " END;"                            \
    "CREATE TRIGGER run_moved AFTER UPDATE ON runs WHEN " GROUP_CHANGED " BEGIN " COUNT_NEW UNCOUNT_OLD \
    " END;"                                                                                             \
    "CREATE TRIGGER run_removed AFTER DELETE ON runs BEGIN " UNCOUNT_OLD " END;"
/* Trigram index. Triggers must not use it (PRAGMA trusted_schema is off), so write.c and query.c keep it up
 * to date. */
#define SQLITE_SEARCH                                                                      \
    "CREATE VIRTUAL TABLE runs_text USING fts5(search, tokenize='trigram', columnsize=0);" \
    "INSERT INTO runs_text(rowid, search) SELECT id, search FROM runs;"

#define POSTGRES_TRIGGER(name, event, body)                                                          \
    "CREATE FUNCTION inferprof_" name "() RETURNS TRIGGER AS $$ BEGIN " body " RETURN NULL; END $$ " \
    "LANGUAGE plpgsql;"                                                                              \
    "CREATE TRIGGER " name " AFTER " event " EXECUTE FUNCTION inferprof_" name "();"
#define POSTGRES_TRIGGERS                                                                 \
    POSTGRES_TRIGGER("run_added", "INSERT ON runs FOR EACH ROW", COUNT_NEW)               \
    POSTGRES_TRIGGER("run_moved", "UPDATE ON runs FOR EACH ROW WHEN (" GROUP_CHANGED ")", \
                     COUNT_NEW UNCOUNT_OLD)                                               \
    POSTGRES_TRIGGER("run_removed", "DELETE ON runs FOR EACH ROW", UNCOUNT_OLD)
/* The extension is part of PostgreSQL, but an administrator can forbid it. Search then reads all runs. */
#define POSTGRES_SEARCH                                                \
    "DO $$ BEGIN CREATE EXTENSION IF NOT EXISTS pg_trgm;"              \
    " CREATE INDEX runs_text ON runs USING gin (search gin_trgm_ops);" \
    " EXCEPTION WHEN OTHERS THEN RAISE NOTICE 'no index for search'; END $$;"

/* ---- migration 5: the list of a tag in the order of time */

/* The columns after `run` are copies of columns of the run: write.c writes the tags of a run again whenever
 * it writes the run. */
#define TAG_COLUMNS                                                                         \
    "ALTER TABLE tags ADD COLUMN started_ns BIGINT NOT NULL DEFAULT 0;"                     \
    "ALTER TABLE tags ADD COLUMN model TEXT;"                                               \
    "ALTER TABLE tags ADD COLUMN device TEXT;"                                              \
    "ALTER TABLE tags ADD COLUMN engine TEXT;"                                              \
    "ALTER TABLE tags ADD COLUMN host TEXT;"                                                \
    "UPDATE tags SET started_ns = (SELECT r.started_ns FROM runs r WHERE r.id = tags.run)," \
    " model = (SELECT r.model FROM runs r WHERE r.id = tags.run),"                          \
    " device = (SELECT r.device FROM runs r WHERE r.id = tags.run),"                        \
    " engine = (SELECT r.engine FROM runs r WHERE r.id = tags.run),"                        \
    " host = (SELECT r.host FROM runs r WHERE r.id = tags.run);"                            \
    "DROP INDEX tags_tag;"
/* With all columns, SQLite does not read the table. PostgreSQL limits the size of an entry of an index. */
#define SQLITE_TAG_INDEX "CREATE INDEX tags_time ON tags (tag, started_ns, run, model, device, engine, host);"
#define POSTGRES_TAG_INDEX "CREATE INDEX tags_time ON tags (tag, started_ns, run);"

/* ---- all migrations */

/* migrations[n-1] brings a database from version n-1 to n. Rows are never changed after a release. "@ID" is
 * replaced by the type of a generated primary key, "@GENERATED" by the kind of a computed column. Run folders
 * are the source of all tables except `jobs` and `tokens`. */
const struct migration migrations[] = {
    /* 1: runs. Unknown values are NULL; flags are 0 or 1; times are Unix ns. */
    { "CREATE TABLE runs (id @ID, store TEXT NOT NULL, path TEXT NOT NULL, name TEXT NOT NULL UNIQUE,"
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
      "CREATE TABLE figures (run BIGINT NOT NULL REFERENCES runs ON DELETE CASCADE, position INTEGER NOT "
      "NULL,"
      " key TEXT NOT NULL, name TEXT, unit TEXT, larger_is_better INTEGER NOT NULL, median DOUBLE PRECISION,"
      " mean DOUBLE PRECISION, std DOUBLE PRECISION, ci95_low DOUBLE PRECISION, ci95_high DOUBLE PRECISION,"
      " repeats BIGINT, PRIMARY KEY (run, position));"
      "CREATE TABLE kernel_classes (run BIGINT NOT NULL REFERENCES runs ON DELETE CASCADE,"
      " position INTEGER NOT NULL, name TEXT NOT NULL, category TEXT, library TEXT, stage TEXT, calls BIGINT,"
      " owned_ns DOUBLE PRECISION, share DOUBLE PRECISION, PRIMARY KEY (run, position));"
      "CREATE TABLE findings (run BIGINT NOT NULL REFERENCES runs ON DELETE CASCADE, position INTEGER NOT "
      "NULL,"
      " rule TEXT NOT NULL, stage TEXT, title TEXT, evidence TEXT, advice TEXT, saving_ms DOUBLE PRECISION,"
      " saving_percent DOUBLE PRECISION, confidence TEXT, PRIMARY KEY (run, position));"
      "CREATE INDEX findings_rule ON findings (rule, run);"
      "CREATE TABLE environment (run BIGINT NOT NULL REFERENCES runs ON DELETE CASCADE,"
      " position INTEGER NOT NULL, kind TEXT, key TEXT NOT NULL, value TEXT, PRIMARY KEY (run, position));"
      "CREATE TABLE tags (run BIGINT NOT NULL REFERENCES runs ON DELETE CASCADE, tag TEXT NOT NULL,"
      " PRIMARY KEY (run, tag));"
      "CREATE INDEX tags_tag ON tags (tag, run);"
      /* mtime at the last scan */
      "CREATE TABLE folders (store TEXT NOT NULL, path TEXT NOT NULL, mtime_ns BIGINT NOT NULL,"
      " PRIMARY KEY (store, path));"
      /* grows with every change */
      "CREATE TABLE revision (value BIGINT NOT NULL);"
      "INSERT INTO revision VALUES (1);",
      NULL, NULL },
    /* 2: tokens and jobs */
    { "CREATE TABLE tokens (name TEXT NOT NULL PRIMARY KEY, role TEXT NOT NULL, hash TEXT NOT NULL UNIQUE,"
      " created_ns BIGINT NOT NULL);"
      "CREATE TABLE jobs (id @ID, run_id TEXT NOT NULL UNIQUE, store TEXT NOT NULL, state TEXT NOT NULL,"
      " device TEXT NOT NULL, request TEXT NOT NULL, message TEXT, attempts INTEGER NOT NULL,"
      " created_ns BIGINT NOT NULL, started_ns BIGINT, ended_ns BIGINT);"
      "CREATE INDEX jobs_state ON jobs (store, state, id);",
      NULL, NULL },
    /* 3: indexes for search and for unfinished runs. The searched text has at most 600 characters, because
     * PostgreSQL limits an index entry to 2,704 bytes. */
    { "ALTER TABLE runs ADD COLUMN search TEXT GENERATED ALWAYS AS (SUBSTR(LOWER(name || ' ' || "
      "COALESCE(model, '') || ' ' || COALESCE(device, '') || ' ' || COALESCE(host, '') || ' ' || "
      "COALESCE(title, '')), 1, 600)) @GENERATED;"
      "CREATE INDEX runs_search ON runs (started_ns, id, search);"
      "DROP INDEX runs_started;"
      "CREATE INDEX runs_unfinished ON runs (store) WHERE incomplete = 1;",
      NULL, NULL },
    /* 4: number of runs per model, device, engine and host, updated by triggers ('' is unknown); an index for
     * every filter and sort key, and for search. */
    { GROUPS_AND_INDEXES, SQLITE_TRIGGERS SQLITE_SEARCH, POSTGRES_TRIGGERS POSTGRES_SEARCH },
    /* 5: start time, model, device, engine and host of the run in each row of `tags`, so that one index finds
     * the newest runs with a tag that match other filters */
    { TAG_COLUMNS, SQLITE_TAG_INDEX, POSTGRES_TAG_INDEX },
    /* 6: the sentence at the top of the report, and why the machine was busy. A run is read again when it is
     * shown, because its metrics.json differs from the recorded time. */
    { "ALTER TABLE runs ADD COLUMN verdict TEXT;"
      "ALTER TABLE runs ADD COLUMN busy TEXT;"
      "UPDATE runs SET metrics_mtime_ns = -1 WHERE metrics_mtime_ns <> 0;",
      NULL, NULL },
};
const size_t migrations_n = COUNTOF(migrations);
