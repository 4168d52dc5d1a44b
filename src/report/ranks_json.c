/* ranks.json: every number of a job of several ranks (schemas/ranks.schema.json). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/jsonw.h"
#include "base/schema.h"
#include "report/ranks.h"
#include "report/ranks_columns.h"

static void write_known(struct jsonw *j, const char *key, uint32_t v) {
    if (v == RANK_NONE)
        jsonw_knum(j, key, NAN);
    else
        jsonw_ku64(j, key, v);
}

/* Writes the members of one row. */
static void write_row(const struct rank_report *r, const struct column_group *group, const void *item,
                      size_t index, struct jsonw *j) {
    columns_json(group, &(struct column_row){ r, item, index }, j);
}

static void write_time(struct jsonw *j, const struct rank_time *t) {
    write_row(NULL, &rank_time_columns, t, 0, j);
}

static void write_cost(struct jsonw *j, const struct rank_cost *c) {
    write_row(NULL, &rank_cost_columns, c, 0, j);
}

static void write_layout(const struct rank_report *r, struct jsonw *j) {
    const struct rank_layout *l = r->layout;
    jsonw_kobject(j, "layout");
    jsonw_ku64_known(j, "tp", l->source ? l->sizes.tp : 0);
    jsonw_ku64_known(j, "pp", l->source ? l->sizes.pp : 0);
    jsonw_ku64_known(j, "ep", l->source ? l->sizes.ep : 0);
    jsonw_ku64_known(j, "dp", l->source ? l->sizes.dp : 0);
    jsonw_kstr(j, "source", l->source);
    jsonw_kstr(j, "reason", l->why);
    jsonw_end(j);
}

static void write_stages(const struct rank_report *r, struct jsonw *j) {
    jsonw_karray(j, "stages");
    for (size_t s = 0; s < r->job->nstages; s++) {
        jsonw_object(j);
        write_row(r, &rank_stage_columns, &r->job->stages[s], s, j);
        write_cost(j, &r->costs->job[s]);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_cells(const struct rank_report *r, size_t row, struct jsonw *j) {
    jsonw_karray(j, "stages");
    for (size_t s = 0; s < r->job->nstages; s++) {
        const struct rank_cell *c = rank_job_cell(r->job, row, s);
        if (!c->present) continue;
        jsonw_object(j);
        write_row(r, &rank_cell_columns, c, s, j);
        write_time(j, &c->time);
        write_cost(j, &r->costs->cells[row * r->job->nstages + s]);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_ranks(const struct rank_report *r, struct jsonw *j) {
    jsonw_karray(j, "ranks");
    for (size_t i = 0; i < r->job->nranks; i++) {
        const struct rank_row *k = &r->job->ranks[i];
        jsonw_object(j);
        write_row(r, &rank_rank_columns, k, i, j);
        if (k->state != RANK_STATE_MISSING) write_time(j, &k->time);
        write_row(r, &rank_rank_more_columns, k, i, j);
        write_cells(r, i, j);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_clock_steps(const struct rank_clock *c, struct jsonw *j) {
    struct rank_clock_change step;
    jsonw_karray(j, "steps");
    for (size_t i = 0; rank_clock_change(c, i, &step); i++) {
        jsonw_object(j);
        jsonw_ku64(j, "time_ns", step.job_ns);
        jsonw_knum(j, "step_ns", step.step_ns);
        jsonw_knum(j, "error_ns", step.error_ns);
        jsonw_kbool(j, "removed", step.removed);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_nodes(const struct rank_report *r, struct jsonw *j) {
    jsonw_karray(j, "nodes");
    for (size_t i = 0; i < r->job->nnodes; i++) {
        const struct rank_node *n = &r->job->nodes[i];
        jsonw_object(j);
        write_row(r, &rank_node_columns, n, i, j);
        write_time(j, &n->time);
        jsonw_end(j);
    }
    jsonw_end(j);
    jsonw_karray(j, "clocks");
    for (size_t i = 0; i < r->job->nclocks; i++) {
        const struct rank_clock *c = &r->job->clocks[i];
        jsonw_object(j);
        write_row(r, &rank_clock_columns, c, i, j);
        jsonw_karray(j, "changes_ns");
        for (size_t k = 1; k < c->nsegments; k++) jsonw_u64(j, c->segments[k].begin_ns);
        jsonw_end(j);
        write_clock_steps(c, j);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_communicators(const struct rank_report *r, struct jsonw *j) {
    jsonw_karray(j, "communicators");
    for (size_t i = 0; i < r->job->ncommunicators; i++) {
        const struct rank_communicator *c = &r->job->communicators[i];
        char id[24];
        snprintf(id, sizeof id, "%016" PRIx64, c->id);
        jsonw_object(j);
        jsonw_kstr(j, "id", id);
        write_row(r, &rank_communicator_columns, c, i, j);
        jsonw_karray(j, "ranks");
        for (size_t k = 0; k < c->nranks; k++) jsonw_u64(j, c->ranks[k]);
        jsonw_end(j);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_collectives(const struct rank_report *r, struct jsonw *j) {
    columns_json_array(
        "collectives", &rank_collective_columns, r,
        (struct column_items){ r->job->collectives, r->job->ncollectives, sizeof *r->job->collectives },
        SIZE_MAX, j);
}

static void write_steps(const struct rank_report *r, struct jsonw *j) {
    const struct rank_job *job = r->job;
    jsonw_karray(j, "steps");
    for (size_t k = 0; k < job->nsteps; k++) {
        const struct rank_steps *s = &job->steps[k];
        jsonw_object(j);
        jsonw_ku64(j, "stage", s->stage);
        jsonw_ku64(j, "steps_per_row", s->steps_per_row);
        jsonw_karray(j, "compute_ns"); /* [steps][ranks] */
        for (size_t i = 0; i < s->nrows; i++) {
            jsonw_array(j);
            for (size_t n = 0; n < job->nranks; n++)
                jsonw_num(j, (double)s->cells[i * job->nranks + n].compute_ns);
            jsonw_end(j);
        }
        jsonw_end(j);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_findings(const struct rank_report *r, struct jsonw *j) {
    jsonw_karray(j, "findings");
    for (size_t i = 0; i < r->findings->n; i++) {
        const struct rank_finding *f = &r->findings->v[i];
        jsonw_object(j);
        jsonw_kstr(j, "rule", f->rule);
        jsonw_kstr(j, "title", f->title);
        jsonw_kstr(j, "evidence", f->evidence);
        jsonw_kstr(j, "advice", f->advice);
        write_known(j, "stage", f->stage);
        write_known(j, "rank", f->rank);
        jsonw_knum(j, "saving_ms_per_step", f->saving_ms);
        jsonw_knum(j, "step_ms", f->step_ms);
        jsonw_knum(j, "saving_percent", f->saving_percent);
        jsonw_kstr(j, "confidence", analysis_confidence_name(f->confidence));
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_straggler(const struct rank_report *r, struct jsonw *j) {
    const struct rank_straggler *s = &r->job->straggler;
    bool known = s->rank != RANK_NONE;
    jsonw_kobject(j, "straggler");
    write_known(j, "rank", s->rank);
    write_known(j, "stage", known ? s->stage : RANK_NONE);
    jsonw_kstr(j, "reason", known && s->reason != RANK_REASON_UNKNOWN ? rank_reason_name(s->reason) : NULL);
    jsonw_kstr(j, "evidence", known ? s->evidence : NULL);
    jsonw_knum(j, "last_share", known ? s->last_share : NAN);
    jsonw_knum(j, "wait_caused_ns", known ? s->wait_caused_ns : NAN);
    jsonw_knum(j, "behind_ns", known ? s->behind_ns : NAN);
    jsonw_end(j);
}

void rank_json(const struct rank_report *r, struct strbuf *out) {
    const struct rank_job *job = r->job;
    struct jsonw j;
    jsonw_start(&j, out, JSONW_COMPACT);
    jsonw_object(&j);
    jsonw_kstr(&j, "schema", SCHEMA_RANKS);
    jsonw_kstr(&j, "version", r->version);
    jsonw_kstr(&j, "title", r->title);
    jsonw_kstr(&j, "model", r->model);
    write_known(&j, "world_size", job->world_size);
    jsonw_ku64(&j, "present", job->present);
    jsonw_ku64(&j, "died", job->died);
    jsonw_ku64(&j, "late", job->late);
    jsonw_ku64(&j, "missing", job->missing);
    jsonw_knum(&j, "clock_error_ns", job->clock_error_ns);
    jsonw_ku64(&j, "matched", job->matched);
    jsonw_knum(&j, "timeline_ns", job->timeline_ns);
    jsonw_kobject(&j, "time");
    write_time(&j, &job->time);
    jsonw_end(&j);
    write_layout(r, &j);
    jsonw_kstr(&j, "no_costs", r->costs->why);
    write_straggler(r, &j);
    write_findings(r, &j);
    write_stages(r, &j);
    write_nodes(r, &j);
    write_communicators(r, &j);
    write_collectives(r, &j);
    write_ranks(r, &j);
    write_steps(r, &j);
    rank_lanes_json(r, &j);
    jsonw_karray(&j, "problems");
    for (size_t i = 0; i < job->nwarnings; i++) jsonw_str(&j, job->warnings[i]);
    jsonw_end(&j);
    jsonw_end(&j);
    jsonw_finish(&j);
}
