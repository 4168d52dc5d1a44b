#include "serve/run_columns.h"

#include <math.h>

#include "base/text.h"
#include "base/util.h"
#include "history/query.h"

static const struct history_run *run_of(const struct column_row *r) { return r->item; }

static struct column_value get_findings(const struct column_row *r) {
    return column_u64((uint64_t)run_of(r)->findings);
}
static void show_started(const struct column_row *r, struct strbuf *out) {
    strbuf_addstr(out, text_date((uint64_t)run_of(r)->started_ns).s);
}
/* A run without notes has a blank. */
static void show_notes(const struct column_row *r, struct strbuf *out) {
    const struct history_run *run = run_of(r);
    size_t before = out->len;
    if (run->missing) strbuf_addstr(out, "missing ");
    if (!run->here) strbuf_addstr(out, "elsewhere ");
    if (run->incomplete) strbuf_addstr(out, "incomplete ");
    if (run->unstable) strbuf_addstr(out, "unstable ");
    if (run->busy) strbuf_addstr(out, "busy ");
    for (size_t i = 0; i < run->tags.n; i++) strbuf_addf(out, "#%s ", run->tags.v[i]);
    if (out->len > before) out->buf[--out->len] = '\0';
    if (out->len == before) strbuf_addch(out, ' ');
}

static const struct record_stage *stage_of(const struct column_row *r) { return r->item; }
static void show_stage(const struct column_row *r, struct strbuf *out) {
    strbuf_addf(out, "%s%s", stage_of(r)->parent ? "  " : "", stage_of(r)->name);
}
static void show_interval(const struct column_row *r, struct strbuf *out) {
    const struct record_stage *s = stage_of(r);
    if (!isnan(s->ci95_low_ms))
        strbuf_addf(out, "%s to %s", text_ms_number(s->ci95_low_ms).s, text_ms_number(s->ci95_high_ms).s);
}
static struct column_value get_nothing(const struct column_row *r) {
    (void)r;
    return column_f64(NAN);
}

/* clang-format off */
#define H(field) FIELD(struct history_run, field)
#define AT(position) .at = { .terminal = position, .html = position }
static const struct column name_columns[] = {
    { "run", "run", COLUMN_TEXT, H(name), .data = JSON, AT(10) },
    { "title", .source = H(title), .data = JSON },
    { NULL, "started", COLUMN_TEXT, H(name), AT(20), .show = show_started },
    { "model", "model", COLUMN_TEXT, H(model), .data = JSON, AT(30) },
    { "device", "device", COLUMN_TEXT, H(device), .data = JSON, AT(40) },
    { "engine", "engine", COLUMN_TEXT, H(engine), .data = JSON, AT(50) },
    { "host", .source = H(host), .data = JSON },
    { "inferprof_version", .source = H(version), .data = JSON },
    { "repeats", .source = H(repeats), .data = JSON },
    { "failed_repeats", .source = H(failed_repeats), .data = JSON },
};
static const struct column figure_columns[] = {
    { "time_to_first_token_ms", "first token ms", COLUMN_MS, H(time_to_first_token_ms), .data = JSON,
      AT(60) },
    { "time_per_token_ms", "per token ms", COLUMN_MS, H(time_per_token_ms), .data = JSON, AT(70) },
    { "tokens_per_s", "tok/s", COLUMN_NUMBER, H(tokens_per_s), .data = JSON, AT(80), .decimals = 1 },
    { "mfu", "MFU", COLUMN_PERCENT, H(mfu), .data = JSON, AT(90) },
    { "mbu", "MBU", COLUMN_PERCENT, H(mbu), .data = JSON, AT(100) },
};
static const struct column stage_figure_columns[] = {
    { "time_ms", "time ms", COLUMN_MS, H(stage_time_ms), .data = JSON, AT(60) },
    { "ci95_low_ms", .source = H(stage_ci95_low_ms), .data = JSON },
    { "ci95_high_ms", .source = H(stage_ci95_high_ms), .data = JSON },
    { "time_per_token_ms", "per token ms", COLUMN_MS, H(stage_time_per_token_ms), .data = JSON, AT(70) },
    { "tokens_per_s", "tok/s", COLUMN_NUMBER, H(stage_tokens_per_s), .data = JSON, AT(80), .decimals = 1 },
    { "mfu", "MFU", COLUMN_PERCENT, H(stage_mfu), .data = JSON, AT(90) },
    { "mbu", "MBU", COLUMN_PERCENT, H(stage_mbu), .data = JSON, AT(100) },
    { "distance", .source = H(stage_distance), .data = JSON },
};
static const struct column note_columns[] = {
    { NULL, "notes", COLUMN_TEXT, H(name), .at = { .terminal = 110 }, .show = show_notes },
};
static const struct column detail_columns[] = {
    { "findings", .source = GET(get_findings), .data = JSON },
    { "incomplete", .source = H(incomplete), .data = JSON },
    { "unstable", .source = H(unstable), .data = JSON },
    { "busy", .source = H(busy), .data = JSON },
    { "missing", .source = H(missing), .data = JSON },
    { "here", .source = H(here), .data = JSON },
    { "path", .source = H(path), .data = JSON },
    { "digest", .source = H(digest), .data = JSON },
};

#define S(field) FIELD(struct record_stage, field)
#define BOTH(on_terminal, on_page) .data = JSON, .at = { .terminal = on_terminal, .html = on_page }
static const struct column stage_columns[] = {
    { "name", "stage", COLUMN_TEXT, S(name), BOTH(10, 10), .show = show_stage },
    { "parent", .source = S(parent), .data = JSON },
    { "time_ms", "time ms", COLUMN_MS, S(time_ms), BOTH(20, 20) },
    { NULL, "95% CI", COLUMN_MS, GET(get_nothing), .at = { .terminal = 30, .html = 30 },
      .show = show_interval },
    { "ci95_low_ms", .source = S(ci95_low_ms), .data = JSON },
    { "ci95_high_ms", .source = S(ci95_high_ms), .data = JSON },
    { "repeats", .source = S(repeats), .data = JSON },
    { "tokens", .source = S(tokens), .data = JSON },
    { "time_per_token_ms", "per token ms", COLUMN_MS, S(time_per_token_ms), BOTH(40, 40) },
    { "tokens_per_s", "tok/s", COLUMN_NUMBER, S(tokens_per_s), BOTH(50, 50), .decimals = 1 },
    { "mfu", "MFU", COLUMN_PERCENT, S(mfu), BOTH(60, 80) },
    { "mbu", "MBU", COLUMN_PERCENT, S(mbu), BOTH(70, 90) },
    { "floor_ms", "roofline ms", COLUMN_MS, S(floor_ms), .data = JSON, .at = { .html = 60 } },
    { "distance", "distance", COLUMN_TIMES, S(distance), BOTH(80, 70) },
    { "gpu_busy_share", .source = S(gpu_busy_share), .data = JSON },
};

#define K(field) FIELD(struct record_kernel, field)
static const struct column kernel_columns[] = {
    { "name", "kernel", COLUMN_NAME, K(name), .data = JSON, .at = { .html = 10 } },
    { "category", "category", COLUMN_TEXT, K(category), .data = JSON, .at = { .html = 20 } },
    { "library", .source = K(library), .data = JSON },
    { "stage", "stage", COLUMN_TEXT, K(stage), .data = JSON, .at = { .html = 30 } },
    { "calls", "calls", COLUMN_COUNT, K(calls), .data = JSON, .at = { .html = 60 } },
    { "owned_ns", "time ms", COLUMN_NS_MS, K(owned_ns), .data = JSON, .at = { .html = 40 } },
    { "share", "share", COLUMN_PERCENT, K(share), .data = JSON, .at = { .html = 50 } },
};

#define F(field) FIELD(struct record_figure, field)
static const struct column measure_columns[] = {
    { "key", .source = F(key), .data = JSON },
    { "name", .source = F(name), .data = JSON },
    { "unit", .source = F(unit), .data = JSON },
    { "larger_is_better", .source = F(larger_is_better), .data = JSON },
    { "median", .source = F(median), .data = JSON },
    { "mean", .source = F(mean), .data = JSON },
    { "std", .source = F(std), .data = JSON },
    { "ci95_low", .source = F(ci95_low), .data = JSON },
    { "ci95_high", .source = F(ci95_high), .data = JSON },
    { "repeats", .source = F(repeats), .data = JSON },
};

#define D(field) FIELD(struct record_finding, field)
static const struct column finding_columns[] = {
    { "rule", .source = D(rule), .data = JSON },
    { "stage", .source = D(stage), .data = JSON },
    { "title", .source = D(title), .data = JSON },
    { "evidence", .source = D(evidence), .data = JSON },
    { "advice", .source = D(advice), .data = JSON },
    { "confidence", .source = D(confidence), .data = JSON },
    { "saving_ms", .source = D(saving_ms), .data = JSON },
    { "saving_percent", .source = D(saving_percent), .data = JSON },
};

#define E(field) FIELD(struct record_env, field)
static const struct column env_columns[] = {
    { "group", .source = E(kind), .data = JSON },
    { "key", .source = E(key), .data = JSON },
    { "value", .source = E(value), .data = JSON },
};
/* clang-format on */

#define GROUP(name, list) const struct column_group name = { .columns = list, .n = COUNTOF(list) }
GROUP(run_name_columns, name_columns);
GROUP(run_figure_columns, figure_columns);
GROUP(run_stage_figure_columns, stage_figure_columns);
GROUP(run_note_columns, note_columns);
GROUP(run_detail_columns, detail_columns);
GROUP(run_stage_columns, stage_columns);
GROUP(run_kernel_columns, kernel_columns);
GROUP(run_measure_columns, measure_columns);
GROUP(run_finding_columns, finding_columns);
GROUP(run_env_columns, env_columns);
