/* The operators compared with plain loops in double, on every instruction set of this machine and with sizes
 * that leave remainders everywhere. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "engine/compute/kernels.h"
#include "engine/cpu/cpu.h"
#include "engine/weights/weights.h"
#include "unit/relative_error.h"
#include "unit/test.h"

static const char *const isas[] = { "portable", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx" };

static float *numbers(const char *name, size_t n) {
    struct weights_stream s = weights_stream_make(3, name, 1.0f, 0.0f);
    float *x = xcalloc(n, sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = weights_stream_at(&s, (uint32_t)i);
    return x;
}

/* Calls check(ops, kernels) once per instruction set of this machine. */
static void on_every_isa(void (*check)(struct ops *o, const struct kernels *k)) {
    struct threads *t = threads_open(3);
    for (size_t i = 0; i < COUNTOF(isas); i++) {
        struct ops *o = cpu_open(t, isas[i]);
        if (!o) continue;
        ops_set_exact(o, true);
        check(o, kernels_named(isas[i]));
        ops_close(o);
    }
    threads_close(t);
}

static struct tensor *upload(struct ops *o, const float *x, size_t n) {
    struct tensor *t = ops_alloc(o, n, TENSOR_ANY);
    ops_upload(o, view_of(t), x, n);
    return t;
}

/* Moves the numbers of t to x and frees t. */
static void download(struct ops *o, float *x, struct tensor *t, size_t n) {
    ops_download(o, x, view_of(t), n);
    ops_free(o, t);
}

/* As weights are: host memory that the backend may use in place. */
static struct tensor *wrap(struct ops *o, const void *data, size_t bytes) {
    struct tensor *t = ops_wrap(o, data, bytes);
    ops_commit(o, t);
    return t;
}

static void *narrow(const float *x, size_t n, enum dtype t) {
    uint16_t *out = xcalloc(n, sizeof *out);
    for (size_t i = 0; i < n; i++) out[i] = t == DTYPE_BF16 ? bf16_from_float(x[i]) : f16_from_float(x[i]);
    return out;
}

static void check_one_linear(struct ops *o, const struct kernels *k, enum dtype t, int m, int out, int in) {
    float *w = numbers("w", (size_t)(out * in)), *x = numbers("x", (size_t)(m * in)),
          *b = numbers("b", (size_t)out);
    float *y = numbers("y", (size_t)(m * out)), *want = numbers("y", (size_t)(m * out));
    void *stored = t == DTYPE_F32 ? w : narrow(w, (size_t)(out * in), t);
    if (t != DTYPE_F32) k->widen(w, stored, t, (size_t)(out * in));
    for (int i = 0; i < m; i++)
        for (int r = 0; r < out; r++) {
            double s = b[r];
            for (int c = 0; c < in; c++) s += (double)w[r * in + c] * x[i * in + c];
            want[i * out + r] += (float)s;
        }
    struct tensor *weights = wrap(o, stored, (size_t)(out * in) * dtype_bytes(t)),
                  *bias = wrap(o, b, (size_t)out * sizeof *b), *dx = upload(o, x, (size_t)(m * in)),
                  *dy = upload(o, y, (size_t)(m * out));
    struct linear l = { { weights, t, out, in }, bias };
    ops_linear(o, "l", &l, view_of(dx), in, m, view_of(dy), out, OPS_ADD);
    download(o, y, dy, (size_t)(m * out));
    ops_free(o, dx);
    ops_free(o, weights);
    ops_free(o, bias);
    CHECK_NEAR(relative_error(y, want, (size_t)(m * out)), 0, 2e-6);
    if (t != DTYPE_F32) free(stored);
    free(w);
    free(x);
    free(b);
    free(y);
    free(want);
}

static void check_linear(struct ops *o, const struct kernels *k) {
    static const int m[] = { 1, 3, 4, 7, 8, 9, 16, 33, 70 },
                     sizes[][2] = { { 1, 5 }, { 13, 37 }, { 100, 64 }, { 61, 129 } };
    for (size_t i = 0; i < COUNTOF(m); i++)
        for (size_t s = 0; s < COUNTOF(sizes); s++)
            for (int t = DTYPE_F32; t <= DTYPE_F16; t++)
                check_one_linear(o, k, (enum dtype)t, m[i], sizes[s][0], sizes[s][1]);
}
TEST(linear_is_right_for_all_types_and_remainders) { on_every_isa(check_linear); }

/* Products of bf16 numbers: with activations that are rounded first, only the order of sums differs. */
static void check_one_bf16_linear(struct ops *o, const struct kernels *k, int m, int out, int in) {
    size_t nx = (size_t)(m * in), nw = (size_t)(out * in), ny = (size_t)(m * out);
    float *w = numbers("w", nw), *x = numbers("x", nx), *want = xcalloc(ny, sizeof *want),
          *y = xcalloc(ny, sizeof *y);
    uint16_t *stored = narrow(w, nw, DTYPE_BF16), *rounded = xcalloc(nx, sizeof *rounded);
    k->narrow(rounded, x, nx);
    for (size_t i = 0; i < nx; i++) CHECK_INT(rounded[i], bf16_from_float(x[i]));
    for (int i = 0; i < m * out; i++) {
        double s = 0;
        for (int c = 0; c < in; c++)
            s += (double)bf16_to_float(stored[i % out * in + c]) *
                 (double)bf16_to_float(rounded[i / out * in + c]);
        want[i] = (float)s;
    }
    struct tensor *weights = wrap(o, stored, nw * 2), *dx = upload(o, x, nx), *dy = upload(o, y, ny);
    struct linear l = { { weights, DTYPE_BF16, out, in }, NULL };
    ops_linear(o, "l", &l, view_of(dx), in, m, view_of(dy), out, OPS_SET);
    download(o, y, dy, ny);
    CHECK_NEAR(relative_error(y, want, ny), 0, 2e-6);
    ops_free(o, dx);
    ops_free(o, weights);
    free(w);
    free(x);
    free(y);
    free(want);
    free(stored);
    free(rounded);
}

static void check_bf16_linear(struct ops *o, const struct kernels *k) {
    static const int m[] = { 9, 32, 33, 70 }, sizes[][2] = { { 1, 6 },    { 13, 38 },   { 100, 64 },
                                                             { 61, 130 }, { 33, 1030 }, { 500, 450 } };
    ops_set_exact(o, false);
    cpu_test_bf16(o);
    for (size_t i = 0; i < COUNTOF(m); i++)
        for (size_t s = 0; s < COUNTOF(sizes); s++)
            check_one_bf16_linear(o, k, m[i], sizes[s][0], sizes[s][1]);
}
TEST(products_of_bf16_pairs_are_right_for_all_remainders) { on_every_isa(check_bf16_linear); }

/* fp8 and int8 with separate scales: per matrix, per row, and per block of columns and rows. */
static void check_one_scaled(struct ops *o, const struct kernels *k, enum dtype t, int m, int scale_rows,
                             int scale_cols, int first_row) {
    enum { OUT = 21, IN = 150 };
    uint8_t stored[OUT * IN];
    int across = (IN + scale_cols - 1) / scale_cols, down = (OUT + first_row + scale_rows - 1) / scale_rows;
    float w[OUT * IN], *x = numbers("x", (size_t)(m * IN)), *scale = numbers("s", (size_t)(across * down));
    float *y = xcalloc((size_t)(m * OUT), sizeof *y), *want = xcalloc((size_t)(m * OUT), sizeof *want);
    for (int i = 0; i < OUT * IN; i++) stored[i] = (uint8_t)(i * 29 % 120); /* no NaN */
    k->widen(w, stored, t, OUT * IN);
    for (int i = 0; i < m * OUT; i++) {
        double s = 0;
        for (int c = 0; c < IN; c++)
            s += (double)w[i % OUT * IN + c] * x[i / OUT * IN + c] *
                 scale[(i % OUT + first_row) / scale_rows * across + c / scale_cols];
        want[i] = (float)s;
    }
    struct tensor *weights = wrap(o, stored, sizeof stored),
                  *scales = wrap(o, scale, (size_t)(across * down) * sizeof *scale),
                  *dx = upload(o, x, (size_t)(m * IN)), *dy = upload(o, y, (size_t)(m * OUT));
    struct linear l = { { weights, t, OUT, IN, scales, scale_rows, scale_cols, first_row }, NULL };
    ops_linear(o, "l", &l, view_of(dx), IN, m, view_of(dy), OUT, OPS_SET);
    download(o, y, dy, (size_t)(m * OUT));
    CHECK_NEAR(relative_error(y, want, (size_t)(m * OUT)), 0, 2e-6);
    ops_free(o, dx);
    ops_free(o, weights);
    ops_free(o, scales);
    free(x);
    free(y);
    free(want);
    free(scale);
}

static void check_scaled(struct ops *o, const struct kernels *k) {
    static const int m[] = { 1, 4, 6, 9, 40 };
    for (size_t i = 0; i < COUNTOF(m); i++)
        for (int t = DTYPE_F8_E4M3; t <= DTYPE_I8; t++) {
            check_one_scaled(o, k, (enum dtype)t, m[i], 21, 150, 0);
            check_one_scaled(o, k, (enum dtype)t, m[i], 1, 150, 0);
            check_one_scaled(o, k, (enum dtype)t, m[i], 8, 64, 0);
            check_one_scaled(o, k, (enum dtype)t, m[i], 8, 64, 5);
        }
}
TEST(linear_is_right_for_fp8_and_int8_with_scales) { on_every_isa(check_scaled); }

/* The host's copy of an attention's operands. */
struct operands {
    const float *q, *k, *v, *rel_h, *rel_w; /* rel_h NULL: no bias */
    const float *sinks;                     /* NULL: none */
};

/* want: softmax(scale q k + bias) v in double, for one query and head. */
static void plain_attention(const struct attention *a, const struct operands *x, int i, int head,
                            float *want) {
    int kv = head / (a->heads / a->kv_heads), last = a->base >= 0 ? MIN(a->nk - 1, a->base + i) : a->nk - 1;
    int first = a->base >= 0 && a->window ? MAX(0, last - a->window + 1) : 0;
    const float *q = x->q + i * a->q_row + head * a->dim_k, *keys = x->k + kv * a->k_head,
                *values = x->v + kv * a->v_head;
    double total = 0, *e = xcalloc((size_t)a->nk, sizeof *e);
    for (int j = first; j <= last; j++) {
        double s = 0, bias = 0;
        for (int d = 0; d < a->dim_k; d++) {
            s += (double)q[d] * keys[j * a->dim_k + d];
            if (!x->rel_h) continue;
            int dy = i / a->side - j / a->side + a->side - 1, dx = i % a->side - j % a->side + a->side - 1;
            bias += q[d] * ((double)x->rel_h[dy * a->dim_k + d] + x->rel_w[dx * a->dim_k + d]);
        }
        double score = s * a->scale + bias;
        e[j] = exp(a->softcap > 0 ? a->softcap * tanh(score / a->softcap) : score);
        total += e[j];
    }
    if (x->sinks) total += exp(x->sinks[head]);
    for (int d = 0; d < a->dim_v; d++) {
        double s = 0;
        for (int j = first; j <= last; j++) s += e[j] * values[j * a->dim_v + d];
        want[d] = (float)(s / total);
    }
    free(e);
}

static void check_one_attention(struct ops *o, struct attention a, const float *rel_h, const float *rel_w) {
    size_t q = (size_t)(a.nq * a.heads * a.dim_k), kv = (size_t)(a.nk * a.kv_heads);
    size_t nk = kv * (size_t)a.dim_k, nv = kv * (size_t)a.dim_v, out = (size_t)(a.nq * a.heads * a.dim_v);
    size_t rel = (size_t)((2 * a.side - 1) * a.dim_k);
    float *x = numbers("q", q), *k = numbers("k", nk), *v = numbers("v", nv);
    float *got = numbers("o", out), *want = numbers("o", out);
    float *sinks = numbers("s", (size_t)a.heads);
    bool with_sinks = a.softcap > 0;
    struct operands host = { x, k, v, rel_h, rel_w, with_sinks ? sinks : NULL };
    struct tensor *tensors[] = { upload(o, x, q),
                                 upload(o, k, nk),
                                 upload(o, v, nv),
                                 upload(o, got, out),
                                 rel_h ? upload(o, rel_h, rel) : NULL,
                                 rel_w ? upload(o, rel_w, rel) : NULL,
                                 with_sinks ? upload(o, sinks, (size_t)a.heads) : NULL };
    a.sinks = tensors[6];
    a.q = view_of(tensors[0]);
    a.k = view_of(tensors[1]);
    a.v = view_of(tensors[2]);
    a.out = view_of(tensors[3]);
    a.rel_h = view_of(tensors[4]);
    a.rel_w = view_of(tensors[5]);
    a.scale = 0.7f;
    a.q_row = a.heads * a.dim_k;
    a.out_row = a.heads * a.dim_v;
    a.k_head = a.nk * a.dim_k;
    a.v_head = a.nk * a.dim_v;
    for (int i = 0; i < a.nq; i++)
        for (int h = 0; h < a.heads; h++)
            plain_attention(&a, &host, i, h, want + (i * a.heads + h) * a.dim_v);
    ops_attention(o, "a", &a);
    ops_download(o, got, a.out, out);
    CHECK_NEAR(relative_error(got, want, out), 0, 3e-6);
    for (size_t i = 0; i < COUNTOF(tensors); i++) ops_free(o, tensors[i]);
    free(sinks);
    free(x);
    free(k);
    free(v);
    free(got);
    free(want);
}

/* A cap, and sinks (see check_one_attention()): many queries, one query, windows. */
static void check_capped_attention(struct ops *o, const struct kernels *isa) {
    (void)isa;
    for (int window = 0; window <= 9; window += 9)
        for (int single = 0; single < 2; single++)
            check_one_attention(o,
                                (struct attention){ .heads = 6,
                                                    .kv_heads = 2,
                                                    .dim_k = 24,
                                                    .dim_v = 36,
                                                    .nq = single ? 1 : 37,
                                                    .nk = 50,
                                                    .base = single ? 49 : 13,
                                                    .window = window,
                                                    .softcap = 0.8f },
                                NULL, NULL);
}
TEST(attention_is_right_with_capped_scores_and_sinks) { on_every_isa(check_capped_attention); }

static void check_attention(struct ops *o, const struct kernels *isa) {
    (void)isa;
    float *h = numbers("h", 9 * 24), *w = numbers("w", 9 * 24);
    struct attention a = {
        .heads = 4, .kv_heads = 2, .dim_k = 24, .dim_v = 20, .nq = 37, .nk = 50, .base = 13
    };
    check_one_attention(o, a, NULL, NULL);
    a.window = 9;
    check_one_attention(o, a, NULL, NULL);
    a.nq = 1;
    a.base = 49;
    check_one_attention(o, a, NULL, NULL);
    a.base = -1;
    a.window = 0;
    a.nq = 25;
    a.nk = 25;
    a.side = 5;
    check_one_attention(o, a, h, w);
    a = (struct attention){
        .heads = 1, .kv_heads = 1, .dim_k = 7, .dim_v = 64, .nq = 300, .nk = 300, .base = 0
    };
    check_one_attention(o, a, NULL, NULL);
    /* several blocks of keys, also with a window that starts inside of a block, a cap and sinks */
    a = (struct attention){
        .heads = 6, .kv_heads = 2, .dim_k = 16, .dim_v = 24, .nq = 70, .nk = 700, .base = 630
    };
    check_one_attention(o, a, NULL, NULL);
    a.window = 300;
    check_one_attention(o, a, NULL, NULL);
    a.softcap = 0.8f;
    check_one_attention(o, a, NULL, NULL);
    free(h);
    free(w);
}
TEST(attention_is_right_causal_windowed_grouped_and_with_positions) { on_every_isa(check_attention); }

static void check_conv(struct ops *o, const struct kernels *k) {
    (void)k;
    enum { H = 7, W = 9, IN = 3, OUT = 5 };
    static const int shapes[][3] = {
        { 3, 1, 1 }, { 3, 2, 1 }, { 1, 1, 0 }, { 2, 2, 0 }
    }; /* side, stride, pad */
    float *x = numbers("x", H * W * IN);
    for (size_t s = 0; s < COUNTOF(shapes); s++) {
        int side = shapes[s][0], stride = shapes[s][1], pad = shapes[s][2];
        int oh = (H + 2 * pad - side) / stride + 1, ow = (W + 2 * pad - side) / stride + 1;
        float *w = numbers("w", (size_t)(OUT * IN * side * side)),
              *got = numbers("g", (size_t)(oh * ow * OUT));
        float *want = numbers("g", (size_t)(oh * ow * OUT));
        for (int i = 0; i < oh * ow * OUT; i++) {
            int oy = i / OUT / ow, ox = i / OUT % ow, f = i % OUT;
            double t = 0;
            for (int c = 0; c < IN * side * side; c++) {
                int y = oy * stride - pad + c % (side * side) / side, z = ox * stride - pad + c % side;
                if (y >= 0 && y < H && z >= 0 && z < W)
                    t += (double)w[f * IN * side * side + c] * x[(y * W + z) * IN + c / (side * side)];
            }
            want[i] = (float)t;
        }
        struct tensor *weights = wrap(o, w, (size_t)(OUT * IN * side * side) * sizeof *w),
                      *image = upload(o, x, H * W * IN), *out = upload(o, got, (size_t)(oh * ow * OUT));
        struct conv c = { { weights, DTYPE_F32, OUT, IN * side * side }, NULL, IN, side, stride, pad };
        ops_conv(o, "c", &c, view_of(image), 1, H, W, view_of(out));
        download(o, got, out, (size_t)(oh * ow * OUT));
        ops_free(o, weights);
        ops_free(o, image);
        CHECK_NEAR(relative_error(got, want, (size_t)(oh * ow * OUT)), 0, 2e-6);
        free(w);
        free(got);
        free(want);
    }
    free(x);
}
TEST(convolution_is_right_with_strides_and_edges) { on_every_isa(check_conv); }

static double plain_glu(enum ops_glu kind, double g, double u) {
    if (kind == OPS_GLU_GELU) return 0.5 * g * (1 + erf(g / sqrt(2))) * u;
    if (kind == OPS_GLU_GELU_TANH)
        return 0.5 * g * (1 + tanh(sqrt(2 / M_PI) * (g + 0.044715 * g * g * g))) * u;
    g = MIN(g, 7.0);
    u = MAX(-7.0, MIN(u, 7.0));
    return g / (1 + exp(-1.702 * g)) * (u + 1);
}

static void check_elementwise(struct ops *o, const struct kernels *k) {
    (void)k;
    enum { N = 1003 };
    float *x = numbers("x", N), *u = numbers("u", N), *got = xcalloc(N, 4), *want = xcalloc(N, 4);
    for (int i = 0; i < N; i++) x[i] *= 12;
    struct tensor *t = upload(o, x, N), *up = upload(o, u, N);
    for (int i = 0; i < N; i++) want[i] = (float)(0.5 * x[i] * (1 + erf(x[i] / sqrt(2))));
    ops_activate(o, OPS_GELU, view_of(t), N);
    ops_download(o, got, view_of(t), N);
    CHECK_NEAR(relative_error(got, want, N), 0, 1e-6);
    for (int i = 0; i < N; i++) want[i] = (float)(x[i] / (1 + exp(-1.702 * x[i])));
    ops_upload(o, view_of(t), x, N);
    ops_activate(o, OPS_QUICK_GELU, view_of(t), N);
    ops_download(o, got, view_of(t), N);
    CHECK_NEAR(relative_error(got, want, N), 0, 1e-6);
    for (int i = 0; i < N; i++) want[i] = (float)(x[i] / (1 + exp(-(double)x[i])) * u[i]);
    ops_upload(o, view_of(t), x, N);
    ops_glu(o, OPS_GLU_SILU, view_of(t), view_of(up), N);
    download(o, got, t, N);
    CHECK_NEAR(relative_error(got, want, N), 0, 1e-6);
    for (int kind = OPS_GLU_GELU; kind <= OPS_GLU_CLAMPED; kind++) {
        for (int i = 0; i < N; i++) want[i] = (float)plain_glu((enum ops_glu)kind, x[i], u[i]);
        t = upload(o, x, N);
        ops_glu(o, (enum ops_glu)kind, view_of(t), view_of(up), N);
        download(o, got, t, N);
        CHECK_NEAR(relative_error(got, want, N), 0, 2e-6);
    }
    for (int i = 0; i < N; i++) want[i] = (float)(3 * tanh(x[i] / 3.0));
    t = upload(o, x, N);
    ops_adjust(o, OPS_SOFTCAP, 3.0f, view_of(t), N);
    download(o, got, t, N);
    CHECK_NEAR(relative_error(got, want, N), 0, 1e-6);
    ops_free(o, up);
    free(x);
    free(u);
    free(got);
    free(want);
}
TEST(activations_are_right_to_the_last_bits) { on_every_isa(check_elementwise); }

/* A softmax over values that are far apart must not become NaN or lose its sum. */
static void check_softmax(struct ops *o, const struct kernels *k) {
    (void)o;
    float x[] = { -1e30f, 0, 100, 100, -INFINITY };
    k->softmax(x, COUNTOF(x));
    CHECK_NEAR(x[0] + x[1] + x[4], 0, 1e-30);
    CHECK_NEAR(x[2], 0.5, 1e-7);
}
TEST(softmax_survives_extremes) { on_every_isa(check_softmax); }

TEST(half_floats_widen_exactly) {
    for (uint32_t h = 0; h < 0x7c00; h += 7) { /* every seventh finite number, both signs */
        for (int sign = 0; sign < 2; sign++) {
            uint16_t bits[16];
            float wide[16];
            double want =
                ldexp((double)(h & 0x3ff) + (h >= 0x400 ? 1024 : 0), (h >= 0x400 ? (int)(h >> 10) : 1) - 25);
            for (int i = 0; i < 16; i++) bits[i] = (uint16_t)(h | (uint32_t)sign << 15);
            kernels_pick()->widen(wide, bits, DTYPE_F16, 16);
            CHECK(wide[0] == (float)(sign ? -want : want) && wide[15] == wide[0]);
            CHECK_INT(f16_from_float(wide[0]), bits[0]);
        }
    }
}

TEST(fp8_numbers_are_the_nearest_ones) {
    float wide[256];
    uint8_t codes[256];
    for (int i = 0; i < 256; i++) codes[i] = (uint8_t)i;
    kernels_pick()->widen(wide, codes, DTYPE_F8_E4M3, 256);
    for (int i = 0; i < 0x7e; i++) {
        float middle = (wide[i] + wide[i + 1]) / 2; /* exact; a tie goes to the even code */
        CHECK_INT(f8_from_float(wide[i]), i);
        CHECK_INT(f8_from_float(-wide[i]), i | 0x80);
        CHECK_INT(f8_from_float(middle), i + i % 2);
        CHECK_INT(f8_from_float(nextafterf(middle, 0)), i);
        CHECK_INT(f8_from_float(nextafterf(middle, 1000)), i + 1);
    }
    CHECK_INT(f8_from_float(448), 0x7e);
    CHECK_INT(f8_from_float(-1e6f), 0xfe);
}

static void check_generator(struct ops *o, const struct kernels *k) {
    (void)o;
    struct weights_stream s = weights_stream_make(9, "some.weight", 0.3f, 0.0f);
    float f[77];
    uint16_t h[77];
    k->generate(f, DTYPE_F32, s.a, s.b, s.scale, 1000, 77);
    k->generate(h, DTYPE_BF16, s.a, s.b, s.scale, 1000, 77);
    for (uint32_t i = 0; i < 77; i++) {
        CHECK(f[i] == weights_stream_at(&s, 1000 + i));
        CHECK_INT(h[i], bf16_from_float(f[i]));
    }
}
TEST(synthetic_weights_are_the_same_on_every_isa) { on_every_isa(check_generator); }

struct count_job {
    int hits[1000];
};
static void count_task(void *job, int task, int worker) {
    (void)worker;
    ((struct count_job *)job)->hits[task]++;
}
TEST(threads_run_every_task_once) {
    struct threads *t = threads_open(4);
    struct count_job j = { { 0 } };
    for (int round = 0; round < 200; round++) threads_run(t, count_task, &j, round % 1000);
    for (int i = 0; i < 1000; i++) CHECK_INT(j.hits[i], i < 199 ? 199 - i : 0);
    threads_close(t);
}

static const struct ops_backend *wrapped;
static struct tensor *alloc_narrow_as_floats(void *context, size_t numbers) {
    return wrapped->alloc(context, numbers, TENSOR_ANY);
}

/* Only backends of GPUs have 16-bit tensors. This one adds them to the CPU's. */
TEST(tensors_of_16_bit_numbers_are_counted_and_freed_like_others) {
    struct threads *t = threads_open(1);
    struct ops *o = cpu_open(t, "portable");
    struct ops_backend backend = *o->backend;
    const uint64_t *bytes = &o->memory_bytes[TRACE_MEMORY_WORKSPACE];
    uint64_t before = *bytes;
    wrapped = o->backend;
    backend.alloc_narrow = alloc_narrow_as_floats;
    o->backend = &backend;
    struct tensor *a = ops_alloc(o, 10, TENSOR_ANY), *b = ops_alloc_narrow(o, 100);
    struct tensor *c = ops_alloc(o, 20, TENSOR_ANY), *d = ops_alloc_narrow(o, 7);
    CHECK_INT(*bytes - before, 40 + 200 + 80 + 14);
    ops_free(o, b);
    CHECK_INT(*bytes - before, 40 + 80 + 14);
    ops_free(o, d);
    ops_free(o, c);
    CHECK_INT(*bytes - before, 40);
    ops_free(o, a);
    CHECK_INT(*bytes, before);
    ops_close(o);
    threads_close(t);
}
