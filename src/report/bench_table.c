#include "report/bench_table.h"

#include <math.h>
#include <stdio.h>

#include "base/columns.h"
#include "base/jsonw.h"
#include "base/schema.h"
#include "base/svg.h"
#include "base/text.h"
#include "base/units.h"
#include "base/util.h"
#include "report/view.h"

#define B(field) FIELD(struct bench_row, field)
/* clang-format off */
static const struct column columns[] = {
    { "batch", .source = B(batch), .data = CSV | JSON },
    { "prompt_tokens", .source = B(prompt_tokens), .data = CSV | JSON },
    { "new_tokens", .source = B(new_tokens), .data = CSV | JSON },
    { "repeats", .source = B(repeats), .data = CSV | JSON },
    { "prefill_ms", .source = B(prefill_ms), .data = CSV | JSON },
    { "prefill_roof_ms", .source = B(prefill_roof_ms), .data = CSV | JSON },
    { "prefill_tokens_per_s", .source = B(prefill_tokens_per_s), .data = CSV | JSON },
    { "prefill_mfu", .source = B(prefill_mfu), .data = CSV | JSON },
    { "prefill_mbu", .source = B(prefill_mbu), .data = CSV | JSON },
    { "step_ms", .source = B(step_ms), .data = CSV | JSON },
    { "step_roof_ms", .source = B(step_roof_ms), .data = CSV | JSON },
    { "decode_tokens_per_s", .source = B(decode_tokens_per_s), .data = CSV | JSON },
    { "decode_roof_tokens_per_s", .source = B(decode_roof_tokens_per_s), .data = CSV | JSON },
    { "decode_mfu", .source = B(decode_mfu), .data = CSV | JSON },
    { "decode_mbu", .source = B(decode_mbu), .data = CSV | JSON },
    { "decode_cv", .source = B(cv), .data = CSV | JSON },
    { "peak_memory_bytes", .source = B(peak_memory_bytes), .data = CSV | JSON },
    { "note", .source = B(note), .data = CSV | JSON },
};

/* The terminal shows prefill and decode as two tables, because one table would be too wide. */
static const struct column prefill_columns[] = {
    { "batch", "batch", COLUMN_COUNT, B(batch), .at = { .terminal = 10 } },
    { "prompt_tokens", "prompt", COLUMN_COUNT, B(prompt_tokens), .at = { .terminal = 20 } },
    { "prefill_ms", "prefill ms", COLUMN_MS, B(prefill_ms), .at = { .terminal = 30 } },
    { "prefill_roof_ms", "roof ms", COLUMN_MS, B(prefill_roof_ms), .at = { .terminal = 40 } },
    { "prefill_tokens_per_s", "tok/s", COLUMN_NUMBER, B(prefill_tokens_per_s), .at = { .terminal = 50 } },
    { "prefill_mfu", "MFU", COLUMN_PERCENT, B(prefill_mfu), .at = { .terminal = 60 } },
    { "prefill_mbu", "MBU", COLUMN_PERCENT, B(prefill_mbu), .at = { .terminal = 70 } },
};
static const struct column decode_columns[] = {
    { "batch", "batch", COLUMN_COUNT, B(batch), .at = { .terminal = 10 } },
    { "new_tokens", "new", COLUMN_COUNT, B(new_tokens), .at = { .terminal = 20 } },
    { "step_ms", "step ms", COLUMN_MS, B(step_ms), .at = { .terminal = 30 } },
    { "step_roof_ms", "roof ms", COLUMN_MS, B(step_roof_ms), .at = { .terminal = 40 } },
    { "decode_tokens_per_s", "tok/s", COLUMN_NUMBER, B(decode_tokens_per_s), .at = { .terminal = 50 } },
    { "decode_mfu", "MFU", COLUMN_PERCENT, B(decode_mfu), .at = { .terminal = 60 } },
    { "decode_mbu", "MBU", COLUMN_PERCENT, B(decode_mbu), .at = { .terminal = 70 } },
    { "decode_cv", "CV", COLUMN_PERCENT, B(cv), .at = { .terminal = 80 } },
    { "peak_memory_bytes", "memory", COLUMN_BYTES, B(peak_memory_bytes), .at = { .terminal = 90 } },
};
/* clang-format on */
static const struct column_group group = { .columns = columns, .n = COUNTOF(columns) };
static const struct column_group prefill_group = { .columns = prefill_columns,
                                                   .n = COUNTOF(prefill_columns) };
static const struct column_group decode_group = { .columns = decode_columns, .n = COUNTOF(decode_columns) };

static const struct run_info no_run;
static const struct view no_view = { .run = &no_run };

static struct column_items rows_of(const struct bench *b) {
    return (struct column_items){ b->rows, b->nbatches, sizeof *b->rows };
}

/* Bars of the decode rate, scaled to the highest rate or roof. A | marks the roof. */
static void add_bars(const struct bench *b, struct strbuf *out) {
    enum { BAR = 50 };
    double most = 0;
    for (size_t i = 0; i < b->nbatches; i++)
        most = fmax(most, fmax(b->rows[i].decode_tokens_per_s, b->rows[i].decode_roof_tokens_per_s));
    if (!(most > 0)) return;
    strbuf_addstr(out, "\ndecode tokens/s (| marks the roof)\n");
    for (size_t i = 0; i < b->nbatches; i++) {
        const struct bench_row *r = &b->rows[i];
        if (!(r->decode_tokens_per_s > 0)) continue;
        int bar = (int)(BAR * r->decode_tokens_per_s / most),
            roof = r->decode_roof_tokens_per_s > 0 ? (int)(BAR * r->decode_roof_tokens_per_s / most) : -1;
        strbuf_addf(out, "%6llu ", (unsigned long long)r->batch);
        for (int k = 0; k <= BAR; k++) strbuf_addch(out, k == roof ? '|' : k < bar ? '#' : ' ');
        strbuf_addf(out, " %s\n", text_num(r->decode_tokens_per_s, 1).s);
    }
}

static void add_table(const struct bench *b, const struct column_group *g, size_t width, struct strbuf *out) {
    struct table t;
    columns_table(g, 1, COLUMN_DOC_TERMINAL, &no_view, rows_of(b), &t);
    t.text_line_width = width;
    strbuf_addch(out, '\n');
    table_text(&t, out);
    table_free(&t);
}

void bench_text(const struct bench *b, size_t width, struct strbuf *out) {
    strbuf_addf(out, "%s on %s, engine %s\n", b->plan->model_name, b->peak->device, b->plan->s.engine.name);
    if (b->peak->source[0])
        strbuf_addf(out, "peaks: %s/s, %s/s (%s)\n", text_flops(b->peak->peak.flop_per_s).s,
                    text_bytes(b->peak->peak.bytes_per_s).s, b->peak->source);
    add_table(b, &prefill_group, width, out);
    add_table(b, &decode_group, width, out);
    for (size_t i = 0; i < b->nbatches; i++)
        if (b->rows[i].note)
            strbuf_addf(out, "batch %llu: %s\n", (unsigned long long)b->rows[i].batch, b->rows[i].note);
    add_bars(b, out);
}

void bench_csv(const struct bench *b, struct strbuf *out) {
    struct table t;
    columns_table(&group, 1, COLUMN_DOC_CSV, &no_view, rows_of(b), &t);
    table_csv(&t, out);
    table_free(&t);
}

void bench_json(const struct bench *b, struct strbuf *out) {
    struct jsonw j;
    jsonw_start(&j, out, JSONW_PRETTY);
    jsonw_object(&j);
    jsonw_kstr(&j, "schema", SCHEMA_BATCHES);
    jsonw_kstr(&j, "model", b->plan->model_name);
    jsonw_kstr(&j, "engine", b->plan->s.engine.name);
    jsonw_kstr(&j, "device", b->peak->device);
    jsonw_knum(&j, "peak_flop_per_s", b->peak->peak.flop_per_s);
    jsonw_knum(&j, "peak_byte_per_s", b->peak->peak.bytes_per_s);
    jsonw_kstr(&j, "peak_source", b->peak->source);
    columns_json_array("rows", &group, &no_view, rows_of(b), SIZE_MAX, &j);
    jsonw_end(&j);
    jsonw_finish(&j);
}

enum { SVG_WIDTH = 640, SVG_LEFT = 90, SVG_BAR = 430, SVG_ROW = 34, SVG_TOP = 60 };

void bench_svg(const struct bench *b, struct strbuf *out) {
    static const char css[] = "text{font:12px sans-serif;fill:#333}.title{font-size:15px;font-weight:bold}"
                              ".bar{fill:#1f6fb2}.roof{stroke:#b00;stroke-width:2}";
    double most = 0;
    for (size_t i = 0; i < b->nbatches; i++)
        most = fmax(most, fmax(b->rows[i].decode_tokens_per_s, b->rows[i].decode_roof_tokens_per_s));
    svg_open(out, SVG_WIDTH, SVG_TOP + SVG_ROW * (double)b->nbatches + 10, "chart",
             "Decode rate by batch size");
    svg_style(out, css);
    svg_text(out, 10, 22, SVG_START, "title", b->plan->model_name);
    svg_text(out, 10, 42, SVG_START, "small", "decode tokens/s by batch size; the line is the roof");
    for (size_t i = 0; i < b->nbatches; i++) {
        const struct bench_row *r = &b->rows[i];
        double y = SVG_TOP + SVG_ROW * (double)i, rate = r->decode_tokens_per_s,
               roof = r->decode_roof_tokens_per_s;
        char label[40];
        snprintf(label, sizeof label, "batch %llu", (unsigned long long)r->batch);
        svg_text(out, SVG_LEFT - 8, y + 17, SVG_END, "small", label);
        char title[160];
        snprintf(title, sizeof title, "%s: %s tokens/s, roof %s tokens/s", label, text_num(rate, 1).s,
                 text_num(roof, 1).s);
        if (rate > 0) svg_rect_titled(out, SVG_LEFT, y, SVG_BAR * rate / most, SVG_ROW - 10, "bar", title);
        if (roof > 0)
            svg_line(out, SVG_LEFT + SVG_BAR * roof / most, y - 2, SVG_LEFT + SVG_BAR * roof / most,
                     y + SVG_ROW - 8, "roof");
        svg_text(out, SVG_LEFT + SVG_BAR + 12, y + 17, SVG_START, "small",
                 rate > 0 ? text_num(rate, 1).s : "-");
    }
    svg_close(out);
}
