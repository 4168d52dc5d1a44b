#include "analyze/step_attention.h"

#include <stdlib.h>

#include "analyze/operator_attention.h"
#include "analyze/stage_rules.h"
#include "base/util.h"
#include "base/vec.h"
#include "llm/model.h"

/* Layers with and without a sliding window have the same shapes. The layers without a window take longer:
 * 1.3 times (gpt-oss, 888 tokens, B200) and 2.2 times (8,192 tokens, MI300X). The halves of equal layers
 * differ by 5% (Qwen3-8B, MI300X). */
#define WINDOW_RATIO 1.15

/* Finds the labelled range around a range; TIMELINE_NONE: none. */
static uint32_t find_step(const struct timeline *tl, size_t range, struct attention_step *step) {
    uint32_t p = tl->ranges.parent[range];
    for (int i = 0; p != TIMELINE_NONE && i < TIMELINE_MAX_AROUND; i++, p = tl->ranges.parent[p])
        if (stage_rules_attention(timeline_text(tl, tl->ranges.name[p]), step)) return p;
    return TIMELINE_NONE;
}

bool step_attention_add(struct step_attention *s, struct context *c, size_t range, uint8_t *type) {
    const struct timeline *tl = c->tl;
    const char *name = timeline_text(tl, tl->ranges.name[range]);
    struct operator_call call;
    struct attention_step step;
    struct attention_work work;
    bool window_known;
    if (!tl->ranges.detail[range] || !operator_attention_is_of_server(name)) return false;
    uint32_t around = find_step(tl, range, &step);
    if (around == TIMELINE_NONE || !operator_call_read(timeline_text(tl, tl->ranges.detail[range]), &call) ||
        !operator_attention_of_step(name, &call, &step, &window_known, &work))
        return false;
    c->range_flops[range] = work.flops;
    c->range_bytes[range] = work.bytes;
    *type = (uint8_t)call.tensors[0].type;
    if (!window_known)
        vec_push(s, ((struct step_attention_call){ (uint32_t)range, around, tl->ranges.detail[range], 0 }));
    return true;
}

static int by_step_and_time(const void *pa, const void *pb) {
    const struct step_attention_call *a = pa, *b = pb;
    if (a->step != b->step) return a->step < b->step ? -1 : 1;
    if (a->detail != b->detail) return a->detail < b->detail ? -1 : 1;
    return a->ns < b->ns ? -1 : a->ns > b->ns;
}

static bool model_has_window(const struct llm_model *m) {
    for (size_t i = 0; m && i < m->text.layers; i++)
        if (m->text.layer[i].window) return true;
    return false;
}

/* Returns true if the calls, sorted by time, form a fast and a slow half. */
static bool differ(const struct step_attention_call *v, size_t n) {
    return n > 1 && v[n - 1 - n / 4].ns > WINDOW_RATIO * v[n / 4].ns;
}

void step_attention_close(struct step_attention *s, struct context *c,
                          void (*set_unknown)(struct context *c, size_t range)) {
    bool windows = model_has_window(c->in->llm);
    if (s->n) qsort(s->v, s->n, sizeof *s->v, by_step_and_time);
    for (size_t i = 0, end; i < s->n; i = end) {
        for (end = i + 1; end < s->n && s->v[end].step == s->v[i].step && s->v[end].detail == s->v[i].detail;)
            end++;
        bool unknown = windows || differ(&s->v[i], end - i);
        for (size_t j = i; unknown && j < end; j++) set_unknown(c, s->v[j].range);
    }
    free(s->v);
    *s = (struct step_attention){ 0 };
}
