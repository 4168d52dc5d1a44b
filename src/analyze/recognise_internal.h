/* Shared by the files of the recogniser: the work of one process on one device, and what a kernel's name and
 * grid say about its rows. */
#ifndef ANALYZE_RECOGNISE_INTERNAL_H
#define ANALYZE_RECOGNISE_INTERNAL_H

#include "analyze/kernel_name.h"
#include "analyze/recognise.h"

/* Kernels whose grid counts rows of the activations: one block per row, or one row of blocks. */
enum row_source {
    ROWS_NONE,
    ROWS_NORM,
    ROWS_EMBEDDING, /* gathers one row per block: token ids, or the rows that are sampled */
    ROWS_ROPE,
    ROWS_KV,
    ROWS_ACTIVATION,
    ROWS_REDUCTION, /* a norm written as a mean over the rows: blocks of block.y rows */
    ROWS_RELATIVE,  /* a grid proportional to the rows */
    ROWS_SAMPLING,
    ROW_SOURCES
};
struct shape_facts {
    uint8_t category;   /* enum kernel_category */
    uint8_t row_source; /* enum row_source */
    bool decode_only;   /* an attention kernel for one query per request */
    bool training;      /* backward pass or optimiser */
    bool cache_update;  /* XLA writes into a buffer at a position: a KV cache */
    uint32_t rows;      /* grid.x; 0: unknown */
    uint32_t rows_each; /* rows per block at most */
};
struct shape_facts *recognise_shapes(const struct timeline *tl, const uint8_t *shape_category);

struct item { /* a kernel or copy */
    uint64_t start_ns, end_ns, bytes;
    uint32_t index, launch, shape;
    uint8_t category; /* of a kernel */
    uint8_t copy;     /* enum trace_copy_kind of a copy */
    bool is_kernel;
    bool in_graph;
};

/* A forward pass: items [first, end), of which the first and the last layer begin at these items. */
struct pass {
    size_t first, end, first_anchor, last_anchor;
    uint32_t layers;
};

struct group { /* one process on one device */
    const struct timeline *tl;
    const struct shape_facts *shapes;
    uint32_t device, process;
    struct item *items;
    size_t n;
    struct pass *passes;
    size_t npasses;
    uint32_t layers; /* of most passes */
    const char *boundary;
    bool by_softmax; /* no fused attention: layers were counted by softmax or cache kernels */
};

/* recognise_cuts.c: fills passes, layers and boundary; npasses stays 0 if no step repeats. */
void recognise_cut(struct group *g);
/* Likewise for programs that are no language models: cuts at copies to the host. */
void recognise_cut_copies(struct group *g);
/* recognise_rows.c: kind, tokens and requests of the steps; steps[i] is of passes[i]. True: the program is a
 * language model. */
bool recognise_rows(const struct group *g, struct recognised_step *steps);
/* recognise_phases.c */
void recognise_warm_up(struct recognition *r);
void recognise_phases(const struct timeline *tl, struct recognition *r);

#endif
