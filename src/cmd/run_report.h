/* From the traces of a finished run to its report: what `inferprof run` does once the program has ended. */
#ifndef CMD_RUN_REPORT_H
#define CMD_RUN_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "analyze/analyze.h"
#include "base/err.h"
#include "base/strlist.h"
#include "run/load.h"
#include "session/env.h"

struct run_report {
    const char *dir, *run_id, *title, *command; /* borrowed */
    uint64_t started_wall_ns;
    const struct analyze_rule *rules;
    size_t nrules;
    const struct env *env;
    struct strlist problems; /* the caller's; those of the traces are added */
    bool write_files, print;
    /* results */
    bool loaded; /* `run` holds the traces and their analysis */
    struct loaded_run run;
    size_t files;                     /* traces of processes */
    size_t on_screen;                 /* how many problems, the first ones, the printed screen shows */
    uint64_t kernels, ranges, tokens; /* recorded in them */
};

/* Reads and analyses <dir>/trace, once. 0: done, even when there are no traces (then `loaded` is false). */
int run_report_load(struct run_report *r, struct err *err);
/* Loads, writes the report's files into <dir> and prints the closing screen on stderr. 0: done, even when
 * nothing was recorded (then nothing is written). */
int run_report(struct run_report *r, struct err *err);
void run_report_close(struct run_report *r); /* all but the problems */

#endif
