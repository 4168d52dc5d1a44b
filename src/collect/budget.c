#include "collect/budget.h"

#include <stdatomic.h>

#include "base/util.h"
#include "collect/output.h"
#include "collect/records.h"
#include "collect/thread.h"

#define CALL_COST_NS 1250.0        /* a recorded launch, kernel record included */
#define OUTSIDE_COST_NS 750.0      /* a kernel launched just after a window */
#define GRAPH_KERNEL_COST_NS 160.0 /* a kernel replayed from a graph */
#define MIN_WINDOW_NS 50000000u

static struct {
    uint64_t last_ns, opened_ns;            /* last look; the window's beginning */
    uint64_t calls, graph_kernels, outside; /* paid for */
    double credit_ns;
    bool open;
    _Atomic uint64_t switch_ns;
} account;

void budget_start(uint64_t now) {
    account.last_ns = account.opened_ns = now;
    account.open = true;
}

void budget_pay_switch(uint64_t ns) { atomic_fetch_add(&account.switch_ns, ns); }

static void pay(uint64_t now) {
    struct record_counts c;
    records_counts(&c);
    uint64_t calls = settings.launches ? thread_calls() : c.kernels - c.graph_kernels;
    double share = settings.budget_pct / 100;
    account.credit_ns += (double)(now - account.last_ns) * share;
    account.credit_ns -= (double)(calls - account.calls) * CALL_COST_NS +
                         (double)(c.graph_kernels - account.graph_kernels) * GRAPH_KERNEL_COST_NS +
                         (double)(c.outside - account.outside) * OUTSIDE_COST_NS +
                         (double)atomic_exchange(&account.switch_ns, 0);
    account.credit_ns = MIN(account.credit_ns, 1e8 * share); /* 0.1 s worth: no feast after a long rest */
    account.calls = calls;
    account.graph_kernels = c.graph_kernels;
    account.outside = c.outside;
    account.last_ns = now;
}

bool budget_allows(uint64_t now) {
    pay(now);
    if (account.open && account.credit_ns < 0 && now - account.opened_ns >= MIN_WINDOW_NS) {
        account.open = false;
    } else if (!account.open && account.credit_ns >= 0) {
        account.open = true;
        account.opened_ns = now;
    }
    return account.open;
}
