/* Writes a digest as JSON. Tables of collectives and steps are written as columns of equal length. */
#include <math.h>

#include "base/file.h"
#include "base/jsonw.h"
#include "base/schema.h"
#include "ranks/digest.h"

static void known_u32(struct jsonw *j, const char *key, uint32_t v) {
    jsonw_key(j, key);
    if (v == RANK_NONE)
        jsonw_null(j);
    else
        jsonw_u64(j, v);
}

/* Writes a time relative to base_ns. It may be negative: base_ns does not depend on the times of
 * collectives. */
static void relative(struct jsonw *j, const struct rank_digest *d, uint64_t ns) {
    jsonw_i64(j, (int64_t)(ns - d->base_ns));
}

static void write_identity(struct jsonw *j, const struct rank_digest *d) {
    known_u32(j, "rank", d->rank);
    known_u32(j, "world_size", d->world_size);
    known_u32(j, "local_rank", d->local_rank);
    known_u32(j, "node_rank", d->node_rank);
    known_u32(j, "pid", d->pid);
    jsonw_kstr(j, "node", d->node);
    jsonw_kstr(j, "host", d->host);
    jsonw_kstr(j, "launcher", d->launcher);
    jsonw_kstr(j, "job", d->job);
    jsonw_kbool(j, "finished", d->finished);
    jsonw_kbool(j, "relative_clock", d->relative_clock);
    jsonw_kstr(j, "device", d->device);
    jsonw_kstr(j, "device_uuid", d->device_uuid);
    jsonw_karray(j, "traces");
    for (size_t i = 0; i < d->ntraces; i++) jsonw_str(j, d->traces[i]);
    jsonw_end(j);
    jsonw_karray(j, "problems");
    for (size_t i = 0; i < d->nwarnings; i++) jsonw_str(j, d->warnings[i]);
    jsonw_end(j);
}

static void write_clock_steps(struct jsonw *j, const struct rank_digest *d) {
    jsonw_karray(j, "clock_steps");
    for (size_t i = 0; i < d->nclock_steps; i++) {
        jsonw_object(j);
        jsonw_ku64(j, "at_ns", d->clock_steps[i].at_ns);
        jsonw_knum(j, "step_ns", d->clock_steps[i].step_ns);
        jsonw_knum(j, "error_ns", d->clock_steps[i].error_ns);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_totals(struct jsonw *j, const struct rank_digest *d) {
    jsonw_ku64(j, "base_ns", d->base_ns);
    jsonw_key(j, "last_ns");
    relative(j, d, d->last_ns);
    jsonw_key(j, "first_step_end_ns");
    if (d->first_step_end_ns)
        relative(j, d, d->first_step_end_ns);
    else
        jsonw_null(j);
    jsonw_ku64(j, "kernels", d->kernels);
    jsonw_ku64(j, "launches", d->launches);
    jsonw_ku64(j, "lost_records", d->lost_records);
    jsonw_ku64(j, "collectives_recorded", d->ncollectives_total);
    jsonw_knum(j, "timeline_ns", d->timeline_ns);
    jsonw_knum(j, "unrecorded_ns", d->unrecorded_ns);
    jsonw_knum(j, "hidden_ns", d->hidden_ns);
    jsonw_knum(j, "sm_mhz_mean", d->sm_mhz_mean);
    jsonw_knum(j, "throttled_ns", d->throttled_ns);
    jsonw_knum(j, "joules", d->joules);
}

static void write_numbers(struct jsonw *j, const char *key, const double *v, size_t n) {
    jsonw_karray(j, key);
    for (size_t i = 0; i < n; i++) jsonw_num(j, v[i]);
    jsonw_end(j);
}

#define COLUMN(j, key, n, expression)                       \
    do {                                                    \
        jsonw_karray(j, key);                               \
        for (size_t i_ = 0; i_ < (n); i_++) { expression; } \
        jsonw_end(j);                                       \
    } while (0)

static void write_steps(struct jsonw *j, const struct rank_digest *d, const struct digest_stage *s) {
    jsonw_ku64(j, "steps_per_row", s->steps_per_row);
    jsonw_kobject(j, "rows");
    COLUMN(j, "start_ns", s->nrows, relative(j, d, s->rows[i_].start_ns));
    COLUMN(j, "steps", s->nrows, jsonw_u64(j, s->rows[i_].steps));
    COLUMN(j, "wall_ns", s->nrows, jsonw_num(j, s->rows[i_].wall_ns));
    COLUMN(j, "compute_ns", s->nrows, jsonw_num(j, s->rows[i_].compute_ns));
    COLUMN(j, "exposed_ns", s->nrows, jsonw_num(j, s->rows[i_].exposed_ns));
    COLUMN(j, "tokens", s->nrows, jsonw_num(j, s->rows[i_].tokens));
    jsonw_end(j);
}

static void write_stages(struct jsonw *j, const struct rank_digest *d) {
    jsonw_karray(j, "stages");
    for (size_t i = 0; i < d->nstages; i++) {
        const struct digest_stage *s = &d->stages[i];
        jsonw_object(j);
        jsonw_kstr(j, "name", s->name);
        jsonw_kstr(j, "path", s->path);
        known_u32(j, "parent", s->parent);
        jsonw_kbool(j, "outside", s->outside);
        jsonw_kbool(j, "implicit", s->implicit);
        jsonw_ku64(j, "occurrences", s->occurrences);
        jsonw_ku64(j, "kernels", s->kernels);
        jsonw_ku64(j, "launches", s->launches);
        jsonw_knum(j, "tokens_in", s->tokens_in);
        jsonw_knum(j, "tokens_out", s->tokens_out);
        jsonw_knum(j, "compute_ns", s->compute_ns);
        jsonw_knum(j, "exposed_ns", s->exposed_ns);
        jsonw_knum(j, "copy_ns", s->copy_ns);
        jsonw_knum(j, "idle_ns", s->idle_ns);
        write_numbers(j, "idle_cause_ns", s->idle_cause_ns, ANALYSIS_IDLE_CAUSES);
        write_numbers(j, "category_ns", s->category_ns, KERNEL_CATEGORY_END);
        write_steps(j, d, s);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_unassigned(struct jsonw *j, const struct digest_unassigned *t) {
    jsonw_kobject(j, "unassigned");
    jsonw_knum(j, "compute_ns", t->compute_ns);
    jsonw_knum(j, "exposed_ns", t->exposed_ns);
    jsonw_knum(j, "copy_ns", t->copy_ns);
    jsonw_knum(j, "idle_ns", t->idle_ns);
    jsonw_end(j);
}

static void write_classes(struct jsonw *j, const struct rank_digest *d) {
    jsonw_karray(j, "kernel_classes");
    for (size_t i = 0; i < d->nclasses; i++) {
        const struct digest_class *c = &d->classes[i];
        jsonw_object(j);
        jsonw_kstr(j, "name", c->name);
        jsonw_ku64(j, "blocks", c->blocks);
        jsonw_ku64(j, "threads", c->threads);
        jsonw_ku64(j, "calls", c->calls);
        jsonw_knum(j, "total_ns", c->total_ns);
        jsonw_kbool(j, "communicates", c->communicates);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_operations(struct jsonw *j, const struct rank_digest *d) {
    char hex[24];
    jsonw_karray(j, "operations");
    for (size_t i = 0; i < d->noperations; i++) {
        const struct digest_operation *o = &d->operations[i];
        jsonw_object(j);
        /* 64-bit ids as text, because many JSON readers round large numbers */
        snprintf(hex, sizeof hex, "%016llx", (unsigned long long)o->communicator);
        jsonw_kstr(j, "communicator", hex);
        jsonw_kstr(j, "communicator_name", o->communicator_name);
        jsonw_kstr(j, "operation", o->op);
        jsonw_kstr(j, "type", o->type);
        jsonw_ku64_known(j, "bytes", o->bytes);
        jsonw_ku64_known(j, "size", o->size);
        jsonw_kbool(j, "pair", o->pair);
        known_u32(j, "from_rank", o->from_rank);
        known_u32(j, "to_rank", o->to_rank);
        jsonw_kbool(j, "from_kernel", o->from_kernel);
        jsonw_kbool(j, "matchable", o->matchable);
        jsonw_ku64(j, "calls", o->calls);
        jsonw_knum(j, "exposed_ns", o->exposed_ns);
        jsonw_knum(j, "total_ns", o->total_ns);
        jsonw_end(j);
    }
    jsonw_end(j);
}

/* Writes [from, to, from, to, ...]. */
static void write_pieces(struct jsonw *j, const struct rank_digest *d, const struct digest_collective *c) {
    jsonw_array(j);
    for (size_t i = 0; i < c->npieces; i++) {
        jsonw_u64(j, d->pieces[c->first_piece + i].from_ns);
        jsonw_u64(j, d->pieces[c->first_piece + i].to_ns);
    }
    jsonw_end(j);
}

static void write_collectives(struct jsonw *j, const struct rank_digest *d) {
    const struct digest_collective *c = d->collectives;
    size_t n = d->ncollectives;
    jsonw_kobject(j, "collectives");
    jsonw_ku64(j, "every", d->every);
    COLUMN(j, "operation", n, jsonw_u64(j, c[i_].operation));
    COLUMN(j, "sequence", n, jsonw_u64(j, c[i_].sequence));
    COLUMN(j, "start_ns", n, relative(j, d, c[i_].start_ns));
    COLUMN(j, "end_ns", n, relative(j, d, c[i_].end_ns));
    COLUMN(j, "exposed_ns", n, jsonw_num(j, (double)c[i_].exposed_ns));
    COLUMN(j, "stage", n, c[i_].stage == DIGEST_NO_STAGE ? jsonw_null(j) : jsonw_u64(j, c[i_].stage));
    COLUMN(j, "step", n, c[i_].step == RANK_NONE ? jsonw_null(j) : jsonw_u64(j, c[i_].step));
    COLUMN(j, "exposed_parts", n, write_pieces(j, d, &c[i_]));
    jsonw_end(j);
}

int rank_digest_write(const struct rank_digest *d, const char *path, struct err *err) {
    struct strbuf s = STRBUF_INIT;
    struct jsonw j;
    jsonw_start(&j, &s, JSONW_COMPACT);
    jsonw_object(&j);
    jsonw_kstr(&j, "schema", SCHEMA_DIGEST);
    write_identity(&j, d);
    write_totals(&j, d);
    write_clock_steps(&j, d);
    write_stages(&j, d);
    write_unassigned(&j, &d->unassigned);
    write_classes(&j, d);
    write_operations(&j, d);
    write_collectives(&j, d);
    jsonw_end(&j);
    jsonw_finish(&j);
    strbuf_addch(&s, '\n');
    int rc = file_write_atomic(path, s.buf, s.len, err);
    strbuf_free(&s);
    return rc;
}
