/* Launches the products of skinny.cu. */
#include "engine/cuda/skinny.h"

#include <stdio.h>

#include "base/embed.h"
#include "engine/cuda/fp8.h"

/* With 112 kB, two blocks fit into a multiprocessor, and the next product starts earlier, but a step of 32
 * sequences of Qwen3-8B takes 8% longer; with 220 kB, 1%. */
enum { ROW_BYTES = SKINNY_STEP * 2, RING_BYTES = 168 << 10 };
enum { MOST_STAGES = 24, BARRIER_BYTES = 16 }; /* BARRIER_BYTES: the two of a stage */

static int stage_bytes(const struct skinny_plan *p, struct skinny_step step) {
    return (p->tiles * SKINNY_TILE + step.x_tiles * step.wide) * ROW_BYTES;
}

/* The bytes that the busiest multiprocessor copies, and its share of the sums that the next kernel reads. */
static double cost_of(const struct skinny_plan *p, int all_tiles, int steps, struct skinny_step step,
                      int sms) {
    int rounds = (p->tasks + sms - 1) / sms, longest = (steps + p->slices - 1) / p->slices;
    double sums = 2.0 * p->slices * all_tiles * SKINNY_TILE * step.wide * 4 / sms;
    return (double)rounds * longest * stage_bytes(p, step) + sums;
}

struct skinny_plan skinny_plan_of(int all_tiles, int steps, struct skinny_step step, int most_slices,
                                  int sms) {
    struct skinny_plan best = { 0 };
    double least = 0;
    for (int slices = 1; slices <= MIN(most_slices, steps); slices++)
        for (int tiles = SKINNY_MOST_TILES; tiles >= 1; tiles--) {
            struct skinny_plan p = { tiles, slices, (all_tiles + tiles - 1) / tiles * slices };
            double cost = cost_of(&p, all_tiles, steps, step, sms);
            if (best.tiles && cost >= least) continue;
            best = p;
            least = cost;
        }
    return best;
}

int skinny_stages(const struct skinny_plan *p, struct skinny_step step, int ring_bytes,
                  unsigned *shared_bytes) {
    int bytes = stage_bytes(p, step), stages = MIN(ring_bytes / bytes, MOST_STAGES);
    *shared_bytes = (unsigned)(stages * (bytes + BARRIER_BYTES));
    return stages;
}

bool cuda_skinny_load(struct cuda *c) {
    static const struct {
        enum module_id module;
        const char *path;
    } late[] = { { MODULE_skinny, "cuda/skinny.fatbin" },
                 { MODULE_decode_attention_parts, "cuda/decode_attention_parts.fatbin" } };
    for (size_t i = 0; i < COUNTOF(late); i++) {
        cu_module *m = &c->modules[late[i].module];
        if (*m) continue;
        if (!cuda_ok(c, c->d->module_load(m, embed_find(late[i].path)->data), "loading the kernels"))
            return false;
        cuda_stamps_loaded(c);
    }
    return true;
}

/* ---- descriptors of matrices. A row of a tile has ROW_BYTES. */
static void map_tiles(struct cuda *c, struct tensor_map *map, enum dtype type, unsigned dimensions,
                      cu_ptr data, const uint64_t *sizes, const uint64_t *strides, const uint32_t *box) {
    static const uint32_t steps[] = { 1, 1, 1, 1 };
    if (!c->failed)
        cuda_ok(c,
                c->d->tensor_map(map, type == DTYPE_BF16 ? CU_MAP_BF16 : CU_MAP_U8, dimensions,
                                 (void *)(uintptr_t)data, sizes, strides, box, steps, 0, CU_MAP_SWIZZLE_128,
                                 CU_MAP_PROMOTE_128, 0),
                "describing a matrix");
}

static void map_rows(struct cuda *c, struct tensor_map *map, enum dtype type, const void *data, int rows,
                     int columns, int box_rows) {
    uint64_t bytes = dtype_bytes(type);
    const uint64_t sizes[] = { (uint64_t)columns, (uint64_t)rows }, strides[] = { (uint64_t)columns * bytes };
    const uint32_t box[] = { (uint32_t)(ROW_BYTES / bytes), (uint32_t)box_rows };
    map_tiles(c, map, type, 2, (cu_ptr)(uintptr_t)data, sizes, strides, box);
}

/* A map of both matrices: groups of eight rows of each alternate. Its dimensions: column, row of a group,
 * matrix, group. Returns true if the second matrix comes first, because the distance cannot be negative. */
static bool map_pairs(struct cuda *c, struct tensor_map *map, const struct linear *const *l) {
    enum dtype type = l[0]->w.type;
    cu_ptr first = l[0]->w.data->data, second = l[1]->w.data->data, low = MIN(first, second);
    uint64_t columns = (uint64_t)l[0]->w.cols, row = columns * dtype_bytes(type);
    const uint64_t sizes[] = { columns, 8, 2, (uint64_t)l[0]->w.rows / 8 },
                   strides[] = { row, MAX(first, second) - low, row * 8 };
    const uint32_t box[] = { (uint32_t)(ROW_BYTES / dtype_bytes(type)), 8, 2, SKINNY_TILE / 16 };
    map_tiles(c, map, type, 4, low, sizes, strides, box);
    return second < first;
}

static void describe_matrices(struct cuda *c, const struct skinny *s, struct skinny_args *a) {
    for (int i = 0; i < s->n; i++) {
        const struct linear *l = s->l[i];
        a->bias[i] = pointer_of(l->bias);
        a->rows[i] = l->w.rows;
        a->scale[i] = cuda_scales(&l->w);
        a->first_row[i] = a->all_rows;
        a->first_tile[i] = a->tiles;
        a->all_rows += l->w.rows;
        if (a->paired) continue;
        a->tiles += (l->w.rows + SKINNY_TILE - 1) / SKINNY_TILE;
        map_rows(c, &a->w[i], l->w.type, pointer_of(l->w.data), l->w.rows, l->w.cols, SKINNY_TILE);
    }
    if (!a->paired) return;
    a->swapped = map_pairs(c, &a->w[0], s->l);
    a->tiles = (a->rows[0] + SKINNY_TILE / 2 - 1) / (SKINNY_TILE / 2);
}

int cuda_skinny(struct cuda *c, const struct skinny *s) {
    bool fp8 = s->l[0]->w.type == DTYPE_F8_E4M3;
    struct skinny_step step = { s->batch <= 8 ? 8 : s->batch <= 16 ? 16 : BATCH_MOST, fp8 ? 2 : 1 };
    int columns = s->l[0]->w.cols, step_columns = SKINNY_STEP * step.x_tiles;
    struct skinny_args a = { .matrices = s->narrow ? 1 : s->n,
                             .batch = s->batch,
                             .steps = (columns + step_columns - 1) / step_columns,
                             .y = s->y,
                             .paired = s->narrow != NULL,
                             .narrow = s->narrow };
    char name[32];
    unsigned shared_bytes;
    map_rows(c, &a.x, DTYPE_BF16, s->x, s->batch, columns, step.wide);
    describe_matrices(c, s, &a);
    a.slice_stride = (long)s->batch * a.all_rows;
    struct skinny_plan p = skinny_plan_of(a.tiles, a.steps, step, s->narrow ? 1 : s->parts, c->sms);
    a.slices = p.slices;
    a.tasks = p.tasks;
    a.stages = skinny_stages(&p, step, s->ring_bytes ? s->ring_bytes : RING_BYTES, &shared_bytes);
    snprintf(name, sizeof name, "skinny%s_%d_%d", fp8 ? "_fp8" : "", step.wide, p.tiles);
    cuda_launch_named(
        c, MODULE_skinny, name,
        GRID((size_t)MIN(p.tasks, c->sms), .threads = SKINNY_THREADS, .shared_bytes = shared_bytes), 1, &a);
    return p.slices;
}
