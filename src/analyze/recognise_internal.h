/* Shared by the files of the recogniser. */
#ifndef ANALYZE_RECOGNISE_INTERNAL_H
#define ANALYZE_RECOGNISE_INTERNAL_H

#include "analyze/kernel_name.h"
#include "analyze/recognise.h"

/* Kinds of kernels whose grid shows the number of rows of the activations: grid.x is that number, unless
 * noted. */
enum row_source {
    ROWS_NONE,
    ROWS_NORM,
    ROWS_EMBEDDING, /* gathers the rows of token ids, or the sampled rows */
    ROWS_ROPE,
    ROWS_KV,
    ROWS_ACTIVATION,
    ROWS_REDUCTION, /* mean of each row, as part of a norm; up to block.y rows per block */
    ROWS_RELATIVE,  /* the grid is proportional to the number of rows */
    ROWS_SAMPLING,
    ROWS_SINGLE, /* the native engine's product of one row */
    ROW_SOURCES
};
struct shape_facts {
    uint8_t category;   /* enum kernel_category */
    uint8_t row_source; /* enum row_source */
    bool decode_only;   /* one query per request */
    bool training;      /* backward pass or optimiser */
    bool cache_update;  /* an XLA kernel that writes into a buffer at an offset, such as the KV cache */
    uint32_t rows;      /* grid.x, or 1 for a matrix-vector product; 0: unknown */
    uint32_t rows_each; /* largest number of rows per block */
};
struct shape_facts *recognise_shapes(const struct timeline *tl, const uint8_t *shape_category);

struct item { /* a kernel or copy */
    uint64_t start_ns, end_ns, bytes;
    uint32_t index, launch, shape;
    uint8_t category; /* enum kernel_category, for a kernel */
    uint8_t copy;     /* enum trace_copy_kind, for a copy */
    bool is_kernel;
    bool in_graph;
    bool looks_up_ids; /* reads the embeddings of token ids */
    bool is_head;      /* LM head of rows that were selected after the final norm */
    bool after_norm;   /* a norm ran since the last product */
};

/* A forward pass: the items [first, end). Its first layer begins at first_anchor, its last at last_anchor. */
struct pass {
    size_t first, end, first_anchor, last_anchor;
    uint32_t layers;
    bool encoder; /* image encoder, before the decoder */
};

struct group { /* one process on one device */
    const struct timeline *tl;
    const struct shape_facts *shapes;
    uint32_t device, process;
    struct item *items;
    size_t n;
    struct pass *passes;
    size_t npasses;
    uint32_t layers;       /* of most passes */
    uint32_t other_layers; /* of the passes of another model; 0: there is one model */
    const char *boundary;
    bool by_softmax; /* there is no fused attention; layers were counted by softmax or cache kernels */
    bool starts_inside, ends_inside; /* the trace begins after, or ends before, other layers of its pass */
};

/* recognise_cuts.c: sets passes, layers and boundary. npasses stays 0 if no step repeats. */
void recognise_cut(struct group *g);
/* Like recognise_cut(), for programs that are not language models: cuts at copies to the host. */
void recognise_cut_copies(struct group *g);
/* recognise_rows.c: sets kind, tokens and requests of the steps; steps[i] belongs to passes[i]. Returns
 * true if the program is a language model. */
bool recognise_rows(const struct group *g, struct recognised_step *steps);
/* recognise_context.c: sets the context lengths of the decode steps; called after recognise_rows() */
void recognise_context(const struct group *g, struct recognised_step *steps);
/* recognise_phases.c. leading: steps at the beginning of the trace may be warm-up, too. whole: see
 * recognise() */
void recognise_warm_up(struct recognition *r, const struct recognised_phases *whole, bool leading);
void recognise_phases(const struct timeline *tl, struct recognition *r);

#endif
