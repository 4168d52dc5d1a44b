/* Images of samples to records of the trace, on threads of their own: one image is decoded into while
 * others are evaluated (CUPTI evaluates on several threads at once if each has a host object of its own;
 * it decodes on one).
 *     struct evaluators e = { .api = ..., };
 *     evaluators_open(&e, ...);
 *     struct image *i = evaluators_empty(&e);      -- waits for one
 *     decode into i->data, i->n = how many;
 *     evaluators_give(&e, i);                      -- also back again without samples
 *     evaluators_wait(&e);                         -- all images are empty again
 *     evaluators_close(&e);
 * Samples are written in the order in which their images were given. */
#ifndef COUNTERS_EVALUATE_H
#define COUNTERS_EVALUATE_H

#include <pthread.h>
#include <stdbool.h>

#include "counters/api.h"
#include "counters/metrics.h"
#include "trace/writer.h"

#define EVALUATORS_MAX 2
#define IMAGES (EVALUATORS_MAX + 2) /* one more is decoded into, one waits */

struct image {
    uint8_t *data;
    struct trace_sample *samples;
    size_t n;
    uint64_t turn; /* its place in the order of writing */
    enum image_state { IMAGE_EMPTY, IMAGE_DECODED, IMAGE_TAKEN } state;
};

struct evaluators {
    const struct pm_api *api;
    struct trace_writer *trace;
    const struct metrics *metrics;
    size_t device;
    uint32_t metrics_text;
    size_t image_bytes, capacity; /* of an image; in samples */

    void *sampling; /* that the images belong to */
    struct image images[IMAGES];
    struct evaluator {
        struct evaluators *all;
        void *host;
        pthread_t thread;
        bool running;
    } threads[EVALUATORS_MAX];
    size_t nthreads;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* any image's state, or `written` */
    bool ending, failed;
    struct err err;          /* of the first that failed */
    uint64_t given, written; /* turns */

    bool first_dropped;
    uint64_t last_end_ns;
    uint64_t samples, missing, out_of_order, busy_ns; /* what happened; busy_ns over all threads */
};

/* `e` holds what stands above `sampling`, and zeros. */
int evaluators_open(struct evaluators *e, const char *chip, const uint8_t *availability, struct err *err);
/* Before a start, nothing being evaluated: images are emptied, the next sample is a first one. After a
 * pause they are empty, and nothing is missing. */
int evaluators_reset(struct evaluators *e, void *sampling, bool paused, struct err *err);
struct image *evaluators_empty(struct evaluators *e); /* NULL: evaluating failed, e->err says how */
void evaluators_give(struct evaluators *e, struct image *image);
void evaluators_wait(struct evaluators *e);
void evaluators_close(struct evaluators *e); /* what was given is written first; a zeroed one is fine */

#endif
