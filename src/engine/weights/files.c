#include "engine/weights/files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "llm/safetensors.h"

struct mapping {
    const char *data;
    size_t bytes;
};

struct weight_files {
    struct safetensors *heads;
    struct mapping *maps; /* one per file */
};

static int map_file(const char *path, struct mapping *out, struct err *err) {
    int rc = -1, fd = file_open_regular(path, err);
    struct stat st;
    if (fd < 0) return -1;
    if (fstat(fd, &st) < 0) {
        err_set(err, "%s: %s", path, strerror(errno));
        goto done;
    }
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        err_set(err, "%s: mmap: %s", path, strerror(errno));
        goto done;
    }
    *out = (struct mapping){ p, (size_t)st.st_size };
    rc = 0;
done:
    close(fd); /* the mapping remains valid after close */
    return rc;
}

struct weight_files *weight_files_open(const char *dir, struct err *err) {
    struct weight_files *f = xcalloc(1, sizeof *f);
    f->heads = safetensors_open(dir, err);
    if (!f->heads) goto failed;
    f->maps = xcalloc(safetensors_files(f->heads), sizeof *f->maps);
    for (uint32_t i = 0; i < safetensors_files(f->heads); i++)
        if (map_file(safetensors_file(f->heads, i), &f->maps[i], err) < 0) goto failed;
    return f;
failed:
    weight_files_close(f);
    return NULL;
}

void weight_files_close(struct weight_files *f) {
    if (!f) return;
    for (uint32_t i = 0; f->maps && i < safetensors_files(f->heads); i++)
        if (f->maps[i].data) munmap((void *)f->maps[i].data, f->maps[i].bytes);
    free(f->maps);
    safetensors_close(f->heads);
    free(f);
}

static int dtype_of(enum llm_dtype from, enum dtype *to) {
    switch (from) {
    case LLM_F32: *to = DTYPE_F32; return 0;
    case LLM_BF16: *to = DTYPE_BF16; return 0;
    case LLM_F16: *to = DTYPE_F16; return 0;
    default: return -1;
    }
}

static bool shape_fits(const struct safetensors_tensor *t, int rows, int cols) {
    if (t->ndims == 0) return rows <= 1 && cols == 1;
    if (rows == 0) return t->numbers == (uint64_t)cols;
    if (t->numbers != (uint64_t)rows * (uint64_t)cols) return false;
    return t->shape[0] == (uint64_t)rows || t->shape[t->ndims - 1] == (uint64_t)cols;
}

static int wrong_shape(const struct weight_files *f, const struct safetensors_tensor *t, int rows, int cols,
                       struct err *err) {
    struct strbuf has = STRBUF_INIT;
    for (int i = 0; i < t->ndims; i++)
        strbuf_addf(&has, "%s%llu", i ? "," : "", (unsigned long long)t->shape[i]);
    if (rows)
        err_set(err, "%s: tensor '%s' is [%s], but config.json requires [%d,%d]",
                safetensors_file(f->heads, t->file), t->name, has.buf, rows, cols);
    else
        err_set(err, "%s: tensor '%s' is [%s], but config.json requires [%d]",
                safetensors_file(f->heads, t->file), t->name, has.buf, cols);
    strbuf_free(&has);
    return -1;
}

int weight_files_find(const struct weight_files *f, const char *name, int rows, int cols,
                      struct weight_view *out, struct err *err) {
    const struct safetensors_tensor *t = safetensors_find(f->heads, name);
    if (!t)
        return err_set(err, "%s: no tensor '%s'; are these the weights of this config.json?",
                       safetensors_file(f->heads, 0), name);
    if (!shape_fits(t, rows, cols)) return wrong_shape(f, t, rows, cols, err);
    if (dtype_of(t->dtype, &out->type) < 0)
        return err_set(err, "%s: tensor '%s' is of type %s; this engine reads f32, f16 and bf16",
                       safetensors_file(f->heads, t->file), name, llm_dtype_name(t->dtype));
    const struct mapping *m = &f->maps[t->file];
    if (t->offset > m->bytes ||
        t->bytes > m->bytes - t->offset) /* the file shrank after its header was read */
        return err_set(err, "%s: ends inside tensor '%s'", safetensors_file(f->heads, t->file), name);
    out->data = m->data + t->offset;
    return 0;
}
