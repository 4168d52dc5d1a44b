/* Multiplies bf16 tiles with AMX; part of bf16_impl.h. C is 32 features x 32 tokens in four tiles of 16 x
 * 16 sums. One step multiplies 16 words, or 32 numbers, of each row. Tiles 0 to 3 hold C, tiles 4 and 5
 * hold A, tiles 6 and 7 hold B. */
#include "base/amx.h"

enum { AMX_ROWS = 2 * AMX_SIDE };

static _Thread_local bool amx_ready;

static void amx_begin(void) {
    if (amx_ready) return;
    amx_configure();
    amx_ready = true;
}

static void amx_end(void) {
    if (amx_ready) _tile_release();
    amx_ready = false;
}

/* Multiplies one step. Distances between rows are in words. */
static inline __attribute__((always_inline)) void amx_step(const uint32_t *a, ptrdiff_t a_row,
                                                           const uint32_t *b, ptrdiff_t ldb) {
    _tile_loadd(6, b, ldb * 4);
    _tile_loadd(7, b + AMX_SIDE, ldb * 4);
    _tile_loadd(4, a, a_row * 4);
    _tile_loadd(5, a + AMX_SIDE * a_row, a_row * 4);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
}

/* Multiplies the last k words, k < 16. The rest of the step is filled with zeros. */
static void amx_last_step(int k, const uint32_t *a, ptrdiff_t a_row, const uint32_t *b, ptrdiff_t ldb) {
    uint32_t a_rest[AMX_ROWS * AMX_SIDE] = { 0 }, b_rest[AMX_SIDE * 2 * AMX_SIDE] = { 0 };
    for (int i = 0; i < AMX_ROWS; i++) memcpy(a_rest + i * AMX_SIDE, a + i * a_row, (size_t)k * 4);
    for (int j = 0; j < k; j++)
        memcpy(b_rest + j * 2 * AMX_SIDE, b + j * ldb, sizeof(uint32_t) * 2 * AMX_SIDE);
    amx_memory();
    amx_step(a_rest, AMX_SIDE, b_rest, 2 * AMX_SIDE);
    amx_memory();
}

static void k_tile_bf16(int k, const uint32_t *a, ptrdiff_t a_row, int rows, const uint32_t *b, ptrdiff_t ldb,
                        float *c, ptrdiff_t ldc, bool add) {
    (void)rows;
    amx_begin();
    amx_memory();
    if (add) {
        _tile_loadd(0, c, ldc * 4);
        _tile_loadd(1, c + AMX_SIDE, ldc * 4);
        _tile_loadd(2, c + AMX_SIDE * ldc, ldc * 4);
        _tile_loadd(3, c + AMX_SIDE * ldc + AMX_SIDE, ldc * 4);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    int j = 0;
    for (; j + AMX_SIDE <= k; j += AMX_SIDE) amx_step(a + j, a_row, b + j * ldb, ldb);
    if (j < k) amx_last_step(k - j, a + j, a_row, b + j * ldb, ldb);
    _tile_stored(0, c, ldc * 4);
    _tile_stored(1, c + AMX_SIDE, ldc * 4);
    _tile_stored(2, c + AMX_SIDE * ldc, ldc * 4);
    _tile_stored(3, c + AMX_SIDE * ldc + AMX_SIDE, ldc * 4);
    amx_memory();
}
