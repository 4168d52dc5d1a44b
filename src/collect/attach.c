#include "collect/attach.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "collect/activity.h"
#include "collect/budget.h"
#include "collect/callbacks.h"
#include "collect/cupti.h"
#include "collect/output.h"
#include "collect/records.h"

#define CAN_LEAVE 24 /* CUDA 12.6: before it CUPTI crashed on graphs when it came again */

static struct {
    pthread_mutex_t moving; /* it is just leaving or coming */
    atomic_bool there, wish;
    atomic_uint inside, left;
} at = { .moving = PTHREAD_MUTEX_INITIALIZER };

bool attach_start(void) {
    bool ok = callbacks_start() && activity_start();
    atomic_store(&at.there, ok);
    return ok;
}

bool attach_enter(void) {
    atomic_fetch_add(&at.inside, 1);
    if (atomic_load(&at.there)) return true;
    attach_exit();
    return false;
}

void attach_exit(void) { atomic_fetch_sub(&at.inside, 1); }

/* Graphs as a whole are asked for once and for good (activity.c). */
static bool can_leave(void) { return cupti.finalize && cupti.version >= CAN_LEAVE && !settings.whole_graphs; }

void attach_ask_leave(void) {
    if (!can_leave()) return;
    atomic_store(&at.wish, true);
    callbacks_ask_leave(true);
}

static void leave(void) {
    uint64_t before = clock_mono_ns();
    int rc = cupti.finalize();
    callbacks_gone();
    atomic_fetch_add(&at.left, 1);
    if (rc != CUPTI_OK)
        problem("CUPTI does not leave the program between windows (%s): its launches stay dearer",
                cupti_error(rc));
    budget_pay_switch(clock_mono_ns() - before);
}

/* Whoever enters after `there` is false sees it; who came before is seen in `inside`, and the next call tries again. */
void attach_leave(void) {
    if (pthread_mutex_trylock(&at.moving) != 0) return;
    if (atomic_load(&at.wish)) {
        atomic_store(&at.there, false);
        if (atomic_load(&at.inside) == 0) {
            leave();
            atomic_store(&at.wish, false);
        } else {
            atomic_store(&at.there, true);
            callbacks_ask_leave(true);
        }
    }
    pthread_mutex_unlock(&at.moving);
}

enum attach_state attach_again(void) {
    if (pthread_mutex_trylock(&at.moving) != 0) return ATTACH_LATER;
    atomic_store(&at.wish, false);
    callbacks_ask_leave(false);
    if (!atomic_load(&at.there)) {
        records_forget_calls();
        atomic_store(&at.there, callbacks_start() && activity_start());
    }
    bool there = attach_enter();
    pthread_mutex_unlock(&at.moving);
    return there ? ATTACH_THERE : ATTACH_REFUSED;
}

unsigned attach_times_left(void) { return atomic_load(&at.left); }

void attach_after_fork(void) {
    pthread_mutex_init(&at.moving, NULL);
    atomic_store(&at.there, false);
    atomic_store(&at.wish, false);
    atomic_store(&at.inside, 0);
}
