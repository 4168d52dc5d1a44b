/* Reports a run from its traces, for `inferprof run` and `inferprof import`. */
#ifndef CMD_RUN_REPORT_H
#define CMD_RUN_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "analyze/analyze.h"
#include "base/err.h"
#include "base/strlist.h"
#include "cmd/rank_report.h"
#include "run/load.h"
#include "session/env.h"

struct run_report {
    const char *dir, *run_id, *title, *command; /* borrowed */
    uint64_t started_wall_ns;
    const struct analyze_rule *rules;
    size_t nrules;
    const struct env *env;
    struct strlist warnings; /* warnings of traces are added */
    bool write_files, print;
    /* results */
    bool loaded; /* `run` is set */
    struct loaded_run run;
    struct rank_operands job;         /* job.ranks < 2: not a job */
    struct trace_set *readers;        /* of the traces */
    size_t files;                     /* traces of the program */
    size_t on_screen;                 /* warnings shown, the first ones */
    uint64_t kernels, ranges, tokens; /* records in the traces */
};

/* Number of traces in <dir>/trace that the program wrote. `readers` may be NULL. */
size_t run_report_traces(const char *dir, struct trace_set *readers);
/* Reads and analyses <dir>/trace, once. Without traces, returns 0 and leaves `loaded` false. */
int run_report_load(struct run_report *r, struct err *err);
/* Loads the traces. write_files: writes the report to <dir>. print: prints the summary on stderr. If nothing
 * was recorded, returns 0 and writes nothing. */
int run_report(struct run_report *r, struct err *err);
void run_report_close(struct run_report *r); /* frees everything except the warnings */

#endif
