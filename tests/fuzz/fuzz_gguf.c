/* An untrusted GGUF file: every tensor of an opened file must lie inside it, its model must be usable, and
 * its vocabulary must make a tokenizer or an error. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "engine/tokenizer/tokenizer.h"
#include "engine/weights/gguf_names.h"
#include "llm/gguf.h"
#include "llm/gguf_model.h"
#include "fuzz/fuzz.h"

static void read_all_values(const struct gguf *g) {
    for (size_t i = 0; i < gguf_values(g); i++) {
        const struct gguf_value *v = gguf_value_at(g, i);
        struct bytes at = v->raw, text;
        uint64_t u;
        double d;
        bool b;
        if (gguf_value(g, v->key) != v) abort();
        gguf_u64(g, v->key, &u);
        gguf_f64(g, v->key, &d);
        gguf_bool(g, v->key, &b);
        gguf_array_u64(v, v->count - 1, &u);
        gguf_array_f64(v, v->count / 2, &d);
        while (v->element == GGUF_STRING && gguf_next_str(&at, &text))
            if (text.end > v->raw.end) abort();
    }
}

static void check_place(const struct gguf *g, const char *name) {
    struct gguf_place p = gguf_place_of(g, name);
    if (p.tensor && gguf_find(g, p.name) != p.tensor) abort();
    for (int i = 0; i < 2; i++)
        if (p.halves[i] && gguf_find(g, p.halves[i]->name) != p.halves[i]) abort();
}

/* The tensors under the names of the loaders, and under their own. */
static void find_tensors(const struct gguf *g) {
    static const char *const names[] = { "model.embed_tokens.weight",
                                         "lm_head.weight",
                                         "model.layers.0.self_attn.q_proj.weight",
                                         "model.layers.0.self_attn.kv_b_proj.weight",
                                         "model.layers.0.self_attn.sinks",
                                         "model.layers.0.mlp.gate.e_score_correction_bias",
                                         "model.layers.0.mlp.experts.1.up_proj.weight",
                                         "model.layers.0.block_sparse_moe.experts.1.w2.weight",
                                         "model.layers.2147483647.mlp.experts.2147483647.down_proj.bias" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) check_place(g, names[i]);
    for (size_t i = 0; i < gguf_count(g); i++) check_place(g, gguf_at(g, i)->name);
}

static void use_vocabulary(const struct gguf *g) {
    static const char text[] = "Hello <s> world \xe2\x96\x81 42";
    struct err err;
    struct token_ids ids = { 0 };
    struct tokenizer *t = tokenizer_in_gguf(g) ? tokenizer_open_gguf(g, "fuzz", &err) : NULL;
    if (t) tokenizer_encode(t, text, sizeof text - 1, TOKENIZER_ADD_SPECIAL, &ids, &err);
    free(ids.v);
    tokenizer_close(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct err err;
    struct gguf *g = gguf_parse(data, size, "fuzz", &err);
    if (!g) return 0;
    read_all_values(g);
    for (size_t i = 0; i < gguf_count(g); i++) {
        const struct gguf_tensor *t = gguf_at(g, i);
        if (t->offset > size || t->bytes > size - t->offset) abort();
        if ((const uint8_t *)gguf_data(g, t) != data + t->offset) abort();
        if (gguf_find(g, t->name) != t) abort();
    }
    struct llm_model *m = llm_model_of_gguf(g, "fuzz", &(struct llm_load){ 0 }, &err);
    if (m && !(llm_weight_bytes(m) >= 0)) abort();
    llm_model_free(m);
    find_tensors(g);
    use_vocabulary(g);
    gguf_close(g);
    return 0;
}
