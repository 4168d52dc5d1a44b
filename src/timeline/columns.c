/* Columns of records while a timeline is built: growing, reordering, renumbering, freeing. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"
#include "timeline/build.h"

#define IS_DOUBLE(type) _Generic((type *)0, double * : true, default : false)
#define KEPT(type, name) { #name, (void **)&c->name, sizeof(type), COLUMN_KEPT, IS_DOUBLE(type) },
#define OPTIONAL(type, name) { #name, (void **)&c->name, sizeof(type), COLUMN_OPTIONAL, IS_DOUBLE(type) },
#define BUILD_ONLY(type, name) { #name, (void **)&c->name, sizeof(type), COLUMN_BUILD_ONLY, IS_DOUBLE(type) },
#define X(KIND, record, columns_)                                                               \
    static void list_##columns_(struct record##_columns *c, struct columns *out) {              \
        const struct column list[] = { TIMELINE_##KIND##_COLUMNS(KEPT, OPTIONAL, BUILD_ONLY) }; \
        _Static_assert(COUNTOF(list) <= BUILD_MAX_COLUMNS, "raise BUILD_MAX_COLUMNS");          \
        memcpy(out->list, list, sizeof list);                                                   \
        out->count = COUNTOF(list);                                                             \
        out->n = &c->n;                                                                         \
        out->cap = &c->cap;                                                                     \
    }
TIMELINE_KINDS(X)
#undef X

struct columns build_columns(struct timeline_builder *b, enum trace_kind kind) {
    struct columns out = { 0 };
    switch (kind) {
#define X(KIND, record, columns_) \
    case TRACE_##KIND: list_##columns_(&b->columns_, &out); break;
        TIMELINE_KINDS(X)
#undef X
    default: break;
    }
    return out;
}

void columns_reserve(struct columns *c, size_t more) {
    size_t grown = *c->cap;
    if (*c->n + more <= *c->cap) return;
    for (size_t i = 0; i < c->count; i++) {
        size_t own = *c->cap;
        *c->list[i].data = vec_fit(*c->list[i].data, *c->n + more, &own, c->list[i].elem_bytes);
        grown = own;
    }
    *c->cap = grown;
}

static void column_free(struct column *c) {
    free(*c->data);
    *c->data = NULL;
}

void columns_free(struct columns *c) {
    for (size_t i = 0; i < c->count; i++) column_free(&c->list[i]);
}

static bool is_unknown(const struct column *c, size_t i) {
    static const char zero[sizeof(uint64_t)];
    if (c->is_double) return isnan(((const double *)*c->data)[i]);
    return memcmp((const char *)*c->data + i * c->elem_bytes, zero, c->elem_bytes) == 0;
}

void columns_drop_unused(struct columns *c) {
    for (size_t k = 0; k < c->count; k++) {
        struct column *column = &c->list[k];
        size_t i = 0;
        if (column->use == COLUMN_KEPT) continue;
        while (column->use == COLUMN_OPTIONAL && i < *c->n && is_unknown(column, i)) i++;
        if (column->use == COLUMN_BUILD_ONLY || i == *c->n) column_free(column);
    }
}

static void renumber(struct columns *c, const char *name, const uint32_t *now) {
    for (size_t k = 0; k < c->count; k++) {
        if (strcmp(c->list[k].name, name) != 0) continue;
        uint32_t *v = *c->list[k].data;
        for (size_t i = 0; i < *c->n; i++)
            if (v[i] != TIMELINE_NONE) v[i] = now[v[i]];
    }
}

void build_renumber(struct timeline_builder *b, const char *name, const uint32_t *now) {
    for (unsigned kind = 0; kind < TRACE_KIND_END; kind++) {
        struct columns c = build_columns(b, kind);
        renumber(&c, name, now);
    }
}

static void gather(void *out, const void *in, const uint32_t *order, size_t n, size_t elem_bytes) {
    if (elem_bytes == 8) {
        for (size_t i = 0; i < n; i++) ((uint64_t *)out)[i] = ((const uint64_t *)in)[order[i]];
    } else if (elem_bytes == 4) {
        for (size_t i = 0; i < n; i++) ((uint32_t *)out)[i] = ((const uint32_t *)in)[order[i]];
    } else {
        for (size_t i = 0; i < n; i++)
            memcpy((char *)out + i * elem_bytes, (const char *)in + order[i] * elem_bytes, elem_bytes);
    }
}

void columns_permute(struct columns *c, const uint32_t *order) {
    size_t n = *c->n;
    if (!order || !n) return;
    for (size_t i = 0; i < c->count; i++) {
        if (!*c->list[i].data) continue;
        void *fresh = xmalloc(n * c->list[i].elem_bytes);
        gather(fresh, *c->list[i].data, order, n, c->list[i].elem_bytes);
        free(*c->list[i].data);
        *c->list[i].data = fresh;
    }
    *c->cap = n;
}

struct keyed {
    uint64_t key;
    uint32_t index;
};

/* One pass of a radix sort over 11 bits. Returns false without changes if all keys are equal in these
 * bits. */
#define DIGIT_BITS 11
static bool radix_pass(struct keyed *to, const struct keyed *from, size_t n, unsigned shift) {
    size_t counts[1 << DIGIT_BITS] = { 0 }, at = 0;
    const uint64_t mask = (1 << DIGIT_BITS) - 1;
    for (size_t i = 0; i < n; i++) counts[from[i].key >> shift & mask]++;
    if (counts[from[0].key >> shift & mask] == n) return false;
    for (size_t d = 0; d <= mask; d++) {
        size_t c = counts[d];
        counts[d] = at;
        at += c;
    }
    for (size_t i = 0; i < n; i++) to[counts[from[i].key >> shift & mask]++] = from[i];
    return true;
}

uint32_t *columns_order(const uint64_t *keys, size_t n) {
    size_t i = 1;
    uint64_t least = n ? keys[0] : 0;
    while (i < n && keys[i - 1] <= keys[i]) i++;
    if (i >= n) return NULL;
    for (i = 0; i < n; i++) least = MIN(least, keys[i]);
    struct keyed *a = xmalloc(n * sizeof *a), *b = xmalloc(n * sizeof *b);
    for (i = 0; i < n; i++) a[i] = (struct keyed){ keys[i] - least, (uint32_t)i };
    for (unsigned shift = 0; shift < 64; shift += DIGIT_BITS)
        if (radix_pass(b, a, n, shift)) {
            struct keyed *t = a;
            a = b;
            b = t;
        }
    free(b);
    uint32_t *order = xmalloc(n * sizeof *order);
    for (i = 0; i < n; i++) order[i] = a[i].index;
    free(a);
    return order;
}

uint32_t *columns_order_by(uint32_t *order, const uint32_t *major, size_t n, size_t nvalues) {
    size_t i = 1;
#define AT(i) major[order ? order[i] : (i)]
    while (i < n && AT(i - 1) <= AT(i)) i++;
    if (i >= n) return order;
    size_t *at = xcalloc(nvalues + 1, sizeof *at);
    for (i = 0; i < n; i++) at[major[i] + 1]++;
    for (i = 0; i < nvalues; i++) at[i + 1] += at[i];
    uint32_t *out = xmalloc(n * sizeof *out);
    for (i = 0; i < n; i++) out[at[AT(i)]++] = order ? order[i] : (uint32_t)i;
#undef AT
    free(at);
    free(order);
    return out;
}
