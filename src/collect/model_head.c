#include "collect/model_head.h"

#include <errno.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/util.h"

#define READ_MAX ((uint64_t)64 << 20)
#define BUFFER_BYTES ((size_t)32 << 10)
#define KEY_MAX 1024u
#define TEXT_MAX 256u /* longer values, such as templates, are skipped */
#define ARRAY_BYTES_MAX 16384u
#define VALUES_MAX 65536u
#define TENSORS_MAX 1000000u
#define DIMS_MAX 4u
#define HEADER_BYTES 24u /* magic, version, tensors, values */
#define SAFETENSORS_MAX ((uint64_t)100 << 20)

enum { KIND_STRING = 8, KIND_ARRAY = 9, KINDS = 13 };
static const uint8_t kind_bytes[KINDS] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

struct stream {
    const struct model_source *source;
    uint64_t at; /* offset of the next byte */
    uint64_t buffer_at;
    size_t buffer_bytes;
    uint64_t read_bytes;
    uint8_t buffer[BUFFER_BYTES];
};

struct sink {
    uint8_t *v;
    size_t n;
    bool full;
};

static bool fill(struct stream *s) {
    ssize_t n;
    size_t want = (size_t)MIN(BUFFER_BYTES, s->source->size - s->at);
    if (s->read_bytes >= READ_MAX) return false;
    do n = pread(s->source->fd, s->buffer, want, (off_t)(s->source->base + s->at));
    while (n < 0 && errno == EINTR);
    if (n <= 0) return false;
    s->buffer_at = s->at;
    s->buffer_bytes = (size_t)n;
    s->read_bytes += (uint64_t)n;
    return true;
}

static bool read_bytes(struct stream *s, void *out, size_t n) {
    uint8_t *to = out;
    if (n > s->source->size - s->at) return false;
    while (n) {
        bool inside = s->at >= s->buffer_at && s->at - s->buffer_at < s->buffer_bytes;
        if (!inside && !fill(s)) return false;
        size_t from = (size_t)(s->at - s->buffer_at), part = MIN(n, s->buffer_bytes - from);
        memcpy(to, s->buffer + from, part);
        to += part;
        s->at += part;
        n -= part;
    }
    return true;
}

static bool skip_bytes(struct stream *s, uint64_t n) {
    if (n > s->source->size - s->at) return false;
    s->at += n;
    return true;
}

static void sink_add(struct sink *k, const void *data, size_t n) {
    if (k->full || n > MODEL_HEAD_BYTES - k->n) {
        k->full = true;
        return;
    }
    memcpy(k->v + k->n, data, n);
    k->n += n;
}

static bool copy_bytes(struct stream *s, struct sink *k, size_t n) {
    uint8_t part[256];
    while (n) {
        size_t now = MIN(n, sizeof part);
        if (!read_bytes(s, part, now)) return false;
        sink_add(k, part, now);
        n -= now;
    }
    return true;
}

static bool copy_string(struct stream *s, struct sink *k, uint64_t max) {
    uint64_t n;
    if (!read_bytes(s, &n, sizeof n) || n > max) return false;
    sink_add(k, &n, sizeof n);
    return copy_bytes(s, k, (size_t)n);
}

static bool skip_strings(struct stream *s, uint64_t count) {
    uint64_t n;
    for (uint64_t i = 0; i < count; i++)
        if (!read_bytes(s, &n, sizeof n) || !skip_bytes(s, n)) return false;
    return true;
}

/* Sets *kept if the array was copied. */
static bool copy_array(struct stream *s, struct sink *k, bool vocabulary, bool *kept) {
    uint32_t kind;
    uint64_t count;
    if (!read_bytes(s, &kind, sizeof kind) || !read_bytes(s, &count, sizeof count)) return false;
    if (kind == KIND_STRING) return skip_strings(s, count);
    if (kind >= KINDS || !kind_bytes[kind] || count > s->source->size) return false;
    if (vocabulary || count > ARRAY_BYTES_MAX / kind_bytes[kind])
        return skip_bytes(s, count * kind_bytes[kind]);
    *kept = true;
    sink_add(k, &kind, sizeof kind);
    sink_add(k, &count, sizeof count);
    return copy_bytes(s, k, (size_t)count * kind_bytes[kind]);
}

static bool copy_text(struct stream *s, struct sink *k, bool *kept) {
    uint64_t n;
    if (!read_bytes(s, &n, sizeof n)) return false;
    if (n > TEXT_MAX) return skip_bytes(s, n);
    *kept = true;
    sink_add(k, &n, sizeof n);
    return copy_bytes(s, k, (size_t)n);
}

/* Copies a key and its value. If the value is skipped, the key is removed again. */
static bool copy_value(struct stream *s, struct sink *k, uint64_t *kept_count) {
    static const char vocabulary[] = "tokenizer.";
    size_t before = k->n;
    uint32_t kind;
    bool kept = false;
    if (!copy_string(s, k, KEY_MAX) || !read_bytes(s, &kind, sizeof kind) || kind >= KINDS) return false;
    const char *key = (const char *)k->v + before + 8;
    bool of_vocabulary =
        k->n - before - 8 >= sizeof vocabulary - 1 && memcmp(key, vocabulary, sizeof vocabulary - 1) == 0;
    sink_add(k, &kind, sizeof kind);
    if (kind == KIND_ARRAY) {
        if (!copy_array(s, k, of_vocabulary, &kept)) return false;
    } else if (kind == KIND_STRING) {
        if (!copy_text(s, k, &kept)) return false;
    } else {
        kept = true;
        if (!copy_bytes(s, k, kind_bytes[kind])) return false;
    }
    if (kept)
        ++*kept_count;
    else
        k->n = before;
    return true;
}

static bool copy_tensor(struct stream *s, struct sink *k) {
    uint32_t dims;
    if (!copy_string(s, k, TEXT_MAX) || !read_bytes(s, &dims, sizeof dims) || dims > DIMS_MAX) return false;
    sink_add(k, &dims, sizeof dims);
    return copy_bytes(s, k, dims * sizeof(uint64_t) + sizeof(uint32_t) + sizeof(uint64_t));
}

static struct model_head read_gguf(struct stream *s, struct sink *k) {
    static const struct model_head unknown;
    uint8_t head[HEADER_BYTES];
    uint64_t tensors, values, kept_tensors = 0, kept_values = 0;
    if (!read_bytes(s, head, sizeof head)) return unknown;
    memcpy(&tensors, head + 8, sizeof tensors);
    memcpy(&values, head + 16, sizeof values);
    if (values > VALUES_MAX || tensors > TENSORS_MAX) return unknown;
    sink_add(k, head, sizeof head);
    for (uint64_t i = 0; i < values && !k->full; i++)
        if (!copy_value(s, k, &kept_values)) return unknown;
    if (k->full) return (struct model_head){ .format = MODEL_GGUF, .incomplete = true };
    for (uint64_t i = 0; i < tensors; i++) {
        size_t before = k->n;
        if (!copy_tensor(s, k)) return unknown;
        if (k->full) {
            k->n = before;
            break;
        }
        kept_tensors++;
    }
    memcpy(k->v + 8, &kept_tensors, sizeof kept_tensors);
    memcpy(k->v + 16, &kept_values, sizeof kept_values);
    return (struct model_head){ MODEL_GGUF, k->n, k->full };
}

static struct model_head read_safetensors(struct stream *s, struct sink *k, uint64_t header_bytes) {
    static const struct model_head unknown;
    if (header_bytes > MODEL_HEAD_BYTES)
        return (struct model_head){ .format = MODEL_SAFETENSORS, .incomplete = true };
    if (!skip_bytes(s, 8) || !copy_bytes(s, k, (size_t)header_bytes)) return unknown;
    return (struct model_head){ MODEL_SAFETENSORS, k->n, false };
}

struct model_head model_head_read(const struct model_source *source, uint8_t *out) {
    static const struct model_head unknown;
    struct stream s = { .source = source };
    struct sink k = { .v = out };
    uint8_t start[9];
    uint64_t header_bytes;
    uint32_t version;
    if (source->size < HEADER_BYTES || !read_bytes(&s, start, sizeof start)) return unknown;
    s.at = 0;
    memcpy(&header_bytes, start, sizeof header_bytes);
    memcpy(&version, start + 4, sizeof version);
    if (memcmp(start, "GGUF", 4) == 0) return version == 2 || version == 3 ? read_gguf(&s, &k) : unknown;
    if (start[8] == '{' && header_bytes <= SAFETENSORS_MAX && header_bytes <= source->size - 8)
        return read_safetensors(&s, &k, header_bytes);
    return unknown;
}
