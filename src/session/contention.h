/* Detects whether other programs used the CPUs while an engine was measured.
 *     struct contention c;
 *     contention_start(&c);
 *     struct contention_times before = contention_times(pid);       -- around each request
 *     ...
 *     contention_add(&c, pid, &before, wall_ns);
 *     char *why = contention_reason(&c, on_cpu);                     -- NULL: the machine was not busy
 * INFERPROF_PROC names a folder to read instead of /proc, for tests. */
#ifndef SESSION_CONTENTION_H
#define SESSION_CONTENTION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct contention_times {
    bool known;
    uint64_t run_ns, wait_ns; /* of all threads: on a CPU, and runnable without a CPU */
};
struct contention {
    double load; /* load average of the last minute at the start; NaN: unknown */
    long cores;  /* of the machine */
    uint64_t run_ns, wait_ns, wall_ns;
};

void contention_start(struct contention *c);
struct contention_times contention_times(pid_t pid);
void contention_add(struct contention *c, pid_t pid, const struct contention_times *before, uint64_t wall_ns);
/* The caller frees the text. `on_cpu`: the engine computes on the CPU. */
char *contention_reason(const struct contention *c, bool on_cpu);

#endif
