#include "report/gemm_columns.h"

#include "base/util.h"

static const struct analysis_gemm *gemm_of(const struct column_row *r) { return r->item; }

static struct column_value get_stage(const struct column_row *r) {
    return column_str(view_stage_name(view_of(r)->a, gemm_of(r)->stage));
}

#define G(field) FIELD(struct analysis_gemm, field)
/* clang-format off */
static const struct column columns[] = {
    { "stage", "stage", COLUMN_TEXT, GET(get_stage), .data = CSV | JSON, .at = { 10, 10, 0 } },
    { "m", "M", COLUMN_COUNT, G(m), .data = CSV | JSON, .at = { 20, 20, 0 }, .help = "rows of the result" },
    { "n", "N", COLUMN_COUNT, G(n), .data = CSV | JSON, .at = { 30, 30, 0 },
      .help = "columns of the result" },
    { "k", "K", COLUMN_COUNT, G(k), .data = CSV | JSON, .at = { 40, 40, 0 },
      .help = "length of the sums" },
    { "batch", "batch", COLUMN_COUNT, G(batch), .data = CSV | JSON, .at = { 50, 50, 0 },
      .help = "number of independent products per call" },
    { "types", "types", COLUMN_TEXT, G(types), .data = CSV | JSON, .at = { 60, 60, 0 },
      .help = "types of the operands" },
    { "algorithm", "algorithm", COLUMN_TEXT, G(algorithm), .data = CSV | JSON, .at = { 70, 70, 0 },
      .help = "the library's algorithm if it was logged, else the longest kernel of the call" },
    { "calls", "calls", COLUMN_COUNT, G(calls), .data = CSV | JSON, .at = { 80, 80, 0 } },
    { "total_ns", "total ms", COLUMN_NS_MS, G(total_ns), .data = CSV | JSON, .at = { 90, 90, 0 },
      .help = "time of the kernels of these calls" },
    { "mean_ns", "mean us", COLUMN_NS_US, G(mean_ns), .data = CSV | JSON, .at = { 100, 100, 0 } },
    { "share", "share", COLUMN_SHARE, G(share), .data = CSV | JSON, .at = { 110, 110, 0 },
      .help = "total time / time in which the device was busy; kernels that run at the same time share it" },
    { "flops", .source = G(flops), .data = CSV | JSON },
    { "flop_per_s", .source = G(flop_per_s), .data = CSV | JSON },
    { NULL, "TFLOP/s", COLUMN_TERA, G(flop_per_s), .at = { 120, 120, 0 }, .decimals = 2,
      .help = "2 M N K batch calls / total time" },
    { "peak_share", "of peak", COLUMN_PERCENT, G(peak_share), .data = CSV | JSON, .at = { 130, 130, 0 },
      .help = "TFLOP/s / the device's peak for the types of the operands" },
    { "source", .source = G(source), .data = CSV | JSON },
};
/* clang-format on */

const struct column_group gemm_columns[1] = { { .columns = columns, .n = COUNTOF(columns) } };
