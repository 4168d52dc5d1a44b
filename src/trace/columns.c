#include "trace/columns.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "trace/layout.h"

#define DICT_MAX 256
#define DICT_SLOTS 1024
#define VARINT_MAX_BYTES 10

size_t columns_bound(const struct trace_schema *s, size_t n) {
    size_t dict = 1 + DICT_MAX * VARINT_MAX_BYTES;
    return s->nfields * (TRACE_COLUMN_HEADER_BYTES + dict + n * VARINT_MAX_BYTES);
}

static bool is_narrow(enum trace_field_type t) { return t == TRACE_FIELD_U32 || t == TRACE_FIELD_STR; }

static void gather(const struct trace_field *f, const uint8_t *records, size_t n, size_t stride,
                   uint64_t *v) {
    const uint8_t *p = records + f->offset;
    if (is_narrow(f->type))
        for (size_t i = 0; i < n; i++, p += stride) v[i] = *(const uint32_t *)(const void *)p;
    else
        for (size_t i = 0; i < n; i++, p += stride) v[i] = *(const uint64_t *)(const void *)p;
}

/* Subtracts the preceding field from each value (the start from the end), so that durations are stored.
 * Differences wrap around, so the decoder restores any pair of numbers exactly. */
static void subtract_before(const struct trace_field *before, const uint8_t *records, size_t n, size_t stride,
                            uint64_t *v) {
    const uint8_t *p = records + before->offset;
    for (size_t i = 0; i < n; i++, p += stride) v[i] -= *(const uint64_t *)(const void *)p;
}

static bool all_equal(const uint64_t *v, size_t n) {
    for (size_t i = 1; i < n; i++)
        if (v[i] != v[0]) return false;
    return true;
}

static bool all_strides_equal(const uint64_t *v, size_t n) {
    for (size_t i = 2; i < n; i++)
        if (v[i] - v[i - 1] != v[1] - v[0]) return false;
    return n >= 2;
}

static uint64_t union_of_bits(const uint64_t *v, size_t n) {
    uint64_t all = 0;
    for (size_t i = 0; i < n; i++) all |= v[i];
    return all;
}

static uint8_t *put_varints(uint8_t *p, const uint64_t *v, size_t n) {
    for (size_t i = 0; i < n; i++) p = bytes_put_varint(p, v[i]);
    return p;
}

static uint8_t *put_deltas(uint8_t *p, const uint64_t *v, size_t n) {
    uint64_t last = 0;
    for (size_t i = 0; i < n; i++) {
        p = bytes_put_varint(p, zigzag((int64_t)(v[i] - last)));
        last = v[i];
    }
    return p;
}

/* Returns NULL if there are more than 256 distinct values. The index bytes are written behind the space for
 * the largest possible table, then moved to the end of the actual table. */
static uint8_t *put_dict(uint8_t *p, const uint64_t *v, size_t n) {
    uint16_t slots[DICT_SLOTS] = { 0 }; /* index + 1; 0: empty */
    uint64_t values[DICT_MAX];
    uint8_t *index = p + 1 + DICT_MAX * VARINT_MAX_BYTES;
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = (v[i] * 0x9e3779b97f4a7c15u) >> 54; /* the top 10 bits, because DICT_SLOTS is 1024 */
        /* cppcheck-suppress uninitvar ; a used slot refers to a value that was set */
        while (slots[at] && values[slots[at] - 1] != v[i]) at = (at + 1) % DICT_SLOTS;
        if (!slots[at]) {
            if (used == DICT_MAX) return NULL;
            values[used++] = v[i];
            slots[at] = (uint16_t)used;
        }
        index[i] = (uint8_t)(slots[at] - 1);
    }
    *p++ = (uint8_t)(used - 1);
    p = put_varints(p, values, used);
    memmove(p, index, n);
    return p + n;
}

static uint8_t *put_raw(uint8_t *p, const uint64_t *v, size_t n) {
    memcpy(p, v, n * sizeof *v);
    return p + n * sizeof *v;
}

static uint8_t *put_const(uint8_t *p, const uint64_t *v) { return bytes_put_varint(p, v[0]); }

static uint8_t *put_stride(uint8_t *p, const uint64_t *v) {
    p = bytes_put_varint(p, v[0]);
    return bytes_put_varint(p, zigzag((int64_t)(v[1] - v[0])));
}

/* Chooses an encoding that is short for this type of field, without trying all of them. */
static enum trace_encoding choose_encoding(enum trace_field_type type, const uint64_t *v, size_t n) {
    bool counts = type == TRACE_FIELD_TIME || type == TRACE_FIELD_SEQ;
    if (all_equal(v, n)) return TRACE_ENC_CONST;
    if (counts) return all_strides_equal(v, n) ? TRACE_ENC_STRIDE : TRACE_ENC_DELTA;
    if (type == TRACE_FIELD_F64) return TRACE_ENC_DICT;
    return type == TRACE_FIELD_AFTER || union_of_bits(v, n) < 0x80 ? TRACE_ENC_VARINT : TRACE_ENC_DICT;
}

/* Encodes the values and sets *enc. If a dictionary would need more than 256 values, uses varints instead, or
 * raw values for doubles. */
static uint8_t *put_column(uint8_t *p, enum trace_field_type type, const uint64_t *v, size_t n,
                           enum trace_encoding *enc) {
    *enc = choose_encoding(type, v, n);
    if (*enc == TRACE_ENC_CONST) return put_const(p, v);
    if (*enc == TRACE_ENC_STRIDE) return put_stride(p, v);
    if (*enc == TRACE_ENC_DELTA) return put_deltas(p, v, n);
    uint8_t *end = *enc == TRACE_ENC_DICT ? put_dict(p, v, n) : NULL;
    if (end) return end;
    *enc = type == TRACE_FIELD_F64 ? TRACE_ENC_RAW : TRACE_ENC_VARINT;
    return type == TRACE_FIELD_F64 ? put_raw(p, v, n) : put_varints(p, v, n);
}

/* Returns true if all values equal the value that a reader assumes for a missing column. A column of type
 * AFTER is always written. */
static bool is_default(const struct trace_field *f, const uint64_t *v, size_t n) {
    double nan_value = NAN;
    uint64_t bits = 0;
    if (f->type == TRACE_FIELD_F64) memcpy(&bits, &nan_value, sizeof bits);
    return f->type != TRACE_FIELD_AFTER && v[0] == bits && all_equal(v, n);
}

size_t columns_encode(const struct trace_schema *s, const void *records, size_t n, uint64_t *values,
                      uint8_t *out) {
    uint8_t *p = out;
    if (n == 0) return 0;
    for (size_t i = 0; i < s->nfields; i++) {
        const struct trace_field *f = &s->fields[i];
        enum trace_encoding enc;
        gather(f, records, n, s->record_bytes, values);
        if (f->type == TRACE_FIELD_AFTER) subtract_before(f - 1, records, n, s->record_bytes, values);
        if (is_default(f, values, n)) continue;
        uint8_t *data = p + TRACE_COLUMN_HEADER_BYTES;
        uint8_t *end = put_column(data, f->type, values, n, &enc);
        uint32_t bytes = (uint32_t)(end - data);
        p[0] = f->column;
        p[1] = (uint8_t)enc;
        memcpy(p + 2, &bytes, sizeof bytes);
        p = end;
    }
    return (size_t)(p - out);
}
