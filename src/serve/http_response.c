/* Responses: errors, headers, compression and streams. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <zlib.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/jsonw.h"
#include "base/log.h"
#include "base/util.h"
#include "base/vec.h"
#include "serve/http_internal.h"

#define GZIP_LEAST 1024            /* smaller bodies are not compressed */
#define GZIP_FILE_MOST (16u << 20) /* larger files are not compressed */

void http_add_header(struct request *q, const char *name, const char *value) {
    strbuf_addf(&q->headers, "%s: ", name);
    /* A line break would start another header. */
    for (const char *p = value; *p; p++)
        if ((unsigned char)*p >= ' ' && *p != 0x7f) strbuf_addch(&q->headers, *p);
    strbuf_addch(&q->headers, '\n');
}

void http_json(struct request *q, unsigned status, const char *text) {
    q->status = status;
    q->type = "application/json";
    strbuf_reset(&q->out);
    strbuf_addstr(&q->out, text);
}

void http_redirect(struct request *q, const char *location) {
    q->status = 303;
    q->type = "text/plain";
    strbuf_reset(&q->out);
    http_add_header(q, "Location", location);
}

static const char *status_title(unsigned status) {
    static const struct {
        unsigned status;
        const char *title;
    } rows[] = {
        { 400, "Bad request" },       { 401, "Not signed in" },          { 403, "Not allowed" },
        { 404, "Not found" },         { 405, "Method not allowed" },     { 409, "Conflict" },
        { 413, "Too large" },         { 415, "Unsupported media type" }, { 422, "Not valid" },
        { 429, "Too many requests" }, { 503, "Not available" },          { 507, "The disk is full" }
    };
    for (size_t i = 0; i < COUNTOF(rows); i++)
        if (rows[i].status == status) return rows[i].title;
    return "Error";
}

static void problem_json(struct request *q, unsigned status, const char *detail) {
    struct jsonw j;
    strbuf_reset(&q->out);
    jsonw_start(&j, &q->out, JSONW_COMPACT);
    jsonw_object(&j);
    jsonw_kstr(&j, "type", "about:blank");
    jsonw_kstr(&j, "title", status_title(status));
    jsonw_ku64(&j, "status", status);
    jsonw_kstr(&j, "detail", detail);
    jsonw_kstr(&j, "instance", q->path);
    jsonw_end(&j);
    jsonw_finish(&j);
    q->type = "application/problem+json";
}

/* Pages show errors as HTML, and so do unknown URLs that a browser asks for. */
static bool is_for_people(const struct request *q) {
    if (q->route) return q->route->page;
    const char *accept = http_header(q, "Accept");
    return strncmp(q->path, "/api/", 5) != 0 && accept && strstr(accept, "text/html");
}

void http_problem(struct request *q, unsigned status, const char *fmt, ...) {
    char detail[1200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(detail, sizeof detail, fmt, ap);
    va_end(ap);
    if (q->fd >= 0) close(q->fd);
    q->fd = -1;
    q->status = status;
    q->etag[0] = '\0';
    q->no_store = true;
    if (is_for_people(q) && q->http->o.error_page) {
        strbuf_reset(&q->out);
        q->http->o.error_page(q, status, status_title(status), detail);
    } else
        problem_json(q, status, detail);
}

/* The weight of one coding of Accept-Encoding, such as "gzip; q=0.5"; -1: another coding. */
static double coding_weight(const char *item, const char *coding) {
    size_t n = strlen(coding);
    item += strspn(item, " \t");
    if (strncasecmp(item, coding, n) != 0 || !strchr(" \t;,", item[n])) return -1;
    const char *end = item + strcspn(item, ","), *parameter = strchr(item, ';');
    if (!parameter || parameter > end) return 1;
    parameter += 1 + strspn(parameter + 1, " \t");
    return strncasecmp(parameter, "q=", 2) == 0 ? strtod(parameter + 2, NULL) : 1;
}

static bool accepts_gzip(const struct request *q) {
    const char *accept = http_header(q, "Accept-Encoding");
    double gzip_weight = -1, any_weight = -1;
    while (accept && *accept) {
        gzip_weight = MAX(gzip_weight, coding_weight(accept, "gzip"));
        any_weight = MAX(any_weight, coding_weight(accept, "*"));
        accept += strcspn(accept, ",");
        accept += *accept == ',';
    }
    return (gzip_weight >= 0 ? gzip_weight : any_weight) > 0;
}

static bool compressible(const char *type) {
    return strncmp(type, "text/", 5) == 0 || strstr(type, "json") || strstr(type, "svg") ||
           strstr(type, "javascript");
}

static bool gzip(const struct strbuf *in, struct strbuf *out) {
    z_stream z = { 0 };
    if (deflateInit2(&z, 3, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) return false;
    size_t cap = deflateBound(&z, (uLong)in->len);
    char *buffer = xmalloc(cap);
    z.next_in = (Bytef *)in->buf;
    z.avail_in = (uInt)in->len;
    z.next_out = (Bytef *)buffer;
    z.avail_out = (uInt)cap;
    bool done = deflate(&z, Z_FINISH) == Z_STREAM_END;
    if (done) strbuf_add(out, buffer, cap - z.avail_out);
    deflateEnd(&z);
    free(buffer);
    return done;
}

static void add_lines(struct MHD_Response *r, const struct strbuf *headers) {
    char *copy = xstrdup(headers->buf), *rest;
    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *value = strstr(line, ": ");
        if (!value) continue;
        *value = '\0';
        mhd.add_header(r, line, value + 2);
    }
    free(copy);
}

/* Pages may use only our own style sheets and scripts. A handler may set another policy. */
static void add_common_headers(struct request *q, struct MHD_Response *r) {
    mhd.add_header(r, "X-Content-Type-Options", "nosniff");
    mhd.add_header(r, "Referrer-Policy", "no-referrer");
    mhd.add_header(r, "Cross-Origin-Resource-Policy", "same-origin");
    if (!strstr(q->headers.buf, "Content-Security-Policy: "))
        mhd.add_header(r, "Content-Security-Policy",
                       "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
                       "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'");
    if (q->type) mhd.add_header(r, "Content-Type", q->type);
    if (q->etag[0]) mhd.add_header(r, "ETag", q->etag);
    if (!strstr(q->headers.buf, "Cache-Control: "))
        mhd.add_header(r, "Cache-Control", q->no_store ? "no-store" : "no-cache");
    add_lines(r, &q->headers);
}

/* ---- streams: suspended while there is no new text */

struct stream_state {
    struct http *http;
    struct MHD_Connection *connection;
    struct http_stream stream;
    struct strbuf pending;
    size_t sent;
    bool ended;
};

static void wait_for_tick(struct stream_state *s) {
    pthread_mutex_lock(&s->http->lock);
    if (!atomic_load(&s->http->stopping)) {
        mhd.suspend(s->connection);
        vec_push(&s->http->waiting, s->connection);
    }
    pthread_mutex_unlock(&s->http->lock);
}

static ssize_t stream_read(void *context, uint64_t position, char *buffer, size_t cap) {
    (void)position;
    struct stream_state *s = context;
    if (s->sent == s->pending.len) {
        strbuf_reset(&s->pending);
        s->sent = 0;
        if (s->ended || atomic_load(&s->http->stopping)) return MHD_CONTENT_READER_END_OF_STREAM;
        s->ended = !s->stream.more(s->stream.context, &s->pending);
    }
    size_t n = MIN(cap, s->pending.len - s->sent);
    if (n == 0 && s->ended) return MHD_CONTENT_READER_END_OF_STREAM;
    if (n == 0) wait_for_tick(s);
    memcpy(buffer, s->pending.buf + s->sent, n);
    s->sent += n;
    return (ssize_t)n;
}

static void stream_free(void *context) {
    struct stream_state *s = context;
    s->stream.free(s->stream.context);
    strbuf_free(&s->pending);
    free(s);
}

void http_resume_all(struct http *http) {
    pthread_mutex_lock(&http->lock);
    for (size_t i = 0; i < http->waiting.n; i++) mhd.resume(http->waiting.v[i]);
    http->waiting.n = 0;
    pthread_mutex_unlock(&http->lock);
}

static struct MHD_Response *make_stream(struct request *q) {
    struct stream_state *s = xcalloc(1, sizeof *s);
    *s = (struct stream_state){
        .http = q->http, .connection = q->connection, .stream = *q->stream, .pending = STRBUF_INIT
    };
    free(q->stream);
    q->stream = NULL;
    return mhd.from_callback(MHD_SIZE_UNKNOWN, 4096, stream_read, s, stream_free);
}

/* ---- sending */

/* Reads a text file that is to be compressed into `out`. */
static void read_file(struct request *q) {
    if (!q->type || !compressible(q->type) || q->fd_bytes < GZIP_LEAST || q->fd_bytes > GZIP_FILE_MOST ||
        !accepts_gzip(q))
        return;
    char *data = xmalloc(q->fd_bytes);
    ssize_t n = pread(q->fd, data, q->fd_bytes, 0);
    if (n == (ssize_t)q->fd_bytes) {
        strbuf_reset(&q->out);
        strbuf_add(&q->out, data, (size_t)n);
        close(q->fd);
        q->fd = -1;
    }
    free(data);
}

static struct MHD_Response *make_response(struct request *q) {
    struct strbuf packed = STRBUF_INIT;
    struct MHD_Response *r;
    if (q->stream) return make_stream(q);
    if (q->fd >= 0) read_file(q);
    if (q->fd >= 0) {
        r = mhd.from_fd(q->fd_bytes, q->fd);
        if (r && q->type && compressible(q->type)) mhd.add_header(r, "Vary", "Accept-Encoding");
        q->fd = -1;
        return r;
    }
    bool varies = q->type && compressible(q->type) && q->out.len >= GZIP_LEAST;
    bool small =
        varies && accepts_gzip(q) && !strstr(q->headers.buf, "Content-Encoding") && gzip(&q->out, &packed);
    r = mhd.from_buffer(small ? packed.len : q->out.len, small ? packed.buf : q->out.buf,
                        MHD_RESPMEM_MUST_COPY);
    if (small) mhd.add_header(r, "Content-Encoding", "gzip");
    if (varies) mhd.add_header(r, "Vary", "Accept-Encoding");
    strbuf_free(&packed);
    return r;
}

static void count_request(struct request *q) {
    struct http *http = q->http;
    size_t i = q->route ? (size_t)(q->route - http->o.routes) : http->o.nroutes;
    atomic_fetch_add(&http->counters[i].requests, 1);
    if (q->status >= 400) atomic_fetch_add(&http->counters[i].errors, 1);
    atomic_fetch_add(&http->counters[i].microseconds,
                     (unsigned long)((clock_mono_ns() - q->started_ns) / 1000));
    struct strbuf path = STRBUF_INIT; /* a line break would start another line of the log */
    strbuf_add_printable(&path, q->path, strlen(q->path));
    log_debug("%s %s %u %.1f ms", q->method, path.buf, q->status,
              (double)(clock_mono_ns() - q->started_ns) / 1e6);
    strbuf_free(&path);
}

enum MHD_Result http_send(struct request *q) {
    uint64_t bytes = q->fd >= 0 ? q->fd_bytes : q->out.len;
    bool endless = q->stream != NULL;
    struct MHD_Response *r = make_response(q);
    if (!r) return MHD_NO;
    if (!endless) http_limit(q, clock_mono_ns(), bytes);
    add_common_headers(q, r);
    count_request(q);
    enum MHD_Result result = mhd.queue(q->connection, q->status, r);
    mhd.destroy(r);
    return result;
}
