#include "llm/gguf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
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
#include "base/vec.h"

#define MAGIC 0x46554747u /* "GGUF" */
#define ALIGNMENT 32      /* default of general.alignment */
#define ALIGNMENT_MAX (1u << 20)
#define KEY_BYTES_MAX 65535 /* limit of the format */
#define NAME_BYTES_MAX 256
#define PARTS_MAX 4096
#define NESTING_MAX 4 /* arrays of arrays */

struct part {
    char *path;
    const uint8_t *data;
    size_t bytes;
    bool mapped;
    uint64_t head_of; /* `data` is only the head of a file of this size; 0: `data` is the whole file */
};

struct value_list { /* sorted by key after reading */
    struct gguf_value *v;
    size_t n, cap;
};

struct gguf {
    uint32_t version;
    struct {
        struct part *v;
        size_t n, cap;
    } parts;
    struct value_list values; /* metadata of the first part */
    struct {
        struct gguf_tensor *v;
        size_t n, cap;
    } tensors;
    const struct gguf_tensor **by_name; /* sorted */
};

struct ggml_type_info ggml_type_info(uint32_t type) {
#define X(name, number, numbers, bytes) [number] = { #name, numbers, bytes },
    static const struct ggml_type_info rows[] = {
        [4] = { "Q4_2", 0, 0 },        [5] = { "Q4_3", 0, 0 },        [31] = { "Q4_0_4_4", 0, 0 },
        [32] = { "Q4_0_4_8", 0, 0 },   [33] = { "Q4_0_8_8", 0, 0 },   [36] = { "IQ4_NL_4_4", 0, 0 },
        [37] = { "IQ4_NL_4_8", 0, 0 }, [38] = { "IQ4_NL_8_8", 0, 0 }, GGML_TYPES(X)
    };
#undef X
    return type < COUNTOF(rows) ? rows[type] : (struct ggml_type_info){ 0 };
}

static void free_values(struct value_list *values) {
    for (size_t i = 0; i < values->n; i++) free((char *)values->v[i].key);
    free(values->v);
    *values = (struct value_list){ 0 };
}

void gguf_close(struct gguf *g) {
    if (!g) return;
    free_values(&g->values);
    for (size_t i = 0; i < g->tensors.n; i++) free((char *)g->tensors.v[i].name);
    for (size_t i = 0; i < g->parts.n; i++) {
        if (g->parts.v[i].mapped) munmap((void *)g->parts.v[i].data, g->parts.v[i].bytes);
        free(g->parts.v[i].path);
    }
    free(g->tensors.v);
    free(g->parts.v);
    free(g->by_name);
    free(g);
}

/* ---- Parsing one part */
struct parse {
    struct gguf *g;
    const struct part *part;
    struct value_list *values;
    struct bytes in; /* bytes that are not parsed yet */
    uint64_t alignment;
    struct err *err;
};

static size_t place(const struct parse *p) { return (size_t)(p->in.p - p->part->data); }

static int parse_error(const struct parse *p, const char *what) {
    return err_set(p->err, "%s: byte %zu: %s", p->part->path, place(p), what);
}

/* Writes a printable copy of the name, at most `cap` - 1 bytes. */
static void show_name(const struct bytes *name, char *out, size_t cap) {
    size_t n = MIN(bytes_left(name), cap - 1);
    for (size_t i = 0; i < n; i++) out[i] = name->p[i] >= 32 && name->p[i] < 127 ? (char)name->p[i] : '?';
    out[n] = '\0';
}

static int read_string(struct parse *p, uint64_t max, const char *what, struct bytes *out) {
    uint64_t n;
    if (!bytes_u64(&p->in, &n) || n > bytes_left(&p->in))
        return err_set(p->err, "%s: byte %zu: the file ends inside %s", p->part->path, place(p), what);
    if (n > max)
        return err_set(p->err, "%s: byte %zu: %s has %" PRIu64 " bytes; at most %" PRIu64, p->part->path,
                       place(p), what, n, max);
    bytes_slice(&p->in, (size_t)n, out);
    return 0;
}

static char *copy_name(const struct bytes *s) { return xstrndup((const char *)s->p, bytes_left(s)); }

static size_t kind_bytes(enum gguf_kind kind) {
    static const uint8_t sizes[GGUF_KINDS] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,   [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
        [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
    };
    return sizes[kind]; /* 0: variable */
}

static int skip_elements(struct parse *p, enum gguf_kind kind, uint64_t count, int depth);

static int read_array_head(struct parse *p, uint32_t *kind, uint64_t *count) {
    if (!bytes_u32(&p->in, kind) || !bytes_u64(&p->in, count))
        return parse_error(p, "the file ends inside an array");
    if (*kind >= GGUF_KINDS)
        return err_set(p->err, "%s: byte %zu: the array elements have the unknown kind %u", p->part->path,
                       place(p), *kind);
    return 0;
}

static int skip_element(struct parse *p, enum gguf_kind kind, int depth) {
    struct bytes ignored;
    uint32_t inner;
    uint64_t count;
    if (kind == GGUF_STRING) return read_string(p, UINT64_MAX, "a string", &ignored);
    if (depth >= NESTING_MAX) return parse_error(p, "arrays are nested too deeply");
    if (read_array_head(p, &inner, &count) < 0) return -1;
    return skip_elements(p, (enum gguf_kind)inner, count, depth + 1);
}

/* Every element takes at least one byte (strings and arrays at least eight), so the size of the file
 * limits the loop. */
static int skip_elements(struct parse *p, enum gguf_kind kind, uint64_t count, int depth) {
    struct bytes ignored;
    size_t each = kind_bytes(kind);
    if (count > bytes_left(&p->in) / (each ? each : 8)) return parse_error(p, "the file ends inside a value");
    if (each) return bytes_slice(&p->in, (size_t)count * each, &ignored) ? 0 : -1;
    for (uint64_t i = 0; i < count; i++)
        if (skip_element(p, kind, depth) < 0) return -1;
    return 0;
}

static int read_value(struct parse *p, struct gguf_value *v) {
    struct bytes key;
    uint32_t kind;
    if (read_string(p, KEY_BYTES_MAX, "a key", &key) < 0) return -1;
    if (memchr(key.p, '\0', bytes_left(&key))) return parse_error(p, "a key contains a zero byte");
    if (!bytes_u32(&p->in, &kind)) return parse_error(p, "the file ends inside a value");
    if (kind >= GGUF_KINDS) {
        char name[80];
        show_name(&key, name, sizeof name);
        return err_set(p->err, "%s: byte %zu: %s has the unknown kind %u", p->part->path, place(p), name,
                       kind);
    }
    *v = (struct gguf_value){ .kind = (enum gguf_kind)kind, .element = (enum gguf_kind)kind, .count = 1 };
    if (kind == GGUF_ARRAY) {
        uint32_t element;
        if (read_array_head(p, &element, &v->count) < 0) return -1;
        v->element = (enum gguf_kind)element;
    }
    const uint8_t *start = p->in.p;
    if (skip_elements(p, v->element, v->count, 0) < 0) return -1;
    v->raw = (struct bytes){ start, p->in.p };
    v->key = copy_name(&key);
    return 0;
}

static int size_tensor(struct parse *p, struct gguf_tensor *t) {
    struct ggml_type_info info = ggml_type_info(t->type);
    t->numbers = 1;
    for (int i = 0; i < GGUF_DIMS_MAX; i++)
        if (__builtin_mul_overflow(t->numbers, t->dims[i], &t->numbers) || t->numbers > INT64_MAX)
            return err_set(p->err,
                           "%s: byte %zu: tensor \"%.200s\": the product of its sizes exceeds 63 bits",
                           p->part->path, place(p), t->name);
    if (!info.numbers)
        return err_set(p->err, "%s: byte %zu: tensor \"%.200s\" has %s type %u%s%s", p->part->path, place(p),
                       t->name, info.name ? "the removed" : "the unknown", t->type, info.name ? ", " : "",
                       info.name ? info.name : "");
    if (t->dims[0] % info.numbers)
        return err_set(p->err,
                       "%s: byte %zu: tensor \"%.200s\": rows of %" PRIu64
                       " numbers are not a multiple of the block of %s, %u",
                       p->part->path, place(p), t->name, t->dims[0], info.name, info.numbers);
    if (__builtin_mul_overflow(t->numbers / info.numbers, (uint64_t)info.bytes, &t->bytes))
        return err_set(p->err, "%s: byte %zu: tensor \"%.200s\" has more than 2^64 bytes", p->part->path,
                       place(p), t->name);
    return 0;
}

static int read_tensor_info(struct parse *p, struct gguf_tensor *t) {
    struct bytes name;
    uint32_t ndims;
    if (read_string(p, NAME_BYTES_MAX, "the name of a tensor", &name) < 0) return -1;
    if (memchr(name.p, '\0', bytes_left(&name)))
        return parse_error(p, "a tensor's name contains a zero byte");
    t->name = copy_name(&name);
    if (!bytes_u32(&p->in, &ndims)) return parse_error(p, "the file ends inside the description of a tensor");
    if (ndims > GGUF_DIMS_MAX)
        return err_set(p->err, "%s: byte %zu: tensor \"%.200s\" has %u dimensions; at most %d", p->part->path,
                       place(p), t->name, ndims, GGUF_DIMS_MAX);
    t->ndims = (int)ndims;
    for (int i = 0; i < GGUF_DIMS_MAX; i++) {
        t->dims[i] = 1;
        if (i < t->ndims && !bytes_u64(&p->in, &t->dims[i]))
            return parse_error(p, "the file ends inside the description of a tensor");
    }
    if (!bytes_u32(&p->in, &t->type) || !bytes_u64(&p->in, &t->offset))
        return parse_error(p, "the file ends inside the description of a tensor");
    if (t->offset % p->alignment)
        return err_set(p->err, "%s: byte %zu: tensor \"%.200s\": its offset is not a multiple of %" PRIu64,
                       p->part->path, place(p), t->name, p->alignment);
    return size_tensor(p, t);
}

/* Converts offsets, which are relative to the first aligned byte after the descriptions, to offsets in the
 * file. Fails if a tensor is not inside the file. */
static int place_tensors(struct parse *p, size_t first) {
    uint64_t start = ((uint64_t)place(p) + p->alignment - 1) / p->alignment * p->alignment;
    uint64_t room = p->part->bytes > start ? p->part->bytes - start : 0;
    for (size_t i = first; i < p->g->tensors.n; i++) {
        struct gguf_tensor *t = &p->g->tensors.v[i];
        if (start > p->part->bytes || t->offset > room || t->bytes > room - t->offset)
            return err_set(p->err,
                           "%s: tensor \"%.200s\" needs %" PRIu64 " bytes at byte %" PRIu64
                           " of %zu: the file is "
                           "truncated or damaged",
                           p->part->path, t->name, t->bytes,
                           t->offset <= UINT64_MAX - start ? start + t->offset : t->offset, p->part->bytes);
        t->offset += start;
    }
    return 0;
}

static int compare_offsets(const void *a, const void *b) {
    const struct gguf_tensor *x = *(const struct gguf_tensor *const *)a,
                             *y = *(const struct gguf_tensor *const *)b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int check_overlap(struct parse *p, size_t first) {
    size_t n = p->g->tensors.n - first;
    const struct gguf_tensor **v = xcalloc(MAX(1, n), sizeof *v);
    int rc = 0;
    for (size_t i = 0; i < n; i++) v[i] = &p->g->tensors.v[first + i];
    qsort(v, n, sizeof *v, compare_offsets);
    for (size_t i = 1; i < n && rc == 0; i++)
        if (v[i]->offset - v[i - 1]->offset < v[i - 1]->bytes)
            rc = err_set(p->err, "%s: tensors \"%.200s\" and \"%.200s\" overlap", p->part->path,
                         v[i - 1]->name, v[i]->name);
    free(v);
    return rc;
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const struct gguf_value *)a)->key, ((const struct gguf_value *)b)->key);
}

static const struct gguf_value *find_value(const struct value_list *values, const char *key) {
    struct gguf_value wanted = { .key = key };
    return values->n ? bsearch(&wanted, values->v, values->n, sizeof *values->v, by_key) : NULL;
}

static bool as_u64(struct bytes at, enum gguf_kind kind, uint64_t *out);

static bool find_u64(const struct value_list *values, const char *key, uint64_t *out) {
    const struct gguf_value *v = find_value(values, key);
    return v && as_u64(v->raw, v->kind, out);
}

static int read_values(struct parse *p, uint64_t count) {
    struct value_list *values = p->values;
    if (count > bytes_left(&p->in) / 13) /* minimum size of a value: a key's length, its kind and one byte */
        return err_set(p->err, "%s: byte %zu: %" PRIu64 " values do not fit in the file", p->part->path,
                       place(p), count);
    for (uint64_t i = 0; i < count; i++) {
        struct gguf_value v;
        if (read_value(p, &v) < 0) return -1;
        vec_push(values, v);
    }
    if (values->n) qsort(values->v, values->n, sizeof *values->v, by_key);
    for (size_t i = 1; i < values->n; i++)
        if (strcmp(values->v[i - 1].key, values->v[i].key) == 0)
            return err_set(p->err, "%s: the key \"%.200s\" occurs twice", p->part->path, values->v[i].key);
    return 0;
}

static int read_alignment(struct parse *p) {
    p->alignment = ALIGNMENT;
    if (!find_value(p->values, "general.alignment")) return 0;
    if (!find_u64(p->values, "general.alignment", &p->alignment) || p->alignment == 0 ||
        p->alignment > ALIGNMENT_MAX || (p->alignment & (p->alignment - 1)))
        return err_set(p->err, "%s: general.alignment is not a power of two up to %u", p->part->path,
                       ALIGNMENT_MAX);
    return 0;
}

/* Checks the tensors of a head without data. Only their sizes can be checked: no tensor may be larger than
 * the file. */
static int check_sizes(struct parse *p, size_t first) {
    for (size_t i = first; i < p->g->tensors.n; i++)
        if (p->g->tensors.v[i].bytes > p->part->head_of)
            return err_set(p->err, "%s: tensor \"%.200s\" is larger than the file", p->part->path,
                           p->g->tensors.v[i].name);
    return 0;
}

static int read_tensor_infos(struct parse *p, uint64_t count) {
    struct gguf *g = p->g;
    size_t first = g->tensors.n;
    /* minimum size of a description: name's length, number of dimensions, type and offset */
    if (count > bytes_left(&p->in) / 24)
        return err_set(p->err, "%s: byte %zu: %" PRIu64 " tensors do not fit in the file", p->part->path,
                       place(p), count);
    for (uint64_t i = 0; i < count; i++) {
        struct gguf_tensor t = { .file = (uint32_t)(g->parts.n - 1) };
        int rc = read_tensor_info(p, &t);
        /* stored even after an error, because gguf_close frees the name */
        if (t.name) vec_push(&g->tensors, t);
        if (rc < 0) return -1;
    }
    if (p->part->head_of) return check_sizes(p, first);
    if (place_tensors(p, first) < 0) return -1;
    return check_overlap(p, first);
}

static int read_head(struct parse *p, uint64_t *tensors, uint64_t *values) {
    uint32_t magic, version;
    if (!bytes_u32(&p->in, &magic) || magic != MAGIC)
        return err_set(p->err, "%s: not a GGUF file: it does not begin with \"GGUF\"", p->part->path);
    if (!bytes_u32(&p->in, &version)) return parse_error(p, "the file ends inside its header");
    if (version > 0xffff)
        return err_set(p->err, "%s: big-endian GGUF files are not supported", p->part->path);
    if (version < 2 || version > 3)
        return err_set(p->err, "%s: GGUF version %u is not supported; expected 2 or 3", p->part->path,
                       version);
    if (!bytes_u64(&p->in, tensors) || !bytes_u64(&p->in, values))
        return parse_error(p, "the file ends inside its header");
    p->g->version = version;
    return 0;
}

/* Reads the part that was added last. */
static int read_part(struct gguf *g, struct value_list *values, struct err *err) {
    const struct part *part = &g->parts.v[g->parts.n - 1];
    struct parse p = {
        .g = g, .part = part, .values = values, .in = { part->data, part->data + part->bytes }, .err = err
    };
    uint64_t ntensors = 0, nvalues = 0;
    if (read_head(&p, &ntensors, &nvalues) < 0 || read_values(&p, nvalues) < 0 || read_alignment(&p) < 0)
        return -1;
    return read_tensor_infos(&p, ntensors);
}

/* ---- Parts */
static int by_name(const void *a, const void *b) {
    return strcmp((*(const struct gguf_tensor *const *)a)->name,
                  (*(const struct gguf_tensor *const *)b)->name);
}

static int index_tensors(struct gguf *g, struct err *err) {
    g->by_name = xcalloc(MAX(1, g->tensors.n), sizeof *g->by_name);
    for (size_t i = 0; i < g->tensors.n; i++) g->by_name[i] = &g->tensors.v[i];
    qsort(g->by_name, g->tensors.n, sizeof *g->by_name, by_name);
    for (size_t i = 1; i < g->tensors.n; i++)
        if (strcmp(g->by_name[i - 1]->name, g->by_name[i]->name) == 0)
            return err_set(err, "%s: tensor \"%.200s\" is also in %s", gguf_file(g, g->by_name[i]->file),
                           g->by_name[i]->name, gguf_file(g, g->by_name[i - 1]->file));
    return 0;
}

static int map_part(struct gguf *g, const char *path, struct err *err) {
    struct part part = { 0 };
    struct stat st;
    /* O_NONBLOCK: if the path is a pipe, do not wait for a writer */
    int rc = -1, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0) {
        err_set(err, "%s: %s", path, strerror(errno));
        goto done;
    }
    if (!S_ISREG(st.st_mode) || st.st_size == 0) {
        err_set(err, "%s: %s", path, st.st_size == 0 ? "the file is empty" : "not a regular file");
        goto done;
    }
    void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        err_set(err, "%s: mmap: %s", path, strerror(errno));
        goto done;
    }
    /* only a hint. File systems with large folios then read the file into huge pages. */
    madvise(data, (size_t)st.st_size, MADV_HUGEPAGE);
    part = (struct part){ xstrdup(path), data, (size_t)st.st_size, true };
    vec_push(&g->parts, part);
    rc = 0;
done:
    if (fd >= 0) close(fd); /* the mapping remains valid after close */
    return rc;
}

/* Parses "model-00002-of-00005.gguf"; *stem is the length of "model". Returns false for other names. */
static bool split_name(const char *path, size_t *stem, unsigned *count) {
    static const char shape[] = "-ddddd-of-ddddd.gguf";
    size_t n = strlen(path), k = sizeof shape - 1;
    if (n < k) return false;
    const char *tail = path + n - k;
    for (size_t i = 0; i < k; i++)
        if (shape[i] == 'd' ? tail[i] < '0' || tail[i] > '9' : tail[i] != shape[i]) return false;
    if (strchr(tail, '/')) return false;
    *stem = n - k;
    *count = (unsigned)strtoul(tail + 10, NULL, 10);
    return true;
}

char *gguf_in_folder(const char *path) {
    char *config = file_join(path, "config.json"), *found = NULL;
    DIR *d = file_exists(config) ? NULL : opendir(path);
    const struct dirent *e;
    int models = 0;
    while (d && (e = readdir(d))) {
        size_t stem;
        unsigned count;
        if (!file_has_ending(e->d_name, ".gguf")) continue;
        if (split_name(e->d_name, &stem, &count) && strncmp(e->d_name + stem, "-00001-", 7) != 0) continue;
        models++;
        free(found);
        found = file_join(path, e->d_name);
    }
    if (d) closedir(d);
    free(config);
    if (models == 1) return found;
    free(found);
    return xstrdup(path);
}

static int open_part(struct gguf *g, const char *path, unsigned count, struct err *err) {
    struct value_list own = { 0 }, *values = g->parts.n == 0 ? &g->values : &own;
    uint64_t stated;
    int rc = map_part(g, path, err) < 0 ? -1 : read_part(g, values, err);
    if (rc == 0 && count > 1 && (!find_u64(values, "split.count", &stated) || stated != count))
        rc = err_set(err, "%s: split.count is not %u, the number of files in its name", path, count);
    free_values(&own);
    return rc;
}

static int open_parts(struct gguf *g, const char *path, size_t stem, unsigned count, struct err *err) {
    uint64_t stated;
    for (unsigned i = 1; i <= count; i++) {
        char *name = xasprintf("%.*s-%05u-of-%05u.gguf", (int)stem, path, i, count);
        int rc = open_part(g, name, count, err);
        free(name);
        if (rc < 0) return -1;
    }
    if (gguf_u64(g, "split.tensors.count", &stated) && stated != g->tensors.n)
        return err_set(err, "%s: its %u files have %zu tensors, not the %" PRIu64 " of split.tensors.count",
                       path, count, g->tensors.n, stated);
    return 0;
}

struct gguf *gguf_open(const char *path, struct err *err) {
    struct gguf *g = xcalloc(1, sizeof *g);
    size_t stem = 0;
    unsigned count = 1;
    uint64_t stated;
    int rc = 0;
    if (split_name(path, &stem, &count) && count > 1 && count <= PARTS_MAX) {
        rc = open_parts(g, path, stem, count, err);
    } else {
        rc = open_part(g, path, 1, err);
        if (rc == 0 && gguf_u64(g, "split.count", &stated) && stated > 1)
            rc = err_set(err,
                         "%s: one of %" PRIu64 " parts; their names must end in -00001-of-%05" PRIu64 ".gguf",
                         path, stated, stated);
    }
    if (rc == 0) rc = index_tensors(g, err);
    if (rc == 0) return g;
    gguf_close(g);
    return NULL;
}

struct gguf *gguf_parse(const void *data, size_t n, const char *what, struct err *err) {
    struct gguf *g = xcalloc(1, sizeof *g);
    struct part part = { .path = xstrdup(what), .data = data, .bytes = n };
    vec_push(&g->parts, part);
    if (read_part(g, &g->values, err) == 0 && index_tensors(g, err) == 0) return g;
    gguf_close(g);
    return NULL;
}

static int add_head(struct gguf *g, const struct gguf_head *h, struct err *err) {
    struct value_list own = { 0 }, *values = g->parts.n == 0 ? &g->values : &own;
    struct part part = {
        .path = xstrdup(h->path), .data = h->data, .bytes = h->bytes, .head_of = MAX(h->file_bytes, 1)
    };
    vec_push(&g->parts, part);
    int rc = read_part(g, values, err);
    free_values(&own);
    return rc;
}

struct gguf *gguf_parse_heads(const struct gguf_head *heads, size_t n, struct err *err) {
    struct gguf *g = xcalloc(1, sizeof *g);
    int rc = n ? 0 : err_set(err, "no GGUF file was recorded");
    for (size_t i = 0; i < n && rc == 0; i++) rc = add_head(g, &heads[i], err);
    if (rc == 0 && index_tensors(g, err) == 0) return g;
    gguf_close(g);
    return NULL;
}

/* ---- Access */
uint32_t gguf_version(const struct gguf *g) { return g->version; }
size_t gguf_files(const struct gguf *g) { return g->parts.n; }

const char *gguf_file(const struct gguf *g, uint32_t file) {
    return file < g->parts.n ? g->parts.v[file].path : NULL;
}

size_t gguf_count(const struct gguf *g) { return g->tensors.n; }

const struct gguf_tensor *gguf_at(const struct gguf *g, size_t i) {
    return i < g->tensors.n ? &g->tensors.v[i] : NULL;
}

const struct gguf_tensor *gguf_find(const struct gguf *g, const char *name) {
    struct gguf_tensor wanted = { .name = name };
    const struct gguf_tensor *key = &wanted;
    const struct gguf_tensor **found =
        g->tensors.n ? bsearch(&key, g->by_name, g->tensors.n, sizeof *g->by_name, by_name) : NULL;
    return found ? *found : NULL;
}

const void *gguf_data(const struct gguf *g, const struct gguf_tensor *t) {
    return g->parts.v[t->file].head_of ? NULL : g->parts.v[t->file].data + t->offset;
}

size_t gguf_values(const struct gguf *g) { return g->values.n; }

const struct gguf_value *gguf_value_at(const struct gguf *g, size_t i) {
    return i < g->values.n ? &g->values.v[i] : NULL;
}

const struct gguf_value *gguf_value(const struct gguf *g, const char *key) {
    return find_value(&g->values, key);
}

static bool signed_value(int64_t v, uint64_t *out) {
    *out = (uint64_t)v;
    return v >= 0;
}

static bool as_u64(struct bytes at, enum gguf_kind kind, uint64_t *out) {
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    switch (kind) {
    case GGUF_U8: return bytes_u8(&at, &u8) && signed_value(u8, out);
    case GGUF_U16: return bytes_u16(&at, &u16) && signed_value(u16, out);
    case GGUF_U32: return bytes_u32(&at, &u32) && signed_value(u32, out);
    case GGUF_U64: return bytes_u64(&at, out);
    case GGUF_I8: return bytes_copy(&at, &i8, 1) && signed_value(i8, out);
    case GGUF_I16: return bytes_copy(&at, &i16, 2) && signed_value(i16, out);
    case GGUF_I32: return bytes_copy(&at, &i32, 4) && signed_value(i32, out);
    case GGUF_I64: return bytes_copy(&at, &i64, 8) && signed_value(i64, out);
    default: return false;
    }
}

static bool as_f64(struct bytes at, enum gguf_kind kind, double *out) {
    float f;
    uint64_t u;
    if (kind == GGUF_F64) return bytes_copy(&at, out, 8);
    if (kind == GGUF_F32) {
        if (!bytes_copy(&at, &f, 4)) return false;
        *out = (double)f;
        return true;
    }
    if (!as_u64(at, kind, &u)) return false;
    *out = (double)u;
    return true;
}

bool gguf_u64(const struct gguf *g, const char *key, uint64_t *out) { return find_u64(&g->values, key, out); }

bool gguf_f64(const struct gguf *g, const char *key, double *out) {
    const struct gguf_value *v = gguf_value(g, key);
    return v && as_f64(v->raw, v->kind, out);
}

bool gguf_bool(const struct gguf *g, const char *key, bool *out) {
    const struct gguf_value *v = gguf_value(g, key);
    if (!v || v->kind != GGUF_BOOL) return false;
    *out = *v->raw.p != 0;
    return true;
}

bool gguf_str(const struct gguf *g, const char *key, struct bytes *out) {
    const struct gguf_value *v = gguf_value(g, key);
    if (!v || v->kind != GGUF_STRING) return false;
    struct bytes at = v->raw;
    return gguf_next_str(&at, out);
}

/* Sets *out to the part of the array that starts at element i. Returns false if there is no such element, or
 * if the elements do not have a fixed size. */
static bool element_at(const struct gguf_value *v, uint64_t i, struct bytes *out) {
    size_t each = kind_bytes(v->element);
    if (v->kind != GGUF_ARRAY || !each || i >= v->count) return false;
    *out = (struct bytes){ v->raw.p + i * each, v->raw.end };
    return true;
}

bool gguf_array_u64(const struct gguf_value *v, uint64_t i, uint64_t *out) {
    struct bytes at;
    return element_at(v, i, &at) && as_u64(at, v->element, out);
}

bool gguf_array_f64(const struct gguf_value *v, uint64_t i, double *out) {
    struct bytes at;
    return element_at(v, i, &at) && as_f64(at, v->element, out);
}

bool gguf_next_str(struct bytes *at, struct bytes *out) {
    uint64_t n;
    return bytes_u64(at, &n) && n <= bytes_left(at) && bytes_slice(at, (size_t)n, out);
}
