#include "counters/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/util.h"

#define HARDWARE_BUFFER_BYTES ((size_t)256 << 20)
#define IMAGE_SAMPLES 800u /* samples per image; a sample takes about 32 kB */
#define SHORT_INTERVAL_NS 100000
#define SHORT_INTERVAL_METRICS 6 /* with short intervals; the reports show these metrics */
#define MAX_RESTARTS 5
#define DRAIN_NS 1000000000u
#define SLEEP_SLICE_NS 1000000 /* time between checks of the stop and pause flags */
#define SYSCLK_GHZ 1.0         /* nominal clock; an interval given in clocks is only approximate */

static int open_availability(struct sampler *s, struct err *err) {
    struct pm_availability a = PM_SIZED(struct pm_availability);
    a.device = s->device;
    int rc = s->api->availability(&a);
    if (rc != PM_OK) return pm_api_error(s->api, rc, "querying the available counters", err);
    a.image = s->availability = malloc(a.bytes ? a.bytes : 1);
    if (!a.image) return err_set(err, "out of memory");
    rc = s->api->availability(&a);
    return rc == PM_OK ? 0 : pm_api_error(s->api, rc, "querying the available counters", err);
}

static int enable_sampling(struct sampler *s, struct err *err) {
    struct pm_enable on = PM_SIZED(struct pm_enable);
    on.device = s->device;
    int rc = s->api->enable(&on);
    if (rc != PM_OK) return pm_api_error(s->api, rc, "acquiring the counters", err);
    s->sampling = on.sampling;
    return 0;
}

/* Triggers samples by time if the chip can (GA10x and later), otherwise by clock (Turing, GA100). */
static int configure_sampling(struct sampler *s, struct err *err) {
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

static int sampling_call(struct sampler *s, int (*call)(struct pm_sampling *), const char *doing,
                         struct err *err) {
    struct pm_sampling p = PM_SIZED(struct pm_sampling);
    p.sampling = s->sampling;
    int rc = call(&p);
    return rc == PM_OK ? 0 : pm_api_error(s->api, rc, doing, err);
}

/* The time to decode a sample grows with the number of metrics, so with short intervals only the metrics
 * shown in reports are sampled. */
static size_t max_metrics(uint64_t interval_ns) {
    return interval_ns > SHORT_INTERVAL_NS ? (size_t)METRICS_MAX : (size_t)SHORT_INTERVAL_METRICS;
}

static int start_sampling(struct sampler *s, bool paused, struct err *err) {
    if (evaluators_reset(&s->evaluators, s->sampling, paused, err) < 0) return -1;
    return sampling_call(s, s->api->start, "starting sampling", err);
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
    if (rc != PM_OK) return pm_api_error(s->api, rc, "querying the chip name", err);
    s->chip = chip.name;
    if (open_availability(s, err) < 0 ||
        metrics_choose(s->api, s->chip, s->availability, max_metrics(s->interval_ns), &s->metrics, err) < 0 ||
        enable_sampling(s, err) < 0 || configure_sampling(s, err) < 0 || open_evaluators(s, err) < 0)
        return -1;
    return start_sampling(s, false, err);
}

static bool is_interrupted(const struct sampler *s) { return atomic_load(s->stop) || atomic_load(s->pause); }

/* Sleeps until about half an image has filled (1 to 50 ms), or stop or pause is requested. If an image fills
 * up, samples that CUPTI has already read beyond it are lost. */
static void sampler_sleep(const struct sampler *s) {
    uint64_t ns = MIN(MAX(s->interval_ns * IMAGE_SAMPLES / 2, 1000000u), 50000000u);
    for (uint64_t slept = 0; slept < ns && !is_interrupted(s); slept += SLEEP_SLICE_NS)
        nanosleep(&(struct timespec){ .tv_nsec = SLEEP_SLICE_NS }, NULL);
}

static void release_counters(struct sampler *s) {
    struct err ignored;
    if (!s->sampling) return;
    sampling_call(s, s->api->stop, "stopping sampling", &ignored);
    sampling_call(s, s->api->disable, "releasing the counters", &ignored);
    s->sampling = NULL;
}

/* Discards a backlog that CUPTI cannot decode and restarts sampling. The samples in the backlog are lost. In
 * tests, starting again with the old handle failed, so the counters are released and acquired again. */
static int restart_sampling(struct sampler *s, bool *more, struct err *err) {
    s->overflows++;
    trace_writer_lost(s->trace, TRACE_SAMPLE, TRACE_LOST_SOURCE, 1);
    *more = false;
    evaluators_wait(&s->evaluators);
    for (int tries = 0; tries < MAX_RESTARTS && !atomic_load(s->stop); tries++) {
        release_counters(s);
        if (enable_sampling(s, err) == 0 && configure_sampling(s, err) == 0 &&
            start_sampling(s, false, err) == 0)
            return 0;
        sampler_sleep(s);
    }
    return atomic_load(s->stop) ? 0 : -1;
}

/* Decodes samples into the image. Returns CUPTI's result code. */
static int decode_samples(struct sampler *s, struct image *image, bool *more) {
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

/* Decodes into one image and submits it. *more is set if the hardware has further samples. */
static int drain_image(struct sampler *s, bool *more, struct err *err) {
    struct image *image = evaluators_take_empty(&s->evaluators);
    if (!image) {
        *err = s->evaluators.err;
        return -1;
    }
    image->n = 0;
    int rc = decode_samples(s, image, more);
    evaluators_submit(&s->evaluators, image);
    if (rc == PM_OUT_OF_MEMORY) return restart_sampling(s, more, err);
    return rc == PM_OK ? 0 : pm_api_error(s->api, rc, "decoding samples", err);
}

/* Stops sampling and decodes the remaining samples of the hardware, for at most DRAIN_NS. */
static int stop_and_drain(struct sampler *s, struct err *err) {
    bool more = true;
    uint64_t start_ns = clock_mono_ns();
    if (sampling_call(s, s->api->stop, "stopping sampling", err) < 0) return -1;
    while (more && s->sampling && clock_mono_ns() - start_ns < DRAIN_NS)
        if (drain_image(s, &more, err) < 0) return -1;
    evaluators_wait(&s->evaluators);
    return 0;
}

/* Keeps the counters, but takes no samples until resumed. The pause does not count as missing samples. */
static int pause_sampling(struct sampler *s, struct err *err) {
    if (stop_and_drain(s, err) < 0) return -1;
    atomic_store(&s->paused, true);
    while (atomic_load(s->pause) && !atomic_load(s->stop))
        nanosleep(&(struct timespec){ .tv_nsec = SLEEP_SLICE_NS / 4 }, NULL);
    if (atomic_load(s->stop) || !s->sampling) return 0;
    if (start_sampling(s, true, err) < 0) return -1;
    atomic_store(&s->paused, false);
    return 0;
}

int sampler_loop(struct sampler *s, struct err *err) {
    int rc = 0;
    while (rc == 0 && s->sampling && !atomic_load(s->stop)) {
        bool more = false;
        rc = atomic_load(s->pause) ? pause_sampling(s, err) : drain_image(s, &more, err);
        if (rc == 0 && !more) sampler_sleep(s);
    }
    return rc == 0 && s->sampling ? stop_and_drain(s, err) : rc;
}

void sampler_close(struct sampler *s) {
    struct err ignored;
    evaluators_close(&s->evaluators);
    if (s->sampling) sampling_call(s, s->api->disable, "releasing the counters", &ignored);
    metrics_free(&s->metrics);
    free(s->availability);
}
