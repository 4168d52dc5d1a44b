#include "serve/http_connections.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/die.h"

void http_connections_init(struct http_connections *all) {
    *all = (struct http_connections){ 0 };
    pthread_mutex_init(&all->lock, NULL);
}

struct http_connection *http_connection_add(struct http_connections *all, int fd) {
    struct http_connection *c = xcalloc(1, sizeof *c);
    c->fd = fd;
    c->deadline_ns = clock_mono_ns() + HTTP_HEADER_S * 1000000000ull;
    pthread_mutex_lock(&all->lock);
    c->next = all->first;
    if (c->next) c->next->previous = c;
    all->first = c;
    pthread_mutex_unlock(&all->lock);
    return c;
}

void http_connection_remove(struct http_connections *all, struct http_connection *c) {
    pthread_mutex_lock(&all->lock);
    if (c->next) c->next->previous = c->previous;
    if (c->previous)
        c->previous->next = c->next;
    else
        all->first = c->next;
    pthread_mutex_unlock(&all->lock);
    free(c);
}

void http_connection_limit(struct http_connections *all, struct http_connection *c, uint64_t start_ns,
                           unsigned grace_s, uint64_t bytes) {
    pthread_mutex_lock(&all->lock);
    c->deadline_ns = start_ns + grace_s * 1000000000ull + bytes / HTTP_MIN_BYTES_PER_S * 1000000000ull;
    pthread_mutex_unlock(&all->lock);
}

void http_connection_no_limit(struct http_connections *all, struct http_connection *c) {
    pthread_mutex_lock(&all->lock);
    c->deadline_ns = 0;
    pthread_mutex_unlock(&all->lock);
}

void http_connections_check(struct http_connections *all, uint64_t now_ns) {
    pthread_mutex_lock(&all->lock);
    for (struct http_connection *c = all->first; c; c = c->next) {
        if (!c->deadline_ns || now_ns < c->deadline_ns) continue;
        shutdown(c->fd, SHUT_RDWR);
        c->deadline_ns = 0;
    }
    pthread_mutex_unlock(&all->lock);
}
