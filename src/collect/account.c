#include "collect/account.h"

#include <math.h>

#include "base/util.h"

/* All costs are rounded up, so that the overhead stays below the budget. The costs per call apply to a
 * machine on which a launch takes LAUNCH_NS. If launches take longer, they are scaled up. */
#define LAUNCH_NS 5500.0
#define RECORDED_COST_NS 2300.0   /* per recorded launch; measured: 2200 */
#define UNRECORDED_COST_NS 400.0  /* per unrecorded call while CUPTI is attached; measured: 340 to 360 */
#define OUTSIDE_COST_NS 900.0     /* per kernel; measured: 850 */
#define GRAPH_KERNEL_COST_NS 1700 /* measured: 900 to 1,700 if the program waits for each replay */
#define ATTACHED_COST_NS 400      /* per kernel of an unrecorded replay; measured: 200 to 400 */
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
#define GIVE_UP_NS 2000000000u /* the credit is stuck if it has not grown for this long */

void account_start(struct account *a, uint64_t now_ns, double share, bool waits_for_call) {
    *a = (struct account){ .share = share,
                           .waits_for_call = waits_for_call,
                           .start_ns = now_ns,
                           .last_ns = now_ns,
                           .closed_ns = now_ns };
}

void account_charge(struct account *a, const struct account_use *use, uint64_t now_ns) {
    double slower = use->launch_ns > LAUNCH_NS ? use->launch_ns / LAUNCH_NS : 1;
    a->credit_ns += (double)(now_ns - a->last_ns) * a->share;
    a->credit_ns -= slower * ((double)(use->calls - a->at.calls) * RECORDED_COST_NS +
                              (double)(use->unrecorded - a->at.unrecorded) * UNRECORDED_COST_NS +
                              (double)(use->outside - a->at.outside) * OUTSIDE_COST_NS) +
                    (double)(use->graph_kernels - a->at.graph_kernels) * GRAPH_KERNEL_COST_NS +
                    (double)(use->attached_kernels - a->at.attached_kernels) * ATTACHED_COST_NS +
                    (double)(use->switch_ns - a->at.switch_ns);
    a->credit_ns = MIN(a->credit_ns, (a->at_work ? CREDIT_NS : START_CREDIT_NS) * a->share);
    a->at = *use;
    a->last_ns = now_ns;
}

/* The first window waits for the first call: with CUPTI 13.0.1, kernel records that are enabled before the
 * first context exists may no longer be delivered after a disable and enable. It does not wait for credit: in
 * a program that launches all the time, unrecorded calls may cost more than the account earns. */
static bool may_open(const struct account *a) {
    if (a->ever_opened) return a->credit_ns >= 0;
    return !a->waits_for_call || a->at.calls + a->at.unrecorded > 0;
}

/* A window that is not at work costs little and closes at a larger debt. */
static bool must_close(struct account *a, uint64_t now_ns) {
    if (!a->work_ns && a->at.calls - a->opened_calls >= WORK_CALLS) a->work_ns = now_ns;
    a->at_work |= a->work_ns != 0;
    bool costs = a->at.calls > a->opened_calls && a->credit_ns < -MIN_DEBT_NS;
    return a->credit_ns < 0 && (a->work_ns ? now_ns - a->work_ns >= MIN_WINDOW_NS : costs);
}

bool account_allows(struct account *a, const struct account_use *use, uint64_t now_ns) {
    account_charge(a, use, now_ns);
    if (a->open && must_close(a, now_ns)) {
        a->open = false;
        a->closed_ns = now_ns;
        a->closed_credit_ns = a->credit_ns;
    } else if (!a->open && may_open(a)) {
        a->open = a->ever_opened = true;
        a->work_ns = 0;
        a->opened_calls = a->at.calls;
    }
    return a->open;
}

bool account_is_stuck(const struct account *a, uint64_t now_ns) {
    return !a->open && now_ns - a->closed_ns > GIVE_UP_NS && a->credit_ns <= a->closed_credit_ns;
}

double account_spent(const struct account *a) {
    double elapsed = (double)(a->last_ns - a->start_ns);
    return elapsed > 0 ? a->share - a->credit_ns / elapsed : NAN;
}
