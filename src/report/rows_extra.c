/* The smaller tables: idle time, timeline, launch queue, tokens, overhead, devices, categories, stability,
 * power. */
#include <math.h>

#include "base/text.h"
#include "base/util.h"
#include "report/rows.h"
#include "report/stage_columns.h"

struct column_items rows_trace_stages(const struct view *v, bool (*keep)(const void *)) {
    if (!v->a) return (struct column_items){ 0 };
    return (struct column_items){ v->a->stages, v->a->nstages, sizeof *v->a->stages, keep };
}

/* ---- stages */

static bool has_idle(const void *item) {
    const struct analysis_stage *s = item;
    return !s->outside && s->idle_known && s->kernels;
}

void rows_idle_md(const struct view *v, struct table *t) {
    view_table(stage_cause_columns, STAGE_CAUSE_GROUPS, COLUMN_DOC_MARKDOWN, v,
               rows_trace_stages(v, has_idle), t);
}

static const struct analysis_part *part_of(const struct column_row *r) { return r->item; }
static void show_part_device(const struct column_row *r, struct strbuf *out) {
    strbuf_addstr(out, timeline_device_label(view_of(r)->a->timeline, part_of(r)->device));
}
static struct column_value get_part_steps(const struct column_row *r) {
    return part_of(r)->steps ? column_u64(part_of(r)->steps) : column_f64(NAN);
}

#define P(field) FIELD(struct analysis_part, field)
static const struct column part_columns[] = {
    { NULL, "device", COLUMN_TEXT, .at = { .md = 10 }, .show = show_part_device },
    { NULL, "part", COLUMN_TEXT, P(name), .at = { .md = 20 } },
    { NULL, "steps", COLUMN_COUNT, GET(get_part_steps), .at = { .md = 30 } },
    { NULL, "time ms", COLUMN_NS_MS, P(time_ns), .at = { .md = 40 } },
    { NULL, "share", COLUMN_PERCENT, P(share), .at = { .md = 50 } },
    { NULL, "busy ms", COLUMN_NS_MS, P(busy_ns), .at = { .md = 60 } },
    { NULL, "busy", COLUMN_PERCENT, P(busy_share), .at = { .md = 70 } },
};
static const struct column_group part_group = { .columns = part_columns, .n = COUNTOF(part_columns) };

void rows_timeline_md(const struct view *v, struct table *t) {
    struct column_items items = { 0 };
    if (v->a) items = (struct column_items){ v->a->parts, v->a->nparts, sizeof *v->a->parts, NULL };
    view_table(&part_group, 1, COLUMN_DOC_MARKDOWN, v, items, t);
}

static bool has_queue(const void *item) {
    const struct analysis_stage *s = item;
    return has_idle(s) && !isnan(s->idle.queue_depth_mean);
}

void rows_queue_md(const struct view *v, struct table *t) {
    view_table(stage_idle_columns, COUNTOF(stage_idle_columns), COLUMN_DOC_MARKDOWN, v,
               rows_trace_stages(v, has_queue), t);
}

static bool has_tokens(const void *item) {
    const struct analysis_stage *s = item;
    return !s->outside && s->token_ns.n >= 2;
}

void rows_tokens_md(const struct view *v, struct table *t) {
    view_table(stage_token_columns, COUNTOF(stage_token_columns), COLUMN_DOC_MARKDOWN, v,
               rows_trace_stages(v, has_tokens), t);
}

static bool has_overhead(const void *item) {
    return isfinite(((const struct analysis_stage *)item)->recording_cost);
}

static const struct column overhead_columns[] = {
    { NULL, "stage", COLUMN_TEXT, FIELD(struct analysis_stage, name), .at = { .md = 10 } },
    { NULL, "timed ms", COLUMN_MS, FIELD(struct analysis_stage, timing_ms.median), .at = { .md = 20 } },
    { NULL, "recorded / timed", COLUMN_TIMES, FIELD(struct analysis_stage, recording_cost),
      .at = { .md = 30 } },
};
static const struct column_group overhead_group = { .columns = overhead_columns,
                                                    .n = COUNTOF(overhead_columns) };

void rows_overhead_md(const struct view *v, struct table *t) {
    struct column_items items = { v->stages, v->nstages, .keep = has_overhead };
    view_table(&overhead_group, 1, COLUMN_DOC_MARKDOWN, v, items, t);
}

/* ---- devices and communication */

static const struct analysis_device *device_of(const struct column_row *r) { return r->item; }

static const char *device_name(const struct column_row *r, uint32_t device) {
    const struct timeline *tl = view_of(r)->a->timeline;
    return device < tl->ndevices ? timeline_text(tl, tl->devices[device].name) : "";
}

static struct column_value get_device_index(const struct column_row *r) { return column_u64(r->index); }
static struct column_value get_device_name(const struct column_row *r) {
    return column_str(device_name(r, (uint32_t)r->index));
}
static struct column_value get_device_number(const struct column_row *r) {
    return column_u64(view_of(r)->a->timeline->devices[r->index].index);
}
static struct column_value get_device_rank(const struct column_row *r) {
    const struct timeline *tl = view_of(r)->a->timeline;
    uint32_t process = device_of(r)->process;
    uint32_t rank = process < tl->nprocesses ? tl->processes[process].rank : TIMELINE_NONE;
    return column_f64(rank == TIMELINE_NONE ? NAN : (double)rank);
}

static void show_device(const struct column_row *r, struct strbuf *out) {
    strbuf_addf(out, "%s %s", timeline_device_label(view_of(r)->a->timeline, r->index),
                device_name(r, (uint32_t)r->index));
}

#define D(field) FIELD(struct analysis_device, field)
/* clang-format off */
static const struct column device_columns[] = {
    { NULL, "device", COLUMN_TEXT, GET(get_device_name), .at = { .md = 10 }, .show = show_device },
    { "device", .source = GET(get_device_index), .data = JSON },
    { "name", .source = GET(get_device_name), .data = JSON },
    { "index", .source = GET(get_device_number), .data = JSON },
    { "rank", .source = GET(get_device_rank), .data = JSON },
    { "kernels", .source = D(kernels), .data = JSON },
    { "timeline_ns", .source = D(timeline_ns), .data = JSON },
    { "work_ns", .source = D(work_ns), .data = JSON },
    { "unrecorded_ns", .source = D(unrecorded_ns), .data = JSON },
    { "unrecorded_limit_ns", .source = D(unrecorded_limit_ns), .data = JSON },
    { "busy_ns", .source = D(busy_ns), .data = JSON },
    { "span_ns", .source = D(span_ns), .data = JSON },
    { "copy_ns", .source = D(copy_ns), .data = JSON },
    { "communication_ns", "communication ms", COLUMN_NS_MS, D(communication_ns), .data = JSON,
      .at = { .md = 20 } },
    { "communication_hidden_ns", .source = D(communication_hidden_ns), .data = JSON },
    { NULL, "overlapped", COLUMN_PERCENT, D(communication_overlap), .at = { .md = 30 } },
    { NULL, "exposed ms", COLUMN_NS_MS, D(communication_exposed_ns), .at = { .md = 40 } },
    { NULL, "share of busy time", COLUMN_PERCENT, D(exposed_share), .at = { .md = 50 } },
};
/* clang-format on */
const struct column_group rows_device_columns = { .columns = device_columns, .n = COUNTOF(device_columns) };

static bool communicates(const void *item) {
    return ((const struct analysis_device *)item)->communication_ns > 0;
}

void rows_communication_md(const struct view *v, struct table *t) {
    struct column_items items = { 0 };
    if (v->a)
        items = (struct column_items){ v->a->devices, v->a->ndevices, sizeof *v->a->devices, communicates };
    view_table(&rows_device_columns, 1, COLUMN_DOC_MARKDOWN, v, items, t);
}

/* ---- kernels by category */

#define G(field) FIELD(struct analysis_group, field)
static const struct column group_columns[] = {
    { "name", "category", COLUMN_TEXT, G(name), .data = JSON, .at = { .md = 10 } },
    { "calls", "calls", COLUMN_COUNT, G(calls), .data = JSON, .at = { .md = 40 } },
    { "classes", "kinds", COLUMN_COUNT, G(classes), .data = JSON, .at = { .md = 50 } },
    { "owned_ns", "GPU ms", COLUMN_NS_MS, G(owned_ns), .data = JSON, .at = { .md = 30 },
      .other_heading = "busy ms" },
    { "share", "share", COLUMN_PERCENT, G(share), .data = JSON, .at = { .md = 20 } },
};
const struct column_group rows_group_columns = { .columns = group_columns, .n = COUNTOF(group_columns) };

void rows_categories_md(const struct view *v, struct table *t) {
    struct column_items items = { 0 };
    if (v->a) items = (struct column_items){ v->a->categories, v->a->ncategories, sizeof *v->a->categories };
    view_table(&rows_group_columns, 1, COLUMN_DOC_MARKDOWN, v, items, t);
}

/* ---- stability of the repeats */

static const struct analysis_stability *stability_of(const struct column_row *r) { return r->item; }

static struct column_value get_verdict(const struct column_row *r) {
    const struct analysis_stability *s = stability_of(r);
    if (s->ms.n < 2) return column_str("too few repeats");
    if (isnan(s->cv)) return column_str("unknown: each input ran once");
    return column_str(s->unstable ? "unstable" : "stable");
}

static void show_drift(const struct column_row *r, struct strbuf *out) {
    const struct analysis_stability *s = stability_of(r);
    strbuf_addf(out, "%s%s", text_percent(s->drift_percent / 100).s,
                isfinite(s->drift_percent) && !s->drift_shown ? " (not significant)" : "");
}

#define Y(field) FIELD(struct analysis_stability, field)
/* clang-format off */
static const struct column stability_columns[] = {
    { "stage", "stage", COLUMN_TEXT, Y(stage), .data = JSON, .at = { .md = 10 } },
    { "repeats", .source = Y(ms.n), .data = JSON },
    { "cv", "CV", COLUMN_PERCENT, Y(cv), .data = JSON, .at = { .md = 20 } },
    { "unstable", .source = Y(unstable), .data = JSON },
    { "drift_percent", "drift", COLUMN_PCT, Y(drift_percent), .data = JSON, .at = { .md = 30 },
      .show = show_drift },
    { "drift_shown", .source = Y(drift_shown), .data = JSON },
    { "outliers", "outliers", COLUMN_COUNT, Y(outliers), .data = JSON, .at = { .md = 40 } },
    { "failed", "failed", COLUMN_COUNT, Y(failed), .data = JSON, .at = { .md = 50 } },
    { NULL, "verdict", COLUMN_TEXT, GET(get_verdict), .at = { .md = 60 } },
};
/* clang-format on */
const struct column_group rows_stability_columns = { .columns = stability_columns,
                                                     .n = COUNTOF(stability_columns) };

void rows_stability_md(const struct view *v, struct table *t) {
    struct column_items items = { 0 };
    if (v->a) items = (struct column_items){ v->a->stability, v->a->nstability, sizeof *v->a->stability };
    view_table(&rows_stability_columns, 1, COLUMN_DOC_MARKDOWN, v, items, t);
}

/* ---- power and clocks */

static void show_power_device(const struct column_row *r, struct strbuf *out) {
    uint32_t device = ((const struct analysis_power *)r->item)->device;
    strbuf_addf(out, "%s %s", timeline_device_label(view_of(r)->a->timeline, device), device_name(r, device));
}

#define W(field) FIELD(struct analysis_power, field)
/* clang-format off */
static const struct column power_columns[] = {
    { NULL, "device", COLUMN_TEXT, W(device), .at = { .md = 10 }, .show = show_power_device },
    { "device", .source = W(device), .data = JSON },
    { "joules", "energy J", COLUMN_NUMBER, W(joules), .data = JSON, .at = { .md = 20 }, .decimals = 1 },
    { "watts_mean", "mean W", COLUMN_NUMBER, W(watts_mean), .data = JSON, .at = { .md = 30 } },
    { "watts_max", "max W", COLUMN_NUMBER, W(watts_max), .data = JSON, .at = { .md = 40 } },
    { "sm_mhz_busy_mean", "SM MHz busy", COLUMN_NUMBER, W(sm_mhz_busy_mean), .data = JSON,
      .at = { .md = 50 } },
    { "sm_mhz_max", "SM MHz max", COLUMN_NUMBER, W(sm_mhz_max), .data = JSON, .at = { .md = 60 } },
    { "idle_joules", "idle J", COLUMN_NUMBER, W(idle_joules), .data = JSON, .at = { .md = 70 },
      .decimals = 1 },
    { "throttled_ns", "throttled ms", COLUMN_NS_MS, W(throttled_ns), .data = JSON, .at = { .md = 80 } },
    { "throttled_by", "by", COLUMN_TEXT, W(throttled_by), .data = JSON, .at = { .md = 90 } },
};
/* clang-format on */
const struct column_group rows_power_columns = { .columns = power_columns, .n = COUNTOF(power_columns) };

void rows_power_md(const struct view *v, struct table *t) {
    struct column_items items = { 0 };
    if (v->a) items = (struct column_items){ v->a->powers, v->a->npowers, sizeof *v->a->powers };
    view_table(&rows_power_columns, 1, COLUMN_DOC_MARKDOWN, v, items, t);
}
