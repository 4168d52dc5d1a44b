#include "analyze/anatomy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/anatomy_internal.h"
#include "analyze/counters.h"
#include "analyze/internal.h"
#include "base/die.h"
#include "base/util.h"
#include "llm/cost.h"

/* ---- the median step, and the steps with the same kernels */

static double step_time(const struct context *c, size_t step) {
    const struct recognised_step *s = &c->a->recognition.steps[step];
    if (c->a->recognised) return analysis_occurrence_time(&c->a->occurrences[step]);
    return (double)(s->gpu_end_ns - s->gpu_start_ns);
}

static uint64_t step_hash(const struct context *c, const struct recognised_step *s) {
    uint64_t h = 1469598103934665603u;
    for (size_t i = s->first; i < s->first + s->count; i++) {
        const struct recognised_work *w = &c->a->recognition.work[i];
        uint32_t name = w->is_kernel ? c->tl->shapes[c->tl->kernels.shape[w->index]].name + 1u : 0;
        h = (h ^ name) * 1099511628211u;
    }
    return h;
}

struct candidate {
    size_t step;
    double ns;
    uint64_t hash;
};

static int by_hash(const void *a, const void *b) {
    const struct candidate *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    if (x->ns != y->ns) return x->ns < y->ns ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

/* Collects the decode steps with the most frequent sequence of kernels, sorted by time, and returns their
 * number. *of: number of all decode steps after warm-up. */
static size_t usual_steps(const struct context *c, struct candidate **out, size_t *of) {
    const struct recognition *r = &c->a->recognition;
    struct candidate *v = xmalloc((r->nsteps + 1) * sizeof *v);
    size_t n = 0, best = 0, first = 0;
    for (size_t i = 0; i < r->nsteps; i++)
        if (r->steps[i].kind == STEP_DECODE && !r->steps[i].warm_up)
            v[n++] = (struct candidate){ i, step_time(c, i), step_hash(c, &r->steps[i]) };
    if (n) qsort(v, n, sizeof *v, by_hash);
    for (size_t i = 0, k; i < n; i = k) {
        for (k = i; k < n && v[k].hash == v[i].hash;) k++;
        if (k - i > best) {
            best = k - i;
            first = i;
        }
    }
    memmove(v, v + first, best * sizeof *v);
    *out = v;
    *of = n;
    return best;
}

/* ---- roles of the kernels in the median step */

static uint64_t shape_blocks(const struct timeline_shape *s) {
    return (uint64_t)s->grid[0] * s->grid[1] * s->grid[2];
}

static struct anatomy_kernel *read_kernels(const struct context *c, const struct recognised_step *s) {
    struct anatomy_kernel *k = xcalloc(s->count + 1, sizeof *k);
    for (size_t i = 0; i < s->count; i++) {
        const struct recognised_work *w = &c->a->recognition.work[s->first + i];
        uint32_t shape = w->is_kernel ? c->tl->kernels.shape[w->index] : 0;
        k[i] = (struct anatomy_kernel){
            .name = w->is_kernel ? timeline_text(c->tl, c->tl->shapes[shape].name) : "",
            .short_name = w->is_kernel ? c->a->kernels[c->a->shape_kernel[shape]].short_name : "",
            .category = w->is_kernel ? c->shape_category[shape] : 0,
            .blocks = w->is_kernel ? shape_blocks(&c->tl->shapes[shape]) : 0,
            .is_kernel = w->is_kernel
        };
    }
    anatomy_read_xla(k, s->count);
    return k;
}

/* Sets anchor[layer] to the first attention kernel of each layer and returns the number of layers. A layer is
 * new if a matrix product ran since the previous attention kernel. */
static size_t find_layers(const struct anatomy_kernel *k, size_t n, size_t *anchor) {
    size_t layers = 0;
    bool product = true;
    for (size_t i = 0; i < n; i++) {
        if (!k[i].is_kernel) continue;
        if (k[i].category == KERNEL_CATEGORY_GEMM || k[i].category == KERNEL_CATEGORY_GEMV) product = true;
        if (k[i].category != KERNEL_CATEGORY_ATTENTION) continue;
        if (product) anchor[layers++] = i;
        product = false;
    }
    return layers;
}

static void set_parts(struct context *c, const struct recognised_step *s, const struct anatomy_kernel *k) {
    struct anatomy *a = c->a->anatomy;
    const struct recognised_work *work = c->a->recognition.work + s->first;
    a->parts = analysis_alloc(c, s->count, sizeof *a->parts);
    a->nparts = s->count;
    a->span_ns = (double)(s->gpu_end_ns - s->gpu_start_ns);
    for (size_t i = 0; i < s->count; i++)
        a->parts[i] = (struct anatomy_part){
            .start_ns = (double)(anatomy_work_start(c->tl, &work[i]) - s->gpu_start_ns),
            .ns = (double)(anatomy_work_end(c->tl, &work[i]) - anatomy_work_start(c->tl, &work[i])),
            .layer = k[i].layer,
            .role = k[i].role,
            .is_kernel = work[i].is_kernel,
            .index = work[i].index
        };
}

/* ---- sums by role, over all steps with the same kernels */

struct role_sums {
    double ns, calls, single, dram_ns, dram_pct_ns;
};

static void add_step(const struct context *c, const struct recognised_step *s,
                     const struct anatomy_part *parts, const double *busy_ns, struct role_sums *sums) {
    const struct recognised_work *w = c->a->recognition.work + s->first;
    for (size_t i = 0; i < s->count; i++) {
        struct role_sums *r = &sums[parts[i].role];
        double ns = busy_ns[s->first + i];
        r->ns += ns;
        r->calls++;
        if (!w[i].is_kernel) continue;
        uint32_t shape = c->tl->kernels.shape[w[i].index];
        const uint32_t *grid = c->tl->shapes[shape].grid;
        r->single += grid[0] == 1 && grid[1] == 1 && grid[2] == 1;
        const struct counter_row *row =
            c->a->counters ? counters_of_kernel(c->a->counters, c->a->shape_kernel[shape]) : NULL;
        if (!row || isnan(row->dram_pct)) continue;
        r->dram_ns += ns;
        r->dram_pct_ns += ns * row->dram_pct;
    }
}

/* Returns the role to which an operator of the model belongs; ROLE_END: none. */
static enum kernel_role role_of_op(const struct llm_op *op) {
    static const struct {
        const char *part;
        enum kernel_role role;
    } rows[] = {
        { "lm_head", ROLE_LM_HEAD }, { "shared", ROLE_SHARED_EXPERTS },
        { "router", ROLE_ROUTER },   { "experts", ROLE_EXPERTS },
        { "expert", ROLE_EXPERTS },  { "o_proj", ROLE_OUTPUT },
        { "q_proj", ROLE_QKV },      { "k_proj", ROLE_QKV },
        { "v_proj", ROLE_QKV },      { "qkv", ROLE_QKV },
        { "q_a", ROLE_QKV },         { "q_b", ROLE_QKV },
        { "kv_a", ROLE_QKV },        { "kv_b", ROLE_QKV },
        { "norm", ROLE_NORM },       { "gate", ROLE_MLP },
        { "up", ROLE_MLP },          { "down", ROLE_MLP },
        { "fc", ROLE_MLP },          { "attention", ROLE_ATTENTION },
        { "attn", ROLE_ATTENTION },  { "embed", ROLE_EMBEDDING },
    };
    for (size_t i = 0; i < COUNTOF(rows); i++)
        if (strstr(op->name, rows[i].part)) return rows[i].role;
    return ROLE_END;
}

struct role_cost { /* per decode step; NaN: unknown */
    double bytes, floor_ns;
};

static double mean_context(const struct context *c) {
    const struct recognition *r = &c->a->recognition;
    double sum = 0, n = 0;
    for (size_t i = 0; i < r->nsteps; i++) {
        double context = recognised_context(c->a, &r->steps[i]);
        if (r->steps[i].kind != STEP_DECODE || r->steps[i].warm_up || isnan(context)) continue;
        sum += context;
        n++;
    }
    return n > 0 ? sum / n : NAN;
}

/* If no kernel of the step has the first role of a pair, kernels of the second role do its work. The cost of
 * the first role is then added to the second. */
static void join_roles(struct role_cost *cost, const struct role_sums *sums) {
    static const enum kernel_role pairs[][2] = { { ROLE_SHARED_EXPERTS, ROLE_EXPERTS },
                                                 { ROLE_ROUTER, ROLE_EXPERTS } };
    for (size_t i = 0; i < COUNTOF(pairs); i++) {
        struct role_cost *from = &cost[pairs[i][0]], *to = &cost[pairs[i][1]];
        if (sums[pairs[i][0]].calls > 0 || isnan(from->bytes) || isnan(to->bytes)) continue;
        to->bytes += from->bytes;
        to->floor_ns += from->floor_ns;
        *from = (struct role_cost){ NAN, NAN };
    }
}

/* Computes the minimum number of bytes and the roofline time of each role in one decode step. */
static void model_cost(const struct context *c, double requests, const struct role_sums *sums,
                       struct role_cost *out) {
    const struct llm_model *m = c->in->llm;
    double context = mean_context(c);
    for (int r = 0; r < ROLE_END; r++) out[r] = (struct role_cost){ NAN, NAN };
    if (!m || !m->decodes || isnan(requests) || isnan(context) || c->a->no_model_costs) return;
    struct llm_setup setup = { .peak = model_peak(c, m) };
    struct llm_pass pass = llm_pass_decoder(&setup, (uint64_t)requests, 1, (uint64_t)fmax(context - 1, 0));
    for (size_t i = 0; i < m->nops; i++) {
        enum kernel_role role = role_of_op(&m->ops[i]);
        if (m->ops[i].stage != LLM_STAGE_DECODER || role == ROLE_END || m->ops[i].idle) continue;
        struct llm_cost cost = llm_cost_op(m, &setup, &m->ops[i], &pass);
        if (isnan(out[role].bytes)) out[role] = (struct role_cost){ 0, 0 };
        out[role].bytes += cost.bytes;
        out[role].floor_ns += cost.floor_s * 1e9;
    }
    join_roles(out, sums);
}

#define COUNTED_SHARE 0.8 /* if counters cover a smaller share of the busy time, dram_bytes is unknown */
#define AGREEMENT 0.15    /* bytes by the model and by the counters agree up to this relative difference */
/* If a step reads less than this many times the L2 cache, its bytes are not compared with the counters:
 * weights may stay in the cache. */
#define CACHE_TIMES 4.0

static void check_bytes(struct context *c, const struct role_sums *sums, const struct role_cost *cost) {
    struct anatomy *a = c->a->anatomy;
    double busy = 0, counted = 0, n = (double)a->steps, cache = 0;
    a->model_bytes = a->dram_bytes = 0;
    for (int r = 0; r < ROLE_END; r++) {
        busy += sums[r].ns;
        counted += sums[r].dram_ns;
        a->dram_bytes += sums[r].dram_pct_ns / 100 * 1e-9 * c->a->peak_bytes_per_s / n;
        if (isfinite(cost[r].bytes)) a->model_bytes += cost[r].bytes;
    }
    for (size_t i = 0; i < c->tl->ndevices; i++) cache = fmax(cache, (double)c->tl->devices[i].l2_bytes);
    if (!(a->model_bytes > 0)) a->model_bytes = NAN;
    if (!(counted > COUNTED_SHARE * busy)) a->dram_bytes = NAN;
    if (isnan(a->model_bytes) || isnan(a->dram_bytes) || a->model_bytes < CACHE_TIMES * cache) return;
    double ratio = a->dram_bytes / a->model_bytes;
    bool agrees = fabs(ratio - 1) <= AGREEMENT;
    analysis_note(c, agrees ? ANALYSIS_INFO : ANALYSIS_WARNING,
                  "a decode step moves %.3g GB by the DRAM counters, and at least %.3g GB by the model: %s",
                  a->dram_bytes * 1e-9, a->model_bytes * 1e-9,
                  agrees      ? analysis_text(c, "they agree (%+.1f%%)", 100 * (ratio - 1))
                  : ratio < 1 ? "this may not be the model that ran, or not all of its weights are used"
                              : "weights are read more than once, or more is moved than weights and cache");
}

static int by_time(const void *a, const void *b) {
    const struct anatomy_role *x = a, *y = b;
    if (x->ns != y->ns) return x->ns < y->ns ? 1 : -1;
    return strcmp(x->name, y->name);
}

#define ROUNDING 1e-9 /* a smaller share of idle time is a rounding error of sums */

static void set_roles(struct context *c, const struct role_sums *sums) {
    struct anatomy *a = c->a->anatomy;
    struct role_cost cost[ROLE_END];
    double busy = 0, n = (double)a->steps;
    model_cost(c, a->requests, sums, cost);
    check_bytes(c, sums, cost);
    for (int r = 0; r < ROLE_END; r++) {
        const struct role_sums *s = &sums[r];
        if (!(s->calls > 0)) continue;
        struct anatomy_role row = { .name = kernel_role_name(r),
                                    .ns = s->ns / n,
                                    .calls = s->calls / n,
                                    .single_block_calls = s->single / n,
                                    .bytes = cost[r].bytes,
                                    .floor_ns = cost[r].floor_ns };
        row.distance = row.ns / row.floor_ns;
        row.bytes_per_s = row.bytes / row.ns * 1e9;
        row.roof = row.bytes_per_s / c->a->peak_bytes_per_s;
        row.dram_pct = s->dram_ns > 0.5 * s->ns ? s->dram_pct_ns / s->dram_ns : NAN;
        row.share = row.ns / a->step_ns;
        busy += row.ns;
        a->roles[a->nroles++] = row;
    }
    if (a->step_ns - busy > ROUNDING * a->step_ns)
        a->roles[a->nroles++] = (struct anatomy_role){ .name = "idle",
                                                       .ns = a->step_ns - busy,
                                                       .share = 1 - busy / a->step_ns,
                                                       .calls = NAN,
                                                       .single_block_calls = NAN,
                                                       .bytes = NAN,
                                                       .bytes_per_s = NAN,
                                                       .roof = NAN,
                                                       .floor_ns = NAN,
                                                       .distance = NAN,
                                                       .dram_pct = NAN,
                                                       .idle = true };
    qsort(a->roles, a->nroles, sizeof *a->roles, by_time);
}

/* Recording changes the gaps between the kernels. If the time of steps that were not recorded is known, it
 * replaces the time of the step. */
static void set_unrecorded_time(const struct context *c, struct anatomy *a) {
    for (size_t i = 0; i < c->a->nstep_kinds; i++) {
        const struct analysis_step_kind *k = &c->a->step_kinds[i];
        if (k->kind != STEP_DECODE || !k->unrecorded_ns.n) continue;
        a->step_ns = k->unrecorded_ns.mean;
        a->unrecorded = k->unrecorded_ns.n;
    }
}

/* For a model without shared experts. */
static void join_shared_experts(struct anatomy_kernel *k, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (k[i].role == ROLE_SHARED_EXPERTS) k[i].role = ROLE_EXPERTS;
}

void analyze_anatomy(struct context *c) {
    const struct recognition *r = &c->a->recognition;
    struct candidate *like;
    struct role_sums sums[ROLE_END] = { { 0 } };
    size_t of, n;
    if (!r->llm || (n = usual_steps(c, &like, &of)) == 0) {
        if (r->llm) free(like);
        return;
    }
    const struct recognised_step *median = &r->steps[like[n / 2].step];
    struct anatomy_kernel *k = read_kernels(c, median);
    size_t *anchor = xmalloc((median->count + 1) * sizeof *anchor);
    size_t layers = find_layers(k, median->count, anchor);
    struct anatomy *a = c->a->anatomy = analysis_alloc(c, 1, sizeof *a);
    a->steps = n;
    a->of = of;
    a->layers = (uint32_t)layers;
    a->requests = median->requests;
    if (layers) {
        anatomy_assign_roles(k, median->count, anchor, layers);
        if (c->in->llm && !c->in->llm->text.shared_intermediate) join_shared_experts(k, median->count);
        set_parts(c, median, k);
        double *busy_ns = anatomy_busy(c);
        for (size_t i = 0; i < n; i++) {
            a->step_ns += like[i].ns / (double)n;
            add_step(c, &r->steps[like[i].step], a->parts, busy_ns, sums);
        }
        free(busy_ns);
        set_unrecorded_time(c, a);
        set_roles(c, sums);
    } else {
        c->a->anatomy = NULL;
    }
    free(anchor);
    free(k);
    free(like);
}
