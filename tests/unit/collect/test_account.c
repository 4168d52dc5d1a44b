/* --budget, on a simulated clock: a program whose steps cost more while they are recorded. */
#include <math.h>
#include <string.h>

#include "collect/account.c"
#include "unit/test.h"

#define MS 1000000u
#define TICK_NS (5 * MS)

/* A program that replays one CUDA graph per step and waits for it. The figures are those of llama.cpp on an
 * H200: 260 kernels and 9 other calls per step. */
struct program {
    double step_ns, recorded_ns, attached_ns; /* of a step: undisturbed, recorded, CUPTI attached */
    uint64_t kernels, calls;
    double attach_ns, detach_ns;
};
static const struct program llama = { 1250e3, 1700e3, 1330e3, 260, 9, 4e6, 5e6 };

struct result {
    double cost_share; /* true overhead over the time from the first step on */
    uint64_t recorded; /* steps */
    double spent;      /* by the account */
};

/* Loads for load_ns, then runs steps until end_ns. After 50 recorded steps of the graph, 8 more are recorded
 * every 2 s (replays.c), if the budget allows. */
static struct result simulate(const struct program *p, double share, uint64_t load_ns, uint64_t end_ns) {
    struct account a;
    struct account_use use = { .calls = 1, .launch_ns = NAN };
    struct result r = { 0 };
    double now = 0, cost = 0, tick = 0, resume = 0;
    bool attached = true, open = false;
    unsigned wanted = 50;
    account_start(&a, 0, share, true);
    while (now < (double)end_ns) {
        bool loads = now < (double)load_ns, record = open && wanted > 0 && (attached || now >= resume);
        if (!loads && record && !attached) {
            cost += p->attach_ns;
            now += p->attach_ns;
            use.switch_ns += 12 * MS; /* the measured time is that of another thread */
            attached = true;
        }
        if (!loads && record) {
            use.calls += p->calls;
            use.graph_kernels += p->kernels;
            cost += p->recorded_ns - p->step_ns;
            r.recorded++;
            wanted--;
        }
        now += loads ? TICK_NS : record ? p->recorded_ns : attached ? p->attached_ns : p->step_ns;
        if (!loads && !record && attached && r.recorded) {
            cost += p->attached_ns - p->step_ns + p->detach_ns;
            now += p->detach_ns;
            use.attached_kernels += p->kernels;
            use.switch_ns += (uint64_t)p->detach_ns;
            attached = false;
            resume = now + 2e9;
            if (!wanted) wanted = 8;
        }
        if (now < tick) continue;
        open = account_allows(&a, &use, (uint64_t)now);
        tick = now + TICK_NS;
    }
    account_charge(&a, &use, (uint64_t)now);
    r.cost_share = cost / (now - (double)load_ns);
    r.spent = account_spent(&a);
    return r;
}

/* The account starts with nothing: the first 50 steps cost 28 ms, which a short run does not earn. */
TEST(budget_graphs_stay_within_the_budget) {
    const double shares[] = { 0.001, 0.003, 0.005, 0.01, 0.02 };
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        struct result r = simulate(&llama, shares[i], 0, 60000ull * MS);
        CHECK(r.recorded >= 40);
        CHECK(r.cost_share <= shares[i]);
        CHECK(r.spent >= r.cost_share);
    }
}

TEST(a_larger_budget_records_more) {
    uint64_t less = simulate(&llama, 0.002, 0, 60000ull * MS).recorded,
             more = simulate(&llama, 0.01, 0, 60000ull * MS).recorded;
    CHECK(more > 2 * less);
}

TEST(credit_of_loading_is_spent_on_the_first_steps) {
    struct account a;
    struct account_use use = { .calls = 50, .launch_ns = NAN };
    account_start(&a, 0, 0.01, true);
    for (uint64_t ms = 5; ms <= 1500; ms += 5) CHECK(account_allows(&a, &use, ms * MS));
    CHECK(a.credit_ns > 14e6); /* 1% of 1.5 s, less the cost of 50 calls */
    use.calls += 1500;         /* 3.5 ms: the window stays open */
    CHECK(account_allows(&a, &use, 1550ull * MS));
    use.calls += 20;
    use.graph_kernels += 320;
    CHECK(account_allows(&a, &use, 1600ull * MS));
    CHECK(account_spent(&a) < 0.01);
}

TEST(a_short_run_exceeds_the_budget_and_says_so) {
    struct result r = simulate(&llama, 0.01, 0, 800ull * MS);
    CHECK(r.cost_share > 0.015 && r.spent > 0.015);
}

/* Calls outside of windows cost more than the account earns. */
TEST(a_stuck_account_is_detected) {
    struct account a;
    struct account_use use = { .calls = 20000, .launch_ns = 11000 };
    account_start(&a, 0, 0.01, true);
    bool was_open = false, stuck = false;
    for (uint64_t ms = 5; ms < 5000; ms += 5) {
        bool open = account_allows(&a, &use, ms * MS);
        was_open |= open;
        *(open ? &use.calls : &use.unrecorded) += 500;
        stuck |= account_is_stuck(&a, ms * MS);
    }
    CHECK(was_open && stuck && !a.open);
}
