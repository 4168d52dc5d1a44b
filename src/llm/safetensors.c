#include "llm/safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "base/jsonr.h"
#include "base/strbuf.h"
#include "base/util.h"
#include "base/vec.h"

/* The largest released headers (hundreds of thousands of tensors) have about 30 MB; the format allows 100
 * MB. */
#define HEADER_BYTES_MAX (100u << 20)
#define INDEX_BYTES_MAX (256u << 20)

struct safetensors {
    struct {
        struct safetensors_tensor *v;
        size_t n, cap;
    } tensors;
    struct {
        char **v;
        size_t n, cap;
    } files;
};

void safetensors_close(struct safetensors *st) {
    if (!st) return;
    for (size_t i = 0; i < st->tensors.n; i++) free((char *)st->tensors.v[i].name);
    for (size_t i = 0; i < st->files.n; i++) free(st->files.v[i]);
    free(st->tensors.v);
    free(st->files.v);
    free(st);
}

/* ---- Tensors */
static int tensor_error(const char *what, const char *name, const char *why, struct err *err) {
    return err_set(err, "%s: tensor \"%.200s\": %s", what, name, why);
}

static int read_u64(const json_t *v, uint64_t *out) {
    if (!json_is_integer(v) || json_integer_value(v) < 0) return -1;
    *out = (uint64_t)json_integer_value(v);
    return 0;
}

static int read_shape(const json_t *shape, struct safetensors_tensor *t) {
    size_t n = json_array_size(shape);
    if (!json_is_array(shape) || n > SAFETENSORS_DIMS_MAX) return -1;
    t->ndims = (int)n;
    t->numbers = 1;
    for (size_t i = 0; i < n; i++) {
        if (read_u64(json_array_get(shape, i), &t->shape[i]) < 0) return -1;
        if (__builtin_mul_overflow(t->numbers, t->shape[i], &t->numbers)) return -1;
    }
    return 0;
}

static uint64_t bits_of(enum llm_dtype dtype) { return (uint64_t)(llm_dtype_bytes(dtype) * 8); }

/* `start`: offset of the data in the file; `data_bytes`: size of the data. */
static int read_tensor(const char *what, const char *name, const json_t *v, uint64_t start,
                       uint64_t data_bytes, struct safetensors_tensor *t, struct err *err) {
    const char *type = json_string_value(json_object_get(v, "dtype"));
    const json_t *span = json_object_get(v, "data_offsets");
    uint64_t from, to, bits;
    t->dtype = type ? llm_dtype_parse(type) : LLM_DTYPE_UNKNOWN;
    t->e4m3 = type && strcmp(type, "F8_E4M3") == 0;
    if (!type) return tensor_error(what, name, "has no dtype", err);
    if (t->dtype == LLM_DTYPE_UNKNOWN)
        return err_set(err, "%s: tensor \"%.200s\": unknown dtype '%.40s'", what, name, type);
    if (read_shape(json_object_get(v, "shape"), t) < 0)
        return tensor_error(what, name,
                            "invalid shape: not a list of at most 8 sizes whose product fits 64 bits", err);
    if (!json_is_array(span) || json_array_size(span) != 2 || read_u64(json_array_get(span, 0), &from) < 0 ||
        read_u64(json_array_get(span, 1), &to) < 0 || from > to)
        return tensor_error(what, name, "data_offsets is not [start, end]", err);
    if (to > data_bytes)
        return err_set(err,
                       "%s: tensor \"%.200s\" ends at byte %" PRIu64 " of %" PRIu64
                       ": the file is truncated or damaged",
                       what, name, to, data_bytes);
    if (__builtin_mul_overflow(t->numbers, bits_of(t->dtype), &bits) || (bits + 7) / 8 != to - from)
        return err_set(err, "%s: tensor \"%.200s\": %" PRIu64 " bytes do not match %" PRIu64 " numbers of %s",
                       what, name, to - from, t->numbers, llm_dtype_name(t->dtype));
    t->offset = start + from;
    t->bytes = to - from;
    return 0;
}

/* ---- Headers */
static int by_offset(const void *a, const void *b) {
    const struct safetensors_tensor *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int check_overlap(struct safetensors_tensor *t, size_t n, const char *what, struct err *err) {
    qsort(t, n, sizeof *t, by_offset);
    for (size_t i = 1; i < n; i++)
        if (t[i].offset - t[i - 1].offset < t[i - 1].bytes)
            return err_set(err, "%s: tensors \"%.200s\" and \"%.200s\" overlap", what, t[i - 1].name,
                           t[i].name);
    return 0;
}

static int add_header(struct safetensors *st, const char *head, size_t head_bytes, uint64_t start,
                      uint64_t data_bytes, const char *what, struct err *err) {
    json_t *root = jsonr_load_text(head, head_bytes, what, err);
    if (!root) return -1;
    int rc = json_is_object(root) ? 0 : err_set(err, "%s: the header is not a JSON object", what);
    size_t first = st->tensors.n;
    const char *name;
    json_t *v;
    json_object_foreach(root, name, v) {
        struct safetensors_tensor t = { .file = (uint32_t)st->files.n };
        if (rc < 0) break;
        if (strcmp(name, "__metadata__") == 0) continue;
        if ((rc = read_tensor(what, name, v, start, data_bytes, &t, err)) < 0) break;
        t.name = xstrdup(name);
        vec_push(&st->tensors, t);
    }
    json_decref(root);
    if (rc == 0 && st->tensors.n > first)
        rc = check_overlap(st->tensors.v + first, st->tensors.n - first, what, err);
    vec_push(&st->files, xstrdup(what));
    return rc;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct safetensors_tensor *)a)->name, ((const struct safetensors_tensor *)b)->name);
}

/* Sorts for safetensors_find(); fails if two files contain the same name. */
static int sort_tensors(struct safetensors *st, struct err *err) {
    if (st->tensors.n) qsort(st->tensors.v, st->tensors.n, sizeof *st->tensors.v, by_name);
    for (size_t i = 1; i < st->tensors.n; i++) {
        const struct safetensors_tensor *t = &st->tensors.v[i];
        if (strcmp(t[-1].name, t->name) == 0)
            return err_set(err, "%s: tensor \"%.200s\" is also in %s", st->files.v[t->file], t->name,
                           st->files.v[t[-1].file]);
    }
    return 0;
}

struct safetensors *safetensors_parse(const char *head, size_t head_bytes, uint64_t data_bytes,
                                      const char *what, struct err *err) {
    struct safetensors *st = xcalloc(1, sizeof *st);
    if (add_header(st, head, head_bytes, 8 + (uint64_t)head_bytes, data_bytes, what, err) == 0 &&
        sort_tensors(st, err) == 0)
        return st;
    safetensors_close(st);
    return NULL;
}

/* ---- Files */
static int read_all(int fd, void *out, size_t n) {
    for (size_t done = 0; done < n;) {
        ssize_t got = read(fd, (char *)out + done, n - done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return -1;
        done += (size_t)got;
    }
    return 0;
}

static int add_open_file(struct safetensors *st, int fd, const char *path, struct err *err) {
    struct stat info;
    uint8_t raw[8];
    uint64_t head_bytes = 0;
    if (fstat(fd, &info) < 0) return err_set(err, "%s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode)) return err_set(err, "%s: not a regular file", path);
    uint64_t size = (uint64_t)info.st_size;
    if (size < 8 || read_all(fd, raw, 8) < 0)
        return err_set(err, "%s: %" PRIu64 " bytes, too small for a safetensors file", path, size);
    for (int i = 7; i >= 0; i--) head_bytes = head_bytes << 8 | raw[i];
    if (head_bytes > size - 8 || head_bytes > HEADER_BYTES_MAX)
        return err_set(err,
                       "%s: a header of %" PRIu64 " bytes in a file of %" PRIu64
                       ": not a safetensors file, or truncated",
                       path, head_bytes, size);
    char *head = xmalloc((size_t)head_bytes + 1);
    int rc = read_all(fd, head, (size_t)head_bytes) < 0
                 ? err_set(err, "%s: reading its header: %s", path, strerror(errno))
                 : add_header(st, head, (size_t)head_bytes, 8 + head_bytes, size - 8 - head_bytes, path, err);
    free(head);
    return rc;
}

static int add_file(struct safetensors *st, const char *path, struct err *err) {
    int fd = file_open_regular(path, err);
    if (fd < 0) return -1;
    int rc = add_open_file(st, fd, path, err);
    close(fd);
    return rc;
}

struct names {
    char **v;
    size_t n, cap;
};

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds every file once, in order; frees the names. */
static int add_files(struct safetensors *st, const char *dir, struct names *names, struct err *err) {
    int rc = 0;
    if (names->n) qsort(names->v, names->n, sizeof *names->v, compare_names);
    for (size_t i = 0; i < names->n; i++) {
        if (rc == 0 && (i == 0 || strcmp(names->v[i], names->v[i - 1]) != 0)) {
            char *path = file_join(dir, names->v[i]);
            rc = add_file(st, path, err);
            free(path);
        }
    }
    for (size_t i = 0; i < names->n; i++) free(names->v[i]);
    free(names->v);
    return rc;
}

/* Parses {"weight_map": {tensor: file}}. Shards must be file names in the folder of the index, not paths. */
static int add_index(struct safetensors *st, const char *path, struct err *err) {
    json_t *root = jsonr_load_path(path, INDEX_BYTES_MAX, err);
    if (!root) return -1;
    const json_t *map = json_object_get(root, "weight_map");
    struct names names = { 0 };
    int rc = json_object_size(map) ? 0 : err_set(err, "%s: has no weight_map, or an empty one", path);
    const char *tensor;
    json_t *v;
    json_object_foreach((json_t *)map, tensor, v) {
        const char *file = json_string_value(v);
        if (!file || !*file || strchr(file, '/')) {
            rc = err_set(err, "%s: tensor \"%.200s\" is not in a file of this folder", path, tensor);
            break;
        }
        vec_push(&names, xstrdup(file));
    }
    const char *base = file_basename(path);
    char *dir = base == path ? xstrdup(".") : xstrndup(path, (size_t)(base - path));
    struct err unused;
    if (rc < 0) {
        for (size_t i = 0; i < names.n; i++) free(names.v[i]);
        names.n = 0;
    }
    int added = add_files(st, dir, &names, rc < 0 ? &unused : err);
    free(dir);
    json_decref(root);
    return rc < 0 ? rc : added;
}

static int add_folder(struct safetensors *st, const char *path, struct err *err) {
    char *index = file_join(path, "model.safetensors.index.json");
    int rc = 0;
    if (file_exists(index)) {
        rc = add_index(st, index, err);
        free(index);
        return rc;
    }
    free(index);
    DIR *d = opendir(path);
    if (!d) return err_set(err, "%s: %s", path, strerror(errno));
    struct names names = { 0 };
    for (struct dirent *e; (e = readdir(d));)
        if (file_has_ending(e->d_name, ".safetensors")) vec_push(&names, xstrdup(e->d_name));
    closedir(d);
    if (names.n == 0) rc = err_set(err, "%s: no .safetensors file in this folder", path);
    struct err unused;
    int added = add_files(st, path, &names, rc < 0 ? &unused : err);
    return rc < 0 ? rc : added;
}

struct safetensors *safetensors_open(const char *path, struct err *err) {
    struct safetensors *st = xcalloc(1, sizeof *st);
    int rc = file_is_dir(path)                ? add_folder(st, path, err)
             : file_has_ending(path, ".json") ? add_index(st, path, err)
                                              : add_file(st, path, err);
    if (rc == 0) rc = sort_tensors(st, err);
    if (rc == 0) return st;
    safetensors_close(st);
    return NULL;
}

/* ---- Access */
size_t safetensors_count(const struct safetensors *st) { return st->tensors.n; }

const struct safetensors_tensor *safetensors_at(const struct safetensors *st, size_t i) {
    return i < st->tensors.n ? &st->tensors.v[i] : NULL;
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *st, const char *name) {
    struct safetensors_tensor key = { .name = name };
    if (st->tensors.n == 0) return NULL;
    return bsearch(&key, st->tensors.v, st->tensors.n, sizeof key, by_name);
}

size_t safetensors_files(const struct safetensors *st) { return st->files.n; }

const char *safetensors_file(const struct safetensors *st, uint32_t file) {
    return file < st->files.n ? st->files.v[file] : NULL;
}
