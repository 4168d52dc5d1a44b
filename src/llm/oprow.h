/* A model as rows: each row is an operator whose shape, number and conditions are named, not computed, so
 * that one table serves every family. Internal to src/llm.
 *     { "q_proj", "attention", LLM_OP_LINEAR, .in = DIM_HIDDEN, .out = DIM_Q, .vector = DIM_Q,
 *       .vector_when = HAS_QKV_BIAS, .count = COUNT_LAYERS, .unless = HAS_MLA } */
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
    uint8_t in, out; /* numbers[] of the shape; 0: none */
    uint8_t vector;  /* numbers[] of a vector beside it */
    uint8_t count;   /* numbers[]: layers that hold it; a count of 0 leaves the row out */
    uint8_t experts, topk;
    uint8_t heads, qk_dim, v_dim, window, kv;
    uint8_t io;
    uint32_t vector_when;  /* all of these bits, or the vector is absent; 0: always there */
    uint32_t when, unless; /* all of `when` and none of `unless`, or the row is left out */
    uint8_t quant;         /* OPROW_QUANT_*: takes the quantised type when that is in scope */
    bool tied, idle;
};

enum { OPROW_QUANT_EXPERTS = 1, OPROW_QUANT_LINEAR = 2 };

struct opbuild {
    struct llm_model *model;
    int stage;
    uint32_t has;                        /* condition bits of this model */
    uint64_t numbers[OPROW_NUMBERS_MAX]; /* [0] is 0, [1] is 1, the rest as the table's enum says */
    enum llm_dtype quantized;            /* for rows within quant_scope */
    uint8_t quant_scope;
    enum llm_rows tokens; /* what LLM_ROWS_TOKENS and LLM_PAIRS_CAUSAL mean here; 0: themselves */
    enum llm_pairs causal;
};

void oprow_add(const struct opbuild *b, const struct oprow *rows, size_t n);

#endif
