/* The weights of an untrusted file, as the engine finds them. The input is the header of a safetensors file;
 * after 'I', the index of a folder with such files; or a GGUF file. Every tensor that is found must be inside
 * of the file, with its scales, and must be convertible to the engine's layout. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/weights/files.h"
#include "engine/weights/gguf_names.h"
#include "fuzz/fuzz.h"
#include "fuzz/memory_file.h"
#include "llm/gguf.h"
#include "llm/safetensors.h"

enum { DATA_BYTES = 4096, MOST_TENSORS = 32, MOST_NUMBERS = 1 << 16 };

static char folder[MEMORY_FOLDER], path[64], index_path[64], gguf_path[64];
static const char index_head[] = "{\"b\":{\"dtype\":\"BF16\",\"shape\":[2,8],\"data_offsets\":[0,32]}}";

static void remove_folder(void) {
    remove(path);
    remove(index_path);
    remove(gguf_path);
    remove(folder);
}

static void prepare(void) {
    memory_folder_make(folder);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    snprintf(index_path, sizeof index_path, "%s/model.safetensors.index.json", folder);
    snprintf(gguf_path, sizeof gguf_path, "%s/model.gguf", folder);
    atexit(remove_folder);
}

static void write_parts(const char *file, const void *a, size_t na, const void *b, size_t nb, const void *c,
                        size_t nc) {
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, a, na) != (ssize_t)na || write(fd, b, nb) != (ssize_t)nb ||
        write(fd, c, nc) != (ssize_t)nc)
        abort();
    close(fd);
}

static void write_file(const void *head, size_t size) {
    static const uint8_t zeros[DATA_BYTES];
    uint64_t bytes = size;
    write_parts(path, &bytes, 8, head, size, zeros, sizeof zeros);
}

/* Reads every byte; the sanitizer reports those outside of the mapping. */
static void read_all(const void *data, size_t bytes) {
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < bytes; i++) sum = (uint8_t)(sum + ((const uint8_t *)data)[i]);
}

static void find(const struct weight_files *f, const char *name, int rows, int cols) {
    struct weight_view v;
    struct err err;
    size_t n = (size_t)(rows ? rows : 1) * (size_t)cols;
    if (n == 0 || n > MOST_NUMBERS || weight_files_find(f, name, rows, cols, &v, &err) < 0) return;
    if (v.convert) {
        void *out = malloc(dtype_size(v.type, n));
        if (!out) abort();
        v.convert(&v.source, out);
        free(out);
    } else {
        read_all(v.data, dtype_size(v.type, n));
    }
    if (v.scale) read_all(v.scale, dtype_size(v.scale_type, (size_t)v.scales));
}

static void find_listed(const struct weight_files *f, const struct safetensors *s) {
    for (size_t i = 0; i < safetensors_count(s) && i < MOST_TENSORS; i++) {
        const struct safetensors_tensor *t = safetensors_at(s, i);
        if (t->numbers > MOST_NUMBERS) continue;
        find(f, t->name, 0, (int)t->numbers);
        if (t->ndims > 1 && t->shape[0] && t->shape[0] <= t->numbers)
            find(f, t->name, (int)t->shape[0], (int)(t->numbers / t->shape[0]));
    }
}

static void find_experts(const struct weight_files *f) {
    static const char *const experts[] = { "a.experts.0.gate_proj.weight", "a.experts.1.up_proj.weight",
                                           "a.experts.1.down_proj.weight", "a.experts.1.up_proj.bias" };
    for (size_t i = 0; i < sizeof experts / sizeof *experts; i++)
        for (int rows = 0; rows <= 4; rows += 2)
            for (int cols = 2; cols <= 64; cols *= 2) find(f, experts[i], rows, cols);
}

/* Finds the tensors of a layer by the engine's names, with the sizes that the file gives. */
static void find_in_gguf(const struct weight_files *f, const struct gguf *g) {
    static const char *const names[] = { "model.embed_tokens",
                                         "lm_head",
                                         "model.norm",
                                         "model.layers.0.input_layernorm",
                                         "model.layers.0.self_attn.q_proj",
                                         "model.layers.0.self_attn.k_proj",
                                         "model.layers.0.self_attn.v_proj",
                                         "model.layers.0.self_attn.o_proj",
                                         "model.layers.0.mlp.gate_proj",
                                         "model.layers.0.mlp.up_proj",
                                         "model.layers.0.mlp.down_proj",
                                         "model.layers.0.self_attn.kv_b_proj",
                                         "model.layers.0.mlp.experts.1.gate_proj",
                                         "model.layers.0.mlp.experts.1.up_proj",
                                         "model.layers.0.mlp.experts.0.down_proj" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s.weight", names[i]);
        struct gguf_place p = gguf_place_of(g, name);
        const struct gguf_tensor *t = p.tensor, *k = p.halves[0], *v = p.halves[1];
        if (t && t->dims[0] <= MOST_NUMBERS && t->dims[1] <= MOST_NUMBERS)
            for (int rows = 0; rows < 2; rows++) find(f, name, rows ? (int)t->dims[1] : 0, (int)t->dims[0]);
        if (!t && k && v && k->dims[2] <= 64 && k->dims[0] <= 1024 && v->dims[1] <= 1024 &&
            k->dims[1] <= 1024)
            find(f, name, (int)(k->dims[2] * (k->dims[0] + v->dims[1])), (int)k->dims[1]);
    }
}

static void use_gguf(const uint8_t *data, size_t size) {
    struct err err;
    write_parts(gguf_path, data, size, "", 0, "", 0);
    struct weight_files *f = weight_files_open(gguf_path, &err);
    struct gguf *g = f ? gguf_parse(data, size, "fuzz", &err) : NULL;
    if (g) find_in_gguf(f, g);
    gguf_close(g);
    weight_files_close(f);
}

/* `head`: of model.safetensors */
static void use_folder(const char *head, size_t size) {
    struct err err;
    write_file(head, size);
    struct weight_files *f = weight_files_open(folder, &err);
    struct safetensors *s = f ? safetensors_parse(head, size, DATA_BYTES, "fuzz", &err) : NULL;
    if (s) find_listed(f, s);
    if (f) find_experts(f);
    safetensors_close(s);
    weight_files_close(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!*path) prepare();
    if (size >= 4 && memcmp(data, "GGUF", 4) == 0) {
        use_gguf(data, size);
    } else if (size && data[0] == 'I') {
        write_parts(index_path, data + 1, size - 1, "", 0, "", 0);
        use_folder(index_head, sizeof index_head - 1);
        remove(index_path);
    } else {
        use_folder((const char *)data, size);
    }
    return 0;
}
