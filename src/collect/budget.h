/* --budget PCT: decides when kernels may be captured. An account earns PCT of the elapsed time. The
 * estimated cost of collecting is subtracted: fixed costs per recorded launch, per unrecorded call and per
 * kernel launched just after a window (scaled up if launches take longer), a fixed cost per kernel of a CUDA
 * graph (all measured on an H200, docs/overhead.md), and the time for enabling, disabling and detaching. A
 * window closes when the account is negative and the window has its minimum length, or when a window with few
 * calls has a large debt. The next one opens when the account is no longer negative. */
#ifndef COLLECT_BUDGET_H
#define COLLECT_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/format.h"

void budget_start(uint64_t mono_ns);
/* any thread: charges the time that enabling or disabling capture took */
void budget_charge_switch(uint64_t ns);
void budget_note_launches(const struct trace_launch *l, unsigned n); /* any thread; `api`: id of calls.h */
/* Called every few ms on the background thread. Returns true if kernels may be captured now. */
bool budget_allows(uint64_t mono_ns);
void budget_finish(uint64_t mono_ns); /* reports a run that was too short for the budget */
void budget_after_fork(void);

#endif
