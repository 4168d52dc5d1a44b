/* Runs Nsight Compute and Nsight Systems for a finished run: the program (or engine) runs again under the
 * tools, and the results are stored in the run folder. Failures are logged and added to `problems`;
 * partial results are kept. */
#ifndef CMD_TOOLS_H
#define CMD_TOOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "analyze/analyze.h"
#include "base/strlist.h"

/* --ncu, --nsys and their options; 0: not given. */
struct tools_opts {
    bool ncu, nsys;
    uint64_t top;
    const char *stage;
    double limit_s;
};
const char *tools_misused(const struct tools_opts *o); /* returns NULL if the options are consistent */

/* Adds a problem for each requested tool that is not installed. */
void tools_missing(const struct tools_opts *o, struct strlist *problems);

struct tools {
    const char *dir;        /* the run folder */
    char *const *argv;      /* the program */
    const char *const *set; /* environment variables to set, "NAME=value"; ends with NULL */
    const char *input;      /* file for the program's standard input; NULL: empty */
    const struct tools_opts *o;
    struct strlist *problems;
};

/* Profiles the kernels with the most time, of one stage or of all. Returns true if at least one kernel was
 * measured; DIR/ncu.json then contains the results, and ncu's files are in DIR/ncu. */
bool tools_ncu(const struct tools *t, const struct analysis *a);
/* Returns true if DIR/nsys contains a report. */
bool tools_nsys(const struct tools *t);

#endif
