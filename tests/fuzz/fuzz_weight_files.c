/* The weights of an untrusted safetensors file, as the engine finds them: the input is the header. Every
 * tensor that is found must be inside of the file, with its scales, and must be convertible to the engine's
 * layout. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/weights/files.h"
#include "fuzz/fuzz.h"
#include "llm/safetensors.h"

enum { DATA_BYTES = 4096, MOST_TENSORS = 32, MOST_NUMBERS = 1 << 16 };

static char folder[] = "/tmp/fuzz-weights-XXXXXX", path[64];

static void remove_folder(void) {
    remove(path);
    remove(folder);
}

static void write_file(const uint8_t *data, size_t size) {
    static const uint8_t zeros[DATA_BYTES];
    uint64_t head = size;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, &head, 8) != 8 || write(fd, data, size) != (ssize_t)size ||
        write(fd, zeros, sizeof zeros) != (ssize_t)sizeof zeros)
        abort();
    close(fd);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const experts[] = { "a.experts.0.gate_proj.weight", "a.experts.1.up_proj.weight",
                                           "a.experts.1.down_proj.weight", "a.experts.1.up_proj.bias" };
    struct err err;
    if (!*path) {
        if (!mkdtemp(folder)) abort();
        snprintf(path, sizeof path, "%s/model.safetensors", folder);
        atexit(remove_folder);
    }
    write_file(data, size);
    struct weight_files *f = weight_files_open(folder, &err);
    struct safetensors *s = f ? safetensors_parse((const char *)data, size, DATA_BYTES, "fuzz", &err) : NULL;
    if (s) find_listed(f, s);
    for (size_t i = 0; f && i < sizeof experts / sizeof *experts; i++)
        for (int rows = 0; rows <= 4; rows += 2)
            for (int cols = 2; cols <= 64; cols *= 2) find(f, experts[i], rows, cols);
    safetensors_close(s);
    weight_files_close(f);
    return 0;
}
