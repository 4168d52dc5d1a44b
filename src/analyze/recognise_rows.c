/* Determines tokens and requests of a forward pass from grids with one block per row, from sizes of small
 * copies, and from attention kernels for one query per request. In general, a number is certain if two
 * sources of different kinds agree and no source contradicts them; some sources are sufficient alone. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/recognise_internal.h"
#include "base/die.h"
#include "base/util.h"

#define SMALL_COPY_BYTES (256u << 10)
#define PADDING 8  /* graphs are captured for multiples of this number of requests, or for powers of two */
#define ID_BYTES 8 /* token ids and positions have 8 or 4 bytes */
#define SAMPLED_ID_BYTES 4 /* sampled ids of vLLM */

static bool has(const char *text, const char *part) { return strstr(text, part) != NULL; }

static bool has_any(const char *text, const char *const *parts, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (has(text, parts[i])) return true;
    return false;
}

/* Returns the number of rows per block of the native engine's norm kernels; 0: another kernel. */
static uint32_t native_norm_rows(const char *name) {
    static const struct {
        const char *name;
        uint32_t rows;
    } norms[] = { { "norm_1024", 8 }, { "norm_2048", 4 }, { "norm_8192", 1 } };
    for (size_t i = 0; i < COUNTOF(norms); i++)
        if (strcmp(name, norms[i].name) == 0) return norms[i].rows;
    return 0;
}

static uint8_t row_source_of(const char *name, uint8_t category) {
    /* the square of a norm in PyTorch, in mangled and demangled names */
    if (has(name, "dynamic_update_slice") || has(name, "pow_tensor_scalar")) return ROWS_RELATIVE;
    static const char *const other_norms[] = { "batch_norm", "BatchNorm", "batchnorm", "group_norm",
                                               "GroupNorm",  "bn_",       "backward",  "bwd" };
    /* Inductor chooses the number of rows per block, so the grid does not show the rows */
    if (strncmp(name, "triton_", 7) == 0) return ROWS_NONE;
    switch (category) {
    case KERNEL_CATEGORY_NORM:
        if (native_norm_rows(name)) return ROWS_REDUCTION;
        return has_any(name, other_norms, COUNTOF(other_norms)) ? ROWS_NONE : ROWS_NORM;
    case KERNEL_CATEGORY_EMBEDDING:
        return has(name, "vectorized_gather_kernel") || strncmp(name, "embed_", 6) == 0 ? ROWS_EMBEDDING
                                                                                        : ROWS_NONE;
    case KERNEL_CATEGORY_GEMV: /* the native engine's products of a decode step have one row */
        return strncmp(name, "decode_rows_", 12) == 0   ? ROWS_NORM
               : strncmp(name, "decode_down_", 12) == 0 ? ROWS_ACTIVATION
               : strncmp(name, "one_row_", 8) == 0      ? ROWS_SINGLE
                                                        : ROWS_NONE;
    case KERNEL_CATEGORY_ROPE:
        return has(name, "rotary_embedding_kernel") || strcmp(name, "rope") == 0 ||
                       strcmp(name, "place_heads") == 0
                   ? ROWS_ROPE
                   : ROWS_NONE;
    case KERNEL_CATEGORY_KV_CACHE:
        return has(name, "reshape_and_cache") || has(name, "store_kvcache") ? ROWS_KV : ROWS_NONE;
    case KERNEL_CATEGORY_ELEMENTWISE: return has(name, "act_and_mul") ? ROWS_ACTIVATION : ROWS_NONE;
    case KERNEL_CATEGORY_REDUCTION: return has(name, "MeanOps") ? ROWS_REDUCTION : ROWS_NONE;
    case KERNEL_CATEGORY_SAMPLING:
        return has(name, "ArgMaxOps") || has(name, "argmax") ? ROWS_SAMPLING : ROWS_NONE;
    default: return ROWS_NONE;
    }
}

struct shape_facts *recognise_shapes(const struct timeline *tl, const uint8_t *shape_category) {
    static const char *const training[] = { "backward",  "Backward",      "_bwd",    "bwd_",
                                            "dgrad",     "wgrad",         "Adam",    "adam",
                                            "GammaBeta", "cross_entropy", "nll_loss" };
    /* latent_attend: the native engine's attention of a single query (src/engine/cuda/decode_latent.cu) */
    static const char *const one_query[] = { "paged_attention", "Decode", "decode", "latent_attend" };
    struct shape_facts *f = xcalloc(tl->nshapes + 1, sizeof *f);
    for (size_t i = 0; i < tl->nshapes; i++) {
        const char *name = timeline_text(tl, tl->shapes[i].name);
        uint8_t category = shape_category[i];
        f[i] = (struct shape_facts){ .category = category,
                                     .row_source = row_source_of(name, category),
                                     .rows = tl->shapes[i].grid[0],
                                     .rows_each = MAX(tl->shapes[i].block[1], 1),
                                     .cache_update = has(name, "dynamic_update_slice"),
                                     .training = has_any(name, training, COUNTOF(training)) };
        if (category == KERNEL_CATEGORY_GEMV) f[i].rows = 1;
        if (native_norm_rows(name)) f[i].rows_each = native_norm_rows(name);
        f[i].decode_only =
            category == KERNEL_CATEGORY_ATTENTION && has_any(name, one_query, COUNTOF(one_query));
    }
    return f;
}

/* ---- the rows of one pass */

struct rows { /* a value and its number of occurrences */
    uint32_t value, count;
    uint32_t each; /* largest number of rows per block */
};

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Returns the most frequent number of rows of the kernels of this kind in [first, end); count 0: none. */
static struct rows usual_rows(const struct group *g, size_t first, size_t end, enum row_source source) {
    uint64_t *v = xmalloc((end - first + 1) * sizeof *v); /* rows << 32 | rows per block */
    struct rows best = { 0, 0, 1 };
    size_t n = 0;
    for (size_t i = first; i < end; i++)
        if (g->items[i].is_kernel && g->shapes[g->items[i].shape].row_source == source &&
            g->shapes[g->items[i].shape].rows)
            v[n++] =
                (uint64_t)g->shapes[g->items[i].shape].rows << 32 | g->shapes[g->items[i].shape].rows_each;
    if (n) qsort(v, n, sizeof *v, by_value);
    for (size_t i = 0, k; i < n; i = k) {
        for (k = i; k < n && v[k] == v[i];) k++;
        if (k - i > best.count)
            best = (struct rows){ (uint32_t)(v[i] >> 32), (uint32_t)(k - i), (uint32_t)v[i] };
    }
    free(v);
    return best;
}

static uint32_t last_rows(const struct group *g, size_t first, size_t end, enum row_source source) {
    for (size_t i = end; i-- > first;)
        if (g->items[i].is_kernel && g->shapes[g->items[i].shape].row_source == source &&
            g->shapes[g->items[i].shape].rows)
            return g->shapes[g->items[i].shape].rows;
    return 0;
}

/* Returns true if a kernel outside of graphs selects or samples this number of rows after the last layer. */
static bool rows_outside(const struct group *g, const struct pass *p, uint32_t rows) {
    for (size_t i = p->last_anchor; i < p->end; i++) {
        if (!g->items[i].is_kernel || g->items[i].in_graph) continue;
        const struct shape_facts *f = &g->shapes[g->items[i].shape];
        if ((f->row_source == ROWS_EMBEDDING || f->row_source == ROWS_SAMPLING) && f->rows == rows)
            return true;
    }
    return false;
}

/* Returns 1 if one product of a single row follows the last attention: the LM head of one request. Otherwise
 * returns 0. */
static uint32_t single_row(const struct group *g, const struct pass *p) {
    size_t n = 0;
    for (size_t i = p->last_anchor; i < p->end; i++)
        n += g->items[i].is_kernel && g->shapes[g->items[i].shape].row_source == ROWS_SINGLE;
    return n == 1;
}

/* Returns true for small copies to the device. It includes copies on the device: ROCm records copies from
 * pinned memory as such. */
static bool is_input_copy(const struct item *i) {
    return !i->is_kernel && (i->copy == TRACE_COPY_HTOD || i->copy == TRACE_COPY_DTOD) &&
           i->bytes <= SMALL_COPY_BYTES;
}

static bool copied_in(const struct group *g, size_t first, size_t end, uint64_t bytes) {
    for (size_t i = first; i < end; i++)
        if (is_input_copy(&g->items[i]) && g->items[i].bytes == bytes) return true;
    return false;
}

/* Returns true if ids or positions of this many rows were copied to the device. */
static bool ids_copied_in(const struct group *g, size_t first, size_t end, uint32_t rows) {
    return copied_in(g, first, end, (uint64_t)rows * ID_BYTES) ||
           copied_in(g, first, end, (uint64_t)rows * ID_BYTES / 2);
}

/* Returns true if ids of fewer than `rows` rows, but more than half as many, were copied to the device: a
 * graph for `rows` rows may be padded. */
static bool fewer_copied_in(const struct group *g, size_t first, size_t end, uint32_t rows) {
    for (size_t i = first; i < end; i++) {
        uint64_t bytes = g->items[i].bytes;
        if (is_input_copy(&g->items[i]) && bytes % ID_BYTES == 0 && bytes < (uint64_t)rows * ID_BYTES &&
            2 * bytes > (uint64_t)rows * ID_BYTES)
            return true;
    }
    return false;
}

/* Returns the bytes of the first copy to the host after the last layer began; 0: none. */
static uint64_t copied_home(const struct group *g, const struct pass *p) {
    for (size_t i = p->last_anchor; i < p->end; i++)
        if (!g->items[i].is_kernel && g->items[i].copy == TRACE_COPY_DTOH) return g->items[i].bytes;
    return 0;
}

static bool is_ids(uint64_t bytes, uint32_t rows) {
    return bytes == (uint64_t)rows * ID_BYTES || bytes == (uint64_t)rows * ID_BYTES / 2;
}

/* Returns true if ids of this many rows were copied from or on the device after the last layer began, or to
 * the host before it (ids of the previous step). */
static bool ids_moved(const struct group *g, const struct pass *p, uint32_t rows) {
    for (size_t i = p->first; i < p->end; i++) {
        const struct item *it = &g->items[i];
        if (it->is_kernel || !is_ids(it->bytes, rows)) continue;
        if (i > p->last_anchor ? it->copy != TRACE_COPY_HTOD : it->copy == TRACE_COPY_DTOH) return true;
    }
    return false;
}

/* Returns the number of elements in one row of activations; 0: unknown. It is computed from copies on the
 * device that have the same size and occur about once per layer. An element has 2 bytes. */
static uint64_t row_elements(const struct group *g, const struct pass *p, uint32_t tokens) {
    uint64_t bytes = 0, seen = 0;
    for (size_t i = p->first_anchor; i < p->last_anchor && tokens; i++) {
        const struct item *it = &g->items[i];
        if (it->is_kernel || it->copy != TRACE_COPY_DTOD || it->bytes % (2 * (uint64_t)tokens)) continue;
        if (!bytes) bytes = it->bytes;
        seen += it->bytes == bytes;
    }
    return tokens && seen + 1 >= p->layers ? bytes / 2 / tokens : 0;
}

#define INDEX_BLOCK 512 /* elements per block of ATen's index_elementwise_kernel<128, 4> */

/* Returns the number of rows that were selected by index after the last layer; 0: unknown. */
static uint32_t indexed_rows(const struct group *g, const struct pass *p, uint32_t tokens) {
    uint64_t width = row_elements(g, p, tokens);
    for (size_t i = p->end; width && i-- > p->last_anchor;) {
        if (!g->items[i].is_kernel) continue;
        const struct timeline_shape *s = &g->tl->shapes[g->items[i].shape];
        if (!has(timeline_text(g->tl, s->name), "index_elementwise_kernel") || !s->grid[0]) continue;
        uint64_t most = (uint64_t)s->grid[0] * INDEX_BLOCK / width,
                 least = ((uint64_t)(s->grid[0] - 1) * INDEX_BLOCK) / width + 1;
        return most == least ? (uint32_t)most : 0;
    }
    return 0;
}

/* Returns true if one dimension of the attention grid is 1 (one request) and another is the number of query
 * tiles. */
static bool one_sequence(const struct group *g, const struct pass *p, uint32_t tokens) {
    const uint32_t *grid = g->tl->shapes[g->items[p->first_anchor].shape].grid;
    bool queries = false, one = false;
    for (int d = 0; d < 3; d++) {
        one |= grid[d] == 1;
        for (uint32_t tile = 64; tile <= 256; tile *= 2)
            queries |=
                grid[d] > 1 && (uint64_t)(grid[d] - 1) * tile < tokens && tokens <= (uint64_t)grid[d] * tile;
    }
    return one && queries;
}

static bool batched_by(const struct group *g, const struct pass *p, uint32_t requests) {
    const uint32_t *grid = g->tl->shapes[g->items[p->first_anchor].shape].grid;
    return requests > 1 && (grid[0] == requests || grid[1] == requests || grid[2] == requests);
}

struct evidence {
    uint32_t tokens, requests; /* 0: unknown */
    bool tokens_certain, requests_certain;
    bool decode_attention; /* every attention kernel is made for a single query per request */
    bool graph, padded;    /* padded: the graph has more rows than there are requests */
    struct rows mean;      /* rows of a norm written as a mean; count 0: none */
    uint32_t relative;     /* size of a grid that is proportional to the tokens; 0: none */
    bool one_copied;       /* ids of one row were copied */
    bool confirmed;        /* other sources than gathered rows show the number of requests */
    bool outside; /* copies, or kernels outside of graphs, show the number of requests: it is not padded */
};

static void read_attention(const struct group *g, const struct pass *p, struct evidence *e) {
    size_t n = 0, decode = 0, graph = 0;
    for (size_t i = p->first_anchor; i <= p->last_anchor; i++) {
        const struct item *it = &g->items[i];
        if (!it->is_kernel || it->category != KERNEL_CATEGORY_ATTENTION) continue;
        n++;
        decode += g->shapes[it->shape].decode_only;
        graph += it->in_graph;
    }
    e->decode_attention = n && decode == n;
    e->graph = n ? graph == n : g->items[p->first_anchor].in_graph;
}

/* Returns true if a grid of r.value blocks, with `each` rows per block, fits this number of tokens. */
static bool rows_fit(struct rows r, uint32_t tokens) {
    return tokens <= (uint64_t)r.value * r.each && (uint64_t)(r.value - 1) * r.each < tokens;
}

static void read_tokens(const struct group *g, const struct pass *p, struct evidence *e) {
    static const enum row_source others[] = { ROWS_ROPE, ROWS_KV, ROWS_ACTIVATION };
    struct rows norm = usual_rows(g, p->first, p->last_anchor + 1, ROWS_NORM);
    uint32_t embedded = last_rows(g, p->first, p->first_anchor, ROWS_EMBEDDING);
    size_t agree = 0, contradict = 0;
    uint32_t t = norm.count >= p->layers ? norm.value : embedded;
    for (size_t i = 0; i < COUNTOF(others); i++) {
        struct rows r = usual_rows(g, p->first, p->last_anchor + 1, others[i]);
        if (r.count < p->layers) continue;
        if (!t)
            t = r.value;
        else if (t == r.value)
            agree++;
        else
            contradict++;
    }
    struct rows mean = usual_rows(g, p->first, p->last_anchor + 1, ROWS_REDUCTION);
    if (mean.count >= p->layers) {
        e->mean = mean;
        if (!t && mean.each == 1)
            t = mean.value;
        else if (t && rows_fit(mean, t))
            agree++;
    }
    struct rows relative = usual_rows(g, p->first, p->last_anchor + 1, ROWS_RELATIVE);
    if (relative.count >= p->layers) e->relative = relative.value;
    if (norm.count && embedded && t == norm.value) {
        if (embedded == t)
            agree++;
        else
            contradict++;
    }
    agree += t && ids_copied_in(g, p->first, p->first_anchor, t);
    e->one_copied = ids_copied_in(g, p->first, p->first_anchor, 1);
    e->tokens = t;
    bool one_query = t == 1 && e->decode_attention;
    e->tokens_certain = t && !contradict && (agree || one_query || norm.count >= 2 * p->layers - 1);
}

/* Returns the blocks per token of grids that are proportional to the number of tokens; 0: unknown. The number
 * comes from passes with known tokens, else from the smallest grid, if ids of one row were copied to the
 * device in the passes with this grid. */
static uint32_t blocks_per_token(const struct group *g, const struct evidence *e) {
    uint32_t unit = 0, least = UINT32_MAX;
    bool one_copied = true;
    for (size_t i = 0; i < g->npasses; i++) {
        if (!e[i].relative) continue;
        if (e[i].relative < least) one_copied = true;
        least = MIN(least, e[i].relative);
        if (e[i].relative == least) one_copied &= e[i].one_copied;
        if (!e[i].tokens) continue;
        if (e[i].relative % e[i].tokens || (unit && unit != e[i].relative / e[i].tokens)) return 0;
        unit = e[i].relative / e[i].tokens;
    }
    return unit ? unit : least != UINT32_MAX && one_copied ? least : 0;
}

static void read_relative(const struct group *g, struct evidence *e) {
    uint32_t unit = blocks_per_token(g, e);
    for (size_t i = 0; i < g->npasses && unit; i++) {
        if (!e[i].relative || e[i].relative % unit) continue;
        uint32_t t = e[i].relative / unit;
        bool first = !e[i].tokens;
        if (first) e[i].tokens = t;
        if (e[i].tokens != t)
            e[i].tokens_certain = false;
        else if (!first || !e[i].mean.count || rows_fit(e[i].mean, t))
            e[i].tokens_certain = true;
    }
}

/* Sets the number of requests. row_bytes: bytes copied to the host per sampled row; 0: unknown. */
static void read_requests(const struct group *g, const struct pass *p, uint64_t row_bytes,
                          struct evidence *e) {
    uint64_t home = copied_home(g, p);
    uint32_t gathered = last_rows(g, p->last_anchor, p->end, ROWS_EMBEDDING),
             sampled = last_rows(g, p->last_anchor, p->end, ROWS_SAMPLING),
             final_norm = last_rows(g, p->last_anchor, p->end, ROWS_NORM);
    if (e->tokens && gathered > e->tokens) gathered = 0; /* these are rows of experts */
    if (!sampled) sampled = single_row(g, p);
    uint32_t found[6] = { gathered, final_norm != e->tokens ? final_norm : 0, sampled };
    found[4] = indexed_rows(g, p, e->tokens);
    found[5] = found[4] == 1 && one_sequence(g, p, e->tokens);
    if (row_bytes && home % row_bytes == 0) found[3] = (uint32_t)(home / row_bytes);
    uint32_t r = 0;
    size_t agree = 0, contradict = 0;
    for (size_t i = 0; i < COUNTOF(found); i++) {
        if (!found[i]) continue;
        if (!r)
            r = found[i];
        else if (r == found[i])
            agree++;
        else
            contradict++;
    }
    bool ids_home = r && ids_moved(g, p, r);
    uint32_t ids = home % ID_BYTES == 0 && home / ID_BYTES <= UINT32_MAX ? (uint32_t)(home / ID_BYTES) : 0;
    if (e->graph && ids && (!r || ids < r) && ids <= (e->tokens ? e->tokens : ids) &&
        (ids * 2 > e->tokens || e->tokens - ids <= PADDING) &&
        ids_copied_in(g, p->first, p->first_anchor, ids)) {
        e->padded = true;
        r = ids;
        ids_home = true;
        contradict = 0;
    }
    if (!r && ids && (e->decode_attention || ids == e->tokens)) {
        r = ids;
        ids_home = true;
    }
    if (!r && e->tokens == 1) r = 1;
    e->requests = r;
    e->confirmed = r && (agree || ids_home || e->tokens == 1 || r == found[3] || batched_by(g, p, r) ||
                         (r == 1 && (r == found[1] || r == sampled)));
    e->requests_certain = r && (!contradict || ids_home) && (e->confirmed || r == gathered);
    bool ids_in = r && ids_copied_in(g, p->first, p->first_anchor, r);
    e->confirmed |= ids_in;
    e->outside = ids_home || (ids_in && !fewer_copied_in(g, p->first, p->first_anchor, r)) ||
                 (r && (r == found[3] || rows_outside(g, p, r)));
}

/* ---- kinds */

static void set_kind(struct recognised_step *s, enum step_kind kind, const char *doubt) {
    s->kind = kind;
    s->doubt = doubt;
    s->certain = !doubt;
}

/* Sets *some (*all) to true if some (all) attention kernels of the pass also occur in decode passes. */
static void attention_overlap(const struct group *g, const struct pass *p, const bool *in_decode, bool *some,
                              bool *all) {
    *some = false;
    *all = true;
    for (size_t i = p->first_anchor; i < p->end; i++) {
        const struct item *it = &g->items[i];
        if (!it->is_kernel || it->category != KERNEL_CATEGORY_ATTENTION) continue;
        if (in_decode[g->tl->shapes[it->shape].name])
            *some = true;
        else
            *all = false;
    }
}

/* Returns true if the pass has, per layer, at least one attention kernel of decoding (one query per request)
 * and at least one other attention kernel (prompts). */
static bool both_attentions(const struct group *g, const struct pass *p) {
    size_t decode = 0, prompt = 0;
    for (size_t i = p->first_anchor; i < p->end; i++) {
        const struct item *it = &g->items[i];
        if (!it->is_kernel || it->category != KERNEL_CATEGORY_ATTENTION) continue;
        *(g->shapes[it->shape].decode_only ? &decode : &prompt) += 1;
    }
    return decode >= p->layers && prompt >= p->layers;
}

/* Returns true if the attention grid shows that all requests have the same number of tokens: one dimension is
 * the number of requests, another is the number of query tiles per request. */
static bool uniform_prompts(const struct group *g, const struct pass *p, uint32_t tokens, uint32_t requests) {
    if (tokens % requests) return false;
    const uint32_t *grid = g->tl->shapes[g->items[p->first_anchor].shape].grid;
    bool batch = false, blocks = false;
    for (int d = 0; d < 3; d++) {
        if (grid[d] == requests) batch = true;
        for (uint32_t tile = 16; tile <= 256; tile *= 2)
            if (grid[d] > 1 && (uint64_t)grid[d] * tile == tokens / requests) blocks = true;
    }
    return batch && blocks;
}

static bool is_vllm(const struct group *g, const struct pass *p) {
    for (size_t i = p->first; i < p->last_anchor; i++)
        if (g->items[i].is_kernel &&
            has(timeline_text(g->tl, g->tl->shapes[g->items[i].shape].name), "vllm::"))
            return true;
    return false;
}

/* Returns true if some but not all requests of a pass of vLLM generate. vLLM copies the sampled ids of the
 * generating requests on the device to the input of the next pass, 4 bytes each. Copies of one or two numbers
 * are ignored: they may have other purposes. */
static bool some_generate(const struct group *g, const struct pass *p, uint32_t requests) {
    bool found = false;
    for (size_t i = p->first; i < p->first_anchor && !found; i++) {
        const struct item *it = &g->items[i];
        if (it->is_kernel || it->copy != TRACE_COPY_DTOD || it->bytes % SAMPLED_ID_BYTES) continue;
        found = it->bytes > 2 * SAMPLED_ID_BYTES && it->bytes < (uint64_t)requests * SAMPLED_ID_BYTES;
    }
    return found && is_vllm(g, p);
}

static const char no_rows[] = "the number of tokens could not be read";
static const char no_requests[] = "the number of requests could not be read";
static const char weak_rows[] = "only one source gives the number of tokens";
static const char no_ids[] = "no copy of ids confirms the number of tokens";
static const char weak_requests[] = "only one source gives the number of requests";

/* 0: unknown. In `n ? n : NAN` without a cast, n becomes a float, which has 24 bits. */
static double known(uint32_t n) { return n ? (double)n : NAN; }

/* Classifies a pass by its tokens and requests. second_round() then finds the mixed passes by their attention
 * kernels. */
static void first_round(const struct evidence *e, struct recognised_step *s) {
    uint32_t t = e->tokens, r = e->requests;
    s->graph = e->graph;
    s->tokens = known(t);
    s->requests = known(r);
    if (!t && r && e->decode_attention) {
        s->tokens = r;
        set_kind(s, STEP_DECODE, e->requests_certain ? NULL : weak_requests);
    } else if (!t && !(r && e->graph)) {
        set_kind(s, STEP_OTHER, no_rows);
    } else if (!r) {
        set_kind(s, STEP_OTHER, no_requests);
    } else if (!t || e->padded) {
        /* a graph of unknown or padded size is decode: programs use such graphs only for decode */
        s->tokens = r;
        set_kind(s, STEP_DECODE,
                 !e->requests_certain             ? weak_requests
                 : e->padded || t || e->confirmed ? NULL
                                                  : no_ids);
    } else if (r > t) {
        set_kind(s, STEP_OTHER, "more rows were sampled than read");
    } else {
        bool maybe_padded = e->graph && t == r && r > 1 && !e->outside;
        set_kind(s, t == r ? STEP_DECODE : STEP_PREFILL,
                 !e->tokens_certain     ? weak_rows
                 : !e->requests_certain ? weak_requests
                 : maybe_padded         ? no_ids
                                        : NULL);
    }
}

/* Sets the step of an encoder, whose rows are patches of images. */
static void set_encoder(const struct evidence *e, struct recognised_step *s) {
    s->tokens = known(e->tokens);
    s->requests = NAN;
    s->graph = e->graph;
    set_kind(s, STEP_ENCODE, e->tokens ? NULL : no_rows);
}

static void second_round(const struct group *g, const struct pass *p, const bool *in_decode, bool any_decode,
                         struct recognised_step *s) {
    bool some, all;
    if (s->kind != STEP_PREFILL || s->requests <= 1) return;
    attention_overlap(g, p, in_decode, &some, &all);
    if ((any_decode && some && !all) || both_attentions(g, p) || some_generate(g, p, (uint32_t)s->requests))
        s->kind = STEP_MIXED;
    else if ((!any_decode || all) && !uniform_prompts(g, p, (uint32_t)s->tokens, (uint32_t)s->requests))
        set_kind(s, STEP_PREFILL,
                 "some of its requests may generate: prompts and generated tokens use the "
                 "same attention kernel");
}

/* Returns true if the program has layers, no kernels of training, and one of: rotary positions, a KV cache,
 * or lookups of ids together with decode steps. */
static bool is_language_model(const struct group *g, const struct recognised_step *steps) {
    bool position = false, lookup = false, decode = false, training = false;
    for (size_t i = 0; i < g->n; i++) {
        if (!g->items[i].is_kernel) continue;
        const struct shape_facts *f = &g->shapes[g->items[i].shape];
        position |=
            f->category == KERNEL_CATEGORY_ROPE || f->category == KERNEL_CATEGORY_KV_CACHE || f->cache_update;
        lookup |= f->category == KERNEL_CATEGORY_EMBEDDING;
        training |= f->training;
    }
    for (size_t i = 0; i < g->npasses; i++) decode |= steps[i].kind == STEP_DECODE;
    return !training && g->layers >= 2 && (position || (lookup && decode));
}

/* Returns the bytes that the program copies to the host per sampled row (logits or an id): the size that all
 * passes with one row share. 0: unknown, or the program copies something else. */
static uint64_t logits_row_bytes(const struct group *g, const struct evidence *e) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < g->npasses; i++) {
        if (e[i].tokens != 1) continue;
        uint64_t home = copied_home(g, &g->passes[i]);
        if ((home < 4096 && home != ID_BYTES && home != ID_BYTES / 2) || (bytes && bytes != home)) return 0;
        bytes = home;
    }
    return bytes;
}

bool recognise_rows(const struct group *g, struct recognised_step *steps) {
    struct evidence *e = xcalloc(g->npasses + 1, sizeof *e);
    uint32_t names = 0;
    bool any_decode = false;
    for (size_t i = 0; i < g->tl->nshapes; i++) names = MAX(names, g->tl->shapes[i].name + 1);
    bool *in_decode = xcalloc((size_t)names + 1, sizeof *in_decode);
    for (size_t i = 0; i < g->npasses && g->layers; i++) {
        read_attention(g, &g->passes[i], &e[i]);
        read_tokens(g, &g->passes[i], &e[i]);
    }
    read_relative(g, e);
    uint64_t row_bytes = logits_row_bytes(g, e);
    for (size_t i = 0; i < g->npasses && g->layers; i++) {
        const struct pass *p = &g->passes[i];
        if (p->encoder) {
            set_encoder(&e[i], &steps[i]);
            continue;
        }
        read_requests(g, p, row_bytes, &e[i]);
        first_round(&e[i], &steps[i]);
        for (size_t k = p->first_anchor; k < p->end && steps[i].kind == STEP_DECODE; k++)
            if (g->items[k].is_kernel && g->items[k].category == KERNEL_CATEGORY_ATTENTION) {
                in_decode[g->tl->shapes[g->items[k].shape].name] = true;
                any_decode = true;
            }
    }
    for (size_t i = 0; i < g->npasses; i++) {
        second_round(g, &g->passes[i], in_decode, any_decode, &steps[i]);
        bool usual = g->passes[i].layers == g->layers || g->passes[i].layers == g->other_layers;
        if (!usual && steps[i].kind != STEP_OTHER && !g->passes[i].encoder)
            set_kind(&steps[i], steps[i].kind, "it has another number of layers than most steps");
        if ((g->starts_inside || g->ends_inside) && steps[i].certain)
            set_kind(&steps[i], steps[i].kind,
                     g->starts_inside ? "the trace may begin inside of it"
                                      : "the trace may end inside of it");
    }
    bool llm = is_language_model(g, steps);
    free(e);
    free(in_decode);
    return llm;
}
