/* Makes a digest from the traces of one rank: loads them, analyses them and keeps sums. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/intern.h"
#include "base/strbuf.h"
#include "base/util.h"
#include "base/vec.h"
#include "ranks/digest.h"
#include "ranks/exposed.h"
#include "ranks/lanes.h"
#include "ranks/trace_clock.h"
#include "timeline/timeline.h"

struct maker {
    const struct timeline *tl;
    const struct analysis *a;
    struct rank_digest *d;
    uint32_t *stage_row;   /* [a->nstages]: row of the digest's stages; RANK_NONE: not kept */
    uint32_t *number;      /* [a->noccurrences]: index among the occurrences of its stage */
    const char **warnings; /* [DIGEST_WARNINGS]: of the digest */
};

static const char *text_of(const struct maker *m, uint32_t text) {
    return digest_text(m->d, timeline_text(m->tl, text));
}

/* ---- the process */

/* Returns the process that represents the rank: the one with the most kernels. */
static size_t main_process(const struct timeline *tl) {
    size_t best = 0;
    for (size_t p = 1; p < tl->nprocesses; p++)
        if (tl->processes[p].kernels > tl->processes[best].kernels) best = p;
    return best;
}

static const char *meta_of(const struct maker *m, size_t process, const char *key) {
    for (size_t i = 0; i < m->tl->nmeta; i++)
        if (m->tl->meta[i].process == process && strcmp(timeline_text(m->tl, m->tl->meta[i].key), key) == 0)
            return text_of(m, m->tl->meta[i].value);
    return NULL;
}

static void note_bad_records(struct maker *m) {
    char text[200];
    if (!m->tl->bad_records) return;
    snprintf(
        text, sizeof text,
        "%llu records end before they start and were ignored: its clock was set back while it ran, so its "
        "times around this moment are wrong",
        (unsigned long long)m->tl->bad_records);
    m->warnings[m->d->nwarnings++] = digest_text(m->d, text);
}

/* One place is reserved for the message of add_operations(). */
static void note_unknown_times(struct maker *m) {
    struct strbuf text = STRBUF_INIT;
    for (size_t i = 0; i < m->a->nstages && m->d->nwarnings + 1 < DIGEST_WARNINGS; i++) {
        const struct analysis_stage *s = &m->a->stages[i];
        if (!s->time_refused || s->parent != ANALYSIS_NONE) continue;
        strbuf_reset(&text);
        strbuf_addf(&text, "%s: its time is unknown: %s. Record it with launches (CUDA API)", s->path,
                    s->time_refused);
        m->warnings[m->d->nwarnings++] = digest_text(m->d, text.buf);
    }
    strbuf_free(&text);
}

static void set_identity(struct maker *m) {
    size_t at = main_process(m->tl);
    const struct timeline_process *p = &m->tl->processes[at];
    struct rank_digest *d = m->d;
    d->rank = p->rank;
    d->world_size = p->world_size;
    d->local_rank = p->local_rank;
    d->node_rank = p->node_rank;
    d->pid = p->pid;
    d->host = text_of(m, p->host);
    d->node = text_of(m, p->node);
    d->launcher = text_of(m, p->launcher);
    d->job = meta_of(m, at, "job");
    d->finished = p->finished;
    d->relative_clock = p->relative_clock;
    const char **traces = digest_alloc(d, m->tl->nprocesses, sizeof *traces);
    for (size_t i = 0; i < MIN(m->tl->nprocesses, DIGEST_TRACES); i++)
        traces[d->ntraces++] = text_of(m, m->tl->processes[i].path);
    d->traces = traces;
    m->warnings = digest_alloc(d, DIGEST_WARNINGS, sizeof *m->warnings);
    d->warnings = m->warnings;
    /* two places are reserved for the messages of note_bad_records() and add_operations() */
    for (size_t i = 0; i < MIN(m->tl->nwarnings, DIGEST_WARNINGS - 2); i++)
        m->warnings[d->nwarnings++] = text_of(m, m->tl->warnings[i]);
    note_bad_records(m);
    note_unknown_times(m);
}

/* Adds a name to the list "H200,A100", unless the list already contains it. */
static void add_device_name(struct rank_digest *d, const char *name) {
    struct strbuf list = STRBUF_INIT;
    size_t n = strlen(name);
    if (!n) return;
    for (const char *p = d->device; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (strcspn(p, ",") == n && strncmp(p, name, n) == 0) return;
    strbuf_addf(&list, "%s%s%s", d->device ? d->device : "", d->device ? "," : "", name);
    d->device = digest_text(d, list.buf);
    strbuf_free(&list);
}

static void add_device(struct maker *m, size_t device) {
    const struct timeline_device *t = &m->tl->devices[device];
    const struct analysis_device *a = &m->a->devices[device];
    struct rank_digest *d = m->d;
    if (!(a->timeline_ns > 0)) return;
    if (!d->device_uuid) d->device_uuid = text_of(m, t->uuid);
    add_device_name(d, timeline_text(m->tl, t->name));
    if (isnan(d->timeline_ns)) d->timeline_ns = d->unrecorded_ns = d->hidden_ns = 0;
    d->timeline_ns += a->timeline_ns;
    d->unrecorded_ns += a->unrecorded_ns;
    d->hidden_ns += a->communication_hidden_ns;
}

static double sum_known(double a, double b) { return isnan(a) ? b : isnan(b) ? a : a + b; }

static void set_totals(struct maker *m) {
    struct rank_digest *d = m->d;
    d->kernels = m->tl->kernels.n;
    d->launches = m->tl->launches.n;
    d->first_ns = m->tl->start_ns;
    d->last_ns = m->tl->end_ns;
    d->base_ns = d->first_ns;
    d->ncollectives_total = m->tl->collectives.n;
    for (size_t k = 0; k < TRACE_KIND_END; k++) d->lost_records += m->tl->lost[k];
    for (size_t i = 0; i < m->tl->ndevices; i++) add_device(m, i);
    for (size_t i = 0; i < m->a->npowers; i++) {
        const struct analysis_power *p = &m->a->powers[i];
        if (!(m->a->devices[p->device].timeline_ns > 0)) continue;
        if (isnan(d->sm_mhz_mean)) d->sm_mhz_mean = p->sm_mhz_busy_mean;
        d->throttled_ns = sum_known(d->throttled_ns, p->throttled_ns);
        d->joules = sum_known(d->joules, p->joules);
    }
}

static void set_clock_steps(struct maker *m, const struct trace_clock_rank *clock) {
    struct rank_clock_step *steps = digest_alloc(m->d, clock->nsteps, sizeof *steps);
    for (size_t i = 0; i < clock->nsteps; i++) steps[i] = clock->steps[i];
    m->d->clock_steps = steps;
    m->d->nclock_steps = clock->nsteps;
}

/* ---- stages and steps */

static void add_unassigned(struct digest_unassigned *sum, const struct digest_stage *s) {
    sum->compute_ns += s->compute_ns;
    sum->exposed_ns += s->exposed_ns;
    sum->copy_ns += s->copy_ns;
    sum->idle_ns += s->idle_ns;
}

static void clear_times(struct digest_stage *s) {
    s->compute_ns = s->exposed_ns = s->copy_ns = s->idle_ns = NAN;
    for (int c = 0; c < ANALYSIS_IDLE_CAUSES; c++) s->idle_cause_ns[c] = NAN;
    for (int c = 0; c < KERNEL_CATEGORY_END; c++) s->category_ns[c] = NAN;
}

static void fill_stage(struct maker *m, size_t row, struct digest_stage *out) {
    const struct analysis_stage *s = &m->a->stages[row];
    *out = (struct digest_stage){ .name = digest_text(m->d, s->name),
                                  .path = digest_text(m->d, s->path),
                                  .parent = s->parent == ANALYSIS_NONE ? RANK_NONE : m->stage_row[s->parent],
                                  .outside = s->outside,
                                  .implicit = s->implicit,
                                  .occurrences = s->occurrences,
                                  .kernels = s->kernels,
                                  .launches = s->launches,
                                  .tokens_in = s->tokens_in,
                                  .tokens_out = s->tokens_out,
                                  .steps_per_row = 1 };
    for (size_t dev = 0; dev < m->a->ndevices; dev++) {
        const struct analysis_stage_device *on = analysis_stage_on(m->a, row, dev);
        out->compute_ns += on->busy_ns - on->copy_alone_ns - on->exposed_ns;
        out->exposed_ns += on->exposed_ns;
        out->copy_ns += on->copy_alone_ns;
        out->idle_ns += on->idle_ns;
        for (int c = 0; c < ANALYSIS_IDLE_CAUSES; c++) out->idle_cause_ns[c] += on->cause_ns[c];
    }
    for (int c = 0; c < KERNEL_CATEGORY_END; c++) out->category_ns[c] = s->category_ns[c];
    if (!s->time_refused) return;
    if (s->parent == ANALYSIS_NONE) add_unassigned(&m->d->unassigned, out);
    clear_times(out);
}

static bool is_empty_stage(const struct analysis *a, size_t row) {
    double ns = 0;
    for (size_t dev = 0; dev < a->ndevices; dev++) {
        const struct analysis_stage_device *on = analysis_stage_on(a, row, dev);
        ns += on->busy_ns + on->idle_ns;
    }
    return !a->stages[row].occurrences && !(ns > 0);
}

static void add_stages(struct maker *m) {
    struct rank_digest *d = m->d;
    d->stages = digest_alloc(d, DIGEST_STAGES, sizeof *d->stages);
    for (size_t i = 0; i < m->a->nstages; i++) {
        const struct analysis_stage *s = &m->a->stages[i];
        bool orphan = s->parent != ANALYSIS_NONE && m->stage_row[s->parent] == RANK_NONE;
        /* the last stage is the time between steps; one place is reserved for it */
        bool room = d->nstages + 1 < DIGEST_STAGES || (s->outside && d->nstages < DIGEST_STAGES);
        m->stage_row[i] = RANK_NONE;
        if (orphan || !room || is_empty_stage(m->a, i)) continue;
        m->stage_row[i] = (uint32_t)d->nstages;
        fill_stage(m, i, &d->stages[d->nstages++]);
    }
}

static void add_steps_of(struct maker *m, size_t stage) {
    struct digest_stage *out = &m->d->stages[m->stage_row[stage]];
    uint64_t n = m->a->stages[stage].occurrences;
    while (n > (uint64_t)out->steps_per_row * RANK_STEPS_MAX && out->steps_per_row < 1u << 30)
        out->steps_per_row *= 2;
    out->rows = digest_alloc(m->d, RANK_STEPS_MAX, sizeof *out->rows);
    for (size_t i = 0; i < m->a->noccurrences; i++) {
        const struct analysis_occurrence *o = &m->a->occurrences[i];
        size_t at = m->number[i] / out->steps_per_row;
        if (o->stage != stage || at >= RANK_STEPS_MAX) continue;
        struct digest_step *row = &out->rows[at];
        if (!row->steps) row->start_ns = o->start_ns;
        row->steps++;
        row->wall_ns += analysis_occurrence_time(o);
        row->compute_ns += o->busy_ns - o->copy_ns - o->exposed_ns;
        row->exposed_ns += o->exposed_ns;
        row->tokens += fmax(o->tokens_in, o->tokens_out); /* NaN only if both are unknown */
        out->nrows = MAX(out->nrows, at + 1);
    }
}

static void add_steps(struct maker *m) {
    uint32_t *seen = xcalloc(m->a->nstages + 1, sizeof *seen);
    for (size_t i = 0; i < m->a->noccurrences; i++) m->number[i] = seen[m->a->occurrences[i].stage]++;
    free(seen);
    for (size_t s = 0; s < m->a->nstages; s++) {
        const struct analysis_stage *stage = &m->a->stages[s];
        if (m->stage_row[s] != RANK_NONE && stage->parent == ANALYSIS_NONE && stage->occurrences &&
            !stage->time_refused)
            add_steps_of(m, s);
    }
    if (m->a->noccurrences && !m->a->stages[0].implicit)
        m->d->first_step_end_ns = m->a->occurrences[0].wall_end_ns;
}

/* ---- kernels */

static void add_classes(struct maker *m) {
    struct rank_digest *d = m->d;
    d->classes = digest_alloc(d, DIGEST_CLASSES, sizeof *d->classes);
    for (size_t i = 0; i < m->a->nkernels && d->nclasses < DIGEST_CLASSES; i++) {
        const struct analysis_kernel *k = &m->a->kernels[i];
        const struct timeline_shape *s = &m->tl->shapes[k->shape];
        d->classes[d->nclasses++] = (struct digest_class){
            .name = digest_text(d, k->name),
            .blocks = k->blocks,
            .threads = (uint64_t)s->block[0] * MAX(1, s->block[1]) * MAX(1, s->block[2]),
            .calls = k->calls,
            .total_ns = k->total_ns,
            .communicates = k->category == KERNEL_CATEGORY_COMMUNICATION,
        };
    }
}

/* ---- collectives */

/* Collectives with equal keys share a row of `operations`. */
struct operation_key {
    uint64_t communicator, bytes;
    uint32_t op, type, size, from, to, flags;
};

static bool is_pair(const struct trace_collective *v) {
    return v->op == TRACE_OP_SEND || v->op == TRACE_OP_RECV;
}

static uint32_t known_u32(uint32_t v) { return v == TRACE_UNKNOWN_U32 ? 0 : v; }

/* Returns RANK_NONE if the operation is new and the digest has DIGEST_OPERATIONS operations. */
static uint32_t operation_row(struct maker *m, struct intern *rows, const struct trace_collective *v) {
    struct operation_key key;
    memset(&key, 0, sizeof key);
    bool pair = is_pair(v), sends = v->op == TRACE_OP_SEND;
    key.communicator = v->communicator;
    key.bytes = v->bytes == TRACE_UNKNOWN_U64 ? 0 : v->bytes;
    key.op = v->op;
    key.type = v->data_type;
    key.size = known_u32(v->size);
    key.from = !pair ? RANK_NONE : sends ? v->rank : v->peer;
    key.to = !pair ? RANK_NONE : sends ? v->peer : v->rank;
    key.flags = v->flags & TRACE_COLLECTIVE_FROM_KERNEL;
    struct rank_digest *d = m->d;
    if (d->noperations == DIGEST_OPERATIONS) return intern_find(rows, (const char *)&key, sizeof key);
    uint32_t id = intern_id(rows, (const char *)&key, sizeof key);
    if (id < d->noperations) return id;
    bool directed = !pair || (key.from != RANK_NONE && key.to != RANK_NONE);
    d->operations[d->noperations++] = (struct digest_operation){
        .communicator = v->communicator,
        .communicator_name = text_of(m, v->communicator_name),
        .op = digest_text(d, trace_collective_op_name(v->op)),
        .type = text_of(m, v->data_type),
        .bytes = key.bytes,
        .size = key.size,
        .pair = pair,
        .from_rank = key.from,
        .to_rank = key.to,
        .from_kernel = key.flags != 0,
        /* a kernel that sends and receives belongs to unknown pairs, unless the communicator has two ranks */
        .matchable = v->communicator != TRACE_UNKNOWN_U64 && directed &&
                     (v->op != TRACE_OP_SEND_RECV || key.size == 2),
    };
    return id;
}

static void report_left_out(struct maker *m, size_t left_out) {
    char text[200];
    snprintf(
        text, sizeof text,
        "%zu of %zu collectives are not analysed: a rank can have %d different communicators, operations "
        "and sizes of messages",
        left_out, m->tl->collectives.n, DIGEST_OPERATIONS);
    m->warnings[m->d->nwarnings++] = digest_text(m->d, text);
}

/* Groups the collectives by operation. Returns the operation's row of each collective, or RANK_NONE if the
 * operation is not kept; the caller frees it. */
static uint32_t *add_operations(struct maker *m) {
    const struct timeline_collectives *c = &m->tl->collectives;
    uint32_t *row = xmalloc((c->n + 1) * sizeof *row);
    struct intern *rows = intern_open();
    size_t cap = 0, left_out = 0;
    m->d->operations = NULL;
    for (size_t i = 0; i < c->n; i++) {
        m->d->operations = vec_fit(m->d->operations, m->d->noperations + 1, &cap, sizeof *m->d->operations);
        row[i] = operation_row(m, rows, &c->v[i]);
        if (row[i] == RANK_NONE)
            left_out++;
        else
            m->d->operations[row[i]].calls++;
    }
    digest_keep(m->d, m->d->operations);
    intern_close(rows);
    if (left_out) report_left_out(m, left_out);
    return row;
}

static bool is_kept(const struct maker *m, const uint32_t *row, size_t i, uint32_t every) {
    const struct trace_collective *v = &m->tl->collectives.v[i];
    return row[i] != RANK_NONE && m->d->operations[row[i]].matchable && v->sequence != TRACE_UNKNOWN_U64 &&
           !(v->flags & TRACE_COLLECTIVE_OPEN) && v->sequence % every == 0;
}

static size_t count_kept(const struct maker *m, const uint32_t *row, uint32_t every) {
    size_t n = 0;
    for (size_t i = 0; i < m->tl->collectives.n; i++) n += is_kept(m, row, i, every);
    return n;
}

static void set_stage_of(const struct maker *m, size_t i, struct digest_collective *out) {
    const struct timeline_collectives *c = &m->tl->collectives;
    uint32_t o = c->kernel[i] != TIMELINE_NONE  ? m->a->kernel_occurrence[c->kernel[i]]
                 : c->range[i] != TIMELINE_NONE ? m->a->range_occurrence[c->range[i]]
                                                : ANALYSIS_NONE;
    out->stage = DIGEST_NO_STAGE;
    out->step = RANK_NONE;
    if (o == ANALYSIS_NONE) return;
    while (m->a->occurrences[o].parent != ANALYSIS_NONE) o = m->a->occurrences[o].parent;
    uint32_t stage = m->a->occurrences[o].stage, row = m->stage_row[stage];
    if (row == RANK_NONE || m->a->stages[stage].time_refused) return;
    out->stage = (uint16_t)row;
    out->step = m->number[o];
}

static struct digest_collective collective_of(const struct maker *m, const uint32_t *row, size_t i) {
    const struct trace_collective *v = &m->tl->collectives.v[i];
    bool on_gpu = v->flags & TRACE_COLLECTIVE_KERNEL_TIMES;
    struct digest_collective out = { .sequence = v->sequence,
                                     .start_ns = on_gpu ? v->kernel_start_ns : v->start_ns,
                                     .end_ns = on_gpu ? v->kernel_end_ns : v->end_ns,
                                     .operation = row[i],
                                     .exposed_ns = NAN };
    set_stage_of(m, i, &out);
    return out;
}

static void add_collectives(struct maker *m, size_t limit) {
    struct rank_digest *d = m->d;
    const struct timeline_collectives *c = &m->tl->collectives;
    uint32_t *row = add_operations(m);
    struct exposed *exposed = exposed_find(m->tl, m->a);
    while (count_kept(m, row, d->every) > limit && d->every < 1u << 30) d->every *= 2;
    d->collectives = digest_alloc(d, count_kept(m, row, d->every), sizeof *d->collectives);
    size_t pieces_cap = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (row[i] == RANK_NONE) continue;
        const struct exposed_row *e = &exposed->rows[i];
        struct digest_operation *op = &d->operations[row[i]];
        if (e->has_kernel) op->exposed_ns += (double)e->ns;
        op->total_ns += (double)(c->end_ns[i] - c->start_ns[i]);
        if (!is_kept(m, row, i, d->every)) continue;
        struct digest_collective out = collective_of(m, row, i);
        if (e->has_kernel) out.exposed_ns = (float)e->ns;
        if (e->npieces && e->npieces <= DIGEST_PIECES && e->ns < out.end_ns - out.start_ns) {
            out.first_piece = (uint32_t)d->npieces;
            out.npieces = (uint8_t)e->npieces;
            d->pieces = vec_fit(d->pieces, d->npieces + e->npieces, &pieces_cap, sizeof *d->pieces);
            exposed_copy(exposed, i, out.start_ns, &d->pieces[d->npieces]);
            d->npieces += e->npieces;
        }
        d->collectives[d->ncollectives++] = out;
    }
    digest_keep(d, d->pieces);
    exposed_free(exposed);
    free(row);
}

struct rank_digest *rank_digest_make(const char *const *paths, size_t n, const struct digest_limits *limits,
                                     struct err *err) {
    static const struct rank_options defaults = { 0 };
    const struct rank_options *o = limits && limits->options ? limits->options : &defaults;
    struct trace_clock_rank clock = { .steps = limits ? limits->steps : NULL,
                                      .nsteps = limits ? limits->nsteps : 0 };
    struct timeline_clocks clocks = trace_clock_functions(&clock);
    struct timeline_options how = { .clocks = clock.nsteps ? &clocks : NULL,
                                    .traces = limits ? limits->traces : NULL };
    struct timeline *tl = timeline_load_with(paths, n, &how, err);
    if (!tl) return NULL;
    struct analyze_input input = { .rules = o->rules,
                                   .nrules = o->nrules,
                                   .no_steps = o->no_steps,
                                   .brief = true,
                                   .peak_flops_per_s = NAN,
                                   .peak_bytes_per_s = NAN };
    struct analysis a;
    analyze_run(tl, &input, &a);
    struct maker m = { .tl = tl,
                       .a = &a,
                       .d = digest_new(),
                       .stage_row = xcalloc(a.nstages + 1, sizeof *m.stage_row),
                       .number = xcalloc(a.noccurrences + 1, sizeof *m.number) };
    set_identity(&m);
    set_totals(&m);
    set_clock_steps(&m, &clock);
    add_stages(&m);
    add_steps(&m);
    add_classes(&m);
    add_collectives(&m, limits && limits->collectives ? limits->collectives : DIGEST_COLLECTIVES);
    if (limits && tl->kernels.n && tl->kernels.n <= limits->kept_kernels) {
        m.d->kept_kernels = digest_keep(m.d, rank_lane_kernels(tl));
        m.d->nkept_kernels = tl->kernels.n;
    }
    digest_finish(m.d);
    free(m.stage_row);
    free(m.number);
    analysis_free(&a);
    timeline_close(tl);
    return m.d;
}
