/* Requests about several runs, and about the server. */
#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/change_points.h"
#include "base/clock.h"
#include "base/die.h"
#include "base/embed.h"
#include "base/file.h"
#include "base/jsonw.h"
#include "base/util.h"
#include "report/compare.h"
#include "serve/api.h"
#include "serve/run_json.h"
#include "serve/server.h"

#define COMPARE_RUNS 20        /* runs per side */
#define COMPARE_VALUES 1000000 /* JSON values of all runs: about 100 MB */
#define COMPARE_NS 5000000000  /* time limit of a comparison */
#define COMPARE_WAIT_MS 1000   /* for another comparison to end */
#define TREND_RUNS 500

/* ---- compare */

struct compare_inputs {
    struct saved_metrics *runs[2][COMPARE_RUNS];
    size_t n[2];
    size_t values;
};

static bool load_run(struct request *q, struct history *h, const char *name, struct saved_metrics **out,
                     size_t *values) {
    struct history_run run;
    struct err err;
    if (!api_find_run(q, h, name, &run)) return false;
    int fd = run.here && !run.missing ? api_open_artifact(h, &run, "metrics.json") : -1;
    if (fd < 0)
        http_problem(q, 409, "run '%s' has no metrics.json here", name);
    else {
        char *path = xasprintf("/proc/self/fd/%d", fd);
        if (!(*out = saved_metrics_load_untrusted(path, values, &err)))
            http_problem(q, 409, "run '%s': metrics.json is damaged or too large", name);
        free(path);
    }
    if (fd >= 0) close(fd);
    history_run_free(&run);
    return *out != NULL;
}

static bool load_side(struct request *q, struct history *h, struct compare_inputs *in, size_t side,
                      const char *argument) {
    const char *names[COMPARE_RUNS + 1];
    size_t n = http_query_all(q, argument, names, COMPARE_RUNS + 1);
    if (n > COMPARE_RUNS) {
        http_problem(q, 400, "at most %d runs can be on one side; '%s' has more", COMPARE_RUNS, argument);
        return false;
    }
    if (n == 0) {
        http_problem(q, 400, "name the runs to compare: ?a=RUN&b=RUN; both may be repeated");
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        size_t values = 0;
        if (!load_run(q, h, names[i], &in->runs[side][i], &values)) return false;
        in->n[side]++;
        in->values += values;
        if (in->values > COMPARE_VALUES) {
            http_problem(q, 400, "these runs have too much data for one comparison; choose fewer runs");
            return false;
        }
    }
    return true;
}

static void free_inputs(struct compare_inputs *in) {
    for (size_t side = 0; side < 2; side++)
        for (size_t i = 0; i < COMPARE_RUNS; i++) saved_metrics_close(in->runs[side][i]);
    free(in);
    malloc_trim(0);
}

/* Comparisons may need much memory and time. Half of the threads stay free for other requests. */
static bool begin_compare(struct request *q) {
    struct server *s = http_user(q);
    unsigned most = MAX(1u, s->o.threads / 2);
    for (unsigned waited_ms = 0; waited_ms <= COMPARE_WAIT_MS && !atomic_load(&s->stopping);
         waited_ms += 20) {
        unsigned running = atomic_load(&s->comparing);
        if (running < most && atomic_compare_exchange_strong(&s->comparing, &running, running + 1))
            return true;
        nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
    }
    http_problem(q, 503, "the server is busy with other comparisons; try again later");
    http_add_header(q, "Retry-After", "2");
    return false;
}

static bool compare_inputs(struct request *q, const struct compare_inputs *in, struct comparison *c) {
    struct server *s = http_user(q);
    const struct stop stop = { &s->stopping, clock_mono_ns() + COMPARE_NS };
    if (compare_sides_until(&(struct compare_side){ in->runs[0], in->n[0] },
                            &(struct compare_side){ in->runs[1], in->n[1] }, &stop, c))
        return true;
    compare_free(c);
    http_problem(q, 503,
                 "the comparison takes more than %d s here; choose fewer runs, or use inferprof compare",
                 (int)(COMPARE_NS / 1000000000));
    return false;
}

struct compare_inputs *api_open_compare(struct request *q, struct comparison *c) {
    if (!begin_compare(q)) return NULL;
    struct server *s = http_user(q);
    struct history *h = request_history(q);
    struct compare_inputs *in = xcalloc(1, sizeof *in);
    bool loaded = h && load_side(q, h, in, 0, "a") && load_side(q, h, in, 1, "b");
    if (h) request_done(q, h);
    if (loaded && compare_inputs(q, in, c)) return in;
    free_inputs(in);
    atomic_fetch_sub(&s->comparing, 1);
    return NULL;
}

void api_close_compare(struct request *q, struct compare_inputs *inputs, struct comparison *c) {
    struct server *s = http_user(q);
    compare_free(c);
    free_inputs(inputs);
    atomic_fetch_sub(&s->comparing, 1);
}

void api_compare(struct request *q) {
    struct comparison c;
    struct compare_inputs *in = api_open_compare(q, &c);
    if (!in) return;
    http_json(q, 200, "");
    compare_json(&c, &q->out);
    api_close_compare(q, in, &c);
}

/* ---- series and trends */

void api_list_series(struct request *q) {
    struct history_series_list list;
    struct err err;
    struct jsonw j;
    struct history *h = request_history(q);
    if (!h) return;
    if (history_series(h, &list, &err) < 0)
        request_database_failed(q, &err);
    else {
        http_json(q, 200, "");
        jsonw_start(&j, &q->out, JSONW_COMPACT);
        jsonw_object(&j);
        jsonw_karray(&j, "series");
        for (size_t i = 0; i < list.n; i++) {
            jsonw_object(&j);
            jsonw_kstr(&j, "model", list.v[i].model);
            jsonw_kstr(&j, "device", list.v[i].device);
            jsonw_kstr(&j, "engine", list.v[i].engine);
            jsonw_ku64(&j, "runs", (uint64_t)list.v[i].runs);
            run_json_time(&j, "last", list.v[i].last_ns);
            jsonw_end(&j);
        }
        jsonw_end(&j);
        jsonw_end(&j);
        jsonw_finish(&j);
        history_series_free(&list);
    }
    request_done(q, h);
}

static const char *text_or_empty(const char *text) { return text ? text : ""; }

bool api_read_trend(struct request *q, struct history_trend *t) {
    const char *stage = http_query(q, "stage"), *metric = http_query(q, "metric");
    *t = (struct history_trend){ .model = text_or_empty(http_query(q, "model")),
                                 .device = text_or_empty(http_query(q, "device")),
                                 .engine = text_or_empty(http_query(q, "engine")),
                                 .stage = stage && *stage ? stage : NULL,
                                 .metric = metric && *metric ? metric : "time_per_token",
                                 .limit = 200 };
    if (t->stage && !history_stage_metric(t->metric)) {
        http_problem(q, 400, "metric must be time, time_per_token, tokens_per_s, mfu, mbu or distance");
        return false;
    }
    return api_read_count(q, "runs", 2, TREND_RUNS, &t->limit);
}

static void write_points(struct jsonw *j, const struct history_points *points) {
    jsonw_karray(j, "points");
    for (size_t i = 0; i < points->n; i++) {
        const struct history_point *p = &points->v[i];
        jsonw_object(j);
        jsonw_kstr(j, "run", p->name);
        run_json_time(j, "started", p->started_ns);
        jsonw_kstr(j, "inferprof_version", p->version);
        jsonw_knum(j, "value", p->value);
        jsonw_knum(j, "ci95_low", p->low);
        jsonw_knum(j, "ci95_high", p->high);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_baseline(struct jsonw *j, const struct baseline *b) {
    jsonw_kobject(j, "baseline");
    jsonw_ku64(j, "runs", b->runs);
    jsonw_knum(j, "median", b->median);
    jsonw_knum(j, "newest", b->newest);
    jsonw_knum(j, "change", b->change);
    jsonw_end(j);
}

static void write_changes(struct jsonw *j, const struct history_points *points, size_t baseline_runs) {
    double *values = xcalloc(points->n + 1, sizeof *values);
    struct change_point changes[64];
    for (size_t i = 0; i < points->n; i++) values[i] = points->v[i].value;
    size_t n = change_points(values, points->n, changes, COUNTOF(changes));
    jsonw_karray(j, "change_points");
    for (size_t i = 0; i < n; i++) {
        size_t at = changes[i].at;
        jsonw_object(j);
        jsonw_kstr(j, "last_before", at ? points->v[at - 1].name : NULL);
        jsonw_kstr(j, "first_after", points->v[at].name);
        jsonw_knum(j, "before", changes[i].before);
        jsonw_knum(j, "after", changes[i].after);
        jsonw_knum(j, "change", changes[i].change);
        jsonw_kbool(j, "worse", (changes[i].change > 0) != points->larger_is_better);
        jsonw_kbool(j, "drift", changes[i].drift);
        jsonw_end(j);
    }
    jsonw_end(j);
    struct baseline b = baseline_of(values, points->n, changes, n, baseline_runs);
    write_baseline(j, &b);
    free(values);
}

void api_get_trend(struct request *q) {
    struct history_trend t;
    struct history_points points;
    struct err err;
    struct jsonw j;
    size_t baseline_runs = BASELINE_RUNS;
    if (!api_read_trend(q, &t) || !api_read_count(q, "baseline", 1, TREND_RUNS, &baseline_runs)) return;
    struct history *h = request_history(q);
    if (!h) return;
    if (history_trend(h, &t, &points, &err) < 0)
        request_database_failed(q, &err);
    else {
        http_json(q, 200, "");
        jsonw_start(&j, &q->out, JSONW_COMPACT);
        jsonw_object(&j);
        jsonw_kstr(&j, "stage", t.stage);
        jsonw_kstr(&j, "metric", t.metric);
        jsonw_kstr(&j, "unit", points.unit);
        jsonw_kbool(&j, "larger_is_better", points.larger_is_better);
        write_points(&j, &points);
        write_changes(&j, &points, baseline_runs);
        jsonw_end(&j);
        jsonw_finish(&j);
        history_points_free(&points);
    }
    request_done(q, h);
}

/* ---- findings and machines */

void api_list_findings(struct request *q) {
    struct history_findings list;
    struct err err;
    struct jsonw j;
    size_t runs = 100;
    if (!api_read_count(q, "runs", 1, TREND_RUNS, &runs)) return;
    struct history *h = request_history(q);
    if (!h) return;
    if (history_findings(h, http_query(q, "model"), http_query(q, "device"), http_query(q, "engine"),
                         http_query(q, "rule"), runs, &list, &err) < 0)
        request_database_failed(q, &err);
    else {
        http_json(q, 200, "");
        jsonw_start(&j, &q->out, JSONW_COMPACT);
        jsonw_object(&j);
        jsonw_karray(&j, "findings");
        for (size_t i = 0; i < list.n; i++) {
            const struct history_finding *f = &list.v[i];
            jsonw_object(&j);
            jsonw_kstr(&j, "run", f->run);
            run_json_time(&j, "started", f->started_ns);
            jsonw_kstr(&j, "rule", f->rule);
            jsonw_kstr(&j, "stage", f->stage);
            jsonw_kstr(&j, "title", f->title);
            jsonw_kstr(&j, "advice", f->advice);
            jsonw_knum(&j, "saving_ms", f->saving_ms);
            jsonw_knum(&j, "saving_percent", f->saving_percent);
            jsonw_end(&j);
        }
        jsonw_end(&j);
        jsonw_end(&j);
        jsonw_finish(&j);
        history_findings_free(&list);
    }
    request_done(q, h);
}

void api_list_machines(struct request *q) {
    struct history_machines list;
    struct err err;
    struct jsonw j;
    struct history *h = request_history(q);
    if (!h) return;
    if (history_machines(h, &list, &err) < 0)
        request_database_failed(q, &err);
    else {
        http_json(q, 200, "");
        jsonw_start(&j, &q->out, JSONW_COMPACT);
        jsonw_object(&j);
        jsonw_karray(&j, "machines");
        for (size_t i = 0; i < list.n; i++) {
            jsonw_object(&j);
            jsonw_kstr(&j, "host", list.v[i].host);
            jsonw_kstr(&j, "device", list.v[i].device);
            jsonw_kstr(&j, "inferprof_version", list.v[i].version);
            jsonw_kstr(&j, "last_run", list.v[i].last_run);
            run_json_time(&j, "last", list.v[i].last_ns);
            jsonw_ku64(&j, "runs", (uint64_t)list.v[i].runs);
            jsonw_end(&j);
        }
        jsonw_end(&j);
        jsonw_end(&j);
        jsonw_finish(&j);
        history_machines_free(&list);
    }
    request_done(q, h);
}

/* ---- the server itself */

void api_health(struct request *q) {
    struct err err;
    struct history *h = request_history(q);
    if (!h) return;
    const struct server *s = http_user(q);
    int64_t revision = history_revision(h, &err);
    if (revision < 0)
        request_database_failed(q, &err);
    else {
        struct jsonw j;
        http_json(q, 200, "");
        jsonw_start(&j, &q->out, JSONW_COMPACT);
        jsonw_object(&j);
        jsonw_kstr(&j, "status", "ok");
        jsonw_kstr(&j, "inferprof_version", s->o.version);
        jsonw_ku64(&j, "revision", (uint64_t)revision);
        jsonw_kbool(&j, "jobs", s->jobs != NULL);
        jsonw_end(&j);
        jsonw_finish(&j);
    }
    q->no_store = true;
    request_done(q, h);
}

void api_metrics(struct request *q) {
    struct db_result r;
    struct err err;
    struct history *h = request_history(q);
    if (!h) return;
    q->status = 200;
    q->type = "text/plain; version=0.0.4; charset=utf-8";
    q->no_store = true;
    http_metrics(q->http, &q->out);
    if (database_query(h->db, "SELECT SUM(runs) FROM run_groups", NULL, &r, &err) == 0) {
        strbuf_addf(&q->out,
                    "# HELP inferprof_runs Runs in the database.\n# TYPE inferprof_runs gauge\n"
                    "inferprof_runs %lld\n",
                    (long long)db_cell_int(&r, 0, 0));
        db_result_free(&r);
    }
    request_done(q, h);
}

void api_openapi(struct request *q) {
    const struct embed_file *f = embed_find("web/openapi.json");
    http_json(q, 200, "");
    if (f) strbuf_add(&q->out, f->data, embed_bytes(f));
}
