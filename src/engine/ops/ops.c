/* Calls the backend and records most operators: times, shapes, FLOPs and bytes. */
#include "engine/ops/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"
#include "engine/ops/internal.h"

struct ops *ops_open(const struct ops_backend *backend, void *context) {
    struct ops *o = xcalloc(1, sizeof *o);
    o->backend = backend;
    o->context = context;
    return o;
}

void ops_close(struct ops *o) {
    if (!o) return;
    ops_free_since(o, 0);
    o->backend->close(o->context);
    free(o->live.v);
    free(o);
}

const char *ops_device(const struct ops *o) { return o->backend->device(o->context); }
const char *ops_name(const struct ops *o) { return o->backend->name(o->context); }
const char *ops_uuid(const struct ops *o) { return o->backend->uuid ? o->backend->uuid(o->context) : ""; }
int ops_units(const struct ops *o) { return o->backend->units(o->context); }
size_t ops_memory_bytes(const struct ops *o, const char **name) {
    *name = o->backend->memory_bytes ? ops_name(o) : "this machine";
    if (o->backend->memory_bytes) return o->backend->memory_bytes(o->context);
    return (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
}

void ops_finish(struct ops *o) { o->backend->finish(o->context); }

void ops_host_send(struct ops *o, const void *p, size_t bytes) {
    if (o->backend->host_send && p) o->backend->host_send(o->context, p, bytes);
}

void ops_set_exact(struct ops *o, bool exact) {
    if (o->backend->set_exact) o->backend->set_exact(o->context, exact);
}

/* ---- memory */
static void change_memory(struct ops *o, enum trace_memory_kind kind, uint64_t bytes, bool freed) {
    o->memory_bytes[kind] = freed ? o->memory_bytes[kind] - bytes : o->memory_bytes[kind] + bytes;
    record_memory(o->rec, kind, o->memory_bytes[kind]);
}

/* Lets the device measure its kernels if the recorder stores operators. */
static void use_stamps(struct ops *o, struct recorder *rec) {
    const struct ops_backend *b = o->backend;
    if (!b->stamps_start) return;
    if (!record_op_start(rec)) {
        b->stamps_stop(o->context);
        return;
    }
    b->stamps_start(o->context);
    record_set_device(rec, &(struct record_device){ o->context, b->stamps_mark, b->stamps_take });
}

void ops_record(struct ops *o, struct recorder *rec) {
    if (!rec) record_resolve(o->rec);
    o->rec = rec;
    use_stamps(o, rec);
    for (unsigned k = 0; rec && k < TRACE_MEMORY_KIND_END; k++)
        if (o->memory_bytes[k]) record_memory(rec, (enum trace_memory_kind)k, o->memory_bytes[k]);
}

/* Reserves list space before the tensor is allocated, so that no tensor leaks if memory runs out here. */
static void reserve_tensor(struct ops *o) { vec_reserve(&o->live, o->live.n + 1); }

static struct tensor *keep_tensor(struct ops *o, struct tensor *t, size_t bytes,
                                  enum trace_memory_kind kind) {
    o->live.v[o->live.n++] = (struct live_tensor){ t, bytes, kind };
    change_memory(o, kind, bytes, false);
    return t;
}

static enum trace_memory_kind kind_of_results(const struct ops *o) {
    return o->rec ? TRACE_MEMORY_ACTIVATIONS : TRACE_MEMORY_WORKSPACE;
}

struct tensor *ops_alloc(struct ops *o, size_t floats, enum tensor_content content) {
    reserve_tensor(o);
    return keep_tensor(o, o->backend->alloc(o->context, floats, content), floats * sizeof(float),
                       kind_of_results(o));
}

struct tensor *ops_alloc_narrow(struct ops *o, size_t numbers) {
    reserve_tensor(o);
    return keep_tensor(o, o->backend->alloc_narrow(o->context, numbers), numbers * 2, kind_of_results(o));
}

struct tensor *ops_wrap(struct ops *o, const void *host, size_t bytes) {
    reserve_tensor(o);
    return keep_tensor(o, o->backend->wrap(o->context, host, bytes), bytes, TRACE_MEMORY_WEIGHTS);
}

void ops_commit(struct ops *o, struct tensor *t) { o->backend->commit(o->context, t); }

static void forget_tensor(struct ops *o, size_t i) {
    struct live_tensor old = o->live.v[i];
    memmove(&o->live.v[i], &o->live.v[i + 1], (o->live.n - i - 1) * sizeof *o->live.v);
    o->live.n--;
    change_memory(o, old.kind, old.bytes, true);
}

void ops_free(struct ops *o, struct tensor *t) {
    if (!t) return;
    size_t i = o->live.n;
    while (i > 0 && o->live.v[i - 1].tensor != t) i--; /* usually `t` is the last tensor */
    if (i == 0) die("a tensor was freed twice");
    forget_tensor(o, i - 1);
    o->backend->free(o->context, t);
}

void ops_free_since(struct ops *o, size_t mark) {
    while (o->live.n > mark) {
        struct tensor *t = o->live.v[o->live.n - 1].tensor;
        forget_tensor(o, o->live.n - 1);
        o->backend->free(o->context, t);
    }
}

struct tensor *ops_alloc_cache(struct ops *o, size_t numbers, enum dtype type) {
    size_t bytes = numbers * dtype_bytes(type), floats = (bytes + sizeof(float) - 1) / sizeof(float);
    reserve_tensor(o);
    struct tensor *t = o->backend->alloc_cache ? o->backend->alloc_cache(o->context, numbers, type)
                                               : o->backend->alloc(o->context, floats, TENSOR_ZERO);
    return keep_tensor(o, t, bytes, TRACE_MEMORY_KV_CACHE);
}

int ops_check(struct ops *o, struct err *err) {
    return o->backend->check ? o->backend->check(o->context, err) : 0;
}

void ops_recover(struct ops *o) {
    if (o->backend->recover) o->backend->recover(o->context);
}

void ops_upload(struct ops *o, struct view to, const float *from, size_t n) {
    o->backend->upload(o->context, to, from, n);
}

void ops_upload_planes(struct ops *o, struct view to, const float *from, int channels, size_t area) {
    o->backend->upload_planes(o->context, to, from, channels, area);
}

void ops_download(struct ops *o, float *to, struct view from, size_t n) {
    o->backend->download(o->context, to, from, n);
}

/* ---- recorded operators */

/* Records the end of an operator that began at `start`; 0: operators are not recorded. */
static void record_end(struct ops *o, uint64_t start, const struct record_op *op) {
    if (!start) return;
    if (!o->backend->stamps_start) o->backend->finish(o->context);
    record_op_end(o->rec, start, op);
}

static double matrix_cells(const struct matrix *w) { return (double)w->rows * w->cols; }
static double bytes_of(enum dtype t, double numbers) {
    struct dtype_info i = dtype_info(t);
    return numbers * (double)i.bytes / (double)i.numbers;
}
static double matrix_bytes(const struct matrix *w) { return bytes_of(w->type, matrix_cells(w)); }

void ops_record_linear(struct ops *o, uint64_t start, const char *name, const char *kernel,
                       const struct linear_out *v, int n, int m) {
    double flops = 0, bytes = 0;
    long out = 0;
    if (!start) return;
    for (int i = 0; i < n; i++) {
        const struct matrix *w = &v[i].l->w;
        flops += 2.0 * m * matrix_cells(w);
        bytes += matrix_bytes(w) + 4.0 * m * w->rows;
        out += w->rows;
    }
    const struct matrix *w = &v[0].l->w;
    bytes += 4.0 * m * w->cols;
    record_end(o, start,
               &(struct record_op){ .name = name,
                                    .kernel = kernel,
                                    .type = w->type,
                                    .m = m,
                                    .n = out,
                                    .k = w->cols,
                                    .flops = flops,
                                    .bytes = bytes });
}

void ops_linear(struct ops *o, const char *name, const struct linear *l, struct view x, ptrdiff_t ldx, int m,
                struct view y, ptrdiff_t ldy, enum ops_store store) {
    if (m <= 0) return;
    uint64_t start = record_op_start(o->rec);
    const char *kernel = o->backend->linear(o->context, l, x, ldx, m, y, ldy, store);
    ops_record_linear(o, start, name, kernel, &(struct linear_out){ l, y }, 1, m);
}

void ops_linear_many(struct ops *o, const char *name, const struct linear_out *v, int n, struct view x) {
    uint64_t start = record_op_start(o->rec);
    const char *kernel = o->backend->linear_many(o->context, v, n, x);
    ops_record_linear(o, start, name, kernel, v, n, 1);
}

void ops_conv(struct ops *o, const char *name, const struct conv *c, struct view x, int views, int h, int w,
              struct view y) {
    uint64_t start = record_op_start(o->rec);
    const char *kernel = o->backend->conv(o->context, c, x, views, h, w, y);
    int oh = (h + 2 * c->pad - c->side) / c->stride + 1, ow = (w + 2 * c->pad - c->side) / c->stride + 1;
    struct linear l = { c->w, c->bias };
    ops_record_linear(o, start, name, kernel, &(struct linear_out){ &l, y }, 1, views * oh * ow);
}

bool ops_experts_one(struct ops *o, const char *name, const struct expert *const *experts,
                     const float *weights, int n, struct view x, struct view y) {
    uint64_t start = record_op_start(o->rec);
    const char *kernel = o->backend->experts_one(o->context, experts, weights, n, x, y);
    long hidden = 0;
    double cells = 0, bytes = 0;
    if (!kernel) return false;
    if (!start) return true;
    for (int e = 0; e < n; e++) {
        const struct matrix *w = &experts[e]->gate.w;
        hidden += w->rows;
        cells += 3.0 * matrix_cells(w);
        bytes += 3.0 * matrix_bytes(w);
    }
    record_end(o, start,
               &(struct record_op){ .name = name,
                                    .kernel = kernel,
                                    .type = experts[0]->gate.w.type,
                                    .m = 1,
                                    .n = hidden,
                                    .k = experts[0]->gate.w.cols,
                                    .flops = 2 * cells,
                                    .bytes = bytes });
    return true;
}

bool ops_experts_many(struct ops *o, const char *name, const struct expert *experts, const struct routing *r,
                      struct view logits, struct view x, int m, int hidden, struct view y) {
    if (!o->backend->experts_many) return false;
    uint64_t start = record_op_start(o->rec);
    const char *kernel = o->backend->experts_many(o->context, experts, r, logits, x, m, hidden, y);
    if (!kernel) return false;
    const struct matrix *w = &experts[0].gate.w;
    record_end(o, start,
               &(struct record_op){ .name = name,
                                    .kernel = kernel,
                                    .type = w->type,
                                    .m = (long)m * r->k,
                                    .n = w->rows,
                                    .k = w->cols,
                                    .flops = 6.0 * m * r->k * matrix_cells(w),
                                    /* the number of different experts, and so the bytes, are unknown here */
                                    .bytes = NAN });
    return true;
}

void ops_record_rows(struct ops *o, uint64_t start, const char *name, const char *kernel, size_t items, int n,
                     double floats) {
    record_end(o, start,
               &(struct record_op){ .name = name,
                                    .kernel = kernel,
                                    .type = DTYPE_F32,
                                    .m = (long)items,
                                    .n = n,
                                    .flops = 0,
                                    .bytes = 4 * floats });
}

void ops_rmsnorm(struct ops *o, const char *name, struct view x, ptrdiff_t ldx, struct tensor *w, int rows,
                 int n, float eps, struct view y, ptrdiff_t ldy) {
    uint64_t start = record_op_start(o->rec);
    const char *kernel = o->backend->rmsnorm(o->context, x, ldx, w, rows, n, eps, y, ldy);
    ops_record_rows(o, start, name, kernel, (size_t)rows, n, 2.0 * rows * n);
}

void ops_layernorm(struct ops *o, const char *name, struct view x, struct tensor *w, struct tensor *b,
                   int rows, int n, float eps, struct view y) {
    uint64_t start = record_op_start(o->rec);
    const char *kernel = o->backend->layernorm(o->context, x, w, b, rows, n, eps, y);
    ops_record_rows(o, start, name, kernel, (size_t)rows, n, 2.0 * rows * n);
}

void ops_activate(struct ops *o, enum ops_activation a, struct view x, size_t n) {
    uint64_t start = record_op_start(o->rec);
    const char *kernel = o->backend->activate(o->context, a, x, n);
    ops_record_rows(o, start, a == OPS_GELU ? "gelu" : "quick_gelu", kernel, n, 0, 2.0 * (double)n);
}

void ops_glu(struct ops *o, enum ops_glu kind, struct view gate, struct view up, size_t n) {
    uint64_t start = record_op_start(o->rec);
    const char *kernel = o->backend->glu(o->context, kind, gate, up, n);
    ops_record_rows(o, start, kernel, kernel, n, 0, 3.0 * (double)n);
}

void ops_adjust(struct ops *o, enum ops_adjust kind, float by, struct view x, size_t n) {
    uint64_t start = record_op_start(o->rec);
    const char *kernel = o->backend->adjust(o->context, kind, by, x, n);
    ops_record_rows(o, start, kind == OPS_SCALE ? "scale" : "softcap", kernel, n, 0, 2.0 * (double)n);
}

void ops_add(struct ops *o, const char *name, struct view y, struct view x, size_t n) {
    uint64_t start = record_op_start(o->rec);
    const char *kernel = o->backend->add(o->context, y, x, n);
    ops_record_rows(o, start, name, kernel, n, 0, 3.0 * (double)n);
}

void ops_embed(struct ops *o, const struct matrix *table, const uint32_t *ids, int n, struct view out) {
    uint64_t start = record_op_start(o->rec);
    const char *kernel = o->backend->embed(o->context, table, ids, n, out);
    ops_record_rows(o, start, "embed_tokens", kernel, (size_t)n, table->cols, 2.0 * n * table->cols);
}

/* Returns the number of (query, key) pairs that are computed: fewer than nq * nk with causal attention. */
static double attention_pairs(const struct attention *a) {
    double n = 0;
    if (a->base < 0) return (double)a->nq * a->nk;
    for (int i = 0; i < a->nq; i++) {
        int seen = MIN(a->nk, a->base + i + 1);
        n += a->window ? MIN(seen, a->window) : seen;
    }
    return n;
}

static void record_attention(struct ops *o, uint64_t start, const char *name, const char *kernel,
                             const struct attention *a, int n) {
    double dims = a->dim_k + a->dim_v, flops = 0, bytes = 0;
    /* with latent attention, values are the first numbers of the keys */
    double cached = a->k.tensor == a->v.tensor && a->k.at == a->v.at ? a->dim_k : dims;
    long queries = 0, keys = 0;
    if (!start) return;
    for (int i = 0; i < n; i++) {
        flops += 2.0 * attention_pairs(&a[i]) * a->heads * dims;
        bytes +=
            4.0 * a[i].nq * a->heads * dims + (double)dtype_bytes(a->kv) * a[i].nk * a->kv_heads * cached;
        queries += a[i].nq;
        keys = MAX(keys, a[i].nk);
    }
    record_end(o, start,
               &(struct record_op){ .name = name,
                                    .kernel = kernel,
                                    .type = DTYPE_F32,
                                    .kv_type = a->kv,
                                    .m = queries,
                                    .n = keys,
                                    .k = (long)a->heads * a->dim_k,
                                    .flops = flops,
                                    .bytes = bytes });
}

void ops_attention(struct ops *o, const char *name, const struct attention *a) {
    uint64_t start = record_op_start(o->rec);
    const char *kernel = o->backend->attention(o->context, a);
    record_attention(o, start, name, kernel, a, 1);
}

void ops_attention_many(struct ops *o, const char *name, const struct attention *a, int n) {
    uint64_t start = record_op_start(o->rec);
    const char *kernel = NULL;
    if (n == 1) {
        ops_attention(o, name, a);
        return;
    }
    if (o->backend->attention_many)
        kernel = o->backend->attention_many(o->context, a, n);
    else
        for (int i = 0; i < n; i++) kernel = o->backend->attention(o->context, &a[i]);
    record_attention(o, start, name, kernel, a, n);
}

void ops_qkv_attention(struct ops *o, const char *name, const struct qkv_attention *a) {
    uint64_t start = record_op_start(o->rec);
    const char *kernel = o->backend->qkv_attention(o->context, a);
    double n = a->n, width = (double)a->heads * a->dim;
    double rel = a->rel_h.tensor ? 4.0 * n * a->side * width : 0;
    record_end(o, start,
               &(struct record_op){ .name = name,
                                    .kernel = kernel,
                                    .type = DTYPE_F32,
                                    .kv_type = DTYPE_F32,
                                    .m = (long)a->batch * a->n,
                                    .n = a->n,
                                    .k = (long)width,
                                    .flops = a->batch * (4.0 * n * n * width + rel),
                                    .bytes = 16.0 * a->batch * n * width });
}

/* Records a product of one token with `rows` rows per head of kv_b. */
static void record_latent(struct ops *o, uint64_t start, const char *kernel, const struct latent *l,
                          int rows) {
    double cells = (double)l->heads * rows * l->rank;
    enum dtype type = l->kv_b.w.type;
    record_end(o, start,
               &(struct record_op){ .name = "kv_b_proj",
                                    .kernel = kernel,
                                    .type = type,
                                    .m = 1,
                                    .n = (long)l->heads * rows,
                                    .k = l->rank,
                                    .flops = 2 * cells,
                                    .bytes = bytes_of(type, cells) });
}

void ops_latent_query(struct ops *o, const struct latent *l, struct view q, struct view out) {
    uint64_t start = record_op_start(o->rec);
    const char *kernel = o->backend->latent_query(o->context, l, q, out);
    record_latent(o, start, kernel, l, l->nope);
}

void ops_latent_value(struct ops *o, const struct latent *l, struct view sums, struct view out) {
    uint64_t start = record_op_start(o->rec);
    const char *kernel = o->backend->latent_value(o->context, l, sums, out);
    record_latent(o, start, kernel, l, l->value);
}

static void record_windows(struct ops *o, uint64_t start, const char *name, const char *kernel,
                           const struct windows *s) {
    record_end(o, start,
               &(struct record_op){ .name = name,
                                    .kernel = kernel,
                                    .type = DTYPE_F32,
                                    .m = (long)MAX(s->views, 1) * s->padded * s->padded,
                                    .n = s->width,
                                    .bytes = 8.0 * MAX(s->views, 1) * s->padded * s->padded * s->width });
}

void ops_window_partition(struct ops *o, const struct windows *s, struct view grid, struct view rows) {
    uint64_t start = record_op_start(o->rec);
    const char *kernel = o->backend->window_partition(o->context, s, grid, rows);
    record_windows(o, start, "window_partition", kernel, s);
}

void ops_window_merge(struct ops *o, const struct windows *s, struct view rows, struct view grid) {
    uint64_t start = record_op_start(o->rec);
    const char *kernel = o->backend->window_merge(o->context, s, rows, grid);
    record_windows(o, start, "window_merge", kernel, s);
}

/* ---- not recorded */
void ops_route(struct ops *o, const struct routing *r, struct view logits, int m,
               struct routing_choice *out) {
    o->backend->route(o->context, r, logits, m, out);
}

void ops_rope(struct ops *o, const struct rope_table *t, const struct rope_rows *r) {
    o->backend->rope(o->context, t, r);
}

void ops_cache_store(struct ops *o, const struct cache_rows *c) { o->backend->cache_store(o->context, c); }
void ops_cache_load(struct ops *o, const struct cache_rows *c) { o->backend->cache_load(o->context, c); }

void ops_latent_expand(struct ops *o, const struct latent *l, const struct latent_rows *r) {
    o->backend->latent_expand(o->context, l, r);
}

void ops_copy_rows(struct ops *o, struct view to, ptrdiff_t ldt, struct view from, ptrdiff_t ldf, int rows,
                   size_t n) {
    o->backend->copy_rows(o->context, to, ldt, from, ldf, rows, n);
}

void ops_gather_rows(struct ops *o, struct view to, struct view from, const int *index, int n, size_t width) {
    o->backend->gather_rows(o->context, to, from, index, n, width);
}

void ops_scatter_add(struct ops *o, struct view to, struct view from, const int *index, const float *weights,
                     int n, size_t width) {
    o->backend->scatter_add(o->context, to, from, index, weights, n, width);
}

void ops_resample_grid(struct ops *o, struct view in, int from, int to, int channels, struct view out) {
    o->backend->resample_grid(o->context, in, from, to, channels, out);
}

void ops_resample_rows(struct ops *o, struct view in, int from, int to, int channels, struct view out) {
    o->backend->resample_rows(o->context, in, from, to, channels, out);
}
