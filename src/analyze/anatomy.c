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

/* Collects the decode steps with the most frequent sequence of kernels, sorted by time. */
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

/* ---- roles of its kernels */

static uint64_t work_start(const struct timeline *tl, const struct recognised_work *w) {
    return w->is_kernel ? tl->kernels.start_ns[w->index] : tl->copies.start_ns[w->index];
}
static uint64_t work_end(const struct timeline *tl, const struct recognised_work *w) {
    return w->is_kernel ? tl->kernels.end_ns[w->index] : tl->copies.end_ns[w->index];
}

static struct anatomy_kernel *read_kernels(const struct context *c, const struct recognised_step *s) {
    struct anatomy_kernel *k = xcalloc(s->count + 1, sizeof *k);
    for (size_t i = 0; i < s->count; i++) {
        const struct recognised_work *w = &c->a->recognition.work[s->first + i];
        uint32_t shape = w->is_kernel ? c->tl->kernels.shape[w->index] : 0;
        k[i] = (struct anatomy_kernel){ .name = w->is_kernel ? timeline_text(c->tl, c->tl->shapes[shape].name)
                                                             : "",
                                        .category = w->is_kernel ? c->shape_category[shape] : 0,
                                        .is_kernel = w->is_kernel };
    }
    return k;
}

/* Finds the first attention kernel after a product, once per layer. */
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
        a->parts[i] =
            (struct anatomy_part){ .start_ns = (double)(work_start(c->tl, &work[i]) - s->gpu_start_ns),
                                   .ns = (double)(work_end(c->tl, &work[i]) - work_start(c->tl, &work[i])),
                                   .layer = k[i].layer,
                                   .role = k[i].role,
                                   .is_kernel = work[i].is_kernel,
                                   .index = work[i].index };
}

/* ---- sums by role, over all steps with the same kernels */

/* While several kernels run, each one gets the time until the next one starts. Rows therefore add up to
 * the busy time. */
static double busy_until(const struct timeline *tl, const struct recognised_work *w, size_t i, size_t n,
                         uint64_t *frontier) {
    uint64_t from = MAX(work_start(tl, &w[i]), *frontier), to = work_end(tl, &w[i]);
    if (i + 1 < n) to = MAX(MIN(to, work_start(tl, &w[i + 1])), from);
    if (to <= from) return 0;
    *frontier = to;
    return (double)(to - from);
}

struct role_sums {
    double ns, calls, single, dram_ns, dram_pct_ns;
};

static void add_step(const struct context *c, const struct recognised_step *s,
                     const struct anatomy_part *parts, struct role_sums *sums) {
    const struct recognised_work *w = c->a->recognition.work + s->first;
    uint64_t frontier = 0;
    for (size_t i = 0; i < s->count; i++) {
        struct role_sums *r = &sums[parts[i].role];
        double ns = busy_until(c->tl, w, i, s->count, &frontier);
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

/* Computes the bytes of each role in one decode step; NaN if the model or the context is unknown. */
static void model_bytes(const struct context *c, double requests, double *bytes) {
    const struct llm_model *m = c->in->llm;
    double context = NAN;
    for (int r = 0; r < ROLE_END; r++) bytes[r] = NAN;
    for (size_t i = 0; i < c->a->nstages; i++) {
        const struct analysis_stage *s = &c->a->stages[i];
        if (strcmp(s->name, "prefill") == 0 && s->tokens_in > 0 && s->tokens_out > 0)
            context = s->tokens_in / s->tokens_out;
    }
    if (!m || !m->decodes || isnan(requests) || isnan(context) || c->a->no_model_costs) return;
    struct llm_setup setup = { .peak = { c->a->peak_flops_per_s, c->a->peak_bytes_per_s } };
    struct llm_pass pass =
        llm_pass_decoder(&setup, (uint64_t)requests, (uint64_t)requests, (uint64_t)context);
    for (size_t i = 0; i < m->nops; i++) {
        enum kernel_role role = role_of_op(&m->ops[i]);
        if (m->ops[i].stage != 0 || role == ROLE_END || m->ops[i].idle) continue;
        struct llm_cost cost = llm_cost_op(m, &setup, &m->ops[i], &pass);
        bytes[role] = (isnan(bytes[role]) ? 0 : bytes[role]) + cost.bytes;
    }
}

static int by_time(const void *a, const void *b) {
    const struct anatomy_role *x = a, *y = b;
    if (x->ns != y->ns) return x->ns < y->ns ? 1 : -1;
    return strcmp(x->name, y->name);
}

static void set_roles(struct context *c, const struct role_sums *sums) {
    struct anatomy *a = c->a->anatomy;
    double bytes[ROLE_END], busy = 0, n = (double)a->steps;
    model_bytes(c, a->requests, bytes);
    for (int r = 0; r < ROLE_END; r++) {
        const struct role_sums *s = &sums[r];
        if (!(s->calls > 0)) continue;
        struct anatomy_role row = { .name = kernel_role_name(r),
                                    .ns = s->ns / n,
                                    .calls = s->calls / n,
                                    .single_block_calls = s->single / n,
                                    .bytes = bytes[r] };
        row.bytes_per_s = row.bytes / row.ns * 1e9;
        row.roof = row.bytes_per_s / c->a->peak_bytes_per_s;
        row.dram_pct = s->dram_ns > 0.5 * s->ns ? s->dram_pct_ns / s->dram_ns : NAN;
        row.share = row.ns / a->step_ns;
        busy += row.ns;
        a->roles[a->nroles++] = row;
    }
    if (a->step_ns > busy)
        a->roles[a->nroles++] = (struct anatomy_role){ .name = "idle",
                                                       .ns = a->step_ns - busy,
                                                       .share = 1 - busy / a->step_ns,
                                                       .calls = NAN,
                                                       .single_block_calls = NAN,
                                                       .bytes = NAN,
                                                       .bytes_per_s = NAN,
                                                       .roof = NAN,
                                                       .dram_pct = NAN,
                                                       .idle = true };
    qsort(a->roles, a->nroles, sizeof *a->roles, by_time);
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
        set_parts(c, median, k);
        for (size_t i = 0; i < n; i++) {
            a->step_ns += like[i].ns / (double)n;
            add_step(c, &r->steps[like[i].step], a->parts, sums);
        }
        set_roles(c, sums);
    } else {
        c->a->anatomy = NULL;
    }
    free(anchor);
    free(k);
    free(like);
}
