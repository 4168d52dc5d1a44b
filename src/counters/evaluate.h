/* Evaluates images of samples and writes them to the trace, on its own threads. The sampler's thread decodes
 * into one image while others are evaluated. (CUPTI decodes on one thread only. It can evaluate on several
 * threads if each has its own host object.)
 *     struct evaluators e = { .api = ..., };
 *     evaluators_open(&e, ...);
 *     struct image *i = evaluators_take_empty(&e); -- waits for an empty image
 *     decode into i->data; set i->n;
 *     evaluators_submit(&e, i);                    -- also returns an image without samples
 *     evaluators_wait(&e);                         -- until all images are empty again
 *     evaluators_close(&e);
 * Samples are written in the order in which their images were submitted. */
#ifndef COUNTERS_EVALUATE_H
#define COUNTERS_EVALUATE_H

#include <pthread.h>
#include <stdbool.h>

#include "counters/api.h"
#include "counters/metrics.h"
#include "trace/writer.h"

#define EVALUATORS_MAX 2
#define IMAGES (EVALUATORS_MAX + 2) /* one per thread, plus one being decoded into and one waiting */

struct image {
    uint8_t *data;
    struct trace_sample *samples;
    size_t n;
    uint64_t turn; /* position in writing order */
    enum image_state { IMAGE_EMPTY, IMAGE_DECODED, IMAGE_TAKEN } state;
};

struct evaluators {
    const struct pm_api *api;
    struct trace_writer *trace;
    const struct metrics *metrics;
    size_t device;
    uint32_t metrics_text;
    size_t image_bytes, capacity; /* per image: size in bytes, maximum number of samples */

    void *sampling; /* CUPTI handle of the images */
    struct image images[IMAGES];
    struct evaluator {
        struct evaluators *all;
        void *host;
        pthread_t thread;
        bool running;
    } threads[EVALUATORS_MAX];
    size_t nthreads;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* an image changed its state, or `written` changed */
    bool ending, failed;
    struct err err;              /* the first failure */
    uint64_t submitted, written; /* number of images */

    bool first_dropped;
    uint64_t last_end_ns;
    uint64_t samples, missing, out_of_order, busy_ns; /* statistics; busy_ns is the sum over threads */
};

/* `e` must be zero except for the fields above `sampling`. */
int evaluators_open(struct evaluators *e, const char *chip, const uint8_t *availability, struct err *err);
/* Call this before sampling starts, while nothing is being evaluated. Empties the images. If `paused` is set,
 * they are already empty, and the time of the pause does not count as missing samples. */
int evaluators_reset(struct evaluators *e, void *sampling, bool paused, struct err *err);
struct image *evaluators_take_empty(struct evaluators *e); /* returns NULL if evaluation failed; see e->err */
void evaluators_submit(struct evaluators *e, struct image *image);
void evaluators_wait(struct evaluators *e);
void evaluators_close(struct evaluators *e); /* writes submitted images first; accepts a zeroed struct */

#endif
