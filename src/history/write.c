#include "history/write.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/sha256.h"

static int name_is_free(struct history *h, const char *path, const char *name, struct err *err) {
    struct db_args args = { 0 };
    struct db_result r;
    db_text(&args, name);
    db_text(&args, h->store);
    db_text(&args, path);
    if (database_query(h->db, "SELECT 1 FROM runs WHERE name = $1 AND NOT (store = $2 AND path = $3)", &args,
                       &r, err) < 0)
        return -1;
    int is_free = r.rows == 0;
    db_result_free(&r);
    return is_free;
}

/* Returns the name, or the name with a suffix if another run has it: runs of different machines may have the
 * same name. The suffix depends only on store and path. */
static char *unique_name(struct history *h, const char *path, const char *name, struct err *err) {
    int is_free = name_is_free(h, path, name, err);
    if (is_free < 0) return NULL;
    if (is_free) return xstrdup(name);
    struct sha256 s;
    char hex[65];
    sha256_start(&s);
    sha256_add(&s, h->store, strlen(h->store));
    sha256_add(&s, path, strlen(path));
    sha256_hex(&s, hex);
    return xasprintf("%s-%.8s", name, hex);
}

#define RUN_COLUMNS                                                                                 \
    "store, path, name, digest, title, model, device, engine, host, version, command, started_ns, " \
    "repeats, failed_repeats, findings, incomplete, unstable, missing, mfu, mbu, "                  \
    "time_to_first_token_ms, time_per_token_ms, tokens_per_s, metrics_mtime_ns, metrics_bytes"

static void run_args(struct db_args *args, const struct history *h, const char *path, const char *name,
                     const struct run_record *r) {
    const char *texts[] = { h->store,  path,      name,    r->digest,  r->title,  r->model,
                            r->device, r->engine, r->host, r->version, r->command };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) db_text(args, texts[i]);
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
            "$14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25) ON CONFLICT (store, path) DO UPDATE "
            "SET "
            "name = excluded.name, digest = excluded.digest, title = excluded.title, model = excluded.model, "
            "device = excluded.device, engine = excluded.engine, host = excluded.host, "
            "version = excluded.version, command = excluded.command, started_ns = excluded.started_ns, "
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
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        struct db_args args = { 0 };
        db_int(&args, id);
        if (database_query(h->db, statements[i], &args, NULL, err) < 0) return -1;
    }
    return 0;
}

static void start_row(struct db_args *args, int64_t id, size_t position) {
    *args = (struct db_args){ 0 };
    db_int(args, id);
    db_int(args, (int64_t)position);
}

static int write_stages(struct history *h, int64_t id, const struct run_record *r, struct err *err) {
    struct db_args args;
    for (size_t i = 0; i < r->stages.n; i++) {
        const struct record_stage *s = &r->stages.v[i];
        const double numbers[] = { s->time_ms, s->ci95_low_ms,       s->ci95_high_ms, s->repeats,
                                   s->tokens,  s->time_per_token_ms, s->tokens_per_s, s->mfu,
                                   s->mbu,     s->floor_ms,          s->distance,     s->gpu_busy_share };
        start_row(&args, id, i);
        db_text(&args, s->name);
        db_text(&args, s->parent);
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) db_num(&args, numbers[k]);
        if (database_query(
                h->db,
                "INSERT INTO stages (run, position, name, parent, time_ms, ci95_low_ms, ci95_high_ms, "
                "repeats, tokens, time_per_token_ms, tokens_per_s, mfu, mbu, floor_ms, distance, "
                "gpu_busy_share) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, "
                "$15, $16)",
                &args, NULL, err) < 0)
            return -1;
    }
    return 0;
}

static int write_figures(struct history *h, int64_t id, const struct run_record *r, struct err *err) {
    struct db_args args;
    for (size_t i = 0; i < r->figures.n; i++) {
        const struct record_figure *f = &r->figures.v[i];
        const double numbers[] = { f->median, f->mean, f->std, f->ci95_low, f->ci95_high, f->repeats };
        start_row(&args, id, i);
        db_text(&args, f->key);
        db_text(&args, f->name);
        db_text(&args, f->unit);
        db_int(&args, f->larger_is_better);
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) db_num(&args, numbers[k]);
        if (database_query(
                h->db,
                "INSERT INTO figures (run, position, key, name, unit, larger_is_better, median, mean, "
                "std, ci95_low, ci95_high, repeats) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, "
                "$11, $12)",
                &args, NULL, err) < 0)
            return -1;
    }
    return 0;
}

static int write_kernels(struct history *h, int64_t id, const struct run_record *r, struct err *err) {
    struct db_args args;
    for (size_t i = 0; i < r->kernels.n; i++) {
        const struct record_kernel *k = &r->kernels.v[i];
        start_row(&args, id, i);
        db_text(&args, k->name);
        db_text(&args, k->category);
        db_text(&args, k->library);
        db_text(&args, k->stage);
        db_num(&args, k->calls);
        db_num(&args, k->owned_ns);
        db_num(&args, k->share);
        if (database_query(
                h->db,
                "INSERT INTO kernel_classes (run, position, name, category, library, stage, calls, "
                "owned_ns, share) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                &args, NULL, err) < 0)
            return -1;
    }
    return 0;
}

static int write_findings(struct history *h, int64_t id, const struct run_record *r, struct err *err) {
    struct db_args args;
    for (size_t i = 0; i < r->findings.n; i++) {
        const struct record_finding *f = &r->findings.v[i];
        start_row(&args, id, i);
        const char *texts[] = { f->rule, f->stage, f->title, f->evidence, f->advice, f->confidence };
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) db_text(&args, texts[k]);
        db_num(&args, f->saving_ms);
        db_num(&args, f->saving_percent);
        if (database_query(
                h->db,
                "INSERT INTO findings (run, position, rule, stage, title, evidence, advice, confidence, "
                "saving_ms, saving_percent) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                &args, NULL, err) < 0)
            return -1;
    }
    return 0;
}

static int write_environment(struct history *h, int64_t id, const struct run_record *r, struct err *err) {
    struct db_args args;
    for (size_t i = 0; i < r->env.n; i++) {
        start_row(&args, id, i);
        db_text(&args, r->env.v[i].kind);
        db_text(&args, r->env.v[i].key);
        db_text(&args, r->env.v[i].value);
        if (database_query(
                h->db,
                "INSERT INTO environment (run, position, kind, key, value) VALUES ($1, $2, $3, $4, $5)",
                &args, NULL, err) < 0)
            return -1;
    }
    return 0;
}

static int write_tags(struct history *h, int64_t id, const struct run_record *r, struct err *err) {
    for (size_t i = 0; i < r->tags.n; i++) {
        struct db_args args = { 0 };
        db_int(&args, id);
        db_text(&args, r->tags.v[i]);
        if (database_query(h->db, "INSERT INTO tags (run, tag) VALUES ($1, $2) ON CONFLICT DO NOTHING", &args,
                           NULL, err) < 0)
            return -1;
    }
    return 0;
}

int history_write(struct history *h, const char *path, const char *name, const struct run_record *r,
                  char **stored_name, struct err *err) {
    int64_t id;
    char *unique = unique_name(h, path, name, err);
    if (!unique) return -1;
    int rc = write_run_row(h, path, unique, r, &id, err);
    if (rc == 0 &&
        (delete_rows(h, id, err) < 0 || write_stages(h, id, r, err) < 0 || write_figures(h, id, r, err) < 0 ||
         write_kernels(h, id, r, err) < 0 || write_findings(h, id, r, err) < 0 ||
         write_environment(h, id, r, err) < 0 || write_tags(h, id, r, err) < 0))
        rc = -1;
    if (rc == 0 && stored_name)
        *stored_name = unique;
    else
        free(unique);
    return rc;
}
