/* Columns of tables of costs. The items are struct llm_cost_row. */
#ifndef LLM_COST_COLUMNS_H
#define LLM_COST_COLUMNS_H

#include "base/columns.h"
#include "llm/cost.h"

/* A stage, a module or an operator. */
struct llm_cost_row {
    const char *label;          /* for people */
    const char *stage, *parent; /* NULL: none */
    double tokens;              /* NaN: unknown */
    const char *module, *name;  /* of an operator */
    uint64_t layers, in, out;   /* of an operator; in, out 0: unknown */
    struct llm_cost cost;
};

extern const struct column_group llm_cost_columns;        /* FLOPs, bytes, roofline time, bound */
extern const struct column_group llm_cost_bound_columns;  /* JSON only: the hard bound */
extern const struct column_group llm_cost_detail_columns; /* JSON only: parts of the cost */
extern const struct column_group llm_stage_columns;       /* label */
extern const struct column_group llm_stage_list_columns;  /* JSON only: name, parent, tokens */
extern const struct column_group llm_operator_columns;    /* stage, module, name, layers, sizes */
extern const struct column_group llm_module_columns;      /* JSON only: stage, module */

#endif
