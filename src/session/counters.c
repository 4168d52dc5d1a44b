#include "session/counters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "base/installed.h"

#define READY_LIMIT_S 20.0 /* limit for the start; CUDA and CUPTI start slowly with many GPUs */
#define STOP_LIMIT_S 10.0

/* Reads the line "ready METRICS" or "failed REASON". */
static int await_ready(struct engine_proc *p, struct err *err) {
    struct strbuf line = STRBUF_INIT;
    enum engine_io io = engine_proc_exchange(p, "", 0, READY_LIMIT_S, &line);
    int rc = -1;
    if (io != ENGINE_IO_LINE)
        err_set(err, "inferprof-counters %s",
                io == ENGINE_IO_TIMEOUT ? "did not become ready in time" : "exited without a message");
    else if (strncmp(line.buf, "ready", 5) == 0)
        rc = 0;
    else
        err_set(err, "%s", strncmp(line.buf, "failed ", 7) == 0 ? line.buf + 7 : line.buf);
    strbuf_free(&line);
    return rc;
}

struct engine_proc *counters_start(const char *trace_path, unsigned interval_us, const char *device,
                                   struct err *err) {
    char *program = installed_find("inferprof-counters", err), interval[32];
    if (!program) return NULL;
    char *visible = device ? xasprintf("CUDA_VISIBLE_DEVICES=%s", device) : NULL;
    const char *set[] = { visible, NULL };
    snprintf(interval, sizeof interval, "%llu", 1000ull * interval_us);
    char *argv[] = { program, (char *)trace_path, interval, NULL };
    struct engine_proc *p = engine_proc_start(argv, set, err);
    if (p && await_ready(p, err) < 0) {
        engine_proc_stop(p, 0, NULL);
        unlink(trace_path); /* the file contains no samples */
        p = NULL;
    }
    free(visible);
    free(program);
    return p;
}

void counters_stop(struct engine_proc *c) { engine_proc_stop(c, STOP_LIMIT_S, NULL); }
