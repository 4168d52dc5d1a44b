/* Limits the request rate with one token bucket per client address. Not thread-safe. */
#ifndef SERVE_HTTP_RATE_H
#define SERVE_HTTP_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_RATE_SLOTS 1024
#define HTTP_RATE_BURST_S 4.0 /* burst, in seconds of requests */

struct http_rate {
    struct {
        double tokens;
        uint64_t at_ns; /* 0: not used yet */
    } slots[HTTP_RATE_SLOTS];
};

/* Addresses with the same slot share a bucket. */
size_t http_rate_slot(const char *address);
/* Takes a token. Returns false if there is none: too many requests. */
bool http_rate_take(struct http_rate *rate, const char *address, uint64_t now_ns, double requests_per_s);

#endif
