/* Finds the tensor of a GGUF file for a name of safetensors files, which the loaders use:
 *     model.layers.3.self_attn.q_proj.weight     blk.3.attn_q.weight
 *     model.layers.3.mlp.experts.7.up_proj.weight    slice 7 of blk.3.ffn_up_exps.weight */
#ifndef ENGINE_WEIGHTS_GGUF_NAMES_H
#define ENGINE_WEIGHTS_GGUF_NAMES_H

#include <stdbool.h>

#include "llm/gguf.h"

struct gguf_place {
    const struct gguf_tensor *tensor;    /* NULL: the file has no such tensor */
    int slice;                           /* index of the expert in a stacked tensor; -1: the whole tensor */
    const struct gguf_tensor *halves[2]; /* keys and values of kv_b, used instead of `tensor`; NULL: none */
    char name[128];                      /* the name searched for in the file */
};

struct gguf_place gguf_place_of(const struct gguf *g, const char *name);

#endif
