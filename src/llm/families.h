/* Supported model families, one row per family: how to recognise the family, its defaults for missing
 * config keys, and its special features. Internal to src/llm. */
#ifndef LLM_FAMILIES_H
#define LLM_FAMILIES_H

#include <stdint.h>

#include "llm/model.h"

/* Features of decoders. */
enum text_trait {
    TEXT_TIED = 1 << 0,              /* tie_word_embeddings is true by default */
    TEXT_QKV_BIAS = 1 << 1,          /* q, k and v have a bias by default (qkv_bias) */
    TEXT_BIAS_DEFAULT = 1 << 2,      /* attention_bias is true by default (q, k, v and o) */
    TEXT_NO_ATTENTION_BIAS = 1 << 3, /* the key attention_bias is ignored */
    TEXT_ALL_BIAS = 1 << 4,          /* bias in every linear layer except the head */
    TEXT_LAYER_NORM = 1 << 5,
    TEXT_PLAIN_MLP = 1 << 6,
    TEXT_QK_NORM = 1 << 7,
    TEXT_SANDWICH = 1 << 8,
    TEXT_POSITIONS = 1 << 9,    /* learned position table */
    TEXT_SINKS = 1 << 10,       /* one learned score per head */
    TEXT_EXPERT_BIAS = 1 << 11, /* experts and router have biases */
    TEXT_SHARED_GATE = 1 << 12, /* a gate on the shared expert */
    TEXT_MLA = 1 << 13,
    TEXT_CORRECTION_BIAS = 1 << 14, /* router's load-balancing vector */
    TEXT_MOE_EVERYWHERE = 1 << 15,  /* experts in all layers, of width intermediate_size */
    TEXT_PARALLEL = 1 << 16,
    TEXT_SIGMOID = 1 << 17,
    TEXT_NORM_TOPK = 1 << 18,
    TEXT_CLIP = 1 << 19,        /* clip's text tower: no head, runs once */
    TEXT_GEMMA = 1 << 20,       /* scaled embeddings; norms multiply by 1 + weight */
    TEXT_CLAMPED_GLU = 1 << 21, /* gate and up are limited */
    TEXT_FUSED = 1 << 22,       /* qkv and gate_up are one matrix each */
};

/* Which layers use a sliding window if the config does not list them. */
enum window_rule { WINDOW_ALL, WINDOW_LATE, WINDOW_EVEN, WINDOW_PATTERN };

struct text_family {
    const char *name, *model_types, *architectures; /* lists as "|a|b|" */
    uint32_t traits;
    enum window_rule windows;
    /* Defaults of the published configuration class. kv_heads 0: same as heads; head_dim 0: hidden /
     * heads. */
    uint64_t hidden, layers, heads, kv_heads, head_dim, intermediate, vocab, positions, window;
    double eps, theta, rotary;
    const char *activation;
    uint64_t experts, topk, expert_intermediate, shared,
        first_dense; /* shared: number of experts (deepseek) or width (qwen) */
    uint64_t q_lora, kv_lora, nope, rope, v_dim;
};

/* Features of image towers. */
enum vision_trait {
    VISION_CLASS_TOKEN = 1 << 0,
    VISION_PATCH_BIAS = 1 << 1,
    VISION_PRE_NORM = 1 << 2,
    VISION_POST_NORM = 1 << 3,
    VISION_POSITIONS = 1 << 4,
    VISION_RMS_NORM = 1 << 5,
    VISION_GATED = 1 << 6,
    VISION_QKV_BIAS = 1 << 7, /* qkv has a bias by default; the config can override this */
    VISION_LAYER_SCALE = 1 << 8,
    VISION_POOLER = 1 << 9, /* a dense layer on the class token */
    VISION_HEAD = 1 << 10,  /* attention pooling of siglip, unless vision_use_head is false */
    VISION_WINDOWS = 1 << 11,
    /* embed_dim is the width of the tower, hidden_size the width of the decoder */
    VISION_QWEN_NAMES = 1 << 12,
    VISION_QK_NORM_KEY = 1 << 13, /* qk_normalization / use_qk_norm in the config */
    VISION_CLASSIFIER = 1 << 14,  /* a final linear layer instead of the pooler, for image classification */
};

struct vision_family {
    const char *name, *model_types, *architectures;
    uint32_t traits;
    uint64_t hidden, layers, heads, intermediate, patch, image_size, temporal;
    double eps;
};

enum projector_kind {
    PROJECTOR_NONE,
    PROJECTOR_MLP2,      /* llava: linear, gelu, linear */
    PROJECTOR_NORM_ONE,  /* gemma3: pool, norm, one matrix */
    PROJECTOR_MERGER,    /* qwen: norm, then two layers over merged patches */
    PROJECTOR_NORM_MLP2, /* internvl: norm and two layers over merged patches */
    PROJECTOR_LINEAR,    /* deepseek_ocr */
    PROJECTOR_DUAL,      /* clip: one matrix per side, into the common space */
};

/* Multi-part models. `text` and `vision` are used if the config does not name other families. */
struct joint_family {
    const char *name, *model_types, *architectures;
    const char *text, *vision;
    const char *vision_absent; /* tower if there is no vision_config; NULL: same as `vision` */
    enum projector_kind projector;
    enum llm_image_rule rule;
    uint64_t merge, tokens_per_view;
    uint64_t max_pixels, max_tiles;
    bool both_ways, tied;
};

const struct text_family *text_family_find(const char *model_type, const char *architecture);
const struct vision_family *vision_family_find(const char *model_type, const char *architecture);
const struct joint_family *joint_family_find(const char *model_type, const char *architecture);

#endif
