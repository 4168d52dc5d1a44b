#include "llm/sweep.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/columns.h"
#include "base/die.h"
#include "base/text.h"
#include "base/util.h"

#define POINTS_MAX 1000000
#define TABLE_ROWS 24 /* a sweep with more points prints about this many rows; JSON contains all points */

static const char *const names[] = { "batch", "prompt", "context" };

const char *llm_sweep_name(enum llm_sweep_what what) { return names[what]; }

static int parse_uint(const char **p, uint64_t *out) {
    char *end;
    errno = 0;
    if (**p < '0' || **p > '9') return -1;
    *out = strtoull(*p, &end, 10);
    *p = end;
    return errno || *out == 0 || *out > (uint64_t)1 << 32 ? -1 : 0;
}

static int parse_range(const char *p, struct llm_sweep *s) {
    s->step = 1;
    if (parse_uint(&p, &s->from) < 0 || strncmp(p, "..", 2) != 0) return -1;
    p += 2;
    if (parse_uint(&p, &s->to) < 0 || s->to < s->from) return -1;
    if (*p == '\0') return 0;
    if (strncmp(p, ":x", 2) == 0) {
        char *end;
        s->step = 0;
        s->factor = strtod(p + 2, &end);
        return *end == '\0' && s->factor > 1.0001 && s->factor < 1e6 ? 0 : -1;
    }
    if (*p++ != ':' || parse_uint(&p, &s->step) < 0) return -1;
    return *p == '\0' ? 0 : -1;
}

int llm_sweep_parse(const char *text, struct llm_sweep *s, struct err *err) {
    *s = (struct llm_sweep){ 0 };
    const char *eq = strchr(text, '=');
    for (size_t i = 0; eq && i < COUNTOF(names); i++) {
        size_t n = strlen(names[i]);
        if (strncmp(text, names[i], n) != 0 || (text + n != eq && strncmp(text + n, "-tokens=", 8) != 0))
            continue;
        s->what = (enum llm_sweep_what)i;
        if (parse_range(eq + 1, s) == 0) return 0;
        return err_set(
            err,
            "--sweep: '%s' is not a range; expected A..B, A..B:STEP or A..B:xFACTOR with A and B at least 1",
            eq + 1);
    }
    return err_set(err, "--sweep: '%s': expected batch=A..B, prompt=A..B or context=A..B", text);
}

static uint64_t next_value(const struct llm_sweep *s, uint64_t v) {
    if (s->step) return v + s->step;
    uint64_t n = (uint64_t)llround((double)v * s->factor);
    return n > v ? n : v + 1;
}

static struct llm_sweep_point eval_point(const struct llm_static *base, const struct llm_sweep *s,
                                         uint64_t v) {
    uint64_t batch = base->work.batch, prompt = base->work.prompt_tokens, context = base->work.context;
    struct llm_static r;
    if (s->what == LLM_SWEEP_BATCH) batch = v;
    if (s->what == LLM_SWEEP_PROMPT) {
        prompt = v;
        context = v + 1;
    }
    if (s->what == LLM_SWEEP_CONTEXT) context = v;
    llm_static_vary(base, batch, prompt, context, &r);
    return (struct llm_sweep_point){
        .value = v,
        .prefill_s = r.prefill.floor_s,
        .decode_s = r.decode.floor_s,
        .tokens_per_s = llm_static_tokens_per_s(&r),
        .prefill_mfu = llm_utilization(r.prefill.compute_s, r.prefill.floor_s, 1),
        .prefill_mbu = llm_utilization(r.prefill.memory_s, r.prefill.floor_s, 1),
        .decode_mfu = llm_utilization(r.decode.compute_s, r.decode.floor_s, 1),
        .decode_mbu = llm_utilization(r.decode.memory_s, r.decode.floor_s, 1),
        .prefill_bound = llm_cost_bound(&r.prefill),
        .decode_bound = llm_cost_bound(&r.decode),
        .weights_bound = llm_cost_weights_bound(&r.decode),
        .memory_bytes = r.memory_bytes,
        .fits = llm_static_fits(&r),
    };
}

static bool is_crossover(const char *before, const char *now) {
    return before && now && strcmp(before, "memory") == 0 && strcmp(now, "compute") == 0;
}

int llm_sweep_run(const struct llm_static *base, struct llm_sweep *s, struct err *err) {
    size_t n = 0;
    if (!base->model->decodes)
        return err_set(err, "--sweep needs a model that decodes; %s does not", base->model->name);
    if (s->what == LLM_SWEEP_PROMPT && s->from < base->image_tokens)
        return err_set(err,
                       "--sweep: a prompt of %" PRIu64 " tokens is too short for %" PRIu64 " image tokens",
                       s->from, base->image_tokens);
    if (s->what == LLM_SWEEP_BATCH && s->to > (uint64_t)1 << 24)
        return err_set(err, "--sweep: batch %" PRIu64 " is too large; at most 16777216", s->to);
    for (uint64_t v = s->from; v <= s->to; v = next_value(s, v))
        if (++n > POINTS_MAX)
            return err_set(err, "--sweep: more than %d points; give a step: A..B:STEP", POINTS_MAX);
    s->points = xcalloc(n, sizeof *s->points);
    for (uint64_t v = s->from; v <= s->to; v = next_value(s, v)) {
        struct llm_sweep_point *p = &s->points[s->npoints++];
        *p = eval_point(base, s, v);
        if (p->fits == 1) s->largest_fit = v;
        if (s->npoints == 1) continue;
        if (!s->prefill_turn && is_crossover(p[-1].prefill_bound, p->prefill_bound)) s->prefill_turn = v;
        if (!s->decode_turn && is_crossover(p[-1].decode_bound, p->decode_bound)) s->decode_turn = v;
        if (!s->weights_turn && is_crossover(p[-1].weights_bound, p->weights_bound)) s->weights_turn = v;
    }
    return 0;
}

void llm_sweep_free(struct llm_sweep *s) {
    free(s->points);
    *s = (struct llm_sweep){ 0 };
}

/* ---- Columns */
static const struct llm_sweep_point *point_of(const struct column_row *r) { return r->item; }
static struct column_value get_prefill_ms(const struct column_row *r) {
    return column_f64(point_of(r)->prefill_s * 1e3);
}
static void show_prefill(const struct column_row *r, struct strbuf *out) {
    strbuf_addstr(out, text_seconds(point_of(r)->prefill_s).s);
}
static struct column_value get_decode_ms(const struct column_row *r) {
    return column_f64(point_of(r)->decode_s * 1e3);
}
static void show_decode(const struct column_row *r, struct strbuf *out) {
    strbuf_addstr(out, text_seconds(point_of(r)->decode_s).s);
}
static struct column_value get_fits(const struct column_row *r) {
    return column_bool_known(point_of(r)->fits);
}
static void show_value(const struct column_row *r, struct strbuf *out) {
    strbuf_addf(out, "%" PRIu64, point_of(r)->value);
}
static void show_percent(double v, struct strbuf *out) {
    if (!isnan(v)) strbuf_addf(out, "%.1f%%", 100 * v);
}
#define SHOW_PERCENT(field)                                                    \
    static void show_##field(const struct column_row *r, struct strbuf *out) { \
        show_percent(point_of(r)->field, out);                                 \
    }
SHOW_PERCENT(prefill_mfu)
SHOW_PERCENT(prefill_mbu)
SHOW_PERCENT(decode_mfu)
SHOW_PERCENT(decode_mbu)

/* clang-format off */
#define P(field) FIELD(struct llm_sweep_point, field)
#define AT(position) .at = { .terminal = position }
static const struct column point_columns[] = {
    { "prefill_floor_ms", "prefill", COLUMN_MS, GET(get_prefill_ms), .data = JSON, AT(20),
      .show = show_prefill, .help = "roofline time" },
    { "prefill_mfu", "MFU", COLUMN_PERCENT, P(prefill_mfu), .data = JSON, AT(30), .show = show_prefill_mfu },
    { "prefill_mbu", "MBU", COLUMN_PERCENT, P(prefill_mbu), .data = JSON, AT(40), .show = show_prefill_mbu },
    { "prefill_bound", .source = P(prefill_bound), .data = JSON },
    { "decode_floor_ms", "decode step", COLUMN_MS, GET(get_decode_ms), .data = JSON, AT(50),
      .show = show_decode, .help = "roofline time" },
    { "decode_mfu", "MFU", COLUMN_PERCENT, P(decode_mfu), .data = JSON, AT(60), .show = show_decode_mfu },
    { "decode_mbu", "MBU", COLUMN_PERCENT, P(decode_mbu), .data = JSON, AT(70), .show = show_decode_mbu },
    { "decode_bound", "bound by", COLUMN_TEXT, P(decode_bound), .data = JSON, AT(80), .right = true },
    { "decode_weights_bound", .source = P(weights_bound), .data = JSON },
    { "tokens_per_s", "tokens/s", COLUMN_UNITS, P(tokens_per_s), .data = JSON, AT(90) },
    { "memory_bytes", "memory", COLUMN_BYTES, P(memory_bytes), .data = JSON, AT(100) },
    { "fits", "fits", COLUMN_YES_NO, GET(get_fits), .data = JSON, AT(110) },
};
/* The heading is the varied quantity. */
#define VALUE_COLUMN(varied) \
    { { "value", varied, COLUMN_COUNT, P(value), .data = JSON, AT(10), .show = show_value } }
static const struct column value_columns[][1] = {
    [LLM_SWEEP_BATCH] = VALUE_COLUMN("batch"),
    [LLM_SWEEP_PROMPT] = VALUE_COLUMN("prompt"),
    [LLM_SWEEP_CONTEXT] = VALUE_COLUMN("context"),
};
/* clang-format on */
static const struct column_group point_group = { .columns = point_columns, .n = COUNTOF(point_columns) };

/* ---- JSON */
void llm_sweep_json(const struct llm_sweep *s, struct jsonw *j) {
    const struct column_group value = { .columns = value_columns[s->what], .n = 1 };
    jsonw_object(j);
    jsonw_kstr(j, "name", names[s->what]);
    jsonw_ku64_known(j, "prefill_compute_bound_from", s->prefill_turn);
    jsonw_ku64_known(j, "decode_compute_bound_from", s->decode_turn);
    jsonw_ku64_known(j, "decode_weights_compute_bound_from", s->weights_turn);
    jsonw_ku64_known(j, "largest_that_fits", s->largest_fit);
    jsonw_karray(j, "points");
    for (size_t i = 0; i < s->npoints; i++) {
        struct column_row row = { .item = &s->points[i], .index = i };
        jsonw_object(j);
        columns_json(&value, &row, j);
        columns_json(&point_group, &row, j);
        jsonw_end(j);
    }
    jsonw_end(j);
    jsonw_end(j);
}

/* ---- Table */

/* Returns true if row i is printed. Long sweeps show the ends, the crossover points, the largest value that
 * fits in memory, and rows at logarithmic distances. */
static bool shown(const struct llm_sweep *s, size_t i, double *next) {
    uint64_t v = s->points[i].value;
    bool special = i == 0 || i + 1 == s->npoints || v == s->prefill_turn || v == s->decode_turn ||
                   v == s->weights_turn || v == s->largest_fit;
    if (s->npoints <= TABLE_ROWS) return true;
    if ((double)v < *next && !special) return false;
    double ratio = pow((double)s->to / (double)s->from, 1.0 / (TABLE_ROWS - 1));
    while (*next <= (double)v) *next *= fmax(ratio, 1 + 1e-9);
    return true;
}

static void add_crossover_line(struct strbuf *out, const char *stage, const char *what, uint64_t v,
                               const char *first, const char *last) {
    if (v)
        strbuf_addf(out, "%s: changes from memory-bound to compute-bound at %s %" PRIu64 "\n", stage, what,
                    v);
    else if (first && last && strcmp(first, last) == 0)
        strbuf_addf(out, "%s: always %s-bound\n", stage, first);
    else if (first && last)
        strbuf_addf(out, "%s: %s-bound at the start, %s-bound at the end\n", stage, first, last);
}

void llm_sweep_text(const struct llm_sweep *s, struct llm_print how, struct strbuf *out) {
    const struct column_group groups[] = { { .columns = value_columns[s->what], .n = 1 }, point_group };
    struct column_set set;
    struct table t;
    double next = (double)s->from;
    column_set_init(&set, groups, COUNTOF(groups), COLUMN_DOC_TERMINAL, NULL);
    column_set_heads(&set, &t);
    for (size_t i = 0; i < s->npoints; i++)
        if (shown(s, i, &next))
            column_set_cells(&set, &(struct column_row){ .item = &s->points[i], .index = i }, &t);
    strbuf_addstr(out, how.markdown ? "\n## Sweep\n\n"
                                    : "\nSweep: roofline times, and the MFU and MBU they imply\n");
    t.text_line_width = how.width;
    if (how.markdown)
        table_markdown(&t, out);
    else
        table_text(&t, out);
    size_t rows = table_rows(&t);
    table_free(&t);
    if (how.markdown) strbuf_addch(out, '\n');
    const struct llm_sweep_point *a = &s->points[0], *b = &s->points[s->npoints - 1];
    if (rows < s->npoints) strbuf_addf(out, "%zu of %zu points; --json has them all\n", rows, s->npoints);
    add_crossover_line(out, "prefill", names[s->what], s->prefill_turn, a->prefill_bound, b->prefill_bound);
    add_crossover_line(out, "decode", names[s->what], s->decode_turn, a->decode_bound, b->decode_bound);
    add_crossover_line(out, "decode without attention", names[s->what], s->weights_turn, a->weights_bound,
                       b->weights_bound);
    if (b->fits == 0 && s->largest_fit)
        strbuf_addf(out, "memory: the largest %s that fits is %" PRIu64 "\n", names[s->what], s->largest_fit);
}
