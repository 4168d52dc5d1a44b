#include "engine/cuda/skinny.h"
#include "engine/cuda/cublaslt.h"

#include <stdio.h>
#include <stdlib.h>

enum { RING_BYTES = 112 << 10, MOST_STAGES = 24 }; /* two blocks fit into a multiprocessor */

bool cuda_skinny_fits(const struct linear *l) {
    return l->w.type == DTYPE_BF16 && l->w.rows % 16 == 0 && l->w.cols % 8 == 0;
}

/* The bytes that the busiest multiprocessor copies, and its share of the sums that the next kernel reads. */
static double cost_of(const struct skinny_plan *p, int all_tiles, int steps, int batch, int sms) {
    int rounds = (p->tasks + sms - 1) / sms, longest = (steps + p->slices - 1) / p->slices;
    double sums = 2.0 * p->slices * all_tiles * SKINNY_TILE * batch * 4 / sms;
    return (double)rounds * longest * (p->tiles * SKINNY_TILE + batch) * 128 + sums;
}

struct skinny_plan skinny_plan_of(int all_tiles, int steps, int batch, int most_slices, int sms) {
    struct skinny_plan best = { 0 };
    double least = 0;
    for (int slices = 1; slices <= MIN(most_slices, steps); slices++)
        for (int tiles = SKINNY_MOST_TILES; tiles >= 1; tiles--) {
            struct skinny_plan p = { tiles, slices, (all_tiles + tiles - 1) / tiles * slices };
            double cost = cost_of(&p, all_tiles, steps, batch, sms);
            if (best.tiles && cost >= least) continue;
            best = p;
            least = cost;
        }
    return best;
}

/* A map of both matrices: groups of eight rows of each alternate. Its dimensions: column, row of a group,
 * matrix, group. Returns true if the second matrix comes first, because the distance cannot be negative. */
static bool map_pairs(struct cuda *c, struct tensor_map *map, const struct linear *const *l) {
    cu_ptr first = l[0]->w.data->data, second = l[1]->w.data->data, low = MIN(first, second);
    uint64_t columns = (uint64_t)l[0]->w.cols, row = columns * 2;
    const uint64_t sizes[] = { columns, 8, 2, (uint64_t)l[0]->w.rows / 8 },
                   strides[] = { row, MAX(first, second) - low, row * 8 };
    const uint32_t box[] = { 64, 8, 2, SKINNY_TILE / 16 }, steps[] = { 1, 1, 1, 1 };
    if (!c->failed)
        cuda_ok(c,
                c->d->tensor_map(map, CU_MAP_BF16, 4, (void *)(uintptr_t)low, sizes, strides, box, steps, 0,
                                 CU_MAP_SWIZZLE_128, CU_MAP_PROMOTE_128, 0),
                "describing a matrix");
    return second < first;
}

static void map_rows(struct cuda *c, struct tensor_map *map, const void *data, int rows, int columns,
                     int box_rows) {
    const uint64_t sizes[] = { (uint64_t)columns, (uint64_t)rows }, strides[] = { (uint64_t)columns * 2 };
    const uint32_t box[] = { 64, (uint32_t)box_rows }, steps[] = { 1, 1 };
    if (!c->failed)
        cuda_ok(c,
                c->d->tensor_map(map, CU_MAP_BF16, 2, (void *)(uintptr_t)data, sizes, strides, box, steps, 0,
                                 CU_MAP_SWIZZLE_128, CU_MAP_PROMOTE_128, 0),
                "describing a matrix");
}

static int number_from(const char *name, int usual) {
    const char *text = getenv(name);
    return text ? atoi(text) : usual;
}

static bool by_library(struct cuda *c, const struct skinny *s) {
    int all = 0, first = 0;
    if (!c->lt || !getenv("INFERPROF_CUDA_BATCH")) return false;
    for (int i = 0; i < s->n; i++) all += s->l[i]->w.rows;
    void *up = s->narrow ? cuda_scratch(c, SCRATCH_UP, (size_t)s->batch * (size_t)all * 2) : NULL;
    for (int i = 0; i < s->n; first += s->l[i++]->w.rows) {
        struct gemm_out out = { .bias = pointer_of(s->l[i]->bias),
                                .y = s->narrow ? i ? up : s->narrow : (void *)(s->y + first),
                                .ldy = s->narrow ? s->l[i]->w.rows : all,
                                .n = s->l[i]->w.rows,
                                .type = s->narrow ? DTYPE_BF16 : DTYPE_F32 };
        if (!cublaslt_run(c, DTYPE_BF16, s->x, pointer_of(s->l[i]->w.data), &out, s->batch, s->l[i]->w.cols))
            fprintf(stderr, "no library product\n");
    }
    size_t n = (size_t)s->batch * (size_t)s->l[0]->w.rows;
    void *gate = s->narrow;
    if (s->narrow)
        LAUNCH(c, silu_mul_bf16, GRID((n / 8 + CUDA_THREADS - 1) / CUDA_THREADS, .threads = CUDA_THREADS), &gate, &up,
               &n);
    return true;
}

int cuda_skinny(struct cuda *c, const struct skinny *s) {
    if (by_library(c, s)) return 1;
    int columns = s->l[0]->w.cols, wide = s->batch <= 8 ? 8 : s->batch <= 16 ? 16 : BATCH_MOST;
    struct skinny_args a = { .matrices = s->narrow ? 1 : s->n,
                             .batch = s->batch,
                             .steps = (columns + 63) / 64,
                             .y = s->y,
                             .paired = s->narrow != NULL,
                             .narrow = s->narrow };
    char name[32];
    map_rows(c, &a.x, s->x, s->batch, columns, wide);
    for (int i = 0; i < s->n; i++) {
        const struct linear *l = s->l[i];
        a.bias[i] = pointer_of(l->bias);
        a.rows[i] = l->w.rows;
        a.first_row[i] = a.all_rows;
        a.first_tile[i] = a.tiles;
        a.all_rows += l->w.rows;
        if (s->narrow) continue;
        a.tiles += (l->w.rows + SKINNY_TILE - 1) / SKINNY_TILE;
        map_rows(c, &a.w[i], pointer_of(l->w.data), l->w.rows, columns, SKINNY_TILE);
    }
    if (s->narrow) {
        a.swapped = map_pairs(c, &a.w[0], s->l);
        a.tiles = (a.rows[0] + SKINNY_TILE / 2 - 1) / (SKINNY_TILE / 2);
    }
    a.slice_stride = (long)s->batch * a.all_rows;
    struct skinny_plan p = skinny_plan_of(a.tiles, a.steps, wide,
                                          s->narrow ? 1 : MIN(s->parts, number_from("INFERPROF_CUDA_PARTS", 4)),
                                          c->sms);
    int stage_bytes = p.tiles * SKINNY_TILE * 128 + wide * 128;
    a.slices = p.slices;
    a.tasks = p.tasks;
    a.stages = MIN(number_from("INFERPROF_CUDA_RING", RING_BYTES >> 10) * 1024 / stage_bytes, MOST_STAGES);
    snprintf(name, sizeof name, "skinny_%d_%d", wide, p.tiles);
    cuda_launch_named(c, MODULE_skinny, name,
                      GRID((size_t)MIN(p.tasks, c->sms), .threads = SKINNY_THREADS,
                           .shared_bytes = (unsigned)(a.stages * (stage_bytes + 16))),
                      1, &a);
    return p.slices;
}
