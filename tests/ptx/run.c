/* Runs the blocks of a launch: warps by turns, the lanes of a warp together where their instruction is the
 * same. Blocks run one after the other, those of a cluster or of a cooperative launch by turns.
 *
 * INFERPROF_PTX_SEED=N: turns of random length in random order. Kernels that lack a barrier then give
 * other results. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/util.h"
#include "ptx/ptx.h"

#define TURN 4000           /* instructions of a warp before the next one runs */
#define NOWHERE 0xffffffffu /* no lane has an instruction to run */
enum { CONTINUES, WAITS, ENDED };

void ptx_fail(const struct ptx_warp *w, const char *format, ...) {
    va_list args;
    const struct ptx_block *b = w->block;
    const uint32_t *ctaid = (const uint32_t *)(w->regs + S_CTAID_X * 4 * LANES);
    fflush(stdout);
    fprintf(stderr, "%s:%u: %s, block %u %u, warp %u: ", w->kernel->module->path, w->now ? w->now->line : 0,
            w->kernel->name, ctaid[0], ctaid[LANES], w->index);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, " (grid %u %u, %u bytes of shared memory)\n", b->launch->grid[0], b->launch->grid[1],
            b->shared_bytes);
    _exit(86);
}

/* ---- random turns */
static uint64_t random_state;
static uint32_t random_number(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33);
}
static bool is_random(void) {
    static int known = -1;
    if (known < 0) {
        const char *seed = getenv("INFERPROF_PTX_SEED");
        known = seed && *seed;
        if (known) random_state = strtoull(seed, NULL, 10) * 2 + 1;
    }
    return known;
}

/* ---- lanes */
/* Chooses the lanes that run next: those at the lowest instruction. *pc: it. *others: the lowest one of the
 * other lanes that can run. Lanes of a warp thereby meet again where their paths join. */
static bool choose_group(struct ptx_warp *w, uint32_t *pc, uint32_t *others) {
    *pc = *others = NOWHERE;
    for (int pass = 0; pass < 2 && *pc == NOWHERE; pass++) {
        for (uint32_t rest = w->live & ~w->stalled; rest; rest &= rest - 1)
            *pc = MIN(*pc, w->pc[__builtin_ctz(rest)]);
        if (*pc == NOWHERE) w->stalled = 0; /* lanes that they waited for may have ended */
    }
    w->group = 0;
    for (uint32_t rest = w->live; rest; rest &= rest - 1) {
        int l = __builtin_ctz(rest);
        if (w->pc[l] == *pc)
            w->group |= 1u << l;
        else if (!(w->stalled >> l & 1))
            *others = MIN(*others, w->pc[l]);
    }
    w->stalled &= ~w->group;
    return w->group;
}

static void keep_pc(struct ptx_warp *w, uint32_t pc) { EACH_LANE(w->group, w->pc[l] = pc); }

/* ---- barriers */
static void open_if_complete(struct ptx_block *b, int n) {
    uint32_t needed = b->barriers[n].needed;
    if (!b->barriers[n].arrived) return;
    if (!needed) needed = b->live; /* all threads; those that have ended are not waited for */
    if (b->barriers[n].arrived < needed) return;
    b->barriers[n].arrived = 0;
    b->barriers[n].generation++;
}

static void open_cluster_if_complete(struct ptx_cluster *c) {
    if (!c->arrived || c->arrived < c->live) return;
    c->arrived = 0;
    c->generation++;
}

/* bar.sync and bar.arrive: counts warps. Returns CONTINUES or WAITS. */
static int named_barrier(struct ptx_warp *w, const struct ptx_ins *i) {
    const struct ptx_operand *o = ptx_operands(w, i);
    int lane = __builtin_ctz(w->group);
    struct ptx_block *b = w->block;
    uint64_t n = ptx_get(w, &o[0], lane), threads = i->noperands > 1 ? ptx_get(w, &o[1], lane) : 0;
    if (n >= NAMED_BARRIERS || threads % LANES)
        ptx_fail(w, "barrier %llu of %llu threads", (unsigned long long)n, (unsigned long long)threads);
    if (b->barriers[n].arrived && b->barriers[n].needed != threads / LANES)
        ptx_fail(w, "barrier %llu is used with different numbers of threads", (unsigned long long)n);
    b->barriers[n].needed = (uint32_t)threads / LANES;
    b->barriers[n].arrived++;
    w->barrier_generation = b->barriers[n].generation;
    open_if_complete(b, (int)n);
    if (i->variant == V_ARRIVE || b->barriers[n].generation != w->barrier_generation) return CONTINUES;
    w->barrier = (int)n;
    return WAITS;
}

static int cluster_barrier(struct ptx_warp *w, const struct ptx_ins *i) {
    struct ptx_cluster *c = w->block->cluster;
    if (i->variant == V_ARRIVE) {
        if (w->in_cluster_barrier) ptx_fail(w, "arrives twice at the barrier of the cluster");
        w->in_cluster_barrier = true;
        w->cluster_generation = c->generation;
        c->arrived++;
        open_cluster_if_complete(c);
        return CONTINUES;
    }
    if (!w->in_cluster_barrier) ptx_fail(w, "waits at the barrier of the cluster without having arrived");
    if (c->generation == w->cluster_generation) return WAITS;
    w->in_cluster_barrier = false;
    return CONTINUES;
}

/* ---- control */
/* The live lanes that have to meet at an instruction: all, or those of its mask. */
static uint32_t needed_lanes(const struct ptx_warp *w, const struct ptx_ins *i) {
    const struct ptx_operand *o = ptx_operands(w, i);
    bool has_mask = i->op == OP_shfl || i->op == OP_vote || i->op == OP_redux ||
                    (i->op == OP_bar && i->variant == V_WARP);
    if (!has_mask) return w->live;
    return (uint32_t)ptx_get(w, &o[i->noperands - 1], __builtin_ctz(w->group)) & w->live;
}

static uint32_t guarded_lanes(const struct ptx_warp *w, const struct ptx_ins *i) {
    if (i->guard_sense < 0) return w->group;
    uint32_t p = *(const uint32_t *)(w->regs + i->guard);
    return w->group & (i->guard_sense ? p : ~p);
}

static void end_lanes(struct ptx_warp *w, uint32_t mask) {
    w->live &= ~mask;
    if (w->live) return;
    w->block->live--;
    w->block->cluster->live--;
    for (int n = 0; n < NAMED_BARRIERS; n++) open_if_complete(w->block, n);
    open_cluster_if_complete(w->block->cluster);
}

/* Barriers, and what has no effect here. Returns CONTINUES or WAITS. */
static int control(struct ptx_warp *w, const struct ptx_ins *i, uint32_t mask) {
    switch (i->op) {
    case OP_bar: return i->variant == V_WARP ? CONTINUES : named_barrier(w, i);
    case OP_barrier: return cluster_barrier(w, i);
    case OP_fence:
    case OP_membar:
    case OP_griddepcontrol:
    case OP_setmaxnreg:
    case OP_nanosleep: return CONTINUES;
    case OP_trap:
        if (mask) ptx_fail(w, "trap");
        return CONTINUES;
    default: break;
    }
    ptx_fail(w, "this instruction is not supported");
}

/* Runs a warp for some instructions. Returns CONTINUES, WAITS or ENDED. */
static int run_warp(struct ptx_warp *w, int turn) {
    uint32_t pc, others;
    const struct ptx_ins *code = w->kernel->code.v;
    w->yields = false;
    while (choose_group(w, &pc, &others)) {
        for (;;) {
            const struct ptx_ins *i = &code[pc];
            w->now = i;
            uint32_t needed = i->together ? needed_lanes(w, i) : 0;
            if (needed & ~w->group) { /* wait for the other lanes, if any can run */
                keep_pc(w, pc);
                if (others == NOWHERE) ptx_fail(w, "lanes %08x wait for %08x", w->group, needed & ~w->group);
                w->stalled |= w->group;
                break;
            }
            uint32_t mask = guarded_lanes(w, i);
            if (i->op == OP_bra) {
                EACH_LANE(w->group, w->pc[l] = mask >> l & 1 ? i->target : pc + 1);
                if (mask == w->group || !mask) {
                    pc = mask ? i->target : pc + 1;
                    if (--turn > 0 && pc < others) continue;
                }
                break;
            }
            if (i->op == OP_ret || i->op == OP_exit) {
                keep_pc(w, pc + 1);
                end_lanes(w, mask);
                break;
            }
            if (i->run) {
                if (mask) i->run(w, i, mask);
            } else if (control(w, i, mask) == WAITS) {
                keep_pc(w, i->op == OP_barrier ? pc : pc + 1);
                return WAITS;
            }
            pc++;
            if (--turn <= 0 || w->yields || pc >= others) {
                keep_pc(w, pc);
                break;
            }
        }
        if (turn <= 0 || w->yields) return w->live ? CONTINUES : ENDED;
    }
    return ENDED;
}

/* ---- blocks */
static void set_row(struct ptx_warp *w, enum ptx_special s, uint32_t v) {
    uint32_t *row = (uint32_t *)(w->regs + s * 4 * LANES);
    for (int l = 0; l < LANES; l++) row[l] = v;
}

static void *new_memory(size_t align, size_t bytes) {
    void *p = aligned_alloc(align, (bytes + align - 1) / align * align);
    if (!p) die("out of memory");
    return p;
}

static void start_warp(struct ptx_warp *w, struct ptx_block *b, uint32_t index, const uint32_t place[3]) {
    const struct ptx_launch *l = b->launch;
    struct ptx_kernel *k = l->kernel;
    uint32_t threads = l->block[0] * l->block[1] * l->block[2];
    uint8_t *regs = w->regs, *local = w->local;
    if (!regs) regs = new_memory(64, k->reg_bytes);
    if (!local && k->local_bytes) local = xcalloc(LANES, k->local_bytes);
    memset(regs, 0xa5, k->reg_bytes); /* registers are not zero at the start */
    *w = (struct ptx_warp){ .block = b,
                            .kernel = k,
                            .regs = regs,
                            .local = local,
                            .index = index,
                            .barrier = -1,
                            .copies = w->copies };
    w->copies.n = 0;
    for (uint32_t lane = 0; lane < LANES; lane++) {
        uint32_t t = index * LANES + lane;
        if (t < threads) w->live |= 1u << lane;
        ((uint32_t *)(regs + S_TID_X * 4 * LANES))[lane] = t % l->block[0];
        ((uint32_t *)(regs + S_TID_Y * 4 * LANES))[lane] = t / l->block[0] % l->block[1];
        ((uint32_t *)(regs + S_TID_Z * 4 * LANES))[lane] = t / l->block[0] / l->block[1];
        ((uint32_t *)(regs + S_LANE * 4 * LANES))[lane] = lane;
    }
    for (unsigned d = 0; d < 3; d++) {
        set_row(w, S_NTID_X + d, l->block[d]);
        set_row(w, S_CTAID_X + d, place[d]);
        set_row(w, S_NCTAID_X + d, l->grid[d]);
    }
}

/* A set of blocks that run by turns, and their memory, which the next set uses again. */
struct crew {
    struct ptx_launch *launch;
    struct ptx_cluster *clusters;
    struct ptx_block *blocks;
    struct ptx_warp *warps;
    uint32_t *order; /* of the warps */
    uint32_t nblocks, per_block;
};

static struct crew open_crew(struct ptx_launch *l, uint32_t nblocks) {
    uint32_t per_block = (l->block[0] * l->block[1] * l->block[2] + LANES - 1) / LANES;
    struct crew c = { .launch = l,
                      .clusters = xcalloc(nblocks / l->cluster, sizeof *c.clusters),
                      .blocks = xcalloc(nblocks, sizeof *c.blocks),
                      .warps = xcalloc((size_t)nblocks * per_block, sizeof *c.warps),
                      .order = xcalloc((size_t)nblocks * per_block, sizeof *c.order),
                      .nblocks = nblocks,
                      .per_block = per_block };
    uint32_t bytes = (l->kernel->shared_bytes + 1023) / 1024 * 1024 + l->dynamic_shared_bytes;
    for (uint32_t b = 0; b < nblocks; b++) {
        c.blocks[b].shared = new_memory(1024, bytes + 1);
        c.blocks[b].shared_bytes = bytes;
    }
    for (uint32_t w = 0; w < nblocks * per_block; w++) c.order[w] = w;
    return c;
}

static void close_crew(struct crew *c) {
    for (uint32_t b = 0; b < c->nblocks; b++) free(c->blocks[b].shared);
    for (uint32_t w = 0; w < c->nblocks * c->per_block; w++) {
        free(c->warps[w].regs);
        free(c->warps[w].local);
        free(c->warps[w].copies.v);
    }
    free(c->clusters);
    free(c->blocks);
    free(c->warps);
    free(c->order);
}

/* Prepares blocks first, first + 1, ... of the grid. */
static void start_blocks(struct crew *c, uint64_t first) {
    struct ptx_launch *l = c->launch;
    for (uint32_t b = 0; b < c->nblocks; b++) {
        struct ptx_block *block = &c->blocks[b];
        struct ptx_cluster *cluster = &c->clusters[b / l->cluster];
        uint64_t n = first + b;
        uint32_t place[3] = { (uint32_t)(n % l->grid[0]), (uint32_t)(n / l->grid[0] % l->grid[1]),
                              (uint32_t)(n / l->grid[0] / l->grid[1]) };
        if (b % l->cluster == 0)
            *cluster = (struct ptx_cluster){ .blocks = block,
                                             .nblocks = l->cluster,
                                             .live = l->cluster * c->per_block };
        memset(block->shared, 0xff, block->shared_bytes); /* NaN */
        *block = (struct ptx_block){ .launch = l,
                                     .cluster = cluster,
                                     .shared = block->shared,
                                     .shared_bytes = block->shared_bytes,
                                     .rank = b % l->cluster,
                                     .live = c->per_block };
        for (uint32_t w = 0; w < c->per_block; w++)
            start_warp(&c->warps[b * c->per_block + w], block, w, place);
    }
}

static bool can_run(const struct ptx_warp *w) {
    const struct ptx_block *b = w->block;
    if (!w->live) return false;
    if (w->barrier >= 0) return b->barriers[w->barrier].generation != w->barrier_generation;
    if (w->now && w->now->op == OP_barrier && w->now->variant == V_WAIT && w->in_cluster_barrier)
        return b->cluster->generation != w->cluster_generation;
    return true;
}

static void shuffle(struct crew *c) {
    for (uint32_t n = c->nblocks * c->per_block; n > 1; n--) {
        uint32_t other = random_number() % n, kept = c->order[n - 1];
        c->order[n - 1] = c->order[other];
        c->order[other] = kept;
    }
}

static void run_blocks(struct crew *c) {
    uint32_t n = c->nblocks * c->per_block, live;
    do {
        bool any = false;
        live = 0;
        if (is_random()) shuffle(c);
        for (uint32_t i = 0; i < n; i++) {
            struct ptx_warp *w = &c->warps[c->order[i]];
            if (!can_run(w)) {
                live += w->live != 0;
                continue;
            }
            w->barrier = -1;
            any = true;
            live += run_warp(w, is_random() ? 1 + (int)(random_number() % 200) : TURN) != ENDED;
        }
        if (live && !any) {
            uint32_t i = 0;
            while (!c->warps[i].live) i++;
            ptx_fail(&c->warps[i], "all warps wait: a barrier that is not reached by all");
        }
    } while (live);
}

void ptx_run(struct ptx_launch *l) {
    uint64_t all = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
    ptx_parse(l->kernel);
    struct crew c = open_crew(l, l->cooperative ? (uint32_t)all : l->cluster);
    for (uint64_t first = 0; first < all; first += c.nblocks) {
        start_blocks(&c, first);
        run_blocks(&c);
    }
    close_crew(&c);
}
