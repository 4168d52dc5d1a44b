/* Parses a line of cuBLASLt's log. The input is not trusted.
 *     A=0X7F.. Adesc=[type=R_16BF rows=4096 cols=4096 ld=4096] ..
 *     computeDesc=[computeType=COMPUTE_32F transa=OP_T] ..
 *     algo=[algoId=66 tile=MATMUL_TILE_128x128 stages=..] */
#ifndef COLLECT_GEMM_LOG_H
#define COLLECT_GEMM_LOG_H

#include <stdbool.h>

#include "trace/format.h"

struct gemm_text { /* text fields of a record */
    char types[160], layout[8], algorithm[160];
};

/* Fills *t and the m, n, k and batch of *g. Returns false if the line is not a product or has an unknown
 * format. */
bool gemm_parse(const char *function, const char *message, struct trace_gemm *g, struct gemm_text *t);

#endif
