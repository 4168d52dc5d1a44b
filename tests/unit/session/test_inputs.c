/* Parts of a run without an engine: hashes, datasets, devices, folders, replies. */
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/util.h"
#include "conf/compose.h"
#include "conf/schema.h"
#include "conf/yaml.h"
#include "run/request_cost.h"
#include "session/cpu_caches.h"
#include "session/cpu_peak.h"
#include "session/cpu_peak_kernels.h"
#include "session/dataset.h"
#include "session/device.h"
#include "session/engine_reply.h"
#include "session/env.h"
#include "session/requests.h"
#include "session/run_dir.h"
#include "unit/test.h"

TEST(sha256_matches_fips_180_4) {
    static const struct {
        const char *text, *want;
    } rows[] = {
        { "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
    };
    for (size_t i = 0; i < 3; i++) {
        struct sha256 s;
        char hex[65];
        sha256_start(&s);
        /* byte by byte, to test block boundaries */
        for (const char *p = rows[i].text; *p; p++) sha256_add(&s, p, 1);
        sha256_hex(&s, hex);
        CHECK_STR(hex, rows[i].want);
    }
    struct sha256 s;
    char block[1000], hex[65];
    memset(block, 'a', sizeof block);
    sha256_start(&s);
    for (int i = 0; i < 1000; i++) sha256_add(&s, block, sizeof block);
    sha256_hex(&s, hex);
    CHECK_STR(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static struct conf *settings_of(struct settings *s, const char *const *words, size_t n) {
    struct err err;
    struct conf_request req = { .words = words, .nwords = n };
    struct strlist errors = { 0 };
    req.store.builtin = conf_builtin_files(&req.store.nbuiltin);
    struct conf *c = conf_compose(&req, &err);
    if (!c) fprintf(stderr, "%s\n", err.msg);
    CHECK(c);
    schema_apply(conf_root(c), s, &errors);
    for (size_t i = 0; i < errors.n; i++) fprintf(stderr, "%s\n", errors.v[i]);
    CHECK_INT(errors.n, 0);
    return c;
}

static char *folder_of_pages(void) {
    char *dir = test_tmpdir(), cmd[400];
    snprintf(cmd, sizeof cmd,
             "cd '%s' && mkdir images 'im[1]' && touch images/b.png images/a.png images/c.jpg x.txt "
             "'im[1]/d.png' && "
             "printf 'images/c.jpg\\n# no\\n\\nimages/a.png\\n' > list.txt && printf "
             "'images/a.png\\nnot/there.png\\n' > bad.txt",
             dir);
    CHECK_INT(system(cmd), 0);
    return dir;
}

TEST(globs_give_sorted_unique_pages) {
    char *dir = folder_of_pages(), *root = xasprintf("dataset.root=%s", dir);
    const char *words[] = { "dataset=omnidocbench", root,
                            "dataset.fallback_patterns=[\"images/*.png\",\"images/*\",\"im\\\\[1\\\\]/*\"]" };
    struct settings s;
    struct conf *c = settings_of(&s, words, 3);
    struct dataset d;
    struct strlist errors = { 0 };
    dataset_open(&d, &s, &errors);
    CHECK_INT(errors.n, 0);
    CHECK_INT(d.n, 4);
    CHECK_STR(d.v[0].name, "im[1]/d.png");
    CHECK_STR(d.v[1].name, "images/a.png");
    CHECK_STR(d.v[3].name, "images/c.jpg");
    dataset_free(&d);
    conf_close(c);
    free(root);
    free(dir);
}

TEST(subset_list_keeps_its_order_and_reports_missing_files) {
    char *dir = folder_of_pages(), *root = xasprintf("dataset.root=%s", dir),
         *list = xasprintf("dataset.subset_filelist=%s/list.txt", dir);
    const char *words[] = { "dataset=omnidocbench", root, list };
    struct settings s;
    struct conf *c = settings_of(&s, words, 3);
    struct dataset d;
    struct strlist errors = { 0 };
    dataset_open(&d, &s, &errors);
    CHECK_INT(errors.n, 0);
    CHECK_INT(d.n, 2);
    CHECK_STR(d.v[0].name, "images/c.jpg");
    dataset_free(&d);
    char *bad = xasprintf("%s/bad.txt", dir);
    s.dataset.subset_filelist = bad;
    dataset_open(&d, &s, &errors);
    CHECK_INT(errors.n, 1);
    CHECK(strstr(errors.v[0], "bad.txt:2: ") && strstr(errors.v[0], "not/there.png: No such file"));
    strlist_free(&errors);
    dataset_free(&d);
    conf_close(c);
    free(bad);
    free(list);
    free(root);
    free(dir);
}

TEST(order_repeats_and_shuffle_is_reproducible) {
    struct settings s = { .dataset.sampling = {
                              .num_epochs = 2, .num_samples_per_epoch = 3, .seed = 7, .randomize = true } };
    struct dataset d = { 0 }, e = { 0 };
    struct dataset_item items[5] = { 0 };
    d.v = items;
    d.n = 5;
    e.v = items;
    e.n = 5;
    dataset_order(&d, &s, 9);
    dataset_order(&e, &s, 9);
    CHECK_INT(d.order.n, 9);
    CHECK_MEM(d.order.v, e.order.v, 9 * sizeof(size_t));
    for (int i = 0; i < 3; i++) CHECK_INT(d.order.v[6 + i], d.order.v[i]); /* repeats after two epochs */
    CHECK(d.order.v[0] != d.order.v[1] && d.order.v[1] != d.order.v[2] && d.order.v[0] != d.order.v[2]);
    s.dataset.sampling.randomize = false;
    s.dataset.sampling.num_samples_per_epoch = -1;
    dataset_order(&d, &s, 7);
    for (size_t i = 0; i < 7; i++) CHECK_INT(d.order.v[i], i % 5);
    free(d.order.v);
    free(e.order.v);
}

TEST(bad_prompts_are_reported_with_line) {
    char *dir = test_tmpdir(), *path = file_join(dir, "p.jsonl");
    struct err err;
    static const char text[] =
        "{\"prompt\": \"x\"}\n{\"text\": 1}\nnot json\n{\"prompt\":\"y\",\"max_new_tokens\":0}\n";
    CHECK_INT(file_write_atomic(path, text, sizeof text - 1, &err), 0);
    struct settings s = { .dataset = { .kind = "prompts", .prompts = path } };
    struct dataset d;
    struct strlist errors = { 0 };
    dataset_open(&d, &s, &errors);
    CHECK_INT(errors.n, 3);
    CHECK(strstr(errors.v[0], "p.jsonl:2: expected an object with \"prompt\": \"...\""));
    CHECK(strstr(errors.v[1], "p.jsonl:3: "));
    CHECK(strstr(errors.v[2], "p.jsonl:4: max_new_tokens must be"));
    strlist_free(&errors);
    dataset_free(&d);
    free(path);
    free(dir);
}

TEST(inputs_yaml_has_checksums) {
    struct dataset d = { 0 };
    struct dataset_item item = { .name = (char *)"a: b", .prompt = (char *)"abc", .max_new_tokens = -1 };
    struct settings s = { .dataset.sampling = { .num_epochs = 1, .num_samples_per_epoch = -1 } };
    struct err err;
    struct strbuf out = STRBUF_INIT;
    d.v = &item;
    d.n = 1;
    dataset_order(&d, &s, 2);
    CHECK_INT(dataset_hash(&d, &err), 0);
    dataset_yaml(&d, &out);
    struct conf_node *back = conf_yaml_parse(out.buf, out.len, "f", &err);
    CHECK(back);
    const struct conf_node *one = conf_get(back, "inputs")->v[0];
    CHECK_STR(conf_get(one, "name")->text, "a: b");
    CHECK_STR(conf_get(one, "bytes")->text, "3");
    CHECK_STR(conf_get(one, "sha256")->text,
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK_INT(conf_get(back, "order")->n, 2);
    conf_node_free(back);
    strbuf_free(&out);
    free(d.order.v);
}

/* ---- Devices */

static const char *choose(const char *device, const char *engine_devices, const struct nvml_inventory *inv,
                          struct device_choice *out) {
    static char first_problem[1024];
    char *dev = xasprintf("device=%s", device), *can = xasprintf("engine.devices=[%s]", engine_devices);
    const char *words[] = { dev, can, "engine=hf" }; /* the native engine may lack its GPU kernels */
    struct settings s;
    struct conf *c = settings_of(&s, words, COUNTOF(words));
    struct strlist errors = { 0 };
    device_choose(&s, inv, "libnvidia-ml.so.1 not found", out, &errors);
    CHECK(errors.n <= 1);
    snprintf(first_problem, sizeof first_problem, "%s", errors.n ? errors.v[0] : "");
    strlist_free(&errors);
    conf_close(c);
    free(dev);
    free(can);
    return first_problem;
}

TEST(device_is_chosen_or_error_lists_available_ones) {
    struct nvml_inventory inv = { .ngpus = 2,
                                  .gpus = { { .name = "NVIDIA H200", .uuid = "GPU-aa", .mig = NVML_MIG_ON },
                                            { .name = "NVIDIA L4", .uuid = "GPU-bb" } } };
    struct device_choice d;
    CHECK_STR(
        choose("cuda:0", "cpu, cuda", NULL, &d),
        "device=cuda:0: no usable NVIDIA GPU on this machine (libnvidia-ml.so.1 not found); use device=cpu");
    CHECK_STR(choose("cuda:1", "cuda", &inv, &d), "");
    CHECK(d.cuda && d.index == 1);
    CHECK_STR(d.id, "GPU-bb");
    CHECK_STR(choose("GPU-aa", "cuda", &inv, &d), "");
    CHECK_STR(d.label, "cuda:0");
    CHECK_STR(choose("MIG-1234", "cuda", &inv, &d), "");
    CHECK_STR(d.id, "MIG-1234");
    CHECK_STR(choose("cuda:2", "cuda", &inv, &d), "device=cuda:2: not found; available: cuda:0 = NVIDIA H200 "
                                                  "(GPU-aa), cuda:1 = NVIDIA L4 (GPU-bb), cpu");
    CHECK_STR(choose("cuda:0", "cpu", &inv, &d), "device=cuda:0: engine hf runs on the CPU only; use "
                                                 "device=cpu, or an engine for GPUs (engine=hf)");
    CHECK_STR(choose("auto", "cpu, cuda", &inv, &d), "");
    CHECK(strstr(d.note, "2 GPUs found, using cuda:0 (NVIDIA H200)"));
    CHECK_STR(choose("auto", "cpu", &inv, &d), "");
    CHECK_STR(d.label, "cpu");
    CHECK(strstr(choose("tpu", "cpu", &inv, &d), "expected cpu, cuda:N"));
}

/* ---- Run folders */

TEST(run_folders_do_not_collide_and_say_when_they_are_incomplete) {
    char *out = test_tmpdir();
    struct err err;
    char *a = run_dir_create(out, "x", &err), *b = run_dir_create(out, "x", &err),
         *marker = file_join(a, RUN_DIR_MARKER);
    CHECK(a && b);
    CHECK_STR(file_basename(b), "x-2");
    CHECK(file_exists(marker));
    CHECK_INT(run_dir_complete(a, &err), 0);
    CHECK(!file_exists(marker));
    char *id = run_dir_default_id(0, "a model/with:odd");
    CHECK_STR(id + 16, "a_model_with_odd");
    free(id);
    free(marker);
    free(a);
    free(b);
    free(out);
}

TEST(output_folder_is_checked_before_the_run) {
    char *out = test_tmpdir(), *file = file_join(out, "f"), *under = file_join(file, "sub");
    struct strlist errors = { 0 };
    struct err err;
    CHECK_INT(file_write_atomic(file, "", 0, &err), 0);
    run_dir_check(under, 0, &errors);
    run_dir_check(out, UINT64_MAX, &errors);
    CHECK_INT(errors.n, 2);
    CHECK(strstr(errors.v[0], "is a file, not a folder") &&
          strstr(errors.v[1], "required (output.min_free_mb)"));
    strlist_free(&errors);
    free(under);
    free(file);
    free(out);
}

/* ---- Replies and requests */

TEST(unmeasured_times_are_unknown_not_zero) {
    static const char line[] = "{\"op\":\"infer\",\"id\":7,\"prefill_ms\":null,\"decode_ms\":-3,\"new_"
                               "tokens\":2,\"stages\":{\"sam\":1.5,\"clip\":null},\"token_ms\":[1,null]}";
    struct engine_answer a;
    struct err err;
    CHECK_INT(engine_reply_infer(line, sizeof line - 1, 7, &a, &err), ENGINE_GOOD);
    CHECK(isnan(a.prefill_ms) && isnan(a.decode_ms) && isnan(a.ttft_ms) && isnan(a.stages.v[1].ms));
    CHECK_NEAR(a.stages.v[0].ms, 1.5, 0);
    CHECK_INT(a.token_ms.n, 2);
    CHECK(a.batch == 1 && isnan(a.peak_memory_bytes));
    engine_answer_free(&a);
}

TEST(batch_and_memory_come_from_the_reply) {
    static const char line[] =
        "{\"op\":\"infer\",\"id\":7,\"new_tokens\":8,\"batch\":4,\"peak_memory_bytes\":5e9}";
    struct engine_answer a;
    struct err err;
    CHECK_INT(engine_reply_infer(line, sizeof line - 1, 7, &a, &err), ENGINE_GOOD);
    CHECK(a.batch == 4 && a.peak_memory_bytes == 5e9);
    engine_answer_free(&a);
}

TEST(generated_text_may_contain_nul_characters) {
    static const char line[] = "{\"op\":\"infer\",\"id\":7,\"new_tokens\":1,\"text\":\"a\\u0000b\"}";
    struct engine_answer a;
    struct err err;
    CHECK_INT(engine_reply_infer(line, sizeof line - 1, 7, &a, &err), ENGINE_GOOD);
    CHECK_STR(a.text, "a\xef\xbf\xbd"
                      "b");
    engine_answer_free(&a);
}

TEST(broken_replies_are_rejected_with_the_place) {
    static const char line[] = "{\"op\":\"infer\",}";
    struct engine_answer a;
    struct err err;
    CHECK_INT(engine_reply_infer(line, sizeof line - 1, 7, &a, &err), ENGINE_GARBAGE);
    CHECK(strstr(err.msg, "line 1, column 15") != NULL);
}

TEST(other_protocol_versions_are_rejected) {
    static const char line[] = "{\"op\":\"hello\",\"protocol\":2}";
    struct engine_info i;
    struct err err;
    CHECK_INT(engine_reply_info(line, sizeof line - 1, "hello", 1, &i, &err), ENGINE_GARBAGE);
    CHECK_STR(err.msg, "the engine uses protocol 2, this inferprof supports 1");
}

TEST(requests_contain_settings_and_engine_fields) {
    const char *words[] = { "+engine.load.attn=eager",      "+engine.infer.beams=2",
                            "infer.do_sample=false",        "infer.temperature=0.7",
                            "infer.context_len_mode=fixed", "infer.context_len_fixed=512",
                            "engine.max_context=700",       "model.stages={}" };
    struct settings s;
    struct conf *c = settings_of(&s, words, 8);
    struct dataset_item item = { .path = (char *)"/p.png", .max_new_tokens = -1 };
    json_t *load = request_load(&s, "cuda:0"), *infer = request_infer(&s, &item, 9, "operators", "/t.ipt");
    CHECK_STR(json_string_value(json_object_get(load, "attn")), "eager");
    CHECK_INT(json_integer_value(json_object_get(load, "max_context")), 700);
    CHECK(json_is_object(json_object_get(load, "stages")) &&
          !json_object_size(json_object_get(load, "stages")));
    CHECK_INT(json_integer_value(json_object_get(infer, "beams")), 2);
    CHECK_INT(json_integer_value(json_object_get(infer, "max_new_tokens")), 9);
    CHECK_NEAR(json_number_value(json_object_get(json_object_get(infer, "sampling"), "temperature")), 0,
               0); /* greedy */
    CHECK_STR(json_string_value(json_array_get(json_object_get(infer, "inputs"), 0)), "/p.png");
    json_decref(load);
    json_decref(infer);
    conf_close(c);
}

TEST(requests_contain_sampling_and_type) {
    const char *words[] = { "infer.do_sample=true", "infer.temperature=0.7",        "infer.top_p=0.9",
                            "infer.top_k=5",        "infer.no_repeat_ngram_size=3", "model.dtype=f16" };
    struct settings s;
    struct conf *c = settings_of(&s, words, 6);
    struct dataset_item item = { .prompt = (char *)"x", .max_new_tokens = -1 };
    json_t *load = request_load(&s, "cpu"), *infer = request_infer(&s, &item, 9, "none", NULL),
           *sampling = json_object_get(infer, "sampling");
    CHECK_STR(json_string_value(json_object_get(load, "dtype")), "f16");
    CHECK_NEAR(json_number_value(json_object_get(sampling, "temperature")), 0.7, 1e-12);
    CHECK_NEAR(json_number_value(json_object_get(sampling, "top_p")), 0.9, 1e-12);
    CHECK_INT(json_integer_value(json_object_get(sampling, "top_k")), 5);
    CHECK_INT(json_integer_value(json_object_get(sampling, "no_repeat_ngram")), 3);
    json_decref(load);
    json_decref(infer);
    conf_close(c);
}

/* 100 prompt and 11 new tokens in each of two sequences */
static double context_of(const char *mode, uint64_t window, double engine_limit) {
    const char *words[] = { mode, "infer.context_len_fixed=512" };
    struct settings s;
    struct conf *c = settings_of(&s, words, 2);
    struct llm_model m = { .text.max_positions = window };
    struct engine_info info = { .max_context = engine_limit };
    struct engine_answer a = { .prompt_tokens = 200, .new_tokens = 22, .batch = 2 };
    double tokens = request_context(&s, &m, &info, &a);
    conf_close(c);
    return tokens;
}

TEST(context_length_of_decode_flops) {
    CHECK_NEAR(context_of("infer.context_len_mode=auto", 4096, 0), 105.5, 0);
    CHECK_NEAR(context_of("infer.context_len_mode=fixed", 4096, 0), 512, 0);
    CHECK_NEAR(context_of("infer.context_len_mode=max", 4096, 2048), 4096, 0);
    CHECK_NEAR(context_of("infer.context_len_mode=max", 0, 2048), 2048, 0);
    CHECK_NEAR(context_of("infer.context_len_mode=max", 0, 0), 111, 0); /* unknown window */
}

/* ---- CPU peaks */

TEST(the_measured_product_is_a_matrix_product) {
    enum { K = 37 };
    float a[K * PANEL_M], b[K * PANEL_N], c[PANEL_M * PANEL_N];
    for (int i = 0; i < K * PANEL_M; i++) a[i] = (float)(i % 5) - 2;
    for (int i = 0; i < K * PANEL_N; i++) b[i] = (float)(i % 7) - 3;
    for (int i = 0; i < PANEL_M * PANEL_N; i++) c[i] = 1;
    cpu_kernels_pick()->panel(a, b, c, K);
    for (int m = 0; m < PANEL_M; m++)
        for (int n = 0; n < PANEL_N; n++) {
            float want = 1;
            for (int k = 0; k < K; k++) want += a[k * PANEL_M + m] * b[k * PANEL_N + n];
            CHECK_NEAR(c[m * PANEL_N + n], want, 0); /* small integers: exact in any order of summation */
        }
    uint64_t words[64];
    uint64_t sum = 0;
    for (int i = 0; i < 64; i++) {
        words[i] = (uint64_t)i * 0x9e3779b97f4a7c15u;
        sum ^= words[i];
    }
    CHECK(cpu_kernels_pick()->read(words, 64) == sum);
}

static void write_text(const char *dir, const char *name, const char *text) {
    struct err err;
    char *path = file_join(dir, name);
    CHECK_INT(file_write_atomic(path, text, strlen(text), &err), 0);
    free(path);
}

TEST(caches_shared_by_cores_count_once) {
    char *root = test_tmpdir(), path[512];
    struct err err;
    double bytes[CPU_CACHE_LEVELS];
    cpu_caches_read(root, bytes); /* no sysfs */
    for (int i = 0; i < CPU_CACHE_LEVELS; i++) CHECK_NEAR(bytes[i], 0, 0);
    CHECK_STR(cpu_caches_level(bytes, 1), "");
    static const char *const caches[][3] = { { "1", "Data", "32K" },
                                             { "1", "Instruction", "64K" },
                                             { "2", "Unified", "1M" },
                                             { "3", "Unified", "32768K" } };
    for (int cpu = 0; cpu < 4; cpu++)
        for (int i = 0; i < 4; i++) {
            snprintf(path, sizeof path, "%.400s/cpu%d/cache/index%d", root, cpu, i);
            CHECK_INT(file_mkdirs(path, &err), 0);
            write_text(path, "level", caches[i][0]);
            write_text(path, "type", caches[i][1]);
            write_text(path, "size", caches[i][2]);
            char cores[16];
            snprintf(cores, sizeof cores, i == 3 ? "0-3" : "%d", cpu);
            write_text(path, "shared_cpu_list", cores);
        }
    cpu_set_t set;
    CHECK_INT(sched_getaffinity(0, sizeof set, &set), 0);
    int usable = 0;
    for (int cpu = 0; cpu < 4; cpu++) usable += CPU_ISSET(cpu, &set) != 0;
    cpu_caches_read(root, bytes);
    CHECK_NEAR(bytes[0], usable * 32768.0, 0);
    CHECK_NEAR(bytes[1], usable * 1048576.0, 0);
    CHECK_NEAR(bytes[2], usable ? 32 * 1048576.0 : 0, 0);
    if (usable) {
        CHECK_STR(cpu_caches_level(bytes, 32768), "L1");
        CHECK_STR(cpu_caches_level(bytes, 20e6), "L3");
        CHECK_STR(cpu_caches_level(bytes, 40e6), "DRAM");
    }
    free(root);
}

TEST(peaks_are_cached_by_cpu_name) {
    char *dir = test_tmpdir(), name[128];
    struct strbuf text = STRBUF_INIT;
    struct err err;
    struct cpu_peak p;
    setenv("XDG_CACHE_HOME", dir, 1);
    cpu_name(name, sizeof name);
    char *path = cpu_peak_cache_path(), *folder = file_join(dir, "inferprof");
    const struct cpu_bf16 *bf16 = cpu_bf16_pick();
    strbuf_addf(
        &text,
        "{\"cpus\": [{\"cpu\": \"another\", \"threads\": 1, \"flops_per_s\": 1, \"bytes_per_s\": 1},"
        "{\"cpu\": \"%s\", \"threads\": %u, \"flops_per_s\": 5e9, \"bytes_per_s\": 2e9, \"kernel\": \"x\", "
        "\"bf16_kernel\": \"%s\", \"bf16_flops_per_s\": 8e9}]}",
        name, cpu_usable(), bf16 ? bf16->name : "");
    CHECK_INT(file_mkdirs(folder, &err), 0);
    CHECK_INT(file_write_atomic(path, text.buf, text.len, &err), 0);
    CHECK_INT(cpu_peak_get(&p, false, &err), 0);
    CHECK(p.cached);
    CHECK_NEAR(p.flops_per_s, 5e9, 0);
    CHECK_NEAR(p.bf16_flops_per_s, bf16 ? 8e9 : 0, 0);
    CHECK_INT(p.levels.n, 0);                                   /* a file of an older version */
    CHECK_INT(file_write_atomic(path, "{ broken", 8, &err), 0); /* a damaged cache is ignored */
    CHECK_INT(cpu_peak_get(&p, false, &err), 0);
    CHECK(!p.cached && p.flops_per_s > 0 && p.bytes_per_s > 0 && p.cpu_share > 0);
    CHECK_INT(p.kept, cpu_peak_is_stable(&p)); /* depends on the load of this machine */
    p.spread = 0.01;
    p.cpu_share = 0.99;
    p.flops_per_s = 7e9;
    CHECK_INT(p.levels.n, 12);
    CHECK_STR(p.levels.v[11].name, "DRAM");
    p.levels = (struct llm_levels){ { { "L2", 1e6, 5e10 }, { "DRAM", 1e9, 1e10 } }, 2 };
    CHECK(cpu_peak_keep(path, &p));
    p.cpu_share = 0.5;
    p.flops_per_s = 3e9; /* other programs used half of the cores: not cached */
    CHECK(!cpu_peak_keep(path, &p));
    p.cpu_share = 0.99;
    p.spread = 0.2;
    CHECK(!cpu_peak_keep(path, &p));
    CHECK_INT(cpu_peak_get(&p, false, &err), 0);
    CHECK(p.cached && p.kept);
    CHECK_NEAR(p.flops_per_s, 7e9, 0);
    CHECK_INT(p.levels.n, 2);
    CHECK_STR(p.levels.v[0].name, "L2");
    CHECK_NEAR(p.levels.v[0].bytes_per_s, 5e10, 0);
    p.cached = false;
    p.spread = 0;
    p.cpu_share = 1;
    CHECK(!cpu_peak_keep("/proc/none/cpu-peak.json", &p));
    unsetenv("XDG_CACHE_HOME");
    strbuf_free(&text);
    free(path);
    free(folder);
    free(dir);
}
