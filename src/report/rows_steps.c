/* Steps and phases recognised without annotations. */
#include <math.h>

#include "base/text.h"
#include "base/util.h"
#include "report/rows.h"

/* ---- steps.csv */

static const struct recognised_step *step_of(const struct column_row *r) { return r->item; }
static struct column_value get_kind(const struct column_row *r) {
    return column_str(step_of(r)->warm_up ? "warm-up" : step_kind_name(step_of(r)->kind));
}
static struct column_value get_confidence(const struct column_row *r) {
    return column_str(step_of(r)->certain ? "certain" : "uncertain");
}
static struct column_value get_start_ms(const struct column_row *r) {
    const struct recognition *all = &view_of(r)->a->recognition;
    return column_f64((double)(step_of(r)->start_ns - all->steps[0].start_ns) * 1e-6);
}
static struct column_value get_time_ms(const struct column_row *r) {
    return column_f64(step_of(r)->time_ns * 1e-6);
}
static struct column_value get_span_ms(const struct column_row *r) {
    return column_f64((double)(step_of(r)->end_ns - step_of(r)->start_ns) * 1e-6);
}
static struct column_value get_device(const struct column_row *r) {
    return column_str(timeline_device_label(view_of(r)->a->timeline, step_of(r)->device));
}
static struct column_value get_work(const struct column_row *r) { return column_u64(step_of(r)->count); }

#define S(field) FIELD(struct recognised_step, field)
static const struct column step_columns[] = {
    { "kind", .source = GET(get_kind), .data = CSV },
    { "confidence", .source = GET(get_confidence), .data = CSV },
    { "tokens", .source = S(tokens), .data = CSV },
    { "requests", .source = S(requests), .data = CSV },
    { "start_ms", .source = GET(get_start_ms), .data = CSV },
    { "time_ms", .source = GET(get_time_ms), .data = CSV },
    { "span_ms", .source = GET(get_span_ms), .data = CSV },
    { "kernels_and_copies", .source = GET(get_work), .data = CSV },
    { "layers", .source = S(layers), .data = CSV },
    { "graph", .source = S(graph), .data = CSV },
    { "device", .source = GET(get_device), .data = CSV },
    { "doubt", .source = S(doubt), .data = CSV },
    { "label", .source = S(label), .data = CSV },
};
static const struct column_group step_group = { .columns = step_columns, .n = COUNTOF(step_columns) };

void rows_steps_csv(const struct view *v, struct table *t) {
    struct column_items items = { 0 };
    if (v->a)
        items = (struct column_items){ v->a->recognition.steps, v->a->recognition.nsteps,
                                       sizeof *v->a->recognition.steps };
    view_table(&step_group, 1, COLUMN_DOC_CSV, v, items, t);
}

/* ---- kinds of steps */

#define K(field) FIELD(struct analysis_step_kind, field)
static void show_range(const struct stats *s, struct strbuf *out) {
    strbuf_addstr(out, text_num(s->median, 0).s);
    if (s->max > s->min) strbuf_addf(out, " (%s to %s)", text_num(s->min, 0).s, text_num(s->max, 0).s);
}
static void show_tokens(const struct column_row *r, struct strbuf *out) {
    show_range(&((const struct analysis_step_kind *)r->item)->tokens, out);
}
static void show_requests(const struct column_row *r, struct strbuf *out) {
    show_range(&((const struct analysis_step_kind *)r->item)->requests, out);
}
static void show_unrecorded(const struct column_row *r, struct strbuf *out) {
    size_t n = ((const struct analysis_step_kind *)r->item)->unrecorded_ns.n;
    strbuf_addstr(out, n ? text_count(n).s : text_or_dash(NULL));
}
/* clang-format off */
static const struct column kind_columns[] = {
    { "kind", "step", COLUMN_TEXT, K(name), .data = JSON, .at = { .md = 10 } },
    { "labelled", "labelled", COLUMN_TEXT, K(labelled), .data = JSON, .at = { .md = 15 } },
    { "steps", "steps", COLUMN_COUNT, K(steps), .data = JSON, .at = { .md = 20 } },
    { "certain", "certain", COLUMN_COUNT, K(certain), .data = JSON, .at = { .md = 30 } },
    { "tokens_median", "tokens per step", COLUMN_TEXT, K(tokens.median), .data = JSON, .at = { .md = 40 },
      .show = show_tokens },
    { "requests_median", "requests per step", COLUMN_TEXT, K(requests.median), .data = JSON,
      .at = { .md = 50 },
      .show = show_requests },
    { "median_ns", "median ms", COLUMN_NS_MS, K(ns.median), .data = JSON, .at = { .md = 60 } },
    { "slow_ns", "p99 or max ms", COLUMN_NS_MS, K(slow_ns), .data = JSON, .at = { .md = 70 } },
    { "tokens_per_s", "tokens/s", COLUMN_NUMBER, K(tokens_per_s), .data = JSON, .at = { .md = 80 } },
    { "unrecorded_steps", "unrecorded steps", COLUMN_COUNT, K(unrecorded_ns.n), .data = JSON,
      .at = { .md = 52 }, .show = show_unrecorded },
    { "unrecorded_mean_ns", "unrecorded mean ms", COLUMN_NS_MS, K(unrecorded_ns.mean), .data = JSON,
      .at = { .md = 54 } },
    { "unrecorded_median_ns", "unrecorded median ms", COLUMN_NS_MS, K(unrecorded_ns.median), .data = JSON,
      .at = { .md = 56 } },
    { "unrecorded_worst_ns", "unrecorded worst ms", COLUMN_NS_MS, K(unrecorded_ns.max), .data = JSON,
      .at = { .md = 57 } },
    { "unrecorded_tokens_per_s", "unrecorded tokens/s", COLUMN_NUMBER, K(unrecorded_tokens_per_s),
      .data = JSON, .at = { .md = 58 } },
    { "recorded_only", .source = K(recorded_only), .data = JSON },
    { "worst_ns", "worst ms", COLUMN_NS_MS, K(worst_ns), .data = JSON, .at = { .md = 90 } },
    { "worst_why", "what differed in the worst", COLUMN_TEXT, K(worst_why), .data = JSON,
      .at = { .md = 100 } },
};
/* clang-format on */
const struct column_group rows_kind_columns = { .columns = kind_columns, .n = COUNTOF(kind_columns) };

struct column_items rows_kind_items(const struct view *v) {
    if (!v->a || !v->a->nstep_kinds) return (struct column_items){ 0 };
    return (struct column_items){ v->a->step_kinds, v->a->nstep_kinds, sizeof *v->a->step_kinds };
}

void rows_kinds_md(const struct view *v, struct table *t) {
    view_table(&rows_kind_columns, 1, COLUMN_DOC_MARKDOWN, v, rows_kind_items(v), t);
    rows_drop_unknown(t);
}

void rows_kinds_note(const struct view *v, struct strbuf *out) {
    if (!v->a || !v->a->nstep_kinds || v->a->recognised) return;
    size_t steps = v->a->recognition.steady_steps, stage_times = v->a->recognition.stage_time_steps;
    strbuf_addstr(out, "Kinds and tokens are read from kernels and copies, without the labels. ");
    if (stage_times == steps) {
        strbuf_addstr(out, "Times are those of the labelled stages, without unrecorded time.");
        return;
    }
    if (stage_times)
        strbuf_addf(out, "%s of %s steps have the time of their labelled stage. The others last",
                    text_count(stage_times).s, text_count(steps).s);
    else
        strbuf_addstr(out, "No step is a stage of its own. A step lasts");
    strbuf_addstr(out, " from the first call of the step to the first call of the next one, without "
                       "unrecorded time, in the recorded run.");
}

/* ---- phases */

struct phase {
    const char *name;
    double ns, copied_bytes, bytes_per_s; /* NaN: not of this phase */
};

#define P(field) FIELD(struct phase, field)
static const struct column phase_columns[] = {
    { NULL, "phase", COLUMN_TEXT, P(name), .at = { .md = 10 } },
    { NULL, "time ms", COLUMN_NS_MS, P(ns), .at = { .md = 20 } },
    { NULL, "copied to the GPU GB", COLUMN_GIGA, P(copied_bytes), .at = { .md = 30 }, .decimals = 3 },
    { NULL, "GB/s", COLUMN_GIGA, P(bytes_per_s), .at = { .md = 40 }, .decimals = 1 },
};
static const struct column_group phase_group = { .columns = phase_columns, .n = COUNTOF(phase_columns) };

static bool has_time(const void *item) { return ((const struct phase *)item)->ns > 0; }

void rows_phases_md(const struct view *v, struct table *t) {
    static const struct recognised_phases none;
    const struct recognised_phases *p = v->a ? &v->a->phases : &none;
    const struct phase rows[] = { { "start-up", p->start_ns, NAN, NAN },
                                  { "load", p->load_ns, p->load_bytes, p->load_bytes_per_s },
                                  { "warm-up", p->warm_up_ns, NAN, NAN },
                                  { "steady work", p->steady_ns, NAN, NAN },
                                  { "shutdown", p->shutdown_ns, NAN, NAN } };
    struct column_items items = { rows, p->steady_to_ns ? COUNTOF(rows) : 0, sizeof rows[0], has_time };
    view_table(&phase_group, 1, COLUMN_DOC_MARKDOWN, v, items, t);
}

/* ---- in words */

static void phase_words(const struct recognised_phases *p, struct strbuf *out) {
    if (!p->steady_to_ns) return;
    strbuf_addf(out, " Steady work: %s", text_ms(p->steady_ns * 1e-6).s);
    if (p->start_ns > 0) strbuf_addf(out, "; start-up %s", text_ms(p->start_ns * 1e-6).s);
    if (p->load_ns > 0)
        strbuf_addf(out, "; load %s (%s at %s GB/s)", text_ms(p->load_ns * 1e-6).s,
                    text_bytes(p->load_bytes).s, text_num(p->load_bytes_per_s * 1e-9, 1).s);
    if (p->warm_up_steps)
        strbuf_addf(out, "; warm-up %s (%zu step%s)", text_ms(p->warm_up_ns * 1e-6).s, p->warm_up_steps,
                    p->warm_up_steps == 1 ? "" : "s");
    if (p->shutdown_ns > 0) strbuf_addf(out, "; after the last step %s", text_ms(p->shutdown_ns * 1e-6).s);
    strbuf_addch(out, '.');
}

void rows_recognition_note(const struct view *v, struct strbuf *out) {
    if (!v->a || !v->a->recognised) return;
    const struct recognition *r = &v->a->recognition;
    size_t steady = r->steady_steps, unsure = steady - r->certain_steps;
    strbuf_addf(out, "Recognised without annotations: %s step%s, cut at %s", text_count(steady).s,
                steady == 1 ? "" : "s", r->boundary);
    if (r->llm) strbuf_addstr(out, r->other_layers ? ", of two language models" : ", of a language model");
    if (r->layers) strbuf_addf(out, " with %u", r->layers);
    if (r->layers && r->other_layers) strbuf_addf(out, " and %u", r->other_layers);
    if (r->layers) strbuf_addstr(out, " layers");
    if (r->llm && unsure)
        strbuf_addf(out, "; the kind or the tokens of %s of them are uncertain", text_count(unsure).s);
    strbuf_addch(out, '.');
    phase_words(&v->a->phases, out);
}

static void per_step(const char *what, const struct stats *s, struct strbuf *out) {
    strbuf_addf(out, "%s %s", text_num(s->median, 0).s, what);
    if (s->max > s->min) strbuf_addf(out, " (%s to %s)", text_num(s->min, 0).s, text_num(s->max, 0).s);
}

static void worst_words(const struct analysis_step_kind *k, struct strbuf *out) {
    if (k->worst_why)
        strbuf_addf(out, "; in the slowest (%s) %s", text_ms(k->worst_ns * 1e-6).s, k->worst_why);
}

static void unrecorded_sentence(const struct analysis_step_kind *k, struct strbuf *out) {
    const struct stats *s = &k->unrecorded_ns;
    strbuf_addf(out, "%s: %s steps that were not recorded", k->name, text_count(s->n).s);
    if (isfinite(k->requests.median)) {
        strbuf_addstr(out, ", ");
        per_step(k->requests.median == 1 ? "request" : "requests", &k->requests, out);
    }
    strbuf_addf(out, "; %s %s (mean), median %s, %s %s", text_ms(s->mean * 1e-6).s,
                k->kind == STEP_DECODE ? "per token" : "each", text_ms(s->median * 1e-6).s,
                s->n >= STATS_P99_LEAST ? "p99" : "at most",
                text_ms((s->n >= STATS_P99_LEAST ? s->p99 : s->max) * 1e-6).s);
    if (s->n >= STATS_P99_LEAST) strbuf_addf(out, ", slowest %s", text_ms(s->max * 1e-6).s);
    if (isfinite(k->unrecorded_tokens_per_s))
        strbuf_addf(out, ", %s tokens/s",
                    text_num(k->unrecorded_tokens_per_s, k->unrecorded_tokens_per_s < 100 ? 1 : 0).s);
    strbuf_addf(out, ". %s recorded steps took %s (median)", text_count(k->steps).s,
                text_ms(k->ns.median * 1e-6).s);
    worst_words(k, out);
    strbuf_addch(out, '.');
}

void rows_kind_sentence(const struct analysis_step_kind *k, struct strbuf *out) {
    bool decode = k->kind == STEP_DECODE;
    if (k->unrecorded_ns.n) {
        unrecorded_sentence(k, out);
        return;
    }
    if (isnan(k->tokens.median) && !decode) return;
    strbuf_addf(out, "%s: %s step%s", k->name, text_count(k->steps).s, k->steps == 1 ? "" : "s");
    if (isfinite(k->requests.median)) {
        strbuf_addstr(out, ", ");
        per_step(k->requests.median == 1 ? "request" : "requests", &k->requests, out);
    }
    if (!decode && isfinite(k->tokens.median)) {
        strbuf_addstr(out, ", ");
        per_step("tokens", &k->tokens, out);
    }
    strbuf_addf(out, "; %s %s%s (median), %s %s, %s tokens/s", text_ms(k->ns.median * 1e-6).s,
                decode ? "per token" : "each", k->recorded_only ? " while recorded" : "",
                k->steps >= STATS_P99_LEAST ? "p99" : "at most", text_ms(k->slow_ns * 1e-6).s,
                text_num(k->tokens_per_s, k->tokens_per_s < 100 ? 1 : 0).s);
    worst_words(k, out);
    strbuf_addch(out, '.');
}
