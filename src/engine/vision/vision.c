/* Functions that several families of vision models share. */
#include "engine/vision/vision.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "base/util.h"
#include "base/vec.h"

void vision_prepared_free(struct vision_prepared *p) {
    if (p->data) p->free(p->data);
    *p = (struct vision_prepared){ 0 };
}

struct vision_stage vision_stage_begin(struct ops *o, int stage, const char *name) {
    struct vision_stage s = { .stage = stage, .mark = -1 };
    record_push(o->rec, RECORD_STAGES, name, -1);
    if (o->backend->mark && !record_needs_wait(o->rec)) s.mark = o->backend->mark(o->context);
    s.start_ns = clock_mono_ns();
    return s;
}

void vision_stage_end(struct ops *o, struct vision_stage s, struct vision_times *t) {
    if (s.mark >= 0) {
        struct vision_span span = { s.stage, s.mark, o->backend->mark(o->context) };
        vec_push(&t->spans, span);
    } else {
        ops_finish(o);
        t->ns[s.stage] += clock_mono_ns() - s.start_ns;
    }
    record_pop(o->rec, RECORD_STAGES);
}

void vision_times_take(struct ops *o, struct vision_times *t) {
    if (!o->backend->mark) return;
    ops_finish(o);
    for (size_t i = 0; i < t->spans.n; i++) {
        const struct vision_span *s = &t->spans.v[i];
        t->ns[s->stage] += o->backend->marked_ns(o->context, s->from, s->to);
    }
    o->backend->forget_marks(o->context);
    free(t->spans.v);
    t->spans.v = NULL;
    t->spans.n = t->spans.cap = 0;
}

void vision_scale(const struct llm_vision *v, float scale[3][256]) {
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 256; i++)
            scale[c][i] = ((float)((double)i / 255) - v->image_mean[c]) / v->image_std[c];
}

int vision_expand_ids(const uint32_t *ids, size_t n, uint32_t id, uint32_t image_id,
                      const struct vision_prepared *images, size_t nimages, struct token_ids *out,
                      struct token_ids *starts, struct err *err) {
    size_t marks = 0;
    for (size_t i = 0; i < n; i++) marks += ids[i] == id;
    if (marks != nimages)
        return err_set(err,
                       "the prompt contains %zu image tokens, but %zu image%s: write " VISION_MARK
                       " once per image",
                       marks, nimages, nimages == 1 ? " was given" : "s were given");
    for (size_t i = 0, image = 0; i < n; i++) {
        if (ids[i] != id) {
            vec_push(out, ids[i]);
            continue;
        }
        vec_push(starts, (uint32_t)out->n);
        for (int k = 0; k < images[image].tokens; k++) vec_push(out, image_id);
        image++;
    }
    return 0;
}

/* Appends the text of the prompt with every `from` replaced by `to`; returns the number of replacements. */
static size_t replace_texts(const struct vision_prompt *p, const char *from, const char *to,
                            struct strbuf *out) {
    const char *at = p->text, *end = p->text + p->len, *found;
    size_t n = 0;
    for (; (found = memmem(at, (size_t)(end - at), from, strlen(from))); n++) {
        strbuf_add(out, at, (size_t)(found - at));
        strbuf_addstr(out, to);
        at = found + strlen(from);
    }
    strbuf_add(out, at, (size_t)(end - at));
    return n;
}

/* The image token of a family, and the text that its processor writes for an image. */
static const struct own_mark {
    enum llm_image_rule rule;
    const char *token, *text;
} own_marks[] = {
    { LLM_IMAGE_QWEN, "<|image_pad|>", "<|vision_start|><|image_pad|><|vision_end|>" },
    { LLM_IMAGE_SQUARE, VISION_MARK, VISION_MARK },
};

static const struct own_mark *mark_of(const struct vision *v) {
    for (size_t i = 0; i < COUNTOF(own_marks); i++)
        if (own_marks[i].rule == v->model->vision.rule) return &own_marks[i];
    return &own_marks[COUNTOF(own_marks) - 1];
}

/* Writes the prompt with the image marks of the tokenizer, and returns the id of the image token. A tokenizer
 * without the model's own image token, such as the built-in one, encodes VISION_MARK instead. If the prompt
 * has no mark, one mark per image is added at its start. */
static uint32_t mark_prompt(const struct vision *v, struct tokenizer *t, const struct vision_prompt *p,
                            struct strbuf *out) {
    const struct own_mark *own = mark_of(v);
    uint32_t id = tokenizer_find(t, own->token);
    bool known = id != TOKENIZER_NONE, marked;
    const char *mark = known ? own->text : VISION_MARK;
    struct strbuf text = STRBUF_INIT;
    replace_texts(p, known ? VISION_MARK : own->text, mark, &text);
    marked = memmem(text.buf, text.len, known ? own->token : VISION_MARK,
                    strlen(known ? own->token : VISION_MARK)) != NULL;
    for (size_t i = 0; !marked && i < p->nimages; i++) strbuf_addf(out, "%s\n", mark);
    strbuf_add(out, text.buf, text.len);
    strbuf_free(&text);
    return known ? id : tokenizer_find(t, VISION_MARK);
}

int vision_prompt_whole(const struct vision *v, struct tokenizer *t, const struct vision_prompt *p,
                        struct token_ids *ids, struct token_ids *starts, struct err *err) {
    struct strbuf text = STRBUF_INIT;
    struct token_ids plain = { 0 };
    uint32_t id = mark_prompt(v, t, p, &text), image_id = (uint32_t)v->model->vision.image_id;
    int rc = p->nimages && id == TOKENIZER_NONE
                 ? err_set(err, "%s: its tokenizer has no image token", v->model->name)
                 : tokenizer_encode(t, text.buf, text.len, TOKENIZER_ADD_SPECIAL, &plain, err);
    if (rc == 0 && plain.n == 0 && p->bos_id != TOKENIZER_NONE) vec_push(&plain, p->bos_id);
    if (rc == 0 && !p->nimages)
        for (size_t i = 0; i < plain.n; i++) vec_push(ids, plain.v[i]);
    else if (rc == 0)
        rc = vision_expand_ids(plain.v, plain.n, id, image_id, p->images, p->nimages, ids, starts, err);
    strbuf_free(&text);
    free(plain.v);
    return rc;
}
