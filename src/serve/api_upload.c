#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonw.h"
#include "serve/api.h"
#include "serve/pages.h"
#include "serve/run_json.h"
#include "serve/server.h"
#include "serve/upload.h"

static void upload_problem(struct request *q, struct history *h, enum upload_error why,
                           const struct err *err) {
    static const unsigned statuses[] = { [UPLOAD_FAILED] = 503,
                                         [UPLOAD_FULL] = 507,
                                         [UPLOAD_BUSY] = 409,
                                         [UPLOAD_OFFSET] = 409,
                                         [UPLOAD_REJECTED] = 422 };
    if (why == UPLOAD_OFFSET) {
        char offset[32];
        snprintf(offset, sizeof offset, "%llu", (unsigned long long)upload_stored(h, q->arguments[0]));
        http_add_header(q, "Upload-Offset", offset);
    }
    if (why == UPLOAD_FAILED)
        request_failed(q, 503, err);
    else
        http_problem(q, statuses[why], "%s", err->msg);
}

#define UNFINISHED_RUNS \
    4u /* All unfinished uploads together may be as large as so many of the largest runs. */

static void close_upload(void *context) { upload_close(context); }

/* `status`: 201 for a new run, 200 for a run that already existed. */
static void answer_run(struct request *q, struct history *h, const char *name, unsigned status) {
    struct history_run run;
    struct jsonw j;
    if (!api_find_run(q, h, name, &run)) return;
    http_json(q, status, "");
    jsonw_start(&j, &q->out, JSONW_COMPACT);
    run_json_summary(&j, &run);
    jsonw_finish(&j);
    struct strbuf location = STRBUF_INIT;
    strbuf_addstr(&location, "/api/v1/runs/");
    page_url(&location, run.name);
    http_add_header(q, "Location", location.buf);
    strbuf_free(&location);
    history_run_free(&run);
}

static bool answer_if_stored(struct request *q, struct history *h, const char *digest) {
    struct history_run run = { 0 };
    struct err err;
    int found = history_find_digest(h, digest, &run, &err);
    if (found == 1) answer_run(q, h, run.name, 200);
    if (found < 0) request_database_failed(q, &err);
    history_run_free(&run);
    return found != 0;
}

/* Parses Content-Range, such as "bytes 100-199/1000". Without it, the body is the whole stream. If the header
 * is not valid, answers with 400 and returns false. */
static bool read_range(struct request *q, uint64_t *offset, uint64_t *total) {
    const char *range = http_header(q, "Content-Range"), *length = http_header(q, "Content-Length");
    unsigned long long from, to, all;
    char rest;
    *offset = 0;
    *total = length ? strtoull(length, NULL, 10) : 0;
    if (!range) return true;
    if (sscanf(range, "bytes %llu-%llu/%llu%c", &from, &to, &all, &rest) != 3 || from > to || to >= all ||
        range[6] < '0' || range[6] > '9') {
        http_problem(q, 400, "Content-Range must be 'bytes FIRST-LAST/TOTAL'");
        return false;
    }
    *offset = from;
    *total = all;
    return true;
}

static bool size_allowed(struct request *q, uint64_t total) {
    const struct server *s = http_user(q);
    if (total <= s->o.max_upload_bytes) return true;
    http_problem(q, 413, "the run has %llu bytes; this server accepts %llu (--max-upload)",
                 (unsigned long long)total, (unsigned long long)s->o.max_upload_bytes);
    return false;
}

static void open_upload(struct request *q, struct history *h, const char *digest, uint64_t offset,
                        uint64_t total) {
    struct err err;
    enum upload_error why;
    const struct server *s = http_user(q);
    if (!upload_make_room(h, UNFINISHED_RUNS * s->o.max_upload_bytes)) {
        http_problem(q, 507, "clients are sending too many runs at once; try again later");
        return;
    }
    struct upload *u = upload_open(h, digest, offset, total, &why, &err);
    if (!u) {
        upload_problem(q, h, why, &err);
        return;
    }
    q->context = u;
    q->free_context = close_upload;
}

void api_begin_upload(struct request *q) {
    uint64_t offset, total;
    if (!upload_digest_valid(q->arguments[0])) {
        http_problem(q, 400, "the digest must be 64 hexadecimal digits in lower case");
        return;
    }
    if (!read_range(q, &offset, &total) || !size_allowed(q, total)) return;
    if (total == 0) {
        http_problem(q, 400, "Content-Length is needed");
        return;
    }
    struct history *h = request_history(q);
    if (!h) return;
    if (!answer_if_stored(q, h, q->arguments[0])) open_upload(q, h, q->arguments[0], offset, total);
    request_done(q, h);
}

void api_begin_post(struct request *q) {
    const char *length = http_header(q, "Content-Length"), *type = http_header(q, "Content-Type");
    if (!type || strncmp(type, "application/x-tar", 17) != 0) {
        http_problem(q, 415, "expected a tar stream of a run folder, Content-Type: application/x-tar");
        return;
    }
    if (!size_allowed(q, length ? strtoull(length, NULL, 10) : 0)) return;
    struct history *h = request_history(q);
    if (!h) return;
    open_upload(q, h, NULL, 0, 0);
    request_done(q, h);
}

void api_receive_upload(struct request *q, const char *data, size_t n) {
    struct err err;
    enum upload_error why;
    struct upload *u = q->context;
    if (!u || !size_allowed(q, upload_received(u) + n)) return;
    if (upload_add(u, data, n, &why, &err) < 0) upload_problem(q, NULL, why, &err);
}

static void answer_received(struct request *q, uint64_t received) {
    struct jsonw j;
    http_json(q, 202, "");
    jsonw_start(&j, &q->out, JSONW_COMPACT);
    jsonw_object(&j);
    jsonw_ku64(&j, "received", received);
    jsonw_end(&j);
    jsonw_finish(&j);
}

void api_end_upload(struct request *q) {
    struct err err;
    enum upload_error why;
    char *name = NULL;
    struct upload *u = q->context;
    if (q->arguments[0] && !upload_is_complete(u)) {
        answer_received(q, upload_received(u));
        return;
    }
    struct history *h = request_history(q);
    if (!h) return;
    int rc = upload_store(u, h, &name, &why, &err);
    if (rc < 0)
        upload_problem(q, h, why, &err);
    else
        answer_run(q, h, name, rc == 1 ? 201 : 200);
    free(name);
    request_done(q, h);
}

void api_get_upload(struct request *q) {
    if (!upload_digest_valid(q->arguments[0])) {
        http_problem(q, 400, "the digest must be 64 hexadecimal digits in lower case");
        return;
    }
    struct history *h = request_history(q);
    if (!h) return;
    uint64_t stored = upload_stored(h, q->arguments[0]);
    if (!answer_if_stored(q, h, q->arguments[0])) {
        if (stored)
            answer_received(q, stored);
        else
            http_problem(q, 404, "no upload with this digest");
    }
    q->no_store = true;
    request_done(q, h);
}
