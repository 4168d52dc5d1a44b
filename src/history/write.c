#include "history/write.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/sha256.h"
#include "base/strbuf.h"
#include "base/util.h"

/* *exists: the folder has a row. *name_taken: another run has this name. */
static int find_rows(struct history *h, const char *path, const char *name, bool *exists, bool *name_taken,
                     struct err *err) {
    struct db_args args = { 0 };
    struct db_result r;
    db_text(&args, name);
    db_text(&args, h->store);
    db_text(&args, path);
    if (database_query(h->db,
                       "SELECT CASE WHEN store = $2 AND path = $3 THEN 1 ELSE 0 END FROM runs "
                       "WHERE name = $1 OR (store = $2 AND path = $3)",
                       &args, &r, err) < 0)
        return -1;
    *exists = *name_taken = false;
    for (size_t i = 0; i < r.rows; i++) *(db_cell_int(&r, i, 0) ? exists : name_taken) = true;
    db_result_free(&r);
    return 0;
}

/* Adds a suffix, because runs of different machines may have the same name. It depends only on store and
 * path. */
static char *suffixed_name(const struct history *h, const char *path, const char *name) {
    struct sha256 s;
    char hex[65];
    sha256_start(&s);
    sha256_add(&s, h->store, strlen(h->store));
    sha256_add(&s, path, strlen(path));
    sha256_hex(&s, hex);
    return xasprintf("%s-%.8s", name, hex);
}

#define RUN_COLUMNS                                                                                  \
    "store, path, name, digest, title, model, device, engine, host, version, command, verdict, "     \
    "busy, started_ns, repeats, failed_repeats, findings, incomplete, unstable, missing, mfu, mbu, " \
    "time_to_first_token_ms, time_per_token_ms, tokens_per_s, metrics_mtime_ns, metrics_bytes"

static void run_args(struct db_args *args, const struct history *h, const char *path, const char *name,
                     const struct run_record *r) {
    const char *texts[] = { h->store,  path,    name,       r->digest,  r->title,   r->model, r->device,
                            r->engine, r->host, r->version, r->command, r->verdict, r->busy };
    for (size_t i = 0; i < COUNTOF(texts); i++) db_text(args, texts[i]);
    db_int(args, r->started_ns);
    db_num(args, r->repeats);
    db_num(args, r->failed_repeats);
    db_int(args, (int64_t)r->findings.n);
    db_int(args, r->incomplete);
    db_int(args, r->unstable);
    db_int(args, 0);
    db_num(args, r->mfu);
    db_num(args, r->mbu);
    db_num(args, r->time_to_first_token_ms);
    db_num(args, r->time_per_token_ms);
    db_num(args, r->tokens_per_s);
    db_int(args, r->metrics_mtime_ns);
    db_int(args, r->metrics_bytes);
}

static int write_run_row(struct history *h, const char *path, const char *name, const struct run_record *r,
                         int64_t *id, struct err *err) {
    struct db_args args = { 0 };
    struct db_result result;
    run_args(&args, h, path, name, r);
    if (database_query(
            h->db,
            "INSERT INTO runs (" RUN_COLUMNS
            ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, "
            "$14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27) ON CONFLICT (store, path) "
            "DO UPDATE "
            "SET "
            "name = excluded.name, digest = excluded.digest, title = excluded.title, model = excluded.model, "
            "device = excluded.device, engine = excluded.engine, host = excluded.host, "
            "version = excluded.version, command = excluded.command, verdict = excluded.verdict, "
            "busy = excluded.busy, started_ns = excluded.started_ns, "
            "repeats = excluded.repeats, failed_repeats = excluded.failed_repeats, "
            "findings = excluded.findings, incomplete = excluded.incomplete, unstable = excluded.unstable, "
            "missing = 0, mfu = excluded.mfu, mbu = excluded.mbu, "
            "time_to_first_token_ms = excluded.time_to_first_token_ms, "
            "time_per_token_ms = excluded.time_per_token_ms, tokens_per_s = excluded.tokens_per_s, "
            "metrics_mtime_ns = excluded.metrics_mtime_ns, metrics_bytes = excluded.metrics_bytes "
            "RETURNING id",
            &args, &result, err) < 0)
        return -1;
    *id = db_cell_int(&result, 0, 0);
    db_result_free(&result);
    return 0;
}

static int delete_rows(struct history *h, int64_t id, struct err *err) {
    static const char *const statements[] = {
        "DELETE FROM stages WHERE run = $1",         "DELETE FROM figures WHERE run = $1",
        "DELETE FROM kernel_classes WHERE run = $1", "DELETE FROM findings WHERE run = $1",
        "DELETE FROM environment WHERE run = $1",    "DELETE FROM tags WHERE run = $1",
    };
    for (size_t i = 0; i < COUNTOF(statements); i++) {
        struct db_args args = { 0 };
        db_int(&args, id);
        if (database_query(h->db, statements[i], &args, NULL, err) < 0) return -1;
    }
    return 0;
}

int history_write_text(struct history *h, int64_t id, bool exists, bool remains, struct err *err) {
    struct db_args args = { 0 };
    if (database_is_postgres(h->db)) return 0; /* it updates its index itself */
    db_int(&args, id);
    if (exists && database_query(h->db, "DELETE FROM runs_text WHERE rowid = $1", &args, NULL, err) < 0)
        return -1;
    if (!remains) return 0;
    return database_query(h->db,
                          "INSERT INTO runs_text(rowid, search) SELECT id, search FROM runs WHERE id = $1",
                          &args, NULL, err);
}

/* ---- rows of a run */

/* A table whose rows belong to a run. */
struct row_table {
    const char *name, *columns; /* columns after run and position */
    size_t ncolumns;            /* with run and position */
    void (*add)(struct db_args *args, const struct run_record *r, size_t i);
};

static void add_numbers(struct db_args *args, const double *v, size_t n) {
    for (size_t i = 0; i < n; i++) db_num(args, v[i]);
}

static void add_texts(struct db_args *args, const char *const *v, size_t n) {
    for (size_t i = 0; i < n; i++) db_text(args, v[i]);
}

static void add_stage(struct db_args *args, const struct run_record *r, size_t i) {
    const struct record_stage *s = &r->stages.v[i];
    const char *texts[] = { s->name, s->parent };
    const double numbers[] = { s->time_ms, s->ci95_low_ms,       s->ci95_high_ms, s->repeats,
                               s->tokens,  s->time_per_token_ms, s->tokens_per_s, s->mfu,
                               s->mbu,     s->floor_ms,          s->distance,     s->gpu_busy_share };
    add_texts(args, texts, COUNTOF(texts));
    add_numbers(args, numbers, COUNTOF(numbers));
}

static void add_figure(struct db_args *args, const struct run_record *r, size_t i) {
    const struct record_figure *f = &r->figures.v[i];
    const char *texts[] = { f->key, f->name, f->unit };
    const double numbers[] = { f->median, f->mean, f->std, f->ci95_low, f->ci95_high, f->repeats };
    add_texts(args, texts, COUNTOF(texts));
    db_int(args, f->larger_is_better);
    add_numbers(args, numbers, COUNTOF(numbers));
}

static void add_kernel(struct db_args *args, const struct run_record *r, size_t i) {
    const struct record_kernel *k = &r->kernels.v[i];
    const char *texts[] = { k->name, k->category, k->library, k->stage };
    const double numbers[] = { k->calls, k->owned_ns, k->share };
    add_texts(args, texts, COUNTOF(texts));
    add_numbers(args, numbers, COUNTOF(numbers));
}

static void add_finding(struct db_args *args, const struct run_record *r, size_t i) {
    const struct record_finding *f = &r->findings.v[i];
    const char *texts[] = { f->rule, f->stage, f->title, f->evidence, f->advice, f->confidence };
    add_texts(args, texts, COUNTOF(texts));
    db_num(args, f->saving_ms);
    db_num(args, f->saving_percent);
}

static void add_environment(struct db_args *args, const struct run_record *r, size_t i) {
    const char *texts[] = { r->env.v[i].kind, r->env.v[i].key, r->env.v[i].value };
    add_texts(args, texts, COUNTOF(texts));
}

static const struct row_table stage_table = { "stages",
                                              "name, parent, time_ms, ci95_low_ms, ci95_high_ms, repeats, "
                                              "tokens, time_per_token_ms, tokens_per_s, mfu, "
                                              "mbu, floor_ms, distance, gpu_busy_share",
                                              16, add_stage };
static const struct row_table figure_table = {
    "figures", "key, name, unit, larger_is_better, median, mean, std, ci95_low, ci95_high, repeats", 12,
    add_figure
};
static const struct row_table kernel_table = { "kernel_classes",
                                               "name, category, library, stage, calls, owned_ns, share", 9,
                                               add_kernel };
static const struct row_table finding_table = {
    "findings", "rule, stage, title, evidence, advice, confidence, saving_ms, saving_percent", 10, add_finding
};
static const struct row_table environment_table = { "environment", "kind, key, value", 5, add_environment };

/* Several rows per statement, because with PostgreSQL every statement waits for the server. */
static int write_rows(struct history *h, int64_t id, const struct run_record *r, const struct row_table *t,
                      size_t n, struct err *err) {
    size_t at_once = DB_ARGS_MAX / t->ncolumns;
    struct db_args args;
    struct strbuf sql = STRBUF_INIT;
    int rc = 0;
    for (size_t start = 0; rc == 0 && start < n; start += at_once) {
        args.n = 0;
        strbuf_reset(&sql);
        strbuf_addf(&sql, "INSERT INTO %s (run, position, %s) VALUES ", t->name, t->columns);
        for (size_t i = start; i < MIN(n, start + at_once); i++) {
            size_t first = args.n;
            db_int(&args, id);
            db_int(&args, (int64_t)i);
            t->add(&args, r, i);
            strbuf_addstr(&sql, i > start ? ", (" : "(");
            for (size_t k = first; k < args.n; k++) strbuf_addf(&sql, "%s$%zu", k > first ? ", " : "", k + 1);
            strbuf_addch(&sql, ')');
        }
        rc = database_query(h->db, sql.buf, &args, NULL, err);
    }
    strbuf_free(&sql);
    return rc;
}

static int write_tags(struct history *h, int64_t id, const struct run_record *r, struct err *err) {
    for (size_t i = 0; i < r->tags.n; i++) {
        struct db_args args = { 0 };
        db_int(&args, id);
        db_int(&args, r->started_ns);
        const char *texts[] = { r->tags.v[i], r->model, r->device, r->engine, r->host };
        add_texts(&args, texts, COUNTOF(texts));
        if (database_query(h->db,
                           "INSERT INTO tags (run, started_ns, tag, model, device, engine, host) "
                           "VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
                           &args, NULL, err) < 0)
            return -1;
    }
    return 0;
}

int history_write(struct history *h, const char *path, const char *name, const struct run_record *r,
                  char **stored_name, struct err *err) {
    int64_t id;
    bool exists, name_taken;
    if (find_rows(h, path, name, &exists, &name_taken, err) < 0) return -1;
    char *unique = name_taken ? suffixed_name(h, path, name) : xstrdup(name);
    int rc = write_run_row(h, path, unique, r, &id, err);
    if (rc == 0) rc = history_write_text(h, id, exists, true, err);
    if (rc == 0 && exists) rc = delete_rows(h, id, err);
    if (rc == 0 &&
        (write_rows(h, id, r, &stage_table, r->stages.n, err) < 0 ||
         write_rows(h, id, r, &figure_table, r->figures.n, err) < 0 ||
         write_rows(h, id, r, &kernel_table, r->kernels.n, err) < 0 ||
         write_rows(h, id, r, &finding_table, r->findings.n, err) < 0 ||
         write_rows(h, id, r, &environment_table, r->env.n, err) < 0 || write_tags(h, id, r, err) < 0))
        rc = -1;
    if (rc == 0 && stored_name)
        *stored_name = unique;
    else
        free(unique);
    return rc;
}
