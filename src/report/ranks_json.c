/* ranks.json: every number of a job of several ranks (schemas/ranks.schema.json). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/jsonw.h"
#include "base/schema.h"
#include "report/ranks.h"

static void write_known(struct jsonw *j, const char *key, uint32_t v) {
    if (v == RANK_NONE)
        jsonw_knum(j, key, NAN);
    else
        jsonw_ku64(j, key, v);
}

static void write_time(struct jsonw *j, const struct rank_time *t) {
    jsonw_knum(j, "compute_ns", t->compute_ns);
    jsonw_knum(j, "exposed_ns", t->exposed_ns);
    jsonw_knum(j, "copy_ns", t->copy_ns);
    jsonw_knum(j, "idle_ns", t->idle_ns);
    jsonw_knum(j, "wait_ns", t->wait_ns);
    jsonw_knum(j, "move_ns", t->move_ns);
    jsonw_knum(j, "hidden_ns", t->hidden_ns);
    jsonw_knum(j, "matched_share", t->matched_share);
}

static void write_cost(struct jsonw *j, const struct rank_cost *c) {
    jsonw_knum(j, "flops", c->flops);
    jsonw_knum(j, "bytes", c->bytes);
    jsonw_knum(j, "floor_ns", c->floor_ns);
    jsonw_knum(j, "mfu", c->mfu);
    jsonw_knum(j, "mbu", c->mbu);
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
        const struct rank_stage *k = &r->job->stages[s];
        jsonw_object(j);
        jsonw_kstr(j, "name", k->name);
        jsonw_kstr(j, "path", k->path);
        write_known(j, "parent", k->parent);
        jsonw_ku64(j, "ranks", k->present);
        jsonw_knum(j, "step_ms", rank_step_ns(r->job, s) * 1e-6);
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
        jsonw_ku64(j, "stage", s);
        jsonw_ku64(j, "occurrences", c->occurrences);
        jsonw_knum(j, "tokens_in", c->tokens_in);
        jsonw_knum(j, "tokens_out", c->tokens_out);
        jsonw_knum(j, "wall_ns", c->wall_ns);
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
        const struct rank_place *p = &r->layout->places[i];
        bool there = k->state != RANK_STATE_MISSING;
        jsonw_object(j);
        jsonw_ku64(j, "rank", k->rank);
        jsonw_kstr(j, "state", rank_state_name(k->state));
        write_known(j, "local_rank", k->local_rank);
        write_known(j, "node", k->node);
        write_known(j, "clock", k->clock);
        jsonw_kstr(j, "device", k->device);
        write_known(j, "tp", p->tp);
        write_known(j, "pp", p->pp);
        write_known(j, "dp", p->dp);
        jsonw_ku64(j, "kernels", k->kernels);
        jsonw_ku64(j, "collectives", k->collectives);
        jsonw_knum(j, "timeline_ns", there ? k->timeline_ns : NAN);
        jsonw_knum(j, "unrecorded_ns", there ? k->unrecorded_ns : NAN);
        if (there) write_time(j, &k->time);
        jsonw_knum(j, "late_ns", there ? k->late_ns : NAN);
        jsonw_ku64(j, "last_arrivals", k->last_arrivals);
        jsonw_knum(j, "sm_mhz", there ? k->sm_mhz_mean : NAN);
        jsonw_knum(j, "throttled_ns", there ? k->throttled_ns : NAN);
        jsonw_knum(j, "joules", there ? k->joules : NAN);
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
        jsonw_kstr(j, "name", n->name);
        jsonw_ku64(j, "present", n->present);
        jsonw_knum(j, "timeline_ns", n->timeline_ns);
        write_time(j, &n->time);
        write_known(j, "latest", n->latest);
        jsonw_knum(j, "late_ns", n->late_ns);
        jsonw_knum(j, "sm_mhz_mean", n->sm_mhz_mean);
        jsonw_knum(j, "joules", n->joules);
        jsonw_end(j);
    }
    jsonw_end(j);
    jsonw_karray(j, "clocks");
    for (size_t i = 0; i < r->job->nclocks; i++) {
        const struct rank_clock *c = &r->job->clocks[i];
        jsonw_object(j);
        write_known(j, "node", c->node);
        jsonw_kstr(j, "source", rank_clock_source_name(c->source));
        jsonw_knum(j, "error_ns", c->error_ns);
        jsonw_knum(j, "offset_ns", c->nsegments ? c->segments[0].offset_ns : NAN);
        jsonw_knum(j, "drift", rank_clock_drift(c));
        jsonw_knum(j, "drift_error", c->nsegments ? c->segments[0].drift_error : NAN);
        jsonw_ku64(j, "segments", c->nsegments);
        jsonw_karray(j, "changes_ns");
        for (size_t k = 1; k < c->nsegments; k++) jsonw_u64(j, c->segments[k].begin_ns);
        jsonw_end(j);
        write_clock_steps(c, j);
        jsonw_ku64(j, "outliers", c->outliers);
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
        jsonw_kstr(j, "name", c->name);
        jsonw_ku64_known(j, "size", c->size);
        jsonw_ku64(j, "nodes", c->nodes);
        jsonw_kbool(j, "from_kernels", c->from_kernels);
        jsonw_karray(j, "ranks");
        for (size_t k = 0; k < c->nranks; k++) jsonw_u64(j, c->ranks[k]);
        jsonw_end(j);
        jsonw_end(j);
    }
    jsonw_end(j);
}

static void write_collectives(const struct rank_report *r, struct jsonw *j) {
    jsonw_karray(j, "collectives");
    for (size_t i = 0; i < r->job->ncollectives; i++) {
        const struct rank_collective *c = &r->job->collectives[i];
        struct rank_link_use use = rank_link_use(r->job, r->links, i);
        jsonw_object(j);
        write_known(j, "communicator", c->communicator);
        jsonw_kstr(j, "operation", c->operation);
        jsonw_kstr(j, "type", c->type);
        jsonw_ku64_known(j, "bytes", c->bytes);
        jsonw_ku64(j, "calls", c->calls);
        jsonw_ku64(j, "matched", c->matched);
        jsonw_knum(j, "move_median_ns", c->move_ns.median);
        jsonw_knum(j, "skew_median_ns", c->skew_ns.median);
        jsonw_knum(j, "exposed_ns", c->exposed_ns);
        jsonw_knum(j, "wait_ns", c->wait_ns);
        jsonw_knum(j, "algorithm_bytes_per_s", c->algorithm_bytes_per_s);
        jsonw_knum(j, "bus_bytes_per_s", c->bus_bytes_per_s);
        jsonw_kstr(j, "link", use.link);
        jsonw_knum(j, "link_bytes_per_s", use.peak_bytes_per_s);
        jsonw_knum(j, "link_share", use.share);
        jsonw_end(j);
    }
    jsonw_end(j);
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
