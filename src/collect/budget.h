/* --budget PCT: an account that earns PCT of the time that passes and pays an estimate of what collecting
 * cost: so much a launch (more where launches take longer), so much a kernel of a graph (measured on an
 * H200, docs/overhead.md), and the time spent in switching. While it is in debt, nothing is captured. */
#ifndef COLLECT_BUDGET_H
#define COLLECT_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/format.h"

void budget_start(uint64_t mono_ns);
void budget_pay_switch(uint64_t ns); /* any thread: capturing was switched, and that took so long */
void budget_saw(const struct trace_launch *l, unsigned n); /* any thread; `api` is the call's id */
/* From the keeper, every few ms: may kernels be captured now? */
bool budget_allows(uint64_t mono_ns);

#endif
