/* The tile registers of AMX: eight tiles of 16 rows of 64 bytes. cpu_has_amx() must be true. */
#ifndef BASE_AMX_H
#define BASE_AMX_H

#include <stdint.h>

enum { AMX_SIDE = 16 };

/* For the calling thread, until _tile_release(). */
static inline void amx_configure(void) {
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } c = { .palette = 1 };
    for (int i = 0; i < 8; i++) {
        c.row_bytes[i] = AMX_SIDE * 4;
        c.rows[i] = AMX_SIDE;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(c));
}

/* Compiler barrier. Some compilers assume that tile instructions do not access memory. */
static inline void amx_memory(void) { __asm__ volatile("" ::: "memory"); }

#endif
