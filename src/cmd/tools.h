/* Nsight Compute and Nsight Systems on a finished run: the program (or engine) runs once more under them,
 * and the results go into the run folder. Failures are logged and added to `problems`; partial results are
 * kept. */
#ifndef CMD_TOOLS_H
#define CMD_TOOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "analyze/analyze.h"
#include "base/strlist.h"

/* --ncu, --nsys and the options that go with them; 0: not given. */
struct tools_opts {
    bool ncu, nsys;
    uint64_t top;
    const char *stage;
    double limit_s;
};
const char *tools_misused(const struct tools_opts *o); /* NULL: the options are consistent */

struct tools {
    const char *dir;   /* the run folder */
    char *const *argv; /* the program */
    const char *const *set;
    const char *input; /* file for its standard input; NULL: empty */
    const struct tools_opts *o;
    struct strlist *problems;
};

/* The kernels with the most time of the analysis, of one stage or of all. True: at least one of them was
 * measured, and DIR/ncu.json holds it; the files of ncu are in DIR/ncu. */
bool tools_ncu(const struct tools *t, const struct analysis *a);
/* True: DIR/nsys holds its report. */
bool tools_nsys(const struct tools *t);

#endif
