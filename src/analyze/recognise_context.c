/* Context length of decode steps: counted from the prompt, and limited by sizes that depend on the KV cache
 * and are visible in a trace. If the count contradicts the limits, it restarts at the lower limit: a
 * benchmark may clear the cache without a new prompt. */
#include <math.h>
#include <string.h>

#include "analyze/recognise_internal.h"

#define GGML_CACHE_STEP 256u /* ggml pads the number of keys to a multiple of this */
#define GGML_MASK_BYTES 2u   /* bytes per key and row (fp16) */
#define VLLM_PARTITION 512u  /* keys per partition of vLLM's paged attention, version 2 */

struct limits {
    double least, most; /* NaN: unknown */
};

static bool named(const struct group *g, size_t item, const char *part) {
    return strstr(timeline_text(g->tl, g->tl->shapes[g->items[item].shape].name), part) != NULL;
}

/* Derives limits from the attention mask, which ggml copies to the device after the positions. The mask has
 * one value per padded key and row. */
static struct limits from_mask(const struct group *g, const struct pass *p, uint32_t rows) {
    struct limits none = { NAN, NAN };
    const uint64_t unit = (uint64_t)GGML_CACHE_STEP * GGML_MASK_BYTES * rows;
    bool positions = false;
    for (size_t i = p->first; i < p->first_anchor; i++) {
        const struct item *it = &g->items[i];
        if (it->is_kernel || it->copy != TRACE_COPY_HTOD) continue;
        if (it->bytes == (uint64_t)rows * 4) positions = true;
        if (!positions || !it->bytes || it->bytes % unit) continue;
        double keys = (double)(it->bytes / GGML_MASK_BYTES / rows);
        return (struct limits){ keys - GGML_CACHE_STEP + 1, keys };
    }
    return none;
}

static struct limits limits_of(const struct group *g, const struct pass *p, uint32_t rows) {
    struct limits none = { NAN, NAN };
    size_t a = p->first_anchor;
    if (!rows || !g->items[a].is_kernel) return none;
    if (named(g, a, "flash_attn_ext") || named(g, a, "soft_max_f32")) return from_mask(g, p, rows);
    if (named(g, a, "paged_attention_v2")) {
        double partitions = g->tl->shapes[g->items[a].shape].grid[2];
        return (struct limits){ (partitions - 1) * VLLM_PARTITION + 1, partitions * VLLM_PARTITION };
    }
    return none;
}

static bool contradicts(double context, struct limits l) {
    return context < l.least || context > l.most; /* false if unknown */
}

void recognise_context(const struct group *g, struct recognised_step *steps) {
    double last = NAN; /* keys of the only request */
    for (size_t i = 0; i < g->npasses; i++) {
        struct recognised_step *s = &steps[i];
        s->context = s->context_least = s->context_most = NAN;
        if (s->kind == STEP_PREFILL && s->requests == 1) last = s->tokens;
        if (s->kind != STEP_DECODE || !(s->requests >= 1)) {
            if ((s->kind != STEP_PREFILL || s->requests != 1) && s->kind != STEP_ENCODE) last = NAN;
            continue;
        }
        struct limits l = limits_of(g, &g->passes[i], (uint32_t)s->tokens);
        s->context_least = l.least;
        s->context_most = l.most;
        if (s->requests != 1) {
            last = NAN;
            continue;
        }
        last = isnan(last) ? l.least : last + 1;
        if (contradicts(last, l)) last = l.least;
        s->context = last;
    }
}
