#include "trace/reader_columns.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/util.h"
#include "trace/layout.h"

/* The first loop is a fast path for varints of 1 to 3 bytes, which are the most common. It needs 16 readable
 * bytes. */
static bool get_varints(struct bytes *in, uint64_t *v, size_t n) {
    size_t i = 0;
    const uint8_t *p = in->p;
    while (i < n && in->end - p >= 16) {
        uint64_t a = p[0];
        if (a < 0x80) {
            v[i++] = a;
            p += 1;
        } else if (p[1] < 0x80) {
            v[i++] = (a & 0x7f) | (uint64_t)p[1] << 7;
            p += 2;
        } else if (p[2] < 0x80) {
            v[i++] = (a & 0x7f) | (uint64_t)(p[1] & 0x7f) << 7 | (uint64_t)p[2] << 14;
            p += 3;
        } else {
            in->p = p;
            if (!bytes_varint(in, &v[i++])) return false;
            p = in->p;
        }
    }
    in->p = p;
    for (; i < n; i++)
        if (!bytes_varint(in, &v[i])) return false;
    return true;
}

static bool get_deltas(struct bytes *in, uint64_t *v, size_t n) {
    if (!get_varints(in, v, n)) return false;
    uint64_t last = 0;
    for (size_t i = 0; i < n; i++) v[i] = last += (uint64_t)unzigzag(v[i]);
    return true;
}

static bool get_const(struct bytes *in, uint64_t *v, size_t n) {
    uint64_t c;
    if (!bytes_varint(in, &c)) return false;
    for (size_t i = 0; i < n; i++) v[i] = c;
    return true;
}

static bool get_stride(struct bytes *in, uint64_t *v, size_t n) {
    uint64_t first, step;
    if (!bytes_varint(in, &first) || !bytes_varint(in, &step)) return false;
    for (size_t i = 0; i < n; i++, first += (uint64_t)unzigzag(step)) v[i] = first;
    return true;
}

static bool get_dict(struct bytes *in, uint64_t *v, size_t n) {
    uint64_t values[256];
    uint8_t last;
    struct bytes index;
    if (!bytes_u8(in, &last) || !get_varints(in, values, (size_t)last + 1) || !bytes_slice(in, n, &index))
        return false;
    uint8_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        largest = index.p[i] > largest ? index.p[i] : largest;
        v[i] = values[index.p[i] <= last ? index.p[i] : 0];
    }
    return largest <= last;
}

static bool get_column(struct bytes *in, unsigned encoding, uint64_t *v, size_t n) {
    switch (encoding) {
    case TRACE_ENC_CONST: return get_const(in, v, n);
    case TRACE_ENC_VARINT: return get_varints(in, v, n);
    case TRACE_ENC_DELTA: return get_deltas(in, v, n);
    case TRACE_ENC_STRIDE: return get_stride(in, v, n);
    case TRACE_ENC_DICT: return get_dict(in, v, n);
    case TRACE_ENC_RAW: return bytes_copy(in, v, n * sizeof *v);
    default: return false;
    }
}

/* Stores the values of one field into the records. Returns false if a value does not fit its
 * field. */
static bool scatter_field(const struct trace_schema *s, const struct trace_field *f, const uint64_t *v,
                          size_t n, uint8_t *out) {
    size_t stride = s->record_bytes;
    uint8_t *p = out + f->offset;
    if (f->type == TRACE_FIELD_U32 || f->type == TRACE_FIELD_STR) {
        uint64_t all = 0;
        for (size_t i = 0; i < n; i++, p += stride) {
            *(uint32_t *)(void *)p = (uint32_t)v[i];
            all |= v[i];
        }
        return all <= UINT32_MAX;
    }
    if (f->type == TRACE_FIELD_AFTER) {
        const uint8_t *before = out + f[-1].offset;
        for (size_t i = 0; i < n; i++, p += stride, before += stride)
            *(uint64_t *)(void *)p = v[i] + *(const uint64_t *)(const void *)before;
        return true;
    }
    for (size_t i = 0; i < n; i++, p += stride) *(uint64_t *)(void *)p = v[i];
    return true;
}

static const struct trace_field *find_field(const struct trace_schema *s, unsigned column) {
    for (size_t i = 0; i < s->nfields; i++)
        if (s->fields[i].column == column) return &s->fields[i];
    return NULL;
}

struct column {
    const struct trace_field *field;
    unsigned encoding;
    struct bytes data;
};

/* Finds the known columns and skips those of newer versions. Column numbers must ascend. Returns the number
 * of known columns, or -1. */
static int split_columns(const struct trace_schema *s, struct bytes in, struct column *out, struct err *err) {
    unsigned last = 0;
    int n = 0;
    while (bytes_left(&in)) {
        uint8_t column, encoding;
        uint32_t size;
        struct bytes data;
        if (!bytes_u8(&in, &column) || !bytes_u8(&in, &encoding) || !bytes_u32(&in, &size) ||
            !bytes_slice(&in, size, &data))
            return err_set(err, "%s chunk ends inside a column header", s->name);
        if (column <= last) return err_set(err, "%s chunk: column %u after column %u", s->name, column, last);
        last = column;
        const struct trace_field *f = find_field(s, column);
        if (f) out[n++] = (struct column){ f, encoding, data };
    }
    return n;
}

static int bad_column(const struct trace_schema *s, const struct column *c, size_t n, struct err *err) {
    return err_set(err, "%s chunk: column %s does not have %zu values", s->name, c->field->name, n);
}

static int decode_column(const struct trace_schema *s, struct column *c, size_t n, uint64_t *values,
                         uint8_t *out, struct err *err) {
    if (!get_column(&c->data, c->encoding, values, n) || bytes_left(&c->data))
        return bad_column(s, c, n, err);
    if (!scatter_field(s, c->field, values, n, out))
        return err_set(err, "%s chunk: column %s has a number over 32 bits", s->name, c->field->name);
    return 0;
}

static bool is_constant(const struct column *c) {
    return c->encoding == TRACE_ENC_CONST && c->field->type != TRACE_FIELD_AFTER;
}

/* Most columns of a chunk are constant or missing. They form a template record, which is copied n times. */
static int fill_template(const struct trace_schema *s, struct column *columns, int ncolumns, size_t n,
                         uint8_t *out, struct err *err) {
    uint64_t value;
    memset(out, 0, s->record_bytes);
    for (size_t k = 0; k < s->nfields; k++)
        if (s->fields[k].type == TRACE_FIELD_F64) *(double *)(void *)(out + s->fields[k].offset) = NAN;
    for (int i = 0; i < ncolumns; i++)
        if (is_constant(&columns[i]) && decode_column(s, &columns[i], 1, &value, out, err) < 0) return -1;
    /* Each step doubles the copied part, which is faster than one copy per record. */
    for (size_t done = s->record_bytes, all = n * s->record_bytes; done < all; done *= 2)
        memcpy(out + done, out, MIN(done, all - done));
    return 0;
}

int reader_columns_decode(const struct trace_schema *s, struct bytes in, size_t n, uint64_t *values,
                          void *out, struct err *err) {
    struct column columns[UINT8_MAX];
    int ncolumns = split_columns(s, in, columns, err);
    if (ncolumns < 0) return -1;
    if (n == 0) return 0;
    if (fill_template(s, columns, ncolumns, n, out, err) < 0) return -1;
    for (int i = 0; i < ncolumns; i++)
        if (!is_constant(&columns[i]) && decode_column(s, &columns[i], n, values, out, err) < 0) return -1;
    return 0;
}
