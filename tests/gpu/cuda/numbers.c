/* Random numbers and weights on both devices, and comparisons of what they compute. */
#include "gpu/cuda/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/die.h"

struct ops *both[2];
int failures;
float extreme;
static uint64_t seed = 88172645463325252u;

float uniform(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (float)((double)(seed >> 11) / 9007199254740992.0 * 2 - 1);
}

/* In pieces of 160 numbers. */
static float extreme_number(size_t i) {
    static const float denormals[] = { 1e-39f, -1e-45f, 1e-42f, -1e-38f };
    switch (i / 160 % 4) {
    case 0: return i % 2 ? -0.0f : 0.0f;
    case 1: return denormals[i % 4];
    case 2: return i % 3 ? extreme : -extreme;
    default: return uniform();
    }
}

float *random_numbers(size_t n, float size) {
    float *v = xmalloc(n * sizeof *v);
    for (size_t i = 0; i < n; i++) v[i] = uniform() * size * (i % 997 == 996 ? 100.0f : 1.0f);
    return v;
}

float *numbers(size_t n, float size) {
    if (extreme == 0) return random_numbers(n, size);
    float *v = xmalloc(n * sizeof *v);
    for (size_t i = 0; i < n; i++) v[i] = extreme_number(i);
    return v;
}

double difference(const float *a, const float *b, size_t n) {
    double d = 0, s = 0;
    for (size_t i = 0; i < n; i++) {
        double x = (double)a[i] - b[i];
        d += x * x;
        s += (double)a[i] * a[i];
    }
    return sqrt(d) / (sqrt(s) + 1e-30);
}

static void print_difference(const char *name, double d, double most) {
    bool good = d <= most; /* NaN is not */
    failures += !good;
    printf("%s %s%-44s %.2e (most %.0e)\n", good ? "ok  " : "FAIL", extreme != 0 ? "extreme: " : "", name, d,
           most);
    fflush(stdout);
}

void report(const char *name, const float *cpu, const float *gpu, size_t n, double most) {
    print_difference(name, difference(cpu, gpu, n), most);
}

/* The numbers of tensor `out` after f() on both devices. */
static void run_both(const char *name, operator_fn *f, int tensors, float *const *v, const size_t *n, int out,
                     float *got[2]) {
    for (int b = 0; b < 2; b++) {
        struct tensor *t[8] = { NULL };
        for (int i = 0; i < tensors; i++) {
            t[i] = ops_alloc(both[b], n[i], TENSOR_ANY);
            ops_upload(both[b], view_of(t[i]), v[i], n[i]);
        }
        f(both[b], t);
        got[b] = xcalloc(n[out], sizeof **got);
        ops_download(both[b], got[b], view_of(t[out]), n[out]);
        for (int i = 0; i < tensors; i++) ops_free(both[b], t[i]);
    }
    struct err err;
    if (ops_check(both[GPU], &err) < 0) {
        printf("FAIL %s: %s\n", name, err.msg);
        exit(1);
    }
}

void compare(const char *name, operator_fn *f, int tensors, float *const *v, const size_t *n, int out,
             double most) {
    float *got[2];
    run_both(name, f, tensors, v, n, out, got);
    report(name, got[CPU], got[GPU], n[out], most);
    free(got[CPU]);
    free(got[GPU]);
}

void compare_rows(const char *name, operator_fn *f, int tensors, float *const *v, const size_t *n, size_t row,
                  double most) {
    float *got[2];
    double largest = 0;
    run_both(name, f, tensors, v, n, 0, got);
    for (size_t i = 0; i + row <= n[0]; i += row) {
        double d = difference(got[CPU] + i, got[GPU] + i, row);
        if (!(d <= largest)) largest = d;
        if (isnan(d)) break;
    }
    print_difference(name, largest, most);
    free(got[CPU]);
    free(got[GPU]);
}

/* ---- weights */
static struct tensor *commit(struct ops *o, const void *data, size_t bytes) {
    struct tensor *t = ops_wrap(o, data, bytes);
    ops_commit(o, t);
    return t;
}
static void put_number(void *data, enum dtype type, size_t i, float f) {
    if (type == DTYPE_F32)
        ((float *)data)[i] = f;
    else if (type == DTYPE_F8_E4M3)
        ((uint8_t *)data)[i] = f8_from_float(f);
    else
        ((uint16_t *)data)[i] = type == DTYPE_BF16 ? bf16_from_float(f) : f16_from_float(f);
}
const struct fp8_block fp8_blocks = { 128, 128 }, fp8_rows = { 1, 0 }, fp8_matrices = { 0, 0 };
struct fp8_block fp8_block = { 128, 128 };

struct weight weight_make(int rows, int cols, enum dtype type) {
    int high = fp8_block.rows ? fp8_block.rows : rows, wide = fp8_block.cols ? fp8_block.cols : cols;
    size_t n = (size_t)rows * (size_t)cols,
           blocks = (size_t)((rows + high - 1) / high) * (size_t)((cols + wide - 1) / wide);
    struct weight w = { .data = xmalloc(n * dtype_bytes(type)) };
    float scale = sqrtf(3.0f / (float)cols);
    bool fp8 = type == DTYPE_F8_E4M3;
    for (size_t i = 0; i < n; i++) put_number(w.data, type, i, uniform() * (fp8 ? 448 : scale));
    if (fp8) w.scales = xmalloc(blocks * sizeof *w.scales);
    for (size_t i = 0; fp8 && i < blocks; i++) w.scales[i] = scale / 448 * (1 + uniform() / 2);
    for (int b = 0; b < 2; b++) {
        w.m[b] = (struct matrix){ commit(both[b], w.data, n * dtype_bytes(type)), type, rows, cols };
        if (!fp8) continue;
        w.m[b].scale = commit(both[b], w.scales, blocks * sizeof *w.scales);
        w.m[b].scale_rows = high;
        w.m[b].scale_cols = wide;
    }
    return w;
}
void weight_free(struct weight *w) {
    for (int b = 0; b < 2; b++) {
        ops_finish(both[b]);
        ops_free(both[b], w->m[b].data);
        if (w->scales) ops_free(both[b], w->m[b].scale);
    }
    free(w->data);
    free(w->scales);
}
const struct matrix *of(const struct weight *w, const struct ops *o) { return &w->m[o == both[GPU]]; }
