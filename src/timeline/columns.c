#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"
#include "timeline/build.h"

void columns_fit(const struct column *columns, size_t ncolumns, size_t *cap, size_t need) {
    if (need <= *cap) return;
    size_t grown = *cap;
    for (size_t i = 0; i < ncolumns; i++) {
        size_t own = *cap;
        *columns[i].data = vec_fit(*columns[i].data, need, &own, columns[i].elem_bytes);
        grown = own;
    }
    *cap = grown;
}

void columns_free(const struct column *columns, size_t ncolumns) {
    for (size_t i = 0; i < ncolumns; i++) {
        free(*columns[i].data);
        *columns[i].data = NULL;
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

void columns_permute(const struct column *columns, size_t ncolumns, const uint32_t *order, size_t n) {
    if (!order || !n) return;
    for (size_t i = 0; i < ncolumns; i++) {
        if (!*columns[i].data) continue;
        void *fresh = xmalloc(n * columns[i].elem_bytes);
        gather(fresh, *columns[i].data, order, n, columns[i].elem_bytes);
        free(*columns[i].data);
        *columns[i].data = fresh;
    }
}

struct keyed {
    uint64_t key;
    uint32_t index;
};

/* One pass of a radix sort over 11 bits; skipped (false) when all keys agree in them. */
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

/* ---- the columns of each kind */
#define LIST(...)                                     \
    do {                                              \
        const struct column list[] = { __VA_ARGS__ }; \
        memcpy(out, list, sizeof list);               \
        return COUNTOF(list);                         \
    } while (0)

size_t kernel_columns_list(struct kernel_columns *c, struct column *out) {
    LIST(COLUMN(c->start_ns), COLUMN(c->end_ns), COLUMN(c->correlation), COLUMN(c->graph_node),
         COLUMN(c->shape), COLUMN(c->lane), COLUMN(c->launch), COLUMN(c->range), COLUMN(c->graph));
}
size_t copy_columns_list(struct copy_columns *c, struct column *out) {
    LIST(COLUMN(c->start_ns), COLUMN(c->end_ns), COLUMN(c->correlation), COLUMN(c->bytes), COLUMN(c->lane),
         COLUMN(c->launch), COLUMN(c->range), COLUMN(c->kind));
}
size_t launch_columns_list(struct launch_columns *c, struct column *out) {
    LIST(COLUMN(c->start_ns), COLUMN(c->end_ns), COLUMN(c->correlation), COLUMN(c->thread), COLUMN(c->range),
         COLUMN(c->api), COLUMN(c->kernels), COLUMN(c->api_kind));
}
size_t range_columns_list(struct range_columns *c, struct column *out) {
    LIST(COLUMN(c->start_ns), COLUMN(c->end_ns), COLUMN(c->thread), COLUMN(c->parent), COLUMN(c->name),
         COLUMN(c->domain), COLUMN(c->detail), COLUMN(c->depth), COLUMN(c->category), COLUMN(c->flags),
         COLUMN(c->flops), COLUMN(c->bytes), COLUMN(c->payload));
}
size_t sync_columns_list(struct sync_columns *c, struct column *out) {
    LIST(COLUMN(c->start_ns), COLUMN(c->end_ns), COLUMN(c->thread), COLUMN(c->range), COLUMN(c->context),
         COLUMN(c->stream), COLUMN(c->kind));
}
size_t sample_columns_list(struct sample_columns *c, struct column *out) {
    LIST(COLUMN(c->start_ns), COLUMN(c->end_ns), COLUMN(c->first), COLUMN(c->device), COLUMN(c->set));
}
size_t power_columns_list(struct power_columns *c, struct column *out) {
    LIST(COLUMN(c->time_ns), COLUMN(c->energy_mj), COLUMN(c->throttle_reasons), COLUMN(c->device),
         COLUMN(c->sm_mhz), COLUMN(c->memory_mhz), COLUMN(c->temperature_c), COLUMN(c->power_mw));
}
size_t gemm_columns_list(struct gemm_columns *c, struct column *out) {
    LIST(COLUMN(c->v), COLUMN(c->launch));
}
size_t token_columns_list(struct token_columns *c, struct column *out) {
    LIST(COLUMN(c->time_ns), COLUMN(c->request), COLUMN(c->count), COLUMN(c->thread), COLUMN(c->kind));
}
