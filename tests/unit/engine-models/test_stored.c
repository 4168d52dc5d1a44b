/* Weights that files store in another way than as plain floats: fp8 and int8 with scales, and the stacked
 * experts of gpt_oss. Each is compared with the same numbers as floats. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/jsonr.h"
#include "base/strbuf.h"
#include "base/util.h"
#include "engine/compute/kernels.h"
#include "engine/cpu/cpu.h"
#include "engine/weights/weights.h"
#include "unit/engine-models/fixture.h"
#include "unit/test.h"

/* A safetensors file that is being written. */
struct writer {
    struct strbuf head, data;
};

static void put(struct writer *w, const char *name, const char *type, const char *shape, const void *data,
                size_t bytes) {
    strbuf_addf(&w->head, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                w->head.len ? "," : "{", name, type, shape, w->data.len, w->data.len + bytes);
    strbuf_add(&w->data, data, bytes);
}

static void finish(struct writer *w, const char *dir) {
    struct strbuf all = STRBUF_INIT;
    struct err err;
    char *path = file_join(dir, "model.safetensors");
    strbuf_addch(&w->head, '}');
    while (w->head.len % 8) strbuf_addch(&w->head, ' ');
    uint64_t n = w->head.len;
    strbuf_add(&all, &n, 8);
    strbuf_add(&all, w->head.buf, w->head.len);
    strbuf_add(&all, w->data.buf, w->data.len);
    if (file_write_atomic(path, all.buf, all.len, &err) < 0) fail_msg("%s", err.msg);
    strbuf_free(&w->head);
    strbuf_free(&w->data);
    strbuf_free(&all);
    free(path);
}

/* Which quantised types a device has; the others are expanded. */
enum device { HAS_ALL, HAS_FP8, HAS_NONE };

/* Opens the CPU as such a device; *backend must exist as long as the result. */
static struct ops *open_as(enum device device, struct threads *t, struct ops_backend *backend) {
    struct ops *o = cpu_open(t, NULL);
    *backend = *o->backend;
    backend->quantised = device == HAS_ALL;
    backend->fp8 = device == HAS_FP8;
    o->backend = backend;
    return o;
}

/* Rows of a matrix, as a part of it is read. */
struct part {
    int all_rows, first, rows, cols;
    enum dtype type; /* set by read_part() */
};

/* Reads part of one matrix of the folder with the engine's own reader and multiplies it with unit vectors,
 * which gives its numbers as the engine sees them. NULL: the message is in err. */
static float *read_part(enum device device, const char *dir, const char *name, struct part *part,
                        struct err *err) {
    int rows = part->rows, cols = part->cols;
    struct threads *t = threads_open(1);
    struct ops_backend backend;
    struct ops *o = open_as(device, t, &backend);
    float *out = NULL;
    ops_set_exact(o, true);
    struct weights *w = weights_open_files(o, dir, err);
    if (w) {
        weights_allow_fp8(w, WEIGHTS_FP8);
        struct linear l = { .w = weights_rows(w, part->all_rows, part->first, rows, cols, "%s", name) };
        part->type = l.w.type;
        if (weights_finish(w, t, NULL, NULL, err) == 0) {
            float *one = xcalloc((size_t)(cols * cols), sizeof *one),
                  *got = xcalloc((size_t)(rows * cols), 4);
            for (int i = 0; i < cols; i++) one[i * cols + i] = 1.0f;
            struct tensor *x = fixture_upload(o, one, (size_t)(cols * cols)),
                          *y = fixture_upload(o, NULL, (size_t)(rows * cols));
            ops_linear(o, "l", &l, view_of(x), cols, cols, view_of(y), rows, OPS_SET);
            ops_download(o, got, view_of(y), (size_t)(rows * cols)); /* [cols][rows] */
            out = xcalloc((size_t)(rows * cols), sizeof *out);
            for (int i = 0; i < rows * cols; i++) out[i] = got[i % cols * rows + i / cols];
            ops_free(o, x);
            ops_free(o, y);
            free(one);
            free(got);
        }
    }
    weights_close(w);
    ops_close(o);
    threads_close(t);
    return out;
}

static float *read_for(enum device device, const char *dir, const char *name, int rows, int cols,
                       struct err *err) {
    struct part all = { rows, 0, rows, cols, DTYPE_F32 };
    return read_part(device, dir, name, &all, err);
}

static float *read_matrix(const char *dir, const char *name, int rows, int cols, struct err *err) {
    return read_for(HAS_ALL, dir, name, rows, cols, err);
}

enum { ROWS = 130, COLS = 144 }; /* two blocks of 128 each way */

/* want[r][c] = number times scale[r / block_rows][c / block_cols] factor */
static void check_scaled(const char *type, const char *scale_name, const char *scale_shape, int block_rows,
                         int block_cols, float factor) {
    static uint8_t codes[ROWS * COLS];
    static float plain[ROWS * COLS];
    struct writer w = { STRBUF_INIT, STRBUF_INIT };
    struct err err = { "" };
    bool fp8 = strcmp(type, "F8_E4M3") == 0;
    int across = (COLS + block_cols - 1) / block_cols, n = (ROWS + block_rows - 1) / block_rows * across;
    float scale[ROWS];
    for (int i = 0; i < n; i++) scale[i] = 0.01f + 0.003f * (float)i;
    for (int i = 0; i < ROWS * COLS; i++) codes[i] = (uint8_t)(fp8 ? i * 7 % 127 : i * 7 % 256);
    kernels_portable.widen(plain, codes, fp8 ? DTYPE_F8_E4M3 : DTYPE_I8, ROWS * COLS);
    put(&w, "a.weight", type, "130,144", codes, sizeof codes);
    put(&w, scale_name, "F32", scale_shape, scale, (size_t)n * sizeof *scale);
    char *dir = test_tmpdir();
    finish(&w, dir);
    float *got = read_matrix(dir, "a.weight", ROWS, COLS, &err);
    if (!got) fail_msg("%s", err.msg);
    for (int i = 0; i < ROWS * COLS; i++) {
        float want = plain[i] * (scale[i / COLS / block_rows * across + i % COLS / block_cols] * factor);
        if (!(fabsf(got[i] - want) <= 1e-6f * fabsf(want))) fail_msg("%s, number %d", scale_name, i);
    }
    float *expanded = read_for(HAS_NONE, dir, "a.weight", ROWS, COLS, &err);
    if (!expanded) fail_msg("%s", err.msg);
    for (int i = 0; i < ROWS * COLS; i++) { /* bf16: rounded to 8 bits */
        float want = bf16_to_float(bf16_from_float(got[i]));
        if (!(fabsf(expanded[i] - want) <= 1e-2f * fabsf(want))) fail_msg("%s, expanded %d", scale_name, i);
    }
    free(expanded);
    float *kept = fp8 ? read_for(HAS_FP8, dir, "a.weight", ROWS, COLS, &err) : NULL;
    CHECK(!kept || memcmp(kept, got, ROWS * COLS * sizeof *got) == 0); /* not rounded to bf16 */
    free(kept);
    free(got);
    free(dir);
}

TEST(fp8_and_int8_weights_are_multiplied_by_their_scales) {
    check_scaled("F8_E4M3", "a.weight_scale", "1", ROWS, COLS, 1);
    check_scaled("F8_E4M3", "a.weight_scale", "", ROWS, COLS, 1);
    check_scaled("F8_E4M3", "a.weight_scale_inv", "2,2", 128, 128, 1);
    check_scaled("F8_E4M3", "a.weight_scale", "130,1", 1, COLS, 1);
    check_scaled("I8", "a.weight_scale", "130,1", 1, COLS, 1);
    check_scaled("I8", "a.SCB", "130", 1, COLS, 1.0f / 127);
}

/* Parts of a fused matrix have the scales of their rows. A GPU expands those that begin in the middle of a
 * block and do not end in it. */
static void check_parts(const char *scale_shape, int block_rows, int block_cols) {
    static const struct part parts[] = {
        { ROWS, 0, 64, COLS, DTYPE_F32 },  { ROWS, 64, 64, COLS, DTYPE_F32 },
        { ROWS, 128, 2, COLS, DTYPE_F32 }, { ROWS, 64, 66, COLS, DTYPE_F32 },
        { ROWS, 5, 120, COLS, DTYPE_F32 }, { ROWS, 129, 1, COLS, DTYPE_F32 }
    };
    static uint8_t codes[ROWS * COLS];
    float scale[ROWS];
    struct writer w = { STRBUF_INIT, STRBUF_INIT };
    struct err err = { "" };
    int n = (ROWS + block_rows - 1) / block_rows * ((COLS + block_cols - 1) / block_cols);
    for (int i = 0; i < ROWS * COLS; i++) codes[i] = (uint8_t)(i * 7 % 127);
    for (int i = 0; i < n; i++) scale[i] = 0.01f + 0.003f * (float)i;
    put(&w, "a.weight", "F8_E4M3", "130,144", codes, sizeof codes);
    put(&w, "a.weight_scale", "F32", scale_shape, scale, (size_t)n * sizeof *scale);
    char *dir = test_tmpdir();
    finish(&w, dir);
    float *all = read_matrix(dir, "a.weight", ROWS, COLS, &err);
    if (!all) fail_msg("%s", err.msg);
    for (size_t i = 0; i < COUNTOF(parts); i++)
        for (enum device device = HAS_ALL; device <= HAS_FP8; device++) {
            struct part p = parts[i];
            float *got = read_part(device, dir, "a.weight", &p, &err);
            if (!got) fail_msg("%s", err.msg);
            bool crosses =
                p.first % block_rows && p.first / block_rows != (p.first + p.rows - 1) / block_rows;
            CHECK_INT(p.type, crosses && device == HAS_FP8 ? DTYPE_BF16 : DTYPE_F8_E4M3);
            for (int k = 0; k < p.rows * COLS; k++) {
                float want = all[p.first * COLS + k];
                if (p.type == DTYPE_BF16) want = bf16_to_float(bf16_from_float(want));
                if (!(fabsf(got[k] - want) <= 1e-6f * fabsf(want))) fail_msg("part %zu, number %d", i, k);
            }
            free(got);
        }
    free(all);
    free(dir);
}
TEST(parts_of_a_scaled_matrix_have_its_numbers) {
    check_parts("2,2", 128, 128);
    check_parts("130,1", 1, COLS);
    check_parts("1", ROWS, COLS);
}

static void put_fp8(struct writer *w, const char *name, const char *scale_shape, int scales) {
    static uint8_t codes[ROWS * COLS];
    char scale_name[32];
    float scale[ROWS];
    for (int i = 0; i < ROWS * COLS; i++) codes[i] = (uint8_t)(i * 7 % 127);
    for (int i = 0; i < ROWS; i++) scale[i] = 0.01f;
    snprintf(scale_name, sizeof scale_name, "%s_scale", name);
    put(w, name, "F8_E4M3", "130,144", codes, sizeof codes);
    put(w, scale_name, "F32", scale_shape, scale, (size_t)scales * sizeof *scale);
}

/* Kernels of a GPU read the matrices of a model with one layout of scales, and some not as fp8 at all. */
TEST(a_device_keeps_fp8_matrices_that_its_kernels_can_read) {
    static const struct {
        const char *name;
        enum weights_fp8 allow;
        enum dtype type;
    } rows[] = { { "table.weight", WEIGHTS_NOT_FP8, DTYPE_BF16 },
                 { "part.weight", WEIGHTS_FROM_FP8, DTYPE_BF16 },
                 { "first.weight", WEIGHTS_FP8, DTYPE_F8_E4M3 },
                 { "second.weight", WEIGHTS_FP8, DTYPE_F8_E4M3 },
                 { "rows.weight", WEIGHTS_FP8, DTYPE_BF16 } }; /* other scales than the first one */
    struct writer w = { STRBUF_INIT, STRBUF_INIT };
    struct ops_backend backend;
    struct err err = { "" };
    put_fp8(&w, "table.weight", "2,2", 4);
    put_fp8(&w, "part.weight", "130,1", ROWS);
    put_fp8(&w, "first.weight", "2,2", 4);
    put_fp8(&w, "second.weight", "2,2", 4);
    put_fp8(&w, "rows.weight", "130,1", ROWS);
    char *dir = test_tmpdir();
    finish(&w, dir);
    struct threads *t = threads_open(1);
    struct ops *o = open_as(HAS_FP8, t, &backend);
    struct weights *weights = weights_open_files(o, dir, &err);
    if (!weights) fail_msg("%s", err.msg);
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        weights_allow_fp8(weights, rows[i].allow);
        struct matrix m = weights_matrix(weights, ROWS, COLS, "%s", rows[i].name);
        if (m.type != rows[i].type) fail_msg("%s is %s", rows[i].name, dtype_name(m.type));
    }
    if (weights_finish(weights, t, NULL, NULL, &err) < 0) fail_msg("%s", err.msg);
    weights_close(weights);
    ops_close(o);
    threads_close(t);
    free(dir);
}

static void check_message(const char *type, const char *scale_name, const char *scale_shape, size_t scales,
                          const char *message) {
    static const uint8_t codes[ROWS * COLS];
    static const float scale[300];
    struct writer w = { STRBUF_INIT, STRBUF_INIT };
    struct err err = { "" };
    put(&w, "a.weight", type, "130,144", codes, sizeof codes);
    put(&w, scale_name, "F32", scale_shape, scale, scales * sizeof *scale);
    char *dir = test_tmpdir();
    finish(&w, dir);
    CHECK(read_matrix(dir, "a.weight", ROWS, COLS, &err) == NULL);
    if (!strstr(err.msg, message)) fail_msg("'%s' lacks '%s'", err.msg, message);
    free(dir);
}

TEST(scales_that_do_not_fit_are_rejected) {
    check_message("F8_E4M3", "b.weight_scale", "1", 1, "is f8_e4m3, but has no scales");
    check_message("F8_E4M3", "a.weight_scale_inv", "2,3", 6, "'a.weight_scale_inv' has 6 numbers");
    check_message("I8", "a.weight_scale", "144", 144, "has 144 numbers");
    check_message("F8_E5M2", "a.weight_scale", "1", 1, "fp8 (E4M3)");
    check_message("U8", "a.weight_scale", "1", 1, "is of type uint8");
}

static size_t from_hex(const char *hex, uint8_t *out, size_t most) {
    size_t n = MIN(strlen(hex) / 2, most);
    for (size_t i = 0; i < n; i++) {
        char two[3] = { hex[2 * i], hex[2 * i + 1], 0 };
        out[i] = (uint8_t)strtoul(two, NULL, 16);
    }
    return n;
}

/* Two experts of three rows of gate and up each, 64 columns. */
TEST(stacked_mxfp4_experts_have_the_numbers_of_transformers) {
    static const char *const names[] = { "l.mlp.experts.%d.gate_proj.weight",
                                         "l.mlp.experts.%d.up_proj.weight" };
    uint8_t blocks[2 * 6 * 2 * 16], scales[2 * 6 * 2];
    struct writer w = { STRBUF_INIT, STRBUF_INIT };
    struct err err = { "" };
    json_t *root = jsonr_load_path("tests/data/engine/safetensors_types.json", 1 << 20, &err);
    if (!root) fail_msg("%s", err.msg);
    const json_t *one = json_object_get(root, "stacked"), *bits = json_object_get(one, "bits");
    CHECK_INT(from_hex(json_string_value(json_object_get(one, "blocks")), blocks, sizeof blocks),
              sizeof blocks);
    CHECK_INT(from_hex(json_string_value(json_object_get(one, "scales")), scales, sizeof scales),
              sizeof scales);
    put(&w, "l.mlp.experts.gate_up_proj_blocks", "U8", "2,6,2,16", blocks, sizeof blocks);
    put(&w, "l.mlp.experts.gate_up_proj_scales", "U8", "2,6,2", scales, sizeof scales);
    char *dir = test_tmpdir();
    finish(&w, dir);
    for (int e = 0; e < 2; e++)
        for (int up = 0; up < 2; up++) {
            char name[64];
            snprintf(name, sizeof name, names[up], e);
            float *got = read_matrix(dir, name, 3, 64, &err);
            if (!got) fail_msg("%s", err.msg);
            for (int i = 0; i < 3 * 64; i++) {
                size_t at = ((size_t)e * 6 + (size_t)(i / 64) * 2 + (size_t)up) * 64 + (size_t)(i % 64);
                CHECK(got[i] == bits_float((uint32_t)json_integer_value(json_array_get(bits, at))));
            }
            free(got);
        }
    CHECK(read_matrix(dir, "l.mlp.experts.2.up_proj.weight", 3, 64, &err) == NULL);
    CHECK(strstr(err.msg, "gate_up_proj_blocks") != NULL);
    CHECK(read_matrix(dir, "l.mlp.experts.1.up_proj.weight", 4, 64, &err) == NULL);
    free(dir);
    json_decref(root);
}

/* The same as floats, [experts][in][2 out]: number (e, c, k) is 1000 e + 10 c + k. */
TEST(stacked_experts_of_floats_are_transposed) {
    enum { E = 2, IN = 5, OUT = 3 };
    float stored[E * IN * 2 * OUT], down[E * OUT * IN];
    struct writer w = { STRBUF_INIT, STRBUF_INIT };
    struct err err = { "" };
    for (int i = 0; i < E * IN * 2 * OUT; i++)
        stored[i] = (float)(i / (IN * 2 * OUT) * 1000 + i / (2 * OUT) % IN * 10 + i % (2 * OUT));
    for (int i = 0; i < E * OUT * IN; i++) down[i] = (float)i;
    put(&w, "l.mlp.experts.gate_up_proj", "F32", "2,5,6", stored, sizeof stored);
    put(&w, "l.mlp.experts.down_proj", "F32", "2,3,5", down, sizeof down);
    char *dir = test_tmpdir();
    finish(&w, dir);
    float *up = read_matrix(dir, "l.mlp.experts.1.up_proj.weight", OUT, IN, &err);
    float *back = read_matrix(dir, "l.mlp.experts.1.down_proj.weight", IN, OUT, &err);
    if (!up || !back) fail_msg("%s", err.msg);
    for (int i = 0; i < OUT * IN; i++) CHECK(up[i] == (float)(1000 + i % IN * 10 + i / IN * 2 + 1));
    for (int i = 0; i < OUT * IN; i++) CHECK(back[i] == (float)(OUT * IN + i % OUT * IN + i / OUT));
    free(up);
    free(back);
    free(dir);
}
