/* GEMM shapes from cuBLASLt's own log: its Trace level names every matrix of every product, those of
 * cuBLAS too. Costs a line of text a product (some microseconds); off unless asked for. */
#ifndef COLLECT_GEMM_H
#define COLLECT_GEMM_H

#include <stdbool.h>

void gemm_tick(void);       /* attaches once the library is loaded; from the keeper */
void gemm_capture(bool on); /* a capture window opened or closed */

#endif
