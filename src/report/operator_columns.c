#include "report/operator_columns.h"

#include <math.h>

#include "base/util.h"

static const struct analysis_operator *operator_of(const struct column_row *r) { return r->item; }

static struct column_value get_category(const struct column_row *r) {
    return column_str(trace_range_category_name(operator_of(r)->category));
}
static struct column_value get_stage(const struct column_row *r) {
    return column_str(view_stage_name(view_of(r)->a, operator_of(r)->stage));
}

static void show_detail(const struct column_row *r, struct strbuf *out) {
    if (operator_of(r)->detail) strbuf_addstr(out, operator_of(r)->detail);
}

#define O(field) FIELD(struct analysis_operator, field)
/* clang-format off */
static const struct column columns[] = {
    { "operator", "operator", COLUMN_NAME, O(name), .data = CSV, .at = { 10, 10, 0 }, .below = show_detail },
    { "name", .source = O(name), .data = JSON },
    { "detail", .source = O(detail), .data = CSV },
    { "category", .source = GET(get_category), .data = CSV },
    { "stage", "stage", COLUMN_TEXT, GET(get_stage), .data = CSV | JSON, .at = { 20, 100, 0 },
      .help = "the stage where the operator takes most time" },
    { NULL, "device share", COLUMN_SHARE, O(device_share), .at = { .html = 20 },
      .help = "device self time as a share of the busy time" },
    { "calls", "calls", COLUMN_COUNT, O(calls), .data = CSV | JSON, .at = { 70, 70, 0 } },
    { "kernels", "kernels", COLUMN_COUNT, O(kernels), .data = CSV | JSON, .at = { 90, 90, 0 } },
    { "total_ns", "total ms", COLUMN_NS_MS, O(total_ns), .data = CSV | JSON, .at = { 30, 30, 0 },
      .help = "host time including nested operators" },
    { "self_ns", "self ms", COLUMN_NS_MS, O(self_ns), .data = CSV | JSON, .at = { 40, 40, 0 },
      .help = "host time without nested operators" },
    { "mean_ns", "mean us", COLUMN_NS_US, O(mean_ns), .data = CSV | JSON, .at = { 80, 80, 0 },
      .help = "mean host time of a call" },
    { "device_ns", "device ms", COLUMN_NS_MS, O(gpu_ns), .data = CSV | JSON, .at = { 50, 50, 0 },
      .help = "time of the kernels of the operator and of nested operators" },
    { "device_self_ns", "device self ms", COLUMN_NS_MS, O(gpu_self_ns), .data = CSV | JSON,
      .at = { 60, 60, 0 }, .help = "time of the kernels of the operator itself" },
    { "flops", .source = O(flops), .data = CSV | JSON },
    { "bytes", .source = O(bytes), .data = CSV | JSON },
    { "flop_per_s", .source = O(flop_per_s), .data = CSV | JSON },
    { "byte_per_s", .source = O(byte_per_s), .data = CSV | JSON },
    { "work_source", .source = O(work_source), .data = CSV | JSON },
};

static const struct column work_columns[] = {
    { NULL, "TFLOP/s", COLUMN_TERA, O(flop_per_s), .at = { 92, 92, 0 }, .decimals = 2,
      .help = "FLOPs / device time (host time without a device) of the calls whose FLOPs are known" },
    { NULL, "GB/s", COLUMN_GIGA, O(byte_per_s), .at = { 94, 94, 0 },
      .help = "minimum bytes that these calls have to move / the same time" },
};
/* clang-format on */

static bool have_work(const void *view) {
    const struct view *v = view;
    for (size_t i = 0; v->a && i < v->a->noperators; i++)
        if (isfinite(v->a->operators[i].flops)) return true;
    return false;
}

const struct column_group operator_columns[2] = {
    { .columns = columns, .n = COUNTOF(columns) },
    { .columns = work_columns, .n = COUNTOF(work_columns), .exists = have_work },
};
