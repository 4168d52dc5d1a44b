/* The server: settings, database connections and background work.
 *     struct server *s = server_start(&options, &err);
 *     ...                                             -- until a signal
 *     server_stop(s); */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H

#include <pthread.h>
#include <stdatomic.h>

#include "history/history.h"
#include "serve/http.h"
#include "serve/tokens.h"

struct server_options {
    const char *root, *database; /* database NULL: SQLite in root */
    const char *address;         /* "127.0.0.1" */
    uint16_t port;
    uint64_t max_upload_bytes;
    unsigned threads, connections;
    double requests_per_s; /* per client; 0: no limit; negative: no limit only on loopback */
    bool allow_jobs;
    const char *const *job_roots; /* for models and inputs of jobs */
    size_t njob_roots;
    const char *version; /* version of inferprof */
};

struct jobs;
struct server {
    struct server_options o;
    struct http *http;
    bool loopback;     /* only local connections */
    struct jobs *jobs; /* NULL: jobs are not allowed */
    pthread_mutex_t lock;
    struct {
        struct history **v;
        size_t n, cap;
    } idle; /* unused database connections */
    struct token_list tokens;
    uint64_t tokens_at_ns;
    pthread_t refresher;
    bool refreshing;
    atomic_bool stopping;
    atomic_uint comparing; /* running comparisons */
};

struct server *server_start(const struct server_options *options, struct err *err);
void server_stop(struct server *s);

/* Returns an idle connection to the database, or opens one. Give it back with server_give(). */
struct history *server_take(struct server *s, struct err *err); /* NULL: err */
void server_give(struct server *s, struct history *h);

/* For handlers. NULL: 503 was sent. */
struct history *request_history(struct request *q);
void request_done(struct request *q, struct history *h);
/* Answers with this status, but without the reason, which may name folders of the server. Logs the reason. */
void request_failed(struct request *q, unsigned status, const struct err *err);
/* answers with 503 */
void request_database_failed(struct request *q, const struct err *err);

extern const struct http_route server_routes[]; /* routes.c */
extern const size_t server_routes_n;

#endif
