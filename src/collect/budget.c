#include "collect/budget.h"

#include <stdatomic.h>
#include <string.h>

#include "base/fixed.h"
#include "base/util.h"
#include "collect/attach.h"
#include "collect/calls.h"
#include "collect/output.h"
#include "collect/records.h"
#include "collect/thread.h"

/* Costs measured on an H200 against a process without CUPTI (docs/overhead.md), rounded up so that the
 * overhead stays below the budget. The costs per call apply if a launch takes LAUNCH_NS. If launches take
 * longer, because the processor is slower or busier, the costs are scaled up. */
#define LAUNCH_NS 5500.0
/* Launches that took longer are not part of the mean: they waited for space in the GPU's queue. */
#define MAX_LAUNCH_NS 50000
#define RECORDED_COST_NS 2300.0 /* per recorded launch with its kernel record; measured: 2200 */
/* per call outside of windows while CUPTI is attached; measured: 340 to 360 */
#define UNRECORDED_COST_NS 400.0
/* per kernel launched just after a window, in addition to its call's cost; measured: 850 */
#define OUTSIDE_COST_NS 900.0
/* Per kernel of a graph. Measured: 900 if the program waits for the end of each replay, 160 if it launches
 * replays back to back. */
#define GRAPH_KERNEL_COST_NS 1000.0
/* Minimum length of a window, from its call number WORK_CALLS on. A window of this length costs 20 ms in a
 * launch-bound program, so the detach and reattach of about 12 ms do not dominate. */
#define MIN_WINDOW_NS 100000000u
/* A window is at work from this many calls on: loading a model takes a second and only some hundred calls,
 * and the window's length and credit are meant for the work that follows. */
#define WORK_CALLS 512u
/* The credit is limited to that of this time, otherwise a long window would follow an idle time. Before the
 * program is at work, the limit is higher, so that the credit of the start-up is spent on its first steps. */
#define CREDIT_NS 1e8
#define START_CREDIT_NS 1e10
#define MIN_DEBT_NS 20e6       /* a window with few calls closes at this debt: its graphs have many kernels */
#define GIVE_UP_NS 2000000000u /* warn the user if the credit has not grown for this long */

static struct {
    uint64_t last_ns;                                              /* time of the last charge() */
    uint64_t calls, unrecorded, graph_kernels, outside, detach_ns; /* totals already charged */
    /* current credit, and credit when the last window was closed */
    double credit_ns, closed_credit_ns;
    uint64_t opened_calls; /* number of calls when the window was opened */
    uint64_t closed_ns;
    uint64_t start_ns, work_ns; /* of the account; since when the open window is at work, 0: not yet */
    bool open, ever_opened, at_work;
    _Atomic uint64_t switch_ns; /* time for enabling and disabling that is not charged yet */
    /* kernel launches that took at most MAX_LAUNCH_NS: number and total time */
    _Atomic uint64_t launches, launches_ns;
} account;

void budget_start(uint64_t now) { account.start_ns = account.last_ns = account.closed_ns = now; }

void budget_charge_switch(uint64_t ns) { atomic_fetch_add(&account.switch_ns, ns); }

void budget_note_launches(const struct trace_launch *l, unsigned n) {
    uint64_t ns = 0, count = 0;
    for (unsigned i = 0; settings.budget_ppm && i < n; i++) {
        uint64_t took = l[i].end_ns - l[i].start_ns;
        if (!call_launches_kernel(l[i].api) || took > MAX_LAUNCH_NS) continue;
        ns += took;
        count++;
    }
    atomic_fetch_add(&account.launches_ns, ns);
    atomic_fetch_add(&account.launches, count);
}

/* Returns the mean time of a launch divided by LAUNCH_NS, at least 1. */
static double cost_scale(void) {
    double n = (double)atomic_load(&account.launches), ns = (double)atomic_load(&account.launches_ns);
    return n > 0 ? MAX(1, ns / n / LAUNCH_NS) : 1;
}

static void charge(uint64_t now) {
    struct record_counts c = records_counts();
    uint64_t calls = settings.launches ? thread_recorded_calls() : c.kernels - c.graph_kernels;
    uint64_t unrecorded = thread_unrecorded_calls(), detach_ns = attach_detach_ns();
    double share = (double)settings.budget_ppm / 1e6, slower = cost_scale();
    account.credit_ns += (double)(now - account.last_ns) * share;
    account.credit_ns -= slower * ((double)(calls - account.calls) * RECORDED_COST_NS +
                                   (double)(unrecorded - account.unrecorded) * UNRECORDED_COST_NS +
                                   (double)(c.outside - account.outside) * OUTSIDE_COST_NS) +
                         (double)(c.graph_kernels - account.graph_kernels) * GRAPH_KERNEL_COST_NS +
                         (double)(detach_ns - account.detach_ns) +
                         (double)atomic_exchange(&account.switch_ns, 0);
    account.credit_ns = MIN(account.credit_ns, (account.at_work ? CREDIT_NS : START_CREDIT_NS) * share);
    account.calls = calls;
    account.graph_kernels = c.graph_kernels;
    account.outside = c.outside;
    account.unrecorded = unrecorded;
    account.detach_ns = detach_ns;
    account.last_ns = now;
}

/* The first window waits for the first call: with CUPTI 13.0.1, kernel records that are enabled before the
 * first context exists may no longer be delivered after a disable and enable. The first window does not
 * wait for credit: in a program that launches all the time, unrecorded calls alone may cost more than the
 * account earns. */
static bool may_open(void) {
    if (account.ever_opened) return account.credit_ns >= 0;
    return !settings.launches || account.calls + account.unrecorded > 0;
}

/* Before a window is at work, it costs little and stays open until its debt exceeds MIN_DEBT_NS. */
static bool must_close(uint64_t now) {
    if (!account.work_ns && account.calls - account.opened_calls >= WORK_CALLS) account.work_ns = now;
    account.at_work |= account.work_ns != 0;
    bool costs = account.calls > account.opened_calls && account.credit_ns < -MIN_DEBT_NS;
    return account.credit_ns < 0 && (account.work_ns ? now - account.work_ns >= MIN_WINDOW_NS : costs);
}

bool budget_allows(uint64_t now) {
    char pct[FIXED_MAX];
    charge(now);
    if (account.open && must_close(now)) {
        account.open = false;
        account.closed_ns = now;
        account.closed_credit_ns = account.credit_ns;
    } else if (!account.open && may_open()) {
        account.open = account.ever_opened = true;
        account.work_ns = 0;
        account.opened_calls = account.calls;
    } else if (!account.open && now - account.closed_ns > GIVE_UP_NS &&
               account.credit_ns <= account.closed_credit_ns) {
        report_problem(
            "capture did not resume: CUPTI stays attached between windows (%s), and at this launch "
            "rate that alone costs more than the budget of %s%%; raise the budget, or use "
            "--duration or --range",
            attach_no_detach_reason(), fixed_text((double)settings.budget_ppm / 1e4, 2, pct));
    }
    return account.open;
}

void budget_finish(uint64_t now) {
    char pct[FIXED_MAX], seconds[FIXED_MAX], cost[FIXED_MAX];
    double share = (double)settings.budget_ppm / 1e6, elapsed = (double)(now - account.start_ns);
    if (!settings.budget_ppm || !account.ever_opened || !(elapsed > 0)) return;
    charge(now);
    double spent = share - account.credit_ns / elapsed;
    if (account.credit_ns >= 0 || spent < 1.5 * share) return;
    report_problem("the run of %s s was too short for a budget of %s%%: recording cost about %s%%; run the "
                   "program longer, or use --graphs sample or --duration without a budget",
                   fixed_text(elapsed * 1e-9, 1, seconds), fixed_text(share * 100, 2, pct),
                   fixed_text(spent * 100, 1, cost));
}

void budget_after_fork(void) { memset(&account, 0, sizeof account); }
