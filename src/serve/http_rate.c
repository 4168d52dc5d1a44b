#include "serve/http_rate.h"

#include <string.h>

#include "base/hash.h"
#include "base/util.h"

size_t http_rate_slot(const char *address) { return hash_bytes(address, strlen(address)) % HTTP_RATE_SLOTS; }

/* Addresses with the same slot share its bucket. If they replaced each other, two alternating clients would
 * always find a full bucket. */
bool http_rate_take(struct http_rate *rate, const char *address, uint64_t now_ns, double requests_per_s) {
    double full = requests_per_s * HTTP_RATE_BURST_S;
    size_t i = http_rate_slot(address);
    double *tokens = &rate->slots[i].tokens;
    uint64_t *at_ns = &rate->slots[i].at_ns;
    if (!*at_ns) {
        *tokens = full;
        *at_ns = now_ns;
    }
    *tokens = MIN(full, *tokens + (double)(now_ns - *at_ns) / 1e9 * requests_per_s);
    *at_ns = now_ns;
    if (*tokens < 1) return false;
    *tokens -= 1;
    return true;
}
