#include "run/request_cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/log.h"
#include "base/util.h"
#include "engine/image/image.h"

static uint64_t size_or_default(int64_t value) { return value > 0 ? (uint64_t)value : 0; }

struct request_image *request_images(const struct profile_plan *p) {
    struct request_image *images = xcalloc(p->dataset.n + 1, sizeof *images);
    const char *crop = p->s.model.preprocess.crop_mode;
    struct llm_image_opts opts = { .mode = p->s.model.preprocess.mode,
                                   .max_tiles = size_or_default(p->s.model.preprocess.max_tiles),
                                   .base_size = size_or_default(p->s.model.preprocess.base_size),
                                   .image_size = size_or_default(p->s.model.preprocess.image_size),
                                   .crop = !crop                       ? LLM_CROP_MODE
                                           : strcmp(crop, "true") == 0 ? LLM_CROP_ON
                                                                       : LLM_CROP_OFF };
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

/* Every sequence of the batch has its own copy of the image. */
static struct llm_counts batch_counts(const struct llm_counts *one, double batch) {
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

double request_passes(const char *stage, const struct engine_answer *a) {
    double made = a->new_tokens / a->batch;
    return strcmp(stage, "decode") == 0 ? (made >= 2 ? made - 1 : NAN) : 1;
}

double request_experts(const char *stage, const struct engine_answer *a) {
    if (strcmp(stage, "prefill") == 0) return a->prefill_experts;
    return strcmp(stage, "decode") == 0 ? a->decode_experts : NAN;
}

double request_context(const struct settings *s, const struct llm_model *m, const struct engine_info *info,
                       const struct engine_answer *a) {
    double prompt = a->prompt_tokens / a->batch, made = a->new_tokens / a->batch;
    if (!(made >= 2)) return NAN;
    if (strcmp(s->infer.context_len_mode, "fixed") == 0) return (double)s->infer.context_len_fixed;
    if (strcmp(s->infer.context_len_mode, "auto") == 0) return prompt + made / 2;
    if (m && m->text.max_positions) return (double)m->text.max_positions;
    return info->max_context > 0 ? info->max_context : prompt + made;
}

/* Sets the decode FLOPs to those of `steps` steps with the same context. */
static void set_decode_flops(const struct llm_model *m, const struct llm_setup *setup, uint64_t batch,
                             uint64_t context, uint64_t steps, struct llm_cost *out) {
    struct llm_cost step = llm_cost_decode(m, setup, batch, context);
    out->attention_flops = step.attention_flops * (double)steps;
    out->full_attention_flops = step.full_attention_flops * (double)steps;
    out->compute_s *= step.flops * (double)steps / out->flops; /* keeps the mean peak */
    out->flops = step.flops * (double)steps;
}

bool request_cost(const struct llm_model *m, const struct llm_peak *peak, const struct request_image *image,
                  const char *stage, const struct engine_answer *a, double context, struct llm_cost *out) {
    struct llm_setup setup = { .peak = *peak };
    double experts = request_experts(stage, a);
    if (experts > 0) setup.experts_read = experts;
    if (!m || !m->decodes || !(a->prompt_tokens >= 1) || !(a->new_tokens >= 1)) return false;
    uint64_t batch = (uint64_t)a->batch, prompt = (uint64_t)(a->prompt_tokens / a->batch),
             made = (uint64_t)(a->new_tokens / a->batch);
    bool has_image = image && image->width > 0;
    struct llm_counts counts =
        has_image ? batch_counts(&image->plan.counts, a->batch) : (struct llm_counts){ 0 };
    if (strcmp(stage, "decode") == 0) {
        if (made < 2) return false;
        *out = llm_cost_generate(m, &setup, batch, prompt + 1, made - 1);
        if (context >= 1) set_decode_flops(m, &setup, batch, (uint64_t)context, made - 1, out);
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
