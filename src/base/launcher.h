/* The place of this process in a job of several ranks, from the variables that launchers set. The table in
 * launcher.c lists them. Allocates nothing, so the collector can use it in any program.
 *     struct launcher l;
 *     launcher_read(&l, launcher_env);
 *     if (l.rank != LAUNCHER_UNKNOWN) ... */
#ifndef BASE_LAUNCHER_H
#define BASE_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>

#define LAUNCHER_UNKNOWN UINT32_MAX

struct launcher {
    const char *name; /* "torchrun", "openmpi", ...; NULL: no launcher was recognised */
    uint32_t rank, world_size, local_rank, local_size, node_rank; /* LAUNCHER_UNKNOWN: not set */
    uint32_t restart; /* number of restarts of the job's processes; 0: first start */
    char node[65];    /* name of the node: INFERPROF_NODE, else from the launcher, else the host name */
    char job[128];    /* equal for all ranks of a job, different for other jobs; "": unknown */
};

/* Returns the value of a variable, or NULL. */
typedef const char *launcher_get(const char *name);
launcher_get launcher_env; /* getenv() */
void launcher_read(struct launcher *out, launcher_get *get);

/* Returns true if the process is one of several ranks. */
static inline bool launcher_is_rank(const struct launcher *l) {
    return l->rank != LAUNCHER_UNKNOWN && l->world_size != LAUNCHER_UNKNOWN && l->world_size > 1;
}

#endif
