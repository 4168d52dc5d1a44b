/* Links between GPUs, and the bytes that a collective sends over them.
 *     const struct llm_link *l = llm_link_of_gpu(gpu);                   -- NULL: unknown
 *     double factor = llm_collective_factor(LLM_ALL_REDUCE, 8);          -- 1.75
 *     seconds = bytes * factor / (l->gbytes_per_s * 1e9)
 * Bandwidths are per GPU and per direction, from the makers' documents. Nothing is measured. */
#ifndef LLM_LINKS_H
#define LLM_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/jsonw.h"
#include "llm/gpus.h"

struct llm_link {
    const char *name; /* "NVLink 4" */
    double gbytes_per_s;
    bool network; /* true: connects nodes; false: connects GPUs of one node */
    const char *source;
};

size_t llm_links(void);
const struct llm_link *llm_link_at(size_t i);
/* Accepts a name of the table in any spelling ("nvlink4", "PCIe 5", "ndr") or GB/s per direction ("370").
 * A number fills `custom`. Returns NULL if the name is unknown; err then has the nearest name, if any. */
const struct llm_link *llm_link_find(const char *text, struct llm_link *custom, struct err *err);
/* Returns the link between GPUs of this kind in one node. NULL: unknown, or the same GPU is sold with
 * different links. */
const struct llm_link *llm_link_of_gpu(const struct llm_gpu *gpu);

#define LLM_COLLECTIVES(X)              \
    X(ALL_REDUCE, "all-reduce")         \
    X(ALL_GATHER, "all-gather")         \
    X(REDUCE_SCATTER, "reduce-scatter") \
    X(ALL_TO_ALL, "all-to-all")         \
    X(BROADCAST, "broadcast")           \
    X(REDUCE, "reduce")                 \
    X(SEND, "send")                     \
    X(RECV, "recv")
enum llm_collective_kind {
#define X(id, name) LLM_##id,
    LLM_COLLECTIVES(X)
#undef X
        LLM_COLLECTIVE_KINDS
};
const char *llm_collective_name(enum llm_collective_kind kind);
/* Accepts "all-reduce" and "all_reduce". Returns LLM_COLLECTIVE_KINDS for other names and NULL. */
enum llm_collective_kind llm_collective_of(const char *name);
/* Returns the bus bandwidth divided by the algorithm bandwidth, as defined by nccl-tests
 * (doc/PERFORMANCE.md). The size of a collective is the size of the whole array: the output of an
 * all-gather, the input of a reduce-scatter, or the send buffer of one rank of an all-to-all, including
 * its own part. Returns NAN for fewer than 2 ranks and for LLM_COLLECTIVE_KINDS. */
double llm_collective_factor(enum llm_collective_kind kind, uint64_t ranks);

void llm_link_json(const struct llm_link *l, struct jsonw *j); /* l may be NULL: writes null */

#endif
