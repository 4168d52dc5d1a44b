/* Reports a run from its traces: for `inferprof run` after the program has ended, and for `inferprof
 * import`. */
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
    struct strlist problems; /* set by the caller; problems of the traces are added */
    bool write_files, print;
    /* results */
    bool loaded; /* `run` contains the traces and their analysis */
    struct loaded_run run;
    struct rank_operands job;         /* ranks of the program; job.ranks is 0 or 1 if it is not a job */
    size_t files;                     /* number of traces that the program's processes wrote */
    size_t on_screen;                 /* number of problems (the first ones) that the printed summary shows */
    uint64_t kernels, ranges, tokens; /* number of records in the traces */
};

/* Returns the number of traces in <dir>/trace that processes of the program wrote. */
size_t run_report_traces(const char *dir);
/* Reads and analyses <dir>/trace, once. Returns 0 also if there are no traces; `loaded` is then false. */
int run_report_load(struct run_report *r, struct err *err);
/* Loads the traces. Writes the report's files to <dir> if write_files is set, and prints the summary on
 * stderr if print is set. Returns 0 also if nothing was recorded; then it writes and prints nothing. */
int run_report(struct run_report *r, struct err *err);
void run_report_close(struct run_report *r); /* frees everything except the problems */

#endif
