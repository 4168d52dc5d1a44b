/* From the traces of a finished run to its report: what `inferprof run` does once the program has ended. */
#ifndef CMD_RUN_REPORT_H
#define CMD_RUN_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "analyze/analyze.h"
#include "base/err.h"
#include "base/strlist.h"
#include "session/env.h"

struct run_report {
    const char *dir, *run_id, *title, *command; /* borrowed */
    uint64_t started_wall_ns;
    const struct analyze_rule *rules;
    size_t nrules;
    const struct env *env;
    struct strlist problems; /* the caller's; the traces' own are added */
    bool write_files, print;
    /* found */
    size_t files;                     /* traces of processes */
    size_t on_screen;                 /* problems that the printed screen shows, the first ones */
    uint64_t kernels, ranges, tokens; /* recorded in them */
};

/* Reads <dir>/trace/(all).ipt, writes the report's files into <dir> and prints the closing screen on stderr.
 * 0: done, even when nothing was recorded (then nothing is written). */
int run_report(struct run_report *r, struct err *err);

#endif
