#include "analyze/counters.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/counter_events.h"
#include "analyze/counter_fit.h"
#include "analyze/internal.h"
#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"

/* Limits for the quality of an estimate: exposure in sample intervals, standard error in percentage
 * points. */
#define GOOD_EXPOSURE 20.0
#define GOOD_ERROR 2.5
#define FAIR_EXPOSURE 5.0
#define FAIR_ERROR 8.0
/* estimates for shorter kernels depend on the lag between the clocks of samples and kernels, so they are
 * never "good" */
#define SHORT_NS 3000.0
#define LEAST_SM_PCT 0.2 /* one active multiprocessor of 500; lower values are not possible */
/* Thresholds that decide which resource bounds a kernel. */
#define COMPUTE_PCT 60.0
#define MEMORY_PCT 60.0
/* Range of clocks at which a peak may be specified, as fractions of the highest clock. */
#define NEAR_LOW 0.85
#define NEAR_HIGH 1.05

/* Prefixes of metric names: first the names of the counter sampler, then the names of Nsight Systems. */
static const struct {
    const char *name, *prefix[4];
} slots[COUNTER_SLOTS] = {
    [COUNTER_SM] = { "sm_pct", { "sm__cycles_active.", "SMs Active [Throughput %]" } },
    [COUNTER_TENSOR] = { "tensor_pct",
                         { "sm__pipe_tensor_cycles_active.", "sm__inst_executed_pipe_tensor.",
                           "Tensor Active [Throughput %]", "Tensor Active / FP16 Active [Throughput %]" } },
    [COUNTER_DRAM_READ] = { "dram_read_pct",
                            { "dram__read_throughput.", "dram__read_bytes.",
                              "DRAM Read Bandwidth [Throughput %]" } },
    [COUNTER_DRAM_WRITE] = { "dram_write_pct",
                             { "dram__write_throughput.", "dram__write_bytes.",
                               "DRAM Write Bandwidth [Throughput %]" } },
    [COUNTER_OCCUPANCY] = { "occupancy_pct",
                            { "tpc__warps_active_shader_cs_realtime.", "sm__warps_active.",
                              "Compute Warps in Flight [Throughput %]" } },
    [COUNTER_CLOCK] = { "sm_clock_hz",
                        { "gpc__cycles_elapsed.", "sm__cycles_elapsed.", "GPC Clock Frequency [MHz]" } },
};
/* Values below this are taken as MHz. Nsight Systems names its metric [MHz], but the known versions store
 * Hz. */
#define LEAST_CLOCK_HZ 1e5f

const char *counter_slot_name(enum counter_slot s) { return slots[s].name; }

const char *counter_quality_name(enum counter_quality q) {
    return q == COUNTER_GOOD ? "good" : q == COUNTER_FAIR ? "fair" : "unknown";
}

const char *counter_bound_name(enum counter_bound b) {
    static const char *const names[] = { "unknown", "compute", "memory", "latency" };
    return names[b];
}

/* ---- samples as a table of slots, by device */

struct table_of_samples {
    uint64_t *start_ns, *end_ns;
    float *values; /* [n][COUNTER_SLOTS] */
    size_t n;
};

static int slot_of(const struct timeline *tl, uint32_t set, enum counter_slot s) {
    const struct timeline_metric_set *m = &tl->metric_sets[set];
    for (uint32_t i = 0; i < m->n; i++)
        for (size_t k = 0; k < COUNTOF(slots[s].prefix); k++) {
            const char *p = slots[s].prefix[k];
            if (p && strncmp(timeline_text(tl, m->names[i]), p, strlen(p)) == 0) return (int)i;
        }
    return -1;
}

static void take_values(const struct timeline *tl, size_t i, float *out) {
    for (int s = 0; s < COUNTER_SLOTS; s++) {
        int at = slot_of(tl, tl->samples.set[i], (enum counter_slot)s);
        out[s] = at < 0 ? NAN : tl->sample_values[tl->samples.first[i] + (uint64_t)at];
    }
    if (out[COUNTER_CLOCK] < LEAST_CLOCK_HZ) out[COUNTER_CLOCK] *= 1e6f;
}

/* Collects the samples in time order. Drops a sample that starts before the end of the previous one. */
static void gather_samples(const struct timeline *tl, uint32_t device, struct table_of_samples *t) {
    size_t n = tl->samples.n;
    *t = (struct table_of_samples){ xmalloc(n * sizeof(uint64_t)), xmalloc(n * sizeof(uint64_t)),
                                    xmalloc(n * COUNTER_SLOTS * sizeof(float)), 0 };
    uint64_t last_end = 0;
    for (size_t i = 0; i < n; i++) {
        if (tl->samples.device[i] != device || tl->samples.start_ns[i] < last_end) continue;
        t->start_ns[t->n] = tl->samples.start_ns[i];
        t->end_ns[t->n] = last_end = tl->samples.end_ns[i];
        take_values(tl, i, t->values + t->n * COUNTER_SLOTS);
        t->n++;
    }
}

static void free_samples(struct table_of_samples *t) {
    free(t->start_ns);
    free(t->end_ns);
    free(t->values);
}

/* ---- classes: one per kernel row and stage */

static uint32_t stage_of(const struct analysis *a, size_t kernel) {
    uint32_t occurrence = a->kernel_occurrence[kernel];
    return occurrence == ANALYSIS_NONE ? (uint32_t)a->nstages : a->occurrences[occurrence].stage;
}

/* A class is a (kernel row, stage) pair that occurs on the device. pairs.v[class] = kernel * (nstages + 1) +
 * stage; stage nstages: outside of stages. */
struct classes {
    uint32_t *of_pair; /* ANALYSIS_NONE: does not occur */
    struct {
        uint64_t *v;
        size_t n, cap;
    } pairs;
    struct {
        struct class_sum {
            uint64_t calls;
            double ns;
        } * v;
        size_t n, cap;
    } sums;              /* by class */
    uint32_t *of_kernel; /* class of each kernel */
};

static void number_classes(const struct analysis *a, const struct timeline_device *d, struct classes *c) {
    size_t per = a->nstages + 1, npairs = MAX(a->nkernels * per, 1);
    *c = (struct classes){ .of_pair = xmalloc(npairs * sizeof(uint32_t)),
                           .of_kernel = xmalloc(MAX(d->kernel_count, 1) * sizeof(uint32_t)) };
    memset(c->of_pair, 0xff, npairs * sizeof(uint32_t));
    for (size_t i = 0; i < d->kernel_count; i++) {
        size_t k = d->first_kernel + i;
        uint64_t pair = (uint64_t)a->shape_kernel[a->timeline->kernels.shape[k]] * per + stage_of(a, k);
        if (c->of_pair[pair] == ANALYSIS_NONE) {
            c->of_pair[pair] = (uint32_t)c->pairs.n;
            vec_push(&c->pairs, pair);
            vec_push(&c->sums, ((struct class_sum){ 0 }));
        }
        struct class_sum *sum = &c->sums.v[c->of_kernel[i] = c->of_pair[pair]];
        sum->calls++;
        sum->ns += (double)(a->timeline->kernels.end_ns[k] - a->timeline->kernels.start_ns[k]);
    }
}

static void free_classes(struct classes *c) {
    free(c->of_pair);
    free(c->pairs.v);
    free(c->sums.v);
    free(c->of_kernel);
}

/* ---- rows */

static enum counter_quality judge(double exposure, double error_pct) {
    if (isnan(error_pct)) return COUNTER_UNKNOWN;
    if (exposure >= GOOD_EXPOSURE && error_pct <= GOOD_ERROR) return COUNTER_GOOD;
    return exposure >= FAIR_EXPOSURE && error_pct <= FAIR_ERROR ? COUNTER_FAIR : COUNTER_UNKNOWN;
}

static enum counter_bound bound_of(const double *v) {
    double dram = v[COUNTER_DRAM_READ] + v[COUNTER_DRAM_WRITE];
    if (v[COUNTER_TENSOR] >= COMPUTE_PCT) return COUNTER_BOUND_COMPUTE;
    if (dram >= MEMORY_PCT) return COUNTER_BOUND_MEMORY;
    return isnan(dram) || isnan(v[COUNTER_TENSOR]) ? COUNTER_BOUND_UNKNOWN : COUNTER_BOUND_LATENCY;
}

/* A percentage is kept or discarded by its own error. The clock is kept only if the quality of the row is
 * "good": it hardly varies, so its fit is mostly noise. */
static void fill_row(struct counter_row *row, const struct counter_fit *f, uint32_t class) {
    size_t stride = (size_t)f->nclasses + 1;
    /* A kernel uses at least one multiprocessor. A lower value means that the fit attributed its share to
     * neighbouring kernels. */
    double exposure = f->rate[COUNTER_SM * stride + class] < LEAST_SM_PCT ? 0 : f->exposure[class];
    row->quality = judge(exposure, f->error[COUNTER_SM * stride + class]);
    if (row->mean_ns < SHORT_NS) row->quality = MIN(row->quality, COUNTER_FAIR);
    for (size_t s = 0; s < COUNTER_SLOTS; s++) {
        double error = f->error[s * stride + class];
        double value = f->rate[s * stride + class];
        bool usable =
            s == COUNTER_CLOCK ? row->quality == COUNTER_GOOD : judge(exposure, error) != COUNTER_UNKNOWN;
        row->value[s] = usable ? (s == COUNTER_CLOCK ? value : MIN(value, 100.0)) : NAN;
        row->error[s] = usable ? error : NAN;
    }
    row->bound = bound_of(row->value);
}

static void add_rows(const struct analysis *a, const struct classes *c, const struct counter_fit *f,
                     double interval_ns, struct analysis_counters *out, size_t *cap) {
    size_t per = a->nstages + 1;
    for (uint32_t class = 0; class < c->pairs.n; class ++) {
        struct counter_row row = { .kernel = (uint32_t)(c->pairs.v[class] / per),
                                   .stage = (uint32_t)(c->pairs.v[class] % per),
                                   .calls = c->sums.v[class].calls,
                                   .mean_ns = c->sums.v[class].ns / (double)c->sums.v[class].calls,
                                   .exposure = f->exposure[class],
                                   .exposure_ns = f->exposure[class] * interval_ns };
        if (row.stage == a->nstages) row.stage = ANALYSIS_NONE;
        fill_row(&row, f, class);
        out->rows = vec_fit(out->rows, out->nrows + 1, cap, sizeof *out->rows);
        out->rows[out->nrows++] = row;
    }
}

static double mean_interval(const struct table_of_samples *t) {
    double sum = 0;
    for (size_t i = 0; i < t->n; i++) sum += (double)(t->end_ns[i] - t->start_ns[i]);
    return t->n ? sum / (double)t->n : NAN;
}

static void fit_samples(const struct analysis *a, uint32_t device, const struct table_of_samples *t,
                        struct analysis_counters *out, size_t *cap) {
    const struct timeline *tl = a->timeline;
    struct classes c;
    struct counter_events e;
    struct counter_fit fit;
    number_classes(a, &tl->devices[device], &c);
    counter_events_make(tl, &tl->devices[device], c.of_kernel, (uint32_t)c.pairs.n, &e);
    struct counter_fit_input in = { .nkernels = e.n,
                                    .start_ns = e.start_ns,
                                    .end_ns = e.end_ns,
                                    .class_of = e.class_of,
                                    .nclasses = (uint32_t)c.pairs.n + TRACE_COPY_KIND_END,
                                    .nsamples = t->n,
                                    .sample_start_ns = t->start_ns,
                                    .sample_end_ns = t->end_ns,
                                    .nmetrics = COUNTER_SLOTS,
                                    .values = t->values };
    in.lag_ns = counter_fit_lag(&in, COUNTER_SM);
    counter_fit_run(&in, &fit);
    out->lag_ns = (double)in.lag_ns;
    out->interval_ns = mean_interval(t);
    out->samples += fit.used;
    out->unused += fit.unused;
    add_rows(a, &c, &fit, out->interval_ns, out, cap);
    counter_fit_free(&fit);
    counter_events_free(&e);
    free_classes(&c);
}

static bool is_sampled(const struct timeline *tl, uint32_t device) {
    for (size_t i = 0; i < tl->samples.n; i++)
        if (tl->samples.device[i] == device) return true;
    return false;
}

/* Returns a bit set of the sampled devices up to 63. *only is true if one device was sampled and at most one
 * ran kernels. These are the same device, even if two tools number it differently. */
static uint64_t sampled_devices(const struct timeline *tl, bool *only) {
    uint64_t bits = 0;
    size_t sampled = 0, working = 0;
    for (uint32_t d = 0; d < MIN(tl->ndevices, 64); d++) {
        bool has_samples = is_sampled(tl, d);
        bits |= (uint64_t)has_samples << d;
        sampled += has_samples;
        working += tl->devices[d].kernel_count > 0;
    }
    *only = sampled == 1 && working <= 1;
    return bits;
}

static void fit_device(const struct analysis *a, uint32_t device, uint32_t sampled_as,
                       struct analysis_counters *out, size_t *cap) {
    struct table_of_samples t;
    if (!a->timeline->devices[device].kernel_count) return;
    gather_samples(a->timeline, sampled_as, &t);
    if (t.n) fit_samples(a, device, &t, out, cap);
    free_samples(&t);
}

static void fit_devices(const struct analysis *a, struct analysis_counters *out) {
    bool only;
    uint64_t sampled = sampled_devices(a->timeline, &only);
    size_t cap = 0;
    for (uint32_t d = 0; d < a->timeline->ndevices; d++)
        fit_device(a, d, only ? (uint32_t)__builtin_ctzll(sampled) : d, out, &cap);
}

/* ---- values derived from the counters and the device */

static double dram_sum(const double *slot) { return slot[COUNTER_DRAM_READ] + slot[COUNTER_DRAM_WRITE]; }

/* Returns the device's peak bandwidth as recorded in the trace, else the peak that MBU uses. */
static double peak_bandwidth(const struct analysis *a, uint32_t device) {
    double own = device < a->timeline->ndevices ? a->timeline->devices[device].peak_bytes_per_s : NAN;
    return own > 0 ? own : a->peak_bytes_per_s;
}

/* Returns the dense 16-bit FLOPs per cycle of the tensor pipes of one multiprocessor; NaN: unknown chip. */
static double tensor_flops_a_cycle(const struct timeline_device *d) {
    switch (10 * d->cc_major + d->cc_minor) {
    case 100: return 8192;
    case 90: return 4096;
    case 80: return 2048;
    case 89:
    case 75: return 1024;
    default: return NAN;
    }
}

/* Datasheets often specify the peak for less than the highest clock: the 989 TFLOP/s of an H200 are for 1.83
 * GHz, and its highest clock is 1.98 GHz. The peak may be that of another type, which is faster or slower by
 * a power of two. If no clock near the highest explains the peak (unknown chip, measured peak), the highest
 * clock is returned. */
double analysis_peak_clock_hz(const struct analysis *a, uint32_t device) {
    const struct timeline_device *d = &a->timeline->devices[device];
    double highest_hz = (double)d->sm_clock_khz * 1e3;
    for (double type = 0.5; type <= 4; type *= 2) {
        double hz = a->peak_flops_per_s / (tensor_flops_a_cycle(d) * type * d->sms);
        if (hz >= NEAR_LOW * highest_hz && hz <= NEAR_HIGH * highest_hz) return hz;
    }
    return highest_hz > 0 ? highest_hz : NAN;
}

/* Converts tensor activity in percent of the cycles at clock_hz to percent of the peak. */
static double at_peak_clock(const struct analysis *a, uint32_t device, double pct, double clock_hz) {
    return pct * clock_hz / analysis_peak_clock_hz(a, device);
}

static void derive_rows(const struct analysis *a, struct analysis_counters *out) {
    for (size_t i = 0; i < out->nrows; i++) {
        struct counter_row *r = &out->rows[i];
        uint32_t device = a->timeline->shapes[a->kernels[r->kernel].shape].device;
        double clock_hz = isnan(r->value[COUNTER_CLOCK]) ? out->clock_hz : r->value[COUNTER_CLOCK];
        double tensor = r->tensor_at_peak_pct = at_peak_clock(a, device, r->value[COUNTER_TENSOR], clock_hz);
        r->dram_pct = dram_sum(r->value);
        r->dram_bytes_per_s = r->dram_pct / 100 * peak_bandwidth(a, device);
        r->roof_pct = isnan(r->dram_pct) || isnan(tensor) ? NAN : MAX(r->dram_pct, tensor);
    }
}

static double mean_clock(const struct timeline *tl) {
    double sum = 0, weight = 0;
    float v[COUNTER_SLOTS];
    for (size_t i = 0; i < tl->samples.n; i++) {
        take_values(tl, i, v);
        if (isnan(v[COUNTER_CLOCK])) continue;
        double ns = (double)(tl->samples.end_ns[i] - tl->samples.start_ns[i]);
        sum += ns * (double)v[COUNTER_CLOCK];
        weight += ns;
    }
    return weight > 0 ? sum / weight : NAN;
}

static void derive_means(const struct analysis *a, uint32_t device, double all_ns,
                         struct counter_means *row) {
    row->covered = all_ns > 0 ? MIN(row->covered_ns / all_ns, 1.0) : NAN;
    row->dram_pct = dram_sum(row->mean);
    row->dram_bytes_per_s = row->dram_pct / 100 * peak_bandwidth(a, device);
    row->tensor_at_peak_pct = at_peak_clock(a, device, row->mean[COUNTER_TENSOR], row->mean[COUNTER_CLOCK]);
}

/* ---- stages: time-weighted means of the samples inside */

static size_t first_sample_after(const struct timeline *tl, uint64_t ns) {
    size_t lo = 0, hi = tl->samples.n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (tl->samples.end_ns[mid] <= ns)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void add_occurrence(const struct timeline *tl, const struct analysis_occurrence *o, uint64_t devices,
                           struct counter_means *row, double *weight) {
    float v[COUNTER_SLOTS];
    for (size_t i = first_sample_after(tl, o->start_ns);
         i < tl->samples.n && tl->samples.start_ns[i] < o->wall_end_ns; i++) {
        uint64_t from = MAX(o->start_ns, tl->samples.start_ns[i]),
                 to = MIN(o->wall_end_ns, tl->samples.end_ns[i]);
        if (to <= from || tl->samples.device[i] > 63 || !(devices >> tl->samples.device[i] & 1)) continue;
        double ns = (double)(to - from);
        take_values(tl, i, v);
        row->covered_ns += ns;
        for (int s = 0; s < COUNTER_SLOTS; s++) {
            if (isnan(v[s])) continue;
            row->mean[s] += ns * v[s];
            weight[s] += ns;
        }
    }
}

/* Computes the means of each stage from the samples of the GPUs on which its occurrences have kernels. */
static void stage_means(const struct analysis *a, struct analysis_counters *out) {
    bool only;
    uint64_t sampled = sampled_devices(a->timeline, &only);
    out->means = xcalloc(MAX(a->nstages, 1), sizeof *out->means);
    for (uint32_t st = 0; st < a->nstages; st++) {
        struct counter_means row = { .stage = st };
        double weight[COUNTER_SLOTS] = { 0 }, all_ns = 0;
        uint64_t seen = 0;
        for (size_t i = 0; i < a->noccurrences; i++) {
            const struct analysis_occurrence *o = &a->occurrences[i];
            if (o->stage != st) continue;
            uint64_t devices = only ? sampled : o->device_bits & sampled;
            add_occurrence(a->timeline, o, devices, &row, weight);
            all_ns += (double)(o->wall_end_ns - o->start_ns) * __builtin_popcountll(devices);
            seen |= devices;
        }
        for (int s = 0; s < COUNTER_SLOTS; s++) row.mean[s] = weight[s] > 0 ? row.mean[s] / weight[s] : NAN;
        if (!(row.covered_ns > 0)) continue;
        derive_means(a, (uint32_t)__builtin_ctzll(seen), all_ns, &row);
        out->means[out->nmeans++] = row;
    }
}

static int by_exposure(const void *x, const void *y) {
    double a = ((const struct counter_row *)x)->exposure_ns, b = ((const struct counter_row *)y)->exposure_ns;
    return (a < b) - (a > b);
}

/* Returns the fraction of the busy time in which at least two kernels run. Kernels of a device are sorted
 * by start. */
static double concurrent(const struct timeline *tl) {
    double busy_ns = 0, shared_ns = 0;
    for (uint32_t d = 0; d < tl->ndevices; d++) {
        uint64_t one_until = 0, two_until = 0; /* end of the period with at least one (two) running kernels */
        for (size_t i = 0; i < tl->devices[d].kernel_count; i++) {
            size_t k = tl->devices[d].first_kernel + i;
            uint64_t from = tl->kernels.start_ns[k], to = tl->kernels.end_ns[k], second = MIN(to, one_until);
            if (to > one_until) busy_ns += (double)(to - MAX(from, one_until));
            if (second > MAX(from, two_until)) shared_ns += (double)(second - MAX(from, two_until));
            two_until = MAX(two_until, second);
            one_until = MAX(one_until, to);
        }
    }
    return busy_ns > 0 ? shared_ns / busy_ns : 0;
}

/* Returns NULL if the timeline has no samples. */
static struct analysis_counters *make_counters(const struct analysis *a) {
    if (a->timeline->samples.n == 0) return NULL;
    struct analysis_counters *out = xcalloc(1, sizeof *out);
    out->interval_ns = NAN;
    fit_devices(a, out);
    out->clock_hz = mean_clock(a->timeline);
    derive_rows(a, out);
    stage_means(a, out);
    out->concurrent = concurrent(a->timeline);
    if (out->nrows) qsort(out->rows, out->nrows, sizeof *out->rows, by_exposure);
    return out;
}

void counters_free(struct analysis_counters *c) {
    if (!c) return;
    free(c->rows);
    free(c->means);
    free(c);
}

const struct counter_row *counters_of_kernel(const struct analysis_counters *c, uint32_t kernel) {
    for (size_t i = 0; i < c->nrows; i++) /* sorted by exposure */
        if (c->rows[i].kernel == kernel) return &c->rows[i];
    return NULL;
}

void analyze_counters(struct context *c) {
    struct analysis *a = c->a;
    a->counters = make_counters(a);
    for (size_t i = 0; a->counters && i < a->counters->nmeans; i++)
        a->stages[a->counters->means[i].stage].counters = &a->counters->means[i];
}
