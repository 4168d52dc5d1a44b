/* Models shared by several GPUs: parts, communication and times, computed by hand. */
#include <math.h>
#include <string.h>

#include "base/util.h"
#include "llm/parallel.h"
#include "unit/llm/models.h"
#include "unit/test.h"

#define LLAMA_70B                                                                                     \
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":8192,"        \
    "\"num_hidden_layers\":80,\"num_attention_heads\":64,\"num_key_value_heads\":8,\"head_dim\":128," \
    "\"intermediate_size\":28672,\"vocab_size\":128256,\"tie_word_embeddings\":false,"                \
    "\"max_position_embeddings\":8192,\"rms_norm_eps\":1e-5,\"rope_theta\":500000,"                   \
    "\"torch_dtype\":\"bfloat16\"}"
#define MIXTRAL                                                                                    \
    "{\"architectures\":[\"MixtralForCausalLM\"],\"model_type\":\"mixtral\",\"hidden_size\":4096," \
    "\"num_hidden_layers\":32,\"num_attention_heads\":32,\"num_key_value_heads\":8,"               \
    "\"intermediate_size\":14336,\"vocab_size\":32000,\"num_local_experts\":8,"                    \
    "\"num_experts_per_tok\":2,\"max_position_embeddings\":32768,\"rms_norm_eps\":1e-5,"           \
    "\"rope_theta\":1000000,\"tie_word_embeddings\":false,\"torch_dtype\":\"bfloat16\"}"

/* H200 SXM with given links. */
struct fixture {
    struct llm_model *m;
    struct llm_device device;
    struct llm_static r;
    struct llm_parallel p;
};

static int eval(struct fixture *f, struct llm_model *m, struct llm_layout l, uint64_t batch,
                struct err *err) {
    struct llm_workload w = { .batch = batch, .prompt_tokens = 1000, .new_tokens = 1, .context = 1000 };
    const struct llm_gpu *gpu = llm_gpu_find("h200", err);
    static const struct llm_link net = { .name = "net", .gbytes_per_s = 50, .network = true };
    struct llm_topology t = { .layout = l, .gpus_per_node = 8, .link = llm_link_of_gpu(gpu), .net = &net };
    *f = (struct fixture){ .m = m, .device = llm_device_of(gpu, m, 0, NULL, 0) };
    CHECK_INT(llm_static_eval(m, &w, &f->device, &f->r, err), 0);
    return llm_parallel_eval(&f->r, &t, &f->p, err);
}

static void release(struct fixture *f) {
    llm_parallel_free(&f->p);
    llm_static_free(&f->r);
    llm_model_free(f->m);
}

static const struct llm_comm *comm(const struct llm_part_pass *p, const char *what) {
    for (size_t i = 0; i < p->ncomms; i++)
        if (strcmp(p->comms[i].what, what) == 0) return &p->comms[i];
    static const struct llm_comm none;
    return &none;
}

TEST(llama_70b_over_8_gpus) {
    struct fixture f;
    struct err err = { "" };
    CHECK_INT(eval(&f, test_model_text(LLAMA_70B), llm_layout_of(8, 1, 0, 1), 1, &err), 0);
    const struct llm_part *p = &f.p.parts[0];
    /* per layer: q and o 8192 x 1024, k and v 8192 x 128, gate, up and down 8192 x 3584, two norms */
    double layer = 2 * 8192.0 * 1024 + 2 * 8192.0 * 128 + 3 * 8192.0 * 3584 + 2 * 8192;
    double params = 80 * layer + 2 * 16032.0 * 8192 + 8192;
    CHECK_NEAR(p->weight_bytes, 2 * params, 0.5);
    CHECK_NEAR(p->weight_bytes, 17640734720.0, 0.5);
    /* one KV head per GPU: 2 x 128 numbers of 2 bytes in 80 layers, for 1001 tokens */
    CHECK_NEAR(p->kv_bytes, 1001 * 40960.0, 0.5);
    /* decode: two all-reduces of 8192 numbers per layer and one after the embedding */
    CHECK_NEAR(p->decode.sent_bytes, 161 * 16384 * 1.75 + 128256 * 2 * 0.875, 0.5);
    CHECK_INT(comm(&p->decode, "attention")->count, 80);
    CHECK_NEAR(p->decode.comm_s, p->decode.sent_bytes / 450e9, 1e-15);
    CHECK_NEAR(comm(&p->prefill, "MLP")->sent_bytes, 80 * 1000 * 16384 * 1.75, 0.5);
    CHECK_NEAR(f.p.decode_s, p->decode.cost.floor_s + p->decode.comm_s, 1e-15);
    CHECK_NEAR(f.p.tokens_per_s, 1 / f.p.decode_s, 1e-6);
    /* every FLOP of the model is on exactly one of the 8 GPUs */
    CHECK_NEAR(8 * p->prefill.cost.flops / f.r.prefill.flops, 1, 1e-12);
    release(&f);
}

TEST(kv_heads_are_copied_if_there_are_more_gpus) {
    struct fixture f;
    struct err err = { "" };
    CHECK_INT(eval(&f, test_model_text(LLAMA_70B), llm_layout_of(16, 1, 0, 1), 1, &err), 0);
    CHECK_NEAR(f.p.parts[0].kv_bytes, 1001 * 40960.0, 0.5);
    /* the ring leaves the node: 16 GPUs, 8 adapters of 50 GB/s per node are slower than NVLink's 450 */
    const struct llm_comm *c = comm(&f.p.parts[0].decode, "attention");
    CHECK_STR(c->link, "net");
    CHECK_NEAR(c->seconds, 80 * 16384 * (30.0 / 16) / 400e9, 1e-15);
    release(&f);
}

TEST(pipeline_stages_have_layers_table_and_head) {
    struct fixture f;
    struct err err = { "" };
    CHECK_INT(eval(&f, test_model_text(LLAMA_70B), llm_layout_of(8, 2, 0, 1), 4, &err), 0);
    const struct llm_part *a = &f.p.parts[0], *b = &f.p.parts[1];
    double layer = 2 * 8192.0 * 1024 + 2 * 8192.0 * 128 + 3 * 8192.0 * 3584 + 2 * 8192;
    CHECK_INT(a->layers.end, 40);
    CHECK_INT(b->layers.first, 40);
    CHECK_NEAR(a->weight_bytes, 2 * (40 * layer + 16032.0 * 8192), 0.5);
    CHECK_NEAR(b->weight_bytes, 2 * (40 * layer + 16032.0 * 8192 + 8192), 0.5);
    CHECK_NEAR(a->kv_bytes, 4 * 1001 * 20480.0, 0.5);
    /* each GPU sends an eighth of 4 x 8192 numbers over the network, then the receivers gather them */
    const struct llm_comm *send = comm(&a->decode, "to the next stage");
    CHECK_NEAR(send->sent_bytes, 4 * 8192 * 2 / 8.0, 1e-9);
    CHECK_NEAR(send->seconds, 8192 / 50e9, 1e-15);
    CHECK_INT(comm(&b->decode, "to the next stage")->count, 0);
    CHECK_NEAR(comm(&b->decode, "from the stage before")->sent_bytes, 65536 * 7 / 8.0, 1e-9);
    CHECK_NEAR(f.p.decode_s, a->decode.floor_s + b->decode.floor_s, 1e-15);
    CHECK_NEAR(f.p.tokens_per_s_full, 4 / fmax(a->decode.floor_s, b->decode.floor_s), 1e-6);
    CHECK_NEAR(8 * (a->decode.cost.flops + b->decode.cost.flops) / f.r.decode.flops, 1, 1e-12);
    release(&f);
}

TEST(mixtral_experts_within_the_tensor_group) {
    struct fixture f;
    struct err err = { "" };
    CHECK_INT(eval(&f, test_model_text(MIXTRAL), llm_layout_of(8, 1, 8, 1), 1, &err), 0);
    const struct llm_part *p = &f.p.parts[0];
    double layer = 2 * 4096.0 * 512 + 2 * 4096.0 * 128 + 4096 * 8 + 3 * 4096.0 * 14336 + 2 * 4096;
    CHECK_INT(p->experts, 1);
    CHECK_NEAR(p->weight_bytes, 2 * (32 * layer + 2 * 4000.0 * 4096 + 4096), 0.5);
    CHECK_INT(comm(&p->decode, "MLP")->count, 32); /* the GPUs have the same tokens: no all-to-all */
    CHECK_INT(comm(&p->decode, "experts, dispatch")->count, 0);
    /* without --ep, an eighth of every expert: the same bytes */
    double with_ep = p->weight_bytes;
    release(&f);
    CHECK_INT(eval(&f, test_model_text(MIXTRAL), llm_layout_of(8, 1, 0, 1), 1, &err), 0);
    CHECK_NEAR(f.p.parts[0].weight_bytes, with_ep, 0.5);
    release(&f);
}

TEST(deepseek_experts_over_8_replicas) {
    struct fixture f;
    struct err err = { "" };
    CHECK_INT(eval(&f, test_model("deepseek-v2-lite"), llm_layout_of(1, 1, 8, 8), 16, &err), 0);
    const struct llm_part *p = &f.p.parts[0];
    double all = llm_weight_bytes(f.m), experts = 26 * 64.0 * 3 * 2048 * 1408 * 2;
    CHECK_INT(p->experts, 8);
    CHECK_NEAR(p->weight_bytes, all - experts * 7 / 8, 0.5);
    CHECK_NEAR(p->kv_bytes, 16 * 1001 * 27 * 576 * 2.0, 0.5); /* the whole latent of its own sequences */
    /* of 64 experts 6 are used, 8 per GPU: 1 - C(56,6) / C(64,6) */
    double reach = 1 - 32468436.0 / 74974368.0;
    const struct llm_comm *c = comm(&p->decode, "experts, dispatch");
    CHECK_INT(c->count, 26);
    CHECK_NEAR(c->sent_bytes, 26 * 16 * 2048 * 2 * 7 * reach, 1e-3);
    CHECK_NEAR(c->seconds, c->sent_bytes / 450e9, 1e-15);
    CHECK_INT(p->decode.ncomms, 2);
    /* the 8 replicas together compute 8 batches */
    CHECK_NEAR(p->decode.cost.flops / f.r.decode.flops, 1, 1e-12);
    CHECK_NEAR(f.p.tokens_per_s, 128 / f.p.decode_s, 1e-6);
    release(&f);
}

TEST(uneven_divisions_are_right_or_refused) {
    struct fixture f;
    struct err err = { "" };
    CHECK_INT(eval(&f, test_model_text(LLAMA_70B), llm_layout_of(3, 1, 0, 1), 1, &err), -1);
    CHECK_STR(err.msg, "64 attention heads cannot be divided among 3 GPUs: choose a divisor of 64 for --tp");
    release(&f);
    CHECK_INT(eval(&f, test_model("qwen2.5-32b-instruct"), llm_layout_of(5, 1, 0, 1), 1, &err), -1);
    CHECK(strstr(err.msg, "8 KV heads"));
    release(&f);
    CHECK_INT(eval(&f, test_model_text(LLAMA_70B), llm_layout_of(1, 1, 2, 2), 1, &err), -1);
    CHECK_STR(err.msg, "--ep needs a model with experts; this one has none");
    release(&f);
    CHECK_INT(eval(&f, test_model_text(MIXTRAL), llm_layout_of(1, 1, 16, 16), 1, &err), -1);
    CHECK(strstr(err.msg, "only 8 experts"));
    release(&f);
    CHECK_INT(eval(&f, test_model_text(MIXTRAL), llm_layout_of(2, 1, 8, 2), 1, &err), -1);
    CHECK(strstr(err.msg, "has 4 GPUs"));
    release(&f);
    CHECK_INT(eval(&f, test_model_text(MIXTRAL), llm_layout_of(1, 33, 0, 1), 1, &err), -1);
    CHECK(strstr(err.msg, "only 32 layers"));
    release(&f);
    /* 32 layers in 3 stages: 11, 11 and 10; 8 experts on 3 GPUs: 3 on the fullest */
    CHECK_INT(eval(&f, test_model_text(MIXTRAL), llm_layout_of(1, 3, 3, 3), 1, &err), 0);
    CHECK_INT(f.p.parts[0].layers.end, 11);
    CHECK_INT(f.p.parts[2].layers.end - f.p.parts[2].layers.first, 10);
    CHECK_INT(f.p.parts[0].experts, 3);
    release(&f);
}

TEST(a_tied_table_is_copied_to_the_last_stage) {
    struct fixture f;
    struct err err = { "" };
    CHECK_INT(eval(&f, test_model("llama-3.2-1b-instruct"), llm_layout_of(1, 2, 0, 1), 1, &err), 0);
    CHECK_NEAR(f.p.parts[0].weight_bytes + f.p.parts[1].weight_bytes,
               llm_weight_bytes(f.m) + 128256.0 * 2048 * 2, 0.5);
    release(&f);
}

TEST(factors_of_nccl_tests) {
    CHECK_NEAR(llm_collective_factor(LLM_ALL_REDUCE, 8), 1.75, 1e-12);
    CHECK_NEAR(llm_collective_factor(LLM_ALL_GATHER, 8), 0.875, 1e-12);
    CHECK_NEAR(llm_collective_factor(LLM_REDUCE_SCATTER, 4), 0.75, 1e-12);
    CHECK_NEAR(llm_collective_factor(LLM_ALL_TO_ALL, 2), 0.5, 1e-12);
    CHECK_NEAR(llm_collective_factor(LLM_BROADCAST, 8), 1, 1e-12);
    CHECK_NEAR(llm_collective_factor(LLM_SEND, 2), 1, 1e-12);
    CHECK(isnan(llm_collective_factor(LLM_ALL_REDUCE, 1)));
}

TEST(links_are_found_by_name_number_and_gpu) {
    struct err err = { "" };
    struct llm_link given;
    CHECK_NEAR(llm_link_find("nvlink4", &given, &err)->gbytes_per_s, 450, 0);
    CHECK_NEAR(llm_link_find("NDR", &given, &err)->gbytes_per_s, 50, 0);
    CHECK_NEAR(llm_link_find("PCIe-5", &given, &err)->gbytes_per_s, 63.015, 0);
    CHECK_NEAR(llm_link_find("370.5", &given, &err)->gbytes_per_s, 370.5, 0);
    CHECK(!llm_link_find("-3", &given, &err));
    CHECK(!llm_link_find("nvlink9", &given, &err));
    CHECK(strstr(err.msg, "did you mean NVLink"));
    CHECK_STR(llm_link_of_gpu(llm_gpu_find("b200", &err))->name, "NVLink 5");
    CHECK(!llm_link_of_gpu(llm_gpu_find("l40s", &err)));
    CHECK(!llm_link_of_gpu(NULL));
}
