#include "engine/weights/files.h"

#include <errno.h>
#include <stdio.h>
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
    struct mapping *maps; /* one per safetensors file */
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

static int dtype_of(const struct safetensors_tensor *t, enum dtype *to) {
    switch (t->dtype) {
    case LLM_F32: *to = DTYPE_F32; return 0;
    case LLM_BF16: *to = DTYPE_BF16; return 0;
    case LLM_F16: *to = DTYPE_F16; return 0;
    case LLM_INT8: *to = DTYPE_I8; return 0;
    case LLM_FP8: *to = DTYPE_F8_E4M3; return t->e4m3 ? 0 : -1;
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

static int wrong_ggml_type(const struct weight_files *f, const struct gguf_tensor *t, struct err *err) {
    return err_set(err,
                   "%s: tensor '%s' is of type %s; this engine reads F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, "
                   "Q5_1, Q4_K, Q5_K, Q6_K and MXFP4",
                   gguf_file(f->gguf, t->file), t->name, ggml_type_info(t->type).name);
}

/* Newer GGUF files of DeepSeek models contain kv_b as two tensors: keys [heads][rank][nope] and values
 * [heads][value][rank]. GGUF lists the innermost size first. */
static int find_halves(const struct weight_files *f, const struct gguf_place *p, int rows, int cols,
                       struct weight_view *out, struct err *err) {
    const struct gguf_tensor *k = p->halves[0], *v = p->halves[1];
    uint64_t rank = (uint64_t)cols, heads = k->dims[2], nope = k->dims[0], value = v ? v->dims[1] : 0;
    bool fits = v && k->dims[1] == rank && v->dims[0] == rank && v->dims[2] == heads && k->ndims == 3 &&
                v->ndims == 3 && heads <= (uint64_t)rows && nope <= (uint64_t)rows &&
                value <= (uint64_t)rows && heads * (nope + value) == (uint64_t)rows;
    if (!fits)
        return err_set(err, "%s: tensor '%s' and its values do not make a matrix [%d,%d]",
                       gguf_file(f->gguf, k->file), p->name, rows, cols);
    struct weight_source *s = &out->source;
    *s = (struct weight_source){ .rows = rows, .cols = cols, .heads = (int)heads, .nope = (int)nope };
    if (ggml_dtype(k->type, &s->type) < 0 || ggml_dtype(v->type, &s->more_type) < 0)
        return wrong_ggml_type(f, ggml_dtype(k->type, &s->type) < 0 ? k : v, err);
    s->data = gguf_data(f->gguf, k);
    s->more = gguf_data(f->gguf, v);
    out->type = DTYPE_F32;
    out->convert = convert_latent;
    return 0;
}

static int find_in_gguf(const struct weight_files *f, const char *name, int rows, int cols,
                        struct weight_view *out, struct err *err) {
    struct gguf_place p = gguf_place_of(f->gguf, name);
    const struct gguf_tensor *t = p.tensor;
    if (!t && p.halves[0]) return find_halves(f, &p, rows, cols, out, err);
    if (!t)
        return err_set(err, "%s: no tensor '%s', which its architecture requires", gguf_file(f->gguf, 0),
                       p.name);
    uint64_t slices = p.slice < 0 ? 1
                      : rows      ? t->dims[2]
                                  : t->dims[1],
             wanted = (uint64_t)MAX(rows, 1) * (uint64_t)cols;
    bool fits = t->numbers % wanted == 0 && t->numbers / wanted == slices &&
                (rows == 0 || t->dims[0] == (uint64_t)cols);
    if (!fits || (p.slice >= 0 && (uint64_t)p.slice >= slices))
        return err_set(err, "%s: tensor '%s' is [%llu,%llu,%llu], but the metadata require [%d,%d]",
                       gguf_file(f->gguf, t->file), p.name, (unsigned long long)t->dims[2],
                       (unsigned long long)t->dims[1], (unsigned long long)t->dims[0], rows, cols);
    if (ggml_dtype(t->type, &out->type) < 0) return wrong_ggml_type(f, t, err);
    out->data = (const char *)gguf_data(f->gguf, t) +
                (p.slice > 0 ? (size_t)p.slice * dtype_size(out->type, (size_t)wanted) : 0);
    return 0;
}

bool weight_files_are_gguf(const struct weight_files *f) { return f->gguf != NULL; }

/* Other prefixes of names, in files of models with vision. The first row whose tensor is in the file is
 * used. */
static const struct {
    const char *ours, *theirs;
} prefixes[] = {
    { "model.", "model.language_model." },
    { "model.", "language_model.model." },
    { "lm_head.", "language_model.lm_head." },
    { "visual.", "model.visual." },
    { "vision_tower.", "model.vision_tower." },
    { "vision_tower.vision_model.", "vision_tower." },
    { "vision_tower.vision_model.", "model.vision_tower." },
    { "multi_modal_projector.", "model.multi_modal_projector." },
};

static const struct safetensors_tensor *find_tensor(const struct weight_files *f, const char *name) {
    const struct safetensors_tensor *t = safetensors_find(f->heads, name);
    for (size_t i = 0; !t && i < COUNTOF(prefixes); i++) {
        char other[300];
        size_t n = strlen(prefixes[i].ours);
        if (strncmp(name, prefixes[i].ours, n) != 0) continue;
        snprintf(other, sizeof other, "%s%s", prefixes[i].theirs, name + n);
        t = safetensors_find(f->heads, other);
    }
    return t;
}

bool weight_files_has(const struct weight_files *f, const char *name) {
    return f->gguf ? gguf_place_of(f->gguf, name).tensor != NULL : find_tensor(f, name) != NULL;
}

/* ---- safetensors */

/* Returns the bytes of a tensor; NULL if the file shrank after its header was read. */
static const void *tensor_data(const struct weight_files *f, const struct safetensors_tensor *t,
                               struct err *err) {
    const struct mapping *m = &f->maps[t->file];
    if (t->offset <= m->bytes && t->bytes <= m->bytes - t->offset) return m->data + t->offset;
    err_set(err, "%s: ends inside tensor '%s'", safetensors_file(f->heads, t->file), t->name);
    return NULL;
}

static int wrong_type(const struct weight_files *f, const struct safetensors_tensor *t, struct err *err) {
    return err_set(err,
                   "%s: tensor '%s' is of type %s; this engine reads f32, f16 and bf16, and with scales fp8 "
                   "(E4M3) and int8",
                   safetensors_file(f->heads, t->file), t->name, llm_dtype_name(t->dtype));
}

/* Finds the tensor whose name is `name` without its last `drop` characters, plus `ending`. */
static const struct safetensors_tensor *find_beside(const struct weight_files *f, const char *name,
                                                    size_t drop, const char *ending) {
    char other[300];
    snprintf(other, sizeof other, "%.*s%s", (int)(strlen(name) - drop), name, ending);
    return safetensors_find(f->heads, other);
}

/* Determines how many numbers share a scale from the shape of the scales: one per tensor, per row, or per
 * block of 128 x 128. Returns false for other shapes. */
static bool scale_blocks(const struct safetensors_tensor *s, int rows, int cols, struct weight_view *out) {
    enum { BLOCK = 128 };
    uint64_t down = ((uint64_t)rows + BLOCK - 1) / BLOCK, across = ((uint64_t)cols + BLOCK - 1) / BLOCK;
    out->scale_rows = rows;
    out->scale_cols = cols;
    out->scales = (int)s->numbers;
    if (s->numbers == 1) return true;
    if (s->ndims == 2 && s->shape[0] == down && s->shape[1] == across) {
        out->scale_rows = out->scale_cols = BLOCK;
        return true;
    }
    out->scale_rows = 1;
    return s->numbers == (uint64_t)rows && s->shape[0] == (uint64_t)rows;
}

/* Finds the scales of "x.weight": "x.weight_scale" or "x.weight_scale_inv", which both contain factors, or
 * "x.SCB", which contains factors in units of 1/127. */
static int find_scales(const struct weight_files *f, const struct safetensors_tensor *t, int rows, int cols,
                       struct weight_view *out, struct err *err) {
    const char *file = safetensors_file(f->heads, t->file);
    const struct safetensors_tensor *s = find_beside(f, t->name, 0, "_scale_inv");
    out->scale_factor = 1.0f;
    if (!s) s = find_beside(f, t->name, 0, "_scale");
    if (!s && out->type == DTYPE_I8 && (s = find_beside(f, t->name, strlen("weight"), "SCB")))
        out->scale_factor = 1.0f / 127;
    if (!s)
        return err_set(err, "%s: tensor '%s' is %s, but has no scales", file, t->name, dtype_name(out->type));
    if (!scale_blocks(s, rows, cols, out))
        return err_set(
            err,
            "%s: tensor '%s' has %llu numbers; this engine reads one scale per tensor, per row, or per "
            "block of 128 x 128 numbers",
            file, s->name, (unsigned long long)s->numbers);
    if (dtype_of(s, &out->scale_type) < 0 || !dtype_is_float(out->scale_type)) return wrong_type(f, s, err);
    return (out->scale = tensor_data(f, s, err)) ? 0 : -1;
}

/* The place of an expert's tensor in a stacked tensor. gpt_oss stores all experts of a layer as one tensor:
 * "P.experts.7.up_proj.weight" is part of "P.experts.gate_up_proj" [experts][in][2 out], or of its MXFP4
 * form "..._blocks" [experts][2 out][in / 32][16] and "..._scales"; gate and up alternate. Biases are
 * "..._bias" [experts][2 out]. */
struct stacked {
    char name[280]; /* name of the stacked tensor, without its ending */
    uint64_t expert;
    int first, step;
    bool bias;
};

static bool parse_stacked(const char *name, struct stacked *out) {
    static const struct {
        const char *part, *whole;
        int first, step;
    } rows[] = { { "gate_proj.", "gate_up_proj", 0, 2 },
                 { "up_proj.", "gate_up_proj", 1, 2 },
                 { "down_proj.", "down_proj", 0, 1 } };
    const char *at = strstr(name, ".experts.");
    char *end;
    if (!at) return false;
    at += strlen(".experts.");
    out->expert = strtoull(at, &end, 10);
    for (size_t i = 0; end != at && *end == '.' && i < COUNTOF(rows); i++) {
        size_t n = strlen(rows[i].part);
        if (strncmp(end + 1, rows[i].part, n) != 0) continue;
        out->first = rows[i].first;
        out->step = rows[i].step;
        out->bias = strcmp(end + 1 + n, "bias") == 0;
        snprintf(out->name, sizeof out->name, "%.*s%s", (int)(at - name), name, rows[i].whole);
        return true;
    }
    return false;
}

static int stacked_shape(const struct weight_files *f, const struct safetensors_tensor *t, struct err *err) {
    return err_set(err, "%s: tensor '%s' does not have the shape that config.json requires",
                   safetensors_file(f->heads, t->file), t->name);
}

static int find_mxfp4(const struct weight_files *f, const struct stacked *s, int rows, int cols,
                      const struct safetensors_tensor *blocks, const struct safetensors_tensor *scales,
                      struct weight_view *out, struct err *err) {
    uint64_t r = (uint64_t)rows * (uint64_t)s->step, groups = (uint64_t)cols / 32;
    bool fits = cols % 32 == 0 && blocks->ndims == 4 && scales->ndims == 3 && blocks->dtype == LLM_U8 &&
                scales->dtype == LLM_U8 && blocks->shape[0] > s->expert && blocks->shape[1] == r &&
                blocks->shape[2] == groups && blocks->shape[3] == 16 &&
                scales->shape[0] == blocks->shape[0] && scales->shape[1] == r && scales->shape[2] == groups;
    if (!fits) return stacked_shape(f, blocks, err);
    const char *data = tensor_data(f, blocks, err), *more = data ? tensor_data(f, scales, err) : NULL;
    if (!more) return -1;
    out->type = DTYPE_MXFP4;
    out->convert = convert_mxfp4;
    out->source.data = data + s->expert * r * groups * 16;
    out->source.more = more + s->expert * r * groups;
    return 0;
}

/* Returns 1 if found, 0 if there is no such tensor, -1 on errors (see err). */
static int find_stacked(const struct weight_files *f, const char *name, int rows, int cols,
                        struct weight_view *out, struct err *err) {
    struct stacked s;
    if (!parse_stacked(name, &s)) return 0;
    out->source = (struct weight_source){ .rows = rows, .cols = cols, .first = s.first, .step = s.step };
    const struct safetensors_tensor *t = find_beside(f, s.name, 0, s.bias ? "_bias" : "_blocks"),
                                    *scales = find_beside(f, s.name, 0, "_scales");
    if (!s.bias && t && scales) return find_mxfp4(f, &s, rows, cols, t, scales, out, err) < 0 ? -1 : 1;
    if (!s.bias) t = safetensors_find(f->heads, s.name);
    if (!t) return 0;
    uint64_t across = (uint64_t)(s.bias ? cols : rows) * (uint64_t)s.step, down = s.bias ? 1 : (uint64_t)cols;
    if (t->ndims != (s.bias ? 2 : 3) || t->shape[0] <= s.expert || t->shape[t->ndims - 1] != across ||
        (!s.bias && t->shape[1] != down))
        return stacked_shape(f, t, err);
    if (dtype_of(t, &out->type) < 0 || !dtype_is_float(out->type)) return wrong_type(f, t, err);
    const char *data = tensor_data(f, t, err);
    if (!data) return -1;
    out->convert = s.bias ? convert_every : convert_transposed;
    out->source.data = data + s.expert * down * across * dtype_bytes(out->type);
    out->source.type = out->type;
    out->source.width = (size_t)across;
    return 1;
}

int weight_files_find(const struct weight_files *f, const char *name, int rows, int cols,
                      struct weight_view *out, struct err *err) {
    *out = (struct weight_view){ 0 };
    if (f->gguf) return find_in_gguf(f, name, rows, cols, out, err);
    const struct safetensors_tensor *t = find_tensor(f, name);
    if (!t) {
        int stacked = find_stacked(f, name, rows, cols, out, err);
        if (stacked) return stacked < 0 ? -1 : 0;
        return err_set(err, "%s: no tensor '%s'; are these the weights of this config.json?",
                       safetensors_file(f->heads, 0), name);
    }
    if (!shape_fits(t, rows, cols)) return wrong_shape(f, t, rows, cols, err);
    if (dtype_of(t, &out->type) < 0 || (!dtype_is_float(out->type) && rows == 0))
        return wrong_type(f, t, err);
    if (!dtype_is_float(out->type) && find_scales(f, t, rows, cols, out, err) < 0) return -1;
    return (out->data = tensor_data(f, t, err)) ? 0 : -1;
}
