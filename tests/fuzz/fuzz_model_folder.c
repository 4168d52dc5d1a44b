/* The files beside config.json, which are untrusted too: preprocessor_config.json, generation_config.json and
 * hf_quant_config.json. The first byte of the input selects the file, the rest is its text. 'W': the rest is
 * the header of the weight files. The folder is rejected with a message, or gives a model with usable image
 * limits, colours and end tokens. */
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "fuzz/memory_file.h"
#include "llm/safetensors.h"
#include "llm/static.h"

static const char config[] =
    "{\"model_type\":\"qwen2_5_vl\",\"torch_dtype\":\"bfloat16\",\"image_token_id\":1030,"
    "\"text_config\":{\"model_type\":\"qwen2_5_vl_text\",\"hidden_size\":64,\"num_hidden_layers\":3,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"intermediate_size\":112,\"vocab_size\":1040,"
    "\"max_position_embeddings\":1024,\"rms_norm_eps\":1e-6,\"hidden_act\":\"silu\",\"eos_token_id\":1,"
    "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":10000.0,\"mrope_section\":[2,3,3]}},"
    "\"vision_config\":{\"model_type\":\"qwen2_5_vl_vision\",\"depth\":4,\"hidden_size\":48,\"num_heads\":4,"
    "\"intermediate_size\":56,\"out_hidden_size\":64,\"patch_size\":14,\"spatial_merge_size\":2,"
    "\"temporal_patch_size\":2,\"window_size\":56,\"fullatt_block_indexes\":[1,3],\"in_channels\":3}}";
static const char *const names[] = { "preprocessor_config.json", "generation_config.json",
                                     "hf_quant_config.json" };
enum { NAMES = sizeof names / sizeof *names };
static char folder[MEMORY_FOLDER];

static void write_file(const char *name, const void *data, size_t size) {
    char path[96];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) abort();
    close(fd);
}

static void remove_file(const char *name) {
    char path[96];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    remove(path);
}

static void remove_folder(void) {
    remove_file("config.json");
    for (int i = 0; i < NAMES; i++) remove_file(names[i]);
    remove(folder);
}

static void check_model(const struct llm_model *m) {
    if (m->text.neos > LLM_EOS_MAX || m->vision.min_pixels > m->vision.max_pixels || !m->vision.max_pixels)
        abort();
    for (int i = 0; i < 3; i++)
        if (!isfinite(m->vision.image_mean[i]) || !(m->vision.image_std[i] > 0)) abort();
    struct llm_workload w = { .batch = 1, .text_tokens = 50, .new_tokens = 4, .nimages = 1 };
    struct llm_device d = { .peak = { 1e15, 1e12 } };
    struct llm_static r;
    struct err err;
    w.images[0].width = 900;
    w.images[0].height = 700;
    if (llm_static_eval(m, &w, &d, &r, &err) < 0) return;
    if (!isfinite(r.prefill.flops) || !(r.prefill.flops > 0)) abort();
    llm_static_free(&r);
}

static void load_model(const struct llm_load *how) {
    struct err err = { 0 };
    struct llm_model *m = llm_model_load(folder, how, &err);
    if (m)
        check_model(m);
    else if (!err.msg[0])
        abort();
    llm_model_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool ready;
    if (!ready) {
        memory_folder_make(folder);
        write_file("config.json", config, sizeof config - 1);
        atexit(remove_folder);
        ready = true;
    }
    if (size == 0) return 0;
    if (data[0] == 'W') {
        struct err err;
        struct safetensors *st = safetensors_parse((const char *)data + 1, size - 1, 1 << 20, "fuzz", &err);
        if (st) load_model(&(struct llm_load){ .weights = st });
        safetensors_close(st);
        return 0;
    }
    const char *name = names[data[0] % NAMES];
    write_file(name, data + 1, size - 1);
    load_model(&(struct llm_load){ 0 });
    remove_file(name);
    return 0;
}
