/* A profile run: warmup, a representative request with everything recorded, then the timed repeats without
 * recording. If the engine fails, the failure is stored, the engine is restarted and the run continues. If
 * it fails again without a good answer in between, the run stops and keeps the results so far. It also
 * stops if the first requests are all refused with one message. With several processes, each process runs
 * all inputs in order.
 *     struct session_result r;
 *     session_run(&plan, &r);
 *     ... r.repeats[i].answer ... r.warnings ...
 *     session_result_free(&r); */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/strlist.h"
#include "base/strbuf.h"
#include "conf/settings.h"
#include "session/dataset.h"
#include "session/device.h"
#include "session/engine_reply.h"

struct session_plan {
    const struct settings *settings;
    const struct dataset *dataset; /* ordered; every used image has a path */
    const struct device_choice *device;
    char *const *argv;          /* of the engine, NULL-terminated */
    const char *trace_dir;      /* must exist */
    const char *synthetic_page; /* image for the warmup; NULL: the first input */
    /* Kernels are recorded under the names of their functions, by which another tool can select them. */
    bool function_names;
};

struct session_repeat {
    size_t item;      /* index into the dataset */
    unsigned process; /* number of the engine process; the first timed one is 1; 0: not started */
    bool done;        /* `answer` is valid */
    char *error;      /* error message if the repeat failed; NULL: done, interrupted or not started */
    struct engine_answer answer;
    double request_ms; /* time from sending the request to the reply, measured by this process */
    double joules;     /* GPU energy during request_ms; NaN: unknown. Timed repeats only */
};

struct session_result {
    bool loaded; /* `info` is valid */
    struct engine_info info;
    double warmup_ms;
    struct session_repeat representative;
    struct session_repeat *repeats; /* [nrepeats], as planned: the whole order once per process */
    size_t nrepeats, done, failed;
    unsigned restarts;
    int interrupted;         /* signal; 0: none */
    bool gave_up;            /* the engine failed too often */
    uint64_t engine_ns;      /* time spent in the engine or waiting for it */
    char *busy;              /* why the machine was busy during the timed repeats; NULL: it was not */
    struct strlist warnings; /* failures, for the report */
};

void session_run(const struct session_plan *plan, struct session_result *out);
/* Appends the data for repeating the representative run under another tool: the lines to send to the
 * engine, from hello to bye, and the engine's environment without the collector. `trace`: output file for
 * the engine's own records. */
void session_replay(const struct session_plan *plan, const char *trace, struct strbuf *lines,
                    struct strlist *env);
void session_result_free(struct session_result *r);

#endif
