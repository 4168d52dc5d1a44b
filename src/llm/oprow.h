/* Operator tables: each row is an operator whose shape, count and conditions are named symbolically, so that
 * one table covers all families. Internal to src/llm.
 *     { "q_proj", "attention", LLM_OP_LINEAR, .in = HIDDEN, .out = Q, .vector = Q,
 *       .vector_when = HAS_QKV_BIAS, .count = LAYERS, .unless = HAS_Q_LORA } */
#ifndef LLM_OPROW_H
#define LLM_OPROW_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "llm/model.h"

enum { OPROW_NUMBERS_MAX = 48 };

struct oprow {
    const char *name, *module;
    enum llm_op_kind kind;
    enum llm_rows rows;
    enum llm_pairs pairs;
    uint8_t in, out; /* index into numbers[] for the shape; 0: none */
    uint8_t vector;  /* index into numbers[] for the bias or other vector */
    /* index into numbers[]: number of layers with this operator; if that is 0, the row is skipped */
    uint8_t count;
    uint8_t experts, topk;
    uint8_t heads, qk_dim, v_dim, window, kv;
    uint8_t io;
    uint32_t vector_when;  /* the vector exists if all these bits are set; 0: always */
    uint32_t when, unless; /* the row is used if all of `when` and none of `unless` are set */
    /* OPROW_QUANT_*: the weight is quantised if the quantisation includes this scope */
    uint8_t quant;
    bool tied, idle;
};

enum { OPROW_QUANT_EXPERTS = 1, OPROW_QUANT_LINEAR = 2, OPROW_QUANT_HEAD = 4 };

struct opbuild {
    struct llm_model *model;
    int stage;
    uint32_t has;                        /* condition bits of this model */
    uint64_t numbers[OPROW_NUMBERS_MAX]; /* [0] is 0, [1] is 1; the table's enum defines the others */
    enum llm_dtype quantized;            /* weight type of rows within quant_scope */
    uint8_t quant_scope;
    enum llm_rows tokens;  /* used instead of LLM_ROWS_TOKENS; 0: no replacement */
    enum llm_pairs causal; /* used instead of LLM_PAIRS_CAUSAL; 0: no replacement */
};

void oprow_add(const struct opbuild *b, const struct oprow *rows, size_t n);

#endif
