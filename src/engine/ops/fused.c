/* Fused operators, which run as single operators if the backend lacks them. Also 16-bit tensors and host
 * memory. */
#include <stdlib.h>

#include "base/util.h"
#include "engine/ops/internal.h"

void ops_linear_act(struct ops *o, const char *name, const struct linear *l, struct view x, int m,
                    struct view y, enum ops_activation a) {
    uint64_t start = record_op_start(o->rec);
    const char *kernel = o->backend->linear_act ? o->backend->linear_act(o->context, l, x, m, y, a) : NULL;
    if (kernel) {
        ops_record_linear(o, start, name, kernel, &(struct linear_out){ l, y }, 1, m);
        return;
    }
    ops_linear(o, name, l, x, l->w.cols, m, y, l->w.rows, OPS_SET);
    ops_activate(o, a, y, (size_t)m * (size_t)l->w.rows);
}

void ops_linear_rows(struct ops *o, const char *name, const char *const *names, const struct linear_out *v,
                     int n, struct view x, int m) {
    uint64_t start = record_op_start(o->rec);
    const char *kernel = o->backend->linear_rows ? o->backend->linear_rows(o->context, v, n, x, m) : NULL;
    if (kernel) {
        ops_record_linear(o, start, name, kernel, v, n, m);
        return;
    }
    for (int i = 0; i < n; i++)
        ops_linear(o, names[i], v[i].l, x, v[i].l->w.cols, m, v[i].y, v[i].l->w.rows, OPS_SET);
}

void ops_linear_merge(struct ops *o, const char *name, const struct linear *l, struct view x,
                      const struct windows *s, struct view rows, struct view grid) {
    int m = MAX(s->views, 1) * s->padded * s->padded;
    uint64_t start = record_op_start(o->rec);
    const char *kernel =
        o->backend->linear_merge ? o->backend->linear_merge(o->context, l, x, s, grid) : NULL;
    if (kernel) {
        ops_record_linear(o, start, name, kernel, &(struct linear_out){ l, grid }, 1, m);
        return;
    }
    ops_linear(o, name, l, x, l->w.cols, m, rows, l->w.rows, OPS_SET);
    ops_window_merge(o, s, rows, grid);
}

void ops_layernorm_windows(struct ops *o, const char *name, struct view x, struct tensor *w, struct tensor *b,
                           float eps, const struct windows *s, struct view scratch, struct view rows) {
    int n = MAX(s->views, 1) * s->grid * s->grid;
    uint64_t start = record_op_start(o->rec);
    const char *kernel = o->backend->layernorm_windows
                             ? o->backend->layernorm_windows(o->context, x, w, b, eps, s, rows)
                             : NULL;
    if (kernel) {
        ops_record_rows(o, start, name, kernel, (size_t)n, s->width, 2.0 * n * s->width);
        return;
    }
    ops_layernorm(o, name, x, w, b, n, s->width, eps, scratch);
    ops_window_partition(o, s, scratch, rows);
}

void ops_swiglu(struct ops *o, const char *name, const char *const *names, const struct expert *e,
                struct view x, int m, struct view gate, struct view up) {
    const struct linear_out v[] = { { &e->gate, gate }, { &e->up, up } };
    int inner = e->gate.w.rows, k = e->gate.w.cols;
    uint64_t start = record_op_start(o->rec);
    const char *kernel = o->backend->swiglu ? o->backend->swiglu(o->context, e, x, m, gate) : NULL;
    if (kernel) {
        ops_record_linear(o, start, name, kernel, v, 2, m);
        return;
    }
    ops_linear(o, names[0], &e->gate, x, k, m, gate, inner, OPS_SET);
    ops_linear(o, names[1], &e->up, x, k, m, up, inner, OPS_SET);
    ops_glu(o, e->glu, gate, up, (size_t)m * (size_t)inner);
}

void ops_place_heads(struct ops *o, const struct place_heads *p) { o->backend->place_heads(o->context, p); }

bool ops_has_narrow(const struct ops *o, enum dtype weights) {
    return o->backend->has_narrow && o->backend->has_narrow(o->context, weights);
}

void *ops_host_alloc(struct ops *o, size_t bytes) {
    return o->backend->host_alloc ? o->backend->host_alloc(o->context, bytes) : malloc(bytes);
}

void ops_host_free(struct ops *o, void *p) {
    if (o->backend->host_free)
        o->backend->host_free(o->context, p);
    else
        free(p);
}
