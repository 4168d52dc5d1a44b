/* HTTP requests and responses over libmicrohttpd, which is loaded when a server starts. Handlers run on a
 * small pool of threads. A slow client does not block a thread: bodies are received and sent piece by piece.
 *     struct http *http = http_start(&options, &err);
 *     ...
 *     http_stop(http);
 * A handler reads its arguments and fills the response:
 *     static void get_health(struct request *q) { http_json(q, 200, "{\"status\":\"ok\"}"); } */
#ifndef SERVE_HTTP_H
#define SERVE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/strbuf.h"

enum http_role { HTTP_NOBODY, HTTP_READ, HTTP_WRITE, HTTP_RUN }; /* each role includes the ones before it */

struct request;
struct http_stream;
typedef void http_handler(struct request *q);

/* How the body of a request is received. */
enum http_body {
    HTTP_NO_BODY,
    HTTP_SMALL_BODY, /* kept in memory: JSON or a form */
    HTTP_STREAM_BODY /* passed to `receive` piece by piece */
};

struct http_route {
    const char *method;
    const char *path; /* "/api/v1/runs/{run}"; a segment in braces is an argument */
    enum http_role role;
    http_handler *handle; /* called after the whole body was received */
    enum http_body body;
    http_handler *begin; /* streams: called before the body; may already answer */
    void (*receive)(struct request *q, const char *data, size_t n);
    bool cached; /* the answer depends only on the URL and on the revision of the database */
    bool page;   /* errors are shown as HTML */
};

#define HTTP_SEGMENTS 8
#define HTTP_SMALL_BODY_BYTES (1u << 20)

struct request {
    struct http *http;
    void *connection; /* struct MHD_Connection */
    const struct http_route *route;
    const char *method;
    char *path;
    const char *arguments[HTTP_SEGMENTS]; /* values of the segments in braces */
    enum http_role role;                  /* role of the client */
    uint64_t started_ns;
    struct strbuf body;
    void *context;                       /* data of the handler */
    void (*free_context)(void *context); /* called when the request ends, also if the connection is lost */

    /* the response; status 0: not answered yet */
    unsigned status;
    const char *type;
    struct strbuf out;
    int fd; /* file to send as the body; -1: the body is `out` */
    uint64_t fd_bytes;
    struct http_stream *stream; /* source of a body of unknown length; NULL: none */
    struct strbuf headers;      /* "Name: value\n" lines */
    char etag[80];
    bool no_store;
};

/* Returns an argument of the URL; NULL: not given. */
const char *http_query(const struct request *q, const char *name);
/* Gets the first `cap` values of an argument that may be given several times. Returns their number. */
size_t http_query_all(const struct request *q, const char *name, const char **v, size_t cap);
const char *http_header(const struct request *q, const char *name);
const char *http_cookie(const struct request *q, const char *name);

void http_add_header(struct request *q, const char *name, const char *value);
void http_json(struct request *q, unsigned status, const char *text);
void http_redirect(struct request *q, const char *location);
/* Answers with an error in the format of RFC 9457. Pages show the same text as HTML. */
void http_problem(struct request *q, unsigned status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A body that grows: server-sent events. `more` appends new text and returns false at the end. It is called
 * again when its text has been sent; if it had no new text, about 250 ms later. */
struct http_stream {
    bool (*more)(void *context, struct strbuf *out);
    void (*free)(void *context);
    void *context;
};

struct http_options {
    const char *address;
    uint16_t port; /* 0: any free port */
    unsigned threads, connections, timeout_s;
    unsigned connections_per_client; /* per client address; 0: no limit */
    double requests_per_s;           /* per client address; 0: no limit */
    const struct http_route *routes;
    size_t nroutes;
    void *user; /* http_user() */
    /* Sets q->role. Fills the response if the request must be rejected. */
    void (*authorize)(struct request *q);
    /* Returns the revision of the data that cached answers contain; -1: unknown, do not cache. */
    int64_t (*revision)(void *user);
    /* Writes an error page. */
    void (*error_page)(struct request *q, unsigned status, const char *title, const char *detail);
    const char *version; /* version of inferprof; part of the ETag of cached answers */
};

struct http *http_start(const struct http_options *options, struct err *err);
void http_stop(struct http *http);
uint16_t http_port(const struct http *http);
void *http_user(const struct request *q);
/* Writes the counters in Prometheus format. */
void http_metrics(const struct http *http, struct strbuf *out);

#endif
