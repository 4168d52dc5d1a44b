/* Layouts of jobs: recognised, told, or refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ranks/costs.h"
#include "ranks/layout.h"
#include "unit/ranks/jobs.h"
#include "unit/test.h"

static struct rank_layout layout_of(const struct test_job *t, struct rank_given given) {
    struct rank_layout l;
    struct err err = { "" };
    CHECK_INT(rank_layout_find(&t->job, &given, &l, &err), 0);
    return l;
}

#define CHECK_SIZES(l, want_tp, want_pp, want_ep, want_dp) \
    do {                                                   \
        CHECK((l).source != NULL);                         \
        CHECK_INT((l).sizes.tp, want_tp);                  \
        CHECK_INT((l).sizes.pp, want_pp);                  \
        CHECK_INT((l).sizes.ep, want_ep);                  \
        CHECK_INT((l).sizes.dp, want_dp);                  \
    } while (0)

TEST(frequent_all_reduces_of_a_decoder_are_tensor_parallel) {
    struct test_job t;
    test_job_init(&t, 8, 8, "NVIDIA H100 80GB HBM3");
    test_job_group(&t, NULL, 0, 4, 1, "all_reduce", 65, 16384);
    test_job_group(&t, NULL, 4, 4, 1, "all_reduce", 65, 16384);
    struct rank_layout l = layout_of(&t, (struct rank_given){ 0 });
    CHECK_SIZES(l, 4, 1, 0, 2);
    CHECK_INT(l.places[6].tp, 2);
    CHECK_INT(l.places[6].dp, 1);
    CHECK_INT(l.places[6].pp, 0);
    rank_layout_free(&l);
}

TEST(pairs_that_send_form_a_pipeline) {
    struct test_job t;
    test_job_init(&t, 8, 8, "NVIDIA H100 80GB HBM3");
    for (size_t g = 0; g < 4; g++) test_job_group(&t, NULL, 2 * g, 2, 1, "all_reduce", 65, 16384);
    for (size_t r = 0; r < 6; r++) test_job_group(&t, NULL, r, 2, 2, r % 2 ? "send" : "recv", 1, 8192);
    struct rank_layout l = layout_of(&t, (struct rank_given){ 0 });
    CHECK_SIZES(l, 2, 4, 0, 1);
    CHECK_INT(l.places[5].pp, 2);
    CHECK_INT(l.places[5].tp, 1);
    rank_layout_free(&l);
}

TEST(all_to_all_is_expert_parallel) {
    struct test_job t;
    test_job_init(&t, 8, 8, "NVIDIA H100 80GB HBM3");
    test_job_group(&t, NULL, 0, 8, 1, "all_to_all", 52, 1 << 20);
    struct rank_layout l = layout_of(&t, (struct rank_given){ 0 });
    CHECK_SIZES(l, 1, 1, 8, 8);
    char *text = rank_layout_text(&l);
    CHECK_STR(text, "tp 1, pp 1, ep 8, dp 8");
    free(text);
    rank_layout_free(&l);
}

TEST(names_of_groups_decide_if_there_are_any) {
    struct test_job t;
    test_job_init(&t, 8, 8, "NVIDIA H100 80GB HBM3");
    test_job_group(&t, "default_pg", 0, 8, 1, "all_reduce", 1, 8);
    for (size_t g = 0; g < 4; g++) test_job_group(&t, "mesh_tp", 2 * g, 2, 1, "all_gather", 65, 16384);
    for (size_t g = 0; g < 2; g++) test_job_group(&t, "mesh_dp", g, 4, 2, "all_reduce", 1, 1 << 20);
    struct rank_layout l = layout_of(&t, (struct rank_given){ 0 });
    CHECK_SIZES(l, 2, 1, 0, 4);
    CHECK_STR(l.source, "names of process groups");
    CHECK_INT(l.places[5].dp, 2);
    rank_layout_free(&l);
}

TEST(an_ambiguous_layout_has_a_reason_and_no_sizes) {
    struct test_job t;
    test_job_init(&t, 8, 8, NULL);
    t.stage.name = "step"; /* not known to be inference: all-reduces may be gradients */
    test_job_group(&t, NULL, 0, 8, 1, "all_reduce", 65, 16384);
    struct rank_layout l = layout_of(&t, (struct rank_given){ 0 });
    CHECK(!l.source);
    CHECK(strstr(l.why, "fit several layouts: give --tp"));
    CHECK(!rank_layout_text(&l));
    CHECK_INT(l.places[0].tp, RANK_NONE);
    rank_layout_free(&l);
    t.job.ncommunicators = t.job.ncollectives = 0;
    l = layout_of(&t, (struct rank_given){ 0 });
    CHECK(!l.source);
    CHECK(strstr(l.why, "no communicators were recorded"));
    rank_layout_free(&l);
    t.stage.name = "decode"; /* groups of different sizes */
    test_job_group(&t, NULL, 0, 4, 1, "all_reduce", 65, 16384);
    test_job_group(&t, NULL, 4, 2, 1, "all_reduce", 65, 16384);
    l = layout_of(&t, (struct rank_given){ 0 });
    CHECK(!l.source);
    CHECK(strstr(l.why, "different sizes"));
    rank_layout_free(&l);
}

TEST(kernels_that_send_and_receive_fit_two_layouts) {
    struct test_job t;
    test_job_init(&t, 2, 2, NULL);
    test_job_group(&t, NULL, 0, 2, 1, "send_recv", 2, 8192); /* a pipeline or an all-to-all */
    struct rank_layout l = layout_of(&t, (struct rank_given){ 0 });
    CHECK(!l.source);
    rank_layout_free(&l);
    /* a group of unknown size in a job whose other ranks have no traces */
    t.job.ncommunicators = t.job.ncollectives = 0;
    t.job.world_size = 128;
    t.communicators[test_job_group(&t, NULL, 0, 2, 1, "all_to_all", 2, 8192)].size = 0;
    l = layout_of(&t, (struct rank_given){ 0 });
    CHECK(!l.source);
    CHECK(strstr(l.why, "fit several layouts"));
    rank_layout_free(&l);
}

TEST(given_sizes_must_fit_the_job) {
    struct test_job t;
    struct rank_layout l;
    struct err err = { "" };
    test_job_init(&t, 8, 8, NULL);
    l = layout_of(&t, (struct rank_given){ .tp = 2, .pp = 4 });
    CHECK_SIZES(l, 2, 4, 0, 1);
    CHECK_INT(l.places[7].pp, 3);
    rank_layout_free(&l);
    l = layout_of(&t, (struct rank_given){ .tp = 2, .pp = 2 });
    CHECK_INT(l.sizes.dp, 2);
    CHECK_INT(l.places[7].pp, 1); /* 8 ranks: tp first, then dp, then pp */
    CHECK_INT(l.places[7].dp, 1);
    CHECK_INT(l.places[3].pp, 0);
    CHECK_INT(l.places[3].dp, 1);
    CHECK(l.assumed_order && strstr(l.why, "tp first, then dp, then pp"));
    rank_layout_free(&l);
    CHECK_INT(rank_layout_find(&t.job, &(struct rank_given){ .tp = 3 }, &l, &err), -1);
    CHECK_STR(err.msg, "--tp 3 x --pp 1 do not make up the 8 ranks of the job");
}

TEST(each_gpu_is_charged_its_part) {
    static const char config[] =
        "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":1024,"
        "\"num_hidden_layers\":4,\"num_attention_heads\":8,\"num_key_value_heads\":8,\"head_dim\":128,"
        "\"intermediate_size\":4096,\"vocab_size\":32000,\"tie_word_embeddings\":false,"
        "\"max_position_embeddings\":8192,\"rms_norm_eps\":1e-5,\"torch_dtype\":\"bfloat16\"}";
    struct err err = { "" };
    struct llm_model *m = llm_model_parse(config, sizeof config - 1, "config", &(struct llm_load){ 0 }, &err);
    struct test_job t;
    struct rank_costs c;
    CHECK(m != NULL);
    test_job_init(&t, 4, 4, "NVIDIA H100 80GB HBM3");
    test_job_group(&t, NULL, 0, 4, 1, "all_reduce", 9, 2048);
    t.stage.name = "prefill";
    for (size_t r = 0; r < 4; r++) t.cells[r].tokens_in = 512 * JOB_STEPS;
    struct rank_layout l = layout_of(&t, (struct rank_given){ 0 });
    rank_costs_find(&t.job, &l, m, &(struct rank_peaks){ 1e15, 4e12 }, &c);
    CHECK(c.why == NULL);
    struct llm_setup setup = { .peak = { 1e15, 4e12 } };
    struct llm_cost whole = llm_cost_prefill(m, &setup, 1, 512, 0);
    CHECK_NEAR(c.cells[2].flops, whole.flops * JOB_STEPS / 4, 1);
    CHECK_NEAR(c.job[0].flops, whole.flops * JOB_STEPS, 4);
    /* 10 ms per step */
    CHECK_NEAR(c.cells[2].mfu, whole.flops / 4 / 10e-3 / 1e15, 1e-9);
    CHECK_NEAR(c.job[0].mfu, c.cells[2].mfu, 1e-9);
    rank_costs_free(&c);
    rank_layout_free(&l);
    t.stage.name = "step"; /* unknown layout: no figures, with the reason */
    l = layout_of(&t, (struct rank_given){ 0 });
    rank_costs_find(&t.job, &l, m, &(struct rank_peaks){ 1e15, 4e12 }, &c);
    CHECK(strstr(c.why, "the layout is unknown"));
    CHECK(isnan(c.job[0].mfu));
    rank_costs_free(&c);
    rank_layout_free(&l);
    llm_model_free(m);
}
