#include "collect/budget.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/fixed.h"
#include "collect/account.h"
#include "collect/attach.h"
#include "collect/calls.h"
#include "collect/output.h"
#include "collect/records.h"
#include "collect/replays.h"
#include "collect/thread.h"

/* Longer launches waited for space in the GPU's queue. They are excluded from the mean. */
#define MAX_LAUNCH_NS 50000

static struct {
    struct account account;
    _Atomic uint64_t switch_ns;
    /* number and total time of kernel launches that took at most MAX_LAUNCH_NS */
    _Atomic uint64_t launches, launches_ns;
} budget;

void budget_start(uint64_t now) {
    account_start(&budget.account, now, (double)settings.budget_ppm / 1e6, settings.launches);
}

void budget_charge_switch(uint64_t ns) { atomic_fetch_add(&budget.switch_ns, ns); }

void budget_note_launches(const struct trace_launch *l, unsigned n) {
    uint64_t ns = 0, count = 0;
    for (unsigned i = 0; settings.budget_ppm && i < n; i++) {
        uint64_t took = l[i].end_ns - l[i].start_ns;
        if (!call_launches_kernel(l[i].api) || took > MAX_LAUNCH_NS) continue;
        ns += took;
        count++;
    }
    atomic_fetch_add(&budget.launches_ns, ns);
    atomic_fetch_add(&budget.launches, count);
}

static struct account_use total_use(void) {
    struct record_counts c = records_counts();
    uint64_t n = atomic_load(&budget.launches);
    double kernels = replays_recorded() ? (double)c.graph_kernels / (double)replays_recorded() : 0;
    return (struct account_use){
        .calls = settings.launches ? thread_recorded_calls() : c.kernels - c.graph_kernels,
        .unrecorded = thread_unrecorded_calls(),
        .outside = c.outside,
        .graph_kernels = c.graph_kernels,
        .attached_kernels = (uint64_t)(kernels * (double)replays_unrecorded()),
        .switch_ns = atomic_load(&budget.switch_ns) + attach_detach_ns(),
        .launch_ns = n ? (double)atomic_load(&budget.launches_ns) / (double)n : NAN,
    };
}

bool budget_allows(uint64_t now) {
    char pct[FIXED_MAX];
    struct account_use use = total_use();
    bool allowed = account_allows(&budget.account, &use, now);
    if (account_is_stuck(&budget.account, now))
        report_problem(
            "capture did not resume: CUPTI stays attached between windows (%s), and at this launch "
            "rate that alone costs more than the budget of %s%%; raise the budget, or use "
            "--duration or --range",
            attach_no_detach_reason(), fixed_text((double)settings.budget_ppm / 1e4, 2, pct));
    return allowed;
}

void budget_finish(uint64_t now) {
    char pct[FIXED_MAX], seconds[FIXED_MAX], cost[FIXED_MAX];
    struct account *a = &budget.account;
    if (!settings.budget_ppm || !a->ever_opened || now <= a->start_ns) return;
    struct account_use use = total_use();
    account_charge(a, &use, now);
    double spent = account_spent(a);
    if (a->credit_ns >= 0 || spent < 1.5 * a->share) return;
    report_problem("the run of %s s was too short for a budget of %s%%: recording cost about %s%%; run the "
                   "program longer, or use --graphs sample or --duration without a budget",
                   fixed_text((double)(now - a->start_ns) * 1e-9, 1, seconds),
                   fixed_text(a->share * 100, 2, pct), fixed_text(spent * 100, 1, cost));
}

void budget_after_fork(void) { memset(&budget, 0, sizeof budget); }
