#include "report/stats_columns.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"

static double ms(double ns) { return ns / 1e6; }
static double known(uint32_t v) { return v == TIMELINE_NONE ? NAN : (double)v; }

/* ---- rows */

static void make_device(const struct stats_view *v, const struct totals_device *d, struct stats_device *row) {
    const char *name = d->name ? d->name : "";
    *row =
        (struct stats_device){ .key = d->label,
                               .name = d->name,
                               .kernels = d->kernels,
                               .copies = d->copies,
                               .timeline_ms = ms(d->timeline_ns),
                               .span_ms = ms((double)d->span_ns),
                               .busy_ms = ms((double)d->busy_ns),
                               .kernel_busy_ms = ms((double)d->kernel_busy_ns),
                               .idle_ms = ms(d->idle_ns),
                               .between_ms = ms(d->between_ns),
                               .unrecorded_ms = ms(d->unrecorded_ns),
                               .unrecorded_limit_ms = d->unrecorded_ns > 0 ? ms(d->unrecorded_limit_ns) : NAN,
                               .busy_share = d->busy_share };
    row->label = v->totals->nranks > 1 ? xasprintf("%s: %u %s", v->files[d->file], d->index, name)
                                       : xasprintf("%u %s", d->index, name);
}

static void make_rank(const struct totals_rank *r, const struct rank_job *job, const char *file,
                      struct stats_rank *row) {
    const struct rank_row *in_job = job && r->rank != TIMELINE_NONE ? rank_job_find(job, r->rank) : NULL;
    *row = (struct stats_rank){ .file = file,
                                .rank = known(r->rank),
                                .world_size = known(r->world_size),
                                .kernels = r->kernels,
                                .kernel_ms = ms((double)r->kernel_ns),
                                .span_ms = ms((double)r->span_ns),
                                .busy_ms = ms((double)r->busy_ns),
                                .compute_ms = ms((double)r->compute_ns),
                                .communication_ms = ms((double)r->comm_ns),
                                .hidden_ms = ms((double)r->comm_hidden_ns),
                                .share = r->comm_share,
                                .overlap = r->comm_overlap,
                                .late_ms = in_job ? ms(in_job->late_ns) : NAN };
    row->label = r->rank != TIMELINE_NONE ? xasprintf("%u %s", r->rank, file) : xasprintf("– %s", file);
}

static struct stats_kernel *make_kernels(const struct sums *s) {
    struct stats_kernel *rows = xcalloc(s->kernels.n + 1, sizeof *rows);
    for (size_t i = 0; i < s->kernels.n; i++) {
        const struct sums_kernel *k = &s->kernels.v[i];
        rows[i] = (struct stats_kernel){ .name = k->name,
                                         .calls = k->calls,
                                         .total_ms = ms((double)k->total_ns),
                                         .share = k->share,
                                         .mean_us = k->mean_ns / 1e3 };
    }
    return rows;
}

static struct stats_range *make_ranges(const struct totals_ranges *ranges) {
    struct stats_range *rows = xcalloc(ranges->n + 1, sizeof *rows);
    for (size_t i = 0; i < ranges->n; i++) {
        const struct totals_range *r = &ranges->v[i];
        rows[i] = (struct stats_range){ r->name,
                                        r->calls,
                                        ms((double)r->total_ns),
                                        ms((double)r->self_ns),
                                        r->device_unknown ? NAN : ms((double)r->device_ns),
                                        r->device_unknown ? NAN : ms((double)r->self_device_ns) };
    }
    return rows;
}

static struct stats_copy make_copy(const char *kind, const struct totals_copy *c) {
    return (struct stats_copy){ kind, c->count, c->bytes, ms((double)c->total_ns) };
}

static struct stats_stream *make_streams(const struct analysis_totals *t) {
    struct stats_stream *rows = xcalloc(t->nstreams + 1, sizeof *rows);
    for (size_t i = 0; i < t->nstreams; i++) {
        const struct totals_stream *s = &t->streams[i];
        rows[i] = (struct stats_stream){ s->file,    s->device, s->stream,
                                         s->kernels, s->copies, ms((double)s->busy_ns) };
    }
    return rows;
}

/* A process of a file of several, which has no work on a GPU, is no rank: such as the one that starts the
 * others. */
static bool is_rank(const struct analysis_totals *t, size_t process) {
    const struct totals_rank *r = &t->ranks[process];
    if (r->rank != TIMELINE_NONE || r->busy_ns) return true;
    for (size_t i = 0; i < t->nranks; i++)
        if (i != process && strcmp(t->ranks[i].path, r->path) == 0) return false;
    return true;
}

void stats_rows_make(const struct stats_view *v, struct stats_rows *out) {
    static const struct analysis_totals none;
    const struct analysis_totals *t = v->totals ? v->totals : &none;
    *out = (struct stats_rows){ .devices = xcalloc(t->ndevices + 1, sizeof *out->devices),
                                .kernels = make_kernels(v->sums),
                                .operators = make_ranges(&t->operators),
                                .annotations = make_ranges(&t->annotations),
                                .all_copies = make_copy(NULL, &t->all_copies),
                                .streams = make_streams(t),
                                .ranks = xcalloc(t->nranks + 1, sizeof *out->ranks),
                                .ndevices = t->ndevices,
                                .nkernels = v->sums->kernels.n,
                                .noperators = t->operators.n,
                                .nannotations = t->annotations.n,
                                .ncopies = TRACE_COPY_KIND_END,
                                .nstreams = t->nstreams };
    for (unsigned k = 0; k < TRACE_COPY_KIND_END; k++)
        out->copies[k] = make_copy(trace_copy_kind_name(k), &t->copies[k]);
    for (size_t i = 0; i < t->ndevices; i++) {
        make_device(v, &t->devices[i], &out->devices[i]);
        out->unrecorded |= t->devices[i].unrecorded_ns > 0;
    }
    for (size_t i = 0; i < t->nranks; i++)
        if (is_rank(t, i)) make_rank(&t->ranks[i], v->job, v->files[i], &out->ranks[out->nranks++]);
}

void stats_rows_free(struct stats_rows *r) {
    for (size_t i = 0; i < r->ndevices; i++) free(r->devices[i].label);
    for (size_t i = 0; i < r->nranks; i++) free(r->ranks[i].label);
    free(r->devices);
    free(r->kernels);
    free(r->operators);
    free(r->annotations);
    free(r->streams);
    free(r->ranks);
}

/* ---- columns */

#define AT(position) .at = { .terminal = position }
/* Milliseconds have three decimals, so that sums can be checked. */
#define MS COLUMN_NUMBER
/* clang-format off */
#define D(field) FIELD(struct stats_device, field)
static const struct column device_columns[] = {
    { NULL, "device", COLUMN_TEXT, D(label), AT(10) },
    { "name", .source = D(name), .data = JSON },
    { "timeline_ms", "timeline ms", MS, D(timeline_ms), .data = JSON, AT(40), .decimals = 3 },
    { "busy_ms", "busy ms", MS, D(busy_ms), .data = JSON, AT(50), .decimals = 3 },
    { "idle_ms", "idle ms", MS, D(idle_ms), .data = JSON, AT(70), .decimals = 3 },
    { "unrecorded_ms", .source = D(unrecorded_ms), .data = JSON },
    { "unrecorded_limit_ms", .source = D(unrecorded_limit_ms), .data = JSON },
    { "between_steps_ms", .source = D(between_ms), .data = JSON },
    { "span_ms", .source = D(span_ms), .data = JSON },
    { "kernel_busy_ms", "kernels ms", MS, D(kernel_busy_ms), .data = JSON, AT(60), .decimals = 3 },
    { "kernels", "kernels", COLUMN_COUNT, D(kernels), .data = JSON, AT(20) },
    { "copies", "copies", COLUMN_COUNT, D(copies), .data = JSON, AT(30) },
    { "busy_share", "busy", COLUMN_PERCENT, D(busy_share), .data = JSON, AT(90) },
};
static const struct column unrecorded_columns[] = {
    { NULL, "unrecorded ms", MS, D(unrecorded_ms), AT(80), .decimals = 3 },
};
#define K(field) FIELD(struct stats_kernel, field)
static const struct column kernel_columns[] = {
    { "name", "kernel", COLUMN_TEXT, K(name), .data = JSON, AT(10) },
    { "calls", "calls", COLUMN_COUNT, K(calls), .data = JSON, AT(20) },
    { "total_ms", "total ms", MS, K(total_ms), .data = JSON, AT(30), .decimals = 3 },
    { NULL, "share of sum", COLUMN_PERCENT, K(share), AT(40) },
    { "mean_us", "mean us", COLUMN_NUMBER, K(mean_us), .data = JSON, AT(50), .decimals = 2 },
};
#define R(field) FIELD(struct stats_range, field)
#define RANGE_COLUMNS(heading) \
    { "name", heading, COLUMN_TEXT, R(name), .data = JSON, AT(10) }, \
    { "calls", "calls", COLUMN_COUNT, R(calls), .data = JSON, AT(20) }, \
    { "total_ms", "total ms", MS, R(total_ms), .data = JSON, AT(30), .decimals = 3 }, \
    { "self_ms", "self ms", MS, R(self_ms), .data = JSON, AT(40), .decimals = 3 }, \
    { "device_ms", "device ms", MS, R(device_ms), .data = JSON, AT(50), .decimals = 3 }, \
    { "self_device_ms", "self device ms", MS, R(self_device_ms), .data = JSON, AT(60), .decimals = 3 }
static const struct column operator_columns[] = { RANGE_COLUMNS("operator") };
static const struct column annotation_columns[] = { RANGE_COLUMNS("annotation") };
#define C(field) FIELD(struct stats_copy, field)
#define COPY_COLUMNS \
    { "count", .source = C(count), .data = JSON }, \
    { "bytes", .source = C(bytes), .data = JSON }, \
    { "total_ms", .source = C(total_ms), .data = JSON }
static const struct column copy_columns[] = { COPY_COLUMNS };
static const struct column copy_kind_columns[] = {
    { "kind", .source = C(kind), .data = JSON },
    COPY_COLUMNS,
};
#define S(field) FIELD(struct stats_stream, field)
static const struct column stream_columns[] = {
    { "device", .source = S(device), .data = JSON },
    { "stream", .source = S(stream), .data = JSON },
    { "kernels", .source = S(kernels), .data = JSON },
    { "copies", .source = S(copies), .data = JSON },
    { "busy_ms", .source = S(busy_ms), .data = JSON },
};
#define N(field) FIELD(struct stats_rank, field)
static const struct column rank_columns[] = {
    { NULL, "rank", COLUMN_TEXT, N(label), AT(10) },
    { "rank", .source = N(rank), .data = JSON },
    { "world_size", .source = N(world_size), .data = JSON },
    { "file", .source = N(file), .data = JSON },
    { "kernels", .source = N(kernels), .data = JSON },
    { "kernel_ms", .source = N(kernel_ms), .data = JSON },
    { "span_ms", "span ms", MS, N(span_ms), .data = JSON, AT(20), .decimals = 3 },
    { "busy_ms", "busy ms", MS, N(busy_ms), .data = JSON, AT(30), .decimals = 3 },
    { "compute_ms", "compute ms", MS, N(compute_ms), .data = JSON, AT(40), .decimals = 3 },
    { "communication_ms", "comm ms", MS, N(communication_ms), .data = JSON, AT(50), .decimals = 3 },
    { "communication_hidden_ms", .source = N(hidden_ms), .data = JSON },
    { "communication_share", "comm share", COLUMN_PERCENT, N(share), .data = JSON, AT(60) },
    { "communication_overlap", "comm hidden", COLUMN_PERCENT, N(overlap), .data = JSON, AT(70) },
    { "late_ms", "late ms", MS, N(late_ms), .data = JSON, AT(80), .decimals = 3 },
};
/* clang-format on */

const struct column_group stats_device_columns[2] = {
    { .columns = device_columns, .n = COUNTOF(device_columns) },
    { .columns = unrecorded_columns, .n = COUNTOF(unrecorded_columns) },
};
const struct column_group stats_kernel_columns = { .columns = kernel_columns, .n = COUNTOF(kernel_columns) };
const struct column_group stats_operator_columns = { .columns = operator_columns,
                                                     .n = COUNTOF(operator_columns) };
const struct column_group stats_annotation_columns = { .columns = annotation_columns,
                                                       .n = COUNTOF(annotation_columns) };
const struct column_group stats_copy_columns = { .columns = copy_columns, .n = COUNTOF(copy_columns) };
const struct column_group stats_copy_kind_columns = { .columns = copy_kind_columns,
                                                      .n = COUNTOF(copy_kind_columns) };
const struct column_group stats_stream_columns = { .columns = stream_columns, .n = COUNTOF(stream_columns) };
const struct column_group stats_rank_columns = { .columns = rank_columns, .n = COUNTOF(rank_columns) };
