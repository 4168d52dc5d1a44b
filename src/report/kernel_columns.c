#include "report/kernel_columns.h"

#include <math.h>

#include "base/text.h"
#include "base/util.h"
#include "report/charts.h"

/* ---- kernels */

static const struct analysis_kernel *kernel_of(const struct column_row *r) { return r->item; }

static const struct timeline_shape *shape_of(const struct column_row *r) {
    return &view_of(r)->a->timeline->shapes[kernel_of(r)->shape];
}

static const struct counter_row *counters_of(const struct column_row *r) {
    const struct analysis *a = view_of(r)->a;
    return a->counters ? counters_of_kernel(a->counters, (uint32_t)r->index) : NULL;
}

static struct column_value get_rank(const struct column_row *r) { return column_u64(r->index + 1); }
static struct column_value get_library(const struct column_row *r) {
    return column_str(kernel_library_name(kernel_of(r)->library));
}
static struct column_value get_category(const struct column_row *r) {
    return column_str(kernel_category_name(kernel_of(r)->category));
}
static struct column_value get_stage(const struct column_row *r) {
    return column_str(view_stage_name(view_of(r)->a, kernel_of(r)->stage));
}
static struct column_value get_grid(const struct column_row *r) { return column_dims(shape_of(r)->grid); }
static struct column_value get_block(const struct column_row *r) { return column_dims(shape_of(r)->block); }
static struct column_value get_blocks(const struct column_row *r) {
    return column_f64(kernel_of(r)->blocks ? (double)kernel_of(r)->blocks : NAN);
}
static struct column_value get_registers(const struct column_row *r) {
    return column_u64(shape_of(r)->registers);
}
static struct column_value get_static_smem(const struct column_row *r) {
    return column_u64(shape_of(r)->static_smem_bytes);
}
static struct column_value get_dynamic_smem(const struct column_row *r) {
    return column_u64(shape_of(r)->dynamic_smem_bytes);
}
static struct column_value get_smem(const struct column_row *r) {
    return column_u64((uint64_t)shape_of(r)->static_smem_bytes + shape_of(r)->dynamic_smem_bytes);
}
static struct column_value get_limiter(const struct column_row *r) {
    static const char *const names[] = { "", "warps", "blocks", "registers", "shared memory" };
    size_t limiter = (size_t)kernel_of(r)->limiter;
    return column_str(limiter < COUNTOF(names) ? names[limiter] : "");
}

/* The 99th percentile is unknown below 100 calls. The maximum is shown then. */
static struct column_value get_p99_or_max(const struct column_row *r) {
    return column_f64(isnan(kernel_of(r)->p99_ns) ? kernel_of(r)->max_ns : kernel_of(r)->p99_ns);
}

static void show_p99_or_max(const struct column_row *r, struct strbuf *out) {
    bool is_max = isnan(kernel_of(r)->p99_ns) && isfinite(kernel_of(r)->max_ns);
    strbuf_addf(out, "%s%s", is_max ? "max " : "", text_us_number(column_number(get_p99_or_max(r))).s);
}
static void show_work_source(const struct column_row *r, struct strbuf *out) {
    if (kernel_of(r)->work_source && isfinite(kernel_of(r)->flops))
        strbuf_addstr(out, kernel_of(r)->work_source);
}
static void show_full_name(const struct column_row *r, struct strbuf *out) {
    strbuf_addstr(out, kernel_of(r)->name);
}
static void show_library(const struct column_row *r, struct strbuf *out) {
    strbuf_addstr(out, kernel_library_name(kernel_of(r)->library));
}
static void write_category_class(const struct column_row *r, struct strbuf *out) {
    strbuf_addstr(out, chart_class('c', chart_category_color(kernel_of(r)->category)).s);
}
static void show_grid(const struct column_row *r, struct strbuf *out) {
    const struct timeline_shape *s = shape_of(r);
    if (!s->grid[0]) return;
    strbuf_addf(out, "%u\u00d7%u\u00d7%u / %u", s->grid[0], s->grid[1], s->grid[2],
                s->block[0] * s->block[1] * s->block[2]);
}
static void show_achieved_occupancy(const struct column_row *r, struct strbuf *out) {
    const struct counter_row *c = counters_of(r);
    if (c && isfinite(c->value[COUNTER_OCCUPANCY]))
        strbuf_addf(out, "achieved %s", text_percent(c->value[COUNTER_OCCUPANCY] / 100).s);
}

#define K(field) FIELD(struct analysis_kernel, field)
/* clang-format off */
static const struct column columns[] = {
    { "rank", .source = GET(get_rank), .data = CSV },
    { "name", .source = K(name), .data = CSV | JSON },
    { "short_name", "kernel", COLUMN_NAME, K(short_name), .data = CSV | JSON, .at = { 10, 10, 10 },
      .below = show_full_name, .swatch = write_category_class },
    { "library", "library", COLUMN_TEXT, GET(get_library), .data = CSV | JSON, .at = { .md = 20 } },
    { "category", "category", COLUMN_TEXT, GET(get_category), .data = CSV | JSON, .at = { 30, 200, 20 },
      .help = "category of the kernel; below it, its library", .below = show_library,
      .swatch = write_category_class },
    { "stage", "stage", COLUMN_TEXT, GET(get_stage), .data = CSV | JSON, .at = { 40, 210, 0 },
      .help = "the stage where the kernel takes most time" },
    { "calls", "calls", COLUMN_COUNT, K(calls), .data = CSV | JSON, .at = { 70, 40, 40 } },
    { "total_ns", "total ms", COLUMN_NS_MS, K(total_ns), .data = CSV | JSON, .at = { 60, 30, 0 },
      .help = "sum of the durations of all calls" },
    { "owned_ns", .source = K(owned_ns), .data = CSV | JSON },
    { "share", "share", COLUMN_SHARE, K(share), .data = CSV | JSON, .at = { 50, 20, 30 },
      .help = "share of the busy time; concurrent kernels share it evenly" },
    { "mean_ns", "mean us", COLUMN_NS_US, K(mean_ns), .data = CSV | JSON, .at = { 80, 50, 50 },
      .help = "mean duration of a call" },
    { "min_ns", .source = K(min_ns), .data = CSV | JSON },
    { "p50_ns", .source = K(p50_ns), .data = CSV | JSON },
    { "p99_ns", .source = K(p99_ns), .data = CSV | JSON },
    { NULL, "p99 us", COLUMN_NS_US, GET(get_p99_or_max), .at = { 90, 60, 0 }, .show = show_p99_or_max,
      .help = "99th percentile of the duration of a call; max: the longest of fewer than 100 calls" },
    { "max_ns", .source = K(max_ns), .data = CSV | JSON },
    { NULL, "blocks", COLUMN_COUNT, GET(get_blocks), .at = { .md = 100 } },
    { NULL, "grid / threads", COLUMN_COUNT, GET(get_blocks), .at = { .html = 220 }, .show = show_grid,
      .help = "grid dimensions / threads per block; sorted by the number of blocks" },
    { "grid", .source = GET(get_grid), .data = CSV | JSON },
    { "block", .source = GET(get_block), .data = CSV | JSON },
    { "registers", .source = GET(get_registers), .data = CSV | JSON },
    { "static_smem_bytes", .source = GET(get_static_smem), .data = CSV },
    { "dynamic_smem_bytes", .source = GET(get_dynamic_smem), .data = CSV },
    { "smem_bytes", .source = GET(get_smem), .data = JSON },
    { "theoretical_occupancy", "theoretical occupancy", COLUMN_PERCENT, K(occupancy), .data = CSV | JSON,
      .at = { 110, 230, 0 },
      .help = "warps that fit on an SM / warps it supports; below it, the measured share",
      .below = show_achieved_occupancy },
    { "occupancy_limiter", .source = GET(get_limiter), .data = CSV | JSON },
    { "waves", .source = K(waves), .data = CSV | JSON },
    { "flops", .source = K(flops), .data = CSV | JSON },
    { "bytes", .source = K(bytes), .data = CSV | JSON },
    { "flop_per_s", .source = K(flop_per_s), .data = CSV | JSON },
    { "byte_per_s", .source = K(byte_per_s), .data = CSV | JSON },
    { "work_source", .source = K(work_source), .data = CSV | JSON },
};

static const struct column work_columns[] = {
    { NULL, "TFLOP/s", COLUMN_TERA, K(flop_per_s), .at = { 112, 70, 0 }, .decimals = 1,
      .help = "FLOPs of a call / its duration; below it, the source of the FLOPs",
      .below = show_work_source },
    { NULL, "GB/s", COLUMN_GIGA, K(byte_per_s), .at = { 114, 72, 0 },
      .help = "minimum bytes that a call has to move / its duration" },
};
/* clang-format on */

static bool have_work(const void *view) {
    const struct view *v = view;
    for (size_t i = 0; v->a && i < v->a->nkernels; i++)
        if (isfinite(v->a->kernels[i].flops)) return true;
    return false;
}

/* ---- hardware counters */

bool kernel_columns_have_counters(const void *view) {
    const struct view *v = view;
    return v->a && v->a->counters && v->a->counters->nrows > 0;
}

static const void *counters_item(const struct column_row *r) { return counters_of(r); }

static const struct counter_row *counter_of(const struct column_row *r) { return r->item; }

static struct column_value get_bound(const struct column_row *r) {
    enum counter_bound bound = counter_of(r)->bound;
    return column_str(bound == COUNTER_BOUND_UNKNOWN ? NULL : counter_bound_name(bound));
}
static struct column_value get_bound_name(const struct column_row *r) {
    return column_str(counter_bound_name(counter_of(r)->bound));
}
static struct column_value get_quality(const struct column_row *r) {
    return column_str(counter_quality_name(counter_of(r)->quality));
}

static void show_quality(const struct column_row *r, struct strbuf *out) {
    strbuf_addstr(out, counter_of(r)->quality == COUNTER_UNKNOWN
                           ? text_or_dash(NULL)
                           : counter_quality_name(counter_of(r)->quality));
}
static void show_clock(const struct column_row *r, struct strbuf *out) {
    double hz = r->item ? counter_of(r)->value[COUNTER_CLOCK] : NAN;
    if (isfinite(hz)) strbuf_addf(out, "%s GHz", text_num(hz * 1e-9, 2).s);
}
static void show_dram_rate(const struct column_row *r, struct strbuf *out) {
    double rate = r->item ? counter_of(r)->dram_bytes_per_s : NAN;
    if (isfinite(rate)) strbuf_addf(out, "%s GB/s", text_num(rate * 1e-9, 0).s);
}
static void show_dram_parts(const struct column_row *r, struct strbuf *out) {
    if (r->item && isfinite(counter_of(r)->dram_pct))
        strbuf_addf(out, "read %s, written %s", text_percent(counter_of(r)->value[COUNTER_DRAM_READ] / 100).s,
                    text_percent(counter_of(r)->value[COUNTER_DRAM_WRITE] / 100).s);
}
static void show_roof_and_quality(const struct column_row *r, struct strbuf *out) {
    const struct counter_row *c = r->item;
    if (c && isfinite(c->roof_pct)) strbuf_addf(out, "%s of roof, ", text_percent(c->roof_pct / 100).s);
    if (c && c->quality != COUNTER_UNKNOWN) strbuf_addstr(out, counter_quality_name(c->quality));
}

#define C(field) FIELD(struct counter_row, field)
/* clang-format off */
static const struct column counter_columns[] = {
    { "sm_pct", "SM", COLUMN_PCT, C(value[COUNTER_SM]), .data = CSV | JSON, .at = { 120, 100, 0 },
      .help = "share of the time in which an SM had work; below it, the SM clock", .below = show_clock },
    { "tensor_pct", "tensor", COLUMN_PCT, C(value[COUNTER_TENSOR]), .data = CSV | JSON, .at = { 122, 102, 0 },
      .help = "activity of the tensor pipe" },
    { "dram_read_pct", "DRAM read", COLUMN_PCT, C(value[COUNTER_DRAM_READ]), .data = CSV | JSON,
      .at = { .md = 124 } },
    { "dram_write_pct", "DRAM write", COLUMN_PCT, C(value[COUNTER_DRAM_WRITE]), .data = CSV | JSON,
      .at = { .md = 126 } },
    { "occupancy_pct", "achieved occupancy", COLUMN_PCT, C(value[COUNTER_OCCUPANCY]), .data = CSV | JSON,
      .at = { .md = 130 } },
    { "sm_clock_hz", "SM clock GHz", COLUMN_GIGA, C(value[COUNTER_CLOCK]), .data = CSV | JSON,
      .at = { .md = 132 }, .decimals = 2 },
    { "dram_pct", "DRAM", COLUMN_PCT, C(dram_pct), .data = CSV | JSON, .at = { .html = 104 },
      .help = "share of the peak memory bandwidth", .below = show_dram_rate, .tooltip = show_dram_parts },
    { "dram_byte_per_s", "DRAM GB/s", COLUMN_GIGA, C(dram_bytes_per_s), .data = CSV | JSON,
      .at = { .md = 128 } },
    { "roof_pct", "% of roof", COLUMN_PCT, C(roof_pct), .data = CSV | JSON, .at = { .md = 134 } },
    { "bound", "bound", COLUMN_TEXT, GET(get_bound), .data = CSV, .at = { 136, 106, 0 },
      .help = "the limiting resource according to the counters", .below = show_roof_and_quality },
    { "bound", .source = GET(get_bound_name), .data = JSON },
    { "counter_quality", "counters", COLUMN_TEXT, GET(get_quality), .data = CSV, .at = { .md = 138 },
      .show = show_quality },
    { "quality", .source = GET(get_quality), .data = JSON },
    { "calls", .source = C(calls), .data = JSON },
    { "mean_ns", .source = C(mean_ns), .data = JSON },
    { "counter_exposure_ns", .source = C(exposure_ns), .data = CSV },
    { "exposure_ns", .source = C(exposure_ns), .data = JSON },
    { "exposure_samples", .source = C(exposure), .data = JSON },
};
/* clang-format on */

/* ---- Nsight Compute profiles */

static bool have_profiles(const void *view) {
    const struct view *v = view;
    return v->a && v->a->profiles && v->a->profiles->unmatched < v->a->profiles->n;
}

static const void *profile_item(const struct column_row *r) {
    return kernel_profile_of(view_of(r)->a, (uint32_t)r->index);
}

static const struct kernel_profile *profile_of(const struct column_row *r) { return r->item; }

static struct column_value get_launches(const struct column_row *r) {
    uint64_t n = profile_of(r)->launches;
    return n ? column_u64(n) : (struct column_value){ .type = COLUMN_NONE };
}

static void show_profile_rate(const struct column_row *r, struct strbuf *out) {
    double rate = r->item ? profile_of(r)->value[KERNEL_PROFILE_DRAM_RATE] : NAN;
    if (isfinite(rate)) strbuf_addf(out, "%s GB/s", text_num(rate * 1e-9, 0).s);
}
static void show_l2_hit(const struct column_row *r, struct strbuf *out) {
    double l2 = r->item ? profile_of(r)->value[KERNEL_PROFILE_L2_HIT] : NAN;
    if (isfinite(l2)) strbuf_addf(out, "L2 %s", text_percent(l2 / 100).s);
}
static void show_stall(const struct column_row *r, struct strbuf *out) {
    const struct kernel_profile *p = profile_of(r);
    if (!p || !p->stall) return;
    strbuf_addstr(out, p->stall);
    if (isfinite(p->value[KERNEL_PROFILE_STALL]))
        strbuf_addf(out, " %s", text_percent(p->value[KERNEL_PROFILE_STALL] / 100).s);
}

#define P(id) FIELD(struct kernel_profile, value[KERNEL_PROFILE_##id])
/* clang-format off */
static const struct column profile_columns[] = {
    { "duration_ns", "ncu us", COLUMN_NS_US, P(DURATION), .data = CSV | JSON, .at = { .md = 150 } },
    { "sm_pct", "ncu SM", COLUMN_PCT, P(SM), .data = CSV | JSON, .at = { 152, 120, 0 },
      .help = "throughput of the busiest SM unit" },
    { "memory_pct", "ncu memory", COLUMN_PCT, P(MEMORY), .data = CSV | JSON, .at = { 154, 122, 0 },
      .help = "throughput of the busiest memory unit" },
    { "dram_pct", "ncu DRAM", COLUMN_PCT, P(DRAM), .data = CSV | JSON, .at = { 156, 124, 0 },
      .help = "share of the peak memory bandwidth", .below = show_profile_rate },
    { "dram_bytes_per_s", .source = P(DRAM_RATE), .data = CSV | JSON },
    { "tensor_pct", .source = P(TENSOR), .data = CSV | JSON },
    { "occupancy_pct", "ncu achieved occupancy", COLUMN_PCT, P(OCCUPANCY), .data = CSV | JSON,
      .at = { 158, 126, 0 }, .help = "achieved occupancy" },
    { "occupancy_limit_pct", .source = P(OCCUPANCY_LIMIT), .data = CSV | JSON },
    { "l1_hit_pct", "ncu L1 hit", COLUMN_PCT, P(L1_HIT), .data = CSV | JSON, .at = { 160, 128, 0 },
      .help = "hit rate of the L1 cache; below it, of the L2 cache", .below = show_l2_hit },
    { "l2_hit_pct", "ncu L2 hit", COLUMN_PCT, P(L2_HIT), .data = CSV | JSON, .at = { .md = 162 } },
    { "ipc", .source = P(IPC), .data = CSV | JSON },
    { "stall_pct", .source = P(STALL), .data = CSV | JSON },
    { "stall", "ncu stall", COLUMN_TEXT, FIELD(struct kernel_profile, stall), .data = CSV | JSON,
      .at = { .md = 164 }, .show = show_stall },
    { "bound", "ncu bound", COLUMN_TEXT, FIELD(struct kernel_profile, bound), .data = CSV | JSON,
      .at = { 166, 130, 0 }, .help = "the limiting resource; below it, the main stall reason",
      .below = show_stall },
    { "launches", .source = GET(get_launches), .data = CSV },
    { "launches", .source = FIELD(struct kernel_profile, launches), .data = JSON },
};
/* clang-format on */

/* ---- device: in tables if there are several, always in data */

static bool have_devices(const void *view) { return view_busy_devices(view) > 1; }

static const char *device_label(const struct column_row *r) {
    return timeline_device_label(view_of(r)->a->timeline, shape_of(r)->device);
}
static struct column_value get_device_row(const struct column_row *r) {
    return column_u64(shape_of(r)->device);
}
static struct column_value get_device_number(const struct column_row *r) {
    return column_u64(view_of(r)->a->timeline->devices[shape_of(r)->device].index);
}
static struct column_value get_device_label(const struct column_row *r) {
    return column_str(device_label(r));
}
static void show_device(const struct column_row *r, struct strbuf *out) {
    strbuf_addstr(out, device_label(r));
}

/* In JSON, `device` is the row in metrics.json's `devices`. */
static const struct column device_columns[] = {
    { NULL, "device", COLUMN_COUNT, GET(get_device_number), .at = { 45, 215, 25 }, .show = show_device },
};
static const struct column device_data[] = {
    { "device", .source = GET(get_device_label), .data = CSV },
    { "device", .source = GET(get_device_row), .data = JSON },
};

enum { KERNELS, COUNTERS, PROFILES, WORK, DEVICES, DEVICE_DATA };
const struct column_group kernel_columns[6] = {
    [KERNELS] = { .columns = columns, .n = COUNTOF(columns) },
    [COUNTERS] = { .columns = counter_columns,
                   .n = COUNTOF(counter_columns),
                   .exists = kernel_columns_have_counters,
                   .item = counters_item },
    [PROFILES] = { .columns = profile_columns,
                   .n = COUNTOF(profile_columns),
                   .exists = have_profiles,
                   .item = profile_item,
                   .csv_prefix = "ncu_" },
    [WORK] = { .columns = work_columns, .n = COUNTOF(work_columns), .exists = have_work },
    [DEVICES] = { .columns = device_columns, .n = COUNTOF(device_columns), .exists = have_devices },
    [DEVICE_DATA] = { .columns = device_data, .n = COUNTOF(device_data) },
};

void kernel_columns_counter_json(const struct counter_row *row, struct jsonw *j) {
    columns_json(&kernel_columns[COUNTERS], &(struct column_row){ .item = row }, j);
    jsonw_kobject(j, "standard_error");
    for (int s = 0; s < COUNTER_SLOTS; s++)
        jsonw_knum(j, counter_slot_name((enum counter_slot)s), row->error[s]);
    jsonw_end(j);
}

void kernel_columns_json(const struct column_row *r, struct jsonw *j) {
    const struct analysis_profiles *p = view_of(r)->a->profiles;
    const struct counter_row *counters = counters_of(r);
    const struct kernel_profile *profile = profile_item(r);
    jsonw_object(j);
    columns_json(&kernel_columns[KERNELS], r, j);
    columns_json(&kernel_columns[DEVICE_DATA], r, j);
    if (counters) {
        jsonw_kobject(j, "counters");
        kernel_columns_counter_json(counters, j);
        jsonw_end(j);
    }
    if (profile) {
        jsonw_kobject(j, "ncu");
        columns_json(&kernel_columns[PROFILES], &(struct column_row){ .item = profile }, j);
        jsonw_kstr(j, "matched_by", kernel_profile_match_name(p->matches[profile - p->profiles]));
        jsonw_end(j);
    }
    jsonw_end(j);
}
