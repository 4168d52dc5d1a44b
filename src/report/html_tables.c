/* The lower half of the page: kernels, operators, matrix products, data sources, generated text,
 * environment. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/html.h"
#include "base/text.h"
#include "base/util.h"
#include "report/gemm_columns.h"
#include "report/html.h"
#include "report/kernel_columns.h"
#include "report/operator_columns.h"
#include "report/rows.h"
#include "report/story.h"

#define MAX_TABLE_ROWS 300
/* the page links to larger files */
#define MAX_EMBEDDED_CSV (600u << 10)

/* The link contains the file, so that it works without a server. A large file gets a normal link, a slim page
 * no link. Frees the table. */
static void download(const struct view *v, struct strbuf *out, const char *name, struct table *t) {
    struct strbuf csv = STRBUF_INIT;
    if (!v->run->slim) {
        strbuf_addstr(out, "<p class=\"small soft\" style=\"margin-top:10px\">Download: ");
        table_csv(t, &csv);
        if (csv.len <= MAX_EMBEDDED_CSV) {
            strbuf_addf(out, "<a download=\"%s\" href=\"data:text/csv;base64,", name);
            html_base64(out, csv.buf, csv.len);
            strbuf_addf(out, "\">%s</a></p>\n", name);
        } else {
            strbuf_addf(out, "<a href=\"%s\">%s</a> (in the same folder as this page)</p>\n", name, name);
        }
    }
    strbuf_free(&csv);
    table_free(t);
}

static struct chart_class category_class(const struct analysis_group *category) {
    return chart_class('c', chart_category_color((enum kernel_category)category->id));
}

static void mix(const struct view *v, struct strbuf *out) {
    strbuf_addstr(out, "<div class=\"mix\" aria-hidden=\"true\">");
    for (size_t i = 0; i < v->a->ncategories; i++) {
        const struct analysis_group *c = &v->a->categories[i];
        if (!(c->share > 0)) continue;
        strbuf_addf(out, "<i class=\"%s\" style=\"width:%.2f%%\" title=\"%s: %s, %s\"></i>",
                    category_class(c).s, c->share * 100, c->name, text_percent(c->share).s,
                    text_ms(c->owned_ns * 1e-6).s);
    }
    strbuf_addstr(out, "</div>\n<div class=\"key\">");
    for (size_t i = 0; i < v->a->ncategories; i++) {
        const struct analysis_group *c = &v->a->categories[i];
        if (c->share >= 0.001)
            strbuf_addf(out, "<span><i class=\"%s\"></i>%s %s</span>", category_class(c).s, c->name,
                        text_percent(c->share).s);
    }
    strbuf_addstr(out, "</div>\n");
}

static void limit_note(struct strbuf *out, size_t n, const char *what, const char *file) {
    if (n > MAX_TABLE_ROWS)
        strbuf_addf(out, "<p class=\"small soft\">Showing the top %d %s of %s by time; all are in %s.</p>\n",
                    MAX_TABLE_ROWS, what, text_count(n).s, file);
}

static void profiles_note(const struct view *v, struct strbuf *out) {
    struct strbuf note = STRBUF_INIT;
    rows_profiles_note(v->a, &note);
    if (note.len) {
        strbuf_addstr(out, "<p class=\"small soft\">");
        html_escape(out, note.buf);
        strbuf_addstr(out, "</p>\n");
    }
    strbuf_free(&note);
}

void html_kernels(const struct view *v, struct strbuf *out) {
    struct table t;
    if (!html_has_kernels(v)) return;
    html_section(out, "kernels", "Kernels",
                 view_on_cpu(v) ? "Time by kernel category. Shares add up to the time the device was busy."
                                : "GPU time by kernel category. Shares add up to the kernel time.");
    html_recorded(v, out);
    mix(v, out);
    limit_note(out, v->a->nkernels, "kernels", "kernels.csv");
    if (kernel_columns_have_counters(v))
        strbuf_addstr(out, "<p class=\"small soft\">SM, tensor, DRAM and the achieved occupancy are hardware "
                           "counters: percent of the peak while the kernel ran, in the stage where it took "
                           "most time. A dash means too few samples.</p>\n");
    profiles_note(v, out);
    html_columns(out, "kernels", kernel_columns, COUNTOF(kernel_columns), v, rows_kernel_items(v),
                 MAX_TABLE_ROWS);
    rows_kernels_csv(v, &t);
    download(v, out, "kernels.csv", &t);
    html_section_end(out);
}

void html_operators(const struct view *v, struct strbuf *out) {
    struct table t;
    if (!html_has_operators(v)) return;
    html_section(
        out, "operators", "Operators",
        view_on_cpu(v)
            ? "Total includes nested operators, self does not. Device time is the time of the kernels "
              "that the operator called."
            : "Total and self are host time. Device time is the time of the kernels that the operator "
              "launched, whenever they ran.");
    html_recorded(v, out);
    limit_note(out, v->a->noperators, "operators", "operators.csv");
    html_columns(out, "operators", operator_columns, COUNTOF(operator_columns), v, rows_operator_items(v),
                 MAX_TABLE_ROWS);
    rows_operators_csv(v, &t);
    download(v, out, "operators.csv", &t);
    html_section_end(out);
}

void html_gemms(const struct view *v, struct strbuf *out) {
    struct table t;
    if (!v->a || !v->a->ngemms) return;
    html_section(out, "gemms", "Matrix products",
                 "Products whose sizes were recorded, by time. Small M, or sizes that are no multiple of the "
                 "kernel's tile, keep the share of the peak low.");
    html_recorded(v, out);
    limit_note(out, v->a->ngemms, "products", "gemms.csv");
    html_columns(out, "gemms", gemm_columns, COUNTOF(gemm_columns), v, rows_gemm_items(v), MAX_TABLE_ROWS);
    rows_gemms_csv(v, &t);
    download(v, out, "gemms.csv", &t);
    html_section_end(out);
}

/* ---- provenance */
static void environment(const struct view *v, struct strbuf *out) {
    const char *group = NULL;
    bool open = false;
    for (size_t i = 0; i < v->run->nenv; i++) {
        const struct run_kv *kv = &v->run->env[i];
        if (!open || (kv->group && (!group || strcmp(kv->group, group) != 0))) {
            strbuf_addstr(out, open ? "</dl></div>\n<div>" : "<div class=\"cols\"><div>");
            if (kv->group) {
                strbuf_addstr(out, "<h3>");
                html_escape(out, kv->group);
                strbuf_addstr(out, "</h3>");
            }
            strbuf_addstr(out, "<dl class=\"env\">\n");
            group = kv->group;
            open = true;
        }
        strbuf_addstr(out, "<dt>");
        html_escape(out, kv->key);
        strbuf_addstr(out, "</dt><dd>");
        html_escape(out, text_or_dash(kv->value));
        strbuf_addstr(out, "</dd>\n");
    }
    strbuf_addstr(out, open ? "</dl></div></div>\n" : "<p class=\"soft\">Not recorded.</p>\n");
}

static void assumptions(const struct view *v, struct strbuf *out) {
    size_t notes = v->a ? v->a->nnotes : 0;
    if (notes + v->run->nassumptions == 0) return;
    html_section(out, "assumptions", "Data sources and assumptions", NULL);
    strbuf_addstr(out, "<ul class=\"plain\">\n");
    for (size_t i = 0; i < notes; i++) {
        strbuf_addstr(out, v->a->notes[i].severity == ANALYSIS_WARNING ? "<li><b>Warning:</b> " : "<li>");
        html_escape(out, v->a->notes[i].text);
        strbuf_addstr(out, "</li>\n");
    }
    for (size_t i = 0; i < v->run->nassumptions; i++) {
        strbuf_addstr(out, "<li>");
        html_escape(out, v->run->assumptions[i]);
        strbuf_addstr(out, "</li>\n");
    }
    strbuf_addstr(out, "</ul>\n");
    html_section_end(out);
}

static void answers(const struct view *v, struct strbuf *out) {
    size_t n = MIN(v->run->nanswers, RUN_ANSWERS_MAX);
    if (n == 0) return;
    html_section(out, "answers", "Generated text", NULL);
    for (size_t i = 0; i < n; i++) {
        const struct run_answer *a = &v->run->answers[i];
        strbuf_addstr(out, "<div class=\"answer\"><div><b>");
        html_escape(out, text_or_dash(a->input));
        strbuf_addf(out, "</b> <span class=\"soft small\">%s prompt tokens, %s new",
                    text_num(a->prompt_tokens, 0).s, text_num(a->new_tokens, 0).s);
        if (isfinite(a->ms)) strbuf_addf(out, ", %s", text_ms(a->ms).s);
        strbuf_addstr(out, a->error ? ", failed</span></div><pre>" : "</span></div><pre>");
        char cut[4096];
        snprintf(cut, sizeof cut, "%s", story_reply(a));
        html_escape(out, cut);
        strbuf_addstr(out, "</pre></div>\n");
    }
    if (v->run->answers_total > n)
        strbuf_addf(out, "<p class=\"soft small\">%zu more in predictions.md.</p>\n",
                    v->run->answers_total - n);
    html_section_end(out);
}

void html_provenance(const struct view *v, struct strbuf *out) {
    struct table t;
    answers(v, out);
    html_section(out, "environment", "Environment", NULL);
    environment(v, out);
    if (v->run->command) {
        strbuf_addstr(out, "<h3>Reproduce</h3><pre>");
        html_escape(out, v->run->command);
        strbuf_addstr(out, "</pre>\n");
    }
    if (v->run->config) {
        strbuf_addstr(out, "<details><summary>Configuration</summary><pre>");
        html_escape(out, v->run->config);
        strbuf_addstr(out, "</pre></details>\n");
    }
    rows_stages_csv(v, &t);
    download(v, out, "stages.csv", &t);
    html_section_end(out);
    assumptions(v, out);
}
