/* Operators that move rows. */
#include <string.h>

#include "base/util.h"
#include "engine/cpu/internal.h"

void cpu_copy_rows(void *context, struct view to, ptrdiff_t ldt, struct view from, ptrdiff_t ldf, int rows,
                   size_t n) {
    (void)context;
    for (int i = 0; i < rows; i++)
        memcpy(view_floats(to) + i * ldt, view_floats(from) + i * ldf, n * sizeof(float));
}

void cpu_gather_rows(void *context, struct view to, struct view from, const int *index, int n, size_t width) {
    (void)context;
    for (int i = 0; i < n; i++)
        memcpy(view_floats(to) + (size_t)i * width, view_floats(from) + (size_t)index[i] * width,
               width * sizeof(float));
}

void cpu_scatter_add(void *context, struct view to, struct view from, const int *index, const float *weights,
                     int n, size_t width) {
    const struct cpu *c = context;
    for (int i = 0; i < n; i++)
        c->k->axpy(view_floats(to) + (size_t)index[i] * width, weights[i],
                   view_floats(from) + (size_t)i * width, width);
}

/* ---- the cache of keys and values */
struct cache_job {
    const struct cpu *c;
    const struct cache_rows *rows;
    struct parts parts;
    bool load;
};

static void store_row(const struct kernels *k, char *to, enum dtype type, const float *from, size_t n) {
    if (type == DTYPE_F32)
        memcpy(to, from, n * sizeof(float));
    else
        k->narrow((uint16_t *)(void *)to, from, n);
}

static void load_row(const struct kernels *k, float *to, enum dtype type, const char *from, size_t n) {
    if (type == DTYPE_F32)
        memcpy(to, from, n * sizeof(float));
    else
        k->widen(to, from, type, n);
}

static void cache_task(void *job, int task, int worker) {
    const struct cache_job *j = job;
    const struct cache_rows *c = j->rows;
    (void)worker;
    size_t heads = (size_t)c->heads, dim = (size_t)c->dim, bytes = dim * dtype_bytes(c->type);
    char *cache = cache_bytes(c->cache, c->type) + (size_t)c->position * bytes;
    float *rows = view_floats(c->rows);
    for (size_t i = parts_start(&j->parts, task); i < parts_end(&j->parts, task); i++)
        for (size_t h = 0; h < heads; h++) {
            char *kept = cache + (h * (size_t)c->max_context + i) * bytes;
            float *row = rows + (i * heads + h) * dim;
            if (j->load)
                load_row(j->c->k, row, c->type, kept, dim);
            else
                store_row(j->c->k, kept, c->type, row, dim);
        }
}

static void run_cache(const struct cpu *cpu, const struct cache_rows *c, bool load) {
    struct cache_job j = { cpu, c, parts_of(cpu, (size_t)c->n, 16), load };
    threads_run(cpu->threads, cache_task, &j, parts_tasks(&j.parts));
}

void cpu_cache_store(void *context, const struct cache_rows *c) { run_cache(context, c, false); }
void cpu_cache_load(void *context, const struct cache_rows *c) { run_cache(context, c, true); }

/* ---- windows */
struct window_job {
    const struct windows *s;
    float *grid, *rows;
    bool merge;
};

/* Processes one window: copies its rows from the grid, or adds them to the grid. Copied rows outside of
 * the grid are zeros. */
static void window_task(void *job, int task, int worker) {
    const struct window_job *j = job;
    (void)worker;
    int m = j->s->window, across = j->s->padded / m, g = j->s->grid;
    size_t width = (size_t)j->s->width;
    int view = task / (across * across), window = task % (across * across);
    for (int i = 0; i < m * m; i++) {
        int y = window / across * m + i / m, x = window % across * m + i % m;
        float *row = j->rows + ((size_t)task * (size_t)(m * m) + (size_t)i) * width;
        size_t at = (((size_t)view * (size_t)g + (size_t)y) * (size_t)g + (size_t)x) * width;
        bool inside = y < g && x < g;
        if (j->merge) {
            for (size_t c = 0; inside && c < width; c++) j->grid[at + c] += row[c];
        } else if (inside) {
            memcpy(row, j->grid + at, width * sizeof(float));
        } else {
            memset(row, 0, width * sizeof(float));
        }
    }
}

static const char *run_windows(struct cpu *c, const struct windows *s, struct view grid, struct view rows,
                               bool merge) {
    struct window_job j = { s, view_floats(grid), view_floats(rows), merge };
    int across = s->padded / s->window;
    threads_run(c->threads, window_task, &j, MAX(s->views, 1) * across * across);
    return "window_copy";
}

const char *cpu_window_partition(void *context, const struct windows *s, struct view grid, struct view rows) {
    return run_windows(context, s, grid, rows, false);
}

const char *cpu_window_merge(void *context, const struct windows *s, struct view rows, struct view grid) {
    return run_windows(context, s, grid, rows, true);
}
