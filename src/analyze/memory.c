/* Memory over time, by kind: allocations and frees are added up, and totals replace the sum of their kind.
 * The peak of a stage is the largest total while the stage was open on the host, because allocations are
 * host calls. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/internal.h"
#include "base/die.h"
#include "base/hash.h"
#include "base/util.h"
#include "base/vec.h"

#define MAX_POINTS 2000

/* ---- sizes of allocations, by process and address */

struct block {
    uint64_t address, bytes;
    uint32_t process;
    uint8_t kind;
    bool used;
};
struct blocks {
    struct block *v; /* open addressing */
    size_t slots, used;
};

static struct block *find_block(const struct blocks *b, uint32_t process, uint64_t address) {
    size_t i = hash_u64(address ^ (uint64_t)process << 48) & (b->slots - 1);
    while (b->v[i].used && (b->v[i].address != address || b->v[i].process != process))
        i = (i + 1) & (b->slots - 1);
    return &b->v[i];
}

static void grow_blocks(struct blocks *b) {
    struct blocks larger = { .slots = b->slots ? b->slots * 2 : 1024, .used = b->used };
    larger.v = xcalloc(larger.slots, sizeof *larger.v);
    for (size_t i = 0; i < b->slots; i++)
        if (b->v[i].used) *find_block(&larger, b->v[i].process, b->v[i].address) = b->v[i];
    free(b->v);
    *b = larger;
}

/* Returns the slot of an address; adds it if it is missing. A freed block keeps its slot with 0 bytes,
 * because allocators reuse addresses. */
static struct block *take_block(struct blocks *b, uint32_t process, uint64_t address) {
    if (2 * (b->used + 1) > b->slots) grow_blocks(b);
    struct block *block = find_block(b, process, address);
    if (!block->used) {
        *block = (struct block){ .address = address, .process = process, .used = true };
        b->used++;
    }
    return block;
}

/* ---- totals after every record of a device */

struct walk {
    const struct timeline_memories *m;
    size_t nprocesses;
    struct blocks blocks;
    double *bytes; /* [nprocesses x TRACE_MEMORY_KIND_END] */
    struct analysis_memory_point now;
    struct {
        struct analysis_memory_point *v;
        size_t n, cap;
    } points;
};

static void set_bytes(struct walk *w, uint32_t process, unsigned kind, double bytes) {
    double *place = &w->bytes[process * TRACE_MEMORY_KIND_END + kind];
    w->now.bytes[kind] += bytes - *place;
    *place = bytes;
}

static void apply_record(struct walk *w, size_t i) {
    const struct timeline_memories *m = w->m;
    uint32_t process = m->process[i];
    unsigned kind = m->kind[i];
    if (m->action[i] == TRACE_MEMORY_TOTAL) {
        set_bytes(w, process, kind, (double)m->bytes[i]);
        return;
    }
    struct block *block = take_block(&w->blocks, process, m->address[i]);
    bool alloc = m->action[i] == TRACE_MEMORY_ALLOC;
    double before = w->bytes[process * TRACE_MEMORY_KIND_END + block->kind];
    /* subtracts the old size even on an allocation, because the record of the free may be lost */
    set_bytes(w, process, block->kind, fmax(0, before - (double)block->bytes));
    block->bytes = alloc ? m->bytes[i] : 0;
    if (!alloc) return;
    block->kind = (uint8_t)kind;
    set_bytes(w, process, kind, w->bytes[process * TRACE_MEMORY_KIND_END + kind] + (double)block->bytes);
}

static double total_of(const struct analysis_memory_point *p) {
    double sum = 0;
    for (size_t k = 0; k < TRACE_MEMORY_KIND_END; k++) sum += p->bytes[k];
    return sum;
}

/* Computes the points of a device. Records with the same time give one point. */
static void walk_device(struct walk *w, uint32_t device) {
    for (size_t i = 0; i < w->m->n; i++) {
        if (w->m->device[i] != device) continue;
        apply_record(w, i);
        w->now.time_ns = w->m->time_ns[i];
        w->now.total = total_of(&w->now);
        if (w->points.n && w->points.v[w->points.n - 1].time_ns == w->now.time_ns)
            w->points.v[w->points.n - 1] = w->now;
        else
            vec_push(&w->points, w->now);
    }
}

/* ---- results */

static size_t first_after(const struct walk *w, uint64_t time_ns) {
    size_t low = 0, high = w->points.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->points.v[middle].time_ns <= time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void raise_peak(struct analysis_memory_point *peak, const struct analysis_memory_point *p) {
    if (!(peak->total >= p->total)) *peak = *p;
}

static void find_stage_peaks(struct context *c, const struct walk *w, struct analysis_memory *out) {
    out->stages = analysis_alloc(c, c->a->nstages, sizeof *out->stages);
    for (size_t i = 0; i < c->a->nstages; i++) out->stages[i].total = NAN;
    for (size_t i = 0; i < c->a->noccurrences; i++) {
        const struct analysis_occurrence *o = &c->a->occurrences[i];
        size_t at = first_after(w, o->start_ns);
        /* memory at the start */
        if (at > 0) raise_peak(&out->stages[o->stage], &w->points.v[at - 1]);
        for (; at < w->points.n && w->points.v[at].time_ns <= o->end_ns; at++)
            raise_peak(&out->stages[o->stage], &w->points.v[at]);
    }
}

/* Keeps all points if there are at most MAX_POINTS. Otherwise divides the time into MAX_POINTS periods and
 * keeps the point with the largest total of each period. */
static void keep_series(struct context *c, const struct walk *w, struct analysis_memory *out) {
    uint64_t start = w->points.v[0].time_ns, span = w->points.v[w->points.n - 1].time_ns - start + 1;
    struct analysis_memory_point *series = analysis_alloc(c, MAX_POINTS + 1, sizeof *series);
    uint64_t last_slot = UINT64_MAX;
    for (size_t i = 0; i < w->points.n; i++) {
        const struct analysis_memory_point *p = &w->points.v[i];
        uint64_t slot = w->points.n <= MAX_POINTS
                            ? i
                            : (uint64_t)((double)(p->time_ns - start) / (double)span * MAX_POINTS);
        if (slot == last_slot)
            raise_peak(&series[out->n - 1], p);
        else
            series[out->n++] = *p;
        last_slot = slot;
    }
    out->series = series;
}

static void add_device(struct context *c, uint32_t device, struct analysis_memory *out) {
    struct walk w = { .m = &c->tl->memories, .nprocesses = c->tl->nprocesses };
    w.bytes = xcalloc((w.nprocesses + 1) * TRACE_MEMORY_KIND_END, sizeof *w.bytes);
    walk_device(&w, device);
    if (w.points.n) {
        *out = (struct analysis_memory){ .device = device == TIMELINE_NONE ? ANALYSIS_NONE : device,
                                         .records = w.points.n,
                                         .peak = { .total = NAN } };
        for (size_t i = 0; i < w.points.n; i++) raise_peak(&out->peak, &w.points.v[i]);
        find_stage_peaks(c, &w, out);
        keep_series(c, &w, out);
        c->a->nmemories++;
    }
    free(w.points.v);
    free(w.bytes);
    free(w.blocks.v);
}

void analyze_memory(struct context *c) {
    if (!c->tl->memories.n) return;
    c->a->memories = analysis_alloc(c, c->tl->ndevices + 1, sizeof *c->a->memories);
    for (uint32_t d = 0; d < c->tl->ndevices; d++) add_device(c, d, &c->a->memories[c->a->nmemories]);
    add_device(c, TIMELINE_NONE, &c->a->memories[c->a->nmemories]);
}
