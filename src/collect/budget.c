#include "collect/budget.h"

#include <stdatomic.h>

#include "base/util.h"
#include "collect/attach.h"
#include "collect/calls.h"
#include "collect/output.h"
#include "collect/records.h"
#include "collect/thread.h"

/* Measured on an H200 against a process that CUPTI is not in (docs/overhead.md), and a little more than
 * that: a budget is kept, not met. Prices of calls hold where a launch takes LAUNCH_NS; where the
 * processor is slower, or busier, they grow with it. */
#define LAUNCH_NS 5500.0
#define WAITED_NS 50000 /* a launch that waited for room in the GPU's queue says nothing of the processor */
#define CALL_COST_NS 2300.0         /* a recorded launch, kernel record included: 2200 */
#define PASSED_COST_NS 400.0        /* a call after a window while CUPTI is there: 340 to 360 */
#define OUTSIDE_COST_NS 900.0       /* a kernel launched just after a window: 850 beside what its call cost */
#define GRAPH_KERNEL_COST_NS 1000.0 /* of a graph whose end is waited for: 900; back to back 160 */
/* To leave and to come again costs some 12 ms, a launch-bound window of this length 20. */
#define MIN_WINDOW_NS 100000000u
#define HOPELESS_NS 2000000000u

static struct {
    uint64_t last_ns, opened_ns;                                /* last look; the window's beginning */
    uint64_t calls, passed, graph_kernels, outside, leaving_ns; /* paid for */
    double credit_ns, closed_credit_ns;                         /* now; when the window was closed */
    uint64_t closed_ns, opened_calls;
    bool open, began; /* began: there was a window */
    _Atomic uint64_t switch_ns;
    _Atomic uint64_t launches, launches_ns; /* that launched a kernel and did not wait */
} account;

void budget_start(uint64_t now) { account.last_ns = account.closed_ns = now; }

void budget_pay_switch(uint64_t ns) { atomic_fetch_add(&account.switch_ns, ns); }

void budget_saw(const struct trace_launch *l, unsigned n) {
    uint64_t ns = 0, count = 0;
    for (unsigned i = 0; settings.budget_pct > 0 && i < n; i++) {
        uint64_t took = l[i].end_ns - l[i].start_ns;
        if (!call_launches_kernel(l[i].api) || took > WAITED_NS) continue;
        ns += took;
        count++;
    }
    atomic_fetch_add(&account.launches_ns, ns);
    atomic_fetch_add(&account.launches, count);
}

/* By what prices are higher here. */
static double slowness(void) {
    double n = (double)atomic_load(&account.launches), ns = (double)atomic_load(&account.launches_ns);
    return n > 0 ? MAX(1, ns / n / LAUNCH_NS) : 1;
}

static void pay(uint64_t now) {
    struct record_counts c = records_counts();
    uint64_t calls = settings.launches ? thread_calls() : c.kernels - c.graph_kernels;
    uint64_t passed = thread_passed(), leaving_ns = attach_leaving_ns();
    double share = settings.budget_pct / 100, slower = slowness();
    account.credit_ns += (double)(now - account.last_ns) * share;
    account.credit_ns -= slower * ((double)(calls - account.calls) * CALL_COST_NS +
                                   (double)(passed - account.passed) * PASSED_COST_NS +
                                   (double)(c.outside - account.outside) * OUTSIDE_COST_NS) +
                         (double)(c.graph_kernels - account.graph_kernels) * GRAPH_KERNEL_COST_NS +
                         (double)(leaving_ns - account.leaving_ns) +
                         (double)atomic_exchange(&account.switch_ns, 0);
    account.credit_ns = MIN(account.credit_ns, 1e8 * share); /* 0.1 s worth: no feast after a long rest */
    account.calls = calls;
    account.graph_kernels = c.graph_kernels;
    account.outside = c.outside;
    account.passed = passed;
    account.leaving_ns = leaving_ns;
    account.last_ns = now;
}

/* The first window waits for the first call: before there is a context, kernels that are switched on do
 * not come again reliably after they were off (CUPTI 13.0.1). It waits for nothing else: in a program that
 * launches all the time, calls that are only watched may cost more than the account earns. */
static bool may_open(void) {
    if (account.began) return account.credit_ns >= 0;
    return !settings.launches || account.calls + account.passed > 0;
}

/* One in which nothing was launched has cost nothing, and stays open. */
static bool must_close(uint64_t now) {
    return account.credit_ns < 0 && now - account.opened_ns >= MIN_WINDOW_NS &&
           account.calls > account.opened_calls;
}

bool budget_allows(uint64_t now) {
    pay(now);
    if (account.open && must_close(now)) {
        account.open = false;
        account.closed_ns = now;
        account.closed_credit_ns = account.credit_ns;
    } else if (!account.open && may_open()) {
        account.open = account.began = true;
        account.opened_ns = now;
        account.opened_calls = account.calls;
    } else if (!account.open && now - account.closed_ns > HOPELESS_NS &&
               account.credit_ns <= account.closed_credit_ns) {
        problem("capturing was not resumed: CUPTI stays in the program between windows (%s), which makes so "
                "many launches that "
                "this alone costs more than the budget of %g%%; raise it, or use --duration or --range",
                attach_why_stays(), settings.budget_pct);
    }
    return account.open;
}
