/* Weights from files: the same numbers as synthetic ones give the same answer, and damaged folders are
 * rejected with the reason. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "base/util.h"
#include "base/strbuf.h"
#include "base/vec.h"
#include "engine/decoder/decoder.h"
#include "engine/engine.h"
#include "engine/internal.h"
#include "unit/engine-models/fixture.h"
#include "unit/engine-models/mapping.h"
#include "unit/relative_error.h"
#include "unit/test.h"

/* A tensor of the file. */
struct tensor {
    char name[96];
    int rows, cols; /* rows 0: a vector */
    float offset;
};

struct file {
    struct {
        struct tensor *v;
        size_t n, cap;
    } tensors;
    const char *type; /* "F32", "BF16", "F16" */
    /* prefixes of the decoder and of the head in the file; NULL: as in a text model */
    const char *model, *head;
};

static void add(struct file *f, const char *prefix, const char *name, int rows, int cols) {
    struct tensor t = { .rows = rows, .cols = cols, .offset = rows ? 0.0f : 1.0f };
    snprintf(t.name, sizeof t.name, "%s%s.weight", prefix, name);
    vec_push(&f->tensors, t);
}

/* The tensors of the "llama" fixture: hidden 64, 4 heads, 2 of them for keys, MLP 112, vocabulary 320. */
static void add_llama(struct file *f) {
    add(f, "model.", "embed_tokens", 320, 64);
    for (int i = 0; i < 3; i++) {
        char p[32];
        snprintf(p, sizeof p, "model.layers.%d.", i);
        add(f, p, "input_layernorm", 0, 64);
        add(f, p, "post_attention_layernorm", 0, 64);
        add(f, p, "self_attn.q_proj", 64, 64);
        add(f, p, "self_attn.k_proj", 32, 64);
        add(f, p, "self_attn.v_proj", 32, 64);
        add(f, p, "self_attn.o_proj", 64, 64);
        add(f, p, "mlp.gate_proj", 112, 64);
        add(f, p, "mlp.up_proj", 112, 64);
        add(f, p, "mlp.down_proj", 64, 112);
    }
    add(f, "model.", "norm", 0, 64);
    add(f, "", "lm_head", 320, 64);
}

static size_t count_of(const struct tensor *t) { return (size_t)(t->rows ? t->rows : 1) * (size_t)t->cols; }

static void add_numbers(struct strbuf *data, const struct tensor *t, const char *type) {
    float scale = t->rows ? (float)sqrt(3.0 / t->cols) : 0.1f;
    struct weights_stream s = weights_stream_make(11, t->name, scale, t->offset);
    for (size_t i = 0; i < count_of(t); i++) {
        float v = weights_stream_at(&s, (uint32_t)i);
        uint16_t h = strcmp(type, "BF16") == 0 ? bf16_from_float(v) : f16_from_float(v);
        if (strcmp(type, "F32") == 0)
            strbuf_add(data, &v, 4);
        else
            strbuf_add(data, &h, 2);
    }
}

/* Writes tensors [from, to) as one safetensors file. `misalign` puts the data on an odd address. */
static void write_file(const struct file *f, size_t from, size_t to, const char *path, bool misalign) {
    struct strbuf head = STRBUF_INIT, data = STRBUF_INIT, all = STRBUF_INIT;
    struct err err;
    strbuf_addch(&head, '{');
    for (size_t i = from; i < to; i++) {
        const struct tensor *t = &f->tensors.v[i];
        size_t start = data.len;
        add_numbers(&data, t, f->type);
        bool inner = f->model && strncmp(t->name, "model.", 6) == 0;
        strbuf_addf(&head, "%s\"%s%s\":{\"dtype\":\"%s\",\"shape\":[", i > from ? "," : "",
                    inner      ? f->model
                    : f->model ? f->head
                               : "",
                    t->name + (inner ? 6 : 0), f->type);
        if (t->rows) strbuf_addf(&head, "%d,", t->rows);
        strbuf_addf(&head, "%d],\"data_offsets\":[%zu,%zu]}", t->cols, start, data.len);
    }
    strbuf_addch(&head, '}');
    while (head.len % 8 != (misalign ? 1 : 0)) strbuf_addch(&head, ' ');
    uint64_t n = head.len;
    strbuf_add(&all, &n, 8);
    strbuf_add(&all, head.buf, head.len);
    strbuf_add(&all, data.buf, data.len);
    if (file_write_atomic(path, all.buf, all.len, &err) < 0) fail_msg("%s", err.msg);
    strbuf_free(&head);
    strbuf_free(&data);
    strbuf_free(&all);
}

static void write_text(const char *dir, const char *name, const char *text) {
    struct err err;
    char *path = file_join(dir, name);
    if (file_write_atomic(path, text, strlen(text), &err) < 0) fail_msg("%s", err.msg);
    free(path);
}

/* Greedy tokens of a short prompt. */
static void tokens(struct engine *e, uint32_t out[16]) {
    struct err err;
    struct engine_result got;
    const uint32_t ids[] = { 5, 9, 200, 31 };
    struct engine_request r = { .ids = ids, .nids = 4, .max_new_tokens = 16, .ignore_eos = true };
    if (engine_infer(e, &r, &got, &err) < 0) fail_msg("%s", err.msg);
    memcpy(out, got.ids.v, 16 * sizeof *out);
    engine_result_free(&got);
    engine_close(e);
}

static void check_file(struct file file, const char *dtype, bool misalign) {
    struct fixture f;
    uint32_t made[16], read[16];
    fixture_open(&f, "llama");
    add_llama(&file);
    char *path = file_join(f.dir, "model.safetensors");
    write_file(&file, 0, file.tensors.n, path, misalign);
    tokens(fixture_engine(&f, dtype), made);
    tokens(fixture_engine_files(&f), read);
    CHECK_MEM(made, read, sizeof made);
    free(path);
    free(file.tensors.v);
    fixture_close(&f);
}

static void check_type(const char *type, const char *dtype, bool misalign) {
    check_file((struct file){ .type = type }, dtype, misalign);
}

TEST(decoders_of_vision_models_are_found_under_their_prefixes) {
    check_file((struct file){ .type = "F32", .model = "language_model.model.", .head = "language_model." },
               "f32", false);
    check_file((struct file){ .type = "F32", .model = "model.language_model.", .head = "" }, "f32", false);
}

TEST(weights_of_files_give_the_same_answer_as_synthetic_ones) {
    check_type("F32", "f32", false);
    check_type("BF16", "bf16", false);
}
TEST(weights_of_a_safetensors_file_are_used_in_place) {
    struct fixture f;
    struct file file = { .type = "BF16" };
    fixture_open(&f, "llama");
    add_llama(&file);
    char *path = file_join(f.dir, "model.safetensors");
    write_file(&file, 0, file.tensors.n, path, false);
    struct engine *e = fixture_engine_files(&f);
    check_weights_are_mapped(e, path);
    engine_close(e);
    free(path);
    free(file.tensors.v);
    fixture_close(&f);
}
TEST(unaligned_weights_are_read_correctly) { check_type("F32", "f32", true); }

TEST(weights_of_several_files_are_found_by_the_index) {
    struct fixture f;
    struct file file = { .type = "F32" };
    struct strbuf index = STRBUF_INIT;
    uint32_t made[16], read[16];
    fixture_open(&f, "llama");
    add_llama(&file);
    char *one = file_join(f.dir, "model-00001-of-00002.safetensors");
    char *two = file_join(f.dir, "model-00002-of-00002.safetensors");
    write_file(&file, 0, 10, one, false);
    write_file(&file, 10, file.tensors.n, two, false);
    strbuf_addstr(&index, "{\"metadata\":{},\"weight_map\":{");
    for (size_t i = 0; i < file.tensors.n; i++)
        strbuf_addf(&index, "%s\"%s\":\"%s\"", i ? "," : "", file.tensors.v[i].name,
                    file_basename(i < 10 ? one : two));
    strbuf_addstr(&index, "}}");
    write_text(f.dir, "model.safetensors.index.json", index.buf);
    tokens(fixture_engine(&f, "f32"), made);
    tokens(fixture_engine_files(&f), read);
    CHECK_MEM(made, read, sizeof made);
    strbuf_free(&index);
    free(one);
    free(two);
    free(file.tensors.v);
    fixture_close(&f);
}

/* Opens the fixture's folder after `spoil` changed the list of tensors, and expects this in the message. */
static void check_refused(void (*spoil)(struct file *f), const char *type, size_t cut, const char *message) {
    struct fixture f;
    struct err err = { "" };
    struct file file = { .type = type };
    fixture_open(&f, "llama");
    add_llama(&file);
    if (spoil) spoil(&file);
    char *path = file_join(f.dir, "model.safetensors");
    write_file(&file, 0, file.tensors.n, path, false);
    if (cut) CHECK_INT(truncate(path, (off_t)cut), 0);
    struct engine *e =
        engine_open(&(struct engine_load){ .model = f.dir, .device = "cpu", .threads = 1 }, &err);
    CHECK(e == NULL);
    if (!strstr(err.msg, message)) fail_msg("'%s' lacks '%s'", err.msg, message);
    free(path);
    free(file.tensors.v);
    fixture_close(&f);
}

static void drop_one(struct file *f) { f->tensors.n--; }
static void swap_sides(struct file *f) {
    f->tensors.v[9].rows = 56;
    f->tensors.v[9].cols = 128;
}
static void longer_norm(struct file *f) { f->tensors.v[1].cols = 65; }

TEST(weights_that_do_not_match_the_config_are_rejected) {
    check_refused(drop_one, "F32", 0, "no tensor 'lm_head.weight'");
    check_refused(swap_sides, "F32", 0,
                  "'model.layers.0.mlp.down_proj.weight' is [56,128], but config.json requires [64,112]");
    check_refused(longer_norm, "F32", 0, "is [65], but config.json requires [64]");
    check_refused(NULL, "F32", 5000, "model.safetensors");
    check_refused(NULL, "I16", 0, "this engine reads f32, f16 and bf16");
}

TEST(missing_weights_give_an_error_with_the_alternative) {
    struct fixture f;
    struct err err = { "" };
    fixture_open(&f, "llama");
    CHECK(engine_open(&(struct engine_load){ .model = f.dir, .device = "cpu", .threads = 1 }, &err) == NULL);
    CHECK(strstr(err.msg, "weights=synthetic:0") != NULL);
    fixture_close(&f);
}

#define FP8_SIZES                                                                                    \
    "\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":1,\"num_attention_heads\":4," \
    "\"num_key_value_heads\":4,\"intermediate_size\":128,\"vocab_size\":32,\"max_position_embeddings\":64"
/* Bytes of the weights of a config with this quantization_config. Checks that the numbers are those of bf16
 * weights up to the rounding to fp8. */
static uint64_t fp8_bytes(const char *quantisation, const char *dtype) {
    struct err err = { "" };
    char config[512], *dir = test_tmpdir();
    float logits[2][32];
    uint64_t bytes = 0;
    snprintf(config, sizeof config, "{" FP8_SIZES ",\"quantization_config\":%s}", quantisation);
    write_text(dir, "config.json", config);
    for (int i = 0; i < 2; i++) {
        struct engine_load load = { .model = dir,
                                    .device = "cpu",
                                    .weights = "synthetic:1",
                                    .dtype = i ? "bf16" : dtype,
                                    .threads = 1,
                                    .exact = true };
        struct engine *e = engine_open(&load, &err);
        if (!e) fail_msg("%s", err.msg);
        uint32_t ids[] = { 3, 1, 4, 1, 5, 9, 2, 6 };
        struct engine_request r = {
            .ids = ids, .nids = COUNTOF(ids), .max_new_tokens = 1, .ignore_eos = true
        };
        struct engine_result out;
        if (engine_infer(e, &r, &out, &err) < 0) fail_msg("%s", err.msg);
        memcpy(logits[i], e->logits, sizeof logits[i]);
        if (i == 0) bytes = weights_bytes(e->weights);
        engine_result_free(&out);
        engine_close(e);
    }
    CHECK_NEAR(relative_error(logits[0], logits[1], 32), 0, 0.2); /* fp8 has 3 bits of fraction */
    free(dir);
    return bytes;
}

TEST(synthetic_weights_of_an_fp8_config_are_fp8) {
    enum { LAYER = 4 * 64 * 64 + 3 * 64 * 128, REST = (2 * 32 + 3) * 64 };
    CHECK_INT(fp8_bytes("{\"quant_method\":\"fp8\",\"weight_block_size\":[16,16]}", NULL), LAYER + 2 * REST);
    CHECK_INT(fp8_bytes("{\"quant_method\":\"fp8\"}", "auto"), LAYER + 2 * REST);
    CHECK_INT(fp8_bytes("{\"quant_method\":\"fbgemm_fp8\"}", "auto"), LAYER + 2 * REST);
    CHECK_INT(fp8_bytes("{\"quant_method\":\"fp8\"}", "bf16"), 2 * LAYER + 2 * REST);
}

static void check_config(const char *config, const char *message) {
    struct err err = { "" };
    char *dir = test_tmpdir();
    write_text(dir, "config.json", config);
    CHECK(engine_open(
              &(struct engine_load){ .model = dir, .device = "cpu", .weights = "synthetic:1", .threads = 1 },
              &err) == NULL);
    if (!strstr(err.msg, message)) fail_msg("'%s' lacks '%s'", err.msg, message);
    free(dir);
}

#define SIZES                                                                                         \
    "\"hidden_size\":16,\"num_hidden_layers\":1,\"num_attention_heads\":2,\"num_key_value_heads\":2," \
    "\"intermediate_size\":16,\"vocab_size\":32,\"max_position_embeddings\":64"
TEST(unsupported_models_are_rejected_by_name) {
    check_config("{\"model_type\":\"gpt2\"," SIZES "}", "does not support 'gpt2' models");
    check_config("{\"model_type\":\"starship\",\"architectures\":[\"StarshipForCausalLM\"]}", "tarship");
    check_config("{\"model_type\":\"llama\",\"hidden_act\":\"relu\"," SIZES "}", "hidden_act 'relu'");
    check_config("{\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"spiral\",\"factor\":2.0}," SIZES "}",
                 "rope types");
    check_config(
        "{\"model_type\":\"phi3\",\"rope_scaling\":{\"type\":\"longrope\",\"long_factor\":[1]}," SIZES "}",
        "short_factor and long_factor with 4");
    check_config(
        "{\"model_type\":\"deepseek_v3\",\"n_routed_experts\":8,\"n_group\":3,\"topk_group\":1," SIZES "}",
        "8 experts in 3 groups");
    check_config("{\"model_type\":", "config.json");
}
