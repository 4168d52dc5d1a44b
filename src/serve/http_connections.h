/* Time limits of connections. libmicrohttpd closes a connection after a pause. A client that sends one byte
 * before each pause would keep it open for ever, so every phase of a request has a limit for its whole
 * duration, too. Thread-safe. */
#ifndef SERVE_HTTP_CONNECTIONS_H
#define SERVE_HTTP_CONNECTIONS_H

#include <pthread.h>
#include <stdint.h>

#define HTTP_HEADER_S 10u          /* for a whole header, and before the first one */
#define HTTP_GRACE_S 30u           /* for a body or an answer of any size */
#define HTTP_MIN_BYTES_PER_S 1000u /* larger bodies and answers get more time */

struct http_connection {
    struct http_connection *next, *previous;
    int fd;
    uint64_t deadline_ns; /* 0: none */
};
struct http_connections {
    pthread_mutex_t lock;
    struct http_connection *first;
};

void http_connections_init(struct http_connections *all);
struct http_connection *http_connection_add(struct http_connections *all, int fd);
/* Call it before the descriptor is closed. */
void http_connection_remove(struct http_connections *all, struct http_connection *c);
/* The current phase ends at `start_ns` plus the time for this many bytes. */
void http_connection_limit(struct http_connections *all, struct http_connection *c, uint64_t start_ns,
                           unsigned grace_s, uint64_t bytes);
void http_connection_no_limit(struct http_connections *all, struct http_connection *c);
/* Ends the connections whose time is over. Their threads close them. */
void http_connections_check(struct http_connections *all, uint64_t now_ns);

#endif
