/* The order of weights and the division of work of the persistent CUDA kernel (persistent_layout.h). */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "engine/cuda/persistent_layout.h"
#include "unit/test.h"

enum { VOCAB = 129280 };

/* Multiplies as mma.m16n8k16 does: lane l holds four pairs of a, two pairs of b and four sums d
 * (PTX ISA, matrix fragments of 16-bit types). */
static void multiply(const float a[32][4][2], const float b[32][2][2], float d[32][4]) {
    float rows[16][16], columns[16][8];
    for (int l = 0; l < 32; l++)
        for (int e = 0; e < 2; e++) {
            int g = l / 4, t = l % 4;
            for (int r = 0; r < 4; r++) rows[g + r % 2 * 8][t * 2 + e + r / 2 * 8] = a[l][r][e];
            for (int r = 0; r < 2; r++) columns[t * 2 + e + r * 8][g] = b[l][r][e];
        }
    for (int l = 0; l < 32; l++)
        for (int r = 0; r < 4; r++)
            for (int k = 0; k < 16; k++)
                d[l][r] += rows[l / 4 + r / 2 * 8][k] * columns[k][l % 4 * 2 + r % 2];
}

TEST(persistent_block_times_vector) {
    float stored[256], w[16][16], x[16], a[32][4][2], b[32][2][2] = { 0 }, d[32][4] = { { 0 } };
    float vector[2 * 8 * 2]; /* both parts: 8 lanes, 2 words, 2 numbers */
    for (int r = 0; r < 16; r++)
        for (int k = 0; k < 16; k++)
            stored[persistent_place(r, k)] = w[r][k] = (float)((r * 7 + k * 3) % 11 - 5);
    for (int k = 0; k < 16; k++) {
        x[k] = (float)(k % 5 - 2);
        vector[persistent_vector_place(k, 0)] = x[k];
        vector[persistent_vector_place(k, 1)] = x[k] * 0.5f;
    }
    memcpy(a, stored, sizeof a);
    memcpy(b, vector, sizeof vector); /* lanes 8 to 31: zeros */
    multiply((const float(*)[4][2])a, (const float(*)[2][2])b, d);
    for (int r = 0; r < 16; r++) {
        float sum = 0;
        for (int k = 0; k < 16; k++) sum += w[r][k] * x[k];
        const float *lane = d[r % 8 * 4];
        CHECK_NEAR(lane[r / 8 * 2], sum, 1e-5);
        CHECK_NEAR(lane[r / 8 * 2 + 1], sum * 0.5f, 1e-5);
    }
}

static void count(int *times, struct persistent_range r, int from) {
    for (int i = r.first; i < r.end; i++) times[from + i]++;
}
static bool all_once(const int *times, int n) {
    for (int i = 0; i < n; i++)
        if (times[i] != 1) return false;
    return true;
}

/* Every tile belongs to exactly one block, and no block has more than its memory has room for. */
static void check_shares(int blocks) {
    enum {
        QKV = P_HEADS * P_HEAD_TILES,
        OUT = P_HEADS * P_OUT_TILES,
        UP = P_SLOTS * P_UP_TILES,
        DOWN = P_SLOTS * P_OUT_TILES,
        HEAD = VOCAB / 16
    };
    int *times = xcalloc(QKV + OUT + UP + DOWN + HEAD, sizeof *times);
    int *out = times + QKV, *up = out + OUT, *down = up + UP, *head = down + DOWN, least = UP, most = 0;
    for (int i = 0; i < blocks; i++) {
        struct persistent_share s = persistent_share_of(i, blocks, VOCAB);
        if (s.head >= 0) {
            count(times, s.qkv, s.head * P_HEAD_TILES);
            count(out, s.out, s.head * P_OUT_TILES);
        }
        count(up, s.chosen, 0);
        count(up, s.shared, P_CHOSEN * P_UP_TILES);
        count(down, s.down, 0);
        count(head, s.vocab, 0);
        int tiles = s.chosen.end - s.chosen.first + s.shared.end - s.shared.first;
        least = MIN(least, tiles);
        most = MAX(most, tiles);
        CHECK(s.chosen.first <= s.chosen.end);
        CHECK(tiles * P_TILE_UNITS <= P_ROUND_UNITS);
        CHECK((s.down.end - s.down.first) * P_TILE_UNITS <= P_ROUND_UNITS);
        CHECK(s.out.end - s.out.first <= 8); /* the router's part fits into a slot */
        CHECK((s.down.end - 1) / P_OUT_TILES - s.down.first / P_OUT_TILES <= 1);
    }
    CHECK(most - least <= 1);
    CHECK(all_once(times, QKV));
    CHECK(all_once(out, OUT));
    CHECK(all_once(up, UP));
    CHECK(all_once(down, DOWN));
    CHECK(all_once(head, HEAD));
    free(times);
}

TEST(persistent_shares) {
    check_shares(132); /* H100 SXM, H200 */
    check_shares(114); /* H100 PCIe */
    check_shares(100);
}

TEST(persistent_units_fit_a_slot) {
    CHECK(P_DOWN_UNIT_STEPS * P_TILE_UNITS == P_DOWN_STEPS);
    CHECK(P_UNIT_STEPS * P_TILE_UNITS == P_STEPS);
    CHECK(2 * P_OUT_STEPS * P_BLOCK_BYTES <= P_SLOT_BYTES);
    CHECK(P_DOWN_UNIT_STEPS * P_BLOCK_BYTES <= P_SLOT_BYTES);
    /* a slot always has the same consumer and the same producer */
    CHECK(P_RING % P_CONSUMERS == 0 && P_RING % P_PRODUCERS == 0);
    CHECK(P_SLOTS * P_INNER >= P_DENSE);
}
