/* GEMM shapes from cuBLASLt's own log. Its trace level writes one line per matrix product, including those of
 * cuBLAS, with the layout of every matrix. A line takes several microseconds, so this is off by default. The
 * log callback runs on the program's thread, inside the cuBLASLt call. */
#ifndef COLLECT_GEMM_H
#define COLLECT_GEMM_H

#include <stdbool.h>

void gemm_tick(void);       /* Background thread: installs the log callback once cuBLASLt is loaded. */
void gemm_capture(bool on); /* call at window changes */
void gemm_after_fork(void);

#endif
