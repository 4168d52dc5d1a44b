/* Requests about profiling jobs. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/file.h"
#include "base/jsonr.h"
#include "base/jsonw.h"
#include "serve/api.h"
#include "serve/job_request.h"
#include "serve/jobs.h"
#include "serve/jobs_internal.h"
#include "serve/run_json.h"
#include "serve/server.h"

static bool jobs_allowed(struct request *q) {
    const struct server *s = http_user(q);
    if (s->jobs) return true;
    http_problem(q, 403, "this server does not run jobs; start it with --allow-jobs");
    return false;
}

/* order of enum job_column */
#define JOB_COLUMNS "run_id, state, device, request, message, attempts, created_ns, started_ns, ended_ns"

static void write_job(struct jsonw *j, const struct history *h, const struct db_result *r, size_t row) {
    struct strbuf dir = STRBUF_INIT;
    struct err ignored;
    jsonw_object(j);
    jsonw_kstr(j, "run_id", db_cell(r, row, JOB_RUN_ID));
    jsonw_kstr(j, "status", db_cell(r, row, JOB_STATE));
    strbuf_addf(&dir, "%s/%s", h->root, db_cell(r, row, JOB_RUN_ID));
    jsonw_kstr(j, "artifacts_dir", dir.buf);
    strbuf_free(&dir);
    jsonw_kstr(j, "device", db_cell(r, row, JOB_DEVICE));
    jsonw_kstr(j, "message", db_cell(r, row, JOB_MESSAGE));
    jsonw_ku64(j, "attempts", (uint64_t)db_cell_int(r, row, JOB_ATTEMPTS));
    run_json_time(j, "created", db_cell_int(r, row, JOB_CREATED_NS));
    run_json_time(j, "started", db_cell_int(r, row, JOB_STARTED_NS));
    run_json_time(j, "ended", db_cell_int(r, row, JOB_ENDED_NS));
    jsonw_kobject(j, "request");
    json_t *request = jsonr_load_text(db_cell(r, row, JOB_REQUEST), strlen(db_cell(r, row, JOB_REQUEST)),
                                      "request", &ignored);
    job_write_request(j, request);
    json_decref(request);
    jsonw_end(j);
    jsonw_end(j);
}

int job_find(struct history *h, const char *run_id, struct db_result *r, struct err *err) {
    struct db_args args = { 0 };
    db_text(&args, run_id);
    db_text(&args, h->store);
    return database_query(h->db, "SELECT " JOB_COLUMNS " FROM jobs WHERE run_id = $1 AND store = $2", &args,
                          r, err);
}

void job_answer(struct request *q, struct history *h, const char *run_id, unsigned status) {
    struct db_result r;
    struct err err;
    struct jsonw j;
    if (job_find(h, run_id, &r, &err) < 0) {
        request_database_failed(q, &err);
        return;
    }
    if (r.rows == 0)
        http_problem(q, 404, "no job '%s'", run_id);
    else {
        http_json(q, status, "");
        jsonw_start(&j, &q->out, JSONW_COMPACT);
        write_job(&j, h, &r, 0);
        jsonw_finish(&j);
    }
    db_result_free(&r);
}

static int insert_job(struct history *h, const char *run_id, const char *device, const char *request,
                      struct err *err) {
    struct db_args args = { 0 };
    db_text(&args, run_id);
    db_text(&args, h->store);
    db_text(&args, device);
    db_text(&args, request);
    db_int(&args, (int64_t)clock_wall_ns());
    return database_query(
        h->db,
        "INSERT INTO jobs (run_id, store, state, device, request, attempts, created_ns) VALUES "
        "($1, $2, 'queued', $3, $4, 0, $5)",
        &args, NULL, err);
}

static void queue_job(struct request *q, struct history *h, const json_t *root) {
    struct err err;
    char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
    char *run_id = job_new_id();
    if (insert_job(h, run_id, jsonr_text(root, "device"), text, &err) < 0)
        request_database_failed(q, &err);
    else {
        job_answer(q, h, run_id, 202);
        char *location = xasprintf("/api/v1/profiles/%s", run_id);
        http_add_header(q, "Location", location);
        free(location);
    }
    free(run_id);
    free(text);
}

void api_post_profile(struct request *q) {
    struct err err;
    const struct server *s = http_user(q);
    if (!jobs_allowed(q)) return;
    json_t *root = jsonr_load_text(q->body.buf, q->body.len, "body", &err);
    if (!root)
        http_problem(q, 400, "%s", err.msg);
    else if (job_check(root, s->o.job_roots, s->o.njob_roots, &err) < 0 || job_set_device(root, &err) < 0)
        http_problem(q, 422, "%s", err.msg);
    else {
        struct history *h = request_history(q);
        if (h) queue_job(q, h, root);
        if (h) request_done(q, h);
    }
    json_decref(root);
}

void api_list_profiles(struct request *q) {
    struct db_args args = { 0 };
    struct db_result r;
    struct err err;
    struct jsonw j;
    struct history *h = request_history(q);
    if (!h) return;
    db_text(&args, h->store);
    if (database_query(h->db, "SELECT " JOB_COLUMNS " FROM jobs WHERE store = $1 ORDER BY id DESC LIMIT 200",
                       &args, &r, &err) < 0)
        request_database_failed(q, &err);
    else {
        http_json(q, 200, "");
        jsonw_start(&j, &q->out, JSONW_COMPACT);
        jsonw_object(&j);
        jsonw_karray(&j, "profiles");
        for (size_t i = 0; i < r.rows; i++) write_job(&j, h, &r, i);
        jsonw_end(&j);
        jsonw_end(&j);
        jsonw_finish(&j);
        db_result_free(&r);
    }
    request_done(q, h);
}

void api_get_profile(struct request *q) {
    struct history *h = request_history(q);
    if (!h) return;
    job_answer(q, h, q->arguments[0], 200);
    request_done(q, h);
}

void api_profile_artifacts(struct request *q) {
    struct db_result r;
    struct err err;
    struct history *h = request_history(q);
    if (!h) return;
    if (job_find(h, q->arguments[0], &r, &err) < 0)
        request_database_failed(q, &err);
    else if (r.rows == 0)
        http_problem(q, 404, "no job '%s'", q->arguments[0]);
    else {
        char *dir = file_join(h->root, db_cell(&r, 0, JOB_RUN_ID));
        api_answer_artifacts(q, db_cell(&r, 0, JOB_RUN_ID), dir);
        free(dir);
    }
    db_result_free(&r);
    request_done(q, h);
}

/* A queued job is cancelled at once. A running job gets time to write its report; jobs.c kills it after
 * KILL_NS. */
void api_cancel_profile(struct request *q) {
    struct db_args args = { 0 };
    struct err err;
    if (!jobs_allowed(q)) return;
    struct history *h = request_history(q);
    if (!h) return;
    db_text(&args, q->arguments[0]);
    db_text(&args, h->store);
    if (database_query(
            h->db,
            "UPDATE jobs SET state = CASE state WHEN 'queued' THEN 'cancelled' ELSE 'cancelling' END "
            "WHERE run_id = $1 AND store = $2 AND state IN ('queued', 'running')",
            &args, NULL, &err) < 0)
        request_database_failed(q, &err);
    else
        job_answer(q, h, q->arguments[0], 202);
    request_done(q, h);
}
