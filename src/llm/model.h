/* A model as described by its config.json or GGUF file, in a form common to all families: the decoder
 * (struct llm_text), the image encoders (struct llm_vision), and the flat list of their operators (struct
 * llm_op).
 *     struct llm_model *m = llm_model_load(path, &(struct llm_load){ 0 }, &err);      -- NULL: see err
 *     m->text.hidden ... m->ops[i].in ...
 *     llm_model_free(m);
 * The model owns everything and is const after loading. Missing config keys get the published default of
 * the family, and m->notes lists them. */
#ifndef LLM_MODEL_H
#define LLM_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "llm/dtype.h"

#define LLM_LAYERS_MAX 4096
#define LLM_STAGES_MAX 4
#define LLM_EOS_MAX 32
#define LLM_ROPE_PAIRS 256

/* ---- Decoder */
enum llm_rope_kind {
    LLM_ROPE_NONE,
    LLM_ROPE_PLAIN,
    LLM_ROPE_LINEAR,
    LLM_ROPE_DYNAMIC,
    LLM_ROPE_LLAMA3,
    LLM_ROPE_YARN,
    LLM_ROPE_LONGROPE,
    LLM_ROPE_MROPE,
    LLM_ROPE_OTHER /* unknown type: same cost, but the engine cannot run it */
};

struct llm_rope {
    enum llm_rope_kind kind;
    uint32_t dims;      /* rotated elements per head */
    double theta;       /* base of the angles */
    double local_theta; /* for sliding-window layers (gemma3); otherwise equal to theta */
    double factor, low_freq_factor, high_freq_factor, beta_fast, beta_slow, mscale, mscale_all_dim,
        attention_factor;            /* NAN: not given */
    bool interleaved;                /* pairs are neighbours, as in GGUF files of the llama architecture */
    bool whole_dimensions;           /* yarn: round the two bounds outwards ("truncate") */
    uint64_t original_max_positions; /* 0: not given */
    uint64_t max_positions;          /* of the model */
    /* longrope: divisors of the frequencies for texts up to original_max_positions, and for longer ones */
    float short_factor[LLM_ROPE_PAIRS], long_factor[LLM_ROPE_PAIRS];
    uint32_t factors; /* number of divisors in each list; 0: not given */
    /* mrope: number of pairs that rotate by the time, the row and the column of a token; all 0: not given */
    uint32_t sections[3];
    bool local_plain; /* sliding-window layers use local_theta without scaling (gemma3) */
};

struct llm_layer {
    uint32_t window; /* maximum keys per query, including its own; 0: all */
    bool moe;        /* experts instead of the dense MLP */
};

struct llm_text {
    const char *family; /* "llama"; NULL: the model has no decoder */
    uint64_t hidden, heads, kv_heads, vocab, max_positions;
    uint32_t layers;
    uint64_t head_dim;     /* size of queries and keys; nope + rope with MLA */
    uint64_t v_head_dim;   /* of values */
    uint64_t intermediate; /* dense MLP */
    double norm_eps;
    const char *activation; /* "silu", "gelu_pytorch_tanh", ... */
    struct llm_rope rope;
    struct llm_layer layer[LLM_LAYERS_MAX];

    /* Experts; all 0 in a dense model. */
    uint64_t experts, experts_per_token, expert_intermediate;
    uint64_t shared_intermediate; /* sum over all shared experts; 0: none */
    uint64_t expert_groups, groups_per_token;
    uint32_t moe_layers;
    bool norm_topk, sigmoid_scores;
    bool expert_bias;     /* biases of the router and of the experts (gpt_oss) */
    bool shared_gate;     /* a gate on the shared expert (qwen2_moe) */
    bool correction_bias; /* the router's load-balancing vector (deepseek_v3) */
    double routed_scaling;

    /* Multi-head latent attention; kv_lora_rank 0: not used. */
    uint64_t q_lora_rank, kv_lora_rank, qk_nope_dim, qk_rope_dim;

    int64_t bos_id; /* the first id of a list; -1: not given */
    /* tokens that end a generation; the tokens of generation_config.json take precedence */
    uint32_t eos_ids[LLM_EOS_MAX];
    uint32_t neos;
    bool tied_head; /* lm_head is the embedding matrix */
    bool qkv_bias, o_bias, mlp_bias;
    bool layer_norm;        /* LayerNorm with bias; otherwise RMSNorm */
    bool gated_mlp;         /* gate, up, down; otherwise fc1, fc2 */
    bool qk_norm;           /* per-head norm of queries and keys */
    bool sandwich_norms;    /* additional norms after attention and after the MLP (gemma2, gemma3) */
    bool learned_positions; /* gpt2 */
    bool parallel_residual; /* gpt_neox */
    bool fused_projections; /* q, k and v are one matrix, gate and up another (phi3) */
    bool sinks;             /* one learned score per head takes part in the softmax (gpt_oss) */
    bool clamped_glu;       /* gate and up are limited to `glu_limit` (gpt_oss) */
    bool scaled_embedding;  /* embeddings are multiplied by sqrt(hidden) (gemma) */
    bool norm_plus_one;     /* the factor of a norm is 1 + weight (gemma) */
    double glu_limit;
    /* scores are divided by the square root of this value; NAN: head_dim */
    double score_dim;
    double attention_softcap, logit_softcap; /* x becomes cap tanh(x / cap); NAN: no cap */
};

/* ---- Image encoder */
enum llm_image_rule {
    LLM_IMAGE_NONE,
    LLM_IMAGE_SQUARE,       /* one square view of the tower's size */
    LLM_IMAGE_DEEPSEEK_OCR, /* global view and 640-pixel tiles, or one of the fixed sizes */
    LLM_IMAGE_QWEN,         /* native size rounded to whole merged patches, within pixel limits */
    LLM_IMAGE_INTERNVL,     /* 1..max_tiles tiles of the tower's size, plus a thumbnail if more than one */
};

struct llm_tower {
    uint64_t hidden, heads, intermediate, channels, patch, temporal_patch, image_size;
    uint32_t layers;
    double norm_eps;
    uint32_t global_layers; /* layers that attend to the whole view; others use windows (sam, qwen2_5_vl) */
    uint32_t window;        /* edge of an attention window: sam in patches, qwen2_5_vl in merged tokens */
    bool is_global[128];    /* by layer */
    const char *activation; /* "quick_gelu", ...; NULL: not read for this tower */
};

struct llm_vision {
    const char *family; /* "deepseek_ocr", "clip", "siglip", "vit", "qwen2_vl", ...; NULL: no image encoder */
    enum llm_image_rule rule;
    struct llm_tower tower;         /* DeepSeek-OCR: the CLIP part */
    struct llm_tower sam;           /* DeepSeek-OCR only: the SAM part; otherwise layers == 0 */
    uint64_t sam_neck, sam_down[2]; /* channels: 256; 512, 1024 */
    bool class_token;
    uint64_t merge;           /* edge of the square of patches merged into one token */
    uint64_t tokens_per_view; /* for fixed-size views; 0: depends on the view's size */
    uint64_t min_pixels, max_pixels, max_tiles;
    uint64_t projector_in, projector_out;
    bool image_attends_both_ways; /* tokens of an image attend to each other in both directions (gemma3) */
    int64_t image_id;             /* placeholder token, once per image embedding; -1: not given */
    /* llava: number of layers before the features; 0: the features of several layers are used */
    uint32_t feature_layers;
    const char *projector_activation; /* llava; otherwise NULL */
    bool projector_bias;
    float image_mean[3], image_std[3]; /* pixels become (value / 255 - mean) / std */
};

/* ---- Quantised weights */

/* Layout of one quantised matrix [out, in]: its weights, and a scale and a zero point per block of
 * block_out x block_in weights. A block size of 0 means the whole dimension. */
struct llm_pack {
    enum llm_dtype type; /* LLM_DTYPE_UNKNOWN: not quantised */
    uint32_t bits;       /* per weight */
    uint32_t block_in, block_out;
    double scale_bits, zero_bits; /* per block */
    uint32_t column_bits;         /* per input column: the group index of GPTQ */
    uint32_t matrix_bits;         /* per matrix: scale and shape of the whole matrix */
    bool activations;             /* activations are quantised too, so products use the type's own units */
};
double llm_pack_bytes(const struct llm_pack *p, uint64_t in, uint64_t out);

/* ---- Operators */
enum llm_op_kind {
    LLM_OP_LINEAR,    /* weight [out, in] applied to every row */
    LLM_OP_EXPERTS,   /* `experts` weights [out, in]; each row uses `topk` of them */
    LLM_OP_CONV,      /* weight [out, in], in = channels * kernel area; a row is an output position */
    LLM_OP_ATTENTION, /* scores and values; no weights */
    LLM_OP_EMBEDDING, /* weight [in, out]; each row reads one line */
    LLM_OP_NORM,      /* vectors only: counts bytes, no FLOPs */
    LLM_OP_PARAM,     /* other weights: positions, class token, layer scale */
};

/* The kind of rows that an operator processes in a pass; cost.h computes their number. */
enum llm_rows {
    LLM_ROWS_NONE,
    LLM_ROWS_TOKENS,       /* decoder: batch * tokens */
    LLM_ROWS_HEAD,         /* rows that need logits */
    LLM_ROWS_PATCHES,      /* patches of all views */
    LLM_ROWS_TOWER,        /* patches and class tokens */
    LLM_ROWS_PADDED,       /* sam: patches padded to whole windows */
    LLM_ROWS_DOWN1,        /* sam: after the first stride-2 convolution */
    LLM_ROWS_DOWN2,        /* sam: after the second */
    LLM_ROWS_IMAGE_TOKENS, /* output rows of the projector */
    LLM_ROWS_VIEWS,
    LLM_ROWS_TEXT, /* text tower of clip */
    LLM_ROWS_N,
};

/* Query-key pairs of an attention operator in a pass, per head. */
enum llm_pairs {
    LLM_PAIRS_NONE,
    LLM_PAIRS_CAUSAL,  /* decoder; the operator's own window applies */
    LLM_PAIRS_TOWER,   /* all pairs of tokens within a view */
    LLM_PAIRS_WINDOWS, /* within attention windows */
    LLM_PAIRS_SAM,     /* sam's global layers */
    LLM_PAIRS_SAM_WIN, /* sam's windowed layers, including padding, which is not masked */
    LLM_PAIRS_SAM_REL, /* relative positions of a global layer: two axes */
    LLM_PAIRS_SAM_REL_WIN,
    LLM_PAIRS_POOL, /* one query per view (siglip's head) */
    LLM_PAIRS_TEXT, /* text tower of clip */
    LLM_PAIRS_N,
};

struct llm_op {
    const char *name;   /* "q_proj" */
    const char *module; /* group of operators, such as "attention" (llm_module_params) */
    int stage;          /* index into llm_model.stages */
    enum llm_op_kind kind;
    enum llm_rows rows;
    enum llm_pairs pairs;
    uint64_t count;   /* layers with this operator */
    uint64_t in, out; /* shape of the weight; norms: in */
    uint64_t vector;  /* size of bias and other vectors, per instance */
    uint64_t experts, topk;
    uint64_t heads, qk_dim, v_dim, window; /* attention */
    uint64_t kv;                           /* attention: numbers per token and layer in the cache */
    uint64_t io;                           /* numbers per row read or written at the boundary of the stage */
    enum llm_dtype weight; /* type of the quantised weight; LLM_DTYPE_UNKNOWN: same as the model */
    double instance_bytes; /* bytes per layer and expert: weight, scales, zero points and vectors */
    /* On a GPU that shares the model (shard.h): the fraction of the experts on this GPU, and the rows
     * that this operator processes per row of the pass. 0 means 1. */
    double expert_share, row_scale;
    bool tied; /* uses the weight of another operator */
    bool idle; /* stored but never used */
};

/* ---- Model */
struct llm_params {
    uint64_t total;
    uint64_t embedding;    /* input table; also the head if tied */
    uint64_t head;         /* 0 if tied */
    uint64_t active;       /* parameters used per token: decoder layers and head, no embedding table */
    uint64_t active_inner; /* like `active`, without the head */
};

struct llm_model {
    char *name; /* name of the folder or file */
    char *model_type, *architecture;
    const char *family;   /* "deepseek_ocr" */
    const char *assumed;  /* family given by --assume; NULL: recognised */
    enum llm_dtype dtype; /* type of weights and arithmetic */
    struct llm_pack pack; /* layout of quantised weights; pack.type LLM_DTYPE_UNKNOWN: none */
    char *quantization;   /* "mxfp4 (experts)"; NULL: none */
    struct llm_text text;
    struct llm_vision vision;
    bool decodes;                       /* has a decoder with prefill and decode; false for towers only */
    const char *stages[LLM_STAGES_MAX]; /* [0] is the decoder (clip: its text tower) */
    int nstages;
    struct llm_op *ops;
    size_t nops;
    struct llm_params params;
    /* layers for multi-token prediction (deepseek_v3): in the checkpoint, but not used by plain decoding */
    struct {
        uint32_t layers;
        uint64_t params;
        double bytes;
    } mtp;
    char **notes; /* assumptions made while reading, one sentence each */
    size_t nnotes;
};

struct safetensors;
struct llm_load {
    const char *assume;   /* family to use for the config; NULL: reject unknown architectures */
    enum llm_dtype dtype; /* overrides the config; LLM_DTYPE_UNKNOWN: from the config */
    /* Headers of the weight files, used if the config does not mention quantisation; NULL: none. */
    const struct safetensors *weights;
};

#define LLM_STAGE_DECODER 0

/* `path`: a config.json, a folder with a config.json, a .safetensors file next to a config.json, a .gguf
 * file, or a folder with a .gguf file. */
struct llm_model *llm_model_load(const char *path, const struct llm_load *how, struct err *err);
/* Like llm_model_load(), but reads a config.json in memory; `what` is its name in messages. */
struct llm_model *llm_model_parse(const char *text, size_t n, const char *what, const struct llm_load *how,
                                  struct err *err);
struct gguf_head;
/* Like llm_model_load(), but reads the heads of GGUF files; the first head contains the metadata. */
struct llm_model *llm_model_of_heads(const struct gguf_head *heads, size_t n, const struct llm_load *how,
                                     struct err *err);
void llm_model_free(struct llm_model *m);

double llm_op_expert_share(const struct llm_op *op); /* 1 if not set */
double llm_op_row_scale(const struct llm_op *op);    /* 1 if not set */
uint64_t llm_op_params(const struct llm_op *op);     /* parameters in all layers and experts; 0 if tied */
double llm_op_weight_bytes(const struct llm_op *op); /* bytes of those parameters */
uint64_t llm_module_params(const struct llm_model *m, const char *module);
double llm_weight_bytes(const struct llm_model *m);
const char *llm_families(void); /* "llama, mistral, ...": supported families */
bool llm_family_known(const char *name);

#endif
