/* Chooses the metrics to sample: from a list ordered by priority, as many as the chip can count in one
 * pass, up to a maximum. */
#ifndef COUNTERS_METRICS_H
#define COUNTERS_METRICS_H

#include "counters/api.h"

#define METRICS_MAX 16

struct metrics {
    const char *names[METRICS_MAX]; /* static texts */
    size_t n;
    char *listed;    /* "a;b;c", as written to the trace */
    uint8_t *config; /* CUPTI's configuration image */
    size_t config_bytes;
};

/* `availability` is CUPTI's counter availability image. Returns 0, or -1 if no metric can be sampled; see
 * err. */
int metrics_choose(const struct pm_api *api, const char *chip, const uint8_t *availability,
                   size_t max_metrics, struct metrics *m, struct err *err);
void metrics_free(struct metrics *m);
/* Opens a CUPTI host object that evaluates the chosen metrics. If *host was set, the caller must call
 * api->host_close(), even after a failure. */
int metrics_host(const struct pm_api *api, const char *chip, const uint8_t *availability,
                 const struct metrics *m, void **host, struct err *err);

#endif
