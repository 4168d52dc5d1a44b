#include "report/ranks_columns.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/die.h"
#include "base/text.h"
#include "base/util.h"
#include "ranks/sums.h"
#include "report/ranks.h"

static const struct rank_report *report_of(const struct column_row *r) { return r->context; }
static struct column_value known_rank(uint32_t v) {
    return v == RANK_NONE ? (struct column_value){ .type = COLUMN_NONE } : column_u64(v);
}
static void add_rate(double bytes_per_s, struct strbuf *out) {
    if (!isnan(bytes_per_s)) strbuf_addf(out, "%.4g", bytes_per_s * 1e-9);
}

/* Shares of the time of the item. SHARES(name, function that returns a struct rank_shares) */
#define SHARES(name, shares_of)                                                   \
    static struct column_value get_##name##_compute(const struct column_row *r) { \
        return column_f64(shares_of(r).compute);                                  \
    }                                                                             \
    static struct column_value get_##name##_exposed(const struct column_row *r) { \
        return column_f64(shares_of(r).exposed);                                  \
    }                                                                             \
    static struct column_value get_##name##_wait(const struct column_row *r) {    \
        return column_f64(shares_of(r).wait);                                     \
    }                                                                             \
    static struct column_value get_##name##_move(const struct column_row *r) {    \
        return column_f64(shares_of(r).move);                                     \
    }                                                                             \
    static struct column_value get_##name##_idle(const struct column_row *r) {    \
        return column_f64(shares_of(r).idle);                                     \
    }
/* clang-format off */
#define AT(position) .at = { .md = position }
#define SHARE_COLUMNS(name) \
    { NULL, "compute", COLUMN_PERCENT, GET(get_##name##_compute), AT(40) }, \
    { NULL, "exposed", COLUMN_PERCENT, GET(get_##name##_exposed), AT(41), \
      .help = "only communication runs" }, \
    { NULL, "waiting", COLUMN_PERCENT, GET(get_##name##_wait), AT(42), \
      .help = "until the last rank started the same collective" }, \
    { NULL, "moving", COLUMN_PERCENT, GET(get_##name##_move), AT(43), \
      .help = "the rest of the exposed time" }, \
    { NULL, "idle", COLUMN_PERCENT, GET(get_##name##_idle), AT(44) }
/* clang-format on */
#define GROUP(name, list) const struct column_group name = { .columns = list, .n = COUNTOF(list) }

/* ---- Times and costs */
#define T(field) FIELD(struct rank_time, field)
static const struct column time_columns[] = {
    { "compute_ns", .source = T(compute_ns), .data = JSON },
    { "exposed_ns", .source = T(exposed_ns), .data = JSON },
    { "copy_ns", .source = T(copy_ns), .data = JSON },
    { "idle_ns", .source = T(idle_ns), .data = JSON },
    { "wait_ns", .source = T(wait_ns), .data = JSON },
    { "move_ns", .source = T(move_ns), .data = JSON },
    { "hidden_ns", .source = T(hidden_ns), .data = JSON },
    { "matched_share", .source = T(matched_share), .data = JSON },
};
GROUP(rank_time_columns, time_columns);

#define K(field) FIELD(struct rank_cost, field)
static const struct column cost_columns[] = {
    { "flops", .source = K(flops), .data = JSON },       { "bytes", .source = K(bytes), .data = JSON },
    { "floor_ns", .source = K(floor_ns), .data = JSON }, { "mfu", .source = K(mfu), .data = JSON },
    { "mbu", .source = K(mbu), .data = JSON },
};
GROUP(rank_cost_columns, cost_columns);

static struct column_value get_index(const struct column_row *r) { return column_u64(r->index); }
#define C(field) FIELD(struct rank_cell, field)
static const struct column cell_columns[] = {
    { "stage", .source = GET(get_index), .data = JSON },
    { "occurrences", .source = C(occurrences), .data = JSON },
    { "tokens_in", .source = C(tokens_in), .data = JSON },
    { "tokens_out", .source = C(tokens_out), .data = JSON },
    { "wall_ns", .source = C(wall_ns), .data = JSON },
};
GROUP(rank_cell_columns, cell_columns);

/* ---- Stages */
static const struct rank_stage *stage_of(const struct column_row *r) { return r->item; }
static struct rank_stage_sum sum_of(const struct column_row *r) {
    return rank_stage_sum(report_of(r)->job, r->index);
}
static struct rank_shares stage_shares(const struct column_row *r) { return sum_of(r).shares; }
SHARES(stage, stage_shares)
static const struct rank_cost *cost_of(const struct column_row *r) {
    return &report_of(r)->costs->job[r->index];
}
static void show_stage(const struct column_row *r, struct strbuf *out) {
    strbuf_addf(out, "%s%s", stage_of(r)->parent == RANK_NONE ? "" : "  ", stage_of(r)->name);
}
static struct column_value get_parent(const struct column_row *r) { return known_rank(stage_of(r)->parent); }
static void show_stage_ranks(const struct column_row *r, struct strbuf *out) {
    strbuf_addf(out, "%zu", stage_of(r)->present);
}
static struct column_value get_step_ms(const struct column_row *r) {
    return column_f64(rank_step_ns(report_of(r)->job, r->index) * 1e-6);
}
static struct column_value get_slowest(const struct column_row *r) {
    return column_f64(sum_of(r).slowest_compute_ns);
}
static struct column_value get_fastest(const struct column_row *r) {
    return column_f64(sum_of(r).fastest_compute_ns);
}
static struct column_value get_roofline(const struct column_row *r) {
    return column_f64(cost_of(r)->floor_each_ns);
}
static struct column_value get_mfu(const struct column_row *r) { return column_f64(cost_of(r)->mfu); }
static struct column_value get_mbu(const struct column_row *r) { return column_f64(cost_of(r)->mbu); }

/* clang-format off */
#define S(field) FIELD(struct rank_stage, field)
static const struct column stage_columns[] = {
    { "name", "stage", COLUMN_TEXT, S(name), .data = JSON, AT(10), .show = show_stage },
    { "path", .source = S(path), .data = JSON },
    { "parent", .source = GET(get_parent), .data = JSON },
    { "ranks", "ranks", COLUMN_COUNT, S(present), .data = JSON, AT(20), .show = show_stage_ranks },
    { "step_ms", "step ms", COLUMN_MS, GET(get_step_ms), .data = JSON, AT(30) },
    SHARE_COLUMNS(stage),
    { NULL, "compute ms, slowest rank", COLUMN_NS_MS, GET(get_slowest), AT(50) },
    { NULL, "fastest rank", COLUMN_NS_MS, GET(get_fastest), AT(60) },
    { NULL, "roofline ms", COLUMN_NS_MS, GET(get_roofline), AT(70) },
    { NULL, "MFU", COLUMN_PERCENT, GET(get_mfu), AT(80) },
    { NULL, "MBU", COLUMN_PERCENT, GET(get_mbu), AT(90) },
};
/* clang-format on */
GROUP(rank_stage_columns, stage_columns);

/* ---- Nodes */
static const struct rank_node *node_of(const struct column_row *r) { return r->item; }
static struct rank_shares node_shares(const struct column_row *r) {
    return rank_shares_of(&node_of(r)->time, node_of(r)->timeline_ns);
}
SHARES(node, node_shares)
static struct column_value get_latest(const struct column_row *r) { return known_rank(node_of(r)->latest); }
static void show_present(const struct column_row *r, struct strbuf *out) {
    strbuf_addf(out, "%zu", node_of(r)->present);
}
static void show_latest(const struct column_row *r, struct strbuf *out) {
    if (node_of(r)->latest != RANK_NONE) strbuf_addf(out, "%u", node_of(r)->latest);
}
static void show_node_late(const struct column_row *r, struct strbuf *out) {
    strbuf_addstr(out, text_num(node_of(r)->late_ns * 1e-3, 1).s);
}

/* clang-format off */
#define N(field) FIELD(struct rank_node, field)
static const struct column node_columns[] = {
    { "name", "node", COLUMN_TEXT, N(name), .data = JSON, AT(10) },
    { "present", "ranks with data", COLUMN_COUNT, N(present), .data = JSON, AT(20), .show = show_present },
    { "timeline_ns", .source = N(timeline_ns), .data = JSON },
    SHARE_COLUMNS(node),
    { "latest", "latest rank", COLUMN_COUNT, GET(get_latest), .data = JSON, AT(50), .show = show_latest },
    { "late_ns", "late us", COLUMN_NS_US, N(late_ns), .data = JSON, AT(60), .show = show_node_late },
    { "sm_mhz_mean", "SM MHz", COLUMN_NUMBER, N(sm_mhz_mean), .data = JSON, AT(70) },
    { "joules", "J", COLUMN_NUMBER, N(joules), .data = JSON, AT(80) },
};
/* clang-format on */
GROUP(rank_node_columns, node_columns);

/* ---- Ranks */
static const struct rank_row *rank_of(const struct column_row *r) { return r->item; }
static const struct rank_place *place_of(const struct column_row *r) {
    return &report_of(r)->layout->places[r->index];
}
static bool is_there(const struct column_row *r) { return rank_of(r)->state != RANK_STATE_MISSING; }
static struct column_value if_there(const struct column_row *r, double v) {
    return column_f64(is_there(r) ? v : NAN);
}
static struct rank_shares rank_shares(const struct column_row *r) {
    return rank_shares_of(&rank_of(r)->time, is_there(r) ? rank_of(r)->timeline_ns : NAN);
}
SHARES(rank, rank_shares)
static void show_rank(const struct column_row *r, struct strbuf *out) {
    strbuf_addf(out, "%u", rank_of(r)->rank);
}
static struct column_value get_state(const struct column_row *r) {
    return column_str(rank_state_name(rank_of(r)->state));
}
static struct column_value get_local(const struct column_row *r) {
    return known_rank(rank_of(r)->local_rank);
}
static struct column_value get_node(const struct column_row *r) { return known_rank(rank_of(r)->node); }
static void show_node(const struct column_row *r, struct strbuf *out) {
    const struct rank_job *job = report_of(r)->job;
    uint32_t node = rank_of(r)->node;
    strbuf_addstr(out, text_or_dash(node < job->nnodes ? job->nodes[node].name : NULL));
}
static struct column_value get_clock(const struct column_row *r) { return known_rank(rank_of(r)->clock); }
static struct column_value get_tp(const struct column_row *r) { return known_rank(place_of(r)->tp); }
static struct column_value get_pp(const struct column_row *r) { return known_rank(place_of(r)->pp); }
static struct column_value get_dp(const struct column_row *r) { return known_rank(place_of(r)->dp); }
static void show_place(const struct column_row *r, struct strbuf *out) {
    const struct rank_place *p = place_of(r);
    if (report_of(r)->layout->source && p->tp != RANK_NONE && p->pp != RANK_NONE && p->dp != RANK_NONE)
        strbuf_addf(out, "%u, %u, %u", p->tp, p->pp, p->dp);
}
static struct column_value get_timeline(const struct column_row *r) {
    return if_there(r, rank_of(r)->timeline_ns);
}
static struct column_value get_unrecorded(const struct column_row *r) {
    return if_there(r, rank_of(r)->unrecorded_ns);
}
static struct column_value get_late(const struct column_row *r) { return if_there(r, rank_of(r)->late_ns); }
static void show_late(const struct column_row *r, struct strbuf *out) {
    strbuf_addstr(out, text_num(get_late(r).f64 * 1e-3, 1).s);
}
static void show_arrivals(const struct column_row *r, struct strbuf *out) {
    strbuf_addstr(out, is_there(r) ? text_count(rank_of(r)->last_arrivals).s : text_or_dash(NULL));
}
static struct column_value get_mhz(const struct column_row *r) {
    return if_there(r, rank_of(r)->sm_mhz_mean);
}
static struct column_value get_throttled(const struct column_row *r) {
    return if_there(r, rank_of(r)->throttled_ns);
}
static void show_throttled(const struct column_row *r, struct strbuf *out) {
    strbuf_addstr(out, text_percent(if_there(r, rank_of(r)->throttled_share).f64).s);
}
static struct column_value get_joules(const struct column_row *r) { return if_there(r, rank_of(r)->joules); }

/* clang-format off */
#define R(field) FIELD(struct rank_row, field)
static const struct column rank_columns[] = {
    { "rank", "rank", COLUMN_TEXT, R(rank), .data = JSON, AT(10), .show = show_rank },
    { "state", "state", COLUMN_TEXT, GET(get_state), .data = JSON, AT(12) },
    { "local_rank", .source = GET(get_local), .data = JSON },
    { "node", "node", COLUMN_TEXT, GET(get_node), .data = JSON, AT(14), .show = show_node },
    { "clock", .source = GET(get_clock), .data = JSON },
    { "device", "GPU", COLUMN_TEXT, R(device), .data = JSON, AT(16) },
    { NULL, "tp, pp, dp", COLUMN_TEXT, GET(get_tp), AT(18), .show = show_place, .right = true,
      .help = "place in the parallel layout" },
    { "tp", .source = GET(get_tp), .data = JSON },
    { "pp", .source = GET(get_pp), .data = JSON },
    { "dp", .source = GET(get_dp), .data = JSON },
    { "kernels", .source = R(kernels), .data = JSON },
    { "collectives", .source = R(collectives), .data = JSON },
    { "timeline_ns", .source = GET(get_timeline), .data = JSON },
    { "unrecorded_ns", .source = GET(get_unrecorded), .data = JSON },
    SHARE_COLUMNS(rank),
};
static const struct column rank_more_columns[] = {
    { "late_ns", "late us", COLUMN_NS_US, GET(get_late), .data = JSON, AT(50), .show = show_late,
      .help = "mean arrival at collectives after the first rank" },
    { "last_arrivals", "arrived last", COLUMN_COUNT, R(last_arrivals), .data = JSON, AT(60),
      .show = show_arrivals },
    { "sm_mhz", "SM MHz", COLUMN_NUMBER, GET(get_mhz), .data = JSON, AT(70) },
    { "throttled_ns", "throttled", COLUMN_PERCENT, GET(get_throttled), .data = JSON, AT(80),
      .show = show_throttled },
    { "joules", .source = GET(get_joules), .data = JSON },
};
/* clang-format on */
GROUP(rank_rank_columns, rank_columns);
GROUP(rank_rank_more_columns, rank_more_columns);

/* ---- Collectives and communicators */
/* "0 to 7, every 2" */
static void add_members(const struct rank_communicator *c, struct strbuf *out) {
    uint32_t step = c->nranks > 1 ? c->ranks[1] - c->ranks[0] : 1;
    if (!c->nranks) return;
    uint32_t first = c->ranks[0], last = c->ranks[c->nranks - 1];
    for (size_t i = 1; i < c->nranks; i++)
        if (c->ranks[i] - c->ranks[i - 1] != step) step = 0;
    if (c->nranks == 1)
        strbuf_addf(out, "%u", first);
    else if (step == 1)
        strbuf_addf(out, "%u to %u", first, last);
    else if (step)
        strbuf_addf(out, "%u to %u, every %u", first, last, step);
    else
        strbuf_addf(out, "%zu ranks from %u to %u", c->nranks, first, last);
}

static const struct rank_collective *collective_of(const struct column_row *r) { return r->item; }
static struct rank_link_use use_of(const struct column_row *r) {
    return rank_link_use(report_of(r)->job, report_of(r)->links, r->index);
}
static struct column_value get_communicator(const struct column_row *r) {
    return known_rank(collective_of(r)->communicator);
}
static void show_group(const struct column_row *r, struct strbuf *out) {
    const struct rank_job *job = report_of(r)->job;
    uint32_t c = collective_of(r)->communicator;
    if (c < job->ncommunicators) add_members(&job->communicators[c], out);
}
static struct column_value get_bytes(const struct column_row *r) {
    return column_u64_known(collective_of(r)->bytes);
}
static struct column_value get_move(const struct column_row *r) {
    return column_f64(collective_of(r)->move_ns.median);
}
static void show_move(const struct column_row *r, struct strbuf *out) {
    strbuf_addstr(out, text_num(get_move(r).f64 * 1e-3, 1).s);
}
static struct column_value get_skew(const struct column_row *r) {
    return column_f64(collective_of(r)->skew_ns.median);
}
static void show_skew(const struct column_row *r, struct strbuf *out) {
    strbuf_addstr(out, text_num(get_skew(r).f64 * 1e-3, 1).s);
}
static void show_bus(const struct column_row *r, struct strbuf *out) {
    add_rate(collective_of(r)->bus_bytes_per_s, out);
}
static struct column_value get_link(const struct column_row *r) { return column_str(use_of(r).link); }
static struct column_value get_link_rate(const struct column_row *r) {
    return column_f64(use_of(r).peak_bytes_per_s);
}
static void show_link_rate(const struct column_row *r, struct strbuf *out) {
    add_rate(use_of(r).peak_bytes_per_s, out);
}
static struct column_value get_link_share(const struct column_row *r) { return column_f64(use_of(r).share); }

/* clang-format off */
#define L(field) FIELD(struct rank_collective, field)
static const struct column collective_columns[] = {
    { "communicator", "ranks", COLUMN_TEXT, GET(get_communicator), .data = JSON, AT(20), .show = show_group },
    { "operation", "operation", COLUMN_TEXT, L(operation), .data = JSON, AT(10) },
    { "type", "type", COLUMN_TEXT, L(type), .data = JSON, AT(40), .right = true },
    { "bytes", "bytes", COLUMN_BYTES, GET(get_bytes), .data = JSON, AT(30) },
    { "calls", "calls", COLUMN_COUNT, L(calls), .data = JSON, AT(50) },
    { "matched", "matched", COLUMN_COUNT, L(matched), .data = JSON, AT(60) },
    { "move_median_ns", "moving us, median", COLUMN_NS_US, GET(get_move), .data = JSON, AT(70),
      .show = show_move },
    { "skew_median_ns", "skew us, median", COLUMN_NS_US, GET(get_skew), .data = JSON, AT(80),
      .show = show_skew },
    { "exposed_ns", "exposed ms", COLUMN_NS_MS, L(exposed_ns), .data = JSON, AT(90) },
    { "wait_ns", .source = L(wait_ns), .data = JSON },
    { "algorithm_bytes_per_s", .source = L(algorithm_bytes_per_s), .data = JSON },
    { "bus_bytes_per_s", "bus GB/s", COLUMN_GIGA, L(bus_bytes_per_s), .data = JSON, AT(100), .show = show_bus,
      .help = "bus bandwidth as nccl-tests defines it, over the median moving time" },
    { "link", "link", COLUMN_TEXT, GET(get_link), .data = JSON, AT(110), .right = true },
    { "link_bytes_per_s", "link GB/s", COLUMN_GIGA, GET(get_link_rate), .data = JSON, AT(120),
      .show = show_link_rate },
    { "link_share", "of the link", COLUMN_PERCENT, GET(get_link_share), .data = JSON, AT(130) },
};
/* clang-format on */
GROUP(rank_collective_columns, collective_columns);

static const struct rank_communicator *communicator_of(const struct column_row *r) { return r->item; }
static void show_id(const struct column_row *r, struct strbuf *out) {
    strbuf_addf(out, "%016" PRIx64, communicator_of(r)->id);
}
static void show_members(const struct column_row *r, struct strbuf *out) {
    add_members(communicator_of(r), out);
}
static struct column_value get_size(const struct column_row *r) {
    return column_u64_known(communicator_of(r)->size);
}
static void show_size(const struct column_row *r, struct strbuf *out) {
    if (communicator_of(r)->size) strbuf_addf(out, "%u", communicator_of(r)->size);
}
static void show_with_data(const struct column_row *r, struct strbuf *out) {
    strbuf_addf(out, "%zu", communicator_of(r)->nranks);
}
static void show_source(const struct column_row *r, struct strbuf *out) {
    strbuf_addstr(out, communicator_of(r)->from_kernels ? "kernels" : "records");
}

/* clang-format off */
#define M(field) FIELD(struct rank_communicator, field)
static const struct column communicator_columns[] = {
    { NULL, "communicator", COLUMN_TEXT, M(name), AT(10), .show = show_id },
    { "name", "name", COLUMN_TEXT, M(name), .data = JSON, AT(20) },
    { NULL, "ranks", COLUMN_TEXT, M(name), AT(30), .show = show_members },
    { "size", "size", COLUMN_COUNT, GET(get_size), .data = JSON, AT(40), .show = show_size },
    { NULL, "with data", COLUMN_COUNT, M(nranks), AT(50), .show = show_with_data },
    { "nodes", "nodes", COLUMN_COUNT, M(nodes), .data = JSON, AT(60) },
    { "from_kernels", "source", COLUMN_TEXT, M(from_kernels), .data = JSON, AT(70), .show = show_source,
      .right = true },
};
/* clang-format on */
GROUP(rank_communicator_columns, communicator_columns);

/* ---- Clocks */
static const struct rank_clock *clock_of(const struct column_row *r) { return r->item; }
static void show_index(const struct column_row *r, struct strbuf *out) { strbuf_addf(out, "%zu", r->index); }
static struct column_value get_clock_node(const struct column_row *r) {
    return known_rank(clock_of(r)->node);
}
static void show_clock_node(const struct column_row *r, struct strbuf *out) {
    const struct rank_job *job = report_of(r)->job;
    uint32_t node = clock_of(r)->node;
    strbuf_addstr(out, text_or_dash(node < job->nnodes ? job->nodes[node].name : NULL));
}
static struct column_value get_clock_source(const struct column_row *r) {
    return column_str(rank_clock_source_name(clock_of(r)->source));
}
static struct column_value get_offset(const struct column_row *r) {
    return column_f64(clock_of(r)->nsegments ? clock_of(r)->segments[0].offset_ns : NAN);
}
static void show_offset(const struct column_row *r, struct strbuf *out) {
    strbuf_addstr(out, text_num(get_offset(r).f64 * 1e-3, 1).s);
}
static struct column_value get_drift(const struct column_row *r) {
    return column_f64(rank_clock_drift(clock_of(r)));
}
static void show_drift(const struct column_row *r, struct strbuf *out) {
    strbuf_addstr(out, text_num(get_drift(r).f64 * 1e6, 3).s);
}
static struct column_value get_drift_error(const struct column_row *r) {
    return column_f64(clock_of(r)->nsegments ? clock_of(r)->segments[0].drift_error : NAN);
}
static void show_drift_error(const struct column_row *r, struct strbuf *out) {
    strbuf_addstr(out, text_num(get_drift_error(r).f64 * 1e6, 3).s);
}
static void show_error(const struct column_row *r, struct strbuf *out) {
    strbuf_addstr(out, text_num(clock_of(r)->error_ns * 1e-3, 2).s);
}
static void show_steps(const struct column_row *r, struct strbuf *out) {
    struct rank_clock_change step;
    size_t before = out->len;
    for (size_t i = 0; i < 4 && rank_clock_change(clock_of(r), i, &step); i++)
        strbuf_addf(out, "%s%s%s", i ? ", " : "", step.step_ns > 0 ? "+" : "",
                    text_num(step.step_ns * 1e-3, 1).s);
    if (rank_clock_change(clock_of(r), 4, &step)) strbuf_addstr(out, ", ...");
    if (out->len == before) strbuf_addstr(out, "none");
}
static void show_segments(const struct column_row *r, struct strbuf *out) {
    strbuf_addf(out, "%zu", clock_of(r)->nsegments);
}
static void show_points(const struct column_row *r, struct strbuf *out) {
    strbuf_addf(out, "%zu", rank_clock_points(clock_of(r)));
}
static void show_outliers(const struct column_row *r, struct strbuf *out) {
    strbuf_addf(out, "%zu", clock_of(r)->outliers);
}

/* clang-format off */
#define O(field) FIELD(struct rank_clock, field)
static const struct column clock_columns[] = {
    { NULL, "clock", COLUMN_TEXT, GET(get_clock_source), AT(10), .show = show_index },
    { "node", "node", COLUMN_TEXT, GET(get_clock_node), .data = JSON, AT(20), .show = show_clock_node },
    { "source", "source", COLUMN_TEXT, GET(get_clock_source), .data = JSON, AT(30) },
    { "error_ns", "error us", COLUMN_NS_US, O(error_ns), .data = JSON, AT(70), .show = show_error },
    { "offset_ns", "offset us", COLUMN_NS_US, GET(get_offset), .data = JSON, AT(40), .show = show_offset,
      .help = "against the clock of the job" },
    { "drift", "drift ppm", COLUMN_NUMBER, GET(get_drift), .data = JSON, AT(50), .show = show_drift },
    { "drift_error", "drift error ppm", COLUMN_NUMBER, GET(get_drift_error), .data = JSON, AT(60),
      .show = show_drift_error },
    { NULL, "steps us", COLUMN_NUMBER, GET(get_offset), AT(80), .show = show_steps },
    { "segments", "segments", COLUMN_COUNT, O(nsegments), .data = JSON, AT(90), .show = show_segments },
    { NULL, "collectives", COLUMN_COUNT, O(nsegments), AT(100), .show = show_points },
    { "outliers", "outliers", COLUMN_COUNT, O(outliers), .data = JSON, AT(110), .show = show_outliers },
};
/* clang-format on */
GROUP(rank_clock_columns, clock_columns);
