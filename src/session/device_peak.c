#include "session/device_peak.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "llm/gpus.h"
#include "llm/peak_source.h"
#include "llm/static.h"
#include "session/cpu_peak.h"
#include "session/gpu_peak.h"

struct given_peaks {
    double tflops, gbps;   /* NaN: not given */
    const char *tflops_by; /* name of the setting or variable; NULL: not given */
};

/* Names the peak that is missing, and the setting for it. */
static void warn_missing(const struct given_peaks *g, const char *reason) {
    bool flops = isnan(g->tflops), bytes = isnan(g->gbps);
    if (!flops && !bytes) return;
    log_warn("no %s: %s; give%s%s",
             flops && bytes ? "peaks for MFU and MBU"
             : flops        ? "peak FLOP/s for MFU"
                            : "bandwidth for MBU",
             reason, flops ? " peak.tflops=N" : "", bytes ? " peak.gbps=N" : "");
}

static void find_gpu_peak(const struct profile_plan *p, const struct given_peaks *given,
                          struct device_peak *out) {
    const char *name = p->s.hardware.gpu ? p->s.hardware.gpu : p->device.name;
    enum llm_dtype type = p->model ? p->model->dtype : LLM_BF16;
    struct err err;
    const struct llm_gpu *g = llm_gpu_find(name, &err);
    snprintf(out->device, sizeof out->device, "%s", p->device.cuda ? p->device.name : name);
    snprintf(out->type, sizeof out->type, "%s dense", llm_dtype_name(type));
    if (p->device.cuda) out->read_bytes_per_s = gpu_peak_cached(p->device.name);
    if (!g) {
        warn_missing(given, err.msg);
        return;
    }
    struct llm_device d = { .peak = { llm_gpu_flop_per_s(g, type), llm_gpu_bytes_per_s(g), 0 } };
    if (p->model) d = llm_device_of(g, p->model, 0, NULL, 0);
    out->peak = d.peak;
    out->gpu = g;
    struct strbuf source = STRBUF_INIT;
    peak_source_of_gpu(g, type, p->model ? &p->model->pack : &(struct llm_pack){ 0 }, &source);
    snprintf(out->source, sizeof out->source, "%s", source.buf);
    strbuf_free(&source);
    snprintf(out->detail, sizeof out->detail, "%s", g->source ? g->source : "");
}

static void find_cpu_peak(const struct profile_plan *p, const struct given_peaks *given,
                          struct device_peak *out) {
    struct cpu_peak c;
    struct err err;
    cpu_name(out->device, sizeof out->device);
    snprintf(out->type, sizeof out->type, "f32");
    if (!p->s.hardware.calibrate) {
        warn_missing(given, "hardware.calibrate is off");
        return;
    }
    if (cpu_peak_get(&c, false, &err) < 0) {
        warn_missing(given, err.msg);
        return;
    }
    bool bf16 = p->model && p->model->dtype != LLM_F32 && c.bf16_flops_per_s > c.flops_per_s;
    if (bf16) snprintf(out->type, sizeof out->type, "bf16");
    out->peak.flop_per_s = bf16 ? c.bf16_flops_per_s : c.flops_per_s;
    out->peak.bytes_per_s = c.bytes_per_s;
    out->levels = c.levels;
    bool doubtful = !c.cached && !cpu_peak_is_stable(&c);
    snprintf(out->source, sizeof out->source,
             "measured on this CPU%s: %s matrix product and reading memory%s, %u cores",
             doubtful ? " while it was busy" : "", bf16 ? c.bf16_kernel : c.kernel,
             c.levels.n ? " by working-set size" : " (run `inferprof calibrate` to measure the caches)",
             c.threads);
    if (doubtful)
        log_warn("the CPU's peaks were measured while other programs used it (inferprof got %.0f%% of the "
                 "cores) and may be too low; run `inferprof calibrate` on an idle machine to measure and "
                 "cache them",
                 c.cpu_share * 100);
    log_debug("peaks of the CPU: %.1f GFLOP/s, %.1f GB/s, %s", out->peak.flop_per_s * 1e-9,
              c.bytes_per_s * 1e-9, c.cached ? "cached from an earlier measurement" : "measured now");
}

static double peak_from_environment(const char *name) {
    const char *text = getenv(name);
    char *end;
    double v = text ? strtod(text, &end) : NAN;
    if (text && (*end || end == text || !(v > 0))) {
        log_warn("%s='%s' is not a number above 0 and is ignored", name, text);
        return NAN;
    }
    return v;
}

static struct given_peaks find_given(const struct profile_plan *p) {
    struct given_peaks g = { p->s.peak.tflops, p->s.peak.gbps, "peak.tflops" };
    if (isnan(g.tflops)) {
        g.tflops = peak_from_environment("MFU_PEAK_TFLOPS");
        g.tflops_by = isnan(g.tflops) ? NULL : "MFU_PEAK_TFLOPS";
    }
    return g;
}

/* Replaces the peaks that the user gave, and names the source of each peak. */
static void use_given(const struct given_peaks *g, struct device_peak *out) {
    struct strbuf source = STRBUF_INIT;
    peak_source_add(out->source, g->tflops_by, isnan(g->gbps) ? NULL : "peak.gbps", &source);
    snprintf(out->source, sizeof out->source, "%s", source.buf);
    strbuf_free(&source);
    if (!isnan(g->tflops)) { /* one peak for all types */
        out->peak.flop_per_s = g->tflops * 1e12;
        out->peak.quantized_flop_per_s = 0;
        out->gpu = NULL;
    }
    if (!isnan(g->gbps)) {
        out->peak.bytes_per_s = g->gbps * 1e9;
        out->levels.n = 0;
    }
}

void device_peak_find(const struct profile_plan *p, struct device_peak *out) {
    *out = (struct device_peak){ .peak = { NAN, NAN }, .read_bytes_per_s = NAN };
    struct given_peaks given = find_given(p);
    if (p->device.cuda || p->s.hardware.gpu)
        find_gpu_peak(p, &given, out);
    else if (isnan(given.tflops) || isnan(given.gbps))
        find_cpu_peak(p, &given, out);
    else
        cpu_name(out->device, sizeof out->device);
    use_given(&given, out);
}
