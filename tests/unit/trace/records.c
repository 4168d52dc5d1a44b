#include "unit/trace/records.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"

static uint64_t extreme(uint64_t h) {
    switch (h % 7) {
    case 0: return 0;
    case 1: return 1;
    case 2: return UINT64_MAX;
    case 3: return INT64_MAX;
    case 4: return (uint64_t)INT64_MAX + 1;
    case 5: return h >> (h % 64);
    default: return h;
    }
}

static double extreme_double(uint64_t h) {
    static const double odd[] = { 0.0, -0.0, INFINITY, -INFINITY, 1e308, 5e-324, -1.5 };
    return h % 8 == 7 ? NAN : odd[h % 8];
}

static uint64_t realistic(const struct trace_field *f, uint64_t i, uint64_t h) {
    switch (f->type) {
    case TRACE_FIELD_TIME: return 1700000000000000000u + i * 9000 + h % 3000;
    case TRACE_FIELD_SEQ: return i + 1;
    case TRACE_FIELD_AFTER: return 0; /* derived from the start, see below */
    default: return h % 40;
    }
}

void records_make(unsigned kind, uint64_t i, enum records_style style, uint32_t nstrings, void *out) {
    const struct trace_schema *s = trace_schema(kind);
    memset(out, 0, s->record_bytes);
    for (size_t k = 0; k < s->nfields; k++) {
        const struct trace_field *f = &s->fields[k];
        char *p = (char *)out + f->offset;
        uint64_t h = hash_u64(i * 131 + k * 7 + kind),
                 v = style == RECORDS_EXTREME ? extreme(h) : realistic(f, i, h);
        if (f->type == TRACE_FIELD_AFTER && style == RECORDS_REALISTIC)
            v = trace_field_get(out, f - 1) + 1000 + h % 5000;
        if (f->type == TRACE_FIELD_STR)
            *(uint32_t *)(void *)p = (uint32_t)(h % nstrings);
        else if (f->type == TRACE_FIELD_U32)
            *(uint32_t *)(void *)p = (uint32_t)v;
        else if (f->type == TRACE_FIELD_F64)
            *(double *)(void *)p = style == RECORDS_EXTREME ? extreme_double(h) : (double)(h % 1000) / 8;
        else
            *(uint64_t *)(void *)p = v;
    }
}

int records_compare(unsigned kind, const void *a, const void *b) {
    const struct trace_schema *s = trace_schema(kind);
    for (size_t k = 0; k < s->nfields; k++)
        if (trace_field_get(a, &s->fields[k]) != trace_field_get(b, &s->fields[k])) return 1;
    return 0;
}
