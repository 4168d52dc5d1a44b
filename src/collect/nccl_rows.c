#include "collect/nccl_rows.h"

#include <sched.h>

#define SPINS 200  /* tries before yielding */
#define YIELDS 100 /* further tries, with sched_yield() */

/* Bits of a handle, from bit 0: 1 (always set), 3 for the kind, 8 for the channel, 16 for the row, 32 for the
 * generation. A handle is odd, so it is never NULL and never the address of an aligned object. */
void *nccl_handle_make(enum nccl_handle_kind kind, unsigned channel, size_t row, uint32_t generation) {
    return (void *)(uintptr_t)((uint64_t)generation << 28 | (uint64_t)row << 12 | (uint64_t)channel << 4 |
                               (uint64_t)kind << 1 | 1u);
}
static enum nccl_handle_kind kind_of(const void *handle) {
    return (uintptr_t)handle & 1 ? (enum nccl_handle_kind)((uintptr_t)handle >> 1 & 7) : 0;
}
size_t nccl_handle_row(const void *handle) { return (uintptr_t)handle >> 12 & 0xffff; }
uint32_t nccl_handle_generation(const void *handle) { return (uint32_t)((uint64_t)(uintptr_t)handle >> 28); }

/* Normally another thread holds the lock for at most a microsecond. */
bool nccl_row_lock(struct nccl_row *r) {
    for (int i = 0; i < SPINS + YIELDS; i++) {
        if (!atomic_flag_test_and_set_explicit(&r->locked, memory_order_acquire)) return true;
        if (i >= SPINS) sched_yield();
    }
    return false;
}
void nccl_row_unlock(struct nccl_row *r) { atomic_flag_clear_explicit(&r->locked, memory_order_release); }

uint32_t nccl_row_renew(struct nccl_row *r) { return atomic_fetch_add(&r->generation, 1) + 1; }

bool nccl_handle_is_valid(const void *handle, enum nccl_handle_kind kind, const struct nccl_row *r) {
    return kind_of(handle) == kind && nccl_handle_generation(handle) & 1 &&
           atomic_load(&r->generation) == nccl_handle_generation(handle);
}

bool nccl_handle_lock(const void *handle, enum nccl_handle_kind kind, struct nccl_row *row_at_handle) {
    if (!nccl_handle_is_valid(handle, kind, row_at_handle) || !nccl_row_lock(row_at_handle)) return false;
    if (nccl_handle_is_valid(handle, kind, row_at_handle)) return true;
    nccl_row_unlock(row_at_handle);
    return false;
}
