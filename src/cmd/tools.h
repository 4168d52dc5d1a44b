/* Runs a program or engine again under Nsight Compute and Nsight Systems, and stores the results in the run
 * folder. Failures are logged and added to `warnings`; partial results are kept. */
#ifndef CMD_TOOLS_H
#define CMD_TOOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "analyze/analyze.h"
#include "base/strlist.h"

/* 0: not given */
struct tools_opts {
    bool ncu, nsys;
    uint64_t top;
    const char *stage;
    double limit_s;
};
const char *tools_misused(const struct tools_opts *o); /* NULL: options are consistent */

/* Adds an error for each requested tool that is not installed. */
void tools_missing(const struct tools_opts *o, struct strlist *errors);

struct tools {
    const char *dir;        /* the run folder */
    char *const *argv;      /* the program */
    const char *const *set; /* "NAME=value", ends with NULL */
    const char *input;      /* standard input; NULL: empty */
    const char *creates;    /* file that each run of the program must be able to create; NULL: none */
    const struct tools_opts *o;
    struct strlist *warnings;
};

/* Profiles the kernels with the most time. Returns true if at least one was measured: the results are in
 * DIR/ncu.json and DIR/ncu. */
bool tools_ncu(const struct tools *t, const struct analysis *a);
/* true: DIR/nsys contains a report */
bool tools_nsys(const struct tools *t);

#endif
