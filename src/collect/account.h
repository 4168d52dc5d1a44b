/* The account of --budget. It earns a share of the elapsed time and pays for recording, with costs measured
 * on an H200 (docs/overhead.md). It reads no clock and no counter: budget.c passes them, and a test can
 * simulate a program. */
#ifndef COLLECT_ACCOUNT_H
#define COLLECT_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

struct account_use {           /* totals of the process */
    uint64_t calls;            /* recorded */
    uint64_t unrecorded;       /* calls outside of windows while CUPTI is attached */
    uint64_t outside;          /* kernels launched while kernel records were still enabled after a window */
    uint64_t graph_kernels;    /* recorded kernels of graphs */
    uint64_t attached_kernels; /* kernels of graphs replayed outside of windows while CUPTI is attached */
    uint64_t switch_ns;        /* attaching, enabling, flushing, disabling and detaching */
    double launch_ns;          /* mean time of a launch; NaN: unknown */
};

struct account {
    double share;          /* of the elapsed time */
    bool waits_for_call;   /* the first window opens at the first call */
    uint64_t last_ns;      /* time of the last charge */
    struct account_use at; /* totals already charged */
    /* credit now, and when the last window closed */
    double credit_ns, closed_credit_ns;
    uint64_t opened_calls;                 /* `calls` when the window opened */
    uint64_t start_ns, closed_ns, work_ns; /* work_ns: 0: not at work */
    bool open, ever_opened, at_work;
};

void account_start(struct account *a, uint64_t now_ns, double share, bool waits_for_call);
void account_charge(struct account *a, const struct account_use *use, uint64_t now_ns);
/* Charges, then opens or closes the window. Returns true if it is open. */
bool account_allows(struct account *a, const struct account_use *use, uint64_t now_ns);
/* True if the credit of a closed window has not grown for a long time. */
bool account_is_stuck(const struct account *a, uint64_t now_ns);
double account_spent(const struct account *a); /* share of the elapsed time; after a charge */

#endif
