/* Shared by http*.c. */
#ifndef SERVE_HTTP_INTERNAL_H
#define SERVE_HTTP_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "serve/http.h"
#include "serve/http_api.h"
#include "serve/http_cache.h"
#include "serve/http_connections.h"
#include "serve/http_rate.h"

struct counter {
    atomic_ulong requests, errors, microseconds;
};

struct http {
    struct http_options o;
    struct MHD_Daemon *daemon;
    uint16_t port;
    struct http_cache *cache;
    struct http_connections connections;
    struct counter *counters; /* [nroutes + 1]; last: no route */
    atomic_ulong refused;
    pthread_mutex_t lock; /* protects `rate` and `waiting` */
    struct http_rate rate;
    struct {
        struct MHD_Connection **v;
        size_t n, cap;
    } waiting; /* suspended streams */
    pthread_t ticker;
    atomic_bool stopping;
};

enum MHD_Result http_send(struct request *q);
/* The client must finish the current phase in the time for this many bytes after `start_ns`. */
void http_limit(struct request *q, uint64_t start_ns, uint64_t bytes);
/* Resumes streams that wait for text. */
void http_resume_all(struct http *http);

#endif
