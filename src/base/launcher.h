/* The place of this process in a job of several ranks, from the environment variables of launchers. Allocates
 * nothing, so the collector can use it.
 *     struct launcher l;
 *     launcher_read(&l, launcher_env);
 *     if (l.rank != LAUNCHER_UNKNOWN) ... */
#ifndef BASE_LAUNCHER_H
#define BASE_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>

#define LAUNCHER_UNKNOWN UINT32_MAX

struct launcher {
    const char *name; /* "torchrun"; NULL: no launcher recognised */
    uint32_t rank, world_size, local_rank, local_size, node_rank; /* LAUNCHER_UNKNOWN: not set */
    uint32_t restart;                                             /* restarts of the job; 0: first start */
    char node[65]; /* INFERPROF_NODE, else from the launcher, else the host name */
    char job[128]; /* same for all ranks; "": unknown */
};

/* NULL: not set */
typedef const char *launcher_get(const char *name);
launcher_get launcher_env; /* getenv() */
void launcher_read(struct launcher *out, launcher_get *get);

/* one of several ranks */
static inline bool launcher_is_rank(const struct launcher *l) {
    return l->rank != LAUNCHER_UNKNOWN && l->world_size != LAUNCHER_UNKNOWN && l->world_size > 1;
}

#endif
