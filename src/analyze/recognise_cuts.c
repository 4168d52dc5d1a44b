/* Cuts the work of a device into forward passes. Attention kernels with matrix products between them show the
 * layers. A pass ends between two layers at an event that happens once per pass: a lookup of token ids, the
 * sampling of a token, a copy to the host, a graph launch, or an LM head whose rows were selected before it.
 * A kind of event is used if it puts most layers into passes with the same number of layers. */
#include <stdlib.h>
#include <string.h>

#include "analyze/recognise_internal.h"
#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"

enum cut_kind { CUT_EMBEDDING, CUT_SAMPLING, CUT_TO_HOST, CUT_GRAPH, CUT_HEAD, CUT_KINDS };
static const char *const cut_names[CUT_KINDS] = { "lookups of token ids", "sampling of tokens",
                                                  "copies to the host", "graph launches", "LM heads" };

#define TRUSTED 0.9 /* trusted cuts put at least this share of the layers into passes of the usual length */
#define LEAST_TRUSTED 0.5
#define SIMILAR 0.05 /* kinds of cuts are used together if their shares differ by at most this */
#define LARGE_COPY_BYTES (1u << 20)
#define MAX_LAYERS 512
#define OTHER_MODEL_PASSES 3      /* fewer passes with other layers are no second model */
#define FIRST_PAUSE_NS 100000000u /* a longer pause separates a single pass from earlier work */

struct positions {
    size_t *v;
    size_t n, cap;
};

static bool is_product(const struct item *i) {
    return i->is_kernel && (i->category == KERNEL_CATEGORY_GEMM || i->category == KERNEL_CATEGORY_GEMV);
}
static bool is_category(const struct item *i, enum kernel_category c) {
    return i->is_kernel && i->category == c;
}
static bool is_copy(const struct item *i, enum trace_copy_kind kind) {
    return !i->is_kernel && i->copy == kind;
}

/* Finds the first attention kernel of each layer. A layer is new if a matrix product ran since the previous
 * attention kernel. */
static void find_anchors(const struct group *g, enum kernel_category attention, struct positions *out) {
    bool product = true;
    out->n = 0;
    for (size_t i = 0; i < g->n; i++) {
        if (is_product(&g->items[i])) product = true;
        if (!is_category(&g->items[i], attention)) continue;
        if (product) vec_push(out, i);
        product = false;
    }
}

static int by_size(const void *a, const void *b) {
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

static size_t median_of(size_t *v, size_t n) {
    if (!n) return SIZE_MAX;
    qsort(v, n, sizeof *v, by_size);
    return v[n / 2];
}

/* Returns the median number of products between the attention kernels of two layers; SIZE_MAX if there are
 * fewer than two layers. */
static size_t products_per_layer(const struct group *g, const struct positions *anchors) {
    size_t *v = xmalloc((anchors->n + 1) * sizeof *v), n = 0;
    for (size_t a = 0; a + 1 < anchors->n; a++) {
        v[n] = 0;
        for (size_t i = anchors->v[a]; i < anchors->v[a + 1]; i++) v[n] += is_product(&g->items[i]);
        n++;
    }
    size_t median = median_of(v, n);
    free(v);
    return median;
}

/* Finds the kernels that write into the KV cache; each one counts as a layer. Used for programs without
 * attention kernels, such as XLA programs. */
static void find_updates(const struct group *g, struct positions *out) {
    out->n = 0;
    for (size_t i = 0; i < g->n; i++)
        if (g->items[i].is_kernel && g->shapes[g->items[i].shape].cache_update) vec_push(out, i);
}

static bool is_norm_or_product(const struct item *i) {
    return is_product(i) || is_category(i, KERNEL_CATEGORY_NORM);
}

/* Marks the items before which a norm ran since the last product. */
static void mark_after_norm(struct group *g) {
    bool norm = false;
    for (size_t i = 0; i < g->n; i++) {
        g->items[i].after_norm = norm;
        if (is_norm_or_product(&g->items[i])) norm = !is_product(&g->items[i]);
    }
}

/* Marks the lookups of token ids, and LM heads. Between a lookup of ids and the next attention kernel there
 * are fewer products than in a layer, and no sampling. Other lookups select the rows of experts or the rows
 * to sample: the latter come after the final norm, and the LM head is the next product. */
static void mark_lookups(struct group *g, const struct positions *anchors) {
    size_t usual = products_per_layer(g, anchors), products = 0, next = anchors->n, following = SIZE_MAX;
    bool sampled = false;
    mark_after_norm(g);
    for (size_t i = g->n; i-- > 0;) {
        struct item *it = &g->items[i];
        if (next && anchors->v[next - 1] == i) {
            next--;
            products = 0;
            sampled = false;
        }
        if (is_product(it)) products++;
        if (is_norm_or_product(it)) following = i;
        sampled |= is_category(it, KERNEL_CATEGORY_SAMPLING);
        if (!is_category(it, KERNEL_CATEGORY_EMBEDDING)) continue;
        bool selects = it->after_norm && following != SIZE_MAX && is_product(&g->items[following]);
        if (selects) g->items[following].is_head = true;
        it->looks_up_ids = !selects && products < usual && !sampled;
    }
}

/* Returns true if an event of this kind allows a cut before item i. */
static bool cuts_at(const struct group *g, size_t i, enum cut_kind kind) {
    const struct item *it = &g->items[i], *before = i ? &g->items[i - 1] : NULL;
    switch (kind) {
    case CUT_EMBEDDING: return it->looks_up_ids;
    case CUT_SAMPLING: return before && is_category(before, KERNEL_CATEGORY_SAMPLING);
    case CUT_TO_HOST: return before && is_copy(before, TRACE_COPY_DTOH);
    case CUT_GRAPH:
        return it->is_kernel && it->in_graph && it->launch != TIMELINE_NONE &&
               (!before || before->launch != it->launch || !before->is_kernel);
    case CUT_HEAD: return before && (before->is_head || is_category(before, KERNEL_CATEGORY_SAMPLING));
    default: return false;
    }
}

/* Counts the layers in each part between cuts; parts without a layer are omitted. */
static void layers_between(const struct group *g, const struct positions *anchors, enum cut_kind kind,
                           struct positions *out) {
    size_t next = 0, layers = 0;
    uint32_t graph = TIMELINE_NONE;
    out->n = 0;
    for (size_t i = 0; i < g->n && next < anchors->n; i++) {
        bool cut = cuts_at(g, i, kind);
        if (kind == CUT_GRAPH && cut) { /* kernels of one graph may alternate with kernels of other streams */
            cut = g->items[i].launch != graph;
            graph = g->items[i].launch;
        }
        if (cut && layers) {
            vec_push(out, layers);
            layers = 0;
        }
        if (anchors->v[next] == i) {
            layers++;
            next++;
        }
    }
    if (layers) vec_push(out, layers);
}

/* The parts between the cuts of one kind. layers: the number of layers of most parts; 0: none. other: that of
 * the parts of another model; 0: none. score: share of all layers in parts with these numbers. repeats:
 * number of parts with `layers`. */
struct cut_score {
    uint32_t layers, other;
    size_t repeats;
    double score;
};

/* Returns the n >= 2, but not `except`, for which parts with n layers contain the most layers in total; 0:
 * none. */
static uint32_t most_layers(const size_t *count, uint32_t except) {
    uint32_t best = 0;
    for (uint32_t n = 2; n <= MAX_LAYERS; n++)
        if (n != except && n * count[n] > best * count[best]) best = n;
    return best;
}

/* Returns true if less than half of the products and attention kernels are the same in parts with `a` and
 * parts with `b` layers. Then these are two models, not halves of one. */
static bool different_kernels(const struct group *g, const struct positions *anchors,
                              const struct positions *parts, uint32_t a, uint32_t b) {
    uint8_t *in = xcalloc(g->tl->nshapes + 1, sizeof *in);
    size_t first = 0, n[4] = { 0 };
    for (size_t p = 0; p < parts->n; first += parts->v[p++]) {
        uint8_t mark = parts->v[p] == a ? 1 : parts->v[p] == b ? 2 : 0;
        for (size_t i = anchors->v[first]; mark && i <= anchors->v[first + parts->v[p] - 1]; i++)
            if (is_product(&g->items[i]) || is_category(&g->items[i], KERNEL_CATEGORY_ATTENTION))
                in[g->items[i].shape] |= mark;
    }
    for (size_t i = 0; i < g->tl->nshapes; i++) n[in[i]]++;
    free(in);
    return 2 * n[3] < MIN(n[1], n[2]) + n[3];
}

static struct cut_score score_cuts(const struct group *g, const struct positions *anchors,
                                   const struct positions *parts) {
    size_t count[MAX_LAYERS + 1] = { 0 };
    for (size_t i = 0; i < parts->n; i++)
        if (parts->v[i] <= MAX_LAYERS) count[parts->v[i]]++;
    uint32_t best = most_layers(count, 0), second = most_layers(count, best);
    struct cut_score s = { .layers = best, .repeats = count[best] };
    if (count[second] >= OTHER_MODEL_PASSES && different_kernels(g, anchors, parts, best, second))
        s.other = second;
    double layers = (double)best * (double)count[best] + (double)s.other * (double)count[s.other];
    s.score = anchors->n ? layers / (double)anchors->n : 0;
    return s;
}

struct choice {
    bool use[CUT_KINDS];
    struct cut_score best;
};

/* Chooses the number of layers of a pass among the kinds of cuts, repeating ones or others. */
static struct cut_score choose_layers(const struct cut_score *s, bool repeating) {
    struct cut_score c = { 0 };
    for (int k = 0; k < CUT_KINDS; k++) {
        bool trusted = s[k].score >= TRUSTED, before = c.score >= TRUSTED;
        if (!s[k].layers || (s[k].repeats > 1) != repeating) continue;
        if (!c.layers || (trusted && (!before || s[k].layers < c.layers)) ||
            (!trusted && s[k].score > c.score))
            c = s[k];
    }
    return c;
}

/* A kind of cut that never occurs puts all layers into one part. It counts only if no kind repeats. */
static struct choice choose_cuts(const struct group *g, const struct positions *anchors) {
    struct choice c;
    struct positions parts = { 0 };
    struct cut_score s[CUT_KINDS];
    for (int k = 0; k < CUT_KINDS; k++) {
        layers_between(g, anchors, k, &parts);
        s[k] = score_cuts(g, anchors, &parts);
    }
    c.best = choose_layers(s, true);
    if (c.best.score < LEAST_TRUSTED) c.best = choose_layers(s, false);
    for (int k = 0; k < CUT_KINDS; k++)
        c.use[k] = s[k].layers == c.best.layers && s[k].score >= MIN(TRUSTED, c.best.score) - SIMILAR &&
                   s[k].score >= LEAST_TRUSTED;
    free(parts.v);
    return c;
}

/* Like cuts_at(), but the graph launch must be another one than that of the last layer: kernels of one graph
 * may alternate with kernels of other streams. */
static bool cuts_pass(const struct group *g, size_t i, enum cut_kind kind, size_t last_anchor) {
    return cuts_at(g, i, kind) && (kind != CUT_GRAPH || g->items[i].launch != g->items[last_anchor].launch);
}

/* Returns the first item of the next pass after the LM head of a pass that samples nothing: the first copy of
 * the inputs before `limit`, which ROCm records as a copy on the device if the memory is pinned. */
static size_t after_head(const struct group *g, size_t head, size_t limit, size_t hi) {
    for (size_t i = head + 1; i < limit; i++)
        if (is_copy(&g->items[i], TRACE_COPY_HTOD) || is_copy(&g->items[i], TRACE_COPY_DTOD)) return i;
    return limit == hi ? head + 1 : limit;
}

/* Returns the end of a pass between the layers at the items `lo` and `hi`; SIZE_MAX: both layers are in one
 * pass. */
static size_t border(const struct group *g, const struct choice *c, size_t lo, size_t hi) {
    size_t limit = SIZE_MAX, base = lo, sampled = SIZE_MAX, product = SIZE_MAX, last_home = SIZE_MAX,
           head = SIZE_MAX;
    /* eager: the next layer is outside of a graph although graphs are used, as in a prompt. Such a pass
     * begins with its lookup of ids if no product ran outside of graphs since the last graph or copy to the
     * host (left). */
    bool any = false, eager = c->use[CUT_GRAPH] && !g->items[hi].in_graph, left = g->items[lo].in_graph;
    for (size_t i = lo + 1; i <= hi; i++) {
        if (is_copy(&g->items[i], TRACE_COPY_DTOH)) left = true;
        if (is_product(&g->items[i]) && !g->items[i].in_graph) left = false;
        bool lookup = cuts_at(g, i, CUT_EMBEDDING) &&
                      (c->use[CUT_EMBEDDING] || (eager && left && !g->items[i].in_graph));
        any |= lookup;
        for (int k = 0; k < CUT_KINDS && !any; k++) any = c->use[k] && cuts_pass(g, i, k, lo);
        if (lookup && i < hi) limit = i;
        if (i < hi && is_copy(&g->items[i], TRACE_COPY_DTOH)) last_home = i;
        if (limit == SIZE_MAX && c->use[CUT_GRAPH] && !c->use[CUT_SAMPLING] && !c->use[CUT_TO_HOST] &&
            cuts_pass(g, i, CUT_GRAPH, lo))
            limit = i;
    }
    if (!any) return SIZE_MAX;
    if (limit == SIZE_MAX) limit = c->use[CUT_TO_HOST] && last_home != SIZE_MAX ? last_home + 1 : hi;
    for (size_t i = lo + 1; i < limit; i++) {
        if (is_category(&g->items[i], KERNEL_CATEGORY_SAMPLING)) sampled = i;
        if (is_product(&g->items[i])) product = i;
        if (g->items[i].is_head && c->use[CUT_HEAD]) head = i;
    }
    bool sampling = sampled != SIZE_MAX && (c->use[CUT_SAMPLING] || c->use[CUT_HEAD]);
    base = sampling                                  ? sampled
           : head != SIZE_MAX && sampled == SIZE_MAX ? head
           : product != SIZE_MAX && limit != hi      ? product
                                                     : base;
    for (size_t i = base + 1; i < limit; i++)
        if (is_copy(&g->items[i], TRACE_COPY_DTOH)) return i + 1;
    if (sampled != SIZE_MAX && base == sampled) return sampled + 1;
    if (base == head) return after_head(g, head, limit, hi);
    for (size_t i = base + 1; i < limit; i++)
        if (is_copy(&g->items[i], TRACE_COPY_HTOD)) return i;
    return limit;
}

/* Returns the first copy to the host after a token was sampled, from item `from` on; SIZE_MAX: none. */
static size_t read_back(const struct group *g, size_t from) {
    bool sampled = false;
    for (size_t i = from; i < g->n; i++) {
        if (is_category(&g->items[i], KERNEL_CATEGORY_SAMPLING)) sampled = true;
        if (sampled && is_copy(&g->items[i], TRACE_COPY_DTOH)) return i;
    }
    return SIZE_MAX;
}

/* Returns the item with which the pass begins: its lookup of ids, or the first of the small copies to the
 * device directly before the lookup. `anchor` is the first layer; it is returned if the pass looks up no
 * ids. */
static size_t input_start(const struct group *g, size_t anchor) {
    size_t at = anchor;
    for (size_t i = anchor; i-- > 0 && at == anchor;) {
        if (is_copy(&g->items[i], TRACE_COPY_HTOD) && g->items[i].bytes >= LARGE_COPY_BYTES) break;
        if (g->items[i].looks_up_ids) at = i;
    }
    while (at != anchor && at && is_copy(&g->items[at - 1], TRACE_COPY_HTOD) &&
           g->items[at - 1].bytes < LARGE_COPY_BYTES)
        at--;
    return at;
}

/* Limits the items before the first layer of the first pass, and after the last layer of the last pass, to
 * the median of the other passes. The first pass begins earlier if it looks up its ids earlier. If a sampled
 * token is copied to the host after the last layer, the last pass ends with this copy instead. The first pass
 * begins after the last large copy to the device (weights), and a single pass after the last long pause
 * before its first layer. */
static void trim_ends(struct group *g) {
    size_t n = g->npasses, *v = xmalloc((n + 1) * sizeof *v), k = 0;
    struct pass *first = &g->passes[0], *last = &g->passes[n - 1];
    for (size_t i = 1; i < n; i++) v[k++] = g->passes[i].first_anchor - g->passes[i].first;
    size_t before = median_of(v, k);
    k = 0;
    for (size_t i = 0; i + 1 < n; i++) v[k++] = g->passes[i].end - g->passes[i].last_anchor;
    size_t after = median_of(v, k);
    free(v);
    if (before != SIZE_MAX) {
        first->first = first->first_anchor > before ? first->first_anchor - before : 0;
        first->first = MIN(first->first, input_start(g, first->first_anchor));
    }
    for (size_t i = first->first_anchor; i > first->first; i--) {
        const struct item *it = &g->items[i - 1];
        if ((is_copy(it, TRACE_COPY_HTOD) && it->bytes >= LARGE_COPY_BYTES) ||
            (before == SIZE_MAX && g->items[i].start_ns > it->end_ns + FIRST_PAUSE_NS))
            first->first = i;
    }
    size_t home = after == SIZE_MAX ? SIZE_MAX : read_back(g, last->last_anchor);
    if (home != SIZE_MAX)
        last->end = home + 1;
    else if (after != SIZE_MAX && last->last_anchor + after < g->n)
        last->end = last->last_anchor + after;
}

static void add_pass(struct group *g, size_t *cap, size_t first, size_t end, const size_t *anchor, size_t n,
                     bool encoder) {
    struct pass p = { first, end, anchor[0], anchor[n - 1], (uint32_t)n, encoder };
    g->passes = vec_fit(g->passes, g->npasses + 1, cap, sizeof *g->passes);
    g->passes[g->npasses++] = p;
}

/* Returns the item at which the decoder begins: its lookup of ids, else the norm before its first product.
 * SIZE_MAX: not found. Item `to` is the first attention kernel of the decoder. */
static size_t decoder_start(const struct group *g, size_t from, size_t to) {
    bool product = false;
    for (size_t i = to; i-- > from;)
        if (g->items[i].looks_up_ids) return i;
    for (size_t i = to; i-- > from;) {
        product |= is_product(&g->items[i]);
        if (product && is_category(&g->items[i], KERNEL_CATEGORY_NORM)) return i;
    }
    return SIZE_MAX;
}

/* Returns true for work that only decoders do: the KV cache, attention of one query, the LM head, sampling,
 * and what is copied to the host. */
static bool is_decoding(const struct group *g, const struct item *i) {
    if (is_copy(i, TRACE_COPY_DTOH) || i->is_head || is_category(i, KERNEL_CATEGORY_KV_CACHE) ||
        is_category(i, KERNEL_CATEGORY_SAMPLING))
        return true;
    const struct shape_facts *f = i->is_kernel ? &g->shapes[i->shape] : NULL;
    return f && (f->decode_only || f->row_source == ROWS_SINGLE);
}

static bool may_encode(const struct group *g, size_t from, size_t to) {
    for (size_t i = from; i < to; i++)
        if (is_decoding(g, &g->items[i])) return false;
    return true;
}

/* Returns true if the items look up ids and the layers at items a and b run the same attention kernel: these
 * are a prompt and the pass after it, if the copy to the host between them was not recorded. */
static bool may_be_prompts(const struct group *g, size_t from, size_t to, size_t a, size_t b) {
    bool lookup = false;
    for (size_t i = from; i < to && !lookup; i++) lookup = g->items[i].looks_up_ids;
    return lookup && g->tl->shapes[g->items[a].shape].name == g->tl->shapes[g->items[b].shape].name;
}

/* Returns the item at which the decoder begins if an image encoder runs before it in the same pass; SIZE_MAX:
 * there is no encoder. Such a pass has more layers than usual: the last `layers` of them have the same
 * attention kernel and grid, and the layers before them have others. `first`: first item of the pass. */
static size_t encoder_end(const struct group *g, size_t first, const size_t *anchor, size_t n,
                          uint32_t layers) {
    if (n <= layers) return SIZE_MAX;
    size_t encoder = n - layers;
    uint32_t shape = g->items[anchor[encoder]].shape;
    for (size_t i = 0; i < n; i++)
        if ((g->items[anchor[i]].shape == shape) != (i >= encoder)) return SIZE_MAX;
    size_t start = decoder_start(g, anchor[encoder - 1], anchor[encoder]);
    if (may_be_prompts(g, first, anchor[encoder - 1], anchor[0], anchor[encoder])) return SIZE_MAX;
    return start != SIZE_MAX && may_encode(g, anchor[0], start) ? start : SIZE_MAX;
}

/* Returns the bytes of the copy to the host that ends the pass; 0 if the pass ends with other work. */
static uint64_t last_copied(const struct group *g, const struct pass *p) {
    const struct item *it = &g->items[p->end - 1];
    return p->end > p->first && is_copy(it, TRACE_COPY_DTOH) ? it->bytes : 0;
}

static bool samples(const struct group *g, const struct pass *p) {
    for (size_t i = p->last_anchor; i < p->end; i++)
        if (is_category(&g->items[i], KERNEL_CATEGORY_SAMPLING)) return true;
    return false;
}

/* Returns the number of passes from `first` on that are parts of one pass; 1: the pass is complete. The parts
 * together have the usual number of layers. All parts except the last end with copies of one size to the
 * host. llama.cpp causes such parts: it reads back the routing of each layer of a prompt. */
static size_t parts_of_pass(const struct group *g, size_t first, uint32_t layers) {
    uint32_t sum = g->passes[first].layers;
    uint64_t inner = last_copied(g, &g->passes[first]);
    for (size_t i = first; sum < layers && i + 1 < g->npasses; i++) {
        if (!inner || last_copied(g, &g->passes[i]) != inner || samples(g, &g->passes[i])) return 1;
        sum += g->passes[i + 1].layers;
        if (sum == layers && last_copied(g, &g->passes[i + 1]) != inner) return i + 2 - first;
    }
    return 1;
}

static void merge_parts(struct group *g, uint32_t layers) {
    size_t kept = 0;
    for (size_t i = 0; i < g->npasses;) {
        size_t n = parts_of_pass(g, i, layers);
        struct pass p = g->passes[i], last = g->passes[i + n - 1];
        p.end = last.end;
        p.last_anchor = last.last_anchor;
        p.layers = n > 1 ? layers : p.layers;
        g->passes[kept++] = p;
        i += n;
    }
    g->npasses = kept;
}

/* Forgets the other model if its passes were parts of passes: a prompt of which llama.cpp reads back the
 * routing runs in other kernels than decode steps. */
static void check_other_model(struct group *g) {
    size_t n = 0;
    for (size_t i = 0; i < g->npasses; i++) n += g->passes[i].layers == g->other_layers;
    if (n < OTHER_MODEL_PASSES) g->other_layers = 0;
}

/* Marks a pass as an encoder if it has an unusual number of layers, the next pass has the usual number,
 * may_encode() is true for it, and its attention kernels do not occur in passes with the usual number. */
static void mark_encoders(struct group *g, uint32_t layers) {
    bool *usual = xcalloc(g->tl->nshapes + 1, sizeof *usual);
    for (size_t i = 0; i < g->npasses; i++)
        for (size_t k = g->passes[i].first_anchor; k <= g->passes[i].last_anchor; k++)
            if (g->passes[i].layers == layers && is_category(&g->items[k], KERNEL_CATEGORY_ATTENTION))
                usual[g->items[k].shape] = true;
    for (size_t i = 0; i + 1 < g->npasses; i++) {
        struct pass *p = &g->passes[i];
        bool encoder = p->layers != layers && g->passes[i + 1].layers == layers &&
                       may_encode(g, p->first_anchor, p->end) &&
                       !may_be_prompts(g, p->first, p->last_anchor, p->first_anchor, p[1].first_anchor);
        for (size_t k = p->first_anchor; k < p->end && encoder; k++)
            encoder = !(is_category(&g->items[k], KERNEL_CATEGORY_ATTENTION) && usual[g->items[k].shape]);
        p->encoder |= encoder;
    }
    free(usual);
}

static void make_passes(struct group *g, const struct positions *anchors, const struct choice *c) {
    size_t cap = 0, first = 0, first_anchor = 0;
    for (size_t a = 0; a < anchors->n; a++) {
        bool last = a + 1 == anchors->n;
        size_t at = last ? g->n : border(g, c, anchors->v[a], anchors->v[a + 1]);
        if (at == SIZE_MAX) continue;
        const size_t *anchor = anchors->v + first_anchor;
        size_t n = a + 1 - first_anchor, decoder = encoder_end(g, first, anchor, n, c->best.layers);
        if (decoder != SIZE_MAX) {
            add_pass(g, &cap, first, decoder, anchor, n - c->best.layers, true);
            first = decoder;
            anchor += n - c->best.layers;
            n = c->best.layers;
        }
        add_pass(g, &cap, first, at, anchor, n, false);
        first = at;
        first_anchor = a + 1;
    }
    merge_parts(g, c->best.layers);
    check_other_model(g);
    mark_encoders(g, c->best.layers);
    if (g->npasses) trim_ends(g);
}

/* Returns true if all kernels in [from, to) also run between the layers of the pass, and no ids are copied to
 * the device. */
static bool only_layers(const struct group *g, const struct pass *p, size_t from, size_t to) {
    bool *in_layers = xcalloc(g->tl->nshapes + 1, sizeof *in_layers), only = true;
    for (size_t i = p->first_anchor; i < p->last_anchor; i++)
        if (g->items[i].is_kernel) in_layers[g->items[i].shape] = true;
    for (size_t i = from; i < to && only; i++)
        only = g->items[i].is_kernel ? in_layers[g->items[i].shape] : !is_copy(&g->items[i], TRACE_COPY_HTOD);
    free(in_layers);
    return only;
}

/* A pass begins and ends with other work than layers. If the only pass of a trace does not, layers may be
 * missing. */
static void check_ends(struct group *g) {
    if (g->npasses != 1) return;
    const struct pass *p = &g->passes[0];
    g->starts_inside = only_layers(g, p, p->first, p->first_anchor);
    g->ends_inside = only_layers(g, p, p->last_anchor + 1, p->end);
}

/* ---- other programs: the work between two copies to the host, if it repeats */

#define REPEATS_LEAST 8
#define REPEATING_SHARE 0.8

static uint64_t part_hash(const struct group *g, size_t first, size_t end) {
    uint64_t h = 1469598103934665603u;
    for (size_t i = first; i < end; i++)
        if (g->items[i].is_kernel) h = (h ^ (g->tl->shapes[g->items[i].shape].name + 1u)) * 1099511628211u;
    return h;
}

static int by_hash(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Sets *value to the most frequent value of the sorted array and returns its number of occurrences. */
static size_t most_frequent(const uint64_t *v, size_t n, uint64_t *value) {
    size_t best = 0;
    for (size_t i = 0, k; i < n; i = k) {
        for (k = i; k < n && v[k] == v[i];) k++;
        if (k - i > best) {
            best = k - i;
            *value = v[i];
        }
    }
    return best;
}

void recognise_cut_copies(struct group *g) {
    struct {
        struct pass *v;
        size_t n, cap;
    } parts = { 0 };
    size_t first = 0, kernels = 0;
    free(g->passes);
    g->passes = NULL;
    g->npasses = 0;
    g->layers = 0;
    g->boundary = NULL;
    for (size_t i = 0; i < g->n; i++) {
        kernels += g->items[i].is_kernel;
        if (!is_copy(&g->items[i], TRACE_COPY_DTOH) || !kernels) continue;
        vec_push(&parts,
                 ((struct pass){ .first = first, .end = i + 1, .first_anchor = first, .last_anchor = i }));
        first = i + 1;
        kernels = 0;
    }
    uint64_t *hashes = xmalloc((parts.n + 1) * sizeof *hashes), usual = 0;
    for (size_t i = 0; i < parts.n; i++) hashes[i] = part_hash(g, parts.v[i].first, parts.v[i].end);
    qsort(hashes, parts.n, sizeof *hashes, by_hash);
    size_t repeats = parts.n ? most_frequent(hashes, parts.n, &usual) : 0;
    free(hashes);
    if (repeats < REPEATS_LEAST || (double)repeats < REPEATING_SHARE * (double)parts.n) {
        free(parts.v);
        return;
    }
    size_t lo = 0, hi = parts.n;
    while (part_hash(g, parts.v[lo].first, parts.v[lo].end) != usual) lo++;
    while (part_hash(g, parts.v[hi - 1].first, parts.v[hi - 1].end) != usual) hi--;
    memmove(parts.v, parts.v + lo, (hi - lo) * sizeof *parts.v);
    g->passes = parts.v;
    g->npasses = hi - lo;
    g->boundary = cut_names[CUT_TO_HOST];
}

void recognise_cut(struct group *g) {
    struct positions anchors = { 0 };
    find_anchors(g, KERNEL_CATEGORY_ATTENTION, &anchors);
    if (!anchors.n) {
        find_anchors(g, KERNEL_CATEGORY_SOFTMAX, &anchors);
        if (!anchors.n) find_updates(g, &anchors);
        g->by_softmax = anchors.n > 0;
    }
    mark_lookups(g, &anchors);
    struct choice c = choose_cuts(g, &anchors);
    if (c.best.layers && c.best.score >= LEAST_TRUSTED) {
        g->layers = c.best.layers;
        g->other_layers = c.best.other;
        for (int k = CUT_KINDS; k-- > 0;)
            if (c.use[k]) g->boundary = cut_names[k];
        make_passes(g, &anchors, &c);
        check_ends(g);
    } else {
        recognise_cut_copies(g);
    }
    free(anchors.v);
}
