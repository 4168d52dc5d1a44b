/* GEMM shapes from cuBLASLt's own log: its trace level writes one line per product, including products of
 * cuBLAS, with the layout of every matrix. A line takes several microseconds, so this is off by default.
 * The log callback runs on the program's thread, inside the cuBLASLt call. */
#ifndef COLLECT_GEMM_H
#define COLLECT_GEMM_H

#include <stdbool.h>

void gemm_tick(void);       /* background thread: attaches to the logger once cuBLASLt is loaded */
void gemm_capture(bool on); /* call when a capture window opens or closes */
void gemm_after_fork(void);

#endif
