/* How products of few rows are divided among blocks (skinny.c, skinny_layout.h). */
#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"
#include "engine/cuda/skinny.h"
#include "unit/test.h"

enum { SMS = 132, SHARED_MOST = 227 << 10, USUAL_RING = 112 << 10 };

/* Returns true if the tasks of the plan have each step of each tile once, and each slice has a step. */
static bool covers_once(const struct skinny_plan *p, int all_tiles, int steps) {
    int *times = xcalloc((size_t)all_tiles * (size_t)steps, sizeof *times);
    bool good = p->tiles >= 1 && p->tiles <= SKINNY_MOST_TILES && p->slices >= 1 && p->slices <= PARTS_MOST;
    for (int t = 0; good && t < p->tasks; t++) {
        struct skinny_task v = skinny_task_of(t, p->tiles, all_tiles, p->slices, steps);
        good = v.tiles >= 1 && v.tiles <= p->tiles && v.slice >= 0 && v.slice < p->slices && v.step < v.end &&
               v.step >= 0 && v.end <= steps && v.first_tile >= 0 && v.first_tile + v.tiles <= all_tiles;
        for (int i = 0; good && i < v.tiles; i++)
            for (int s = v.step; s < v.end; s++) times[(v.first_tile + i) * steps + s]++;
    }
    for (int i = 0; good && i < all_tiles * steps; i++) good = times[i] == 1;
    free(times);
    return good;
}

TEST(skinny_plans_cover_each_step_of_each_tile_once) {
    static const int wides[] = { 8, 16, 32 }, sms[] = { 1, 78, SMS };
    int bad = 0;
    for (int tiles = 1; tiles <= 400; tiles += tiles < 20 ? 1 : 37)
        for (int steps = 1; steps <= 192; steps += steps < 9 ? 1 : 31)
            for (size_t w = 0; w < COUNTOF(wides); w++)
                for (size_t s = 0; s < COUNTOF(sms); s++)
                    for (int most = 1; most <= PARTS_MOST; most++) {
                        struct skinny_step step = { wides[w], 1 + most % 2 };
                        struct skinny_plan p = skinny_plan_of(tiles, steps, step, most, sms[s]);
                        bad += p.slices > most || !covers_once(&p, tiles, steps);
                    }
    CHECK_INT(bad, 0);
}

/* A missing task, a task too many and slices that are longer than the columns must be noticed. */
TEST(skinny_plan_with_an_error_does_not_cover) {
    struct skinny_plan good = { 2, 3, 15 }, fewer = { 2, 3, 14 }, more = { 2, 3, 16 }, slices = { 2, 4, 20 };
    CHECK(covers_once(&good, 10, 8));
    CHECK(!covers_once(&fewer, 10, 8));
    CHECK(!covers_once(&more, 10, 8));
    CHECK(!covers_once(&slices, 10, 3));
}

TEST(skinny_plans_of_qwen3_8b_use_nearly_all_multiprocessors) {
    /* rows of qkv, out, gate and up, down in tiles; columns in steps; slices that the next kernel adds */
    static const struct {
        int rows, columns, most;
    } products[] = { { 6144, 4096, 4 }, { 4096, 4096, 4 }, { 2 * 12288, 4096, 1 }, { 4096, 12288, 4 } };
    for (size_t i = 0; i < COUNTOF(products); i++) {
        int tiles = products[i].rows / SKINNY_TILE, steps = products[i].columns / SKINNY_STEP;
        struct skinny_step step = { BATCH_MOST, 1 };
        struct skinny_plan p = skinny_plan_of(tiles, steps, step, products[i].most, SMS);
        int rounds = (p.tasks + SMS - 1) / SMS;
        CHECK(rounds * SMS - p.tasks <= SMS / 10);
    }
}

TEST(skinny_rings_fit_into_shared_memory) {
    static const int wides[] = { 8, 16, 32 };
    for (int tiles = 1; tiles <= SKINNY_MOST_TILES; tiles++)
        for (size_t w = 0; w < COUNTOF(wides); w++)
            for (int x_tiles = 1; x_tiles <= 2; x_tiles++) {
                struct skinny_plan p = { tiles, 1, 1 };
                struct skinny_step step = { wides[w], x_tiles };
                unsigned bytes = 0;
                int stages = skinny_stages(&p, step, USUAL_RING, &bytes);
                CHECK(stages >= 3);
                CHECK_INT((tiles * SKINNY_TILE + x_tiles * wides[w]) * SKINNY_STEP * 2 % 1024,
                          0);                           /* TMA's order needs this */
                CHECK(2 * (bytes + 1024) <= 228 << 10); /* two blocks, and 1 kB of the system for each */
                stages = skinny_stages(&p, step, 220 << 10, &bytes);
                CHECK(stages >= 3 && bytes <= SHARED_MOST);
            }
}
