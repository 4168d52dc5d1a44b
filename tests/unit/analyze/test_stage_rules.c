#include <math.h>
#include <string.h>

#include "analyze/stage_rules.h"
#include "unit/analyze/scene.h"
#include "unit/test.h"

TEST(stage_rules_globs_match_whole_names) {
    CHECK(stage_rules_glob("decode*", "decode step 3"));
    CHECK(stage_rules_glob("*step*", "my step 3"));
    CHECK(stage_rules_glob("a?c", "abc"));
    CHECK(stage_rules_glob("*a*b*c", "xxaxxbxxc"));
    CHECK(!stage_rules_glob("decode", "decode step"));
    CHECK(!stage_rules_glob("Decode*", "decode"));
    CHECK(!stage_rules_glob("a*b", "aXc"));
    CHECK(stage_rules_glob("", ""));
}

TEST(stage_rules_read_the_step_labels_of_servers) {
    static const struct {
        const char *label, *stage;
        double tokens_in, tokens_out, keys;
    } rows[] = {
        { "execute_context_2(1030)_generation_0(0)", "prefill", 1030, 2, NAN },
        { "execute_context_1(888_788544)_generation_0(0)", "prefill", 888, 1, NAN },
        { "execute_9_context_1(sq512sk700sqsq1sqsk1)_generation_0(sq0sk0sqsq0sqsk0)", "prefill", 512, 1,
          700 },
        { "execute_context_0(0)_generation_64(64)", "decode", 64, 64, NAN },
        { "execute_context_1(512)_generation_7(7)", "mixed", 519, 8, NAN },
        { "execute_9_context_1(sq512sk512sqsq262144sqsk262144)_generation_8(sq8sk9000sqsq8sqsk9000)", "mixed",
          520, 9, NAN },
        { "execute_4_context_0(sq0sk0sqsq0sqsk0)_generation_4(sq4sk88sqsq4sqsk88)", "decode", 4, 4, 88 },
        { "step[DECODE bs=64 g_sq=64 g_sqsq=64 g_sqsk=100032 g_sk=100032]", "decode", 64, 64, 100032 },
        { "step[DECODE bs=32]", "decode", 32, 32, NAN },
        { "step[EXTEND bs=1 toks=1025 c_sq=1025]", "prefill", 1025, 1, NAN },
        { "step[MIXED bs=3 c_sq=10 g_sq=2]", "mixed", 12, 3, NAN },
        { "step[TARGET_VERIFY bs=4 toks=16]", "verify", 16, NAN, NAN },
    };
    struct stage_match m;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK(stage_rules_match(NULL, rows[i].label, TRACE_CATEGORY_USER, &m));
        CHECK_STR(m.stage, rows[i].stage);
        CHECK_NEAR(m.tokens_in, rows[i].tokens_in, 0);
        CHECK_NEAR(m.tokens_out, rows[i].tokens_out, 0);
        CHECK_NEAR(m.keys, rows[i].keys, 0);
    }
    CHECK(!stage_rules_match(NULL, "execute_model", TRACE_CATEGORY_USER, &m));
    CHECK(!stage_rules_match(NULL, "step[", TRACE_CATEGORY_USER, &m));
    CHECK(!stage_rules_match(NULL, "execute_context_(generation_", TRACE_CATEGORY_USER, &m));
}

TEST(stage_rules_take_prefill_and_decode_as_words) {
    static const char *const stages[] = { "decode",        "decode 3",         "decode_3",
                                          "decode step 3", "Decode: 5",        "decode[bs=4]",
                                          "decode#7",      "decode(4)",        "decode12",
                                          "decode-1",      "prefill",          "Prefill 512",
                                          "decode_step",   "DecodeStep",       "prefill_forward",
                                          "decode.2",      "decode.forward",   "decode_b8",
                                          "prefill_chunk", "decode_one_token", "decode-only" };
    static const char *const others[] = { "decoder",          "decode_jpeg",     "decode_image_batch",
                                          "decoding",         "decoder_block_1", "decode_token_ids",
                                          "decoded 3",        "prefilled",       "decode_request_headers",
                                          "decode_run_length" };
    struct stage_match m;
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        CHECK(stage_rules_match(NULL, stages[i], TRACE_CATEGORY_USER, &m));
        CHECK_STR(m.stage, stages[i][0] == 'd' || stages[i][0] == 'D' ? "decode" : "prefill");
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        CHECK(!stage_rules_match(NULL, others[i], TRACE_CATEGORY_USER, &m));
}

TEST(stage_rules_of_the_caller_come_first) {
    const struct analyze_rule rules[] = { { "vision", "clip*" }, { "decode", "loop" } };
    struct analyze_input in = { .rules = rules, .nrules = 2 };
    struct stage_match m;
    CHECK(stage_rules_match(&in, "clip_tower", TRACE_CATEGORY_MODULE, &m));
    CHECK_STR(m.stage, "vision");
    CHECK(stage_rules_match(&in, "prefill_1", TRACE_CATEGORY_USER, &m));
    in.no_presets = true;
    CHECK(!stage_rules_match(&in, "prefill_1", TRACE_CATEGORY_USER, &m));
    CHECK(stage_rules_match(&in, "anything", TRACE_CATEGORY_STAGE, &m));
    CHECK_STR(m.stage, "anything");
    CHECK(!stage_rules_match(NULL, "decode_attention", TRACE_CATEGORY_OP, &m)); /* operators are no stages */
    CHECK(stage_rules_match(NULL, "clip", TRACE_CATEGORY_USER, &m));
    CHECK(m.nested_only);
}

static void check_decodes(struct scene *s, size_t steps) {
    struct analysis a;
    struct timeline *tl = timeline_builder_finish(s->b);
    analyze_run(tl, NULL, &a);
    size_t n = 0;
    for (size_t i = 0; i < a.nstages; i++)
        if (strcmp(a.stages[i].name, "decode") == 0) n += a.stages[i].occurrences;
    CHECK_INT(n, steps);
    analysis_free(&a);
    timeline_close(tl);
}

static void operator_with_kernel(struct scene *s, const char *name, uint64_t start) {
    scene_operator(s, name, "", 1, start, start + 40);
    scene_kernel(s, "k", 1, start + 5, start + 6, 7, start + 10, start + 30);
}

/* The importer read "decode, seq = 512" as the operator "decode". */
TEST(an_annotation_that_was_recorded_as_an_operator_is_a_phase) {
    struct scene s;
    scene_start(&s);
    for (uint64_t t = 0; t < 3000; t += 1000) {
        scene_operator(&s, "generate", "", 1, t, t + 900);
        scene_operator(&s, "decode", "", 1, t + 10, t + 500);
        operator_with_kernel(&s, "aten::mm", t + 100);
        operator_with_kernel(&s, "AddmmBackward0", t + 200);
    }
    check_decodes(&s, 3);
}

TEST(an_annotation_that_was_recorded_as_an_operator_is_a_phase_in_a_trace_without_operators) {
    struct scene s;
    scene_start(&s);
    operator_with_kernel(&s, "decode", 0);
    operator_with_kernel(&s, "decode", 100);
    check_decodes(&s, 2);
}

/* An autograd function may have any name. */
TEST(an_operator_with_the_name_of_a_phase_is_no_phase) {
    struct scene s;
    scene_start(&s);
    operator_with_kernel(&s, "aten::mm", 0);
    operator_with_kernel(&s, "decode", 100); /* contains no operator */
    scene_operator(&s, "my::layer", "", 1, 200, 400);
    scene_operator(&s, "decode", "", 1, 210, 390); /* inside of one */
    operator_with_kernel(&s, "aten::mm", 300);
    scene_operator(&s, "decode::run", "", 1, 500, 700);
    operator_with_kernel(&s, "aten::mm", 600);
    check_decodes(&s, 0);
}
