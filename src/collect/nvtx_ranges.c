#include "collect/nvtx_ranges.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "collect/host.h"
#include "collect/nvtx_own.h"
#include "collect/nvtx_torch.h"
#include "collect/output.h"
#include "collect/thread.h"
#include "collect/window.h"

static uint32_t event_name(const struct nvtx_event *e, struct trace_writer *w) {
    return e->registered ? nvtx_name_string(NVTX_STRINGS, e->registered, w) : trace_writer_str(w, e->text);
}

/* Splits the names of PyTorch's operators (nvtx_torch.h), which are in the default domain without a
 * category. */
static void name_range(struct open_range *r, const struct nvtx_event *e, struct trace_writer *w) {
    struct torch_name t;
    if (e->domain || e->category || e->own || e->registered || !torch_name_split(e->text, &t)) {
        r->name = event_name(e, w);
        return;
    }
    r->name = trace_writer_string(w, e->text, t.name_len);
    r->detail = t.detail_len ? trace_writer_string(w, t.detail, t.detail_len) : 0;
    r->stack = t.stack ? trace_writer_str(w, t.stack) : 0;
    r->op = true;
}

static uint32_t range_category(const struct open_range *r) {
    if (r->op) return TRACE_CATEGORY_OP;
    switch (r->own) {
    case NVTX_OWN_STAGE: return TRACE_CATEGORY_STAGE;
    case NVTX_OWN_MODULE: return TRACE_CATEGORY_MODULE;
    case NVTX_OWN_OP: return TRACE_CATEGORY_OP;
    default: return TRACE_CATEGORY_USER;
    }
}

static void write_range(struct trace_writer *w, const struct open_range *r, uint32_t tid, uint32_t depth,
                        uint64_t end_ns, uint32_t flags) {
    if (r->role == WINDOW_WARMUP) return;
    struct trace_range out = {
        .start_ns = r->start_ns,
        .end_ns = MAX(end_ns, r->start_ns),
        .thread = tid,
        .depth = depth,
        .category = range_category(r),
        .flags = flags,
        .domain = nvtx_name_string(NVTX_DOMAINS, r->domain, w),
        .name = r->name,
        .detail = r->op ? r->detail : nvtx_category_string(r->domain, r->category, w),
        .flops = (double)NAN,
        .bytes = (double)NAN,
        .payload = r->payload,
        .stack = r->stack,
    };
    trace_writer_range(w, &out, 1);
}

static struct open_range open_range(const struct nvtx_event *e, struct trace_writer *w) {
    struct open_range r = { .domain = e->domain,
                            .category = e->category,
                            .own = e->own,
                            .payload = e->payload,
                            .role = window_role(e->text) };
    name_range(&r, e, w);
    r.start_ns = clock_wall_ns();
    return r;
}

/* ---- push and pop */
static int push_inside(const struct nvtx_event *e) {
    struct thread_state *t = thread_self();
    struct trace_writer *w = t ? output_take() : NULL;
    uint32_t role = WINDOW_NONE;
    uint64_t start_ns = 0;
    int depth = -1;
    /* no file is open, or the process ends and writes the open ranges */
    if (!w || !thread_take_ranges(t)) {
        output_lost(TRACE_RANGE, TRACE_LOST_MEMORY, 1);
        if (w) output_give();
        return -1;
    }
    unsigned n = atomic_load(&t->nopen);
    if (n >= THREAD_MAX_OPEN) {
        depth = (int)(n + t->too_deep++);
        trace_writer_lost(w, TRACE_RANGE, TRACE_LOST_MEMORY, 1);
    } else {
        depth = (int)n;
        t->open[n] = open_range(e, w);
        role = t->open[n].role;
        start_ns = t->open[n].start_ns;
        atomic_store(&t->nopen, n + 1);
    }
    thread_give_ranges(t);
    output_give();
    if (role) window_range(role, 1, start_ns);
    return depth;
}

/* Removes the innermost open range of the domain. Ranges of other domains may be further inside. Returns the
 * depth of the removed range; -1: none. */
static int take_innermost(struct thread_state *t, uint32_t domain, struct open_range *r) {
    unsigned n = atomic_load(&t->nopen), i = n;
    while (i > 0 && t->open[i - 1].domain != domain) i--;
    if (i == 0) return -1; /* more pops than pushes */
    *r = t->open[i - 1];
    memmove(&t->open[i - 1], &t->open[i], (n - i) * sizeof t->open[0]);
    atomic_store(&t->nopen, n - 1);
    return (int)i - 1;
}

static int pop_inside(uint32_t domain) {
    struct thread_state *t = thread_self();
    uint64_t now = clock_wall_ns();
    struct open_range r;
    if (!t || !thread_take_ranges(t)) return -1;
    bool deep = t->too_deep > 0;
    int depth = deep ? (int)(atomic_load(&t->nopen) + --t->too_deep) : take_innermost(t, domain, &r);
    thread_give_ranges(t);
    if (deep || depth < 0) return depth;
    struct trace_writer *w = output_take();
    if (w) {
        write_range(w, &r, atomic_load(&t->tid), (uint32_t)depth, now, 0);
        output_give();
    } else {
        output_lost(TRACE_RANGE, TRACE_LOST_MEMORY, 1);
    }
    if (r.role) window_range(r.role, -1, now);
    return depth;
}

/* ---- start and end: any thread, any order */
#define MAX_STARTED 4096u
static struct {
    pthread_mutex_t lock;
    struct {
        uint64_t id; /* 0: empty */
        uint32_t tid;
        struct open_range range;
    } v[MAX_STARTED];
    uint64_t next;
    atomic_uint nopen;
} started = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Returns the range's id. 0: no free entry was found, or the lock timed out. */
static uint64_t store_started(const struct open_range *r) {
    uint64_t id = 0;
    if (!lock_take(&started.lock, &host_locks)) return 0;
    for (unsigned tries = 0; tries < 64 && !id; tries++) {
        uint64_t candidate = ++started.next;
        if (started.v[candidate % MAX_STARTED].id) continue;
        id = candidate;
        started.v[id % MAX_STARTED].id = id;
        started.v[id % MAX_STARTED].tid = thread_id();
        started.v[id % MAX_STARTED].range = *r;
        atomic_fetch_add(&started.nopen, 1);
    }
    pthread_mutex_unlock(&started.lock);
    return id;
}

static uint64_t start_inside(const struct nvtx_event *e) {
    struct trace_writer *w = output_take();
    if (!w) {
        output_lost(TRACE_RANGE, TRACE_LOST_MEMORY, 1);
        return 0;
    }
    struct open_range r = open_range(e, w);
    uint64_t id = store_started(&r);
    if (!id) trace_writer_lost(w, TRACE_RANGE, TRACE_LOST_MEMORY, 1);
    output_give();
    if (id && r.role) window_range(r.role, 1, r.start_ns);
    return id;
}

static bool take_started(uint64_t id, struct open_range *r, uint32_t *tid) {
    if (!id || !lock_take(&started.lock, &host_locks)) return false;
    bool found = started.v[id % MAX_STARTED].id == id;
    if (found) {
        *r = started.v[id % MAX_STARTED].range;
        *tid = started.v[id % MAX_STARTED].tid;
        started.v[id % MAX_STARTED].id = 0;
        atomic_fetch_sub(&started.nopen, 1);
    }
    pthread_mutex_unlock(&started.lock);
    return found;
}

static void end_inside(uint64_t id) {
    struct open_range r;
    uint32_t tid = 0;
    uint64_t now = clock_wall_ns();
    if (!take_started(id, &r, &tid)) return;
    struct trace_writer *w = output_take();
    if (w) {
        write_range(w, &r, tid, 0, now, TRACE_RANGE_FREE);
        output_give();
    } else {
        output_lost(TRACE_RANGE, TRACE_LOST_MEMORY, 1);
    }
    if (r.role) window_range(r.role, -1, now);
}

/* ---- marks, including token counts */
static void mark_inside(const struct nvtx_event *e) {
    struct thread_state *t = thread_self();
    struct trace_writer *w = output_take();
    if (!w) {
        output_lost(TRACE_RANGE, TRACE_LOST_MEMORY, 1);
        return;
    }
    if (e->own == NVTX_OWN_CONSUMED || e->own == NVTX_OWN_MADE) {
        struct trace_token k = { .time_ns = clock_wall_ns(),
                                 .count = e->payload >= 0 && e->payload < 4e9 ? (uint32_t)e->payload : 0,
                                 .token_kind =
                                     e->own == NVTX_OWN_MADE ? TRACE_TOKEN_MADE : TRACE_TOKEN_CONSUMED,
                                 .thread = thread_id() };
        trace_writer_token(w, &k, 1);
    } else {
        struct open_range r = open_range(e, w);
        write_range(w, &r, thread_id(), t ? atomic_load(&t->nopen) : 0, r.start_ns, TRACE_RANGE_MARK);
    }
    output_give();
}

/* ---- entry points */
static bool enter_with_range(int *saved_errno) {
    if (host_enter(saved_errno)) return true;
    output_lost(TRACE_RANGE, TRACE_LOST_MEMORY, 1);
    return false;
}

int nvtx_range_push(const struct nvtx_event *e) {
    int saved_errno;
    if (!enter_with_range(&saved_errno)) return -1;
    int depth = push_inside(e);
    host_leave(saved_errno);
    return depth;
}

int nvtx_range_pop(uint32_t domain) {
    int saved_errno;
    if (!host_enter(&saved_errno)) return -1;
    int depth = pop_inside(domain);
    host_leave(saved_errno);
    return depth;
}

uint64_t nvtx_range_start(const struct nvtx_event *e) {
    int saved_errno;
    if (!enter_with_range(&saved_errno)) return 0;
    uint64_t id = start_inside(e);
    host_leave(saved_errno);
    return id;
}

void nvtx_range_end(uint64_t id) {
    int saved_errno;
    if (!host_enter(&saved_errno)) return;
    end_inside(id);
    host_leave(saved_errno);
}

void nvtx_range_mark(const struct nvtx_event *e) {
    int saved_errno;
    if (!enter_with_range(&saved_errno)) return;
    mark_inside(e);
    host_leave(saved_errno);
}

static void write_open_ranges(struct thread_state *t) {
    unsigned n = atomic_load(&t->nopen);
    struct trace_writer *w = n ? output_take() : NULL;
    if (!w) {
        output_lost(TRACE_RANGE, TRACE_LOST_MEMORY, n);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        write_range(w, &t->open[i], atomic_load(&t->tid), i, clock_wall_ns(), TRACE_RANGE_OPEN);
    output_give();
}

/* The ranges of a thread that ends no longer keep the window open. */
static void end_ranges_of_thread(struct thread_state *t) {
    write_open_ranges(t);
    for (unsigned i = 0, n = atomic_load(&t->nopen); i < n; i++)
        if (t->open[i].role) window_range(t->open[i].role, -1, clock_wall_ns());
}

void nvtx_ranges_finish(void) {
    thread_each_open(write_open_ranges);
    if (!lock_take(&started.lock, &host_locks)) {
        output_lost(TRACE_RANGE, TRACE_LOST_MEMORY, atomic_load(&started.nopen));
        return;
    }
    struct trace_writer *w = output_take();
    for (unsigned i = 0; w && i < MAX_STARTED; i++)
        if (started.v[i].id)
            write_range(w, &started.v[i].range, started.v[i].tid, 0, clock_wall_ns(),
                        TRACE_RANGE_FREE | TRACE_RANGE_OPEN);
    if (w) output_give();
    pthread_mutex_unlock(&started.lock);
}

void nvtx_ranges_after_fork(void) {
    pthread_mutex_init(&started.lock, NULL);
    for (unsigned i = 0; i < MAX_STARTED; i++) started.v[i].id = 0;
    atomic_store(&started.nopen, 0);
}

void nvtx_ranges_start(void) { thread_end_ranges = end_ranges_of_thread; }
