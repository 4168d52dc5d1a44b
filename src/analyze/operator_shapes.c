#include "analyze/operator_shapes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/operator_attention.h"
#include "analyze/operator_call.h"
#include "base/util.h"

#define SPATIAL_MAX 3
#define SIZE_LIMIT 9007199254740992.0 /* 2^53; larger sizes are invalid */

struct work {
    double flops, bytes;
};

struct sizes {
    double m, n, k, batch;
};

/* Sets the sizes of the product of a [..., M, K] and b [..., K, N], or b [N, K] if `transposed`. The leading
 * dimensions are broadcast. A vector counts as a matrix with one row or column. Returns false if the
 * dimensions do not fit. */
static bool product_sizes(const struct operator_tensor *a, const struct operator_tensor *b, bool transposed,
                          struct sizes *s) {
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

static bool product(const struct operator_tensor *a, const struct operator_tensor *b, bool transposed,
                    struct work *w) {
    struct sizes s;
    if (!product_sizes(a, b, transposed, &s)) return false;
    w->flops = 2 * s.batch * s.m * s.n * s.k;
    w->bytes = operator_tensor_bytes(a) + operator_tensor_bytes(b) +
               s.batch * s.m * s.n * operator_tensor_element_bytes(a);
    return true;
}

static bool count_product(const struct operator_call *c, size_t first, bool transposed, struct work *w) {
    if (c->ntensors < first + 2) return false;
    if (!product(&c->tensors[first], &c->tensors[first + 1], transposed, w)) return false;
    size_t bias = first ? 0 : 2; /* the bias is the first argument of addmm and the third of linear */
    if ((first || transposed) && bias < c->ntensors) w->bytes += operator_tensor_bytes(&c->tensors[bias]);
    return true;
}

static bool count_mm(const struct operator_call *c, struct work *w) { return count_product(c, 0, false, w); }
static bool count_addmm(const struct operator_call *c, struct work *w) {
    return count_product(c, 1, false, w);
}
static bool count_linear(const struct operator_call *c, struct work *w) {
    return count_product(c, 0, true, w);
}

/* The inputs are 8-bit. The type of the result is not recorded, so the bytes are unknown. */
static bool count_scaled_mm(const struct operator_call *c, struct work *w) {
    if (!count_product(c, 0, false, w)) return false;
    w->bytes = NAN;
    return true;
}

static double spatial(const struct operator_call *c, size_t list, size_t axis) {
    size_t n = c->list_lens[list];
    return n ? c->lists[list][axis < n ? axis : n - 1] : NAN;
}

/* Arguments of a convolution: indices of lists. */
struct conv_arguments {
    size_t stride, padding, dilation;
    bool transposed;
    size_t output_padding; /* transposed only */
    double groups;         /* transposed only */
};

/* Returns the size of the result along a spatial axis. */
static double conv_size(const struct operator_call *c, const struct conv_arguments *a, size_t axis) {
    double in = c->tensors[0].dims[axis + 2], s = spatial(c, a->stride, axis),
           p = spatial(c, a->padding, axis),
           reach = spatial(c, a->dilation, axis) * (c->tensors[1].dims[axis + 2] - 1);
    if (a->transposed) return (in - 1) * s - 2 * p + reach + 1 + spatial(c, a->output_padding, axis);
    return floor((in + 2 * p - reach - 1) / s) + 1;
}

/* Counts the work of a convolution of input [N, C, ...] with weight [K, C/groups, ...], or [C, K/groups, ...]
 * if transposed. Returns false if the shapes do not fit. */
static bool count_conv(const struct operator_call *c, struct conv_arguments a, struct work *w) {
    const struct operator_tensor *in = &c->tensors[0], *weight = &c->tensors[1];
    size_t lists = MAX(MAX(a.stride, a.padding), MAX(a.dilation, a.output_padding)) + 1;
    if (c->ntensors < 2 || in->ndims < 3 || in->ndims != weight->ndims || in->ndims > 2 + SPATIAL_MAX)
        return false;
    if (c->nlists < lists || (a.transposed && !(a.groups > 0))) return false;
    double out = in->dims[0] * (a.transposed ? weight->dims[1] * a.groups : weight->dims[0]);
    for (size_t i = 0; i + 2 < in->ndims; i++) {
        double size = conv_size(c, &a, i);
        if (!(size > 0)) return false;
        out *= size;
    }
    w->flops = 2 * (a.transposed ? operator_tensor_elements(in) : out) * operator_tensor_elements(weight) /
               weight->dims[0];
    w->bytes =
        operator_tensor_bytes(in) + operator_tensor_bytes(weight) + out * operator_tensor_element_bytes(in);
    if (c->ntensors > 2) w->bytes += operator_tensor_bytes(&c->tensors[2]);
    return true;
}

/* The argument lists are stride, padding and dilation. */
static bool count_conv_nd(const struct operator_call *c, struct work *w) {
    return count_conv(c, (struct conv_arguments){ .stride = 0, .padding = 1, .dilation = 2 }, w);
}
/* The argument lists are stride, padding, dilation and output padding. The first flag is set for transposed
 * convolution, and the first integer is the number of groups. */
static bool count_convolution(const struct operator_call *c, struct work *w) {
    struct conv_arguments a = { .stride = 0, .padding = 1, .dilation = 2 };
    if (!c->nflags) return false;
    if (c->flags[0]) {
        a.transposed = true;
        a.output_padding = 3;
        a.groups = c->nintegers ? c->integers[0] : 0;
    }
    return count_conv(c, a, w);
}
/* The argument lists are padding, stride and dilation. */
static bool count_conv_library(const struct operator_call *c, struct work *w) {
    return count_conv(c, (struct conv_arguments){ .stride = 1, .padding = 0, .dilation = 2 }, w);
}

/* Arguments: grad_output [N, K, ...], input, weight. The last list selects the gradients to compute. Each
 * gradient costs as many FLOPs as the forward pass. */
static bool count_conv_backward(const struct operator_call *c, struct work *w) {
    if (c->ntensors < 3 || !c->nlists || c->list_lens[c->nlists - 1] != 3) return false;
    const struct operator_tensor *grad = &c->tensors[0], *in = &c->tensors[1], *weight = &c->tensors[2];
    bool of_input = c->lists[c->nlists - 1][0] > 0, of_weight = c->lists[c->nlists - 1][1] > 0,
         transposed = c->nflags && c->flags[0];
    double forward = 2 * operator_tensor_elements(transposed ? in : grad) * operator_tensor_elements(weight) /
                     weight->dims[0];
    w->flops = forward * (of_input + of_weight);
    w->bytes = operator_tensor_bytes(grad) +
               (of_input ? operator_tensor_bytes(weight) + operator_tensor_bytes(in) : 0) +
               (of_weight ? operator_tensor_bytes(in) + operator_tensor_bytes(weight) : 0);
    return w->flops > 0;
}

static const struct {
    const char *name;
    bool (*count)(const struct operator_call *c, struct work *w);
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
};

/* Returns the narrower type of the first two tensors: both operands, or the bias and the first operand.
 * LLM_DTYPE_UNKNOWN: one of the types is unknown. */
static enum llm_dtype operand_type(const struct operator_call *c) {
    const struct operator_tensor *a = &c->tensors[0], *b = &c->tensors[1];
    if (!a->type || !b->type) return LLM_DTYPE_UNKNOWN;
    return a->element_bytes < b->element_bytes ? a->type : b->type;
}

/* Counts a call of a product, a convolution or attention. */
static bool count_call(const char *name, const struct operator_call *c, struct work *w) {
    for (size_t i = 0; i < COUNTOF(operators); i++)
        if (strcmp(operators[i].name, name) == 0) return operators[i].count(c, w);
    struct attention_work attention;
    if (!operator_attention_work(name, c, &attention)) return false;
    *w = (struct work){ attention.flops, attention.bytes };
    return true;
}

bool operator_shapes_work(const char *name, const char *detail, struct operator_work *out) {
    struct operator_call c;
    struct work w = { NAN, NAN };
    if (!operator_call_read(detail, &c) || !count_call(name, &c, &w) || !(w.flops >= 0)) return false;
    *out = (struct operator_work){ w.flops, w.bytes, operand_type(&c) };
    return true;
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
    struct operator_call c;
    struct sizes s;
    if (!product_arguments(name, detail, &first, &transposed) || !operator_call_read(detail, &c))
        return false;
    if (c.ntensors < first + 2) return false;
    const struct operator_tensor *a = &c.tensors[first], *b = a + 1;
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
