/* Internal to anatomy*.c. */
#ifndef ANALYZE_ANATOMY_INTERNAL_H
#define ANALYZE_ANATOMY_INTERNAL_H

#include "analyze/anatomy.h"
#include "analyze/kernel_name.h"
#include "analyze/recognise.h"

struct anatomy_kernel { /* a kernel or copy of a decode step */
    const char *name, *short_name;
    uint64_t blocks;  /* of its grid */
    uint8_t category; /* enum kernel_category */
    uint8_t role;     /* enum kernel_role */
    uint32_t layer;
    bool is_kernel;
};

/* anchor[layers]: the first attention kernel of each layer. */
void anatomy_assign_roles(struct anatomy_kernel *k, size_t n, const size_t *anchor, size_t layers);

/* Sets the categories of the kernels in a decode step of XLA. The names of these kernels do not show the
 * category. Does nothing for other programs. */
void anatomy_read_xla(struct anatomy_kernel *k, size_t n);

uint64_t anatomy_work_start(const struct timeline *tl, const struct recognised_work *w);
uint64_t anatomy_work_end(const struct timeline *tl, const struct recognised_work *w);

struct context; /* internal.h */
/* Returns [recognition.nwork]: the time that counts for each kernel and copy of the steps. The caller frees
 * it. */
double *anatomy_busy(const struct context *c);

#endif
