/* Rows of the NCCL plugin's tables, and the handles that NCCL keeps for them. A handle contains the row's
 * index and generation. It becomes stale when the generation changes. */
#ifndef COLLECT_NCCL_ROWS_H
#define COLLECT_NCCL_ROWS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `generation` is odd while the row is in use. */
struct nccl_row {
    atomic_flag locked;
    _Atomic uint32_t generation;
};

enum nccl_handle_kind { NCCL_HANDLE_COMM = 1, NCCL_HANDLE_OPERATION, NCCL_HANDLE_CHANNEL, NCCL_HANDLE_CALL };

void *nccl_handle_make(enum nccl_handle_kind kind, unsigned channel, size_t row, uint32_t generation);
size_t nccl_handle_row(const void *handle);
uint32_t nccl_handle_generation(const void *handle);
bool nccl_handle_is_valid(const void *handle, enum nccl_handle_kind kind, const struct nccl_row *r);
/* Locks the row if the handle is of this kind and valid. Returns false otherwise, or if the lock stays
 * busy. */
bool nccl_handle_lock(const void *handle, enum nccl_handle_kind kind, struct nccl_row *row_at_handle);

/* Returns false if the lock stays busy. */
bool nccl_row_lock(struct nccl_row *r);
void nccl_row_unlock(struct nccl_row *r);
/* Starts or ends the use of a row. Returns its new generation; earlier handles become stale. */
uint32_t nccl_row_renew(struct nccl_row *r);

static inline bool nccl_row_in_use(const struct nccl_row *r) { return atomic_load(&r->generation) & 1; }

#endif
