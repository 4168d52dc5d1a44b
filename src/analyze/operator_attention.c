#include "analyze/operator_attention.h"

#include <math.h>
#include <string.h>

#include "base/util.h"

enum mask { MASK_NONE, MASK_TOP_LEFT, MASK_BOTTOM_RIGHT };

/* Keys that a query may attend to, relative to its own position; infinite: not limited. */
struct window {
    double left, right;
};

/* Sum of the integers from 1 to n. */
static double triangle(double n) { return n > 0 ? n * (n + 1) / 2 : 0; }

/* Sum of max(0, i + first) over the queries i = 0 ... n - 1. */
static double ramp(double first, double n) { return triangle(first + n - 1) - triangle(first - 1); }

/* Sum of the number of keys before position i + first, over all queries i. */
static double keys_before(double first, double queries, double keys) {
    return ramp(first, queries) - ramp(first - keys, queries);
}

/* Returns the number of (query, key) pairs that are computed. Query i has the position i (top left), or
 * i + keys - queries (bottom right). A causal mask leaves out the keys after that position. */
static double attended(double queries, double keys, enum mask mask, bool causal, struct window w) {
    double shift = mask == MASK_TOP_LEFT ? 0 : keys - queries, pairs = queries * keys;
    if (causal) w.right = 0;
    if (isfinite(w.right)) pairs = keys_before(shift + w.right + 1, queries, keys);
    if (isfinite(w.left)) pairs -= keys_before(shift - w.left, queries, keys);
    return pairs;
}

/* How an operator passes its arguments. */
struct attention_form {
    const char *name;
    size_t query;     /* index of the query tensor; key and value follow */
    bool heads_first; /* [batch, heads, tokens, size]; else [batch, tokens, heads, size] */
    bool backward;
    /* Indices of arguments plus 1; 0: there is no such argument. causal: among the flags. max_query: among
     * the integers, the longest sequence of queries and then of keys, for sequences that are packed to
     * [tokens, heads, size]. window: among the integers after max_query, left and then right; it may be
     * missing. */
    size_t causal, max_query, window;
    bool mask_type; /* the first integer after the dropout: 0 none, 1 causal top left, 2 bottom right */
    enum mask mask; /* alignment of the causal mask */
};

static const struct attention_form forms[] = {
    { "aten::scaled_dot_product_attention", .heads_first = true, .causal = 1, .mask = MASK_TOP_LEFT },
    { "aten::_scaled_dot_product_flash_attention", .heads_first = true, .causal = 1, .mask = MASK_TOP_LEFT },
    /* the first flag is compute_log_sumexp */
    { "aten::_scaled_dot_product_efficient_attention", .heads_first = true, .causal = 2,
      .mask = MASK_TOP_LEFT },
    { "aten::_scaled_dot_product_cudnn_attention", .heads_first = true, .causal = 2, .mask = MASK_TOP_LEFT },
    { "aten::_scaled_dot_product_flash_attention_backward", .query = 1, .heads_first = true, .backward = true,
      .causal = 1, .mask = MASK_TOP_LEFT },
    { "aten::_scaled_dot_product_efficient_attention_backward", .query = 1, .heads_first = true,
      .backward = true, .causal = 1, .mask = MASK_TOP_LEFT },
    { "aten::_scaled_dot_product_cudnn_attention_backward", .query = 1, .heads_first = true, .backward = true,
      .causal = 1, .mask = MASK_TOP_LEFT },
    { "aten::_flash_attention_forward", .causal = 1, .max_query = 1, .window = 3, .mask = MASK_BOTTOM_RIGHT },
    { "aten::_flash_attention_backward", .query = 1, .backward = true, .causal = 1, .max_query = 1,
      .window = 3, .mask = MASK_BOTTOM_RIGHT },
    { "aten::_efficient_attention_forward", .mask_type = true },
    { "aten::_efficient_attention_backward", .query = 1, .backward = true, .mask_type = true },
    { "flash_attn::_flash_attn_forward", .causal = 1, .window = 1, .mask = MASK_BOTTOM_RIGHT },
    { "flash_attn::_flash_attn_backward", .query = 1, .backward = true, .causal = 1, .window = 1,
      .mask = MASK_BOTTOM_RIGHT },
    { "flash_attn::_flash_attn_varlen_forward", .causal = 1, .max_query = 1, .window = 3,
      .mask = MASK_BOTTOM_RIGHT },
    { "flash_attn::_flash_attn_varlen_backward", .query = 1, .backward = true, .causal = 1, .max_query = 1,
      .window = 3, .mask = MASK_BOTTOM_RIGHT },
    { "aiter::_flash_attn_forward", .causal = 1, .window = 1, .mask = MASK_BOTTOM_RIGHT },
    { "aiter::mha_fwd", .causal = 1, .window = 1, .mask = MASK_BOTTOM_RIGHT },
    { "aiter::fmha_v3_fwd", .causal = 1, .window = 1, .mask = MASK_BOTTOM_RIGHT },
    { "aiter::mha_bwd", .query = 1, .backward = true, .causal = 1, .window = 1, .mask = MASK_BOTTOM_RIGHT },
};

/* Sizes of a call: `batch` sequences of the same lengths. */
struct attention_sizes {
    double batch, query_heads, queries, keys, query_size, value_size;
};

/* Sets the sizes of [batch, tokens, heads, size] tensors. */
static bool dense_sizes(const struct attention_form *f, const struct operator_tensor *q,
                        struct attention_sizes *s) {
    const struct operator_tensor *k = q + 1, *v = q + 2;
    size_t heads = f->heads_first ? 1 : 2, tokens = f->heads_first ? 2 : 1;
    if (k->ndims != 4 || v->ndims != 4 || q->dims[3] != k->dims[3] || k->dims[tokens] != v->dims[tokens])
        return false;
    *s = (struct attention_sizes){ q->dims[0],      q->dims[heads], q->dims[tokens],
                                   k->dims[tokens], q->dims[3],     v->dims[3] };
    return true;
}

/* Sets the sizes of packed [tokens, heads, size] tensors. The tensors after the value are offsets of the
 * sequences, one more than there are sequences. Returns false if the sequences may differ in length: the
 * longest times their number is not the number of tokens. */
static bool packed_sizes(const struct attention_form *f, const struct operator_call *c,
                         struct attention_sizes *s) {
    const struct operator_tensor *q = &c->tensors[f->query], *k = q + 1, *v = q + 2;
    size_t offsets = f->backward ? c->ntensors : f->query + 3;
    for (size_t i = f->query + 3; f->backward && i < c->ntensors; i++)
        if (c->tensors[i].ndims == 1 && offsets == c->ntensors) offsets = i;
    if (!f->max_query || c->nintegers < f->max_query + 1 || k->ndims != 3 || v->ndims != 3) return false;
    if (offsets + 1 >= c->ntensors || c->tensors[offsets].ndims != 1) return false;
    double n = c->tensors[offsets].dims[0] - 1, queries = c->integers[f->max_query - 1],
           keys = c->integers[f->max_query];
    if (!(n > 0) || n * queries != q->dims[0] || n * keys != k->dims[0] || q->dims[2] != k->dims[2])
        return false;
    *s = (struct attention_sizes){ n, q->dims[1], queries, keys, q->dims[2], v->dims[2] };
    return true;
}

static struct window window_of(const struct attention_form *f, const struct operator_call *c) {
    struct window w = { INFINITY, INFINITY };
    if (!f->window || c->nintegers < f->window + 1) return w;
    if (c->integers[f->window - 1] >= 0) w.left = c->integers[f->window - 1];
    if (c->integers[f->window] >= 0) w.right = c->integers[f->window];
    return w;
}

/* Sets the alignment of the mask and whether it is causal. Returns false if they are not recorded. */
static bool mask_of(const struct attention_form *f, const struct operator_call *c, enum mask *mask,
                    bool *causal) {
    *mask = f->mask;
    *causal = f->causal && f->causal <= c->nflags && c->flags[f->causal - 1];
    if (!f->mask_type) return f->causal <= c->nflags;
    /* an integer after the mask type is a window */
    if (c->after_fraction + 1 != c->nintegers) return false;
    double type = c->integers[c->after_fraction];
    if (!(type >= MASK_NONE && type <= MASK_BOTTOM_RIGHT)) return false;
    *mask = (enum mask)type;
    *causal = type > MASK_NONE;
    return true;
}

/* The forward pass computes 2 products per pair: QK and PV. The backward pass computes 5: QK again, dP and dV
 * with the size of the value, dQ and dK with the size of the query. */
static double pair_flops(bool backward, double query_size, double value_size) {
    return backward ? 2 * (3 * query_size + 2 * value_size) : 2 * (query_size + value_size);
}

/* Each input and each result once. Backward: the inputs are also the result's gradient and the result, and
 * the results are the gradients of query, key and value. */
static double dense_bytes(const struct attention_form *f, const struct operator_tensor *q,
                          double value_size) {
    double inputs = operator_tensor_bytes(q) + operator_tensor_bytes(q + 1) + operator_tensor_bytes(q + 2),
           result = operator_tensor_elements(q) / q->dims[q->ndims - 1] * value_size *
                    operator_tensor_element_bytes(q);
    return f->backward ? 2 * inputs + 2 * result : inputs + result;
}

static bool count(const struct attention_form *f, const struct operator_call *c, struct attention_work *out) {
    struct attention_sizes s;
    enum mask mask;
    bool causal;
    if (c->ntensors < f->query + 3 || !c->has_values || !mask_of(f, c, &mask, &causal)) return false;
    const struct operator_tensor *q = &c->tensors[f->query];
    if (!(q->ndims == 4 ? dense_sizes(f, q, &s) : q->ndims == 3 && packed_sizes(f, c, &s))) return false;
    double pairs = attended(s.queries, s.keys, mask, causal, window_of(f, c));
    out->flops = s.batch * s.query_heads * pairs * pair_flops(f->backward, s.query_size, s.value_size);
    out->bytes = dense_bytes(f, q, s.value_size);
    return true;
}

bool operator_attention_work(const char *name, const struct operator_call *c, struct attention_work *out) {
    for (size_t i = 0; i < COUNTOF(forms); i++)
        if (strcmp(forms[i].name, name) == 0) return count(&forms[i], c, out);
    return false;
}

/* ---- operators of servers */

static const struct server_form {
    const char *name;
    size_t causal, window; /* indices of arguments plus 1, among flags and integers; 0: not an argument */
} server_forms[] = {
    { "vllm::unified_attention_with_output", 0, 0 },
    { "vllm::unified_attention", 0, 0 },
    { "aiter::mha_batch_prefill", 2, 3 },
};

static const struct server_form *server_form(const char *name) {
    for (size_t i = 0; i < COUNTOF(server_forms); i++)
        if (strcmp(server_forms[i].name, name) == 0) return &server_forms[i];
    return NULL;
}

bool operator_attention_is_of_server(const char *name) { return server_form(name); }

/* Query [tokens, heads, size], key [..., heads, size]. A graph may run with more query tokens than the step
 * has. */
bool operator_attention_of_step(const char *name, const struct operator_call *c,
                                const struct attention_step *step, bool *window_known,
                                struct attention_work *out) {
    const struct server_form *f = server_form(name);
    const struct operator_tensor *q = &c->tensors[0], *k = q + 1;
    if (!f || c->ntensors < 3 || q->ndims != 3 || k->ndims < 3 || step->queries > q->dims[0]) return false;
    double heads = k->dims[k->ndims - 2], size = q->dims[2],
           value_size = c->tensors[2].dims[c->tensors[2].ndims - 1];
    if (k->dims[k->ndims - 1] != size) return false;
    *window_known = f->window > 0;
    if (f->window && (c->nintegers < f->window + 1 || c->nflags < f->causal)) return false;
    if (f->window && (c->integers[f->window - 1] >= 0 || c->integers[f->window] > 0)) return false;
    if (f->causal && !c->flags[f->causal - 1]) return false;
    out->flops = q->dims[1] * step->pairs * pair_flops(false, size, value_size);
    out->bytes = step->queries * q->dims[1] * (size + value_size) * operator_tensor_element_bytes(q) +
                 step->keys * heads * (size + value_size) * operator_tensor_element_bytes(k);
    return true;
}
