/* The run itself: warm-up, a representative inference with everything recorded, then the timed repeats
 * with nothing on but the clocks. The engine may fail at any point: what it failed at is marked, it is
 * started again, and the run goes on; when it fails again without one good answer between, the run ends
 * with what there is.
 *     struct session_result r;
 *     session_run(&plan, &r);
 *     ... r.repeats[i].answer ... r.problems ...
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
    const struct dataset *dataset; /* ordered; every used item has its path */
    const struct device_choice *device;
    char *const *argv;          /* of the engine, ends with NULL */
    const char *trace_dir;      /* exists */
    const char *synthetic_page; /* an image for warm-up; NULL: the first input */
};

struct session_repeat {
    size_t item; /* of the dataset */
    bool done;   /* `answer` holds */
    char *error; /* why not; NULL: it was not reached */
    struct engine_answer answer;
    double request_ms; /* from sending the request to its answer, on our clock */
    double joules;     /* that the GPU took in that time; NaN: unknown. Timed repeats only */
};

struct session_result {
    bool loaded; /* `info` holds */
    struct engine_info info;
    double warmup_ms;
    struct session_repeat representative;
    struct session_repeat *repeats; /* [nrepeats], as planned */
    size_t nrepeats, done, failed;
    unsigned restarts;
    int interrupted;         /* signal; 0: none */
    bool gave_up;            /* the engine could not be kept running */
    uint64_t engine_ns;      /* spent in the engine or waiting for it */
    struct strlist problems; /* what went wrong, for the report */
};

void session_run(const struct session_plan *plan, struct session_result *out);
/* The representative run for somebody else to repeat: the lines that the engine is sent, from hello to
 * bye, and the environment it gets, without the collector. `trace`: the file that receives the engine's
 * own records. */
void session_replay(const struct session_plan *plan, const char *trace, struct strbuf *lines,
                    struct strlist *env);
void session_result_free(struct session_result *r);

#endif
