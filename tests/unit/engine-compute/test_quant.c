/* Quantised types: every type compared with the numbers of the `gguf` package (tests/oracle/gguf_types.py),
 * or of PyTorch (tests/oracle/safetensors_types.py). */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/jsonr.h"
#include "base/util.h"
#include "engine/compute/kernels.h"
#include "unit/test.h"

static const char *const isas[] = { "portable", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx" };

struct sample {
    enum dtype type;
    uint8_t *bytes;
    float *numbers;
    size_t n;
};

static struct sample sample_of(const json_t *root, enum dtype type) {
    const json_t *one = json_object_get(root, dtype_name(type)), *bits = json_object_get(one, "bits");
    const char *hex = json_string_value(json_object_get(one, "bytes"));
    struct sample s = { .type = type, .n = json_array_size(bits) };
    size_t bytes = hex ? strlen(hex) / 2 : 0;
    CHECK_INT(bytes, dtype_size(type, s.n));
    CHECK(bytes > 0);
    s.bytes = xcalloc(bytes, 1);
    s.numbers = xcalloc(s.n, sizeof *s.numbers);
    for (size_t i = 0; i < bytes; i++) {
        char two[3] = { hex[2 * i], hex[2 * i + 1], 0 };
        s.bytes[i] = (uint8_t)strtoul(two, NULL, 16);
    }
    for (size_t i = 0; i < s.n; i++)
        s.numbers[i] = bits_float((uint32_t)json_integer_value(json_array_get(bits, i)));
    return s;
}

static void each_sample(void (*check)(const struct kernels *k, const struct sample *s)) {
    struct err err;
    json_t *root = jsonr_load_path("tests/data/engine/gguf_types.json", 1 << 20, &err);
    json_t *more = jsonr_load_path("tests/data/engine/safetensors_types.json", 1 << 20, &err);
    if (!root || !more) fail_msg("%s", err.msg);
    json_object_update(root, more);
    json_decref(more);
    for (int t = DTYPE_BF16; t < DTYPES_END; t++) {
        struct sample s = sample_of(root, (enum dtype)t);
        for (size_t i = 0; i < COUNTOF(isas); i++)
            if (kernels_named(isas[i])) check(kernels_named(isas[i]), &s);
        free(s.bytes);
        free(s.numbers);
    }
    json_decref(root);
}

/* K types are products of three numbers, whose order of rounding is free. */
static void check_widen(const struct kernels *k, const struct sample *s) {
    float *got = xcalloc(s->n, sizeof *got);
    k->widen(got, s->bytes, s->type, s->n);
    for (size_t i = 0; i < s->n; i++)
        if (!(fabsf(got[i] - s->numbers[i]) <= 4e-7f * (1 + fabsf(s->numbers[i]))))
            fail_msg("%s %s: number %zu is %.9g, expected %.9g", k->name, dtype_name(s->type), i,
                     (double)got[i], (double)s->numbers[i]);
    free(got);
}

TEST(every_stored_type_has_the_numbers_of_its_definition) { each_sample(check_widen); }

/* One to four rows of x. */
static void check_dots(const struct kernels *k, const struct sample *s) {
    enum { M = 4 };
    float *x = xcalloc(M * s->n, sizeof *x), got[M];
    for (size_t i = 0; i < M * s->n; i++) x[i] = sinf((float)i * 0.7f);
    for (int m = 1; m <= M; m++) {
        k->dots(s->bytes, s->type, 1, (int)s->n, x, (ptrdiff_t)s->n, m, got, 1);
        for (int j = 0; j < m; j++) {
            double want = 0, size = 0;
            for (size_t i = 0; i < s->n; i++) {
                want += (double)s->numbers[i] * (double)x[(size_t)j * s->n + i];
                size += fabs((double)s->numbers[i] * (double)x[(size_t)j * s->n + i]);
            }
            if (!(fabs((double)got[j] - want) <= 1e-6 * size))
                fail_msg("%s %s: dot %d of %d is %.9g, expected %.9g", k->name, dtype_name(s->type), j, m,
                         (double)got[j], want);
        }
    }
    free(x);
}

TEST(products_of_every_stored_type_equal_a_plain_sum) { each_sample(check_dots); }

/* Integer products: exact for activations that 8 bits hold, up to the rounding of floats. */
static void check_qdots(const struct kernels *k, const struct sample *s) {
    enum { M = 4 };
    if (!dtype_is_blocks(s->type)) return;
    float *x = xcalloc(M * s->n, sizeof *x), got[M];
    struct q8_rows q = { .q = xcalloc(M, s->n), .stride = (ptrdiff_t)s->n };
    q.d = xcalloc(M * s->n / 32, sizeof *q.d);
    q.sums = xcalloc(M * s->n / 16, sizeof *q.sums);
    for (size_t i = 0; i < M * s->n; i++) {
        int v = i % 32 ? (int)(i * 37 % 255) - 127 : 127; /* 127 in each group, so that its scale is 1/64 */
        x[i] = (float)v / 64;
    }
    for (size_t j = 0; j < M; j++) {
        struct q8_rows row = { q.q + j * s->n, q.d + j * s->n / 32, q.sums + j * s->n / 16, q.stride };
        k->quantize(&row, x + j * s->n, (int)s->n);
    }
    for (int m = 1; m <= M; m++) {
        k->qdots(s->bytes, s->type, 1, (int)s->n, &q, m, got, 1);
        for (int j = 0; j < m; j++) {
            double want = 0, size = 0;
            for (size_t i = 0; i < s->n; i++) {
                want += (double)s->numbers[i] * (double)x[(size_t)j * s->n + i];
                size += fabs((double)s->numbers[i] * (double)x[(size_t)j * s->n + i]);
            }
            if (!(fabs((double)got[j] - want) <= 4e-6 * size))
                fail_msg("%s %s: dot %d of %d is %.9g, expected %.9g", k->name, dtype_name(s->type), j, m,
                         (double)got[j], want);
        }
    }
    free(x);
    free(q.q);
    free(q.d);
    free(q.sums);
}

TEST(integer_products_of_every_quantised_type_equal_a_plain_sum) { each_sample(check_qdots); }

/* One row of activations and `rows` rows of weights, which are the blocks of the sample in different orders:
 * four rows are computed together, the last ones alone. */
static void check_qrows(const struct kernels *k, const struct sample *s, int rows, size_t cols) {
    struct dtype_info info = dtype_info(s->type);
    size_t blocks = s->n / info.numbers, across = cols / info.numbers;
    float *x = xcalloc(cols, sizeof *x), *got = xcalloc((size_t)rows, sizeof *got);
    double *want = xcalloc((size_t)rows, sizeof *want), *size = xcalloc((size_t)rows, sizeof *size);
    uint8_t *w = xcalloc((size_t)rows * across, info.bytes);
    struct q8_rows q = { xcalloc(cols, 1), xcalloc(cols / 32, sizeof *q.d),
                         xcalloc(cols / 16, sizeof *q.sums), (ptrdiff_t)cols };
    for (size_t i = 0; i < cols; i++) x[i] = (float)(i % 32 ? (int)(i * 37 % 255) - 127 : 127) / 64;
    k->quantize(&q, x, (int)cols);
    for (size_t r = 0; r < (size_t)rows; r++)
        for (size_t b = 0; b < across; b++) {
            size_t from = (r * 5 + b * 3) % blocks;
            if ((r + b) % 3 == 2) continue; /* zeros, so that rows differ in samples of one block too */
            memcpy(w + (r * across + b) * info.bytes, s->bytes + from * info.bytes, info.bytes);
            for (size_t i = 0; i < info.numbers; i++) {
                double product =
                    (double)s->numbers[from * info.numbers + i] * (double)x[b * info.numbers + i];
                want[r] += product;
                size[r] += fabs(product);
            }
        }
    k->qdots(w, s->type, rows, (int)cols, &q, 1, got, rows);
    for (int r = 0; r < rows; r++)
        if (!(fabs((double)got[r] - want[r]) <= 4e-6 * size[r]))
            fail_msg("%s %s, %zu columns: row %d of %d is %.9g, expected %.9g", k->name, dtype_name(s->type),
                     cols, r, rows, (double)got[r], want[r]);
    free(x);
    free(got);
    free(want);
    free(size);
    free(w);
    free(q.q);
    free(q.d);
    free(q.sums);
}
static void check_several_rows(const struct kernels *k, const struct sample *s) {
    if (!dtype_is_blocks(s->type)) return;
    check_qrows(k, s, 11, 512);
    check_qrows(k, s, 3, 256);
    if (dtype_info(s->type).numbers == 32) check_qrows(k, s, 9, 288);
}

TEST(integer_products_of_several_rows_equal_a_plain_sum) { each_sample(check_several_rows); }

/* Rounding to 8 bits is the same on every instruction set, also of zeros and of halves. */
static void check_rounding(const struct kernels *k, const struct sample *s) {
    enum { N = 128 };
    float x[N], d[2][N / 32] = { { 0 } };
    int8_t q[2][N] = { { 0 } };
    int16_t sums[2][N / 16] = { { 0 } };
    for (int i = 0; i < N; i++) x[i] = i < 32 ? 0 : (float)((i * 7919) % 509 - 254) / 2;
    x[32] = 127; /* the numbers of this group are halves and whole numbers */
    for (int i = 33; i < 64; i++) x[i] = (float)(i - 48) / 2;
    for (int i = 0; i < 2; i++) {
        struct q8_rows out = { q[i], d[i], sums[i], N };
        (i ? k : &kernels_portable)->quantize(&out, x, N);
    }
    (void)s;
    CHECK_MEM(q[0], q[1], sizeof q[0]);
    CHECK_MEM(d[0], d[1], sizeof d[0]);
    CHECK_MEM(sums[0], sums[1], sizeof sums[0]);
}

TEST(activations_are_rounded_alike_on_every_instruction_set) { each_sample(check_rounding); }
