/* Whole decoders compared with transformers: logits of a prompt and 64 greedy tokens, in float and bf16. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/util.h"
#include "engine/cpu/cpu.h"
#include "engine/decoder/decoder.h"
#include "engine/internal.h"
#include "unit/engine-models/fixture.h"
#include "unit/test.h"

static void prompt_logits(struct engine *e, const uint32_t *ids, size_t n, float *logits) {
    struct decoder *d = e->decoder;
    struct tensor *x = fixture_upload(d->ops, NULL, n * (size_t)d->hidden);
    struct tensor *last = fixture_upload(d->ops, NULL, (size_t)d->vocab);
    decoder_embed(d, ids, (int)n, view_of(x));
    for (int at = 0; at < (int)n; at += DECODER_CHUNK) {
        int rows = MIN(DECODER_CHUNK, (int)n - at);
        decoder_forward(d, view_at(view_of(x), (size_t)at * (size_t)d->hidden), rows, at,
                        at + rows == (int)n ? last : NULL);
    }
    ops_download(d->ops, logits, view_of(last), (size_t)d->vocab);
    ops_free(d->ops, x);
    ops_free(d->ops, last);
}

static double logits_error(const struct fixture *f, const char *dtype, const char *key) {
    float *want;
    uint32_t *ids;
    struct engine *e = fixture_engine(f, dtype);
    size_t vocab = fixture_floats(f, key, &want), n = fixture_ids(f, "prompt_ids", &ids);
    CHECK_INT(vocab, e->decoder->vocab);
    float *got = xcalloc(vocab, sizeof *got);
    prompt_logits(e, ids, n, got);
    double error = relative_error(got, want, vocab);
    engine_close(e);
    free(want);
    free(ids);
    free(got);
    return error;
}

static void check_greedy(const struct fixture *f) {
    uint32_t *ids, *want;
    struct err err;
    struct engine_result got;
    struct engine *e = fixture_engine(f, "f32");
    size_t n = fixture_ids(f, "prompt_ids", &ids), steps = fixture_ids(f, "greedy", &want);
    struct engine_request r = {
        .ids = ids, .nids = n, .max_new_tokens = (uint32_t)steps, .ignore_eos = true
    };
    if (engine_infer(e, &r, &got, &err) < 0) fail_msg("%s", err.msg);
    CHECK_INT(got.ids.n, steps);
    CHECK_MEM(got.ids.v, want, steps * sizeof *want);
    engine_result_free(&got);
    engine_close(e);
    free(ids);
    free(want);
}

/* Float logits agree to rounding; 64 steps choose the same tokens (the smallest margin of the fixtures is
 * 3e-4, the engine's error about 1e-6). bf16: transformers rounds every activation, the engine only the
 * weights, so they differ by the rounding of bf16's 8 bits: 0.01 to 0.04 was observed, and more if an expert
 * changes. */
static void check_model(const char *name, double bf16_limit) {
    struct fixture f;
    fixture_open(&f, name);
    CHECK_NEAR(logits_error(&f, "f32", "logits"), 0, 2e-5);
    CHECK_NEAR(logits_error(&f, "bf16", "bf16_logits"), 0, bf16_limit);
    check_greedy(&f);
    fixture_close(&f);
}

TEST(llama_agrees_with_transformers_over_two_chunks) { check_model("llama", 0.05); }
TEST(llama3_rope_and_tied_head_agree_with_transformers) { check_model("llama3", 0.05); }
TEST(mistral_sliding_window_agrees_with_transformers) { check_model("mistral", 0.05); }
TEST(qwen2_agrees_with_transformers) { check_model("qwen2", 0.05); }
TEST(qwen3_agrees_with_transformers) { check_model("qwen3", 0.05); }
TEST(mixtral_agrees_with_transformers) { check_model("mixtral", 0.05); }
TEST(qwen3_moe_agrees_with_transformers) { check_model("qwen3_moe", 0.05); }
TEST(deepseek_v2_agrees_with_transformers) { check_model("deepseek_v2", 0.05); }
TEST(deepseek_v2_with_expert_groups_agrees_with_transformers) { check_model("deepseek_v2_groups", 0.15); }
TEST(deepseek_v3_agrees_with_transformers) { check_model("deepseek_v3", 0.5); }
TEST(qwen2_moe_agrees_with_transformers) { check_model("qwen2_moe", 0.05); }
TEST(gemma_agrees_with_transformers) { check_model("gemma", 0.05); }
TEST(gemma2_agrees_with_transformers) { check_model("gemma2", 0.05); }
TEST(gemma3_agrees_with_transformers) { check_model("gemma3", 0.05); }
TEST(phi3_with_short_and_with_long_factors_agrees_with_transformers) {
    check_model("phi3", 0.05);
    check_model("phi3_long", 0.05);
}
TEST(gpt_oss_agrees_with_transformers) { check_model("gpt_oss", 0.05); }
TEST(dynamic_rope_agrees_with_transformers_beyond_the_trained_context) { check_model("dynamic", 0.05); }

static void last_layer_rows(struct decoder *d, bool logits, float *out) {
    enum { ROWS = 4 };
    const uint32_t ids[ROWS] = { 5, 9, 200, 31 };
    size_t n = ROWS * (size_t)d->hidden;
    struct tensor *x = fixture_upload(d->ops, NULL, n);
    struct tensor *last = fixture_upload(d->ops, NULL, (size_t)d->vocab);
    decoder_embed(d, ids, ROWS, view_of(x));
    decoder_forward(d, view_of(x), ROWS, 0, logits ? last : NULL);
    ops_download(d->ops, out, view_of(x), n);
    ops_free(d->ops, x);
    ops_free(d->ops, last);
}

/* Only the last row gets logits, so only it needs the feed-forward block of the last layer. */
TEST(the_last_feed_forward_block_runs_on_rows_with_logits_only) {
    struct fixture f;
    fixture_open(&f, "llama");
    struct engine *e = fixture_engine(&f, "f32");
    size_t hidden = (size_t)e->decoder->hidden;
    float *without = xcalloc(4 * hidden, sizeof *without), *with = xcalloc(4 * hidden, sizeof *with);
    last_layer_rows(e->decoder, false, without);
    last_layer_rows(e->decoder, true, with);
    CHECK_MEM(with, without, 3 * hidden * sizeof *with);
    CHECK(memcmp(with + 3 * hidden, without + 3 * hidden, hidden * sizeof *with) != 0);
    free(with);
    free(without);
    engine_close(e);
    fixture_close(&f);
}

/* Scratch is allocated once, for the longest context. */
TEST(decoding_allocates_no_scratch_as_the_context_grows) {
    struct fixture f;
    struct err err;
    const uint32_t ids[] = { 5, 9, 200, 31 };
    size_t scratch = 0;
    fixture_open(&f, "deepseek_v2");
    struct engine *e = fixture_engine(&f, "bf16");
    for (uint32_t tokens = 2; tokens <= 200; tokens += 198) {
        struct engine_result got;
        struct engine_request r = { .ids = ids, .nids = 4, .max_new_tokens = tokens, .ignore_eos = true };
        if (engine_infer(e, &r, &got, &err) < 0) fail_msg("%s", err.msg);
        engine_result_free(&got);
        if (tokens > 2) CHECK_INT(cpu_scratch_bytes(e->ops), scratch);
        scratch = cpu_scratch_bytes(e->ops);
    }
    CHECK(scratch > 0);
    engine_close(e);
    fixture_close(&f);
}

/* The second id of generation_config.json's list comes first in the text and must stop it. */
TEST(every_end_token_of_generation_config_stops_generation) {
    struct fixture f;
    uint32_t *ids, *greedy;
    struct err err;
    struct engine_result got;
    char text[64];
    fixture_open(&f, "llama");
    size_t n = fixture_ids(&f, "prompt_ids", &ids), steps = fixture_ids(&f, "greedy", &greedy), stop = 0;
    while (greedy[stop] != greedy[4]) stop++;
    snprintf(text, sizeof text, "{\"eos_token_id\":[319,%u]}", greedy[4]);
    for (size_t i = 0; i <= stop; i++) CHECK(greedy[i] != 319);
    char *path = file_join(f.dir, "generation_config.json");
    if (file_write_atomic(path, text, strlen(text), &err) < 0) fail_msg("%s", err.msg);
    struct engine *e = fixture_engine(&f, "f32");
    struct engine_request r = { .ids = ids, .nids = n, .max_new_tokens = (uint32_t)steps };
    if (engine_infer(e, &r, &got, &err) < 0) fail_msg("%s", err.msg);
    CHECK_INT(got.ids.n, stop + 1);
    CHECK_INT(got.stop, ENGINE_STOP_EOS);
    engine_result_free(&got);
    engine_close(e);
    free(path);
    free(ids);
    free(greedy);
    fixture_close(&f);
}

/* Five sequences of different lengths over two chunks of the prompt: the tokens are those of each sequence
 * alone. Sequences that stop early leave the batch. */
static void check_batch(const char *name) {
    enum { N = 5 };
    struct fixture f;
    struct err err;
    uint32_t *ids;
    struct token_ids batch[N];
    struct engine_result alone, together[N];
    fixture_open(&f, name);
    size_t n = fixture_ids(&f, "prompt_ids", &ids);
    struct engine *e = fixture_engine(&f, "f32");
    for (size_t i = 0; i < N; i++) batch[i] = (struct token_ids){ .v = ids + i, .n = n - i * n / 6 - 4 };
    struct engine_request r = { .batch = batch, .nbatch = N, .max_new_tokens = 12, .ignore_eos = true };
    if (engine_infer(e, &r, together, &err) < 0) fail_msg("%s", err.msg);
    for (size_t i = 0; i < N; i++) {
        struct engine_request one = {
            .ids = batch[i].v, .nids = batch[i].n, .max_new_tokens = 12, .ignore_eos = true
        };
        if (engine_infer(e, &one, &alone, &err) < 0) fail_msg("%s", err.msg);
        CHECK_INT(together[i].prompt_tokens, batch[i].n);
        CHECK_INT(together[i].ids.n, 12);
        CHECK_MEM(together[i].ids.v, alone.ids.v, 12 * sizeof *alone.ids.v);
        engine_result_free(&alone);
        engine_result_free(&together[i]);
    }
    engine_close(e);
    free(ids);
    fixture_close(&f);
}

TEST(a_batch_generates_the_tokens_of_each_sequence_alone) { check_batch("llama"); }
TEST(a_batch_with_windows_generates_the_tokens_of_each_sequence_alone) { check_batch("mistral"); }
TEST(a_batch_with_experts_generates_the_tokens_of_each_sequence_alone) { check_batch("qwen3_moe"); }
TEST(a_batch_with_latents_generates_the_tokens_of_each_sequence_alone) { check_batch("deepseek_v2"); }

TEST(a_batch_of_short_and_long_texts_generates_the_tokens_of_each_sequence_alone) {
    check_batch("phi3_long");
}

TEST(a_sequence_that_stops_leaves_the_batch) {
    struct fixture f;
    struct err err;
    uint32_t *ids, *greedy;
    struct engine_result got[2];
    fixture_open(&f, "llama");
    size_t n = fixture_ids(&f, "prompt_ids", &ids);
    fixture_ids(&f, "greedy", &greedy);
    char text[64], *path = file_join(f.dir, "generation_config.json");
    snprintf(text, sizeof text, "{\"eos_token_id\":%u}", greedy[0]);
    if (file_write_atomic(path, text, strlen(text), &err) < 0) fail_msg("%s", err.msg);
    struct engine *e = fixture_engine(&f, "f32");
    struct token_ids batch[2] = { { .v = ids, .n = n }, { .v = ids, .n = 3 } };
    struct engine_request r = { .batch = batch, .nbatch = 2, .max_new_tokens = 3 };
    if (engine_infer(e, &r, got, &err) < 0) fail_msg("%s", err.msg);
    CHECK_INT(got[0].ids.n, 1);
    CHECK_INT(got[0].stop, ENGINE_STOP_EOS);
    CHECK_INT(got[1].ids.n, 3);
    CHECK_INT(got[1].stop, ENGINE_STOP_LENGTH);
    for (int i = 0; i < 2; i++) engine_result_free(&got[i]);
    engine_close(e);
    free(path);
    free(ids);
    free(greedy);
    fixture_close(&f);
}

/* A cache of bf16 rounds keys and values, or latents, to 8 bits: prefill reads it as floats, decoding as it
 * is. Both must agree with each other, and with a float cache up to that rounding (`most` of the largest
 * logit). */
static void check_bf16_cache(const char *name, double most) {
    struct fixture f;
    struct err err;
    uint32_t *ids;
    fixture_open(&f, name);
    size_t n = fixture_ids(&f, "prompt_ids", &ids), vocab = 0;
    float *logits[3];
    uint64_t bytes[3];
    for (int i = 0; i < 3; i++) { /* f32; bf16, whole prompt; bf16, last token decoded */
        struct engine_load load = { .model = f.dir,
                                    .device = "cpu",
                                    .weights = "synthetic:11",
                                    .dtype = "f32",
                                    .threads = 2,
                                    .kv_dtype = i ? "bf16" : "f32" };
        struct engine *e = engine_open(&load, &err);
        if (!e) fail_msg("%s", err.msg);
        struct decoder *d = e->decoder;
        vocab = (size_t)d->vocab;
        bytes[i] = e->ops->memory_bytes[TRACE_MEMORY_KV_CACHE];
        logits[i] = xcalloc(vocab, sizeof *logits[i]);
        if (i < 2) {
            prompt_logits(e, ids, n, logits[i]);
        } else {
            struct tensor *x = fixture_upload(d->ops, NULL, (size_t)d->hidden),
                          *last = fixture_upload(d->ops, NULL, (size_t)d->vocab);
            prompt_logits(e, ids, n - 1, logits[i]);
            decoder_embed(d, ids + n - 1, 1, view_of(x));
            decoder_forward(d, view_of(x), 1, (int)n - 1, last);
            ops_download(d->ops, logits[i], view_of(last), (size_t)d->vocab);
            ops_free(d->ops, x);
            ops_free(d->ops, last);
        }
        engine_close(e);
    }
    print_message("           %s: %.4f\n", name, relative_error(logits[1], logits[0], vocab));
    CHECK_INT(2 * bytes[1], bytes[0]);
    CHECK_NEAR(relative_error(logits[1], logits[0], vocab), 0, most);
    CHECK_NEAR(relative_error(logits[2], logits[1], vocab), 0, 2e-5);
    CHECK(memcmp(logits[0], logits[1], vocab * sizeof(float)) != 0);
    for (int i = 0; i < 3; i++) free(logits[i]);
    free(ids);
    fixture_close(&f);
}

TEST(a_cache_of_bf16_agrees_with_floats_up_to_its_rounding) { check_bf16_cache("llama", 0.02); }
TEST(a_cache_of_bf16_latents_agrees_with_floats_up_to_its_rounding) {
    check_bf16_cache("deepseek_v2", 0.01);
    check_bf16_cache("deepseek_v2_groups", 0.02);
}

/* Logits of a prompt with bf16 weights: in floats, or with products of bf16 numbers. */
static float *logits_of(const struct fixture *f, bool exact, size_t *vocab) {
    struct err err;
    uint32_t *ids;
    size_t n = fixture_ids(f, "prompt_ids", &ids);
    struct engine_load load = { .model = f->dir,
                                .weights = "synthetic:11",
                                .dtype = "bf16",
                                .threads = 2,
                                .kv_dtype = "f32",
                                .exact = exact };
    struct engine *e = engine_open(&load, &err);
    if (!e) fail_msg("%s", err.msg);
    cpu_test_bf16(e->ops);
    *vocab = (size_t)e->decoder->vocab;
    float *logits = xcalloc(*vocab, sizeof *logits);
    prompt_logits(e, ids, n, logits);
    engine_close(e);
    free(ids);
    return logits;
}

/* Rounding activations to bf16 changes the logits by less than 2% of the largest one. */
TEST(products_of_bf16_numbers_agree_with_floats_up_to_their_rounding) {
    static const char *const names[] = { "llama", "qwen2", "qwen3", "gemma2", "phi3" };
    for (size_t i = 0; i < COUNTOF(names); i++) {
        struct fixture f;
        size_t vocab;
        fixture_open(&f, names[i]);
        float *plain = logits_of(&f, true, &vocab), *pairs = logits_of(&f, false, &vocab);
        double error = relative_error(pairs, plain, vocab);
        print_message("           %s: %.4f\n", names[i], error);
        CHECK(error > 0);
        CHECK_NEAR(error, 0, 0.02);
        free(plain);
        free(pairs);
        fixture_close(&f);
    }
}
