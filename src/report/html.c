/* report.html: one file that needs no network and no JavaScript to be read. Style and scripts are in web/. */
#include "report/glossary.h"
#include "report/html.h"
#include "report/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/embed.h"
#include "base/html.h"
#include "base/text.h"
#include "base/util.h"
#include "report/rows.h"
#include "report/story.h"
#include "report/window.h"

void html_section(struct strbuf *out, const char *id, const char *heading, const char *lede) {
    strbuf_addf(out, "<section id=\"%s\">\n<h2>%s</h2>\n", id, heading);
    if (lede) strbuf_addf(out, "<p class=\"lede\">%s</p>\n", lede);
}

void html_recorded(const struct view *v, struct strbuf *out) {
    if (view_two_runs(v))
        strbuf_addf(out, "<p class=\"small soft\">From the recorded %s.</p>\n",
                    view_unrecorded(v) ? "steps, not from the others" : "run, not from the timed repeats");
}

void html_section_end(struct strbuf *out) { strbuf_addstr(out, "</section>\n"); }

static void html_cell(struct strbuf *out, const char *tag, const char *text, enum table_align align,
                      const char *help, const char *swatch) {
    strbuf_addf(out, "<%s%s", tag, align == TABLE_RIGHT ? " class=\"n\"" : "");
    if (help) {
        strbuf_addstr(out, " title=\"");
        html_escape(out, help);
        strbuf_addch(out, '"');
    }
    strbuf_addch(out, '>');
    if (swatch) strbuf_addf(out, "<i class=\"swatch %s\"></i>", swatch);
    html_escape(out, text);
    strbuf_addf(out, "</%s>", tag);
}

void html_table(struct strbuf *out, struct table *t) { html_table_colored(out, t, NULL); }

void html_table_colored(struct strbuf *out, struct table *t,
                        struct chart_class (*class_of)(const char *cell)) {
    size_t nc = t->heads.n;
    strbuf_addstr(out, "<div class=\"scroll\"><table><thead><tr>");
    for (size_t c = 0; c < nc; c++) {
        const char *heading = t->heads.v[c];
        html_cell(out, "th", heading, t->aligns.v[c], glossary_help(heading), NULL);
    }
    strbuf_addstr(out, "</tr></thead>\n<tbody>\n");
    for (size_t r = 0; r < table_rows(t); r++) {
        strbuf_addstr(out, "<tr>");
        for (size_t c = 0; c < nc; c++) {
            const char *text = t->cells.v[r * nc + c];
            html_cell(out, "td", text, t->aligns.v[c], NULL, c == 0 && class_of ? class_of(text).s : NULL);
        }
        strbuf_addstr(out, "</tr>\n");
    }
    strbuf_addstr(out, "</tbody></table></div>\n");
    table_free(t);
}

void html_chart(const struct view *v,
                bool (*draw)(const struct view *, const struct chart_form *, struct strbuf *),
                struct strbuf *out) {
    strbuf_addstr(out, "<div class=\"chart\">\n");
    draw(v, &(struct chart_form){ 1072, "wide", false }, out);
    draw(v, &(struct chart_form){ 340, "narrow", false }, out);
    strbuf_addstr(out, "</div>\n");
}

bool html_has_chart(const struct view *v,
                    bool (*draw)(const struct view *, const struct chart_form *, struct strbuf *)) {
    struct strbuf s = STRBUF_INIT;
    bool drawn = draw(v, &(struct chart_form){ 1072, "wide", false }, &s);
    strbuf_free(&s);
    return drawn;
}

bool html_has_kernels(const struct view *v) { return v->a && v->a->nkernels; }
bool html_has_operators(const struct view *v) { return v->a && v->a->noperators; }

static void add_embedded(struct strbuf *out, const char *path) {
    const struct embed_file *f = embed_find(path);
    if (f) strbuf_add(out, f->data, embed_bytes(f));
}

static void add_fact(struct strbuf *out, const char *label, const char *value) {
    if (!value || !*value) return;
    strbuf_addf(out, "<span>%s", label);
    html_escape(out, value);
    strbuf_addstr(out, "</span>\n");
}

void html_page_start(const char *title, struct strbuf *out) {
    strbuf_addstr(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                       "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                       "<meta name=\"referrer\" content=\"no-referrer\">\n"
                       "<link rel=\"icon\" href=\"data:,\">\n<title>");
    html_escape(out, title ? title : "inferprof report");
    strbuf_addstr(out, "</title>\n<style>\n");
    add_embedded(out, "web/report.css");
    strbuf_addstr(
        out, "</style>\n</head>\n<body>\n<header class=\"top\">\n<div class=\"brand\">inferprof</div>\n<h1>");
    html_escape(out, text_or_dash(title));
    strbuf_addstr(out, "</h1>\n");
    chart_print_style(out);
    strbuf_addstr(out, "<div class=\"meta\">\n");
}

static void page_head(const struct view *v, struct strbuf *out) {
    html_page_start(v->run->title, out);
    add_fact(out, "", v->run->run_id);
    if (v->run->started_wall_ns) add_fact(out, "", text_date(v->run->started_wall_ns).s);
    add_fact(out, "", view_device(v));
    add_fact(out, "engine ", v->run->engine);
    if (v->run->repeats) {
        char repeats[64];
        snprintf(repeats, sizeof repeats, "%zu timed repeats", v->run->repeats);
        add_fact(out, "", repeats);
    }
    strbuf_addstr(out, "</div>\n</header>\n");
}

static void page_nav(const struct view *v, bool timeline, struct strbuf *out) {
    const struct {
        const char *id, *name;
        bool there;
    } links[] = {
        { "verdict", "Verdict", true },
        { "stages", "Stages", v->nstages > 0 },
        { "steps", "Steps", v->a && v->a->recognition.nsteps },
        { "roofline", "Roofline", html_has_chart(v, chart_roofline) },
        { "timeline", "Timeline", timeline },
        { "kernels", "Kernels", html_has_kernels(v) },
        { "operators", "Operators", html_has_operators(v) },
        { "gemms", "Products", v->a && v->a->ngemms },
        { "flame", "Call paths", html_has_chart(v, chart_flame) },
        { "memory", "Memory", v->a && v->a->nmemories },
        { "power", "Power", html_has_chart(v, chart_power) },
        { "environment", "Environment", true },
    };
    strbuf_addstr(out, "<nav aria-label=\"Sections\"><div class=\"in\">\n");
    for (size_t i = 0; i < COUNTOF(links); i++)
        if (links[i].there) strbuf_addf(out, "<a href=\"#%s\">%s</a>\n", links[i].id, links[i].name);
    if (v->run->has_ranks) strbuf_addstr(out, "<a href=\"ranks.html\">Ranks</a>\n");
    strbuf_addstr(out, "</div></nav>\n");
}

static void page_warnings(const struct view *v, struct strbuf *out) {
    bool unstable = view_warns_unstable(v);
    struct strlist caveats = { 0 };
    view_caveats(v, &caveats);
    if (!caveats.n && !v->run->incomplete && !unstable) return;
    strbuf_addstr(out, "<div class=\"notice\"><h3>Caveats</h3><ul>\n");
    if (v->run->incomplete) strbuf_addf(out, "<li>%s</li>\n", story_incomplete);
    if (unstable) strbuf_addf(out, "<li>%s</li>\n", story_unstable);
    for (size_t i = 0; i < caveats.n; i++) {
        strbuf_addstr(out, "<li>");
        html_escape(out, caveats.v[i]);
        strbuf_addstr(out, "</li>\n");
    }
    strbuf_addstr(out, "</ul></div>\n");
    strlist_free(&caveats);
}

static void section_roofline(const struct view *v, struct strbuf *out) {
    if (!html_has_chart(v, chart_roofline)) return;
    bool kernels = false;
    for (size_t i = 0; i < v->a->nroofline; i++) kernels |= v->a->roofline[i].stage == ANALYSIS_NONE;
    html_section(
        out, "roofline", "Roofline",
        kernels ? "Each circle is a kernel or an operator; its area is its time. Labelled dots are whole "
                  "stages. The line is the device limit at each arithmetic intensity (FLOP per byte)."
                : "Dots are whole stages. The line is the device limit at each arithmetic intensity (FLOP "
                  "per byte).");
    html_chart(v, chart_roofline, out);
    strbuf_addstr(out, "<p class=\"small soft\">Peaks: ");
    story_peaks(v, &story_html, out);
    strbuf_addstr(out, "</p>\n");
    html_section_end(out);
}

/* Writes the typical occurrence of every other stage. The page has a selector for them. */
static void other_windows(const struct view *v, struct strbuf *out) {
    size_t written = 0;
    for (uint32_t i = 0; i < v->a->nstages && written < WINDOW_OTHERS; i++) {
        const struct analysis_stage *s = &v->a->stages[i];
        struct strbuf json = STRBUF_INIT;
        if (!s->outside && i != window_longest_stage(v->a) &&
            window_json(v, i, v->run->slim ? WINDOW_SLIM_SLICES : WINDOW_OTHER_SLICES, &json)) {
            strbuf_addstr(out, "<script type=\"application/json\" class=\"timeline-window\">");
            html_script_json(out, json.buf, json.len);
            strbuf_addstr(out, "</script>\n");
            written++;
        }
        strbuf_free(&json);
    }
}

static void section_timeline(const struct view *v, const struct strbuf *json, struct strbuf *out) {
    if (json->len == 0) return;
    html_section(out, "timeline", "Timeline", NULL);
    html_recorded(v, out);
    strbuf_addstr(
        out, "<div class=\"tl\" id=\"timeline-box\"><p class=\"soft\">The timeline needs JavaScript. To open "
             "the trace in Perfetto: <code>inferprof export RUN --format perfetto</code>.</p></div>\n");
    strbuf_addstr(out, "<script type=\"application/json\" id=\"timeline-data\">");
    html_script_json(out, json->buf, json->len);
    strbuf_addstr(out, "</script>\n");
    if (!strstr(json->buf, "\"whole\":true")) other_windows(v, out);
    html_section_end(out);
}

static void section_power(const struct view *v, struct strbuf *out) {
    struct table t;
    if (!v->a || v->a->npowers == 0) return;
    html_section(out, "power", "Power and clocks",
                 "Power above, SM clock below. Shaded: the clock was throttled.");
    for (size_t i = 0; i < v->a->npowers; i++) {
        if (v->a->powers[i].n < 2) continue;
        strbuf_addstr(out, "<div class=\"chart\">\n");
        chart_power_of(&v->a->powers[i], &(struct chart_form){ 1072, "wide", false }, out);
        chart_power_of(&v->a->powers[i], &(struct chart_form){ 340, "narrow", false }, out);
        strbuf_addstr(out, "</div>\n");
    }
    strbuf_addstr(out, "<p></p>\n");
    rows_power_md(v, &t);
    html_table(out, &t);
    html_section_end(out);
}

static void section_flame(const struct view *v, struct strbuf *out) {
    if (!html_has_chart(v, chart_flame)) return;
    html_section(
        out, "flame", "Call paths",
        "Time by call path: callers above, as wide as the time of everything they called. Kernels are at "
        "the bottom. Point at a box for its name and time.");
    html_recorded(v, out);
    strbuf_addstr(out, "<div class=\"chart flame\">\n");
    chart_flame(v, &(struct chart_form){ 1072, "", false }, out);
    strbuf_addstr(out,
                  "</div>\n<p class=\"small soft\">For other viewers: <code>inferprof export RUN --format "
                  "speedscope</code> (or collapsed, pprof).</p>\n");
    html_section_end(out);
}

static void section_memory(const struct view *v, struct strbuf *out) {
    struct table t;
    if (!v->a || v->a->nmemories == 0) return;
    html_section(
        out, "memory", "Memory",
        "Memory over time, and its peaks. The peak of a stage is the largest total while the stage was "
        "open on the host.");
    for (size_t i = 0; i < v->a->nmemories; i++) {
        strbuf_addstr(out, "<h3>");
        html_escape(out, rows_memory_device(v, &v->a->memories[i]));
        strbuf_addstr(out, "</h3>\n<div class=\"chart\">\n");
        chart_memory_of(&v->a->memories[i], &(struct chart_form){ 1072, "wide", false }, out);
        chart_memory_of(&v->a->memories[i], &(struct chart_form){ 340, "narrow", false }, out);
        strbuf_addstr(out, "</div>\n");
    }
    rows_memory_md(v, &t);
    html_table(out, &t);
    html_section_end(out);
}

static void page_scripts(struct strbuf *out) {
    static const char *const files[] = { "web/tables.js", "web/timeline.js" };
    for (size_t i = 0; i < COUNTOF(files); i++) {
        strbuf_addstr(out, "<script>\n");
        add_embedded(out, files[i]);
        strbuf_addstr(out, "</script>\n");
    }
}

void html_page_end(const char *version, struct strbuf *out) {
    strbuf_addstr(out, "</main>\n<footer>Written by inferprof ");
    html_escape(out, version);
    strbuf_addstr(out, ". This page is one self-contained file and makes no network requests.</footer>\n");
    page_scripts(out);
    strbuf_addstr(out, "</body>\n</html>\n");
}

void report_html(const struct view *v, struct strbuf *out) {
    struct strbuf timeline = STRBUF_INIT;
    window_json(v, ANALYSIS_NONE, v->run->slim ? WINDOW_SLIM_SLICES : WINDOW_MAX_SLICES, &timeline);
    page_head(v, out);
    page_nav(v, timeline.len > 0, out);
    strbuf_addstr(out, "<main>\n");
    html_verdict(v, out);
    page_warnings(v, out);
    html_figures(v, out);
    html_stages(v, out);
    html_understood(v, out);
    html_idle(v, out);
    section_roofline(v, out);
    section_timeline(v, &timeline, out);
    html_kernels(v, out);
    html_operators(v, out);
    html_gemms(v, out);
    section_flame(v, out);
    section_memory(v, out);
    section_power(v, out);
    html_provenance(v, out);
    html_page_end(v->run->version, out);
    strbuf_free(&timeline);
}
