#include "analyze/operator_shapes.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/element_type.h"
#include "base/util.h"

#define TENSORS_MAX 8
#define DIMS_MAX 8
#define LISTS_MAX 8
#define FLAGS_MAX 8
#define SPATIAL_MAX 3
#define SIZE_LIMIT 9007199254740992.0 /* 2^53; larger sizes are invalid */

struct tensor {
    double dims[DIMS_MAX];
    size_t ndims;
    double element_bytes; /* 0: unknown */
    enum llm_dtype type;
};

struct call {
    struct tensor tensors[TENSORS_MAX];
    /* values of lists such as "[2,2]" (stride, padding); booleans are 1 and 0 */
    double lists[LISTS_MAX][DIMS_MAX];
    size_t list_lens[LISTS_MAX];
    bool flags[FLAGS_MAX]; /* values of True and False arguments, in order */
    /* custom_mask_type: the first number after the dropout probability, which is the first fraction; NaN:
     * none */
    double mask_type;
    size_t ntensors, nlists, nflags;
    bool has_values; /* there are arguments that are not tensors */
};

/* ---- reading the text */

/* Parses "[8944,1024]", also with True and False. Returns the end of the list, or NULL if the text is not a
 * flat list of numbers. */
static const char *read_list(const char *p, double *out, size_t *n) {
    *n = 0;
    for (p++; *p != ']'; p += *p == ',' || *p == ' ') {
        char *end;
        bool yes = strncmp(p, "True", 4) == 0, no = strncmp(p, "False", 5) == 0;
        double v = yes || no ? yes : strtod(p, &end);
        if (yes || no) end = (char *)p + (yes ? 4 : 5);
        if (end == p || *n == DIMS_MAX || !strchr(",] ", *end) || !*end) return NULL;
        out[(*n)++] = v;
        p = end;
    }
    return p + 1;
}

/* Parses one tensor at p, which points to '['. Returns its end; NULL: invalid. An empty list is skipped: in
 * the emit_nvtx format, it is an argument that is not a tensor. */
static const char *read_tensor(const char *p, struct call *c) {
    struct tensor t = { 0 };
    p = read_list(p, t.dims, &t.ndims);
    if (!p) return NULL;
    size_t type_len = strcspn(p, " ;,]");
    t.element_bytes = element_type_bytes(p, type_len);
    t.type = element_type(p, type_len);
    if (t.ndims && c->ntensors == TENSORS_MAX) return NULL;
    if (t.ndims) c->tensors[c->ntensors++] = t;
    return p + type_len;
}

static const char *read_tensors(const char *p, struct call *c) {
    while (p && *p && *p != ';') {
        if (*p == '[')
            p = read_tensor(p, c);
        else
            p++;
    }
    return p;
}

static void read_value(const char *p, size_t len, struct call *c) {
    bool yes = len == 4 && memcmp(p, "True", 4) == 0, no = len == 5 && memcmp(p, "False", 5) == 0;
    if ((yes || no) && c->nflags < FLAGS_MAX) c->flags[c->nflags++] = yes;
    if (*p == '[' && c->nlists < LISTS_MAX && read_list(p, c->lists[c->nlists], &c->list_lens[c->nlists]))
        c->nlists++;
}

/* Parses the arguments that are not tensors: "; [2,2] [1,1] False 0. 1". */
static void read_values(const char *p, struct call *c) {
    bool after_fraction = false;
    c->mask_type = NAN;
    if (*p != ';') return;
    c->has_values = true;
    for (p++; *p;) {
        p += strspn(p, " ");
        size_t len = strcspn(p, " ");
        if (after_fraction && isnan(c->mask_type) && isdigit((unsigned char)*p))
            c->mask_type = strtod(p, NULL);
        after_fraction = after_fraction || (isdigit((unsigned char)*p) && memchr(p, '.', len));
        read_value(p, len, c);
        p += len;
    }
}

static bool read_call(const char *detail, struct call *c) {
    memset(c, 0, sizeof *c);
    const char *sizes = "sizes = [";
    if (strncmp(detail, sizes, strlen(sizes)) == 0) detail += strlen(sizes);
    detail = read_tensors(detail, c);
    if (!detail) return false;
    read_values(detail, c);
    return true;
}

/* ---- counting */

static double elements(const struct tensor *t) {
    double n = 1;
    for (size_t i = 0; i < t->ndims; i++) n *= t->dims[i];
    return n;
}

static double bytes_of(const struct tensor *t) {
    return t->element_bytes > 0 ? elements(t) * t->element_bytes : NAN;
}

static double type_of(const struct tensor *t) { return t->element_bytes > 0 ? t->element_bytes : NAN; }

struct work {
    double flops, bytes;
};

struct sizes {
    double m, n, k, batch;
};

/* Sets the sizes of the product of a [..., M, K] and b [..., K, N], or b [N, K] if `transposed`. The leading
 * dimensions are broadcast. A vector counts as a matrix with one row or column. Returns false if the
 * dimensions do not fit. */
static bool product_sizes(const struct tensor *a, const struct tensor *b, bool transposed, struct sizes *s) {
    if (!a->ndims || !b->ndims) return false;
    double kb = b->dims[b->ndims > 1 ? b->ndims - (transposed ? 1 : 2) : 0];
    s->m = a->ndims > 1 ? a->dims[a->ndims - 2] : 1;
    s->k = a->dims[a->ndims - 1];
    s->n = b->ndims > 1 ? b->dims[b->ndims - (transposed ? 2 : 1)] : 1;
    s->batch = 1;
    if (s->k != kb) return false;
    for (size_t i = 0; i + 2 < MAX(a->ndims, b->ndims); i++) { /* from the innermost outwards */
        double da = i + 2 < a->ndims ? a->dims[a->ndims - 3 - i] : 1,
               db = i + 2 < b->ndims ? b->dims[b->ndims - 3 - i] : 1;
        if (da != db && da != 1 && db != 1) return false;
        s->batch *= MAX(da, db);
    }
    return true;
}

static bool product(const struct tensor *a, const struct tensor *b, bool transposed, struct work *w) {
    struct sizes s;
    if (!product_sizes(a, b, transposed, &s)) return false;
    w->flops = 2 * s.batch * s.m * s.n * s.k;
    w->bytes = bytes_of(a) + bytes_of(b) + s.batch * s.m * s.n * type_of(a);
    return true;
}

static bool count_product(const struct call *c, size_t first, bool transposed, struct work *w) {
    if (c->ntensors < first + 2) return false;
    if (!product(&c->tensors[first], &c->tensors[first + 1], transposed, w)) return false;
    size_t bias = first ? 0 : 2; /* the bias is the first argument of addmm and the third of linear */
    if ((first || transposed) && bias < c->ntensors) w->bytes += bytes_of(&c->tensors[bias]);
    return true;
}

static bool count_mm(const struct call *c, struct work *w) { return count_product(c, 0, false, w); }
static bool count_addmm(const struct call *c, struct work *w) { return count_product(c, 1, false, w); }
static bool count_linear(const struct call *c, struct work *w) { return count_product(c, 0, true, w); }

/* The inputs are 8-bit. The type of the result is not recorded, so the bytes are unknown. */
static bool count_scaled_mm(const struct call *c, struct work *w) {
    if (!count_product(c, 0, false, w)) return false;
    w->bytes = NAN;
    return true;
}

static double spatial(const struct call *c, size_t list, size_t axis) {
    size_t n = c->list_lens[list];
    return n ? c->lists[list][axis < n ? axis : n - 1] : NAN;
}

/* Counts the work of a convolution of input [N, C, ...] with weight [K, C/groups, ...], or [C, K/groups, ...]
 * if transposed. `stride`, `padding` and `dilation` are indices of argument lists. Returns false if the
 * shapes do not fit. */
static bool count_conv(const struct call *c, size_t stride, size_t padding, size_t dilation, bool transposed,
                       struct work *w) {
    const struct tensor *in = &c->tensors[0], *weight = &c->tensors[1];
    if (c->ntensors < 2 || in->ndims < 3 || in->ndims != weight->ndims || in->ndims > 2 + SPATIAL_MAX)
        return false;
    if (c->nlists <= MAX(MAX(stride, padding), dilation)) return false;
    double out = in->dims[0] * weight->dims[transposed ? 1 : 0];
    for (size_t i = 2; i < in->ndims; i++) {
        double s = spatial(c, stride, i - 2), p = spatial(c, padding, i - 2), d = spatial(c, dilation, i - 2),
               reach = d * (weight->dims[i] - 1);
        double size = transposed ? (in->dims[i] - 1) * s - 2 * p + reach + 1
                                 : floor((in->dims[i] + 2 * p - reach - 1) / s) + 1;
        if (!(size > 0)) return false;
        out *= size;
    }
    w->flops = 2 * (transposed ? elements(in) : out) * elements(weight) / weight->dims[0];
    w->bytes = bytes_of(in) + bytes_of(weight) + out * type_of(in);
    if (c->ntensors > 2) w->bytes += bytes_of(&c->tensors[2]);
    return true;
}

/* The argument lists are stride, padding and dilation. */
static bool count_conv_nd(const struct call *c, struct work *w) { return count_conv(c, 0, 1, 2, false, w); }
/* The argument lists are stride, padding and dilation. The first flag is set for transposed convolution.
 * Output padding and groups do not matter for the FLOPs. */
static bool count_convolution(const struct call *c, struct work *w) {
    return c->nflags && count_conv(c, 0, 1, 2, c->flags[0], w);
}
/* The argument lists are padding, stride and dilation. */
static bool count_conv_library(const struct call *c, struct work *w) {
    return count_conv(c, 1, 0, 2, false, w);
}

/* Arguments: grad_output [N, K, ...], input, weight. The last list selects the gradients to compute. Each
 * gradient costs as many FLOPs as the forward pass. */
static bool count_conv_backward(const struct call *c, struct work *w) {
    if (c->ntensors < 3 || !c->nlists || c->list_lens[c->nlists - 1] != 3) return false;
    const struct tensor *grad = &c->tensors[0], *in = &c->tensors[1], *weight = &c->tensors[2];
    bool of_input = c->lists[c->nlists - 1][0] > 0, of_weight = c->lists[c->nlists - 1][1] > 0,
         transposed = c->nflags && c->flags[0];
    double forward = 2 * elements(transposed ? in : grad) * elements(weight) / weight->dims[0];
    w->flops = forward * (of_input + of_weight);
    w->bytes = bytes_of(grad) + (of_input ? bytes_of(weight) + bytes_of(in) : 0) +
               (of_weight ? bytes_of(in) + bytes_of(weight) : 0);
    return w->flops > 0;
}

enum mask { MASK_NONE, MASK_TOP_LEFT, MASK_BOTTOM_RIGHT };

/* Returns the number of (query, key) pairs that are computed. With a causal mask, query i uses the keys up to
 * i (top left), or up to i + keys - queries (bottom right). */
static double attended(double queries, double keys, enum mask mask) {
    if (mask == MASK_NONE) return queries * keys;
    double before = mask == MASK_BOTTOM_RIGHT ? MAX(keys - queries, 0) : 0;
    double rows = MIN(queries, keys - before);
    double rest = mask == MASK_TOP_LEFT ? queries - rows : 0; /* queries after the last key use all keys */
    return rows * before + rows * (rows + 1) / 2 + rest * keys;
}

/* query, key, value: [batch, heads, tokens, size] if heads_first, else [batch, tokens, heads, size]. */
static bool count_attention(const struct call *c, bool heads_first, enum mask mask, struct work *w) {
    const struct tensor *q = &c->tensors[0], *k = &c->tensors[1], *v = &c->tensors[2];
    if (c->ntensors < 3 || q->ndims != 4 || k->ndims != 4 || v->ndims != 4 || !c->has_values) return false;
    size_t heads = heads_first ? 1 : 2, tokens = heads_first ? 2 : 1;
    if (q->dims[3] != k->dims[3] || k->dims[tokens] != v->dims[tokens]) return false;
    double pairs = q->dims[0] * q->dims[heads] * attended(q->dims[tokens], k->dims[tokens], mask);
    w->flops = 2 * pairs * (q->dims[3] + v->dims[3]);
    w->bytes = bytes_of(q) + bytes_of(k) + bytes_of(v) + elements(q) / q->dims[3] * v->dims[3] * type_of(q);
    return true;
}

static bool count_sdpa(const struct call *c, struct work *w) {
    return c->nflags && count_attention(c, true, c->flags[0] ? MASK_TOP_LEFT : MASK_NONE, w);
}
/* The first flag is compute_log_sumexp, the second is_causal. */
static bool count_sdpa_logsumexp(const struct call *c, struct work *w) {
    return c->nflags > 1 && count_attention(c, true, c->flags[1] ? MASK_TOP_LEFT : MASK_NONE, w);
}
static bool count_flash(const struct call *c, struct work *w) {
    return c->nflags && count_attention(c, false, c->flags[0] ? MASK_BOTTOM_RIGHT : MASK_NONE, w);
}
/* custom_mask_type follows the dropout: 0 none, 1 top left, 2 bottom right. */
static bool count_efficient(const struct call *c, struct work *w) {
    if (isnan(c->mask_type) || c->mask_type > 2) return false;
    return count_attention(c, false, (enum mask)c->mask_type, w);
}

static const struct {
    const char *name;
    bool (*count)(const struct call *c, struct work *w);
} operators[] = {
    { "aten::mm", count_mm },
    { "aten::bmm", count_mm },
    { "aten::matmul", count_mm },
    { "aten::mv", count_mm },
    { "aten::_int_mm", count_scaled_mm },
    { "aten::_scaled_mm", count_scaled_mm },
    { "aten::addmm", count_addmm },
    { "aten::addmm_", count_addmm },
    { "aten::_addmm_activation", count_addmm },
    { "aten::addmv", count_addmm },
    { "aten::addmv_", count_addmm },
    { "aten::baddbmm", count_addmm },
    { "aten::baddbmm_", count_addmm },
    { "aten::linear", count_linear },
    { "aiter::gemm_a16w16", count_linear },
    { "vllm::rocm_unquantized_gemm", count_linear },
    { "aten::conv1d", count_conv_nd },
    { "aten::conv2d", count_conv_nd },
    { "aten::conv3d", count_conv_nd },
    { "aten::cudnn_convolution_relu", count_conv_nd },
    { "aten::convolution", count_convolution },
    { "aten::_convolution", count_convolution },
    { "aten::convolution_overrideable", count_convolution },
    { "aten::cudnn_convolution", count_conv_library },
    { "aten::miopen_convolution", count_conv_library },
    { "aten::mkldnn_convolution", count_conv_library },
    { "aten::convolution_backward", count_conv_backward },
    { "aten::scaled_dot_product_attention", count_sdpa },
    { "aten::_scaled_dot_product_flash_attention", count_sdpa },
    { "aten::_scaled_dot_product_efficient_attention", count_sdpa_logsumexp },
    { "aten::_scaled_dot_product_cudnn_attention", count_sdpa_logsumexp },
    { "aten::_flash_attention_forward", count_flash },
    { "flash_attn::_flash_attn_forward", count_flash },
    { "aten::_efficient_attention_forward", count_efficient },
};

/* Returns the narrower type of the first two tensors: both operands, or the bias and the first operand.
 * LLM_DTYPE_UNKNOWN: one of the types is unknown. */
static enum llm_dtype operand_type(const struct call *c) {
    const struct tensor *a = &c->tensors[0], *b = &c->tensors[1];
    if (!a->type || !b->type) return LLM_DTYPE_UNKNOWN;
    return a->element_bytes < b->element_bytes ? a->type : b->type;
}

bool operator_shapes_work(const char *name, const char *detail, struct operator_work *out) {
    for (size_t i = 0; i < COUNTOF(operators); i++) {
        if (strcmp(operators[i].name, name) != 0) continue;
        struct call c;
        struct work w = { NAN, NAN };
        if (!read_call(detail, &c) || !operators[i].count(&c, &w) || !(w.flops >= 0)) return false;
        *out = (struct operator_work){ w.flops, w.bytes, operand_type(&c) };
        return true;
    }
    return false;
}

/* Finds the first operand of a product, and whether the second operand is transposed. Returns false if the
 * operator is not a product. */
static bool product_arguments(const char *name, const char *detail, size_t *first, bool *transposed) {
    *first = 0;
    *transposed = strncmp(detail, "x[", 2) == 0 && strstr(detail, " w[");
    if (*transposed) return true;
    for (size_t i = 0; i < COUNTOF(operators); i++) {
        if (strcmp(operators[i].name, name) != 0) continue;
        *first = operators[i].count == count_addmm;
        *transposed = operators[i].count == count_linear;
        return *first || *transposed || operators[i].count == count_mm ||
               operators[i].count == count_scaled_mm;
    }
    return false;
}

bool operator_shapes_gemm(const char *name, const char *detail, struct operator_gemm *out) {
    size_t first;
    bool transposed;
    struct call c;
    struct sizes s;
    if (!product_arguments(name, detail, &first, &transposed) || !read_call(detail, &c)) return false;
    if (c.ntensors < first + 2) return false;
    const struct tensor *a = &c.tensors[first], *b = a + 1;
    if (!product_sizes(a, b, transposed, &s) || !(s.m * s.n * s.k * s.batch > 0)) return false;
    if (b->ndims < 3) { /* b is the same for all leading dimensions of a, so libraries run a single product */
        s.m *= s.batch;
        s.batch = 1;
    }
    if (fmax(fmax(s.m, s.n), fmax(s.k, s.batch)) > SIZE_LIMIT) return false;
    *out = (struct operator_gemm){ .m = s.m, .n = s.n, .k = s.k, .batch = s.batch };
    if (a->type && b->type)
        snprintf(out->types, sizeof out->types, "%s,%s", llm_dtype_name(a->type), llm_dtype_name(b->type));
    return true;
}
