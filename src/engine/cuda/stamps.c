/* Times of kernels, for traces. Kernels store the time of the device's clock at which they have their inputs
 * (common.cuh), so the host does not have to wait after each of them. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/vec.h"
#include "engine/cuda/internal.h"
#include "engine/ops/decode.h"

/* MOST: times between two calls of take(). In the memory: the counter, `last_end`, the times, the ends. */
enum { MOST = 1 << 20, LAST_END = 8, OFFSET = 16 };

static void set_everywhere(struct cuda *c, const struct kernel_stamps *s) {
    for (int m = 0; m < MODULE_ALL && !c->failed; m++) {
        cu_ptr p;
        size_t bytes;
        if (!c->modules[m]) continue;
        if (c->d->module_global(&p, &bytes, c->modules[m], "stamps") == CU_OK && bytes == sizeof *s)
            cuda_copy_in(c, (void *)(uintptr_t)p, s, sizeof *s);
    }
    if (!c->failed) cuda_ok(c, c->d->stream_wait(c->stream), "a kernel");
}

static struct kernel_stamps in_memory(cu_ptr memory) {
    return (struct kernel_stamps){ .ns = (void *)(uintptr_t)(memory + OFFSET),
                                   .ends = (void *)(uintptr_t)(memory + OFFSET + MOST * 8),
                                   .last_end = (void *)(uintptr_t)(memory + LAST_END),
                                   .n = (void *)(uintptr_t)memory,
                                   .most = MOST };
}

/* A kernel that the host waits for: its time on the device is between the two times of the host. */
static struct stamp_pair run_nothing(struct cuda *c) {
    struct stamp_pair p = { .before_ns = clock_wall_ns() };
    LAUNCH(c, nothing, GRID(1, .threads = 32), NULL);
    if (!c->failed) cuda_ok(c, c->d->stream_wait(c->stream), "a kernel");
    p.after_ns = clock_wall_ns();
    return p;
}

/* Forgets all times. The first kernels from now on are those of stamps.pair[]. */
static void restart(struct cuda *c) {
    c->stamps.count = 0;
    c->stamps.library.n = 0;
    c->stamps.ended = false;
    if (!c->failed)
        cuda_ok(c, c->d->set_words(c->stamps.memory, 0, OFFSET / 4, c->stream), "clearing memory");
    for (size_t i = 0; i < COUNTOF(c->stamps.pair); i++) c->stamps.pair[i] = run_nothing(c);
}

void cuda_stamps_start(void *context) {
    struct cuda *c = context;
    if (!c->stamps.memory && cuda_alloc(c, &c->stamps.memory, OFFSET + (size_t)MOST * 16) != CU_OK) {
        c->stamps.memory = 0; /* the trace will have no operators */
        return;
    }
    struct kernel_stamps s = in_memory(c->stamps.memory);
    set_everywhere(c, &s);
    restart(c);
    c->stamps.on = !c->failed;
}

void cuda_stamps_loaded(struct cuda *c) {
    struct kernel_stamps s = in_memory(c->stamps.memory);
    if (c->stamps.on) set_everywhere(c, &s);
}

void cuda_stamps_stop(void *context) {
    struct cuda *c = context;
    if (c->stamps.on) set_everywhere(c, &(struct kernel_stamps){ 0 });
    c->stamps.on = false;
}

/* A library's kernels store no times. If the kernel before stores its end, that is their start; otherwise a
 * kernel that does nothing else stores it. */
void cuda_stamps_library(struct cuda *c) {
    if (!c->stamps.on) return;
    if (!c->stamps.ended) { /* also after another kernel of a library */
        LAUNCH(c, nothing, GRID(1, .threads = 32), NULL);
        return;
    }
    vec_push(&c->stamps.library, c->stamps.count);
    c->stamps.count++;
    c->stamps.ended = false;
}

size_t cuda_stamps_mark(void *context) { return ((struct cuda *)context)->stamps.count; }

/* Adds the difference of the two clocks to v[n], whose first times are those of the pairs. */
static void to_wall_clock(const struct cuda *c, uint64_t *v, size_t n) {
    const struct stamp_pair *pair = c->stamps.pair;
    size_t best = 0;
    for (size_t i = 1; i < COUNTOF(c->stamps.pair); i++)
        if (pair[i].after_ns - pair[i].before_ns < pair[best].after_ns - pair[best].before_ns) best = i;
    uint64_t middle = pair[best].before_ns + (pair[best].after_ns - pair[best].before_ns) / 2;
    uint64_t difference = middle - v[best]; /* unsigned: wraps if the device's clock is ahead */
    for (size_t i = 0; i < n; i++) v[i] += difference;
}

/* The own kernel after a library's kernel has stored the end of the own kernel before it. */
uint64_t *cuda_stamps_merge(const uint64_t *own, const uint64_t *ends, size_t n, const unsigned *at, size_t m,
                            size_t *count) {
    uint64_t *all = xcalloc(n + m + 1, sizeof *all);
    size_t i = 0;
    for (size_t j = 0, k = 0; j < n; i++) {
        if (k < m && at[k] == i) {
            uint64_t least = i ? all[i - 1] : 0;
            all[i] = MIN(MAX(ends[j], least), own[j]);
            k++;
        } else {
            all[i] = own[j++];
        }
    }
    *count = i;
    return all;
}

size_t cuda_stamps_take(void *context, const uint64_t **ns) {
    struct cuda *c = context;
    unsigned n = 0;
    size_t all;
    if (!c->stamps.on) return 0;
    LAUNCH(c, nothing, GRID(1, .threads = 32), NULL); /* the end of the last kernel */
    if (!c->failed) cuda_ok(c, c->d->stream_wait(c->stream), "a kernel");
    cuda_copy_out(c, &n, (void *)(uintptr_t)c->stamps.memory, sizeof n);
    n = MIN(n, (unsigned)MOST); /* later kernels could not store their times */
    free(c->stamps.times);
    uint64_t *own = xcalloc(2 * (size_t)n + 1, sizeof *own), *ends = own + n;
    cuda_copy_out(c, own, (void *)(uintptr_t)(c->stamps.memory + OFFSET), n * sizeof *own);
    cuda_copy_out(c, ends, (void *)(uintptr_t)(c->stamps.memory + OFFSET + MOST * 8), n * sizeof *ends);
    c->stamps.times = cuda_stamps_merge(own, ends, n, c->stamps.library.v, c->stamps.library.n, &all);
    free(own);
    if (all < COUNTOF(c->stamps.pair)) all = 0; /* the clocks cannot be compared */
    if (all) to_wall_clock(c, c->stamps.times, all);
    restart(c);
    *ns = c->stamps.times;
    return c->failed ? 0 : all;
}

size_t cuda_stamps_spans(struct cuda *c, const struct stamped_steps *s, struct decode_span **spans) {
    const uint64_t *ns;
    size_t all = cuda_stamps_take(c, &ns), count = 0;
    all = all > s->first ? all - s->first : 0;
    ns = all ? ns + s->first : NULL;
    *spans = xcalloc(s->steps * s->nparts + 1, sizeof **spans);
    for (size_t step = 0; step < s->steps; step++) {
        bool known = step * s->times + s->end < all;
        for (size_t i = 0; i < s->nparts; i++) {
            const struct step_part *p = &s->parts[i];
            size_t end = i + 1 < s->nparts ? p[1].at : s->end;
            struct decode_span *to = &(*spans)[count++];
            *to = (struct decode_span){ .name = p->name, .kernel = p->kernel, .type = p->type };
            if (!known) continue;
            to->start_ns = ns[step * s->times + p->at];
            to->end_ns = ns[step * s->times + end];
        }
    }
    return count;
}
