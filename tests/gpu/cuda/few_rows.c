/* Products of few rows (skinny.cu) against sums in double on the CPU, and their speed. */
#include "gpu/cuda/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/util.h"
#include "engine/compute/kernels.h"
#include "engine/cuda/skinny.h"

static uint16_t *narrow_numbers(size_t n, float size) {
    float *v = numbers(n, size);
    uint16_t *out = xmalloc(n * sizeof *out);
    for (size_t i = 0; i < n; i++) out[i] = bf16_from_float(v[i]);
    free(v);
    return out;
}

enum { SKINNY_MATRICES = 3 };
struct skinny_case {
    int batch, k, n, rows[SKINNY_MATRICES];
    bool paired, bias, fp8;
};

static double number_of(const struct weight *w, int row, int column) {
    const struct matrix *m = &w->m[0];
    size_t at = (size_t)row * (size_t)m->cols + (size_t)column;
    if (m->type == DTYPE_BF16) return (double)bf16_to_float(((const uint16_t *)w->data)[at]);
    float f;
    int across = (m->cols + m->scale_cols - 1) / m->scale_cols;
    kernels_portable.widen(&f, (const uint8_t *)w->data + at, m->type, 1);
    return (double)f * (double)w->scales[row / m->scale_rows * across + column / m->scale_cols];
}

/* The rows of all matrices, computed on the CPU. */
static float *skinny_expected(const struct skinny_case *t, const uint16_t *x, const struct weight *w,
                              float *const *bias) {
    int all = 0, first = 0;
    for (int m = 0; m < t->n; m++) all += t->rows[m];
    float *out = xcalloc((size_t)t->batch * (size_t)all, sizeof *out);
    for (int m = 0; m < t->n; first += t->rows[m++])
        for (int b = 0; b < t->batch; b++)
            for (int r = 0; r < t->rows[m]; r++) {
                const uint16_t *in = x + (size_t)b * (size_t)t->k;
                double sum = t->bias ? (double)bias[m][r] : 0;
                for (int i = 0; i < t->k; i++) sum += number_of(&w[m], r, i) * (double)bf16_to_float(in[i]);
                out[(size_t)b * (size_t)all + (size_t)(first + r)] = (float)sum;
            }
    if (!t->paired) return out;
    for (int b = 0; b < t->batch; b++)
        for (int r = 0; r < t->rows[0]; r++) {
            const float *at = out + (size_t)b * (size_t)all + r;
            float gate = at[0], up = at[t->rows[0]];
            out[(size_t)b * (size_t)t->rows[0] + (size_t)r] = gate / (1 + expf(-gate)) * up;
        }
    return out;
}

static void check_skinny(struct skinny_case t) {
    struct cuda *c = both[GPU]->context;
    struct weight w[SKINNY_MATRICES];
    struct linear l[SKINNY_MATRICES];
    const struct linear *list[SKINNY_MATRICES];
    float *bias[SKINNY_MATRICES];
    size_t all = 0, batch = (size_t)t.batch, xn = batch * (size_t)t.k;
    for (int m = 0; m < t.n; m++) {
        bias[m] = numbers((size_t)t.rows[m], 1);
        w[m] = weight_make(t.rows[m], t.k, t.fp8 ? DTYPE_F8_E4M3 : DTYPE_BF16);
        l[m] =
            (struct linear){ w[m].m[1], t.bias ? ops_alloc(both[GPU], (size_t)t.rows[m], TENSOR_ANY) : NULL };
        if (t.bias) ops_upload(both[GPU], view_of(l[m].bias), bias[m], (size_t)t.rows[m]);
        list[m] = &l[m];
        all += (size_t)t.rows[m];
    }
    size_t n = t.paired ? batch * (size_t)t.rows[0] : batch * all, room = batch * all * PARTS_MOST;
    uint16_t *x = narrow_numbers(xn, 1), *narrow = xcalloc(n, sizeof *narrow);
    struct tensor *there = ops_alloc_narrow(both[GPU], xn), *y = ops_alloc(both[GPU], room, TENSOR_ZERO);
    float *got[2], *parts = xcalloc(room, sizeof *parts);
    cuda_copy_in(c, pointer_of(there), x, xn * 2);
    for (int round = 0; round < 2; round++) {
        got[round] = xcalloc(n, sizeof **got);
        cuda_ok(c, c->d->set_words(y->data, 0xffffffffu, room, c->stream), "clearing memory"); /* NaN */
        int sums = cuda_skinny(c, &(struct skinny){ .x = pointer_of(there),
                                                    .l = list,
                                                    .n = t.n,
                                                    .batch = t.batch,
                                                    .y = pointer_of(y),
                                                    .parts = PARTS_MOST,
                                                    .narrow = t.paired ? pointer_of(y) : NULL });
        if (t.paired) {
            cuda_copy_out(c, narrow, pointer_of(y), n * sizeof *narrow);
            for (size_t i = 0; i < n; i++) got[round][i] = bf16_to_float(narrow[i]);
        } else {
            cuda_copy_out(c, parts, pointer_of(y), (size_t)sums * n * sizeof *parts);
            for (size_t i = 0; i < n; i++)
                for (int p = 0; p < sums; p++) got[round][i] += parts[(size_t)p * n + i];
        }
    }
    float *expected = skinny_expected(&t, x, w, bias);
    char name[96];
    snprintf(name, sizeof name, "few rows%s [%d,%d]x[%zu,%d]%s%s", t.fp8 ? ", fp8" : "", t.batch, t.k, all,
             t.k, t.bias ? " bias" : "", t.paired ? " silu" : "");
    report(name, expected, got[0], n, t.paired ? 5e-3 : 1e-5);
    bool same = memcmp(got[0], got[1], n * sizeof **got) == 0;
    if (!same) printf("FAIL %s: a second run gives other bits\n", name);
    failures += !same;
    struct err err;
    if (ops_check(both[GPU], &err) < 0) die("%s", err.msg);
    for (int m = 0; m < t.n; m++) {
        weight_free(&w[m]);
        if (t.bias) ops_free(both[GPU], l[m].bias);
        free(bias[m]);
    }
    ops_free(both[GPU], there);
    ops_free(both[GPU], y);
    void *all_memory[] = { x, narrow, parts, expected, got[0], got[1] };
    for (size_t i = 0; i < COUNTOF(all_memory); i++) free(all_memory[i]);
}

static void check_few_rows(void) {
    static const int batches[] = { 2, 8, 9, 17, 32 };
    for (size_t i = 0; i < COUNTOF(batches); i++) {
        int b = batches[i];
        check_skinny((struct skinny_case){ b, 320, 3, { 256, 64, 48 }, .bias = true });
        check_skinny((struct skinny_case){ b, 1288, 1, { 1280 } });
        check_skinny((struct skinny_case){ b, 72, 1, { 16 } });
        check_skinny((struct skinny_case){ b, 256, 1, { 8 } });    /* routers of 8 experts */
        check_skinny((struct skinny_case){ b, 256, 1, { 1003 } }); /* vocabularies of any size */
        check_skinny((struct skinny_case){ b, 512, 2, { 336, 336 }, .paired = true });
        check_skinny((struct skinny_case){ b, 256, 1, { 40000 } }); /* several tasks per block */
        check_skinny((struct skinny_case){ b, 320, 3, { 256, 64, 48 }, .bias = true, .fp8 = true });
        check_skinny((struct skinny_case){ b, 1344, 1, { 1280 }, .fp8 = true });
        check_skinny((struct skinny_case){ b, 80, 1, { 16 }, .fp8 = true });
        check_skinny((struct skinny_case){ b, 512, 2, { 336, 336 }, .paired = true, .fp8 = true });
        check_skinny((struct skinny_case){ b, 256, 1, { 40000 }, .fp8 = true });
        fp8_block = fp8_rows;
        check_skinny((struct skinny_case){ b, 320, 3, { 256, 64, 48 }, .bias = true, .fp8 = true });
        check_skinny((struct skinny_case){ b, 512, 2, { 336, 336 }, .paired = true, .fp8 = true });
        fp8_block = fp8_matrices;
        check_skinny((struct skinny_case){ b, 320, 3, { 256, 64, 48 }, .bias = true, .fp8 = true });
        fp8_block = fp8_blocks;
    }
}

/* Reads of weights as in a step: each matrix follows others, so that the L2 cache does not have it. */
enum { MOST_COPIES = 8 };
struct skinny_time {
    struct linear l[MOST_COPIES][2];
    int copies, n, batch, ring_kb;
    struct tensor *x, *y;
    bool paired;
};
static double seconds_of_skinny(const struct skinny_time *t) {
    enum { FIRST = 4, TIMES = 40 };
    uint64_t start = 0;
    for (int i = 0; i < FIRST + TIMES; i++) {
        const struct linear *const list[] = { &t->l[i % t->copies][0], &t->l[i % t->copies][1] };
        if (i == FIRST) {
            ops_finish(both[GPU]);
            start = clock_mono_ns();
        }
        cuda_skinny(both[GPU]->context, &(struct skinny){ .x = pointer_of(t->x),
                                                          .l = list,
                                                          .n = t->n,
                                                          .batch = t->batch,
                                                          .y = pointer_of(t->y),
                                                          .parts = t->paired ? 1 : PARTS_MOST,
                                                          .narrow = t->paired ? pointer_of(t->y) : NULL,
                                                          .ring_bytes = t->ring_kb << 10 });
    }
    ops_finish(both[GPU]);
    return (double)(clock_mono_ns() - start) / 1e9 / TIMES;
}

static void time_skinny(const char *name, int k, int n, int rows, bool paired) {
    static const int batches[] = { 8, 32 }, rings_kb[] = { 56, 84, 112, 168, 220 };
    double bytes = (double)n * rows * k * 2;
    size_t xn = (size_t)MOST_BATCH * (size_t)k, yn = (size_t)MOST_BATCH * (size_t)(n * rows) * PARTS_MOST;
    struct weight w[MOST_COPIES][2];
    struct skinny_time t = { .copies = MIN(MAX((int)(250e6 / bytes), 1), (int)MOST_COPIES),
                             .n = n,
                             .x = ops_alloc_narrow(both[GPU], xn),
                             .y = ops_alloc(both[GPU], yn, TENSOR_ANY),
                             .paired = paired };
    uint16_t *x = narrow_numbers(xn, 1);
    cuda_copy_in(both[GPU]->context, pointer_of(t.x), x, xn * sizeof *x);
    for (int i = 0; i < t.copies; i++)
        for (int m = 0; m < n; m++) {
            w[i][m] = weight_make(rows, k, DTYPE_BF16);
            t.l[i][m] = (struct linear){ w[i][m].m[1], NULL };
        }
    for (size_t b = 0; b < COUNTOF(batches); b++) {
        t.batch = batches[b];
        printf("%-5s batch %2d, %6.1f MB, us (TB/s) with rings of", name, t.batch, bytes / 1e6);
        for (size_t i = 0; i < COUNTOF(rings_kb); i++) {
            t.ring_kb = rings_kb[i];
            double s = seconds_of_skinny(&t);
            printf("  %d kB %.1f (%.2f)", rings_kb[i], s * 1e6, bytes / s / 1e12);
        }
        printf("\n");
        fflush(stdout);
    }
    for (int i = 0; i < t.copies; i++)
        for (int m = 0; m < n; m++) weight_free(&w[i][m]);
    ops_free(both[GPU], t.x);
    ops_free(both[GPU], t.y);
    free(x);
}
/* Qwen3-8B. */
static void time_few_rows(void) {
    time_skinny("qkv", 4096, 1, 6144, false);
    time_skinny("out", 4096, 1, 4096, false);
    time_skinny("up", 4096, 2, 12288, true);
    time_skinny("down", 12288, 1, 4096, false);
}

void check_skinny_only(void) {
    struct err err;
    if (!((struct cuda *)both[GPU]->context)->hopper) die("skinny: this needs a Hopper GPU");
    if (!cuda_skinny_load(both[GPU]->context)) die("%s", ops_check(both[GPU], &err) < 0 ? err.msg : "skinny");
    check_few_rows();
}
/* Correct results first: a wrong product needs no time. */
void check_and_time_skinny(void) {
    check_skinny_only();
    if (!failures) time_few_rows();
}
