#include "collect/call_clock.h"

#include <stdbool.h>

#define TRIES 5
#define BASELINE_NS 100000000u /* for an accuracy of 1 ppm */
/* A larger deviation from the line means that the wall clock was set or the counter is not reliable. */
#define JUMP_NS 1000000

struct call_clock call_clock = { .flags = CALLS_COUNT_FIRST };

struct point {
    uint64_t ticks, wall_ns;
};

/* Keeps the narrowest of TRIES readings, because an interrupted reading is wide. */
static struct point read_point(void) {
    struct point best = { 0, 0 };
    uint64_t narrowest = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        uint64_t before = counter_now(), wall_ns = clock_wall_ns(), after = counter_now();
        if (after - before >= narrowest) continue;
        narrowest = after - before;
        best = (struct point){ before + narrowest / 2, wall_ns };
    }
    return best;
}

static void publish_line(const struct point *p, uint64_t ns_per_tick) {
    unsigned version = atomic_load_explicit(&call_clock.version, memory_order_relaxed);
    atomic_store_explicit(&call_clock.version, version | 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&call_clock.ticks, p->ticks, memory_order_relaxed);
    atomic_store_explicit(&call_clock.wall_ns, p->wall_ns, memory_order_relaxed);
    atomic_store_explicit(&call_clock.ns_per_tick, ns_per_tick, memory_order_relaxed);
    /* 0 means "no line": skip it on wrap-around. */
    unsigned next = (version | 1) + 1;
    atomic_store_explicit(&call_clock.version, next ? next : 2, memory_order_release);
}

static bool has_jumped(const struct point *p) {
    if (atomic_load_explicit(&call_clock.version, memory_order_relaxed) == 0) return false;
    int64_t off = (int64_t)(call_clock_ns() - p->wall_ns);
    return off > JUMP_NS || off < -JUMP_NS;
}

static struct point last_point; /* background thread only */

void call_clock_tick(void) {
    if (!counter_is_steady()) return;
    struct point p = read_point();
    if (has_jumped(&p) || p.wall_ns <= last_point.wall_ns || p.ticks <= last_point.ticks) {
        atomic_store(&call_clock.version, 0);
        last_point = p;
        return;
    }
    if (last_point.wall_ns && p.wall_ns - last_point.wall_ns < BASELINE_NS) return;
    if (last_point.wall_ns)
        publish_line(&p, (uint64_t)((double)(p.wall_ns - last_point.wall_ns) /
                                    (double)(p.ticks - last_point.ticks) * 0x1p32));
    last_point = p;
}

/* The parent may have been writing the line during the fork. */
void call_clock_after_fork(void) {
    atomic_store(&call_clock.version, 0);
    atomic_store(&call_clock.flags, CALLS_COUNT_FIRST);
    last_point = (struct point){ 0 };
}
