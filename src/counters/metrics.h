/* Which metrics are sampled: a wish list, of which the chip takes as many as fit into one pass. */
#ifndef COUNTERS_METRICS_H
#define COUNTERS_METRICS_H

#include "counters/api.h"

#define METRICS_MAX 16

struct metrics {
    const char *names[METRICS_MAX]; /* static texts */
    size_t n;
    char *listed;    /* "a;b;c", as the trace wants it */
    uint8_t *config; /* the image that programs the hardware for them */
    size_t config_bytes;
};

/* For a chip; `availability` as CUPTI gave it. At most `most` of them. -1: not even one can be sampled. */
int metrics_choose(const struct pm_api *api, const char *chip, const uint8_t *availability, size_t most,
                   struct metrics *m, struct err *err);
void metrics_free(struct metrics *m);
int metrics_host(const struct pm_api *api, const char *chip, const uint8_t *availability,
                 const struct metrics *m, void **host,
                 struct err *err); /* an evaluator for the chosen ones */

#endif
