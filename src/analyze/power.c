/* Power, clocks and energy: time series for drawing, energy per stage, and time at reduced clocks. */
#include <math.h>
#include <stdlib.h>

#include "analyze/internal.h"
#include "base/die.h"
#include "base/strbuf.h"
#include "base/util.h"

#define SERIES_MAX 2000

static const struct {
    uint64_t bit;
    const char *name;
} slowdowns[] = {
    /* NVML's bits; idle, application clocks and sync boost are not slowdowns */
    { 0x04, "power cap" },        { 0x08, "hardware slowdown" }, { 0x20, "software thermal slowdown" },
    { 0x40, "thermal slowdown" }, { 0x80, "power brake" },
};
#define SLOWDOWN_BITS (0x04u | 0x08u | 0x20u | 0x40u | 0x80u)

static double scaled_or_nan(uint32_t v, double scale) { return v == TRACE_UNKNOWN_U32 ? NAN : v * scale; }

/* Computes, for each sample, the energy since the first sample: from the device's energy counter if all
 * samples contain it, else power times time. */
static void index_device(struct context *c, uint32_t device, size_t n) {
    const struct timeline_powers *p = &c->tl->powers;
    struct power_index *x = &c->power[device];
    uint64_t first_mj = 0;
    bool counter = true;
    double last_watts = NAN;
    x->time_ns = xmalloc((n + 1) * sizeof *x->time_ns);
    x->joules = xmalloc((n + 1) * sizeof *x->joules);
    for (size_t i = 0; i < p->n; i++)
        if (p->device[i] == device) counter &= p->energy_mj[i] != 0;
    for (size_t i = 0; i < p->n; i++) {
        if (p->device[i] != device) continue;
        double watts = scaled_or_nan(p->power_mw[i], 1e-3), joules = x->n ? x->joules[x->n - 1] : 0;
        if (!x->n) first_mj = p->energy_mj[i];
        if (counter)
            joules = MAX(joules, ((double)p->energy_mj[i] - (double)first_mj) * 1e-3);
        else if (x->n)
            joules += (watts + last_watts) / 2 * (double)(p->time_ns[i] - x->time_ns[x->n - 1]) * 1e-9;
        x->time_ns[x->n] = p->time_ns[i];
        x->joules[x->n++] = joules;
        last_watts = watts;
    }
}

static double joules_at(const struct power_index *x, uint64_t time_ns) {
    size_t lo = 0, hi = x->n;
    while (lo < hi) { /* first sample after time_ns */
        size_t mid = lo + (hi - lo) / 2;
        if (x->time_ns[mid] <= time_ns)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == 0) return 0;
    if (lo == x->n) return x->joules[x->n - 1];
    double part = (double)(time_ns - x->time_ns[lo - 1]) / (double)(x->time_ns[lo] - x->time_ns[lo - 1]);
    return x->joules[lo - 1] + part * (x->joules[lo] - x->joules[lo - 1]);
}

/* Returns the energy of a device between two times in J; NaN if the samples do not cover the period. One
 * sample interval may be missing at each end. */
static double joules_between(const struct context *c, uint32_t device, uint64_t from_ns, uint64_t to_ns) {
    const struct power_index *x = &c->power[device];
    if (x->n < 2 || to_ns <= from_ns) return NAN;
    uint64_t step = (x->time_ns[x->n - 1] - x->time_ns[0]) / (x->n - 1);
    if (from_ns + step < x->time_ns[0] || to_ns > x->time_ns[x->n - 1] + step) return NAN;
    if (to_ns <= x->time_ns[0] || from_ns >= x->time_ns[x->n - 1]) return NAN;
    return joules_at(x, to_ns) - joules_at(x, from_ns);
}

/* ---- one row per device */

static void add_point(struct analysis_power *out, const struct timeline_powers *p, size_t i, size_t every,
                      size_t seen) {
    if (seen % every == 0) {
        out->series[out->n++] =
            (struct analysis_power_point){ .time_ns = p->time_ns[i],
                                           .watts = (float)scaled_or_nan(p->power_mw[i], 1e-3),
                                           .sm_mhz = (float)scaled_or_nan(p->sm_mhz[i], 1),
                                           .memory_mhz = (float)scaled_or_nan(p->memory_mhz[i], 1),
                                           .temperature_c = (float)scaled_or_nan(p->temperature_c[i], 1) };
    }
    out->series[out->n - 1].throttle_reasons |= p->throttle_reasons[i];
}

/* State of busy_at(), which must be called with ascending times. */
struct busy_probe {
    const struct timeline_kernels *k;
    size_t next, end;
    uint64_t until_ns;
};
static bool busy_at(struct busy_probe *b, uint64_t time_ns) {
    for (; b->next < b->end && b->k->start_ns[b->next] <= time_ns; b->next++)
        b->until_ns = MAX(b->until_ns, b->k->end_ns[b->next]);
    return b->until_ns > time_ns;
}

static void name_slowdowns(struct context *c, struct analysis_power *out, uint64_t reasons) {
    struct strbuf s = STRBUF_INIT;
    for (size_t i = 0; i < COUNTOF(slowdowns); i++)
        if (reasons & slowdowns[i].bit) strbuf_addf(&s, "%s%s", s.len ? ", " : "", slowdowns[i].name);
    if (s.len) out->throttled_by = analysis_text(c, "%s", s.buf);
    strbuf_free(&s);
}

static void summarise(struct context *c, struct analysis_power *out, size_t n) {
    const struct timeline_powers *p = &c->tl->powers;
    const struct timeline_device *d = &c->tl->devices[out->device];
    struct busy_probe probe = { &c->tl->kernels, d->first_kernel, d->first_kernel + d->kernel_count, 0 };
    size_t every = (n + SERIES_MAX - 1) / SERIES_MAX, seen = 0, busy_samples = 0;
    uint64_t reasons = 0, last_ns = 0;
    bool was_slow = false;
    double mhz_sum = 0;
    out->watts_max = out->sm_mhz_max = NAN;
    for (size_t i = 0; i < p->n; i++) {
        if (p->device[i] != out->device) continue;
        if (was_slow) out->throttled_ns += (double)(p->time_ns[i] - last_ns);
        bool busy = busy_at(&probe, p->time_ns[i]);
        uint64_t slow = busy ? p->throttle_reasons[i] & SLOWDOWN_BITS : 0;
        was_slow = slow != 0;
        reasons |= slow;
        last_ns = p->time_ns[i];
        out->watts_max = fmax(out->watts_max, scaled_or_nan(p->power_mw[i], 1e-3));
        out->sm_mhz_max = fmax(out->sm_mhz_max, scaled_or_nan(p->sm_mhz[i], 1));
        if (busy && p->sm_mhz[i] != TRACE_UNKNOWN_U32) {
            mhz_sum += p->sm_mhz[i];
            busy_samples++;
        }
        add_point(out, p, i, every, seen++);
    }
    out->sm_mhz_busy_mean = busy_samples ? mhz_sum / (double)busy_samples : NAN;
    name_slowdowns(c, out, reasons);
}

/* Returns the energy while no kernel ran, from the first to the last sample. */
static double idle_joules(struct context *c, uint32_t device) {
    const struct timeline_device *d = &c->tl->devices[device];
    const struct timeline_kernels *k = &c->tl->kernels;
    const struct power_index *x = &c->power[device];
    uint64_t frontier = x->time_ns[0], last = x->time_ns[x->n - 1];
    double sum = 0;
    for (size_t i = d->first_kernel; i < d->first_kernel + d->kernel_count; i++) {
        uint64_t start = MIN(k->start_ns[i], last);
        if (start > frontier) sum += joules_at(x, start) - joules_at(x, frontier);
        frontier = MAX(frontier, k->end_ns[i]);
    }
    if (frontier < last) sum += joules_at(x, last) - joules_at(x, frontier);
    return sum;
}

/* The energy counter measures all the time, power samples are single moments. */
static void explain_mean(struct context *c, const char *what, double mean, double most) {
    if (mean > most)
        analysis_note(c, ANALYSIS_INFO,
                      "%s: the energy counter gives a mean of %.0f W, above the highest power sample "
                      "(%.0f W): the samples missed peaks",
                      what, mean, most);
}

static void power_row(struct context *c, uint32_t device, size_t n) {
    struct analysis_power *out = &c->a->powers[c->a->npowers++];
    out->device = device;
    out->series = analysis_alloc(c, MIN(n, SERIES_MAX), sizeof *out->series);
    index_device(c, device, n);
    summarise(c, out, n);
    const struct power_index *x = &c->power[device];
    out->covered_ns = (double)(x->time_ns[n - 1] - x->time_ns[0]);
    out->joules = n > 1 ? x->joules[n - 1] : NAN;
    out->watts_mean = out->covered_ns > 0 ? out->joules / (out->covered_ns * 1e-9) : NAN;
    out->idle_joules = n > 1 ? idle_joules(c, device) : NAN;
    explain_mean(c, analysis_text(c, "device %s", timeline_device_label(c->tl, device)), out->watts_mean,
                 out->watts_max);
}

/* ---- energy of stages */

/* Returns the GPUs of an occurrence as bits. If one GPU has power samples and one GPU ran kernels, they are
 * the same device, even if two files number it differently. */
static uint64_t devices_of(const struct context *c, size_t occurrence) {
    const struct analysis *a = c->a;
    size_t gpus = 0;
    for (size_t i = 0; i < a->ndevices; i++) gpus += a->devices[i].kernels && analysis_is_gpu(c, (uint32_t)i);
    if (a->npowers == 1 && gpus == 1 && a->powers[0].device < 64 && a->occurrences[occurrence].device_bits)
        return (uint64_t)1 << a->powers[0].device;
    return a->occurrences[occurrence].device_bits;
}

static bool is_measured(const struct context *c, size_t i) {
    const struct analysis_occurrence *o = &c->a->occurrences[i];
    uint64_t devices = devices_of(c, i);
    for (uint32_t d = 0; d < MIN(c->tl->ndevices, 64); d++)
        if (devices >> d & 1 && isnan(joules_between(c, d, o->start_ns, o->wall_end_ns))) return false;
    return devices && !c->a->stages[o->stage].on_cpu;
}

struct share { /* energy and time of an occurrence, summed over its GPUs */
    double joules, ns;
};
struct edge { /* an occurrence begins or ends */
    uint64_t time_ns;
    uint32_t occurrence;
    bool begins;
};

static int by_time(const void *pa, const void *pb) {
    const struct edge *a = pa, *b = pb;
    if (a->time_ns != b->time_ns) return a->time_ns < b->time_ns ? -1 : 1;
    return a->begins - b->begins;
}

static size_t find_edges(const struct context *c, uint32_t device, uint32_t depth, struct edge *edges) {
    size_t n = 0;
    for (uint32_t i = 0; i < c->a->noccurrences; i++) {
        const struct analysis_occurrence *o = &c->a->occurrences[i];
        if (c->a->stages[o->stage].depth != depth || !(devices_of(c, i) >> device & 1)) continue;
        edges[n++] = (struct edge){ o->start_ns, i, true };
        edges[n++] = (struct edge){ o->wall_end_ns, i, false };
    }
    qsort(edges, n, sizeof *edges, by_time);
    return n;
}

/* Splits the energy and the time of a GPU evenly between the open occurrences, because steps of asynchronous
 * programs overlap. `since` is the share of an occurrence that has been open from the beginning. */
static void split_energy(const struct context *c, uint32_t device, const struct edge *edges, size_t n,
                         struct share *shares) {
    const struct power_index *x = &c->power[device];
    struct share since = { 0 };
    size_t open = 0;
    for (size_t i = 0; i < n; i++) {
        if (open) {
            since.joules +=
                (joules_at(x, edges[i].time_ns) - joules_at(x, edges[i - 1].time_ns)) / (double)open;
            since.ns += (double)(edges[i].time_ns - edges[i - 1].time_ns) / (double)open;
        }
        struct share *s = &shares[edges[i].occurrence];
        double sign = edges[i].begins ? -1 : 1;
        s->joules += sign * since.joules;
        s->ns += sign * since.ns;
        open = edges[i].begins ? open + 1 : open - 1;
    }
}

static struct share *occurrence_shares(const struct context *c) {
    struct share *shares = xcalloc(c->a->noccurrences + 1, sizeof *shares);
    struct edge *edges = xcalloc(2 * c->a->noccurrences + 1, sizeof *edges);
    uint32_t depths = 0;
    for (size_t i = 0; i < c->a->nstages; i++) depths = MAX(depths, c->a->stages[i].depth + 1);
    for (uint32_t d = 0; d < MIN(c->tl->ndevices, 64); d++)
        for (uint32_t depth = 0; c->power[d].n >= 2 && depth < depths; depth++)
            split_energy(c, d, edges, find_edges(c, d, depth, edges), shares);
    free(edges);
    return shares;
}

/* Returns true if the stage is at least two sample intervals long. The energy between samples is
 * interpolated, so the energy of a shorter stage cannot be separated from its surroundings. */
static bool is_long_enough(const struct context *c, double stage_ns) {
    double longest = 0;
    for (size_t i = 0; i < c->a->npowers; i++) {
        const struct power_index *x = &c->power[c->a->powers[i].device];
        if (x->n > 1) longest = fmax(longest, c->a->powers[i].covered_ns / (double)(x->n - 1));
    }
    return stage_ns >= 2 * longest;
}

/* Returns the sum of the highest power samples of the GPUs in `devices`. */
static double watts_max_of(const struct analysis *a, uint64_t devices) {
    double sum = 0;
    for (size_t i = 0; i < a->npowers; i++)
        if (a->powers[i].device < 64 && devices >> a->powers[i].device & 1) sum += a->powers[i].watts_max;
    return sum;
}

static void stage_energy(struct context *c) {
    struct analysis *a = c->a;
    double *covered_ns = xcalloc(a->nstages + 1, sizeof *covered_ns);
    uint64_t *devices = xcalloc(a->nstages + 1, sizeof *devices);
    struct share *shares = occurrence_shares(c);
    for (size_t i = 0; i < a->nstages; i++) a->stages[i].joules = 0;
    for (size_t i = 0; i < a->noccurrences; i++) {
        struct analysis_stage *s = &a->stages[a->occurrences[i].stage];
        s->joules += is_measured(c, i) ? shares[i].joules : NAN;
        devices[a->occurrences[i].stage] |= devices_of(c, i);
        covered_ns[a->occurrences[i].stage] += shares[i].ns / MAX(1, __builtin_popcountll(devices_of(c, i)));
    }
    free(shares);
    for (size_t i = 0; i < a->nstages; i++) {
        struct analysis_stage *s = &a->stages[i];
        if (!s->occurrences || !is_long_enough(c, covered_ns[i])) s->joules = NAN;
        s->watts = s->joules / (covered_ns[i] * 1e-9);
        explain_mean(c, s->name, s->watts, watts_max_of(a, devices[i]));
    }
    free(devices);
    free(covered_ns);
}

void analyze_power(struct context *c) {
    const struct timeline *tl = c->tl;
    size_t *counts = xcalloc(tl->ndevices + 1, sizeof *counts);
    for (size_t i = 0; i < tl->powers.n; i++) counts[tl->powers.device[i]]++;
    c->power = xcalloc(tl->ndevices + 1, sizeof *c->power);
    c->a->powers = analysis_alloc(c, tl->ndevices, sizeof *c->a->powers);
    for (uint32_t d = 0; d < tl->ndevices; d++)
        if (counts[d]) power_row(c, d, counts[d]);
    if (c->a->npowers) stage_energy(c);
    free(counts);
}
