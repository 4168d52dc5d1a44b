/* Nsight Compute and Nsight Systems on a finished run: the program (or engine) runs once more under them, and what they
 * found goes into the run folder. Whatever goes wrong is said in `problems` and on stderr; what there is is kept. */
#ifndef CMD_TOOLS_H
#define CMD_TOOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "analyze/analyze.h"
#include "base/problems.h"

#define TOOLS_TOP 10
#define TOOLS_LIMIT_S 900.0

struct tools {
    const char *dir;   /* the run folder */
    char *const *argv; /* the program */
    const char *const *set;
    const char *input; /* file for its standard input; NULL: empty */
    double limit_s;    /* each run of a tool */
    struct problems *problems;
};

/* The `top` kernels of the analysis, of one stage or (NULL) of all. True: at least one of them was measured, and
 * DIR/ncu.json holds it; the files of ncu are in DIR/ncu. */
bool tools_ncu(const struct tools *t, const struct analysis *a, size_t top, const char *stage);
/* True: DIR/nsys holds its report. */
bool tools_nsys(const struct tools *t);

#endif
