#include "run/trace_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/die.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "base/util.h"
#include "base/vec.h"
#include "llm/gguf.h"
#include "llm/safetensors.h"

#define TEXT_BYTES_MAX ((size_t)16 << 20)

/* ---- files of the trace */

struct recorded_file {
    const char *path, *format;
    uint32_t process, number, flags;
    uint64_t file_bytes;
    struct strbuf text; /* contents, decoded */
};

struct recorded_files {
    struct recorded_file *v;
    size_t n, cap;
};

/* process, file, part */
static int by_file_and_part(const void *a, const void *b) {
    const uint32_t *x = a, *y = b;
    for (int i = 0; i < 3; i++)
        if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
    return 0;
}

static void add_text(struct recorded_file *f, const char *text) {
    size_t n = strlen(text), bytes;
    if (f->text.len + n > TEXT_BYTES_MAX) return;
    if (strcmp(f->format, "gguf") != 0) {
        strbuf_add(&f->text, text, n);
        return;
    }
    char *raw = xmalloc(n + 1);
    if (base64_decode(text, n, raw, &bytes)) strbuf_add(&f->text, raw, bytes);
    free(raw);
}

static struct recorded_files read_files(const struct timeline *tl) {
    const struct timeline_model_files *m = &tl->model_files;
    struct recorded_files out = { 0 };
    uint32_t(*order)[4] = xcalloc(m->n + 1, sizeof *order); /* process, file, part, index */
    for (uint32_t i = 0; i < m->n; i++) {
        const uint32_t row[4] = { m->process[i], m->v[i].file, m->v[i].part, i };
        memcpy(order[i], row, sizeof row);
    }
    if (m->n) qsort(order, m->n, sizeof *order, by_file_and_part);
    for (size_t k = 0; k < m->n; k++) {
        const struct trace_model_file *r = &m->v[order[k][3]];
        const struct recorded_file *last = out.n ? &out.v[out.n - 1] : NULL;
        if (!last || last->process != order[k][0] || last->number != r->file)
            vec_push(&out, ((struct recorded_file){ .path = timeline_text(tl, r->path),
                                                    .format = timeline_text(tl, r->format),
                                                    .process = order[k][0],
                                                    .number = r->file,
                                                    .flags = r->flags,
                                                    .file_bytes = r->file_bytes,
                                                    .text = STRBUF_INIT }));
        add_text(&out.v[out.n - 1], timeline_text(tl, r->text));
    }
    free(order);
    return out;
}

static void free_files(struct recorded_files *files) {
    for (size_t i = 0; i < files->n; i++) strbuf_free(&files->v[i].text);
    free(files->v);
}

/* ---- which files belong together */

static size_t folder_bytes(const char *path) { return (size_t)(file_basename(path) - path); }

/* Length without "-00001-of-00003.gguf". */
static size_t stem_bytes(const char *path) {
    static const char shape[] = "-ddddd-of-ddddd.gguf";
    size_t n = strlen(path), k = sizeof shape - 1;
    if (n < k) return n;
    for (size_t i = 0; i < k; i++) {
        char c = path[n - k + i];
        if (shape[i] == 'd' ? c < '0' || c > '9' : c != shape[i]) return n;
    }
    return n - k;
}

static bool same_prefix(const char *a, size_t na, const char *b, size_t nb) {
    return na == nb && memcmp(a, b, na) == 0;
}

static bool same_model(const struct recorded_file *a, const struct recorded_file *b) {
    return strcmp(a->format, b->format) == 0 &&
           same_prefix(a->path, stem_bytes(a->path), b->path, stem_bytes(b->path));
}

/* True if the config is in the folder of the weights or, in a cache, in snapshots/REVISION next to blobs/. */
static bool config_belongs(const char *config, const char *weights) {
    static const char blobs[] = "/blobs/", snapshots[] = "/snapshots/";
    size_t n = folder_bytes(weights), k = folder_bytes(config);
    if (same_prefix(config, k, weights, n)) return true;
    if (n < sizeof blobs - 1 || memcmp(weights + n - (sizeof blobs - 1), blobs, sizeof blobs - 1) != 0)
        return false;
    size_t root = n - (sizeof blobs - 1);
    return strncmp(config, weights, root) == 0 &&
           strncmp(config + root, snapshots, sizeof snapshots - 1) == 0;
}

static bool is_format(const struct recorded_file *f, const char *format) {
    return strcmp(f->format, format) == 0;
}

/* ---- candidates */

static int by_path(const void *a, const void *b) {
    return strcmp(((const struct gguf_head *)a)->path, ((const struct gguf_head *)b)->path);
}

/* Loads all parts of the model of files[first]. Each path is used once. */
static struct llm_model *load_gguf(const struct recorded_files *files, size_t first, struct trace_model *m,
                                   struct err *err) {
    struct gguf_head *heads = xcalloc(files->n + 1, sizeof *heads);
    const struct recorded_file *f = &files->v[first];
    for (size_t i = first; i < files->n; i++) {
        const struct recorded_file *g = &files->v[i];
        bool known = false;
        for (size_t k = 0; k < m->files; k++) known |= strcmp(heads[k].path, g->path) == 0;
        if (known || !g->text.len || !same_model(f, g)) continue;
        heads[m->files++] = (struct gguf_head){ g->path, g->text.buf, g->text.len, g->file_bytes };
        m->file_bytes += (double)g->file_bytes;
    }
    if (m->files) qsort(heads, m->files, sizeof *heads, by_path); /* the first part has metadata */
    struct llm_model *model = llm_model_of_heads(heads, m->files, &(struct llm_load){ 0 }, err);
    free(heads);
    return model;
}

/* "Qwen3-8B" for ".../models--Qwen--Qwen3-8B/snapshots/1a2b/config.json", else the name of the folder. */
static char *config_name(const char *config) {
    static const char cache[] = "/models--";
    const char *start = strstr(config, cache), *end = start ? strchr(start + 1, '/') : NULL;
    if (start && end) {
        const char *part = start + sizeof cache - 1;
        for (const char *p = part; p + 2 < end; p++)
            if (p[0] == '-' && p[1] == '-') part = p + 2;
        return xstrndup(part, (size_t)(end - part));
    }
    size_t n = folder_bytes(config);
    if (n < 2) return xstrdup("model");
    char *folder = xstrndup(config, n - 1), *name = xstrdup(file_basename(folder));
    free(folder);
    return name;
}

static struct llm_model *load_config(const struct recorded_files *files, size_t config, struct trace_model *m,
                                     uint32_t *flags, struct err *err) {
    const struct recorded_file *c = &files->v[config];
    struct safetensors *weights = NULL;
    for (size_t i = 0; i < files->n; i++) {
        const struct recorded_file *f = &files->v[i];
        if (f->process != c->process || !is_format(f, "safetensors") || !config_belongs(c->path, f->path))
            continue;
        struct err ignored;
        m->files++;
        m->file_bytes += (double)f->file_bytes;
        *flags |= f->flags;
        uint64_t start = 8 + (uint64_t)f->text.len;
        if (!weights && f->text.len && f->file_bytes > start)
            weights = safetensors_parse(f->text.buf, f->text.len, f->file_bytes - start, f->path, &ignored);
    }
    struct llm_model *model = llm_model_parse(c->text.buf ? c->text.buf : "", c->text.len, c->path,
                                              &(struct llm_load){ .weights = weights }, err);
    safetensors_close(weights);
    if (model) {
        free(model->name);
        model->name = config_name(c->path);
    }
    return model;
}

static const char *how_used(uint32_t flags) {
    if (flags & TRACE_MODEL_OPEN) return "open";
    return flags & TRACE_MODEL_MAPPED ? "mapped" : "named by an argument";
}

/* Size of the weights; half of it for files that are only an argument of the program. 0: the model cannot
 * decode. */
static double worth(const struct trace_model *m) {
    double bytes = m->model->decodes ? llm_weight_bytes(m->model) : 0;
    return m->how && strcmp(m->how, "named by an argument") == 0 ? bytes / 2 : bytes;
}

static struct trace_model load_candidate(const struct recorded_files *files, size_t i) {
    const struct recorded_file *f = &files->v[i];
    struct trace_model m = { 0 };
    struct err err = { 0 };
    uint32_t flags = f->flags;
    m.model = is_format(f, "gguf") ? load_gguf(files, i, &m, &err) : load_config(files, i, &m, &flags, &err);
    m.how = how_used(flags);
    m.path = xstrdup(f->path);
    if (!m.model) m.problem = xstrdup(err.msg);
    return m;
}

/* True for the first file of a GGUF model, and for a config. Other GGUF files and safetensors files are parts
 * of these. */
static bool is_first(const struct recorded_files *files, size_t i) {
    if (is_format(&files->v[i], "safetensors")) return false;
    for (size_t k = 0; k < i; k++)
        if (same_model(&files->v[k], &files->v[i])) return false;
    return true;
}

struct trace_model trace_model_find(const struct timeline *tl) {
    struct trace_model best = { 0 };
    if (!tl->model_files.n) return best;
    struct recorded_files files = read_files(tl);
    for (size_t i = 0; i < files.n; i++) {
        if (!is_first(&files, i)) continue;
        struct trace_model m = load_candidate(&files, i);
        bool better = !best.path || (m.model && (!best.model || worth(&m) > worth(&best)));
        trace_model_free(better ? &best : &m);
        if (better) best = m;
    }
    free_files(&files);
    return best;
}

void trace_model_free(struct trace_model *m) {
    llm_model_free(m->model);
    free(m->path);
    free(m->problem);
    *m = (struct trace_model){ 0 };
}
