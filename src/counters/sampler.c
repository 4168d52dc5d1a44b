#include "counters/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/util.h"

#define HARDWARE_BUFFER_BYTES ((size_t)256 << 20)
#define IMAGE_SAMPLES 2000u /* a sample takes some 38 kB of the image */
#define METRIC_COST_NS \
    4000         /* evaluating one metric of one sample, until it was timed; CUPTI lets threads take turns */
#define LOAD 0.9 /* of the time between samples that may go into decoding and evaluating them */
#define BEHIND 0.3 /* where decoding alone takes longer: evaluating may add so much to it */
#define FINE_NS 100000
#define SHOWN_METRICS 6 /* of the wish list: those that reports show */
#define ALWAYS_METRICS \
    4 /* SM, tensor pipes, DRAM read and write: in every sample, where there is time for more */
#define TIMED_SAMPLES 200 /* in an image, for its cost to be believed */
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

static int make_image(struct sampler *s, struct err *err) {
    struct pm_data_size size = PM_SIZED(struct pm_data_size);
    size.sampling = s->sampling;
    size.names = (const char **)(void *)(uintptr_t)s->metrics.names;
    size.n = s->metrics.n;
    size.max_samples = IMAGE_SAMPLES;
    int rc = s->api->data_size(&size);
    if (rc != PM_OK) return pm_api_error(s->api, rc, "sizing the sample image", err);
    s->data_bytes = size.bytes;
    free(s->data);
    free(s->batch);
    s->data = malloc(size.bytes ? size.bytes : 1);
    s->batch = malloc(IMAGE_SAMPLES * sizeof *s->batch);
    return s->data && s->batch ? 0 : err_set(err, "out of memory: %zu bytes for samples", size.bytes);
}

static int reset_image(struct sampler *s, struct err *err) {
    struct pm_data_init init = PM_SIZED(struct pm_data_init);
    init.sampling = s->sampling;
    init.bytes = s->data_bytes;
    init.data = s->data;
    int rc = s->api->data_init(&init);
    return rc == PM_OK ? 0 : pm_api_error(s->api, rc, "emptying the sample image", err);
}

static int simple_call(struct sampler *s, int (*call)(struct pm_sampling *), const char *doing,
                       struct err *err) {
    struct pm_sampling p = PM_SIZED(struct pm_sampling);
    p.sampling = s->sampling;
    int rc = call(&p);
    return rc == PM_OK ? 0 : pm_api_error(s->api, rc, doing, err);
}

/* Decoding a sample takes the longer the more counters it holds: short intervals get those that reports show. */
static size_t most_metrics(uint64_t interval_ns) {
    return interval_ns > FINE_NS ? (size_t)METRICS_MAX : (size_t)SHOWN_METRICS;
}

/* All are counted in every sample, but only so many can be evaluated while the next one is taken. Where time does not
 * suffice, those that reports show are evaluated in turn: each is then known of some samples, of all parts of a run. */
static void share_time(struct sampler *s) {
    double spare_ns = MAX(LOAD * (double)s->interval_ns - s->decode_cost_ns, BEHIND * s->decode_cost_ns),
           each = spare_ns / (s->metric_cost_ns * (double)MAX(s->devices, 1));
    size_t at_once = (size_t)MIN(MAX(each, 1), METRICS_MAX);
    s->pool = at_once >= s->metrics.n ? s->metrics.n : MIN(s->metrics.n, (size_t)SHOWN_METRICS);
    at_once = MIN(at_once, s->pool);
    s->always = at_once == s->pool ? at_once : at_once > ALWAYS_METRICS ? (size_t)ALWAYS_METRICS : 0;
    s->in_turn = at_once - s->always;
}

static int begin(struct sampler *s, struct err *err) {
    if (enable(s, err) < 0 || configure(s, err) < 0 || make_image(s, err) < 0 || reset_image(s, err) < 0)
        return -1;
    return simple_call(s, s->api->start, "starting to sample", err);
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
        metrics_host(s->api, s->chip, s->availability, &s->metrics, &s->host, err) < 0)
        return -1;
    s->metric_cost_ns = METRIC_COST_NS;
    share_time(s);
    s->metrics_text = trace_writer_str(s->trace, s->metrics.listed);
    return begin(s, err);
}

/* ---- an image of samples to records */

/* The places of the metrics to evaluate now; the others' turn comes with the next samples. */
static size_t pick_metrics(struct sampler *s, size_t *at) {
    size_t n = 0, others = s->pool - s->always;
    while (n < s->always) at[n] = n, n++;
    for (size_t i = 0; i < s->in_turn; i++, s->turn++) at[n++] = s->always + s->turn % others;
    return n;
}

static int evaluate(struct sampler *s, size_t i, struct trace_sample *out, struct err *err) {
    struct pm_sample_info info = PM_SIZED(struct pm_sample_info);
    info.sampling = s->sampling;
    info.data = s->data;
    info.bytes = s->data_bytes;
    info.sample = i;
    int rc = s->api->sample_info(&info);
    if (rc != PM_OK) return pm_api_error(s->api, rc, "reading a sample's time", err);
    *out = (struct trace_sample){ .start_ns = info.start_ns,
                                  .end_ns = info.end_ns,
                                  .device = (uint32_t)s->device,
                                  .metrics = s->metrics_text };
    double *values = (double *)(void *)((char *)out + offsetof(struct trace_sample, v0)), /* v0 to v15 */
        seen[METRICS_MAX];
    const char *names[METRICS_MAX];
    size_t at[METRICS_MAX], n = pick_metrics(s, at);
    for (size_t k = 0; k < TRACE_SAMPLE_VALUES; k++) values[k] = NAN;
    for (size_t k = 0; k < n; k++) names[k] = s->metrics.names[at[k]];
    struct pm_evaluate e = PM_SIZED(struct pm_evaluate);
    e.host = s->host;
    e.data = s->data;
    e.bytes = s->data_bytes;
    e.sample = i;
    e.names = names;
    e.n = n;
    e.values = seen;
    rc = s->api->evaluate(&e);
    for (size_t k = 0; rc == PM_OK && k < n; k++) values[at[k]] = seen[k];
    return rc == PM_OK ? 0 : pm_api_error(s->api, rc, "evaluating a sample", err);
}

/* Samples follow each other without a gap; where there is one, some were lost on the way. */
static void count_missing(struct sampler *s, const struct trace_sample *sample) {
    uint64_t interval = sample->end_ns - sample->start_ns;
    if (s->last_end_ns == 0 || sample->start_ns < s->last_end_ns + interval / 2) return;
    uint64_t n = (sample->start_ns - s->last_end_ns + interval / 2) / interval;
    s->missing += n;
    trace_writer_lost(s->trace, TRACE_SAMPLE, TRACE_LOST_SOURCE, n);
}

/* Only a time that makes no sense is a reason to refuse a sample. The very first spans from some moment before the start. */
static void keep(struct sampler *s, const struct trace_sample *sample) {
    if (!s->first_dropped) {
        s->first_dropped = true;
        return;
    }
    if (sample->end_ns <= sample->start_ns) {
        trace_writer_lost(s->trace, TRACE_SAMPLE, TRACE_LOST_UNTRUSTED, 1);
        return;
    }
    count_missing(s, sample);
    s->last_end_ns = MAX(s->last_end_ns, sample->end_ns);
    s->samples += trace_writer_sample(s->trace, sample, 1);
}

static bool called(const struct sampler *s) { return atomic_load(s->stop) || atomic_load(s->pause); }

/* Wakes when about half an image must have filled, or somebody wants something. */
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
    s->first_dropped = false;
}

/* So far behind that CUPTI cannot decode what piled up: those samples are lost, the next ones need not be. Starting again
 * with the old handle was seen to fail, so everything is let go and taken again. */
static int start_again(struct sampler *s, bool *more, struct err *err) {
    s->overflows++;
    trace_writer_lost(s->trace, TRACE_SAMPLE, TRACE_LOST_SOURCE, 1);
    *more = false;
    for (int tries = 0; tries < RESTARTS && !atomic_load(s->stop); tries++) {
        let_go(s);
        if (begin(s, err) == 0) return 0;
        nap(s);
    }
    return atomic_load(s->stop) ? 0 : -1;
}

static int by_start(const void *a, const void *b) {
    uint64_t x = ((const struct trace_sample *)a)->start_ns, y = ((const struct trace_sample *)b)->start_ns;
    return (x > y) - (x < y);
}

/* What the last image cost decides how much of the next is evaluated: half old, half new, as one image's figure may owe
 * to somebody else on this core. */
static void time_metrics(struct sampler *s, uint64_t took_ns, uint64_t evaluated, size_t samples) {
    s->evaluate_ns += took_ns;
    s->evaluated += evaluated;
    if (samples < TIMED_SAMPLES) return;
    double cost = (double)took_ns / (double)evaluated / (double)MAX(s->devices, 1);
    s->metric_cost_ns = (s->metric_cost_ns + cost) / 2;
    s->decode_cost_ns = (s->decode_cost_ns + (double)s->last_decode_ns / (double)samples) / 2;
    share_time(s);
}

/* The hardware hands samples over in runs that need not be in order. */
static int evaluate_all(struct sampler *s, size_t n, struct err *err) {
    uint64_t start_ns = clock_mono_ns(), evaluated = n * (s->always + s->in_turn);
    for (size_t i = 0; i < n; i++) {
        if (evaluate(s, i, &s->batch[i], err) < 0) return -1;
        s->out_of_order += s->batch[i].start_ns < (i ? s->batch[i - 1].start_ns : s->last_end_ns);
    }
    time_metrics(s, clock_mono_ns() - start_ns, evaluated, n);
    qsort(s->batch, n, sizeof *s->batch, by_start);
    for (size_t i = 0; i < n; i++) keep(s, &s->batch[i]);
    return 0;
}

/* One image full: decoded, evaluated, emptied. *more: the hardware holds further samples. */
static int drain(struct sampler *s, bool *more, struct err *err) {
    struct pm_decode d = PM_SIZED(struct pm_decode);
    d.size = offsetof(struct pm_decode, overflow) + sizeof d.overflow;
    d.sampling = s->sampling;
    d.data = s->data;
    d.bytes = s->data_bytes;
    uint64_t decode_ns = clock_mono_ns();
    int rc = s->api->decode(&d);
    s->last_decode_ns = clock_mono_ns() - decode_ns;
    s->decode_ns += s->last_decode_ns;
    if (rc == PM_OUT_OF_MEMORY) return start_again(s, more, err);
    if (rc != PM_OK) return pm_api_error(s->api, rc, "decoding samples", err);
    if (d.overflow) {
        s->overflows++;
        trace_writer_lost(s->trace, TRACE_SAMPLE, TRACE_LOST_SOURCE, 1);
    }
    struct pm_data_info info = PM_SIZED(struct pm_data_info);
    info.data = s->data;
    info.bytes = s->data_bytes;
    rc = s->api->data_info(&info);
    if (rc != PM_OK) return pm_api_error(s->api, rc, "counting samples", err);
    if (evaluate_all(s, MIN(info.completed, (size_t)IMAGE_SAMPLES), err) < 0) return -1;
    *more = d.stop_reason == PM_STOP_DATA_FULL;
    return info.completed ? reset_image(s, err) : 0;
}

/* What the hardware still holds once it has stopped; nobody is kept waiting for it. */
static int drain_rest(struct sampler *s, struct err *err) {
    bool more = true;
    uint64_t start_ns = clock_mono_ns();
    if (simple_call(s, s->api->stop, "stopping to sample", err) < 0) return -1;
    while (more && s->sampling && clock_mono_ns() - start_ns < DRAIN_NS)
        if (drain(s, &more, err) < 0) return -1;
    return 0;
}

/* Nothing is sampled meanwhile, and the counters are anybody's; the pause is no gap. */
static int rest(struct sampler *s, struct err *err) {
    if (drain_rest(s, err) < 0) return -1;
    let_go(s);
    s->last_end_ns = 0;
    atomic_store(&s->resting, true);
    while (atomic_load(s->pause) && !atomic_load(s->stop))
        nanosleep(&(struct timespec){ .tv_nsec = SLICE_NS }, NULL);
    if (atomic_load(s->stop)) return 0;
    if (begin(s, err) < 0) return -1;
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
    struct pm_host host = PM_SIZED(struct pm_host);
    if (s->sampling) simple_call(s, s->api->disable, "letting go of the counters", &ignored);
    host.host = s->host;
    if (s->host) s->api->host_close(&host);
    metrics_free(&s->metrics);
    free(s->availability);
    free(s->data);
    free(s->batch);
}
