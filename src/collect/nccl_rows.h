/* Rows of the tables of the NCCL plugin, and the handles that NCCL keeps for them. A row is locked while a
 * thread changes it. A handle names a row and its generation; a handle of an earlier generation is stale. */
#ifndef COLLECT_NCCL_ROWS_H
#define COLLECT_NCCL_ROWS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A row that only one thread changes at a time. The generation is odd while the row is in use. */
struct nccl_row {
    atomic_flag locked;
    _Atomic uint32_t generation;
};

enum nccl_handle_kind { NCCL_HANDLE_COMM = 1, NCCL_HANDLE_OPERATION, NCCL_HANDLE_CHANNEL, NCCL_HANDLE_CALL };

void *nccl_handle_make(enum nccl_handle_kind kind, unsigned channel, size_t row, uint32_t generation);
size_t nccl_handle_row(const void *handle);
uint32_t nccl_handle_generation(const void *handle);
bool nccl_handle_is_valid(const void *handle, enum nccl_handle_kind kind, const struct nccl_row *r);
/* Locks the row of a handle if the handle is of this kind and still valid. */
bool nccl_handle_lock(const void *handle, enum nccl_handle_kind kind, struct nccl_row *row_at_handle);

/* Returns false if another thread holds the lock for too long. */
bool nccl_row_lock(struct nccl_row *r);
void nccl_row_unlock(struct nccl_row *r);
/* Starts or ends the use of a row and returns its new generation. Earlier handles of the row become stale. */
uint32_t nccl_row_renew(struct nccl_row *r);

static inline bool nccl_row_in_use(const struct nccl_row *r) { return atomic_load(&r->generation) & 1; }

#endif
