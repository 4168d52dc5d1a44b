/* The list of runs. */
#include <stdio.h>
#include <string.h>

#include "base/html.h"
#include "base/opt.h"
#include "base/util.h"
#include "serve/api.h"
#include "serve/page_parts.h"
#include "serve/pages.h"
#include "serve/run_columns.h"
#include "serve/server.h"

/* Arguments that restrict the list. Links and the form keep them. */
static const char *const filter_names[] = { "search", "model",   "device", "engine", "host",
                                            "tag",    "version", "stage",  "since",  "until" };
#define FORM_FIELDS "search|model|device|engine|tag" /* those with a visible field */
#define PAIRS_MAX (2 * COUNTOF(filter_names) + 7)

/* A link to the list with the same filters. */
static void list_link(struct request *q, const char *sort, bool reverse, const char *cursor,
                      const char *text) {
    const char *pairs[PAIRS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < COUNTOF(filter_names); i++) {
        const char *value = http_query(q, filter_names[i]);
        if (!value || !*value) continue;
        pairs[n++] = filter_names[i];
        pairs[n++] = value;
    }
    const char *rest[] = { "sort", sort, "order", reverse ? "reverse" : NULL, "cursor", cursor, NULL };
    memcpy(pairs + n, rest, sizeof rest);
    part_link(&q->out, "/runs", pairs, text);
}

static void add_search(struct request *q, const struct history_filter *f,
                       const struct history_series_list *series) {
    struct strbuf *out = &q->out;
    const char *models[200] = { 0 }, *devices[200] = { 0 }, *engines[200] = { 0 };
    size_t nm = 0, nd = 0, ne = 0;
    for (size_t i = 0; i < series->n; i++) {
        const char *values[] = { series->v[i].model, series->v[i].device, series->v[i].engine };
        const char **lists[] = { models, devices, engines };
        size_t *counts[] = { &nm, &nd, &ne };
        for (size_t k = 0; k < 3; k++) {
            size_t at = 0;
            while (at < *counts[k] && values[k] && strcmp(lists[k][at], values[k]) != 0) at++;
            if (values[k] && at == *counts[k] && at < 200) lists[k][(*counts[k])++] = values[k];
        }
    }
    strbuf_addstr(
        out, "<form class=\"filter\" method=\"get\" action=\"/runs\"><label>Search <input type=\"search\" "
             "name=\"search\" placeholder=\"name, model, device, host\" value=\"");
    html_escape(out, f->text);
    strbuf_addstr(out, "\"></label>\n");
    part_select(out, "model", "Model", models, NULL, nm, f->model, "all");
    part_select(out, "device", "Device", devices, NULL, nd, f->device, "all");
    part_select(out, "engine", "Engine", engines, NULL, ne, f->engine, "all");
    strbuf_addstr(out, "<label>Tag <input name=\"tag\" size=\"10\" value=\"");
    html_escape(out, f->tag);
    strbuf_addstr(out, "\"></label>\n");
    for (size_t i = 0; i < COUNTOF(filter_names); i++) {
        const char *value = http_query(q, filter_names[i]);
        if (!value || !*value || opt_is_choice(FORM_FIELDS, filter_names[i])) continue;
        strbuf_addf(out, "<input type=\"hidden\" name=\"%s\" value=\"", filter_names[i]);
        html_escape(out, value);
        strbuf_addstr(out, "\">");
    }
    strbuf_addstr(out, "<button>Show</button></form>\n");
}

/* Column heading with a link that sorts the list. */
static void add_heading(struct request *q, const struct history_filter *f, const char *key, const char *text,
                        bool number) {
    bool active = strcmp(f->sort ? f->sort : "started", key) == 0;
    strbuf_addf(&q->out, "<th%s%s>", number ? " class=\"n\"" : "", active ? " aria-sort=\"other\"" : "");
    list_link(q, key, active && !f->reverse, NULL, text);
    strbuf_addf(&q->out, "%s</th>", !active ? "" : f->reverse ? " ↑" : " ↓");
}

static void add_notes(struct strbuf *out, const struct history_run *run) {
    strbuf_addstr(out, "<td class=\"notes\">");
    if (run->missing) strbuf_addstr(out, "<span class=\"badge warn\">missing</span>");
    if (!run->here && !run->missing) strbuf_addstr(out, "<span class=\"badge\">elsewhere</span>");
    if (run->incomplete) strbuf_addstr(out, "<span class=\"badge warn\">incomplete</span>");
    if (run->unstable) strbuf_addstr(out, "<span class=\"badge\">unstable</span>");
    if (run->busy) strbuf_addstr(out, "<span class=\"badge warn\">busy</span>");
    for (size_t i = 0; i < run->tags.n; i++) {
        strbuf_addstr(out, "<a class=\"badge tag\" href=\"/runs?tag=");
        page_url(out, run->tags.v[i]);
        strbuf_addstr(out, "\">");
        html_escape(out, run->tags.v[i]);
        strbuf_addstr(out, "</a>");
    }
    strbuf_addstr(out, "</td>");
}

/* Key of history_sort_keys() for a column. */
static void sort_key(const struct column *c, char *key, size_t cap) {
    snprintf(key, cap, "%s", !c->key ? c->heading : strcmp(c->key, "run") == 0 ? "name" : c->key);
    size_t n = strlen(key);
    if (n > 3 && strcmp(key + n - 3, "_ms") == 0) key[n - 3] = '\0';
}

static void add_run_row(struct strbuf *out, const struct history_run *run, const struct column_set *set) {
    struct strbuf text = STRBUF_INIT;
    strbuf_addstr(
        out,
        "<tr><td class=\"pick\"><input type=\"checkbox\" name=\"run\" aria-label=\"Select for comparison\" "
        "value=\"");
    html_escape(out, run->name);
    strbuf_addstr(out, "\"></td>");
    for (size_t i = 0; i < set->n; i++) {
        const struct column *c = set->v[i].column;
        strbuf_reset(&text);
        column_show(c, &(struct column_row){ .item = run }, &text);
        if (!c->key)
            part_date(out, run->started_ns);
        else if (strcmp(c->key, "run") == 0)
            part_run_cell(out, run->name);
        else if (column_is_text(c))
            part_cell(out, text.buf);
        else
            part_number(out, text.buf);
    }
    add_notes(out, run);
    strbuf_addstr(out, "</tr>\n");
    strbuf_free(&text);
}

static void add_run_table(struct request *q, const struct history_filter *f,
                          const struct history_page *page) {
    const struct column_group groups[] = { run_name_columns,
                                           f->stage ? run_stage_figure_columns : run_figure_columns };
    struct strbuf *out = &q->out;
    struct column_set set;
    char key[40];
    column_set_init(&set, groups, COUNTOF(groups), COLUMN_DOC_HTML, NULL);
    strbuf_addstr(out, "<form method=\"get\" action=\"/compare\" id=\"pick\"><div class=\"scroll\"><table "
                       "class=\"runs\"><thead><tr><th><span class=\"hidden\">Select</span></th>");
    for (size_t i = 0; i < set.n; i++) {
        const struct column *c = set.v[i].column;
        sort_key(c, key, sizeof key);
        add_heading(q, f, key, c->heading, !column_is_text(c));
    }
    strbuf_addstr(out, "<th>notes</th></tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < page->n; i++) add_run_row(out, &page->v[i], &set);
    strbuf_addstr(
        out,
        "</tbody></table></div>\n<div class=\"tools below\"><button type=\"submit\" id=\"compare\">Compare "
        "selected</button><span class=\"soft\" id=\"picked\">Select two or more runs. The oldest is the "
        "baseline.</span></div></form>\n");
}

static void add_pages(struct request *q, const struct history_filter *f, const struct history_page *page) {
    bool newest_first = (!f->sort || strcmp(f->sort, "started") == 0) && !f->reverse;
    if (!page->next) return;
    strbuf_addstr(&q->out, "<p class=\"next\">");
    list_link(q, f->sort, f->reverse, page->next, newest_first ? "Older runs →" : "Next runs →");
    strbuf_addstr(&q->out, "</p>\n");
}

static void add_list_head(struct request *q, const struct history_filter *f,
                          const struct history_page *page) {
    struct strbuf *out = &q->out;
    strbuf_addstr(out, "<div class=\"head\"><h1>Runs</h1><p class=\"soft\">");
    if (page->total < 0)
        strbuf_addf(out, "more than %s runs", text_count(MAX(HISTORY_COUNT_MAX, page->n)).s);
    else
        strbuf_addf(out, "%s run%s", text_count((uint64_t)page->total).s, page->total == 1 ? "" : "s");
    /* the order by a figure omits runs without it */
    if (page->total > (int64_t)page->n && !page->next && !f->cursor)
        strbuf_addf(out, ", %s with the figure of the order", text_count(page->n).s);
    if (f->stage) {
        strbuf_addstr(out, ", figures of the stage ");
        html_escape(out, f->stage);
    }
    strbuf_addf(out, "%s</p></div>\n", f->cursor ? ", continued" : "");
}

void page_runs(struct request *q) {
    struct history_filter f;
    struct history_page page;
    struct history_series_list series;
    struct err err;
    if (!api_read_filter(q, &f)) return;
    struct history *h = request_history(q);
    if (!h) return;
    if (history_list(h, &f, &page, &err) < 0)
        request_database_failed(q, &err);
    else {
        if (history_series(h, &series, &err) < 0) series = (struct history_series_list){ 0 };
        page_open(q, "Runs", "runs");
        add_list_head(q, &f, &page);
        if (series.n) add_search(q, &f, &series);
        if (page.n)
            add_run_table(q, &f, &page);
        else
            part_empty(&q->out, series.n ? "No run matches." : "There are no runs yet.", !series.n);
        add_pages(q, &f, &page);
        page_close(q);
        history_page_free(&page);
        history_series_free(&series);
    }
    request_done(q, h);
}
