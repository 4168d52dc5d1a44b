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
#include "base/util.h"
#include "engine/weights/gguf_names.h"
#include "llm/gguf.h"
#include "llm/safetensors.h"

struct mapping {
    const char *data;
    size_t bytes;
};

struct weight_files {
    struct gguf *gguf; /* NULL: safetensors */
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
    /* only a hint: file systems without huge pages ignore it */
    madvise(p, (size_t)st.st_size, MADV_HUGEPAGE);
    *out = (struct mapping){ p, (size_t)st.st_size };
    rc = 0;
done:
    close(fd); /* the mapping remains valid after close */
    return rc;
}

struct weight_files *weight_files_open(const char *path, struct err *err) {
    struct weight_files *f = xcalloc(1, sizeof *f);
    if (file_has_ending(path, ".gguf")) {
        if ((f->gguf = gguf_open(path, err))) return f;
        goto failed;
    }
    f->heads = safetensors_open(path, err);
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
    gguf_close(f->gguf);
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

/* ---- GGUF */
static int ggml_dtype(uint32_t from, enum dtype *to) {
    static const struct {
        enum ggml_type from;
        enum dtype to;
    } rows[] = {
        { GGML_F32, DTYPE_F32 },   { GGML_F16, DTYPE_F16 },   { GGML_BF16, DTYPE_BF16 },
        { GGML_Q8_0, DTYPE_Q8_0 }, { GGML_Q4_0, DTYPE_Q4_0 }, { GGML_Q4_1, DTYPE_Q4_1 },
        { GGML_Q5_0, DTYPE_Q5_0 }, { GGML_Q5_1, DTYPE_Q5_1 }, { GGML_Q4_K, DTYPE_Q4_K },
        { GGML_Q5_K, DTYPE_Q5_K }, { GGML_Q6_K, DTYPE_Q6_K }, { GGML_MXFP4, DTYPE_MXFP4 },
    };
    for (size_t i = 0; i < COUNTOF(rows); i++)
        if ((uint32_t)rows[i].from == from) {
            *to = rows[i].to;
            return 0;
        }
    return -1;
}

static int find_in_gguf(const struct weight_files *f, const char *name, int rows, int cols,
                        struct weight_view *out, struct err *err) {
    struct gguf_place p = gguf_place_of(f->gguf, name);
    const struct gguf_tensor *t = p.tensor;
    if (!t)
        return err_set(err, "%s: no tensor '%s', which its architecture requires", gguf_file(f->gguf, 0),
                       p.name);
    uint64_t slices = p.slice >= 0 ? t->dims[2] : 1, wanted = (uint64_t)MAX(rows, 1) * (uint64_t)cols;
    bool fits = t->numbers % wanted == 0 && t->numbers / wanted == slices &&
                (rows == 0 || t->dims[0] == (uint64_t)cols);
    if (!fits || (p.slice >= 0 && (uint64_t)p.slice >= slices))
        return err_set(err, "%s: tensor '%s' is [%llu,%llu,%llu], but the metadata require [%d,%d]",
                       gguf_file(f->gguf, t->file), p.name, (unsigned long long)t->dims[2],
                       (unsigned long long)t->dims[1], (unsigned long long)t->dims[0], rows, cols);
    if (ggml_dtype(t->type, &out->type) < 0)
        return err_set(err,
                       "%s: tensor '%s' is of type %s; this engine reads F32, F16, BF16, Q8_0, Q4_0, Q4_1, "
                       "Q5_0, Q5_1, Q4_K, Q5_K, Q6_K and MXFP4",
                       gguf_file(f->gguf, t->file), p.name, ggml_type_info(t->type).name);
    out->data = (const char *)gguf_data(f->gguf, t) +
                (p.slice > 0 ? (size_t)p.slice * dtype_size(out->type, (size_t)wanted) : 0);
    return 0;
}

bool weight_files_are_gguf(const struct weight_files *f) { return f->gguf != NULL; }

bool weight_files_has(const struct weight_files *f, const char *name) {
    return f->gguf ? gguf_place_of(f->gguf, name).tensor != NULL : safetensors_find(f->heads, name) != NULL;
}

int weight_files_find(const struct weight_files *f, const char *name, int rows, int cols,
                      struct weight_view *out, struct err *err) {
    if (f->gguf) return find_in_gguf(f, name, rows, cols, out, err);
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
