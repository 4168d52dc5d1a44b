#include "ranks/link_use.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/stats.h"
#include "base/util.h"
#include "llm/gpus.h"

/* a link is slow below this share of the median bandwidth on other communicators */
#define SLOW_LINK 0.7

/* Returns the link given by the user, else the link of the communicator's GPUs. NULL: unknown, or the GPUs
 * have different links. */
static const struct llm_link *local_link(const struct rank_job *job, const struct rank_links *links,
                                         const struct rank_communicator *c) {
    const struct llm_link *found = NULL;
    if (links->link) return links->link;
    for (size_t i = 0; i < c->nranks; i++) {
        const struct rank_row *r = rank_job_find(job, c->ranks[i]);
        struct err err;
        const struct llm_gpu *gpu =
            r && r->device && !strchr(r->device, ',') ? llm_gpu_find(r->device, &err) : NULL;
        const struct llm_link *link = llm_link_of_gpu(gpu);
        if (!link || (found && found != link)) return NULL;
        found = link;
    }
    return found;
}

/* Returns true for operations that NCCL runs as rings or trees: their bytes leave a node through all
 * adapters. */
static bool is_ring(const char *operation) {
    enum llm_collective_kind kind = llm_collective_of(operation);
    return kind == LLM_ALL_REDUCE || kind == LLM_ALL_GATHER || kind == LLM_REDUCE_SCATTER ||
           kind == LLM_BROADCAST || kind == LLM_REDUCE;
}

struct rank_link_use rank_link_use(const struct rank_job *job, const struct rank_links *links,
                                   size_t collective) {
    struct rank_link_use use = { NULL, NAN, NAN };
    const struct rank_collective *c = &job->collectives[collective];
    if (c->communicator >= job->ncommunicators) return use;
    const struct rank_communicator *comm = &job->communicators[c->communicator];
    const struct llm_link *link = local_link(job, links, comm);
    if (comm->nodes <= 1) {
        if (link) use = (struct rank_link_use){ link->name, link->gbytes_per_s * 1e9, NAN };
    } else if (links->net) {
        double adapters = is_ring(c->operation) ? fmax(1, floor((double)comm->nranks / comm->nodes)) : 1;
        double net = links->net->gbytes_per_s * 1e9 * adapters;
        double local = link && adapters > 1 ? link->gbytes_per_s * 1e9 : INFINITY;
        use = (struct rank_link_use){ net <= local ? links->net->name : link->name, fmin(net, local), NAN };
    }
    use.share = c->bus_bytes_per_s / use.peak_bytes_per_s;
    return use;
}

static bool is_comparable(const struct rank_job *job, const struct rank_collective *a,
                          const struct rank_collective *b) {
    const struct rank_communicator *x = &job->communicators[a->communicator];
    const struct rank_communicator *y = &job->communicators[b->communicator];
    return x != y && a->operation && b->operation && strcmp(a->operation, b->operation) == 0 &&
           a->bytes == b->bytes && (x->nodes > 1) == (y->nodes > 1) && x->nranks == y->nranks;
}

bool rank_link_is_slow(const struct rank_job *job, size_t collective, double *others, size_t *peers) {
    const struct rank_collective *c = &job->collectives[collective];
    double *v = xcalloc(job->ncollectives, sizeof *v);
    *peers = 0;
    for (size_t i = 0; i < job->ncollectives; i++)
        if (job->collectives[i].bus_bytes_per_s > 0 && is_comparable(job, c, &job->collectives[i]))
            v[(*peers)++] = job->collectives[i].bus_bytes_per_s;
    *others = stats_median_sorting(v, *peers);
    free(v);
    return *peers && c->bytes >= RANK_LARGE_BYTES / 16 && c->bus_bytes_per_s < SLOW_LINK * *others;
}
