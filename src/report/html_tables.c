/* The lower half of the page: kernels, operators, where everything comes from. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/html.h"
#include "base/util.h"
#include "report/html.h"
#include "report/rows.h"
#include "report/story.h"
#include "report/text.h"

#define MAX_TABLE_ROWS 300
#define MAX_FULL_NAME 600
#define MAX_EMBEDDED_CSV (600u << 10) /* larger ones are linked as the file beside the page */

static void head(struct strbuf *out, const char *what, const char *mode, const char *const *names, size_t n) {
    strbuf_addf(out, "<div class=\"scroll\"><table data-sort=\"%s\" data-what=\"%s\"><thead><tr>", mode,
                what);
    for (size_t i = 0; i < n; i++) { /* a leading '#' marks a column of numbers, '%' one of shares */
        bool numeric = names[i][0] == '#', shares = names[i][0] == '%';
        strbuf_addf(out, "<th%s>%s</th>",
                    numeric  ? " class=\"n\""
                    : shares ? " class=\"share\""
                             : "",
                    names[i] + (numeric || shares));
    }
    strbuf_addstr(out, "</tr></thead>\n<tbody>\n");
}

static void number(struct strbuf *out, double sort_value, const char *shown) {
    strbuf_addf(out, "<td class=\"n\" data-v=\"%s\">%s</td>", text_raw(sort_value).s, shown);
}

static void share(struct strbuf *out, double fraction, double most) {
    strbuf_addf(out, "<td class=\"share\" data-v=\"%s\"><b>%s</b>", text_raw(fraction).s,
                text_percent(fraction).s);
    if (fraction > 0 && most > 0)
        strbuf_addf(out, "<i style=\"width:%.1fpx\"></i>", fmax(1, fraction / most * 60));
    strbuf_addstr(out, "</td>");
}

static void plain(struct strbuf *out, const char *text) {
    strbuf_addstr(out, "<td>");
    html_escape(out, text_or_dash(text));
    strbuf_addstr(out, "</td>");
}

static void name_cell(struct strbuf *out, const char *short_name, const char *full) {
    char cut[MAX_FULL_NAME + 4];
    strbuf_addstr(out, "<td class=\"name\">");
    html_escape(out, short_name);
    if (full && strcmp(full, short_name) != 0) {
        bool longer = snprintf(cut, MAX_FULL_NAME, "%s", full) >= MAX_FULL_NAME;
        strbuf_addstr(out, "<span class=\"full\">");
        html_escape(out, cut);
        strbuf_addstr(out, longer ? "\u2026</span>" : "</span>");
    }
    strbuf_addstr(out, "</td>");
}

/* A download that needs no server: the file itself is in the link. Frees the table. */
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
            strbuf_addf(out, "<a href=\"%s\">%s</a> (beside this page)</p>\n", name, name);
        }
    }
    strbuf_free(&csv);
    table_free(t);
}

static void mix(const struct view *v, struct strbuf *out) {
    strbuf_addstr(out, "<div class=\"mix\" aria-hidden=\"true\">");
    for (size_t i = 0; i < v->a->ncategories; i++)
        if (v->a->categories[i].share > 0)
            strbuf_addf(out, "<i class=\"c%d\" style=\"width:%.2f%%\"></i>",
                        chart_category_color((enum kernel_category)v->a->categories[i].id),
                        v->a->categories[i].share * 100);
    strbuf_addstr(out, "</div>\n<div class=\"key\">");
    for (size_t i = 0; i < v->a->ncategories; i++)
        if (v->a->categories[i].share >= 0.001)
            strbuf_addf(out, "<span><i class=\"c%d\"></i>%s %s</span>",
                        chart_category_color((enum kernel_category)v->a->categories[i].id),
                        v->a->categories[i].name, text_percent(v->a->categories[i].share).s);
    strbuf_addstr(out, "</div>\n");
}

static void limit_note(struct strbuf *out, size_t n, const char *what, const char *file) {
    if (n > MAX_TABLE_ROWS)
        strbuf_addf(out, "<p class=\"small soft\">The %d %s with most time of %s; all are in %s.</p>\n",
                    MAX_TABLE_ROWS, what, text_count(n).s, file);
}

/* Two figures a cell keep the table narrow. */
static void pair_with(struct strbuf *out, double sort_value, const char *shown, const char *below,
                      const char *when_pointed_at) {
    strbuf_addf(out, "<td class=\"n cat\" data-v=\"%s\"%s%s%s>%s<small>%s</small></td>",
                text_raw(sort_value).s, *when_pointed_at ? " title=\"" : "", when_pointed_at,
                *when_pointed_at ? "\"" : "", shown, below);
}
static void pair(struct strbuf *out, double sort_value, const char *shown, const char *below) {
    pair_with(out, sort_value, shown, below, "");
}

static void counter_cells(const struct counter_row *r, struct strbuf *out) {
    double sm = rows_counter(r, COUNTER_SM), tensor = rows_counter(r, COUNTER_TENSOR),
           clock = rows_counter(r, COUNTER_CLOCK), dram = r ? r->dram_pct : NAN;
    char rate[48], ghz[48], roof[80], ways[120];
    snprintf(ways, sizeof ways, "read %s, written %s",
             text_percent(rows_counter(r, COUNTER_DRAM_READ) / 100).s,
             text_percent(rows_counter(r, COUNTER_DRAM_WRITE) / 100).s);
    snprintf(rate, sizeof rate, "%s GB/s", text_num(r ? r->dram_bytes_per_s * 1e-9 : NAN, 0).s);
    snprintf(roof, sizeof roof, "%s of roof, ", text_percent(r ? r->roof_pct / 100 : NAN).s);
    snprintf(ghz, sizeof ghz, "%s GHz", text_num(clock * 1e-9, 2).s);
    pair(out, sm, text_percent(sm / 100).s, isfinite(clock) ? ghz : "");
    number(out, tensor, text_percent(tensor / 100).s);
    pair_with(out, dram, text_percent(dram / 100).s, r && isfinite(r->dram_bytes_per_s) ? rate : "",
              isfinite(dram) ? ways : "");
    strbuf_addf(out, "<td class=\"cat\">%s<small>%s%s</small></td>", text_or_dash(rows_counter_bound(r)),
                r && isfinite(r->roof_pct) ? roof : "",
                r && r->quality != COUNTER_UNKNOWN ? counter_quality_name(r->quality) : "");
}

static void profile_cells(const struct kernel_profile *p, struct strbuf *out) {
    double sm = rows_profile(p, KERNEL_PROFILE_SM), memory = rows_profile(p, KERNEL_PROFILE_MEMORY),
           dram = rows_profile(p, KERNEL_PROFILE_DRAM), rate = rows_profile(p, KERNEL_PROFILE_DRAM_RATE),
           seen = rows_profile(p, KERNEL_PROFILE_OCCUPANCY), l1 = rows_profile(p, KERNEL_PROFILE_L1_HIT),
           l2 = rows_profile(p, KERNEL_PROFILE_L2_HIT), stall = rows_profile(p, KERNEL_PROFILE_STALL);
    char below[64];
    number(out, sm, text_percent(sm / 100).s);
    number(out, memory, text_percent(memory / 100).s);
    snprintf(below, sizeof below, "%s GB/s", text_num(rate * 1e-9, 0).s);
    pair(out, dram, text_percent(dram / 100).s, isfinite(rate) ? below : "");
    number(out, seen, text_percent(seen / 100).s);
    snprintf(below, sizeof below, "L2 %s", text_percent(l2 / 100).s);
    pair(out, l1, text_percent(l1 / 100).s, isfinite(l2) ? below : "");
    strbuf_addstr(out, "<td class=\"cat\">");
    html_escape(out, text_or_dash(p ? p->bound : NULL));
    strbuf_addstr(out, "<small>");
    if (p && p->stall) {
        html_escape(out, p->stall);
        strbuf_addf(out, " %s", text_percent(stall / 100).s);
    }
    strbuf_addstr(out, "</small></td>");
}

/* What fits; below it, what the counters saw. */
static void occupancy_cell(const struct view *v, const struct analysis_kernel *k, struct strbuf *out) {
    const struct counter_row *r = rows_counters_of(v, (uint32_t)(k - v->a->kernels));
    double seen = rows_counter(r, COUNTER_OCCUPANCY);
    char below[56];
    snprintf(below, sizeof below, "seen %s", text_percent(seen / 100).s);
    if (rows_have_counters(v))
        pair(out, k->occupancy, text_percent(k->occupancy).s, isfinite(seen) ? below : "");
    else
        number(out, k->occupancy, text_percent(k->occupancy).s);
}

static void kernel_row(const struct view *v, const struct analysis_kernel *k, double most,
                       struct strbuf *out) {
    const struct timeline_shape *s = &v->a->timeline->shapes[k->shape];
    char geometry[96];
    strbuf_addstr(out, "<tr>");
    name_cell(out, k->short_name, k->name);
    share(out, k->share, most);
    number(out, k->total_ns, text_ms_number(k->total_ns / 1e6).s);
    number(out, (double)k->calls, text_count(k->calls).s);
    number(out, k->mean_ns, text_us_number(k->mean_ns).s);
    number(out, k->p99_ns, text_us_number(k->p99_ns).s);
    if (rows_have_counters(v)) counter_cells(rows_counters_of(v, (uint32_t)(k - v->a->kernels)), out);
    if (rows_have_profiles(v)) profile_cells(kernel_profile_of(v->a, (uint32_t)(k - v->a->kernels)), out);
    strbuf_addf(out, "<td class=\"cat\">%s<small>%s</small></td>", kernel_category_name(k->category),
                kernel_library_name(k->library));
    plain(out, view_stage_name(v->a, k->stage));
    snprintf(geometry, sizeof geometry, "%u\u00d7%u\u00d7%u / %u", s->grid[0], s->grid[1], s->grid[2],
             s->block[0] * s->block[1] * s->block[2]);
    number(out, k->blocks ? (double)k->blocks : NAN, s->grid[0] ? geometry : text_or_dash(NULL));
    occupancy_cell(v, k, out);
    strbuf_addstr(out, "</tr>\n");
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
    static const char *const times[] = { "kernel", "%share",        "#total ms",
                                         "#calls", "#mean \u00b5s", "#p99 \u00b5s" };
    static const char *const counters[] = { "#SM", "#tensor", "#DRAM", "bound" };
    static const char *const rest[] = { "category", "stage", "#grid / threads", "#occupancy" };
    static const char *const profiles[] = { "#ncu SM",        "#ncu memory", "#ncu DRAM",
                                            "#ncu occupancy", "#ncu L1 hit", "ncu bound" };
    const char *names[COUNTOF(times) + COUNTOF(counters) + COUNTOF(profiles) + COUNTOF(rest)];
    size_t nnames = 0;
    struct table t;
    if (!html_has_kernels(v)) return;
    size_t n = v->a->nkernels;
    html_section(
        out, "kernels", "Kernels",
        view_on_cpu(v)
            ? "Where the time went, by kind of kernel. Shares add up to the time the device was busy."
            : "Where GPU time went, by kind of kernel. Shares add up to the time the GPU was busy.");
    mix(v, out);
    limit_note(out, n, "kernels", "kernels.csv");
    if (rows_have_counters(v))
        strbuf_addstr(
            out,
            "<p class=\"small soft\">SM, tensor, DRAM and the occupancy seen are hardware counters: percent "
            "of the peak "
            "while the kernel ran, of each kind in the stage where it ran longest. A dash: too few samples "
            "to say.</p>\n");
    profiles_note(v, out);
    for (size_t i = 0; i < COUNTOF(times); i++) names[nnames++] = times[i];
    for (size_t i = 0; rows_have_counters(v) && i < COUNTOF(counters); i++) names[nnames++] = counters[i];
    for (size_t i = 0; rows_have_profiles(v) && i < COUNTOF(profiles); i++) names[nnames++] = profiles[i];
    for (size_t i = 0; i < COUNTOF(rest); i++) names[nnames++] = rest[i];
    head(out, "kernels", "filter", names, nnames);
    for (size_t i = 0; i < MIN(n, MAX_TABLE_ROWS); i++)
        kernel_row(v, &v->a->kernels[i], v->a->kernels[0].share, out);
    strbuf_addstr(out, "</tbody></table></div>\n");
    rows_kernels_csv(v, &t);
    download(v, out, "kernels.csv", &t);
    html_section_end(out);
}

static void operator_row(const struct view *v, const struct analysis_operator *o, double busy, double most,
                         struct strbuf *out) {
    strbuf_addstr(out, "<tr>");
    name_cell(out, o->name, o->detail);
    share(out, o->gpu_self_ns / busy, most);
    number(out, o->total_ns, text_ms_number(o->total_ns / 1e6).s);
    number(out, o->self_ns, text_ms_number(o->self_ns / 1e6).s);
    number(out, o->gpu_ns, text_ms_number(o->gpu_ns / 1e6).s);
    number(out, o->gpu_self_ns, text_ms_number(o->gpu_self_ns / 1e6).s);
    number(out, (double)o->calls, text_count(o->calls).s);
    number(out, o->mean_ns, text_us_number(o->mean_ns).s);
    number(out, (double)o->kernels, text_count(o->kernels).s);
    plain(out, view_stage_name(v->a, o->stage));
    strbuf_addstr(out, "</tr>\n");
}

void html_operators(const struct view *v, struct strbuf *out) {
    static const char *const names[] = { "operator", "%device share", "#total ms",
                                         "#self ms", "#device ms",    "#device self ms",
                                         "#calls",   "#mean \u00b5s", "#kernels",
                                         "stage" };
    struct table t;
    if (!html_has_operators(v)) return;
    double busy = v->a->conservation.busy > 0 ? v->a->conservation.busy : NAN, most = 0;
    size_t n = v->a->noperators;
    for (size_t i = 0; i < n; i++) most = fmax(most, v->a->operators[i].gpu_self_ns / busy);
    html_section(
        out, "operators", "Operators",
        view_on_cpu(v)
            ? "Total and self are the time of an operator with and without those inside it; device time is "
              "that of the kernels it called."
            : "Total and self are host time; device time is that of the kernels an operator launched, "
              "whenever they ran.");
    limit_note(out, n, "operators", "operators.csv");
    head(out, "operators", "filter", names, COUNTOF(names));
    for (size_t i = 0; i < MIN(n, MAX_TABLE_ROWS); i++) operator_row(v, &v->a->operators[i], busy, most, out);
    strbuf_addstr(out, "</tbody></table></div>\n");
    rows_operators_csv(v, &t);
    download(v, out, "operators.csv", &t);
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
    html_section(out, "assumptions", "Where the numbers come from", NULL);
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
    html_section(out, "answers", "Answers", NULL);
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
        strbuf_addstr(out, "<h3>Again</h3><pre>");
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
