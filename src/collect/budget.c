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

/* Costs measured on an H200 (docs/overhead.md), rounded up so that the overhead stays below the budget. They
 * apply to a machine on which a launch takes LAUNCH_NS. If launches take longer, the costs per call are
 * scaled up. */
#define LAUNCH_NS 5500.0
/* Longer launches waited for space in the GPU's queue. They are excluded from the mean. */
#define MAX_LAUNCH_NS 50000
#define RECORDED_COST_NS 2300.0 /* per recorded launch; measured: 2200 */
/* per unrecorded call while CUPTI is attached; measured: 340 to 360 */
#define UNRECORDED_COST_NS 400.0
/* per kernel launched while kernel records were still enabled after a window; measured: 850 */
#define OUTSIDE_COST_NS 900.0
/* Per kernel of a graph. Measured: 900 if the program waits for each replay, 160 if it launches replays back
 * to back. */
#define GRAPH_KERNEL_COST_NS 1000.0
/* Minimum time that a window stays open after its first WORK_CALLS calls. In a launch-bound program, such a
 * window costs about 20 ms, and a detach with the next attach about 12 ms. */
#define MIN_WINDOW_NS 100000000u
/* A window is "at work" after this many calls. Loading a model takes about a second but only a few hundred
 * calls. */
#define WORK_CALLS 512u
/* The credit is limited to the amount earned in this time, so that no long window follows an idle time. The
 * limit is higher until a window has been at work, so that the first steps of the program are recorded. */
#define CREDIT_NS 1e8
#define START_CREDIT_NS 1e10
#define MIN_DEBT_NS 20e6       /* a window that is not at work closes at this debt */
#define GIVE_UP_NS 2000000000u /* warn if the credit has not grown for this long */

static struct {
    uint64_t last_ns;                                              /* time of the last charge() */
    uint64_t calls, unrecorded, graph_kernels, outside, detach_ns; /* totals already charged */
    /* credit now, and when the last window closed */
    double credit_ns, closed_credit_ns;
    uint64_t opened_calls; /* `calls` when the window opened */
    uint64_t closed_ns;
    uint64_t start_ns, work_ns; /* work_ns: 0: not at work */
    bool open, ever_opened, at_work;
    _Atomic uint64_t switch_ns; /* not charged yet */
    /* number and total time of kernel launches that took at most MAX_LAUNCH_NS */
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

/* Returns the mean launch time divided by LAUNCH_NS, at least 1. */
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

/* The first window waits for the first call: if kernel records are enabled before the first context exists,
 * CUPTI 13.0.1 may not deliver them after a later disable and enable. The first window does not wait for
 * credit, because unrecorded calls alone may cost more than the account earns. */
static bool may_open(void) {
    if (account.ever_opened) return account.credit_ns >= 0;
    return !settings.launches || account.calls + account.unrecorded > 0;
}

/* Until a window is at work, it stays open up to a debt of MIN_DEBT_NS. */
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
