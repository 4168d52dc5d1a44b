#include "report/stage_columns.h"

#include <math.h>

#include "analyze/counters.h"
#include "base/text.h"
#include "base/util.h"

#define S(field) FIELD(struct analysis_stage, field)

static const struct analysis_stage *stage_of(const struct column_row *r) { return r->item; }

/* ---- times, model and utilization */

static struct column_value get_time_source(const struct column_row *r) {
    return column_str(view_time_source(view_of(r), stage_of(r)));
}
static struct column_value get_representative(const struct column_row *r) {
    return column_f64(view_representative_ms(stage_of(r)));
}

static struct column_value get_experts_source(const struct column_row *r) {
    const struct analysis_stage *s = stage_of(r);
    return column_str(isfinite(s->experts_read) ? "the engine's routing"
                      : s->experts_assumed      ? "expected under even routing"
                                                : NULL);
}

static void show_indented(const struct column_row *r, struct strbuf *out) {
    strbuf_addf(out, "%*s%s", (int)MIN(stage_of(r)->depth, 8) * 2, "", stage_of(r)->name);
}
static void show_time(const struct column_row *r, struct strbuf *out) {
    const struct analysis_stage *s = stage_of(r);
    strbuf_addf(out, "%s%s", text_ms_number(s->time_ms).s, s->recorded_only ? " (recorded)" : "");
}
/* Small rates have two significant digits. */
static void show_launches(const struct column_row *r, struct strbuf *out) {
    double rate = stage_of(r)->launches_per_token;
    bool whole = !isfinite(rate) || rate == floor(rate) || rate >= 9.95;
    strbuf_addstr(out, text_num(rate, whole ? 0 : 1 - (int)floor(log10(rate))).s);
}
static void show_tokens(const struct column_row *r, struct strbuf *out) {
    double tokens = stage_of(r)->tokens;
    strbuf_addstr(out, text_num(tokens, tokens == floor(tokens) ? 0 : 1).s);
}

/* clang-format off */
static const struct column columns[] = {
    { "stage", "stage", COLUMN_TEXT, S(name), .data = CSV, .at = { .md = 10, .summary = 10 } },
    { NULL, "stage", COLUMN_TEXT, S(name), .at = { .terminal = 10 }, .show = show_indented },
    { "name", .source = S(name), .data = JSON },
    { "parent", .source = S(parent_name), .data = CSV | JSON },
    { "outside", .source = S(outside), .data = JSON },
    { "time_ms", "time ms", COLUMN_MS, S(time_ms), .data = CSV | JSON,
      .at = { .md = 20, .terminal = 20, .summary = 40 }, .run_name = "timed", .show = show_time },
    { "time_source", .source = GET(get_time_source), .data = CSV | JSON },
    { "recorded_only", .source = S(recorded_only), .data = CSV | JSON },
    { "repeats", .source = S(timing_ms.n), .data = CSV },
    { "total_ms", .source = S(total_ms), .data = CSV | JSON },
    { "mean_ms", .source = S(timing_ms.mean), .data = CSV },
    { "std_ms", .source = S(timing_ms.std), .data = CSV },
    { NULL, "spread ms", COLUMN_MS, S(spread_ms), .at = { .terminal = 30 } },
    { "median_ms", .source = S(timing_ms.median), .data = CSV },
    { "min_ms", .source = S(timing_ms.min), .data = CSV },
    { "max_ms", .source = S(timing_ms.max), .data = CSV },
    { "p90_ms", .source = S(timing_ms.p90), .data = CSV },
    { "cv", .source = S(timing_ms.cv), .data = CSV },
    { "ci95_low_ms", .source = S(timing_ms.ci95_low), .data = CSV },
    { "ci95_high_ms", .source = S(timing_ms.ci95_high), .data = CSV },
    { "gpu_busy_ms", .source = S(busy_ms), .data = JSON },
    { NULL, "GPU busy ms", COLUMN_MS, S(recorded_busy_ms), .at = { .md = 30 },
      .other_heading = "busy ms", .run_name = "recorded" },
    { NULL, "GPU idle", COLUMN_PERCENT, S(idle_share), .at = { .md = 40 }, .other_heading = "idle" },
    { "gpu_busy_share", "GPU busy", COLUMN_PERCENT, S(busy_share), .data = JSON, .at = { .terminal = 40 },
      .other_heading = "busy" },
    { NULL, "kernels", COLUMN_COUNT, S(kernels_each), .at = { .md = 90 } },
    { NULL, "launches/token", COLUMN_NUMBER, S(launches_per_token), .at = { .md = 100 },
      .show = show_launches },
    { NULL, "launches/tok", COLUMN_NUMBER, S(launches_per_token), .at = { .terminal = 90 },
      .show = show_launches },
    { "tokens", "tokens", COLUMN_NUMBER, S(tokens), .data = CSV | JSON, .at = { .md = 110 },
      .show = show_tokens },
    { "tokens_per_s", .source = S(tokens_per_s), .data = JSON },
    { "flops", "FLOPs", COLUMN_FLOPS, S(flops), .data = CSV | JSON, .at = { .summary = 20 } },
    { "bytes", "bytes", COLUMN_BYTES, S(bytes), .data = CSV | JSON, .at = { .summary = 30 } },
    { "floor_ms", "roofline ms", COLUMN_MS, S(floor_ms), .data = CSV | JSON,
      .at = { .md = 50, .terminal = 50, .summary = 70 } },
    { "distance", "distance", COLUMN_TIMES, S(distance), .data = CSV | JSON,
      .at = { .md = 60, .terminal = 60, .summary = 80 } },
    { "mfu", "MFU", COLUMN_PERCENT, S(mfu), .data = CSV | JSON,
      .at = { .md = 70, .terminal = 70, .summary = 50 } },
    { "mbu", "MBU", COLUMN_PERCENT, S(mbu), .data = CSV | JSON,
      .at = { .md = 80, .terminal = 80, .summary = 60 } },
    { "mbu_read", .source = S(mbu_read), .data = CSV | JSON },
    { "reason", .source = S(over.text), .data = CSV | JSON },
    { "hard_bound_ms", .source = S(hard_bound_ms), .data = CSV | JSON },
    { "peak_flop_per_s", .source = S(peak_flops_per_s), .data = JSON },
    { "peak_byte_per_s", .source = S(peak_bytes_per_s), .data = JSON },
    { "bandwidth_level", .source = S(level), .data = JSON },
    { "step_bytes", .source = S(step_bytes), .data = JSON },
    { "experts_read", .source = S(experts_read), .data = JSON },
    { "experts_source", .source = GET(get_experts_source), .data = JSON },
    { NULL, "J/token (recorded)", COLUMN_NUMBER, S(joules_per_token), .at = { .md = 120 }, .decimals = 3 },
    { "representative_ms", .source = GET(get_representative), .data = JSON },
    { "recording_overhead_ratio", .source = S(recording_cost), .data = CSV | JSON },
};
/* clang-format on */

/* ---- the trace */

static const void *traced_stage(const struct column_row *r) { return view_of(r)->a ? r->item : NULL; }

/* Counts and sums of work; NaN: the trace does not tell which work is the stage's. */
static struct column_value known_work(const struct column_row *r, struct column_value v) {
    return stage_of(r)->time_refused ? column_f64(NAN) : v;
}
static struct column_value get_kernels(const struct column_row *r) {
    return known_work(r, column_u64(stage_of(r)->kernels));
}
static struct column_value get_copies(const struct column_row *r) {
    return known_work(r, column_u64(stage_of(r)->copies));
}
static struct column_value get_copied_bytes(const struct column_row *r) {
    return known_work(r, column_f64(stage_of(r)->copied_bytes));
}
static struct column_value get_owned(const struct column_row *r) {
    return known_work(r, column_f64(stage_of(r)->gpu_owned_ns));
}
static struct column_value get_owned_self(const struct column_row *r) {
    return known_work(r, column_f64(stage_of(r)->gpu_owned_self_ns));
}

static struct column_value get_captured_share(const struct column_row *r) {
    return column_f64(1 - stage_of(r)->missed);
}

static const struct column trace_columns[] = {
    { "occurrences", .source = S(occurrences), .data = CSV | JSON },
    { "devices", .source = S(devices), .data = JSON },
    { "wall_total_ns", .source = S(wall_total_ns), .data = CSV },
    { "wall_ns", .source = S(wall_total_ns), .data = JSON },
    { "wall_median_ns", .source = S(wall_ns.median), .data = CSV },
    { "wall_p90_ns", .source = S(wall_ns.p90), .data = CSV },
    { "wall_p99_ns", .source = S(wall_ns.p99), .data = CSV },
    { "gpu_busy_ns", .source = S(gpu_busy_ns), .data = CSV | JSON },
    { "gpu_span_ns", .source = S(gpu_span_ns), .data = CSV | JSON },
    { "copy_alone_ns", .source = S(copy_alone_ns), .data = JSON },
    { "idle_ns", .source = S(idle_ns), .data = CSV | JSON },
    { "gpu_owned_ns", .source = GET(get_owned), .data = CSV | JSON },
    { "gpu_owned_self_ns", .source = GET(get_owned_self), .data = JSON },
    { "captured_share", .source = GET(get_captured_share), .data = JSON },
    { "kernels", .source = GET(get_kernels), .data = CSV | JSON },
    { "launches", .source = S(launches), .data = CSV | JSON },
    { "graph_launches", .source = S(graph_launches), .data = JSON },
    { "copies", .source = GET(get_copies), .data = CSV | JSON },
    { "syncs", .source = S(syncs), .data = CSV | JSON },
    { "copied_bytes", .source = GET(get_copied_bytes), .data = CSV | JSON },
    { "tokens_in", .source = S(tokens_in), .data = JSON },
    { "tokens_out", .source = S(tokens_out), .data = JSON },
    { "token_source", .source = S(token_source), .data = JSON },
    { "kernels_per_token", .source = S(kernels_per_token), .data = CSV | JSON },
    { "launches_per_token", .source = S(launches_per_token), .data = CSV | JSON },
    { "joules", .source = S(joules), .data = CSV | JSON },
    { "joules_per_token", .source = S(joules_per_token), .data = CSV | JSON },
    { "tokens_per_joule", .source = S(tokens_per_joule), .data = JSON },
    { "mean_watts", .source = S(watts), .data = JSON },
};

const struct column_group stage_columns[2] = {
    { .columns = columns, .n = COUNTOF(columns) },
    { .columns = trace_columns, .n = COUNTOF(trace_columns), .item = traced_stage },
};

/* ---- idle time, launch queue */

static struct column_value get_path(const struct column_row *r) {
    return column_str(stage_of(r)->path ? stage_of(r)->path : stage_of(r)->name);
}

static void show_depth(const struct column_row *r, struct strbuf *out) {
    double depth = stage_of(r)->idle.queue_depth_mean;
    strbuf_addstr(out, text_num(depth, depth < 9.95 ? 1 : 0).s);
}

/* clang-format off */
static const struct column idle_columns[] = {
    { NULL, "stage", COLUMN_TEXT, GET(get_path), .at = { .md = 10 } },
    { "gaps", .source = S(idle.gaps), .data = JSON },
    { "graph_removable_ns", .source = S(idle.graph_removable_ns), .data = JSON },
    { "queue_depth_mean", "mean depth", COLUMN_NUMBER, S(idle.queue_depth_mean), .data = JSON,
      .at = { .md = 20 }, .show = show_depth },
    { "queue_empty_share", "queue empty", COLUMN_PERCENT, S(idle.queue_empty_share), .data = JSON,
      .at = { .md = 30 } },
    { "launch_delay_median_ns", "call to start us", COLUMN_NS_US, S(idle.launch_delay_ns), .data = JSON,
      .at = { .md = 60 } },
    { "launch_cost_median_ns", "call time us", COLUMN_NS_US, S(idle.launch_cost_ns), .data = JSON,
      .at = { .md = 50 } },
    { "launch_interval_median_ns", "call interval us", COLUMN_NS_US, S(idle.launch_interval_ns), .data = JSON,
      .at = { .md = 40 } },
};
/* clang-format on */

const struct column_group stage_idle_columns[1] = { { .columns = idle_columns, .n = COUNTOF(idle_columns) } };

/* ---- idle time by cause */

static void show_removable(const struct column_row *r, struct strbuf *out) {
    const struct analysis_stage *s = stage_of(r);
    strbuf_addf(out, "%s (%s)", text_ms_number(s->removable_ms).s, text_percent(s->removable_share).s);
}

static bool any_idle(const struct view *v, enum analysis_idle_cause cause) {
    for (size_t i = 0; v->a && i < v->a->nstages; i++)
        if (v->a->stages[i].idle_known && v->a->stages[i].idle.ns[cause] > 0) return true;
    return false;
}

#define X(id, name)                                                                            \
    static bool any_idle_##id(const void *view) { return any_idle(view, ANALYSIS_IDLE_##id); } \
    static const struct column idle_##id[] = {                                                 \
        { NULL, name, COLUMN_MS, S(idle_cause_ms[ANALYSIS_IDLE_##id]), .at = { .md = 30 } }    \
    };
ANALYSIS_IDLE(X)
#undef X

static const struct column removable_columns[] = {
    { NULL, "stage", COLUMN_TEXT, GET(get_path), .at = { .md = 10 } },
    { NULL, "idle ms", COLUMN_MS, S(idle_ms), .at = { .md = 20 } },
    { NULL, "removable by CUDA graph", COLUMN_MS, S(removable_ms), .at = { .md = 40 },
      .show = show_removable },
};

const struct column_group stage_cause_columns[STAGE_CAUSE_GROUPS] = {
#define X(id, name) { .columns = idle_##id, .n = 1, .exists = any_idle_##id },
    ANALYSIS_IDLE(X)
#undef X
        { .columns = removable_columns, .n = COUNTOF(removable_columns) },
};

/* ---- hardware counters */

static const void *means_of_stage(const struct column_row *r) { return stage_of(r)->counters; }

static struct column_value get_recorded_mbu(const struct column_row *r) {
    return column_f64(100 * stage_of(r)->recorded_mbu);
}
static struct column_value get_recorded_mfu(const struct column_row *r) {
    return column_f64(100 * stage_of(r)->recorded_mfu);
}

#define M(field) FIELD(struct counter_means, field)
/* clang-format off */
static const struct column measured_columns[] = {
    { NULL, "stage", COLUMN_TEXT, GET(get_path), .at = { .md = 10 } },
    { "stage", .source = S(path), .data = JSON },
    { "recorded_mbu_pct", "MBU (recorded)", COLUMN_PCT, GET(get_recorded_mbu), .data = JSON,
      .at = { .md = 40 } },
    { "recorded_mfu_pct", "MFU (recorded)", COLUMN_PCT, GET(get_recorded_mfu), .data = JSON,
      .at = { .md = 80 } },
};
static const struct column mean_columns[] = {
    { "covered", "covered", COLUMN_PERCENT, M(covered), .data = JSON, .at = { .md = 20 } },
    { "sm_pct", "SM", COLUMN_PCT, M(mean[COUNTER_SM]), .data = JSON, .at = { .md = 90 } },
    { "tensor_pct", "tensor", COLUMN_PCT, M(mean[COUNTER_TENSOR]), .data = JSON, .at = { .md = 60 } },
    { "dram_read_pct", .source = M(mean[COUNTER_DRAM_READ]), .data = JSON },
    { "dram_write_pct", .source = M(mean[COUNTER_DRAM_WRITE]), .data = JSON },
    { "occupancy_pct", "achieved occupancy", COLUMN_PCT, M(mean[COUNTER_OCCUPANCY]), .data = JSON,
      .at = { .md = 100 } },
    { "sm_clock_hz", "SM clock GHz", COLUMN_GIGA, M(mean[COUNTER_CLOCK]), .data = JSON, .at = { .md = 110 },
      .decimals = 2 },
    { "dram_pct", "DRAM", COLUMN_PCT, M(dram_pct), .data = JSON, .at = { .md = 30 } },
    { "dram_byte_per_s", "DRAM GB/s", COLUMN_GIGA, M(dram_bytes_per_s), .data = JSON, .at = { .md = 50 } },
    { "tensor_at_peak_clock_pct", "at peak clock", COLUMN_PCT, M(tensor_at_peak_pct), .data = JSON,
      .at = { .md = 70 } },
};
/* clang-format on */

const struct column_group stage_counter_columns[2] = {
    { .columns = measured_columns, .n = COUNTOF(measured_columns) },
    { .columns = mean_columns, .n = COUNTOF(mean_columns), .item = means_of_stage },
};

/* ---- time per output token */

static const struct column token_columns[] = {
    { NULL, "stage", COLUMN_TEXT, GET(get_path), .at = { .md = 10 } },
    { NULL, "median ms", COLUMN_NS_MS, S(token_ns.median), .at = { .md = 20 } },
    { NULL, "p90 ms", COLUMN_NS_MS, S(token_ns.p90), .at = { .md = 30 } },
    { NULL, "p99 ms", COLUMN_NS_MS, S(token_ns.p99), .at = { .md = 40 } },
    { NULL, "max ms", COLUMN_NS_MS, S(token_ns.max), .at = { .md = 50 } },
    { NULL, "n", COLUMN_COUNT, S(token_ns.n), .at = { .md = 60 } },
};

const struct column_group stage_token_columns[1] = { { .columns = token_columns,
                                                       .n = COUNTOF(token_columns) } };
