/* The bus bandwidth of collectives compared with the peak of their links. Within a node, the link is that
 * of the GPU (llm/links.h) or the link given by the user. Between nodes, the link is unknown unless the
 * user gives it. If the link is unknown, so is its peak. */
#ifndef RANKS_LINK_USE_H
#define RANKS_LINK_USE_H

#include "llm/links.h"
#include "ranks/ranks.h"

#define RANK_LARGE_BYTES (16u << 20) /* smaller messages are limited by latency */

struct rank_links {
    /* Given by the user. link: within a node; NULL: found by the name of the GPU. net: between nodes; NULL:
     * unknown. */
    const struct llm_link *link, *net;
};

struct rank_link_use {
    const char *link;        /* name; NULL: unknown */
    double peak_bytes_per_s; /* NaN: unknown */
    double share;            /* bus bandwidth / peak; NaN: unknown */
};

/* Returns the link that limits a collective (row of job.collectives). Between nodes, a ring uses the network
 * adapters of all its GPUs in a node, one per GPU; other operations use one adapter. If those are faster than
 * the GPU's link, the GPU's link is the limit. */
struct rank_link_use rank_link_use(const struct rank_job *job, const struct rank_links *links,
                                   size_t collective);

/* Returns true if a collective is much slower than the same operation and size on other communicators with
 * the same number of ranks. Communicators within a node and across nodes are not mixed. *others: median of
 * their bus bandwidths; *peers: number of rows in the median. */
bool rank_link_is_slow(const struct rank_job *job, size_t collective, double *others, size_t *peers);

#endif
