/* The log and the status of a job as server-sent events. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/jsonw.h"
#include "serve/job_log.h"
#include "serve/jobs.h"
#include "serve/jobs_internal.h"
#include "serve/server.h"

struct events {
    struct server *s;
    char *run_id;
    char last[24]; /* state that was sent last */
    long position; /* offset in the log */
};

static void free_events(void *context) {
    struct events *e = context;
    free(e->run_id);
    free(e);
}

static bool state_has_ended(const char *state) {
    return strcmp(state, "done") == 0 || strcmp(state, "failed") == 0 || strcmp(state, "cancelled") == 0;
}

static void add_log(struct events *e, const struct history *h, struct strbuf *out) {
    char *path = job_log_path(h, e->run_id);
    FILE *f = fopen(path, "re");
    if (f) {
        job_log_events(f, &e->position, out);
        fclose(f);
    }
    free(path);
}

static void add_state(struct events *e, const struct db_result *r, struct strbuf *out) {
    struct jsonw j;
    strbuf_addstr(out, "event: status\ndata: ");
    jsonw_start(&j, out, JSONW_COMPACT);
    jsonw_object(&j);
    jsonw_kstr(&j, "run_id", e->run_id);
    jsonw_kstr(&j, "status", db_cell(r, 0, JOB_STATE));
    jsonw_kstr(&j, "message", db_cell(r, 0, JOB_MESSAGE));
    jsonw_end(&j);
    jsonw_finish(&j);
    strbuf_addstr(out, "\n\n");
    snprintf(e->last, sizeof e->last, "%s", db_cell(r, 0, JOB_STATE));
}

static bool more_events(void *context, struct strbuf *out) {
    struct events *e = context;
    struct db_result r;
    struct err err;
    struct history *h = server_take(e->s, &err);
    if (!h) return false;
    bool more = false;
    if (job_find(h, e->run_id, &r, &err) == 0) {
        if (r.rows) {
            add_log(e, h, out);
            if (strcmp(e->last, db_cell(&r, 0, JOB_STATE)) != 0) add_state(e, &r, out);
            more = !state_has_ended(db_cell(&r, 0, JOB_STATE));
        }
        db_result_free(&r);
    }
    server_give(e->s, h);
    return more;
}

void api_profile_events(struct request *q) {
    struct history *h = request_history(q);
    if (!h) return;
    job_answer(q, h, q->arguments[0], 200);
    request_done(q, h);
    if (q->status != 200) return;
    struct events *e = xcalloc(1, sizeof *e);
    e->s = http_user(q);
    e->run_id = xstrdup(q->arguments[0]);
    q->stream = xcalloc(1, sizeof *q->stream);
    *q->stream = (struct http_stream){ more_events, free_events, e };
    q->type = "text/event-stream";
    q->no_store = true;
}
