/* --budget PCT: decides when kernels may be captured (account.h). A window closes when the account is
 * negative and the window has its minimum length, or when a window with few calls has a large debt. The next
 * one opens when the account is no longer negative. */
#ifndef COLLECT_BUDGET_H
#define COLLECT_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/format.h"

void budget_start(uint64_t mono_ns);
/* Charges the time for enabling or disabling capture. Any thread. */
void budget_charge_switch(uint64_t ns);
void budget_note_launches(const struct trace_launch *l, unsigned n); /* any thread */
/* Returns true if kernels may be captured now. Called every few ms on the background thread. */
bool budget_allows(uint64_t mono_ns);
void budget_finish(uint64_t mono_ns); /* warns if the run was too short */
void budget_after_fork(void);

#endif
