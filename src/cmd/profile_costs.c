#include "cmd/profile_costs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/log.h"
#include "base/util.h"
#include "engine/image.h"
#include "llm/gpus.h"
#include "session/cpu_peak.h"

/* ---- peaks */

static void peak_of_gpu(const struct profile_plan *p, struct profile_peak *out) {
    const char *name = p->s.hardware.gpu ? p->s.hardware.gpu : p->device.name;
    enum llm_dtype type = p->model ? p->model->dtype : LLM_BF16;
    struct err err;
    const struct llm_gpu *g = llm_gpu_find(name, &err);
    snprintf(out->device, sizeof out->device, "%s", p->device.cuda ? p->device.name : name);
    snprintf(out->type, sizeof out->type, "%s dense", llm_dtype_name(type));
    if (!g) {
        log_warn("no peaks for MFU and MBU: %s; give peak.tflops=N peak.gbps=N", err.msg);
        return;
    }
    out->peak.flop_per_s = llm_gpu_flop_per_s(g, type);
    out->peak.bytes_per_s = llm_gpu_bytes_per_s(g);
    snprintf(out->source, sizeof out->source, "datasheet of %.60s, dense %s", g->name, llm_dtype_name(type));
    snprintf(out->detail, sizeof out->detail, "%s", g->source ? g->source : "");
}

static void peak_of_cpu(const struct profile_plan *p, struct profile_peak *out) {
    struct cpu_peak c;
    struct err err;
    cpu_name(out->device, sizeof out->device);
    snprintf(out->type, sizeof out->type, "f32");
    if (!p->s.hardware.calibrate && isnan(p->s.peak.tflops)) {
        log_warn("no peaks for MFU and MBU: hardware.calibrate is off; give peak.tflops=N peak.gbps=N");
        return;
    }
    if (!p->s.hardware.calibrate) return;
    if (cpu_peak_get(&c, false, &err) < 0) {
        log_warn("no peaks for MFU and MBU: %s", err.msg);
        return;
    }
    out->peak.flop_per_s = c.flops_per_s;
    out->peak.bytes_per_s = c.bytes_per_s;
    bool doubtful = !c.cached && !cpu_peak_is_stable(&c);
    snprintf(out->source, sizeof out->source,
             "measured on this CPU%s: %s matrix product and read sweep, %u cores",
             doubtful ? " while it was busy" : "", c.kernel, c.threads);
    if (doubtful)
        log_warn("the CPU's peaks were measured while other programs used it (%.0f%% of the cores were ours) "
                 "and may be "
                 "too low; `inferprof calibrate` on an idle machine measures and keeps them",
                 c.cpu_share * 100);
    log_debug("peaks of the CPU: %.1f GFLOP/s, %.1f GB/s, %s", c.flops_per_s * 1e-9, c.bytes_per_s * 1e-9,
              c.cached ? "kept from an earlier measurement" : "measured now");
}

/* A number of the user's replaces ours, and the source says which. */
static void told(double value, double unit, const char *by, double *field, struct profile_peak *out) {
    if (isnan(value)) return;
    *field = value * unit;
    size_t n = strlen(out->source);
    snprintf(out->source + n, sizeof out->source - n, "%s%s", n ? "; " : "", by);
}

static double from_environment(const char *name) {
    const char *text = getenv(name);
    char *end;
    double v = text ? strtod(text, &end) : NAN;
    if (text && (*end || end == text || !(v > 0))) {
        log_warn("%s='%s' is not a number above 0 and is ignored", name, text);
        return NAN;
    }
    return v;
}

void profile_peak_find(const struct profile_plan *p, struct profile_peak *out) {
    *out = (struct profile_peak){ .peak = { NAN, NAN } };
    bool given = !isnan(p->s.peak.tflops) && !isnan(p->s.peak.gbps);
    if (p->device.cuda || p->s.hardware.gpu)
        peak_of_gpu(p, out);
    else if (!given)
        peak_of_cpu(p, out);
    else
        cpu_name(out->device, sizeof out->device);
    if (given) out->source[0] = '\0';
    told(from_environment("MFU_PEAK_TFLOPS"), 1e12, "peak FLOP/s given by MFU_PEAK_TFLOPS",
         &out->peak.flop_per_s, out);
    told(p->s.peak.tflops, 1e12, "peak FLOP/s given by peak.tflops", &out->peak.flop_per_s, out);
    told(p->s.peak.gbps, 1e9, "bandwidth given by peak.gbps", &out->peak.bytes_per_s, out);
}

/* ---- what ran */

struct profile_image *profile_images(const struct profile_plan *p) {
    struct profile_image *images = xcalloc(p->dataset.n + 1, sizeof *images);
    struct llm_image_opts opts = { .mode = p->s.model.preprocess.mode };
    if (p->s.model.preprocess.max_tiles > 0) opts.max_tiles = (uint64_t)p->s.model.preprocess.max_tiles;
    for (size_t i = 0; i < p->dataset.n; i++) {
        const struct dataset_item *it = &p->dataset.v[i];
        struct image im;
        struct err err;
        if (!it->used || !it->path) continue;
        if (image_load(it->path, &im, &err) < 0) {
            log_warn("%s", err.msg);
            continue;
        }
        images[i].width = im.width;
        images[i].height = im.height;
        image_free(&im);
        if (!p->model || !p->model->vision.family) continue;
        images[i].planned = llm_image_plan(p->model, (uint64_t)images[i].width, (uint64_t)images[i].height,
                                           &opts, &images[i].plan, &err) == 0;
        if (!images[i].planned) log_warn("%s: %s", it->path, err.msg);
    }
    return images;
}

/* Every sequence of a batch has its own copy of the page. */
static struct llm_counts times(const struct llm_counts *one, double batch) {
    struct llm_counts all = *one;
    for (size_t i = 0; i < COUNTOF(all.rows); i++) all.rows[i] *= batch;
    for (size_t i = 0; i < COUNTOF(all.pairs); i++) all.pairs[i] *= batch;
    return all;
}

static void add_vision(const struct llm_model *m, const struct llm_setup *setup,
                       const struct llm_counts *counts, struct llm_cost *sum) {
    for (int i = 1; i < m->nstages; i++) {
        struct llm_cost c = llm_cost_vision(m, setup, i, counts);
        llm_cost_add(sum, &c);
    }
}

bool profile_cost(const struct profile_plan *p, const struct profile_peak *peak,
                  const struct profile_image *image, const char *stage, const struct engine_answer *a,
                  struct llm_cost *out) {
    const struct llm_model *m = p->model;
    struct llm_setup setup = { .peak = peak->peak };
    if (!m || !m->decodes || !(a->prompt_tokens >= 1) || !(a->new_tokens >= 1)) return false;
    uint64_t batch = (uint64_t)a->batch, prompt = (uint64_t)(a->prompt_tokens / a->batch),
             made = (uint64_t)(a->new_tokens / a->batch);
    bool has_image = image && image->width > 0;
    struct llm_counts counts = has_image ? times(&image->plan.counts, a->batch) : (struct llm_counts){ 0 };
    if (strcmp(stage, "decode") == 0) {
        if (made < 2) return false;
        *out = llm_cost_generate(m, &setup, batch, prompt + 1, made - 1);
        return true;
    }
    if (strcmp(stage, "prefill") == 0) {
        if (has_image && !image->planned) return false;
        *out = llm_cost_prefill(m, &setup, batch, prompt, 0);
        if (has_image) add_vision(m, &setup, &counts, out);
        return true;
    }
    for (int i = 1; i < m->nstages && has_image && image->planned; i++)
        if (strcmp(m->stages[i], stage) == 0) {
            *out = llm_cost_vision(m, &setup, i, &counts);
            return true;
        }
    return false;
}
