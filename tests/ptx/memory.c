/* Loads, stores, atomic operations, asynchronous copies and barriers in shared memory. Each access is
 * checked: its memory has to be allocated, or to belong to the block, and its address has to be a multiple of
 * its size. Copies by cp.async happen when they are waited for, which is the latest time that the hardware
 * allows; copies by the TMA unit happen at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "ptx/ptx.h"

/* ---- memory that may be accessed, in the order of its addresses */
struct area {
    uintptr_t from, to;
};
static struct {
    struct area *v;
    size_t n, cap;
} areas;
static struct area last; /* the area of the last access */

static size_t area_after(uintptr_t p) { /* the first area that begins after p */
    size_t low = 0, high = areas.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (areas.v[middle].from > p)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void ptx_memory_add(void *p, size_t bytes) {
    struct area a = { (uintptr_t)p, (uintptr_t)p + bytes };
    size_t at = area_after(a.from);
    vec_push(&areas, a);
    memmove(&areas.v[at + 1], &areas.v[at], (areas.n - 1 - at) * sizeof a);
    areas.v[at] = a;
    last = (struct area){ 0 };
}

void ptx_memory_remove(void *p) {
    size_t at = area_after((uintptr_t)p);
    if (!at || areas.v[at - 1].from != (uintptr_t)p) return;
    memmove(&areas.v[at - 1], &areas.v[at], (areas.n - at) * sizeof *areas.v);
    areas.n--;
    last = (struct area){ 0 };
}

static bool within(uintptr_t p, size_t bytes, const void *from, size_t size) {
    return p >= (uintptr_t)from && bytes <= size && p - (uintptr_t)from <= size - bytes;
}

static bool may_access(const struct ptx_warp *w, uintptr_t p, size_t bytes) {
    if (p >= last.from && p + bytes <= last.to) return true;
    size_t at = area_after(p);
    if (at && p + bytes <= areas.v[at - 1].to) {
        last = areas.v[at - 1];
        return true;
    }
    const struct ptx_cluster *c = w->block->cluster;
    for (uint32_t b = 0; b < c->nblocks; b++)
        if (within(p, bytes, c->blocks[b].shared, c->blocks[b].shared_bytes)) return true;
    return within(p, bytes, w->block->launch->params, w->kernel->param_bytes) ||
           within(p, bytes, w->local, (size_t)LANES * w->kernel->local_bytes);
}

static uint8_t *global(const struct ptx_warp *w, uint64_t address, size_t bytes) {
    if (!may_access(w, (uintptr_t)address, bytes))
        ptx_fail(w, "%zu bytes at %#llx are not allocated", bytes, (unsigned long long)address);
    return (uint8_t *)(uintptr_t)address;
}

uint8_t *ptx_shared(const struct ptx_warp *w, uint64_t address, size_t bytes) {
    const struct ptx_block *b = w->block;
    uint64_t rank = (address & 0xffffffff) >> 24, at = address & 0xffffff;
    if (rank > b->cluster->nblocks)
        ptx_fail(w, "address %#llx of shared memory: no such block", (unsigned long long)address);
    if (rank) b = &b->cluster->blocks[rank - 1];
    if (address >> 32 || at + bytes > b->shared_bytes)
        ptx_fail(w, "%zu bytes at %#llx are outside of the shared memory", bytes,
                 (unsigned long long)address);
    return b->shared + at;
}

static uint8_t *place(const struct ptx_warp *w, const struct ptx_ins *i, uint64_t address, size_t bytes) {
    bool shared = i->space == SPACE_SHARED || i->space == SPACE_CLUSTER;
    if (address % bytes)
        ptx_fail(w, "%zu bytes at %#llx are not aligned", bytes, (unsigned long long)address);
    return shared ? ptx_shared(w, address, bytes) : global(w, address, bytes);
}

/* ---- loads and stores */
static uint64_t read_value(const uint8_t *p, enum ptx_type t) {
    uint64_t v = 0;
    memcpy(&v, p, (size_t)ptx_type_bytes(t));
    if (t == T_S8) v = (uint32_t)(int8_t)v;
    if (t == T_S16) v = (uint32_t)(int16_t)v;
    return v;
}

/* Of one number of 4 or 2 bytes from global memory: most loads. */
static void load_plain(struct ptx_warp *w, const struct ptx_ins *i, uint32_t mask) {
    const struct ptx_operand *o = ptx_operands(w, i);
    size_t bytes = (size_t)ptx_type_bytes(i->type);
    uint32_t *d = ptx_row(w, &o[0]);
    const uint64_t *address = ptx_row(w, &o[1]);
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        int l = __builtin_ctz(rest);
        const uint8_t *p = place(w, i, address[l] + (uint64_t)o[1].plus, bytes);
        uint32_t v = 0;
        if (bytes == 4)
            memcpy(&v, p, 4);
        else
            memcpy(&v, p, 2);
        d[l] = v;
    }
}
static bool is_plain(const struct ptx_ins *i, const struct ptx_operand *o) {
    bool row = o[0].kind == O_REG && !o[0].wide && !o[0].pred && o[1].kind == O_REG && o[1].wide;
    return row && i->vector == 1 && !i->volatile_ && i->space == SPACE_GLOBAL &&
           (i->type == T_F32 || i->type == T_B32 || i->type == T_U32 || i->type == T_U16);
}

static void load(struct ptx_warp *w, const struct ptx_ins *i, uint32_t mask) {
    const struct ptx_operand *o = ptx_operands(w, i);
    size_t each = (size_t)ptx_type_bytes(i->type), bytes = each * i->vector;
    const struct ptx_operand *address = &o[i->noperands - 1];
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        int l = __builtin_ctz(rest);
        const uint8_t *p = place(w, i, ptx_get(w, address, l), bytes);
        uint64_t v[4];
        for (int k = 0; k < i->vector; k++) v[k] = read_value(p + each * (size_t)k, i->type);
        for (int k = 0; k < i->vector; k++) ptx_put(w, &o[k], l, v[k]);
    }
    if (i->volatile_) w->yields = true; /* it may wait for another warp's store */
}

static void store(struct ptx_warp *w, const struct ptx_ins *i, uint32_t mask) {
    const struct ptx_operand *o = ptx_operands(w, i);
    size_t each = (size_t)ptx_type_bytes(i->type), bytes = each * i->vector;
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        int l = __builtin_ctz(rest);
        uint8_t *p = place(w, i, ptx_get(w, &o[0], l), bytes);
        for (int k = 0; k < i->vector; k++) {
            uint64_t v = ptx_get(w, &o[1 + k], l);
            memcpy(p + each * (size_t)k, &v, each);
        }
    }
}

static uint64_t combined(const struct ptx_warp *w, const struct ptx_ins *i, uint64_t old, uint64_t v,
                         uint64_t w2) {
    bool wide = ptx_type_bytes(i->type) == 8, is_signed = i->type == T_S32 || i->type == T_S64;
    int64_t a = wide ? (int64_t)old : (int32_t)old, b = wide ? (int64_t)v : (int32_t)v;
    bool less = is_signed ? a < b : wide ? old < v : (uint32_t)old < (uint32_t)v;
    switch (i->variant) {
    case V_ADD:
        if (i->type == T_F32) {
            float x, y;
            memcpy(&x, &old, sizeof x);
            memcpy(&y, &v, sizeof y);
            x += y;
            old = 0;
            memcpy(&old, &x, sizeof x);
            return old;
        }
        return old + v;
    case V_MIN: return less ? old : v;
    case V_MAX: return less ? v : old;
    case V_AND: return old & v;
    case V_OR: return old | v;
    case V_EXCH: return v;
    case V_CAS: return old == v ? w2 : old;
    default: ptx_fail(w, "unknown atomic operation");
    }
}

static void atomic(struct ptx_warp *w, const struct ptx_ins *i, uint32_t mask) {
    const struct ptx_operand *o = ptx_operands(w, i), *address = i->op == OP_atom ? &o[1] : &o[0];
    size_t bytes = (size_t)ptx_type_bytes(i->type);
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        int l = __builtin_ctz(rest);
        uint8_t *p = place(w, i, ptx_get(w, address, l), bytes);
        uint64_t old = read_value(p, i->type),
                 v = combined(w, i, old, ptx_get(w, address + 1, l),
                              i->variant == V_CAS ? ptx_get(w, address + 2, l) : 0);
        memcpy(p, &v, bytes);
        if (i->op == OP_atom) ptx_put(w, &o[0], l, old);
    }
    w->yields = true;
}

/* ---- addresses */
static void convert_address(struct ptx_warp *w, const struct ptx_ins *i, uint32_t mask) {
    const struct ptx_operand *o = ptx_operands(w, i);
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        int l = __builtin_ctz(rest);
        uint64_t v = ptx_get(w, &o[1], l), base = (uint64_t)(uintptr_t)w->block->shared;
        if (i->space == SPACE_SHARED) v = i->variant == V_TO ? v - base : v + base;
        ptx_put(w, &o[0], l, v);
    }
}

static void map_to_block(struct ptx_warp *w, const struct ptx_ins *i, uint32_t mask) {
    const struct ptx_operand *o = ptx_operands(w, i);
    EACH_LANE(mask,
              ptx_put(w, &o[0], l, (ptx_get(w, &o[1], l) & 0xffffff) | (ptx_get(w, &o[2], l) + 1) << 24));
}

/* ---- barriers in shared memory (mbarrier): eight bytes */
struct barrier {
    uint16_t pending, count; /* arrivals that are missing in this phase, and those of a phase */
    int32_t bytes;           /* 2 x the bytes of copies that are missing, + the parity of the phase */
};
static void end_phase_if_complete(struct barrier *b) {
    if (b->pending || b->bytes / 2) return;
    b->bytes ^= 1;
    b->pending = b->count;
}
static void bytes_arrived(const struct ptx_warp *w, uint64_t address, int64_t bytes) {
    struct barrier *b = (struct barrier *)ptx_shared(w, address, sizeof *b);
    b->bytes -= (int32_t)(2 * bytes);
    end_phase_if_complete(b);
}
static void arrive(const struct ptx_warp *w, struct barrier *b) {
    if (!b->pending) ptx_fail(w, "more arrivals at a barrier than it expects (%u)", b->count);
    b->pending--;
    end_phase_if_complete(b);
}

static void barrier(struct ptx_warp *w, const struct ptx_ins *i, uint32_t mask) {
    const struct ptx_operand *o = ptx_operands(w, i), *address = i->variant == V_INIT ? &o[0] : &o[1];
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        int l = __builtin_ctz(rest);
        struct barrier *b = (struct barrier *)place(w, i, ptx_get(w, address, l), sizeof *b);
        uint64_t v = i->noperands > address - o + 1 ? ptx_get(w, address + 1, l) : 0;
        switch (i->variant) {
        case V_INIT: *b = (struct barrier){ (uint16_t)v, (uint16_t)v, 0 }; break;
        case V_ARRIVE: arrive(w, b); break;
        case V_EXPECT:
            b->bytes += (int32_t)(2 * v);
            arrive(w, b);
            break;
        case V_TRY_WAIT: {
            bool done = (uint64_t)(b->bytes & 1) != (v & 1);
            ptx_put(w, &o[0], l, done);
            if (!done) w->yields = true;
            break;
        }
        default: ptx_fail(w, "this operation on a barrier is not supported");
        }
    }
}

/* ---- copies */
static void finish_copy(struct ptx_copy *c) {
    memcpy(c->to, c->from, c->bytes);
    memset(c->to + c->bytes, 0, c->zeros);
}
/* Performs the copies of a lane up to a group. */
static void finish_copies(struct ptx_warp *w, int lane, uint32_t groups) {
    size_t kept = 0;
    for (size_t n = 0; n < w->copies.n; n++) {
        struct ptx_copy c = w->copies.v[n];
        if (c.lane == lane && c.group < groups)
            finish_copy(&c);
        else
            w->copies.v[kept++] = c;
    }
    w->copies.n = kept;
}

static void start_copy(struct ptx_warp *w, const struct ptx_ins *i, int l) {
    const struct ptx_operand *o = ptx_operands(w, i);
    uint32_t size = (uint32_t)ptx_get(w, &o[2], l),
             bytes = i->noperands > 3 ? (uint32_t)ptx_get(w, &o[3], l) : size;
    uint64_t to = ptx_get(w, &o[0], l), from = ptx_get(w, &o[1], l);
    if (bytes > size || to % size || from % size)
        ptx_fail(w, "a copy of %u of %u bytes, or not aligned", bytes, size);
    struct ptx_copy c = { ptx_shared(w, to, size),
                          bytes ? global(w, from, bytes) : NULL,
                          bytes,
                          size - bytes,
                          w->copy_group[l],
                          (uint8_t)l };
    if (!bytes) c.from = c.to;
    vec_push(&w->copies, c);
}

/* Swizzling exchanges pieces of 16 bytes within rows of 128, by the number of the row. */
static uint64_t swizzled(const struct ptx_map *m, uint64_t address) {
    return m->swizzle ? address ^ (address >> 7 & 7) << 4 : address;
}

/* Copies a box of the matrix; what is outside of it is 0. */
static void copy_box(struct ptx_warp *w, const struct ptx_ins *i, int l) {
    const struct ptx_operand *o = ptx_operands(w, i);
    struct ptx_map m;
    uint64_t to = ptx_get(w, &o[0], l), done = 0;
    memcpy(&m, global(w, ptx_get(w, &o[1], l), sizeof m), sizeof m);
    if (m.rank != i->noperands - 3)
        ptx_fail(w, "the map has %u dimensions, the copy %u", m.rank, i->noperands - 3);
    if (to % 128) ptx_fail(w, "the copy's destination %#llx is not aligned", (unsigned long long)to);
    int64_t first[5] = { 0 };
    uint32_t at[5] = { 0 };
    size_t row_bytes = (size_t)m.box[0] * m.element_bytes;
    for (int d = 0; d < m.rank; d++) first[d] = (int32_t)ptx_get(w, &o[2 + d], l);
    for (;;) {
        bool inside = true;
        uint64_t row = 0;
        for (int d = 1; d < m.rank; d++) {
            int64_t x = first[d] + at[d];
            inside = inside && x >= 0 && x < m.sizes[d];
            row += (uint64_t)x * m.strides[d - 1];
        }
        for (size_t b = 0; b < row_bytes; b += 16) { /* pieces; a column begins a piece */
            uint8_t piece[16] = { 0 };
            for (size_t k = 0; inside && k < 16; k += m.element_bytes) {
                int64_t x = first[0] + (int64_t)((b + k) / m.element_bytes);
                if (x < 0 || x >= m.sizes[0]) continue;
                memcpy(piece + k,
                       global(w, (uint64_t)(uintptr_t)m.data + row + (uint64_t)x * m.element_bytes,
                              m.element_bytes),
                       m.element_bytes);
            }
            memcpy(ptx_shared(w, swizzled(&m, to + done + b), 16), piece, 16);
        }
        done += row_bytes;
        int d = 1;
        while (d < m.rank && ++at[d] == m.box[d]) at[d++] = 0;
        if (d >= m.rank) break;
    }
    bytes_arrived(w, ptx_get(w, &o[i->noperands - 1], l), (int64_t)done);
}

static void copy_bytes(struct ptx_warp *w, const struct ptx_ins *i, int l) {
    const struct ptx_operand *o = ptx_operands(w, i);
    uint64_t to = ptx_get(w, &o[0], l), from = ptx_get(w, &o[1], l), bytes = ptx_get(w, &o[2], l);
    if (to % 16 || from % 16 || bytes % 16)
        ptx_fail(w, "a copy of %llu bytes is not aligned", (unsigned long long)bytes);
    memcpy(ptx_shared(w, to, bytes), global(w, from, bytes), bytes);
    bytes_arrived(w, ptx_get(w, &o[3], l), (int64_t)bytes);
}

static void copy_of_lane(struct ptx_warp *w, const struct ptx_ins *i, int l) {
    const struct ptx_operand *o = ptx_operands(w, i);
    switch (i->variant) {
    case V_NONE: start_copy(w, i, l); break;
    case V_COMMIT: w->copy_group[l]++; break;
    case V_WAIT_GROUP: {
        uint32_t may_run = (uint32_t)ptx_get(w, &o[0], l);
        if (w->copy_group[l] > may_run) finish_copies(w, l, w->copy_group[l] - may_run);
        break;
    }
    case V_TENSOR: copy_box(w, i, l); break;
    case V_BULK: copy_bytes(w, i, l); break;
    case V_PREFETCH: global(w, ptx_get(w, &o[0], l), ptx_get(w, &o[1], l)); break;
    default: ptx_fail(w, "this copy is not supported");
    }
}

static void copy(struct ptx_warp *w, const struct ptx_ins *i, uint32_t mask) {
    for (uint32_t rest = mask; rest; rest &= rest - 1) copy_of_lane(w, i, __builtin_ctz(rest));
}

ptx_do *ptx_memory_of(const struct ptx_kernel *k, const struct ptx_ins *i) {
    switch (i->op) {
    case OP_ld: return is_plain(i, &k->operands.v[i->operands]) ? load_plain : load;
    case OP_st: return store;
    case OP_atom:
    case OP_red: return atomic;
    case OP_cvta: return convert_address;
    case OP_mapa: return map_to_block;
    case OP_mbarrier: return barrier;
    case OP_cp: return copy;
    default: return NULL;
    }
}
