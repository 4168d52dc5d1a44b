#include "counters/evaluate.h"

#include <math.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/util.h"

/* ---- one sample */

static int evaluate_sample(const struct evaluators *e, void *host, const struct image *image, size_t i,
                           struct trace_sample *out, struct err *err) {
    struct pm_sample_info info = PM_SIZED(struct pm_sample_info);
    info.sampling = e->sampling;
    info.data = image->data;
    info.bytes = e->image_bytes;
    info.sample = i;
    int rc = e->api->sample_info(&info);
    if (rc != PM_OK) return pm_api_error(e->api, rc, "reading a sample's time", err);
    *out = (struct trace_sample){ .start_ns = info.start_ns,
                                  .end_ns = info.end_ns,
                                  .device = (uint32_t)e->device,
                                  .metrics = e->metrics_text };
    double *values = (double *)(void *)((char *)out + offsetof(struct trace_sample, v0)); /* v0 to v15 */
    for (size_t k = e->metrics->n; k < TRACE_SAMPLE_VALUES; k++) values[k] = NAN;
    struct pm_evaluate p = PM_SIZED(struct pm_evaluate);
    p.host = host;
    p.data = image->data;
    p.bytes = e->image_bytes;
    p.sample = i;
    p.names = (const char **)(void *)(uintptr_t)e->metrics->names;
    p.n = e->metrics->n;
    p.values = values;
    rc = e->api->evaluate(&p);
    return rc == PM_OK ? 0 : pm_api_error(e->api, rc, "evaluating a sample", err);
}

/* ---- into the trace */

/* Samples are contiguous in time; a gap means that samples were lost. */
static void count_missing(struct evaluators *e, const struct trace_sample *sample) {
    uint64_t interval = sample->end_ns - sample->start_ns;
    if (e->last_end_ns == 0 || sample->start_ns < e->last_end_ns + interval / 2) return;
    uint64_t n = (sample->start_ns - e->last_end_ns + interval / 2) / interval;
    e->missing += n;
    trace_writer_lost(e->trace, TRACE_SAMPLE, TRACE_LOST_SOURCE, n);
}

/* Writes a sample, unless its times are invalid. The first sample after each start of sampling is dropped,
 * because it begins at an unknown time before that start. */
static void keep_sample(struct evaluators *e, const struct trace_sample *sample) {
    if (!e->first_dropped) {
        e->first_dropped = true;
        return;
    }
    if (sample->end_ns <= sample->start_ns) {
        trace_writer_lost(e->trace, TRACE_SAMPLE, TRACE_LOST_UNTRUSTED, 1);
        return;
    }
    count_missing(e, sample);
    e->last_end_ns = MAX(e->last_end_ns, sample->end_ns);
    e->samples += trace_writer_sample(e->trace, sample, 1);
}

static int by_start(const void *a, const void *b) {
    uint64_t x = ((const struct trace_sample *)a)->start_ns, y = ((const struct trace_sample *)b)->start_ns;
    return (x > y) - (x < y);
}

/* Sorts the samples of an image, because the hardware may deliver them out of order, and writes them. Called
 * with the lock held, in the order of the images. */
static void write_samples(struct evaluators *e, const struct image *image) {
    for (size_t i = 0; i < image->n; i++)
        e->out_of_order += image->samples[i].start_ns < (i ? image->samples[i - 1].start_ns : e->last_end_ns);
    qsort(image->samples, image->n, sizeof *image->samples, by_start);
    for (size_t i = 0; i < image->n; i++) keep_sample(e, &image->samples[i]);
}

/* ---- states of images, protected by the lock */

static int empty_image(const struct evaluators *e, struct image *image, struct err *err) {
    struct pm_data_init init = PM_SIZED(struct pm_data_init);
    init.sampling = e->sampling;
    init.bytes = e->image_bytes;
    init.data = image->data;
    int rc = e->api->data_init(&init);
    return rc == PM_OK ? 0 : pm_api_error(e->api, rc, "emptying the sample image", err);
}

static struct image *find_image(struct evaluators *e, enum image_state state) {
    struct image *best = NULL;
    for (size_t i = 0; i < IMAGES; i++)
        if (e->images[i].state == state && (!best || e->images[i].turn < best->turn)) best = &e->images[i];
    return best;
}

static void set_state(struct evaluators *e, struct image *image, enum image_state state) {
    image->state = state;
    pthread_cond_broadcast(&e->changed);
}

static void set_failed(struct evaluators *e, const struct err *err) {
    if (!e->failed) e->err = *err;
    e->failed = true;
}

/* Called with the lock held. Evaluates and empties the image without the lock; writes its samples with the
 * lock, after the samples of all earlier images. */
static void process_image(struct evaluator *me, struct image *image) {
    struct evaluators *e = me->all;
    struct err err;
    uint64_t start_ns = clock_mono_ns();
    int rc = 0;
    pthread_mutex_unlock(&e->lock);
    for (size_t i = 0; i < image->n && rc == 0; i++)
        rc = evaluate_sample(e, me->host, image, i, &image->samples[i], &err);
    pthread_mutex_lock(&e->lock);
    e->busy_ns += clock_mono_ns() - start_ns;
    while (e->written != image->turn) pthread_cond_wait(&e->changed, &e->lock);
    if (rc == 0) write_samples(e, image);
    e->written++;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    if (rc == 0) rc = empty_image(e, image, &err);
    pthread_mutex_lock(&e->lock);
    if (rc < 0) set_failed(e, &err);
    set_state(e, image, IMAGE_EMPTY);
}

static void *evaluator_main(void *arg) {
    struct evaluator *me = arg;
    struct evaluators *e = me->all;
    pthread_mutex_lock(&e->lock);
    for (;;) {
        struct image *image = find_image(e, IMAGE_DECODED);
        if (image) {
            image->state = IMAGE_TAKEN;
            process_image(me, image);
        } else if (e->ending) {
            break;
        } else {
            pthread_cond_wait(&e->changed, &e->lock);
        }
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

struct image *evaluators_take_empty(struct evaluators *e) {
    pthread_mutex_lock(&e->lock);
    struct image *image = find_image(e, IMAGE_EMPTY);
    for (; !image && !e->failed; image = find_image(e, IMAGE_EMPTY)) pthread_cond_wait(&e->changed, &e->lock);
    if (e->failed) image = NULL;
    if (image) image->state = IMAGE_TAKEN;
    pthread_mutex_unlock(&e->lock);
    return image;
}

void evaluators_submit(struct evaluators *e, struct image *image) {
    pthread_mutex_lock(&e->lock);
    if (image->n) image->turn = e->submitted++;
    set_state(e, image, image->n ? IMAGE_DECODED : IMAGE_EMPTY);
    pthread_mutex_unlock(&e->lock);
}

void evaluators_wait(struct evaluators *e) {
    pthread_mutex_lock(&e->lock);
    while (e->written < e->submitted || find_image(e, IMAGE_DECODED) || find_image(e, IMAGE_TAKEN))
        pthread_cond_wait(&e->changed, &e->lock);
    pthread_mutex_unlock(&e->lock);
}

/* ---- open and close */

int evaluators_reset(struct evaluators *e, void *sampling, bool paused, struct err *err) {
    e->sampling = sampling;
    e->first_dropped = false;
    if (paused) e->last_end_ns = 0;
    for (size_t i = 0; i < IMAGES && !paused; i++)
        if (empty_image(e, &e->images[i], err) < 0) return -1;
    return 0;
}

/* With one or two cores, one evaluator thread is enough. */
static size_t thread_count(void) {
    cpu_set_t cores;
    int n = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
    return n > 2 ? EVALUATORS_MAX : 1;
}

static int start_thread(struct evaluators *e, struct evaluator *t, const char *chip,
                        const uint8_t *availability, struct err *err) {
    t->all = e;
    if (metrics_host(e->api, chip, availability, e->metrics, &t->host, err) < 0) return -1;
    if (pthread_create(&t->thread, NULL, evaluator_main, t) != 0)
        return err_set(err, "cannot start a thread to evaluate samples of GPU %zu", e->device);
    t->running = true;
    return 0;
}

int evaluators_open(struct evaluators *e, const char *chip, const uint8_t *availability, struct err *err) {
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    for (size_t i = 0; i < IMAGES; i++) {
        e->images[i].data = malloc(MAX(e->image_bytes, 1));
        e->images[i].samples = malloc(e->capacity * sizeof(struct trace_sample));
        if (!e->images[i].data || !e->images[i].samples)
            return err_set(err, "out of memory: %zu bytes for samples", IMAGES * e->image_bytes);
    }
    for (size_t n = thread_count(); e->nthreads < n; e->nthreads++)
        if (start_thread(e, &e->threads[e->nthreads], chip, availability, err) < 0) return -1;
    return 0;
}

void evaluators_close(struct evaluators *e) {
    if (!e->api) return;
    pthread_mutex_lock(&e->lock);
    e->ending = true;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    for (size_t i = 0; i < EVALUATORS_MAX; i++) {
        struct pm_host host = PM_SIZED(struct pm_host);
        host.host = e->threads[i].host;
        if (e->threads[i].running) pthread_join(e->threads[i].thread, NULL);
        if (host.host) e->api->host_close(&host);
    }
    for (size_t i = 0; i < IMAGES; i++) {
        free(e->images[i].data);
        free(e->images[i].samples);
    }
}
