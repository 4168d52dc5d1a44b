#include "counters/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/util.h"

#define HARDWARE_BUFFER_BYTES ((size_t)256 << 20)
#define IMAGE_SAMPLES 800u /* a sample takes some 32 kB of the image */
#define FINE_NS 100000
#define SHOWN_METRICS 6 /* of the wish list: those that reports show */
#define RESTARTS 5
#define DRAIN_NS 1000000000u
#define SLICE_NS 1000000 /* of a nap, between looks at what others want */
#define SYSCLK_GHZ 1.0   /* nominal; the interval in clocks need only be near the one asked for */

static int open_availability(struct sampler *s, struct err *err) {
    struct pm_availability a = PM_SIZED(struct pm_availability);
    a.device = s->device;
    int rc = s->api->availability(&a);
    if (rc != PM_OK) return pm_api_error(s->api, rc, "asking which counters there are", err);
    a.image = s->availability = malloc(a.bytes ? a.bytes : 1);
    if (!a.image) return err_set(err, "out of memory");
    rc = s->api->availability(&a);
    return rc == PM_OK ? 0 : pm_api_error(s->api, rc, "asking which counters there are", err);
}

static int enable(struct sampler *s, struct err *err) {
    struct pm_enable on = PM_SIZED(struct pm_enable);
    on.device = s->device;
    int rc = s->api->enable(&on);
    if (rc != PM_OK) return pm_api_error(s->api, rc, "taking hold of the counters", err);
    s->sampling = on.sampling;
    return 0;
}

/* By time where the chip can (GA10x and later), by clock where not (Turing, GA100). */
static int configure(struct sampler *s, struct err *err) {
    struct pm_configure c = PM_SIZED(struct pm_configure);
    c.sampling = s->sampling;
    c.bytes = s->metrics.config_bytes;
    c.image = s->metrics.config;
    c.buffer_bytes = HARDWARE_BUFFER_BYTES;
    c.interval = s->interval_ns;
    c.trigger = PM_TRIGGER_TIME;
    c.append = PM_KEEP_OLDEST;
    int rc = s->api->configure(&c);
    if (rc != PM_OK) {
        c.trigger = PM_TRIGGER_CLOCK;
        c.interval = (uint64_t)((double)s->interval_ns * SYSCLK_GHZ);
        rc = s->api->configure(&c);
        s->by_clock = true;
    }
    return rc == PM_OK ? 0 : pm_api_error(s->api, rc, "setting the sampling interval", err);
}

static int image_size(struct sampler *s, size_t *bytes, struct err *err) {
    struct pm_data_size size = PM_SIZED(struct pm_data_size);
    size.sampling = s->sampling;
    size.names = (const char **)(void *)(uintptr_t)s->metrics.names;
    size.n = s->metrics.n;
    size.max_samples = IMAGE_SAMPLES;
    int rc = s->api->data_size(&size);
    *bytes = size.bytes;
    return rc == PM_OK ? 0 : pm_api_error(s->api, rc, "sizing the sample image", err);
}

static int simple_call(struct sampler *s, int (*call)(struct pm_sampling *), const char *doing,
                       struct err *err) {
    struct pm_sampling p = PM_SIZED(struct pm_sampling);
    p.sampling = s->sampling;
    int rc = call(&p);
    return rc == PM_OK ? 0 : pm_api_error(s->api, rc, doing, err);
}

/* Decoding a sample takes the longer the more counters it holds: short intervals get those that reports
 * show. */
static size_t most_metrics(uint64_t interval_ns) {
    return interval_ns > FINE_NS ? (size_t)METRICS_MAX : (size_t)SHOWN_METRICS;
}

static int start(struct sampler *s, bool paused, struct err *err) {
    if (evaluators_reset(&s->evaluators, s->sampling, paused, err) < 0) return -1;
    return simple_call(s, s->api->start, "starting to sample", err);
}

static int open_evaluators(struct sampler *s, struct err *err) {
    struct evaluators *e = &s->evaluators;
    *e = (struct evaluators){ .api = s->api,
                              .trace = s->trace,
                              .metrics = &s->metrics,
                              .device = s->device,
                              .metrics_text = trace_writer_str(s->trace, s->metrics.listed),
                              .capacity = IMAGE_SAMPLES };
    if (image_size(s, &e->image_bytes, err) < 0) return -1;
    return evaluators_open(e, s->chip, s->availability, err);
}

int sampler_open(struct sampler *s, struct err *err) {
    struct pm_chip_name chip = PM_SIZED(struct pm_chip_name);
    chip.device = s->device;
    int rc = s->api->chip_name(&chip);
    if (rc != PM_OK) return pm_api_error(s->api, rc, "asking for the chip's name", err);
    s->chip = chip.name;
    if (open_availability(s, err) < 0 ||
        metrics_choose(s->api, s->chip, s->availability, most_metrics(s->interval_ns), &s->metrics, err) <
            0 ||
        enable(s, err) < 0 || configure(s, err) < 0 || open_evaluators(s, err) < 0)
        return -1;
    return start(s, false, err);
}

static bool called(const struct sampler *s) { return atomic_load(s->stop) || atomic_load(s->pause); }

/* Wakes when about half an image must have filled, or somebody wants something. An image that fills up
 * costs samples: what CUPTI had read besides is gone. */
static void nap(const struct sampler *s) {
    uint64_t ns = MIN(MAX(s->interval_ns * IMAGE_SAMPLES / 2, 1000000u), 50000000u);
    for (uint64_t slept = 0; slept < ns && !called(s); slept += SLICE_NS)
        nanosleep(&(struct timespec){ .tv_nsec = SLICE_NS }, NULL);
}

static void let_go(struct sampler *s) {
    struct err ignored;
    if (!s->sampling) return;
    simple_call(s, s->api->stop, "stopping to sample", &ignored);
    simple_call(s, s->api->disable, "letting go of the counters", &ignored);
    s->sampling = NULL;
}

/* So far behind that CUPTI cannot decode what piled up: those samples are lost, the next ones need not be.
 * Starting again with the old handle was seen to fail, so everything is let go and taken again. */
static int start_again(struct sampler *s, bool *more, struct err *err) {
    s->overflows++;
    trace_writer_lost(s->trace, TRACE_SAMPLE, TRACE_LOST_SOURCE, 1);
    *more = false;
    evaluators_wait(&s->evaluators);
    for (int tries = 0; tries < RESTARTS && !atomic_load(s->stop); tries++) {
        let_go(s);
        if (enable(s, err) == 0 && configure(s, err) == 0 && start(s, false, err) == 0) return 0;
        nap(s);
    }
    return atomic_load(s->stop) ? 0 : -1;
}

/* Returns CUPTI's code. */
static int decode(struct sampler *s, struct image *image, bool *more) {
    struct pm_decode d = PM_SIZED(struct pm_decode);
    d.size = offsetof(struct pm_decode, overflow) + sizeof d.overflow;
    d.sampling = s->sampling;
    d.data = image->data;
    d.bytes = s->evaluators.image_bytes;
    uint64_t start_ns = clock_mono_ns();
    int rc = s->api->decode(&d);
    s->decode_ns += clock_mono_ns() - start_ns;
    *more = d.stop_reason == PM_STOP_DATA_FULL;
    if (rc != PM_OK) return rc;
    if (d.overflow) {
        s->overflows++;
        trace_writer_lost(s->trace, TRACE_SAMPLE, TRACE_LOST_SOURCE, 1);
    }
    struct pm_data_info info = PM_SIZED(struct pm_data_info);
    info.data = image->data;
    info.bytes = s->evaluators.image_bytes;
    rc = s->api->data_info(&info);
    image->n = rc == PM_OK ? MIN(info.completed, (size_t)IMAGE_SAMPLES) : 0;
    s->decoded += image->n;
    return rc;
}

/* One image full, for others to evaluate. *more: the hardware holds further samples. */
static int drain(struct sampler *s, bool *more, struct err *err) {
    struct image *image = evaluators_empty(&s->evaluators);
    if (!image) {
        *err = s->evaluators.err;
        return -1;
    }
    image->n = 0;
    int rc = decode(s, image, more);
    evaluators_give(&s->evaluators, image);
    if (rc == PM_OUT_OF_MEMORY) return start_again(s, more, err);
    return rc == PM_OK ? 0 : pm_api_error(s->api, rc, "decoding samples", err);
}

/* What the hardware still holds once it has stopped; nobody is kept waiting for it. */
static int drain_rest(struct sampler *s, struct err *err) {
    bool more = true;
    uint64_t start_ns = clock_mono_ns();
    if (simple_call(s, s->api->stop, "stopping to sample", err) < 0) return -1;
    while (more && s->sampling && clock_mono_ns() - start_ns < DRAIN_NS)
        if (drain(s, &more, err) < 0) return -1;
    evaluators_wait(&s->evaluators);
    return 0;
}

/* The counters stay ours, but nothing is sampled; the pause is no gap. */
static int rest(struct sampler *s, struct err *err) {
    if (drain_rest(s, err) < 0) return -1;
    atomic_store(&s->resting, true);
    while (atomic_load(s->pause) && !atomic_load(s->stop))
        nanosleep(&(struct timespec){ .tv_nsec = SLICE_NS / 4 }, NULL);
    if (atomic_load(s->stop) || !s->sampling) return 0;
    if (start(s, true, err) < 0) return -1;
    atomic_store(&s->resting, false);
    return 0;
}

int sampler_loop(struct sampler *s, struct err *err) {
    int rc = 0;
    while (rc == 0 && s->sampling && !atomic_load(s->stop)) {
        bool more = false;
        rc = atomic_load(s->pause) ? rest(s, err) : drain(s, &more, err);
        if (rc == 0 && !more) nap(s);
    }
    return rc == 0 && s->sampling ? drain_rest(s, err) : rc;
}

void sampler_close(struct sampler *s) {
    struct err ignored;
    evaluators_close(&s->evaluators);
    if (s->sampling) simple_call(s, s->api->disable, "letting go of the counters", &ignored);
    metrics_free(&s->metrics);
    free(s->availability);
}
