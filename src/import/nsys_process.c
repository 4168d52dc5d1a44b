/* The processes of an Nsight Systems file. Ids of calls, contexts and threads are per process. */
#include <stdio.h>

#include "base/util.h"
#include "base/vec.h"
#include "import/nsys_internal.h"

#define MAX_PROCESSES 65536u
#define MAX_CONTEXTS 1024u
#define CONTEXT_GENERATED 0x40000000u /* CUPTI counts contexts from 1 */
#define PID_MASK 0xffffffu            /* a globalPid is machine << 48 | pid << 24, a globalTid adds the tid */

/* ---- Files that do not name the process of device work */

static bool first_row_lacks(struct nsys *n, const char *table, const char *column) {
    const char *const columns[] = { "start", column, NULL };
    struct nsys_rows r;
    bool lacks = nsys_rows_open(&r, n->db, table, columns, NULL) && nsys_rows_next(&r) && nsys_null(&r, 1);
    nsys_rows_close(&r); /* damage is counted when the table is read */
    return lacks;
}

void nsys_find_owners(struct nsys *n) {
    static const char *const work[] = { "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
                                        "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET" };
    n->unowned = first_row_lacks(n, "CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid");
    for (size_t i = 0; i < COUNTOF(work); i++) n->unowned |= first_row_lacks(n, work[i], "globalPid");
}

/* ---- Ids */

/* The id of a process is a globalTid or globalPid without the low 24 bits. MAX_PROCESSES: too many. */
static size_t process_index(struct nsys *n, uint64_t global_id) {
    uint64_t process = global_id >> 24;
    for (size_t i = n->processes.n; i-- > 0;)
        if (n->processes.v[i] == process) return i;
    if (n->processes.n == MAX_PROCESSES) return MAX_PROCESSES;
    vec_push(&n->processes, process);
    return n->processes.n - 1;
}

uint64_t nsys_correlation(struct nsys *n, uint64_t global_id, uint64_t correlation) {
    const uint64_t mask = (1ull << 40) - 1;
    if (global_id == NSYS_NO_PROCESS) return n->unowned ? correlation & mask : 0;
    size_t process = process_index(n, global_id);
    if (n->unowned) return correlation & mask;              /* otherwise not equal to that of the work */
    if (!correlation || process == MAX_PROCESSES) return 0; /* otherwise linked to another process */
    return (uint64_t)process << 40 | (correlation & mask);
}

uint32_t nsys_thread(struct nsys *n, uint64_t global_tid) {
    if (global_tid == NSYS_NO_PROCESS) global_tid = 0;
    return sink_thread_number(n->sink, global_tid >> 24 & PID_MASK, global_tid & 0xffffff);
}

static bool context_taken(const struct nsys *n, uint32_t number) {
    for (size_t i = 0; i < n->contexts.n; i++)
        if (n->contexts.v[i].number == number) return true;
    return false;
}

uint32_t nsys_context(struct nsys *n, uint64_t global_pid, uint64_t context) {
    uint32_t own = sink_u32(context);
    if (global_pid == NSYS_NO_PROCESS || n->contexts_full) return own;
    for (size_t i = n->contexts.n; i-- > 0;)
        if (n->contexts.v[i].process == global_pid >> 24 && n->contexts.v[i].own == own)
            return n->contexts.v[i].number;
    n->contexts_full = n->contexts.n == MAX_CONTEXTS;
    if (n->contexts_full) return own;
    uint32_t number = context_taken(n, own) ? CONTEXT_GENERATED + (uint32_t)n->contexts.n : own;
    vec_push(&n->contexts, ((struct nsys_context){ global_pid >> 24, own, number }));
    return number;
}

/* ---- Meta records */

static unsigned pid_of(uint64_t process) { return (unsigned)(process & PID_MASK); }

static void write_threads(struct nsys *n) {
    const struct sink *s = n->sink;
    char key[48];
    for (size_t i = 0; i < s->thread_slots; i++) {
        if (!s->threads[i].used || !s->threads[i].pid) continue; /* 0: the file does not name the process */
        snprintf(key, sizeof key, "thread.%u.pid", s->threads[i].number);
        sink_meta(n->sink, key, "%u", (unsigned)s->threads[i].pid);
    }
}

/* If there are too many contexts, some have the number of a context of another process. */
static void write_contexts(struct nsys *n) {
    char key[48];
    for (size_t i = 0; !n->contexts_full && i < n->contexts.n; i++) {
        snprintf(key, sizeof key, "context.%u.pid", n->contexts.v[i].number);
        if (pid_of(n->contexts.v[i].process)) sink_meta(n->sink, key, "%u", pid_of(n->contexts.v[i].process));
    }
}

static void warn_of_equal_pids(struct nsys *n) {
    size_t equal = 0;
    for (size_t i = 0; i < MIN(n->processes.n, 1024u); i++)
        for (size_t k = 0; k < i; k++) equal += pid_of(n->processes.v[i]) == pid_of(n->processes.v[k]);
    if (equal)
        sink_meta(n->sink, "problem",
                  "processes of different machines have the same pid (%u): they are read as one, and the "
                  "times of their steps are wrong",
                  (unsigned)equal);
}

/* Returns the lowest pid with work on a device, else with calls. 0: unknown. */
static unsigned first_pid(const struct nsys *n) {
    unsigned first = n->contexts.n ? pid_of(n->contexts.v[0].process) : pid_of(n->processes.v[0]);
    for (size_t i = 1; i < n->contexts.n; i++) first = MIN(first, pid_of(n->contexts.v[i].process));
    for (size_t i = 1; !n->contexts.n && i < n->processes.n; i++)
        first = MIN(first, pid_of(n->processes.v[i]));
    return first;
}

void nsys_write_processes(struct nsys *n) {
    if (!n->processes.n) return;
    unsigned pid = first_pid(n);
    if (pid) sink_meta(n->sink, "process.pid", "%u", pid);
    if (n->processes.n < 2) return;
    write_threads(n);
    write_contexts(n);
    warn_of_equal_pids(n);
}
