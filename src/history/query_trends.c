/* Queries over many runs: series, values over time, findings over time, machines. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"
#include "history/query_internal.h"

int history_series(struct history *h, struct history_series_list *out, struct err *err) {
    struct db_result r;
    *out = (struct history_series_list){ 0 };
    if (database_query(h->db,
                       "SELECT NULLIF(model, ''), NULLIF(device, ''), NULLIF(engine, ''), SUM(runs), "
                       "MAX(last_ns) FROM run_groups GROUP BY model, device, engine ORDER BY 5 DESC, 1, 2, 3 "
                       "LIMIT 2000",
                       NULL, &r, err) < 0)
        return -1;
    for (size_t i = 0; i < r.rows; i++) {
        struct history_series s = { .model = db_take(&r, i, 0),
                                    .device = db_take(&r, i, 1),
                                    .engine = db_take(&r, i, 2),
                                    .runs = db_cell_int(&r, i, 3),
                                    .last_ns = db_cell_int(&r, i, 4) };
        vec_push(out, s);
    }
    db_result_free(&r);
    return 0;
}

void history_series_free(struct history_series_list *list) {
    for (size_t i = 0; i < list->n; i++) {
        free(list->v[i].model);
        free(list->v[i].device);
        free(list->v[i].engine);
    }
    free(list->v);
    *list = (struct history_series_list){ 0 };
}

/* ---- values over time */

/* A rate is a constant divided by the time: its interval is that of the time, the other way round. NULLIF: a
 * division by zero is an error in PostgreSQL. */
#define RATE(name, unit_name)                                                    \
    {                                                                            \
        name, "x." name, "x." name " * x.time_ms / NULLIF(x.ci95_high_ms, 0)",   \
            "x." name " * x.time_ms / NULLIF(x.ci95_low_ms, 0)", unit_name, true \
    }

static const struct {
    const char *metric, *column, *low, *high, *unit;
    bool larger_is_better;
} stage_metrics[] = {
    { "time", "x.time_ms", "x.ci95_low_ms", "x.ci95_high_ms", "ms", false },
    { "time_per_token", "x.time_per_token_ms", "x.ci95_low_ms / NULLIF(x.tokens, 0)",
      "x.ci95_high_ms / NULLIF(x.tokens, 0)", "ms", false },
    RATE("tokens_per_s", "tok/s"),
    RATE("mfu", ""),
    RATE("mbu", ""),
    { "distance", "x.distance", "x.distance * x.ci95_low_ms / NULLIF(x.time_ms, 0)",
      "x.distance * x.ci95_high_ms / NULLIF(x.time_ms, 0)", "x", false },
};

static size_t find_metric(const char *metric) {
    size_t i = 0;
    while (i < COUNTOF(stage_metrics) && strcmp(stage_metrics[i].metric, metric) != 0) i++;
    return i;
}

bool history_stage_metric(const char *metric) { return find_metric(metric) < COUNTOF(stage_metrics); }

/* Adds "column = $n", or "column IS NULL" for "". */
static void add_equal(struct query *q, const char *column, const char *value) {
    if (!*value) {
        strbuf_addf(&q->sql, " AND %s IS NULL", column);
        return;
    }
    strbuf_addf(&q->sql, " AND %s = $%zu", column, q->args.n + 1);
    db_text(&q->args, value);
}

/* CROSS JOIN makes SQLite start with the runs of the series, not with all stages of this name. */
static void select_stage(struct query *q, const struct history_trend *t, struct history_points *out) {
    size_t m = find_metric(t->metric);
    strbuf_addf(&q->sql,
                "SELECT r.name, r.version, r.started_ns, %s, %s, %s FROM runs r CROSS JOIN stages x "
                "WHERE x.run = r.id AND x.name = $1",
                stage_metrics[m].column, stage_metrics[m].low, stage_metrics[m].high);
    db_text(&q->args, t->stage);
    out->unit = xstrdup(stage_metrics[m].unit);
    out->larger_is_better = stage_metrics[m].larger_is_better;
}

static void add_series(struct query *q, const struct history_trend *t, size_t limit) {
    add_equal(q, "r.model", t->model);
    add_equal(q, "r.device", t->device);
    add_equal(q, "r.engine", t->engine);
    strbuf_addf(&q->sql, " ORDER BY r.started_ns DESC, r.id DESC LIMIT %zu", limit);
}

static void select_figure(struct query *q, const struct history_trend *t) {
    strbuf_addstr(&q->sql,
                  "SELECT r.name, r.version, r.started_ns, x.median, x.ci95_low, x.ci95_high, x.unit, "
                  "x.larger_is_better FROM runs r CROSS JOIN figures x WHERE x.run = r.id AND x.key = $1");
    db_text(&q->args, t->metric);
}

static void take_points(struct db_result *r, struct history_points *out) {
    for (size_t i = r->rows; i-- > 0;) { /* newest run is first */
        struct history_point p = { .name = db_take(r, i, 0),
                                   .version = db_take(r, i, 1),
                                   .started_ns = db_cell_int(r, i, 2),
                                   .value = db_cell_num(r, i, 3),
                                   .low = db_cell_num(r, i, 4),
                                   .high = db_cell_num(r, i, 5) };
        vec_push(out, p);
    }
    if (r->columns > 6 && r->rows) {
        out->unit = db_take(r, 0, 6);
        out->larger_is_better = db_cell_int(r, 0, 7) != 0;
    }
}

int history_trend(struct history *h, const struct history_trend *t, struct history_points *out,
                  struct err *err) {
    struct query q = { .sql = STRBUF_INIT };
    struct db_result r;
    *out = (struct history_points){ 0 };
    if (t->stage && !history_stage_metric(t->metric))
        return err_set(err,
                       "a stage has no metric '%s'; use time, time_per_token, tokens_per_s, mfu, mbu or "
                       "distance",
                       t->metric);
    if (t->stage)
        select_stage(&q, t, out);
    else
        select_figure(&q, t);
    add_series(&q, t, t->limit ? t->limit : 200);
    int rc = database_query(h->db, q.sql.buf, &q.args, &r, err);
    if (rc == 0) {
        take_points(&r, out);
        db_result_free(&r);
    }
    query_free(&q);
    if (rc < 0) history_points_free(out);
    return rc;
}

int history_newest(struct history *h, const struct history_trend *t, int64_t *id, struct err *err) {
    struct query q = { .sql = STRBUF_INIT };
    struct db_result r;
    strbuf_addstr(&q.sql, "SELECT r.id FROM runs r WHERE 1 = 1");
    add_series(&q, t, 1);
    int rc = database_query(h->db, q.sql.buf, &q.args, &r, err);
    if (rc == 0) {
        rc = r.rows > 0;
        if (rc) *id = db_cell_int(&r, 0, 0);
        db_result_free(&r);
    }
    query_free(&q);
    return rc;
}

void history_points_free(struct history_points *points) {
    for (size_t i = 0; i < points->n; i++) {
        free(points->v[i].name);
        free(points->v[i].version);
    }
    free(points->v);
    free(points->unit);
    *points = (struct history_points){ 0 };
}

/* ---- findings over time */

int history_findings(struct history *h, const char *model, const char *device, const char *engine,
                     const char *rule, size_t runs, struct history_findings *out, struct err *err) {
    struct query q = { .sql = STRBUF_INIT };
    struct db_result r;
    *out = (struct history_findings){ 0 };
    strbuf_addstr(
        &q.sql,
        "SELECT r.name, f.rule, f.stage, f.title, r.model, r.device, r.engine, f.advice, r.started_ns, "
        "f.saving_ms, f.saving_percent FROM (SELECT * FROM runs r WHERE 1 = 1");
    if (model) add_equal(&q, "r.model", model);
    if (device) add_equal(&q, "r.device", device);
    if (engine) add_equal(&q, "r.engine", engine);
    strbuf_addf(&q.sql,
                " ORDER BY started_ns DESC, id DESC LIMIT %zu) r JOIN findings f ON f.run = r.id WHERE 1 = 1",
                runs);
    if (rule) add_equal(&q, "f.rule", rule);
    strbuf_addstr(&q.sql, " ORDER BY r.started_ns DESC, r.id DESC, f.position");
    int rc = database_query(h->db, q.sql.buf, &q.args, &r, err);
    query_free(&q);
    if (rc < 0) return -1;
    for (size_t i = 0; i < r.rows; i++) {
        struct history_finding f = { .run = db_take(&r, i, 0),
                                     .rule = db_take(&r, i, 1),
                                     .stage = db_take(&r, i, 2),
                                     .title = db_take(&r, i, 3),
                                     .model = db_take(&r, i, 4),
                                     .device = db_take(&r, i, 5),
                                     .engine = db_take(&r, i, 6),
                                     .advice = db_take(&r, i, 7),
                                     .started_ns = db_cell_int(&r, i, 8),
                                     .saving_ms = db_cell_num(&r, i, 9),
                                     .saving_percent = db_cell_num(&r, i, 10) };
        vec_push(out, f);
    }
    db_result_free(&r);
    return 0;
}

void history_findings_free(struct history_findings *list) {
    for (size_t i = 0; i < list->n; i++) {
        struct history_finding *f = &list->v[i];
        char *texts[] = { f->run, f->rule, f->stage, f->title, f->model, f->device, f->engine, f->advice };
        for (size_t k = 0; k < COUNTOF(texts); k++) free(texts[k]);
    }
    free(list->v);
    *list = (struct history_findings){ 0 };
}

/* ---- machines */

int history_machines(struct history *h, struct history_machines *out, struct err *err) {
    struct db_result r;
    *out = (struct history_machines){ 0 };
    /* If several runs have the same start time, the last run is the one that was indexed last. */
    if (database_query(
            h->db,
            "SELECT NULLIF(g.host, ''), NULLIF(g.device, ''), g.runs, g.last_ns, r.name, r.version "
            "FROM (SELECT host, device, SUM(runs) AS runs, MAX(last_ns) AS last_ns FROM run_groups GROUP BY "
            "host, device) g JOIN runs r ON r.id = (SELECT MAX(m.id) FROM runs m WHERE m.started_ns = "
            "g.last_ns AND COALESCE(m.host, '') = g.host AND COALESCE(m.device, '') = g.device) "
            "ORDER BY g.last_ns DESC, g.host, g.device LIMIT 1000",
            NULL, &r, err) < 0)
        return -1;
    for (size_t i = 0; i < r.rows; i++) {
        struct history_machine m = { .host = db_take(&r, i, 0),
                                     .device = db_take(&r, i, 1),
                                     .runs = db_cell_int(&r, i, 2),
                                     .last_ns = db_cell_int(&r, i, 3),
                                     .last_run = db_take(&r, i, 4),
                                     .version = db_take(&r, i, 5) };
        vec_push(out, m);
    }
    db_result_free(&r);
    return 0;
}

void history_machines_free(struct history_machines *list) {
    for (size_t i = 0; i < list->n; i++) {
        free(list->v[i].host);
        free(list->v[i].device);
        free(list->v[i].version);
        free(list->v[i].last_run);
    }
    free(list->v);
    *list = (struct history_machines){ 0 };
}
