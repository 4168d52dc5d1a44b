/* HTTP requests and responses over libmicrohttpd, which is loaded when a server starts. Handlers run on a
 * small pool of threads. A slow client does not block a thread: bodies are received and sent in pieces.
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

enum http_role { HTTP_NOBODY, HTTP_READ, HTTP_WRITE, HTTP_RUN }; /* each includes the earlier ones */

struct request;
struct http_stream;
typedef void http_handler(struct request *q);

enum http_body {
    HTTP_NO_BODY,
    HTTP_SMALL_BODY, /* in memory: JSON or form */
    HTTP_STREAM_BODY /* passed to `receive` in pieces */
};

struct http_route {
    const char *method;
    const char *path; /* "/api/v1/runs/{run}": {run} is an argument */
    enum http_role role;
    http_handler *handle; /* after the whole body */
    enum http_body body;
    http_handler *begin; /* streams: before the body; may answer */
    void (*receive)(struct request *q, const char *data, size_t n);
    bool cached; /* The answer depends only on the URL and the revision of the database. */
    bool tagged; /* Not cached, but with an ETag, the hash of the answer. */
    bool page;   /* errors are shown as HTML */
    /* Parameters of the query, separated by spaces: a request with another one is refused, so that a
     * misspelled filter does not return everything. NULL: not checked. */
    const char *query;
};

#define HTTP_SEGMENTS 8
#define HTTP_SMALL_BODY_BYTES (1u << 20)

struct request {
    struct http *http;
    void *connection; /* struct MHD_Connection */
    const struct http_route *route;
    const char *method;
    char *path;
    const char *arguments[HTTP_SEGMENTS]; /* segments in braces */
    enum http_role role;                  /* role of the client */
    uint64_t started_ns, received;
    struct http_connection *limits; /* NULL: none */
    struct strbuf body;
    void *context;                       /* data of the handler */
    void (*free_context)(void *context); /* before the answer is sent, or when the connection is lost */

    /* response; status 0: none yet */
    unsigned status;
    const char *type;
    struct strbuf out;
    int fd; /* file to send; -1: `out` */
    uint64_t fd_bytes;
    struct http_stream *stream; /* body of unknown length; NULL: none */
    struct strbuf headers;      /* "Name: value\n" lines */
    char etag[80];
    bool no_store; /* also not in our cache */
};

/* NULL: not given */
const char *http_query(const struct request *q, const char *name);
/* For an argument that may be given several times. Returns the number of values, at most `cap`. */
size_t http_query_all(const struct request *q, const char *name, const char **v, size_t cap);
const char *http_header(const struct request *q, const char *name);
const char *http_cookie(const struct request *q, const char *name);

void http_add_header(struct request *q, const char *name, const char *value);
void http_json(struct request *q, unsigned status, const char *text);
void http_redirect(struct request *q, const char *location);
/* Answers with an error (RFC 9457). Pages show it as HTML. */
void http_problem(struct request *q, unsigned status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A body that grows, for server-sent events. `more` appends new text and returns false at the end. It is
 * called again when its text was sent, or after about 250 ms if it had none. */
struct http_stream {
    bool (*more)(void *context, struct strbuf *out);
    void (*free)(void *context);
    void *context;
};

struct http_options {
    const char *address;
    uint16_t port; /* 0: any free port */
    unsigned threads, connections, timeout_s;
    unsigned connections_per_client; /* 0: no limit */
    double requests_per_s;           /* per client; 0: no limit */
    const struct http_route *routes;
    size_t nroutes;
    void *user; /* http_user() */
    /* Sets q->role, or fills the response to reject the request. */
    void (*authorize)(struct request *q);
    /* Revision of the data in cached answers; -1: unknown, do not cache. */
    int64_t (*revision)(void *user);
    /* Writes an error page. */
    void (*error_page)(struct request *q, unsigned status, const char *title, const char *detail);
    const char *version; /* part of the ETag */
};

struct http *http_start(const struct http_options *options, struct err *err);
void http_stop(struct http *http);
uint16_t http_port(const struct http *http);
void *http_user(const struct request *q);
/* in Prometheus format */
void http_metrics(const struct http *http, struct strbuf *out);

#endif
