#include "engine/weights/weights.h"

#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"
#include "engine/compute/kernels.h"
#include "engine/weights/files.h"

enum { CHUNK = 1 << 20 }; /* numbers per task */

/* Rows of a quantised matrix in a file. */
struct stored_rows {
    const void *data; /* NULL: none */
    enum dtype type;
    const float *scales; /* as struct matrix; NULL: none */
    int cols, scale_rows, scale_cols, first_row;
};

/* A tensor that weights_finish() makes: synthetic, or expanded from quantised rows. */
struct pending {
    void *data;
    enum dtype type;
    size_t n;
    uint32_t first; /* index of the tensor's first number in the stream */
    struct weights_stream stream;
    /* data NULL, scales set: synthetic numbers are rounded to fp8 with these scales */
    struct stored_rows stored;
};

/* What a scale of an fp8 matrix belongs to. */
enum scale_kind { SCALE_ANY, SCALE_MATRIX, SCALE_ROW, SCALE_BLOCK };

struct weights {
    struct ops *ops;            /* borrowed */
    struct weight_files *files; /* NULL: synthetic */
    uint64_t seed;
    enum dtype type;        /* of synthetic matrices, but for those that are fp8 */
    bool fp8;               /* synthetic: matrices that can be fp8 are */
    int fp8_rows, fp8_cols; /* numbers per scale; 0: all */
    enum weights_fp8 allow;
    enum scale_kind scales; /* of the fp8 matrices that a device without other quantised types keeps */
    bool failed;
    struct err err;
    struct {
        struct pending *v;
        size_t n, cap;
    } pending;
    struct {
        struct tensor **v;
        size_t n, cap;
    } tensors;
    struct {
        struct slab {
            char *base;
            size_t bytes;
        } * v;
        size_t n, cap;
    } slabs;
    size_t used; /* used bytes of the last slab */
    uint64_t parameters, bytes;
    unsigned types; /* bit set of the types of all matrices */
};

struct weights *weights_open_files(struct ops *o, const char *path, struct err *err) {
    struct weight_files *files = weight_files_open(path, err);
    if (!files) return NULL;
    struct weights *w = xcalloc(1, sizeof *w);
    w->ops = o;
    w->files = files;
    return w;
}

struct weights *weights_open_synthetic(struct ops *o, uint64_t seed, enum dtype type) {
    struct weights *w = xcalloc(1, sizeof *w);
    w->ops = o;
    w->seed = seed;
    w->fp8 = type == DTYPE_F8_E4M3;
    w->type = w->fp8 ? DTYPE_BF16 : type;
    weights_fp8_blocks(w, 128, 128);
    return w;
}

void weights_fp8_blocks(struct weights *w, int rows, int cols) {
    w->fp8_rows = rows;
    w->fp8_cols = cols;
}

void weights_allow_fp8(struct weights *w, enum weights_fp8 allow) { w->allow = allow; }

void weights_close(struct weights *w) {
    if (!w) return;
    for (size_t i = 0; i < w->tensors.n; i++) ops_free(w->ops, w->tensors.v[i]);
    free(w->tensors.v);
    for (size_t i = 0; i < w->slabs.n; i++) munmap(w->slabs.v[i].base, w->slabs.v[i].bytes);
    free(w->slabs.v);
    free(w->pending.v);
    weight_files_close(w->files);
    free(w);
}

enum { HUGE_PAGE = 2 << 20, SLAB = 64 << 20 };

/* Maps memory that begins at a huge page, so that no part of it needs small pages. Otherwise the random start
 * of a mapping makes some processes slower than others. `bytes` is a multiple of HUGE_PAGE. Returns
 * MAP_FAILED if there is no memory. */
static char *map_aligned(size_t bytes) {
    char *p = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return p;
    size_t before = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
    if (before) munmap(p, before);
    if (before < HUGE_PAGE) munmap(p + before + bytes, HUGE_PAGE - before);
    madvise(p + before, bytes, MADV_HUGEPAGE);
    return p + before;
}

/* Allocates memory that is freed with the weights. Tensors are packed into large slabs, for which the
 * kernel may use huge pages: a model has thousands of tensors, and decoding reads all of them. */
static void *slab_alloc(struct weights *w, size_t bytes) {
    bytes = (bytes + 63) / 64 * 64;
    if (w->slabs.n == 0 || bytes > w->slabs.v[w->slabs.n - 1].bytes - w->used) {
        struct slab slab = { .bytes = (MAX(bytes, (size_t)SLAB) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE };
        vec_reserve(&w->slabs, w->slabs.n + 1);
        slab.base = map_aligned(slab.bytes);
        if (slab.base == MAP_FAILED) {
            if (!w->failed)
                err_set(&w->err, "out of memory for weights: cannot allocate %zu more bytes", bytes);
            w->failed = true;
            return NULL;
        }
        vec_push(&w->slabs, slab);
        w->used = 0;
    }
    char *p = w->slabs.v[w->slabs.n - 1].base + w->used;
    w->used += bytes;
    return p;
}

/* Allocates memory for the numbers first .. first + n - 1 of a synthetic tensor. weights_finish()
 * generates them. */
static void *generate_later(struct weights *w, size_t n, size_t first, enum dtype type, const char *name,
                            float scale, float offset) {
    if (w->failed) return NULL;
    struct pending p = { .type = type,
                         .n = n,
                         .first = (uint32_t)first,
                         .stream = weights_stream_make(w->seed, name, scale, offset) };
    p.data = slab_alloc(w, dtype_size(type, n));
    if (p.data) vec_push(&w->pending, p);
    return p.data;
}

static void count_tensor(struct weights *w, size_t n, enum dtype type) {
    w->parameters += n;
    w->bytes += dtype_size(type, n);
}

/* Returns the data of a tensor in place, or an aligned copy if the address is not aligned for its type. */
static const void *aligned_data(struct weights *w, const struct weight_view *v, size_t n) {
    size_t bytes = dtype_size(v->type, n);
    if (!dtype_is_float(v->type) || (uintptr_t)v->data % dtype_bytes(v->type) == 0) return v->data;
    void *copy = slab_alloc(w, bytes);
    return copy ? memcpy(copy, v->data, bytes) : NULL;
}

static struct tensor *wrap_data(struct weights *w, const void *data, size_t bytes) {
    if (!data) return NULL; /* w->failed is set */
    struct tensor *t = ops_wrap(w->ops, data, bytes);
    vec_push(&w->tensors, t);
    return t;
}

/* Returns true if the rows [first, first + rows) have the scales that they would have at the start of a
 * block: they are, or all of them are in one block. */
static bool starts_block(int first, int rows, int scale_rows) {
    int place = first % scale_rows;
    return place == 0 || place + rows <= scale_rows;
}

/* Returns the scales of a matrix as floats; NULL: w->failed is set. */
static float *widen_scales(struct weights *w, const struct weight_view *v) {
    size_t n = (size_t)v->scales;
    float *scales = slab_alloc(w, n * sizeof *scales);
    if (!scales) return NULL;
    kernels_portable.widen(scales, v->scale, v->scale_type, n);
    for (size_t i = 0; i < n; i++) scales[i] *= v->scale_factor;
    return scales;
}

/* The matrix is rows [first, ...) of one with n scales. Its own scales begin with those of its first row; if
 * this row is in the middle of a block, m->first_row is its place there. scales NULL: w->failed is set */
static void set_scales(struct weights *w, struct matrix *m, const float *scales, size_t n, int scale_rows,
                       int scale_cols, int first) {
    size_t skipped = (size_t)(first / scale_rows) * (size_t)((m->cols + scale_cols - 1) / scale_cols);
    m->scale = wrap_data(w, scales ? scales + skipped : NULL, (n - skipped) * sizeof *scales);
    m->scale_rows = scale_rows;
    m->scale_cols = scale_cols;
    m->first_row = starts_block(first, m->rows, scale_rows) ? 0 : first % scale_rows;
}

static void add_scales(struct weights *w, const struct weight_view *v, int first, struct matrix *m) {
    set_scales(w, m, widen_scales(w, v), (size_t)v->scales, v->scale_rows, v->scale_cols, first);
}

/* Converts a tensor to the layout that the engine reads. Converts all rows and returns the address of row
 * `first`. */
static const void *convert_rows(struct weights *w, const struct weight_view *v, int first,
                                const struct matrix *m) {
    size_t rows = (size_t)MAX(v->source.rows, 1), cols = (size_t)m->cols;
    char *copy = slab_alloc(w, dtype_size(v->type, rows * cols));
    if (!copy) return NULL;
    v->convert(&v->source, copy);
    return copy + (size_t)first * dtype_size(v->type, cols);
}

/* For devices without quantised types: weights_finish() expands rows [first, first + rows) to bf16. */
static const void *expand_later(struct weights *w, const struct weight_view *v, int first, struct matrix *m) {
    size_t cols = (size_t)m->cols, n = (size_t)m->rows * cols;
    struct pending p = { .type = DTYPE_BF16,
                         .n = n,
                         .data = slab_alloc(w, n * sizeof(uint16_t)),
                         .stored = { .type = v->type,
                                     .cols = m->cols,
                                     .scale_rows = v->scale_rows,
                                     .scale_cols = v->scale_cols,
                                     .first_row = first } };
    p.stored.data = v->convert ? convert_rows(w, v, first, m)
                               : (const char *)v->data + (size_t)first * dtype_size(v->type, cols);
    if (v->scale) p.stored.scales = widen_scales(w, v);
    m->type = DTYPE_BF16;
    if (w->failed) return NULL;
    vec_push(&w->pending, p);
    return p.data;
}

/* Returns true if the backend has products of fp8 matrices with such scales. Rows that begin in the middle of
 * a block are expanded. */
static bool keeps_fp8(const struct weights *w, const struct matrix *m, int first, int scale_rows,
                      int scale_cols) {
    int cols = m->cols;
    const struct ops_backend *b = w->ops->backend;
    if (b->quantised) return true;
    bool even = scale_cols >= cols || (scale_cols >= 8 && (scale_cols & (scale_cols - 1)) == 0);
    return b->fp8 && w->allow == WEIGHTS_FP8 && cols % 8 == 0 && even &&
           starts_block(first, m->rows, scale_rows);
}

/* SCALE_ANY: the matrix is one block, or its only scale belongs to all of it. */
static enum scale_kind scale_kind(const struct weight_view *v, int rows, int cols) {
    enum { BLOCK = 128 };
    if (v->scales == 1) return rows <= BLOCK && cols <= BLOCK ? SCALE_ANY : SCALE_MATRIX;
    return v->scale_rows == 1 ? SCALE_ROW : SCALE_BLOCK;
}

/* Kernels use the same layout for the matrices of a layer, so fp8 matrices with another kind of scales
 * than the first one are expanded. */
static bool keeps_type(struct weights *w, const struct weight_view *v, int all_rows, int first,
                       const struct matrix *m) {
    if (dtype_is_float(v->type) || w->ops->backend->quantised) return true;
    if (v->type != DTYPE_F8_E4M3 || !v->scale || v->convert ||
        !keeps_fp8(w, m, first, v->scale_rows, v->scale_cols))
        return false;
    enum scale_kind kind = scale_kind(v, all_rows, m->cols);
    if (w->scales == SCALE_ANY) w->scales = kind;
    return kind == SCALE_ANY || kind == w->scales;
}

/* Returns the stored numbers of rows [first, first + rows). Sets w->failed on errors. */
static const void *file_rows(struct weights *w, const char *name, int all_rows, int first, struct matrix *m) {
    struct weight_view v;
    size_t cols = (size_t)m->cols;
    if (weight_files_find(w->files, name, all_rows, m->cols, &v, &w->err) < 0) {
        w->failed = true;
        return NULL;
    }
    m->type = v.type;
    if (!keeps_type(w, &v, all_rows, first, m)) return expand_later(w, &v, first, m);
    if (v.scale) add_scales(w, &v, first, m);
    if (v.convert) return convert_rows(w, &v, first, m);
    v.data = (const char *)v.data + (size_t)first * dtype_size(v.type, cols);
    return aligned_data(w, &v, (size_t)m->rows * cols);
}

/* Scales of a synthetic fp8 matrix of `rows` rows: the numbers are below `most`. Neighbouring scales
 * differ, as in real models. Returns the number of scales; 0: w->failed is set. */
static size_t make_scales(struct weights *w, int rows, int cols, float most, struct stored_rows *s) {
    s->cols = cols;
    s->scale_rows = w->fp8_rows ? w->fp8_rows : rows;
    s->scale_cols = w->fp8_cols ? w->fp8_cols : cols;
    size_t down = (size_t)((rows + s->scale_rows - 1) / s->scale_rows),
           across = (size_t)((cols + s->scale_cols - 1) / s->scale_cols);
    float *scales = slab_alloc(w, down * across * sizeof *scales);
    for (size_t i = 0; scales && i < down * across; i++)
        scales[i] = most / 448 * (1 + (float)((i * 5 + i / across * 2) % 8) / 8);
    s->scales = scales;
    return scales ? down * across : 0;
}

/* Rows [first, first + rows) of a synthetic matrix. */
static const void *synthetic_rows(struct weights *w, const char *name, int all_rows, int first,
                                  struct matrix *m) {
    size_t cols = (size_t)m->cols, n = (size_t)m->rows * cols;
    float most = (float)sqrt(3.0 / m->cols);
    struct stored_rows fp8 = { 0 };
    if (w->fp8 && w->allow != WEIGHTS_NOT_FP8) {
        size_t scales = make_scales(w, all_rows, m->cols, most, &fp8);
        if (!scales) return NULL;
        fp8.first_row = first;
        if (keeps_fp8(w, m, first, fp8.scale_rows, fp8.scale_cols)) {
            m->type = DTYPE_F8_E4M3;
            set_scales(w, m, fp8.scales, scales, fp8.scale_rows, fp8.scale_cols, first);
        }
    }
    void *data = generate_later(w, n, (size_t)first * cols, m->type, name, most, 0.0f);
    if (data && fp8.scales) w->pending.v[w->pending.n - 1].stored = fp8;
    return data;
}

static struct matrix make_rows(struct weights *w, const char *name, int all_rows, int first, int rows,
                               int cols) {
    struct matrix m = { .rows = rows, .cols = cols, .type = w->type };
    size_t n = (size_t)rows * (size_t)cols;
    if (w->failed) return m;
    const void *data =
        w->files ? file_rows(w, name, all_rows, first, &m) : synthetic_rows(w, name, all_rows, first, &m);
    m.data = wrap_data(w, data, dtype_size(m.type, n));
    w->types |= 1u << m.type;
    count_tensor(w, n, m.type);
    return m;
}

struct matrix weights_matrix(struct weights *w, int rows, int cols, const char *fmt, ...) {
    char name[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    return make_rows(w, name, rows, 0, rows, cols);
}

struct matrix weights_rows(struct weights *w, int all_rows, int first, int rows, int cols, const char *fmt,
                           ...) {
    char name[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    return make_rows(w, name, all_rows, first, rows, cols);
}

struct tensor *weights_vector(struct weights *w, int n, enum weights_fill fill, const char *fmt, ...) {
    char name[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    if (w->failed) return NULL;
    count_tensor(w, (size_t)n, w->type);
    float *data = NULL;
    size_t bytes = (size_t)n * sizeof *data;
    struct weight_view v;
    if (!w->files) {
        bool norm = fill == WEIGHTS_NORM || fill == WEIGHTS_NORM_MINUS_ONE;
        float scale = fill == WEIGHTS_ROWS ? 1.0f : 0.1f, offset = norm ? 1.0f : 0.0f;
        data = generate_later(w, (size_t)n, 0, DTYPE_F32, name, scale, offset);
    } else if (weight_files_find(w->files, name, 0, n, &v, &w->err) < 0) {
        w->failed = true;
    } else if ((data = slab_alloc(w, bytes))) {
        if (v.convert) v.data = convert_rows(w, &v, 0, &(struct matrix){ .cols = n });
        if (v.data) kernels_portable.widen(data, v.data, v.type, (size_t)n);
        if (fill == WEIGHTS_NORM_MINUS_ONE && !weight_files_are_gguf(w->files)) /* converters add the 1 */
            for (int i = 0; i < n; i++) data[i] += 1.0f;
    }
    return wrap_data(w, data, bytes);
}

bool weights_optional(const struct weights *w, const char *name, float *out, int n) {
    struct weight_view v;
    struct err ignored;
    if (!w->files || !weight_files_has(w->files, name)) return false;
    if (weight_files_find(w->files, name, 0, n, &v, &ignored) < 0) return false;
    kernels_portable.widen(out, v.data, v.type, (size_t)n);
    return true;
}

struct fill_job {
    struct weights *w;
    const struct kernels *kernels;
    weights_progress *progress;
    void *context;
    uint64_t total;
    atomic_uint_least64_t done;
    size_t *first_task; /* first task of each pending tensor */
};

static void fill_tensor(const struct kernels *k, const struct pending *p, size_t from, size_t to) {
    const struct weights_stream *s = &p->stream;
    if (s->offset == 0 && p->type != DTYPE_F16) { /* matrices that are not f16, and biases */
        k->generate((char *)p->data + from * dtype_bytes(p->type), p->type, s->a, s->b, s->scale,
                    p->first + (uint32_t)from, to - from);
        return;
    }
    for (size_t i = from; i < to; i++) {
        float f = weights_stream_at(&p->stream, p->first + (uint32_t)i);
        if (p->type == DTYPE_F32)
            ((float *)p->data)[i] = f;
        else
            ((uint16_t *)p->data)[i] = p->type == DTYPE_BF16 ? bf16_from_float(f) : f16_from_float(f);
    }
}

/* Returns the scale of the number in this row and column of p->stored. */
static float scale_at(const struct stored_rows *s, size_t row, size_t column) {
    size_t across = ((size_t)s->cols + (size_t)s->scale_cols - 1) / (size_t)s->scale_cols;
    return s->scales[(row + (size_t)s->first_row) / (size_t)s->scale_rows * across +
                     column / (size_t)s->scale_cols];
}

/* Synthetic numbers, rounded to fp8: as fp8 numbers without their scales, or as bf16 with them. */
static void fill_fp8(const struct kernels *k, const struct pending *p, size_t from, size_t to) {
    size_t cols = (size_t)p->stored.cols;
    for (size_t i = from; i < to; i++) {
        float scale = scale_at(&p->stored, i / cols, i % cols), f;
        uint8_t code = f8_from_float(weights_stream_at(&p->stream, p->first + (uint32_t)i) / scale);
        if (p->type == DTYPE_F8_E4M3) {
            ((uint8_t *)p->data)[i] = code;
            continue;
        }
        k->widen(&f, &code, DTYPE_F8_E4M3, 1);
        ((uint16_t *)p->data)[i] = bf16_from_float(f * scale);
    }
}

/* Writes the numbers [from, to) of a quantised matrix as bf16. `from` is the start of a block. */
static void expand_rows(const struct kernels *k, const struct pending *p, size_t from, size_t to) {
    enum { MOST = 256 }; /* numbers of the largest block */
    const struct stored_rows *s = &p->stored;
    size_t cols = (size_t)s->cols;
    uint16_t *out = p->data;
    float v[MOST];
    for (size_t at = from, n; at < to; at += n) {
        size_t row = at / cols, column = at % cols;
        n = MIN(MIN(to - at, cols - column), (size_t)MOST);
        k->widen(v, (const char *)s->data + dtype_size(s->type, at), s->type, n);
        for (size_t i = 0; i < n; i++)
            out[at + i] = bf16_from_float(s->scales ? v[i] * scale_at(s, row, column + i) : v[i]);
    }
}

/* Vectors are stored as floats; in bf16 models, they are rounded to bf16. */
static void round_vector(const struct pending *p, enum dtype type, size_t from, size_t to) {
    float *v = p->data;
    if (type == DTYPE_BF16)
        for (size_t i = from; i < to; i++) v[i] = bf16_to_float(bf16_from_float(v[i]));
}

static void fill_task(void *job, int task, int worker) {
    struct fill_job *j = job;
    size_t lo = 0, hi = j->w->pending.n; /* finds the tensor of this task */
    while (hi - lo > 1) {
        size_t mid = (lo + hi) / 2;
        if (j->first_task[mid] <= (size_t)task)
            lo = mid;
        else
            hi = mid;
    }
    const struct pending *p = &j->w->pending.v[lo];
    size_t from = ((size_t)task - j->first_task[lo]) * CHUNK, to = MIN(p->n, from + CHUNK);
    if (p->stored.data)
        expand_rows(j->kernels, p, from, to);
    else if (p->stored.scales)
        fill_fp8(j->kernels, p, from, to);
    else
        fill_tensor(j->kernels, p, from, to);
    if (p->type == DTYPE_F32) round_vector(p, j->w->type, from, to);
    uint64_t done = atomic_fetch_add(&j->done, (to - from) * dtype_bytes(p->type));
    if (worker == 0 && j->progress) j->progress(j->context, done, j->total);
}

int weights_finish(struct weights *w, struct threads *threads, weights_progress *progress, void *context,
                   struct err *err) {
    if (w->failed) return err_set(err, "%s", w->err.msg);
    struct fill_job j = { .w = w, .kernels = kernels_pick(), .progress = progress, .context = context };
    size_t tasks = 0;
    j.first_task = xcalloc(w->pending.n + 1, sizeof *j.first_task);
    for (size_t i = 0; i < w->pending.n; i++) {
        j.first_task[i] = tasks;
        tasks += (w->pending.v[i].n + CHUNK - 1) / CHUNK;
        j.total += w->pending.v[i].n * dtype_bytes(w->pending.v[i].type);
    }
    threads_run(threads, fill_task, &j, (int)tasks);
    free(j.first_task);
    w->pending.n = 0;
    for (size_t i = 0; i < w->tensors.n; i++) ops_commit(w->ops, w->tensors.v[i]);
    return 0;
}

uint64_t weights_parameters(const struct weights *w) { return w->parameters; }
uint64_t weights_bytes(const struct weights *w) { return w->bytes; }

const char *weights_types(const struct weights *w) {
    for (int t = 0; t < DTYPES_END; t++)
        if (w->types == 1u << t) return dtype_name((enum dtype)t);
    return "mixed";
}
