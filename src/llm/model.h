/* A model as its config.json describes it, in terms that fit every family: the decoder (struct llm_text), the
 * image encoders (struct llm_vision), and the flat list of operators both are made of (struct llm_op).
 *     struct llm_model *m = llm_model_load(path, &(struct llm_load){ 0 }, &err);      -- NULL: see err
 *     m->text.hidden ... m->ops[i].in ...
 *     llm_model_free(m);
 * Everything hangs off the model and is const after loading. What the config leaves out has its family's
 * published default, and m->notes says so. What all this costs is cost.h. */
#ifndef LLM_MODEL_H
#define LLM_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "llm/dtype.h"

#define LLM_LAYERS_MAX 4096
#define LLM_STAGES_MAX 4

/* ---- the decoder */
enum llm_rope_kind {
    LLM_ROPE_NONE,
    LLM_ROPE_PLAIN,
    LLM_ROPE_LINEAR,
    LLM_ROPE_DYNAMIC,
    LLM_ROPE_LLAMA3,
    LLM_ROPE_YARN,
    LLM_ROPE_LONGROPE,
    LLM_ROPE_MROPE,
    LLM_ROPE_OTHER /* a type that is not known here: costs the same, but cannot be computed */
};

struct llm_rope {
    enum llm_rope_kind kind;
    uint32_t dims;      /* numbers of a head that turn; the rest pass through */
    double theta;       /* base of the angles */
    double local_theta; /* in sliding-window layers (gemma3); else as theta */
    double factor, low_freq_factor, high_freq_factor, beta_fast, beta_slow, mscale, mscale_all_dim,
        attention_factor;            /* or NAN */
    bool whole_dimensions;           /* yarn: its two borders are rounded outwards ("truncate") */
    uint64_t original_max_positions; /* 0: not given */
};

struct llm_layer {
    uint32_t window; /* keys a query sees at most, itself included; 0: all */
    bool moe;        /* experts instead of the dense MLP */
};

struct llm_text {
    const char *family; /* "llama"; NULL: the model has no decoder */
    uint64_t hidden, heads, kv_heads, vocab, max_positions;
    uint32_t layers;
    uint64_t head_dim;     /* of queries and keys: nope + rope under MLA */
    uint64_t v_head_dim;   /* of values */
    uint64_t intermediate; /* dense MLP */
    double norm_eps;
    const char *activation; /* "silu", "gelu_pytorch_tanh", ... */
    struct llm_rope rope;
    struct llm_layer layer[LLM_LAYERS_MAX];

    /* experts; 0 of them in a dense model */
    uint64_t experts, experts_per_token, expert_intermediate;
    uint64_t shared_intermediate; /* all shared experts side by side; 0: none */
    uint64_t expert_groups, groups_per_token;
    uint32_t moe_layers;
    bool norm_topk, sigmoid_scores;
    double routed_scaling;

    /* multi-head latent attention; kv_lora_rank 0: plain heads */
    uint64_t q_lora_rank, kv_lora_rank, qk_nope_dim, qk_rope_dim;

    int64_t bos_id, eos_id; /* the first of several; -1: not given */
    bool tied_head;         /* lm_head is the embedding matrix */
    bool qkv_bias, o_bias, mlp_bias;
    bool layer_norm;        /* LayerNorm with bias; else RMSNorm */
    bool gated_mlp;         /* gate, up, down; else fc1, fc2 */
    bool qk_norm;           /* per-head norm of queries and keys */
    bool sandwich_norms;    /* a norm after attention and MLP as well (gemma2, gemma3) */
    bool learned_positions; /* gpt2 */
    bool parallel_residual; /* gpt_neox */
};

/* ---- the image side */
enum llm_image_rule {
    LLM_IMAGE_NONE,
    LLM_IMAGE_SQUARE,       /* one view, stretched to the tower's size */
    LLM_IMAGE_DEEPSEEK_OCR, /* global view and 640-pixel tiles, or one of the fixed sizes */
    LLM_IMAGE_QWEN,         /* native size rounded to whole merged patches, within a budget of pixels */
    LLM_IMAGE_INTERNVL, /* 1..max_tiles tiles of the tower's size, and a thumbnail when there are several */
};

struct llm_tower {
    uint64_t hidden, heads, intermediate, channels, patch, temporal_patch, image_size;
    uint32_t layers;
    double norm_eps;
    uint32_t global_layers; /* attention over the whole view; the others see windows (sam, qwen2_5_vl) */
    uint32_t window;        /* edge of an attention window: sam in patches, qwen2_5_vl in merged tokens */
    bool is_global[128];    /* by layer */
};

struct llm_vision {
    const char *family; /* "deepseek_ocr", "clip", "siglip", "vit", "qwen2_vl", ...; NULL: no image side */
    enum llm_image_rule rule;
    struct llm_tower tower;         /* DeepSeek-OCR: the CLIP half */
    struct llm_tower sam;           /* DeepSeek-OCR only: its first half; layers == 0 elsewhere */
    uint64_t sam_neck, sam_down[2]; /* channels: 256; 512, 1024 */
    bool class_token;
    uint64_t merge;           /* edge of the square of patches that become one token */
    uint64_t tokens_per_view; /* for fixed-size views; 0: follows from the view's size */
    uint64_t min_pixels, max_pixels, max_tiles;
    uint64_t projector_in, projector_out;
    bool image_attends_both_ways; /* the decoder lets an image's tokens see each other (gemma3) */
};

/* ---- operators */
enum llm_op_kind {
    LLM_OP_LINEAR,    /* weight [out, in] applied to every row */
    LLM_OP_EXPERTS,   /* `experts` such weights, each row through `topk` of them */
    LLM_OP_CONV,      /* weight [out, in], in = channels * kernel area; a row is an output position */
    LLM_OP_ATTENTION, /* scores and values; no weights */
    LLM_OP_EMBEDDING, /* weight [in, out] of which each row reads one line */
    LLM_OP_NORM,      /* vectors only: bytes but no counted FLOPs */
    LLM_OP_PARAM,     /* weights added to the rows (positions, class token, layer scale) */
};

/* How many rows an operator sees in a pass; cost.h fills the numbers. */
enum llm_rows {
    LLM_ROWS_NONE,
    LLM_ROWS_TOKENS,       /* decoder: batch * tokens */
    LLM_ROWS_HEAD,         /* rows that need logits */
    LLM_ROWS_PATCHES,      /* patches of all views */
    LLM_ROWS_TOWER,        /* patches and class tokens */
    LLM_ROWS_PADDED,       /* sam: patches with the padding to whole windows */
    LLM_ROWS_DOWN1,        /* sam: after the first stride-2 convolution */
    LLM_ROWS_DOWN2,        /* sam: after the second */
    LLM_ROWS_IMAGE_TOKENS, /* what the projector makes */
    LLM_ROWS_VIEWS,
    LLM_ROWS_TEXT, /* clip's text tower */
    LLM_ROWS_N,
};

/* Query-key pairs an attention operator forms in a pass, per head. */
enum llm_pairs {
    LLM_PAIRS_NONE,
    LLM_PAIRS_CAUSAL,  /* decoder; the operator's own window applies */
    LLM_PAIRS_TOWER,   /* every token of a view with every other */
    LLM_PAIRS_WINDOWS, /* within attention windows */
    LLM_PAIRS_SAM,     /* sam's global layers */
    LLM_PAIRS_SAM_WIN, /* sam's windowed layers, padding included: it is not masked */
    LLM_PAIRS_SAM_REL, /* relative positions of a global layer: two axes */
    LLM_PAIRS_SAM_REL_WIN,
    LLM_PAIRS_POOL, /* one query a view (siglip's head) */
    LLM_PAIRS_TEXT, /* clip's text tower */
    LLM_PAIRS_N,
};

struct llm_op {
    const char *name;   /* "q_proj" */
    const char *module; /* "attention": the key of params.by_module */
    int stage;          /* index into llm_model.stages */
    enum llm_op_kind kind;
    enum llm_rows rows;
    enum llm_pairs pairs;
    uint64_t count;   /* how many layers hold one */
    uint64_t in, out; /* shape of the weight; norms: in */
    uint64_t vector;  /* bias and other vectors beside it, numbers per instance */
    uint64_t experts, topk;
    uint64_t heads, qk_dim, v_dim, window; /* attention */
    uint64_t kv;                           /* attention: numbers one token leaves in the cache per layer */
    uint64_t io;           /* numbers a row brings from or takes to memory at the edge of its stage */
    enum llm_dtype weight; /* how the weight is stored; LLM_DTYPE_UNKNOWN: as the model */
    bool tied;             /* the weight is counted elsewhere */
    bool idle;             /* stored but never used */
};

/* ---- the model */
struct llm_params {
    uint64_t total;
    uint64_t embedding; /* input table; also the head when tied */
    uint64_t head;      /* 0 when tied */
    uint64_t active;    /* what one token passes through: decoder with head, without the table's other rows */
    uint64_t active_inner; /* the same without the head */
};

struct llm_model {
    char *name; /* of the folder or file */
    char *model_type, *architecture;
    const char *family;       /* "deepseek_ocr" */
    const char *assumed;      /* --assume: the family it was taken for; NULL: its own */
    enum llm_dtype dtype;     /* of weights and arithmetic */
    enum llm_dtype quantized; /* of weights stored smaller than the rest; LLM_DTYPE_UNKNOWN: none */
    char *quantization;       /* "mxfp4 (experts)"; NULL: none */
    struct llm_text text;
    struct llm_vision vision;
    bool decodes;                       /* has a decoder that prefills and decodes; false for towers alone */
    const char *stages[LLM_STAGES_MAX]; /* [0] is the decoder (clip: its text tower) */
    int nstages;
    struct llm_op *ops;
    size_t nops;
    struct llm_params params;
    char **notes; /* assumptions made while reading, one sentence each */
    size_t nnotes;
};

struct llm_load {
    const char *assume;   /* family to take an unknown architecture for; NULL: refuse it */
    enum llm_dtype dtype; /* overrides the config's; LLM_DTYPE_UNKNOWN: as the config says */
};

#define LLM_STAGE_DECODER 0

/* `path`: a config.json, a folder that holds one, or a .safetensors file beside one. */
struct llm_model *llm_model_load(const char *path, const struct llm_load *how, struct err *err);
/* The same from text in memory; `what` names it in messages. */
struct llm_model *llm_model_parse(const char *text, size_t n, const char *what, const struct llm_load *how,
                                  struct err *err);
void llm_model_free(struct llm_model *m);

uint64_t llm_op_params(const struct llm_op *op); /* numbers stored, all layers and experts; 0 when tied */
double llm_op_weight_bytes(const struct llm_model *m, const struct llm_op *op); /* the same in memory */
uint64_t llm_module_params(const struct llm_model *m, const char *module);
double llm_weight_bytes(const struct llm_model *m);                          /* of the whole model */
double llm_kv_bytes_per_token(const struct llm_model *m, enum llm_dtype kv); /* all layers */
const char *llm_families(void); /* "llama, mistral, ...": what can be read */
bool llm_family_known(const char *name);

#endif
