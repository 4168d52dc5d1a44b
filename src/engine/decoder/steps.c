#include "engine/decoder/steps.h"

#include <stdlib.h>

#include "base/die.h"

struct decoder_steps {
    struct decoder *decoder; /* borrowed */
    const struct ops_decode_calls *calls;
    void *state;
    enum decode_path path;
    unsigned reserved; /* value of decoder->reserved when `state` was made */
};

static struct decode_layer layer_of(const struct decoder_layer *l) {
    struct decode_layer out = { .norm1 = l->norm1,
                                .norm2 = l->norm2,
                                .q = l->q,
                                .k = l->k,
                                .v = l->v,
                                .o = l->o,
                                .q_norm = l->q_norm,
                                .k_norm = l->k_norm,
                                .keys = l->keys,
                                .values = l->values,
                                .window = l->window,
                                .mlp = l->mlp };
    if (!l->moe.routing.n) return out;
    out.router = &l->moe.router;
    out.experts = l->moe.experts;
    out.shared = l->moe.shared;
    out.routing = l->moe.routing;
    return out;
}

static void *open_state(struct decoder *d, const struct ops_decode_calls *calls, enum decode_path path) {
    struct decode_layer *layers = xcalloc((size_t)d->layers, sizeof *layers);
    for (int i = 0; i < d->layers; i++) layers[i] = layer_of(&d->layer[i]);
    void *state = calls->open(d->ops->context, &(struct decode_plan){ .path = path,
                                                                      .hidden = d->hidden,
                                                                      .heads = d->heads,
                                                                      .kv_heads = d->kv_heads,
                                                                      .dim = d->dim_k,
                                                                      .vocab = d->vocab,
                                                                      .max_context = d->positions,
                                                                      .eps = (float)d->c->norm_eps,
                                                                      .scale = d->score_scale,
                                                                      .embed = d->embed,
                                                                      .head = d->head,
                                                                      .norm = d->norm,
                                                                      .rope = &d->rope,
                                                                      .layer = layers,
                                                                      .layers = d->layers });
    free(layers);
    return state;
}

/* Returns true if the model needs a feature that decoding steps on the device do not support. */
static bool needs_operators(const struct llm_text *c) {
    return c->shared_gate || c->sandwich_norms || c->scaled_embedding || c->sinks || c->sigmoid_scores ||
           rope_fits_length(&c->rope) || c->rope.kind == LLM_ROPE_MROPE || c->rope.local_plain;
}

struct decoder_steps *decoder_steps_open(struct decoder *d, enum decode_path path) {
    const struct ops_decode_calls *calls = d->ops->backend->decode;
    if (!calls || d->c->kv_lora_rank || d->dim_k != d->dim_v || needs_operators(d->c)) return NULL;
    void *state = open_state(d, calls, path);
    if (!state) return NULL;
    struct decoder_steps *s = xcalloc(1, sizeof *s);
    *s = (struct decoder_steps){ d, calls, state, path, d->reserved };
    return s;
}

void decoder_steps_close(struct decoder_steps *s) {
    if (!s) return;
    s->calls->close(s->state);
    free(s);
}

void decoder_steps_begin(struct decoder_steps *s, const struct decode_start *start) {
    /* the cache was allocated again, because a batch was served in between */
    if (s->reserved != s->decoder->reserved) {
        s->calls->close(s->state);
        s->state = open_state(s->decoder, s->calls, s->path);
        s->reserved = s->decoder->reserved;
    }
    s->calls->begin(s->state, start);
}
int decoder_steps_portion(struct decoder_steps *s) { return s->calls->portion(s->state); }
void decoder_steps_stop(struct decoder_steps *s) { s->calls->stop(s->state); }
void decoder_steps_submit(struct decoder_steps *s, int steps) { s->calls->submit(s->state, steps); }
bool decoder_steps_take(struct decoder_steps *s, uint32_t *token) { return s->calls->take(s->state, token); }
void decoder_steps_read(struct decoder_steps *s, enum decode_vector which, float *to, size_t n) {
    s->calls->read(s->state, which, to, n);
}
bool decoder_steps_has_spans(struct decoder_steps *s) { return s->calls->has_spans(s->state); }
size_t decoder_steps_spans(struct decoder_steps *s, struct decode_span spans[DECODE_MOST_SPANS]) {
    return s->calls->spans(s->state, spans);
}
