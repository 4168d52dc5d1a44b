/* Attention of many queries in blocks of keys. A task computes some tiles of nr queries for heads that
 * share keys and values. Each tile keeps the largest score, the sum of the exponentials and the weighted
 * sum of the values so far. Both sums are rescaled when the largest score grows. So the scratch memory
 * does not grow with the number of keys. */
#include <math.h>
#include <string.h>

#include "engine/cpu/internal.h"

enum { BLOCK_KEYS = 256, STATE_BYTES = 128 << 10, MOST_TILES = 64, TASKS_PER_THREAD = 4 };
/* The largest score of a tile before its first block: below every real score, but finite. */
static const float NO_SCORE = -1e30f;

/* The scratch memory of a thread, in floats. */
struct layout {
    size_t keys, values, scores, tile; /* sizes of a block of keys, of values and of scores, and of a tile */
    size_t q, sums;                    /* sizes of a tile's queries [dim_k][nr] and value sums [dim_v][nr] */
};

struct blocks_job {
    const struct cpu *c;
    const struct attention *a;
    struct layout at;
    int heads;        /* per task: a divisor of the number of heads that share keys */
    int tiles;        /* tiles of queries, per task and head */
    int spans, count; /* spans: groups of `tiles` tiles in all queries; count: number of tasks */
};

/* One tile of a task. */
struct tile {
    float *q, *sums, *max, *total; /* max and total: [nr] */
    int head, q0, lanes;
};

/* One block of keys and values, as floats. */
struct block {
    const float *keys, *values;
    ptrdiff_t v_row;
    int first, n;
};

static size_t rows_of(int n, int to) { return (size_t)((n + to - 1) / to * to); }

static struct layout layout_of(const struct kernels *k, const struct attention *a) {
    size_t nr = (size_t)k->nr;
    struct layout l = { .scores = rows_of(BLOCK_KEYS, k->mr) * nr,
                        .q = (size_t)a->dim_k * nr,
                        .sums = rows_of(a->dim_v, k->mr) * nr };
    if (a->kv != DTYPE_F32) {
        l.keys = (size_t)BLOCK_KEYS * (size_t)a->dim_k;
        l.values = (size_t)BLOCK_KEYS * (size_t)a->dim_v;
    }
    l.tile = l.q + l.sums + 2 * nr;
    return l;
}

/* Chooses the heads and tiles of a task: as many as fit in STATE_BYTES, but few enough that all threads get
 * tasks. */
static void plan_tasks(struct blocks_job *j) {
    const struct attention *a = j->a;
    int nr = j->c->k->nr, all = (a->nq + nr - 1) / nr, group = a->heads / a->kv_heads;
    int wanted = threads_count(j->c->threads) * TASKS_PER_THREAD;
    int most = MIN(MOST_TILES, MAX(1, (int)(STATE_BYTES / sizeof(float) / j->at.tile)));
    j->heads = group;
    while (j->heads > 1 && (j->heads > most || a->heads / j->heads * all < wanted))
        j->heads = j->heads % 2 ? 1 : j->heads / 2;
    j->tiles = MAX(1, most / j->heads);
    while (j->tiles > 1 && a->heads / j->heads * (all / j->tiles) < wanted) j->tiles /= 2;
    j->spans = (all + j->tiles - 1) / j->tiles;
    j->count = a->heads / j->heads * j->spans;
}

static void start_tile(const struct blocks_job *j, struct tile *t, float *memory) {
    const struct attention *a = j->a;
    const struct kernels *k = j->c->k;
    t->q = memory;
    t->sums = t->q + j->at.q;
    t->max = t->sums + j->at.sums;
    t->total = t->max + k->nr;
    k->pack(t->q, view_floats(a->q) + t->head * a->dim_k + t->q0 * a->q_row, a->q_row, t->lanes, a->dim_k);
    for (size_t i = 0; i < j->at.q; i++) t->q[i] *= a->scale;
    memset(t->sums, 0, j->at.sums * sizeof(float));
    for (int l = 0; l < k->nr; l++) {
        t->max[l] = NO_SCORE;
        t->total[l] = 0;
    }
}

/* Sets the scores of masked keys to -inf, so that their exponentials are 0. */
static void mask_block(const struct attention *a, int nr, const struct tile *t, int first, int keys,
                       float *s) {
    int last_of_all = first + keys - 1;
    if (last_of_all <= a->base + t->q0 && (!a->window || first > a->base + t->q0 + nr - 1 - a->window))
        return;
    for (int l = 0; l < nr; l++) {
        int last = a->base + t->q0 + l, from = a->window ? last - a->window + 1 : 0;
        for (int i = keys - 1; i >= 0 && first + i > last; i--) s[i * nr + l] = -INFINITY;
        for (int i = 0; i < keys && first + i < from; i++) s[i * nr + l] = -INFINITY;
    }
}

/* Adds `keys` scores to the state of a tile. s becomes their exponentials. */
static void update_tile(const struct kernels *k, const struct tile *t, float *s, int keys, size_t rows) {
    float factor[64]; /* nr is at most 32 */
    k->softmax_block(s, keys, t->max, t->total, factor);
    k->scale_lanes(t->sums, (int)rows, factor);
}

static void tile_block(const struct blocks_job *j, const struct tile *t, const struct block *b, float *s) {
    const struct attention *a = j->a;
    const struct kernels *k = j->c->k;
    int nr = k->nr, from = 0, n = b->n;
    if (a->base >= 0) n = MIN(n, a->base + t->q0 + t->lanes - b->first);
    if (a->base >= 0 && a->window) from = MAX(0, a->base + t->q0 - a->window + 1 - b->first);
    if (from >= n) return;
    int keys = n - from;
    for (int i = 0; i < keys; i += k->mr)
        k->tile(a->dim_k, b->keys + (ptrdiff_t)(from + i) * a->dim_k, a->dim_k, 1, MIN(k->mr, keys - i), t->q,
                nr, s + (ptrdiff_t)i * nr, nr, false);
    if (a->softcap > 0) k->softcap(s, a->softcap, (size_t)keys * (size_t)nr);
    if (a->base >= 0) mask_block(a, nr, t, b->first + from, keys, s);
    update_tile(k, t, s, keys, (size_t)a->dim_v);
    const float *values = b->values + from * b->v_row;
    for (int d = 0; d < a->dim_v; d += k->mr)
        k->tile(keys, values + d, 1, b->v_row, MIN(k->mr, a->dim_v - d), s, nr, t->sums + (ptrdiff_t)d * nr,
                nr, true);
}

/* Divides the value sums by the sums of the exponentials and writes them to the output. */
static void finish_tile(const struct blocks_job *j, const struct tile *t, float *s) {
    const struct attention *a = j->a;
    const struct kernels *k = j->c->k;
    if (a->sinks) { /* one more score, without a value */
        for (int l = 0; l < k->nr; l++) s[l] = tensor_floats(a->sinks)[t->head];
        update_tile(k, t, s, 1, (size_t)a->dim_v);
    }
    for (int l = 0; l < k->nr; l++) t->total[l] = 1.0f / t->total[l];
    k->scale_lanes(t->sums, a->dim_v, t->total);
    k->unpack(view_floats(a->out) + t->head * a->dim_v + t->q0 * a->out_row, a->out_row, t->sums, t->lanes,
              a->dim_v, NULL, false);
}

/* Returns the keys [first, first + n) and their values, converted to floats in `own` if they have another
 * type. */
static struct block load_block(const struct blocks_job *j, int kv, int first, int n, float *own) {
    const struct attention *a = j->a;
    size_t size = dtype_bytes(a->kv);
    ptrdiff_t v_row = a->v_row ? a->v_row : a->dim_v;
    const char *keys =
        cache_bytes(a->k, a->kv) + (size_t)(kv * a->k_head + (ptrdiff_t)first * a->dim_k) * size;
    const char *values = cache_bytes(a->v, a->kv) + (size_t)(kv * a->v_head + first * v_row) * size;
    if (a->kv == DTYPE_F32)
        return (struct block){ (const float *)(const void *)keys, (const float *)(const void *)values, v_row,
                               first, n };
    j->c->k->widen(own, keys, a->kv, (size_t)n * (size_t)a->dim_k);
    float *wide = own + j->at.keys;
    for (int i = 0; i < (v_row == a->dim_v ? 1 : n); i++)
        j->c->k->widen(wide + (ptrdiff_t)i * a->dim_v, values + (size_t)(i * v_row) * size, a->kv,
                       (size_t)(v_row == a->dim_v ? n : 1) * (size_t)a->dim_v);
    return (struct block){ own, wide, a->dim_v, first, n };
}

/* Late spans have the most keys if attention is causal. They come first, so that no thread is left with a
 * long task at the end. */
static void blocks_task(void *job, int task, int worker) {
    const struct blocks_job *j = job;
    const struct attention *a = j->a;
    int nr = j->c->k->nr, groups = a->heads / j->heads, span = j->spans - 1 - task / groups;
    int head = task % groups * j->heads, kv = head / (a->heads / a->kv_heads), n = 0;
    int q0 = span * j->tiles * nr, q1 = MIN(a->nq, q0 + j->tiles * nr), k0 = 0, k1 = a->nk;
    struct tile tiles[MOST_TILES];
    float *own = cpu_own(j->c, worker), *scores = own + j->at.keys + j->at.values;
    float *memory = scores + j->at.scores;
    for (int h = 0; h < j->heads; h++)
        for (int q = q0; q < q1; q += nr, n++, memory += j->at.tile) {
            tiles[n] = (struct tile){ .head = head + h, .q0 = q, .lanes = MIN(nr, a->nq - q) };
            start_tile(j, &tiles[n], memory);
        }
    if (a->base >= 0) k1 = MIN(k1, a->base + q1);
    if (a->base >= 0 && a->window) k0 = MAX(0, a->base + q0 - a->window + 1);
    for (int first = k0; first < k1; first += BLOCK_KEYS) {
        struct block b = load_block(j, kv, first, MIN(BLOCK_KEYS, k1 - first), own);
        for (int i = 0; i < n; i++) tile_block(j, &tiles[i], &b, scores);
    }
    for (int i = 0; i < n; i++) finish_tile(j, &tiles[i], scores);
}

void cpu_attend_blocks(struct cpu *c, const struct attention *a) {
    struct blocks_job j = { .c = c, .a = a, .at = layout_of(c->k, a) };
    plan_tasks(&j);
    cpu_reserve_own(c, j.at.keys + j.at.values + j.at.scores + j.at.tile * (size_t)j.heads * (size_t)j.tiles);
    threads_run(c->threads, blocks_task, &j, j.count);
}
