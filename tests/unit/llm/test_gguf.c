/* The GGUF reader: valid files, hostile files, split files, and the models they describe. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/util.h"
#include "llm/cost.h"
#include "llm/gguf.h"
#include "llm/gguf_model.h"
#include "llm/static.h"
#include "unit/llm/gguf_file.h"
#include "unit/test.h"

static struct gguf *parse(const struct strbuf *s, struct err *err) {
    *err = (struct err){ "" };
    return gguf_parse(s->buf, s->len, "t", err);
}

/* ---- Reader */
TEST(gguf_reads_values_and_tensors) {
    struct gguf_file f;
    struct err err;
    uint64_t u;
    double d;
    struct bytes s;
    gguf_file_start(&f, "llama");
    gguf_file_u32(&f, "llama.block_count", 7);
    gguf_file_f32(&f, "llama.rope.freq_base", 10000);
    gguf_put_str(&f.values, "tokens"); /* an array of strings */
    gguf_put_u32(&f.values, GGUF_ARRAY);
    gguf_put_u32(&f.values, GGUF_STRING);
    gguf_put_u64(&f.values, 2);
    gguf_put_str(&f.values, "a");
    gguf_put_str(&f.values, "bc");
    f.nvalues++;
    gguf_put_str(&f.values, "counts"); /* an array of numbers */
    gguf_put_u32(&f.values, GGUF_ARRAY);
    gguf_put_u32(&f.values, GGUF_U64);
    gguf_put_u64(&f.values, 2);
    gguf_put_u64(&f.values, 5);
    gguf_put_u64(&f.values, 6);
    f.nvalues++;
    gguf_file_tensor(&f, "a.weight", GGML_Q4_K, 256, 3, 0);
    gguf_file_tensor(&f, "b.weight", GGML_F32, 5, 0, 0);
    gguf_file_finish(&f);
    struct gguf *g = parse(&f.out, &err);
    CHECK_STR(err.msg, "");
    CHECK(g != NULL);
    CHECK_INT(gguf_version(g), 3);
    CHECK_INT(gguf_values(g), 5);
    CHECK(gguf_u64(g, "llama.block_count", &u) && u == 7);
    CHECK(gguf_f64(g, "llama.rope.freq_base", &d) && d == 10000);
    CHECK(!gguf_u64(g, "llama.rope.freq_base", &u));
    CHECK(gguf_str(g, "general.architecture", &s) && bytes_left(&s) == 5 && memcmp(s.p, "llama", 5) == 0);
    const struct gguf_value *v = gguf_value(g, "tokens");
    CHECK(v && v->count == 2 && v->element == GGUF_STRING);
    struct bytes at = v->raw;
    CHECK(gguf_next_str(&at, &s) && bytes_left(&s) == 1);
    CHECK(gguf_next_str(&at, &s) && bytes_left(&s) == 2);
    CHECK(!gguf_next_str(&at, &s));
    v = gguf_value(g, "counts");
    CHECK(gguf_array_u64(v, 1, &u) && u == 6);
    CHECK(!gguf_array_u64(v, 2, &u));
    const struct gguf_tensor *t = gguf_find(g, "a.weight");
    CHECK(t != NULL);
    CHECK_INT(t->numbers, 768);
    CHECK_INT(t->bytes, 3 * 144);
    CHECK_INT(t->dims[1], 3);
    CHECK_INT(t->offset % 32, 0);
    CHECK((const char *)gguf_data(g, t) == f.out.buf + t->offset);
    CHECK(gguf_find(g, "c.weight") == NULL);
    gguf_close(g);
    gguf_file_free(&f);
}

/* Bits per weight as published for the formats. */
TEST(every_type_has_its_size) {
    static const struct {
        uint32_t type;
        double bits;
    } rows[] = {
        { GGML_F32, 32 },         { GGML_F16, 16 },        { GGML_BF16, 16 },      { GGML_Q4_0, 4.5 },
        { GGML_Q4_1, 5 },         { GGML_Q5_0, 5.5 },      { GGML_Q5_1, 6 },       { GGML_Q8_0, 8.5 },
        { GGML_Q2_K, 2.625 },     { GGML_Q3_K, 3.4375 },   { GGML_Q4_K, 4.5 },     { GGML_Q5_K, 5.5 },
        { GGML_Q6_K, 6.5625 },    { GGML_Q8_K, 9.125 },    { GGML_IQ1_S, 1.5625 }, { GGML_IQ1_M, 1.75 },
        { GGML_IQ2_XXS, 2.0625 }, { GGML_IQ2_XS, 2.3125 }, { GGML_IQ2_S, 2.5625 }, { GGML_IQ3_XXS, 3.0625 },
        { GGML_IQ3_S, 3.4375 },   { GGML_IQ4_NL, 4.5 },    { GGML_IQ4_XS, 4.25 },  { GGML_TQ1_0, 1.6875 },
        { GGML_TQ2_0, 2.0625 },   { GGML_MXFP4, 4.25 },    { GGML_NVFP4, 4.5 },    { GGML_Q1_0, 1.125 }
    };
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct ggml_type_info t = ggml_type_info(rows[i].type);
        CHECK_NEAR(t.bytes * 8.0 / t.numbers, rows[i].bits, 1e-9);
    }
    CHECK(ggml_type_info(4).numbers == 0 && ggml_type_info(1000).name == NULL);
}

static void check_refused(const struct strbuf *file, const char *message) {
    struct err err;
    struct gguf *g = parse(file, &err);
    CHECK(g == NULL);
    if (!strstr(err.msg, message)) fprintf(stderr, "got: %s\nwant: %s\n", err.msg, message);
    CHECK(strstr(err.msg, message) != NULL);
    CHECK(strncmp(err.msg, "t: ", 3) == 0);
}

static struct strbuf head_of(uint32_t version, uint64_t tensors, uint64_t values) {
    struct strbuf s = STRBUF_INIT;
    strbuf_add(&s, "GGUF", 4);
    gguf_put_u32(&s, version);
    gguf_put_u64(&s, tensors);
    gguf_put_u64(&s, values);
    return s;
}

TEST(damaged_heads_are_refused) {
    struct strbuf s = STRBUF_INIT;
    strbuf_addstr(&s, "GGML");
    check_refused(&s, "not a GGUF file");
    strbuf_free(&s);
    static const struct {
        uint32_t version;
        uint64_t tensors, values;
        const char *message;
    } rows[] = {
        { 1, 0, 0, "GGUF version 1 is not supported; expected 2 or 3" },
        { 4, 0, 0, "GGUF version 4 is not supported" },
        { 0x03000000, 0, 0, "big-endian" },
        { 3, 0, UINT64_MAX, "byte 24: 18446744073709551615 values do not fit in the file" },
        { 3, UINT64_MAX, 0, "byte 24: 18446744073709551615 tensors do not fit in the file" },
        { 3, 0, 1, "values do not fit in the file" },
    };
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        s = head_of(rows[i].version, rows[i].tensors, rows[i].values);
        check_refused(&s, rows[i].message);
        strbuf_free(&s);
    }
}

/* A file with one tensor whose description is given. */
static struct strbuf with_tensor(const char *name, uint32_t ndims, uint64_t d0, uint64_t d1, uint32_t type,
                                 uint64_t offset) {
    struct strbuf s = head_of(3, 1, 0);
    gguf_put_str(&s, name);
    gguf_put_u32(&s, ndims);
    gguf_put_u64(&s, d0);
    gguf_put_u64(&s, d1);
    gguf_put_u32(&s, type);
    gguf_put_u64(&s, offset);
    while (s.len % 32) strbuf_addch(&s, '\0');
    for (int i = 0; i < 64; i++) strbuf_addch(&s, '\0');
    return s;
}

TEST(damaged_tensors_are_refused) {
    static const struct {
        uint32_t ndims;
        uint64_t d0, d1;
        uint32_t type;
        uint64_t offset;
        const char *message;
    } rows[] = {
        { 2, 1000, 1000, GGML_F32, 0, "tensor \"x\" needs 4000000 bytes at byte" },
        { 2, 4, 4, GGML_F32, 32, "the file is truncated or damaged" },
        { 2, 4, 4, GGML_F32, UINT64_MAX - 31, "the file is truncated or damaged" },
        { 2, 4, 4, GGML_F32, 8, "its offset is not a multiple of 32" },
        { 2, 4, 4, 99, 0, "tensor \"x\" has the unknown type 99" },
        { 2, 4, 4, 31, 0, "tensor \"x\" has the removed type 31, Q4_0_4_4" },
        { 2, 33, 4, GGML_Q8_0, 0, "rows of 33 numbers are not a multiple of the block of Q8_0, 32" },
        { 2, UINT64_MAX, 2, GGML_F32, 0, "the product of its sizes exceeds 63 bits" },
        { 2, (uint64_t)1 << 62, 1, GGML_F64, 0, "has more than 2^64 bytes" },
        { 5, 4, 4, GGML_F32, 0, "has 5 dimensions; at most 4" },
    };
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct strbuf s =
            with_tensor("x", rows[i].ndims, rows[i].d0, rows[i].d1, rows[i].type, rows[i].offset);
        check_refused(&s, rows[i].message);
        strbuf_free(&s);
    }
    struct strbuf s =
        with_tensor("x", 2, 32, 0, GGML_F32, 0); /* empty, in a file that ends before its place */
    s.len -= 65;
    check_refused(&s, "tensor \"x\" needs 0 bytes at byte");
    strbuf_free(&s);
    s = with_tensor("x", 2, 4, 4, GGML_F32, 0); /* intact */
    struct err err;
    struct gguf *g = parse(&s, &err);
    CHECK(g != NULL);
    gguf_close(g);
    strbuf_free(&s);
}

TEST(overlapping_and_repeated_tensors_are_refused) {
    struct gguf_file f;
    gguf_file_start(&f, "llama");
    gguf_file_tensor(&f, "a", GGML_F32, 16, 0, 0);
    f.data_bytes -= 32;
    gguf_file_tensor(&f, "b", GGML_F32, 16, 0, 0);
    gguf_file_finish(&f);
    check_refused(&f.out, "tensors \"a\" and \"b\" overlap");
    gguf_file_free(&f);
    gguf_file_start(&f, "llama");
    gguf_file_tensor(&f, "a", GGML_F32, 16, 0, 0);
    gguf_file_tensor(&f, "a", GGML_F32, 16, 0, 0);
    gguf_file_finish(&f);
    check_refused(&f.out, "tensor \"a\" is also in t");
    gguf_file_free(&f);
    gguf_file_start(&f, "llama");
    gguf_file_u32(&f, "x", 1);
    gguf_file_u32(&f, "x", 2);
    gguf_file_finish(&f);
    check_refused(&f.out, "the key \"x\" occurs twice");
    gguf_file_free(&f);
}

TEST(deep_and_huge_arrays_are_refused) {
    struct strbuf s = head_of(3, 0, 1);
    gguf_put_str(&s, "x");
    gguf_put_u32(&s, GGUF_ARRAY);
    for (int i = 0; i < 20; i++) {
        gguf_put_u32(&s, GGUF_ARRAY);
        gguf_put_u64(&s, 1);
    }
    check_refused(&s, "arrays are nested too deeply");
    strbuf_free(&s);
    s = head_of(3, 0, 1);
    gguf_put_str(&s, "x");
    gguf_put_u32(&s, GGUF_ARRAY);
    gguf_put_u32(&s, GGUF_U64);
    gguf_put_u64(&s, UINT64_MAX / 8 + 2); /* times 8 wraps to a small number */
    gguf_put_u64(&s, 0);
    check_refused(&s, "the file ends inside a value");
    strbuf_free(&s);
}

TEST(every_prefix_of_a_file_is_refused) {
    struct gguf_file f;
    gguf_file_start(&f, "llama");
    gguf_file_f32(&f, "x", 1);
    gguf_file_tensor(&f, "a", GGML_Q8_0, 32, 2, 0);
    gguf_file_finish(&f);
    for (size_t n = 0; n + 28 < f.out.len; n++) { /* the last tensor has 68 of 96 bytes */
        struct err err;
        char *copy = malloc(n ? n : 1);
        memcpy(copy, f.out.buf, n);
        CHECK(gguf_parse(copy, n, "t", &err) == NULL);
        free(copy);
    }
    gguf_file_free(&f);
}

/* ---- Split files */
static void write_part(const char *dir, unsigned i, unsigned count, unsigned stated) {
    struct gguf_file f;
    struct err err;
    char path[300], name[32];
    gguf_file_start(&f, "llama");
    gguf_file_u32(&f, "split.count", stated);
    gguf_file_u32(&f, "split.no", i - 1);
    gguf_file_u32(&f, "split.tensors.count", count);
    snprintf(name, sizeof name, "t%u", i);
    gguf_file_tensor(&f, name, GGML_F32, 8, 0, 0);
    gguf_file_finish(&f);
    snprintf(path, sizeof path, "%s/m-%05u-of-%05u.gguf", dir, i, count);
    CHECK(file_write_atomic(path, f.out.buf, f.out.len, &err) == 0);
    gguf_file_free(&f);
}

TEST(split_files_are_opened_together) {
    char dir[] = "/tmp/gguf-test-XXXXXX", path[300];
    struct err err = { "" };
    CHECK(mkdtemp(dir) != NULL);
    for (unsigned i = 1; i <= 3; i++) write_part(dir, i, 3, 3);
    snprintf(path, sizeof path, "%s/m-00002-of-00003.gguf", dir);
    struct gguf *g = gguf_open(path, &err);
    CHECK_STR(err.msg, "");
    CHECK(g != NULL);
    CHECK_INT(gguf_files(g), 3);
    CHECK_INT(gguf_count(g), 3);
    CHECK_INT(gguf_find(g, "t3")->file, 2);
    CHECK(strstr(gguf_file(g, 0), "m-00001-of-00003.gguf") != NULL);
    gguf_close(g);
    write_part(dir, 2, 3, 4);
    CHECK(gguf_open(path, &err) == NULL);
    CHECK(strstr(err.msg, "m-00002-of-00003.gguf: split.count is not 3") != NULL);
    unlink(path);
    snprintf(path, sizeof path, "%s/m-00001-of-00003.gguf", dir);
    CHECK(gguf_open(path, &err) == NULL);
    CHECK(strstr(err.msg, "m-00002-of-00003.gguf: No such file") != NULL);
    unlink(path);
    snprintf(path, sizeof path, "%s/m-00003-of-00003.gguf", dir);
    unlink(path);
    rmdir(dir);
}

/* ---- Models */
struct shape {
    const char *arch;
    uint32_t hidden, layers, heads, kv_heads, head_dim, inter, vocab, experts, used, expert_inter,
        shared_inter;
    bool tied, qkv_bias, o_bias, qk_norm, fused, sandwich, sinks;
};

static void key_u32(struct gguf_file *f, const char *arch, const char *key, uint32_t v) {
    char name[100];
    snprintf(name, sizeof name, "%s.%s", arch, key);
    if (v) gguf_file_u32(f, name, v);
}

static void layer_tensor(struct gguf_file *f, unsigned layer, const char *base, uint32_t type, uint64_t d0,
                         uint64_t d1, uint64_t d2) {
    char name[100];
    snprintf(name, sizeof name, "blk.%u.%s", layer, base);
    gguf_file_tensor(f, name, type, d0, d1, d2);
}

static void add_attention(struct gguf_file *f, const struct shape *s, unsigned i, uint32_t type) {
    uint64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    layer_tensor(f, i, "attn_norm.weight", GGML_F32, s->hidden, 0, 0);
    if (s->fused) {
        layer_tensor(f, i, "attn_qkv.weight", type, s->hidden, q + 2 * kv, 0);
    } else {
        layer_tensor(f, i, "attn_q.weight", type, s->hidden, q, 0);
        layer_tensor(f, i, "attn_k.weight", type, s->hidden, kv, 0);
        layer_tensor(f, i, "attn_v.weight", type, s->hidden, kv, 0);
    }
    layer_tensor(f, i, "attn_output.weight", type, q, s->hidden, 0);
    if (s->qkv_bias) {
        layer_tensor(f, i, "attn_q.bias", GGML_F32, q, 0, 0);
        layer_tensor(f, i, "attn_k.bias", GGML_F32, kv, 0, 0);
        layer_tensor(f, i, "attn_v.bias", GGML_F32, kv, 0, 0);
    }
    if (s->o_bias) layer_tensor(f, i, "attn_output.bias", GGML_F32, s->hidden, 0, 0);
    if (s->qk_norm) {
        layer_tensor(f, i, "attn_q_norm.weight", GGML_F32, s->head_dim, 0, 0);
        layer_tensor(f, i, "attn_k_norm.weight", GGML_F32, s->head_dim, 0, 0);
    }
    if (s->sinks) layer_tensor(f, i, "attn_sinks.weight", GGML_F32, s->heads, 0, 0);
}

static void add_experts(struct gguf_file *f, const struct shape *s, unsigned i, uint32_t type) {
    layer_tensor(f, i, "ffn_gate_inp.weight", GGML_F32, s->hidden, s->experts, 0);
    layer_tensor(f, i, "ffn_gate_exps.weight", type, s->hidden, s->expert_inter, s->experts);
    layer_tensor(f, i, "ffn_up_exps.weight", type, s->hidden, s->expert_inter, s->experts);
    layer_tensor(f, i, "ffn_down_exps.weight", type, s->expert_inter, s->hidden, s->experts);
    if (s->sinks) { /* gpt-oss: all linear layers have biases */
        layer_tensor(f, i, "ffn_gate_inp.bias", GGML_F32, s->experts, 0, 0);
        layer_tensor(f, i, "ffn_gate_exps.bias", GGML_F32, s->expert_inter, s->experts, 0);
        layer_tensor(f, i, "ffn_up_exps.bias", GGML_F32, s->expert_inter, s->experts, 0);
        layer_tensor(f, i, "ffn_down_exps.bias", GGML_F32, s->hidden, s->experts, 0);
    }
    if (!s->shared_inter) return;
    layer_tensor(f, i, "ffn_gate_shexp.weight", type, s->hidden, s->shared_inter, 0);
    layer_tensor(f, i, "ffn_up_shexp.weight", type, s->hidden, s->shared_inter, 0);
    layer_tensor(f, i, "ffn_down_shexp.weight", type, s->shared_inter, s->hidden, 0);
    if (strcmp(s->arch, "qwen2moe") == 0)
        layer_tensor(f, i, "ffn_gate_inp_shexp.weight", GGML_F32, s->hidden, 1, 0);
}

static void add_mlp(struct gguf_file *f, const struct shape *s, unsigned i, uint32_t type) {
    if (s->sinks)
        layer_tensor(f, i, "post_attention_norm.weight", GGML_F32, s->hidden, 0, 0);
    else
        layer_tensor(f, i, "ffn_norm.weight", GGML_F32, s->hidden, 0, 0);
    if (s->sandwich) {
        layer_tensor(f, i, "post_attention_norm.weight", GGML_F32, s->hidden, 0, 0);
        layer_tensor(f, i, "post_ffw_norm.weight", GGML_F32, s->hidden, 0, 0);
    }
    if (s->experts) {
        add_experts(f, s, i, type);
        return;
    }
    if (!s->fused) layer_tensor(f, i, "ffn_gate.weight", type, s->hidden, s->inter, 0);
    layer_tensor(f, i, "ffn_up.weight", type, s->hidden, s->fused ? 2 * s->inter : s->inter, 0);
    layer_tensor(f, i, "ffn_down.weight", type, s->inter, s->hidden, 0);
}

static void build(struct gguf_file *f, const struct shape *s, uint32_t type) {
    gguf_file_start(f, s->arch);
    key_u32(f, s->arch, "embedding_length", s->hidden);
    key_u32(f, s->arch, "block_count", s->layers);
    key_u32(f, s->arch, "context_length", 4096);
    key_u32(f, s->arch, "feed_forward_length", s->inter);
    key_u32(f, s->arch, "attention.head_count", s->heads);
    key_u32(f, s->arch, "attention.head_count_kv", s->kv_heads);
    key_u32(f, s->arch, "attention.key_length", s->head_dim);
    key_u32(f, s->arch, "attention.value_length", s->head_dim);
    key_u32(f, s->arch, "expert_count", s->experts);
    key_u32(f, s->arch, "expert_used_count", s->used);
    key_u32(f, s->arch, "expert_feed_forward_length", s->expert_inter);
    gguf_file_tensor(f, "token_embd.weight", type, s->hidden, s->vocab, 0);
    gguf_file_tensor(f, "output_norm.weight", GGML_F32, s->hidden, 0, 0);
    if (!s->tied) gguf_file_tensor(f, "output.weight", type, s->hidden, s->vocab, 0);
    for (unsigned i = 0; i < s->layers; i++) {
        add_attention(f, s, i, type);
        add_mlp(f, s, i, type);
    }
    gguf_file_finish(f);
}

static const struct shape shapes[] = {
    { "llama", 256, 2, 4, 2, 64, 512, 100, .tied = false },
    { "llama", 256, 2, 4, 2, 64, 512, 100, 4, 2, 512 }, /* mixtral */
    { "qwen2", 256, 2, 4, 2, 64, 512, 100, .qkv_bias = true },
    { "qwen2moe", 256, 2, 4, 2, 64, 512, 100, 4, 2, 256, 512, .qkv_bias = true },
    { "qwen3", 256, 2, 4, 2, 128, 512, 100, .qk_norm = true, .tied = true },
    { "qwen3moe", 256, 2, 4, 2, 128, 512, 100, 8, 2, 256, .qk_norm = true },
    { "gemma", 256, 2, 4, 2, 64, 512, 100, .tied = true },
    { "gemma2", 256, 2, 4, 2, 64, 512, 100, .tied = true, .sandwich = true },
    { "gemma3", 256, 6, 4, 2, 64, 512, 100, .tied = true, .sandwich = true, .qk_norm = true },
    { "phi3", 256, 2, 4, 4, 64, 512, 100, .fused = true },
    { "gpt-oss", 256, 2, 4, 2, 64, 256, 100, 4, 2, 256, .qkv_bias = true, .o_bias = true, .sinks = true },
};

static double sum_of_bytes(const struct gguf *g) {
    double sum = 0;
    for (size_t i = 0; i < gguf_count(g); i++) sum += (double)gguf_at(g, i)->bytes;
    return sum;
}

static int check_model(const struct shape *s, uint32_t type) {
    struct gguf_file f;
    struct err err;
    int wrong = 0;
    build(&f, s, type);
    struct gguf *g = parse(&f.out, &err);
    struct llm_model *m = g ? llm_model_of_gguf(g, "t", &(struct llm_load){ 0 }, &err) : NULL;
    if (!m) {
        fprintf(stderr, "%s: %s\n", s->arch, err.msg);
        gguf_close(g);
        gguf_file_free(&f);
        return 1;
    }
    uint64_t ops = 0;
    for (size_t i = 0; i < m->nops; i++) {
        ops += llm_op_params(&m->ops[i]);
        wrong += strcmp(m->ops[i].name, "other") == 0;
    }
    for (size_t i = 0; i < m->nnotes; i++)
        if (strstr(m->notes[i], "the tensors have")) {
            fprintf(stderr, "%s: %s\n", s->arch, m->notes[i]);
            wrong++;
        }
    wrong += m->params.total != f.numbers || ops != f.numbers;
    wrong += fabs(llm_weight_bytes(m) - sum_of_bytes(g)) > 1;
    wrong += m->text.layers != s->layers || m->text.vocab != s->vocab || m->text.experts != s->experts;
    if (wrong)
        fprintf(stderr, "%s: %llu, operators %llu, tensors %llu; bytes %.0f of %.0f\n", s->arch,
                (unsigned long long)m->params.total, (unsigned long long)ops, (unsigned long long)f.numbers,
                llm_weight_bytes(m), sum_of_bytes(g));
    llm_model_free(m);
    gguf_close(g);
    gguf_file_free(&f);
    return wrong;
}

TEST(architectures_have_the_parameters_and_bytes_of_their_tensors) {
    static const uint32_t types[] = { GGML_BF16, GGML_Q8_0, GGML_Q4_K, GGML_MXFP4 };
    int wrong = 0;
    for (size_t i = 0; i < COUNTOF(shapes); i++)
        for (size_t k = 0; k < COUNTOF(types); k++) wrong += check_model(&shapes[i], types[k]);
    CHECK_INT(wrong, 0);
}

/* Latent attention, one dense layer, a shared expert and the router's correction. */
TEST(deepseek2_is_read_with_latent_attention) {
    struct gguf_file f;
    struct err err;
    gguf_file_start(&f, "deepseek2");
    static const struct {
        const char *key;
        uint32_t v;
    } keys[] = { { "embedding_length", 256 },
                 { "block_count", 2 },
                 { "context_length", 4096 },
                 { "feed_forward_length", 512 },
                 { "attention.head_count", 4 },
                 { "attention.head_count_kv", 1 },
                 { "attention.q_lora_rank", 64 },
                 { "attention.kv_lora_rank", 128 },
                 { "attention.key_length", 160 },
                 { "attention.value_length", 128 },
                 { "attention.key_length_mla", 96 },
                 { "attention.value_length_mla", 64 },
                 { "rope.dimension_count", 32 },
                 { "leading_dense_block_count", 1 },
                 { "expert_count", 8 },
                 { "expert_used_count", 2 },
                 { "expert_shared_count", 1 } };
    for (size_t i = 0; i < COUNTOF(keys); i++) key_u32(&f, "deepseek2", keys[i].key, keys[i].v);
    gguf_file_tensor(&f, "token_embd.weight", GGML_BF16, 256, 100, 0);
    gguf_file_tensor(&f, "output_norm.weight", GGML_F32, 256, 0, 0);
    gguf_file_tensor(&f, "output.weight", GGML_BF16, 256, 100, 0);
    for (unsigned i = 0; i < 2; i++) {
        layer_tensor(&f, i, "attn_norm.weight", GGML_F32, 256, 0, 0);
        layer_tensor(&f, i, "attn_q_a.weight", GGML_BF16, 256, 64, 0);
        layer_tensor(&f, i, "attn_q_a_norm.weight", GGML_F32, 64, 0, 0);
        layer_tensor(&f, i, "attn_q_b.weight", GGML_BF16, 64, 384, 0);
        layer_tensor(&f, i, "attn_kv_a_mqa.weight", GGML_BF16, 256, 160, 0);
        layer_tensor(&f, i, "attn_kv_a_norm.weight", GGML_F32, 128, 0, 0);
        layer_tensor(&f, i, "attn_k_b.weight", GGML_BF16, 64, 128, 4);
        layer_tensor(&f, i, "attn_v_b.weight", GGML_BF16, 128, 64, 4);
        layer_tensor(&f, i, "attn_output.weight", GGML_BF16, 256, 256, 0);
        layer_tensor(&f, i, "ffn_norm.weight", GGML_F32, 256, 0, 0);
    }
    layer_tensor(&f, 0, "ffn_gate.weight", GGML_BF16, 256, 512, 0);
    layer_tensor(&f, 0, "ffn_up.weight", GGML_BF16, 256, 512, 0);
    layer_tensor(&f, 0, "ffn_down.weight", GGML_BF16, 512, 256, 0);
    layer_tensor(&f, 1, "ffn_gate_inp.weight", GGML_F32, 256, 8, 0);
    layer_tensor(&f, 1, "exp_probs_b.bias", GGML_F32, 8, 0, 0);
    const struct shape s = { "deepseek2", .hidden = 256, .experts = 8, .expert_inter = 64,
                             .shared_inter = 64 };
    layer_tensor(&f, 1, "ffn_gate_exps.weight", GGML_BF16, s.hidden, s.expert_inter, s.experts);
    layer_tensor(&f, 1, "ffn_up_exps.weight", GGML_BF16, s.hidden, s.expert_inter, s.experts);
    layer_tensor(&f, 1, "ffn_down_exps.weight", GGML_BF16, s.expert_inter, s.hidden, s.experts);
    layer_tensor(&f, 1, "ffn_gate_shexp.weight", GGML_BF16, s.hidden, s.shared_inter, 0);
    layer_tensor(&f, 1, "ffn_up_shexp.weight", GGML_BF16, s.hidden, s.shared_inter, 0);
    layer_tensor(&f, 1, "ffn_down_shexp.weight", GGML_BF16, s.shared_inter, s.hidden, 0);
    gguf_file_finish(&f);
    struct gguf *g = parse(&f.out, &err);
    CHECK_STR(err.msg, "");
    struct llm_model *m = llm_model_of_gguf(g, "t", &(struct llm_load){ 0 }, &err);
    CHECK_STR(err.msg, "");
    CHECK(m != NULL);
    CHECK_STR(m->family, "deepseek_v3");
    CHECK_INT(m->text.kv_lora_rank, 128);
    CHECK_INT(m->text.qk_nope_dim, 64);
    CHECK_INT(m->text.v_head_dim, 64);
    CHECK_INT(m->text.moe_layers, 1);
    uint64_t ops = 0;
    for (size_t i = 0; i < m->nops; i++) ops += llm_op_params(&m->ops[i]);
    CHECK_INT(ops, f.numbers);
    CHECK_INT(m->params.total, f.numbers);
    CHECK_NEAR(llm_weight_bytes(m), sum_of_bytes(g), 0.5);
    llm_model_free(m);
    gguf_close(g);
    gguf_file_free(&f);
}

TEST(tensors_without_an_operator_are_counted_but_not_read) {
    struct gguf_file f;
    struct err err;
    build(&f, &shapes[0], GGML_Q8_0);
    uint64_t before = f.numbers;
    strbuf_free(&f.out); /* the same file with one more tensor */
    f.out = (struct strbuf)STRBUF_INIT;
    gguf_file_tensor(&f, "rope_freqs.weight", GGML_F32, 32, 0, 0);
    gguf_file_finish(&f);
    struct gguf *g = parse(&f.out, &err);
    struct llm_model *m = llm_model_of_gguf(g, "t", &(struct llm_load){ 0 }, &err);
    CHECK(m != NULL);
    CHECK_INT(m->params.total, before + 32);
    CHECK_STR(m->ops[m->nops - 1].name, "other");
    CHECK_STR(m->quantization, "ggml Q8_0 100%");
    CHECK_NEAR(llm_weight_bytes(m), sum_of_bytes(g), 0.5);
    struct llm_setup setup = { .peak = { 1e12, 1e12, 2e12 } };
    struct llm_cost c = llm_cost_prefill(m, &setup, 1, 16, 0);
    CHECK(c.weight_bytes <= llm_weight_bytes(m) - 128);
    llm_model_free(m);
    gguf_close(g);
    gguf_file_free(&f);
}

TEST(unknown_architectures_are_refused_with_the_known_ones) {
    struct gguf_file f;
    struct err err;
    gguf_file_start(&f, "newthing");
    gguf_file_finish(&f);
    struct gguf *g = parse(&f.out, &err);
    CHECK(llm_model_of_gguf(g, "t", &(struct llm_load){ 0 }, &err) == NULL);
    CHECK(strstr(err.msg, "t: unknown architecture 'newthing'; known: llama, qwen2, ") != NULL);
    gguf_close(g);
    gguf_file_free(&f);
    gguf_file_start(&f, "llama"); /* no sizes */
    gguf_file_finish(&f);
    g = parse(&f.out, &err);
    CHECK(llm_model_of_gguf(g, "t", &(struct llm_load){ 0 }, &err) == NULL);
    CHECK(strstr(err.msg, "hidden_size is missing") != NULL);
    gguf_close(g);
    gguf_file_free(&f);
}
