/* Findings over time, machines and jobs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/html.h"
#include "base/util.h"
#include "base/vec.h"
#include "serve/api.h"
#include "serve/page_parts.h"
#include "serve/pages.h"
#include "serve/server.h"

/* ---- findings over time */

struct rule_row {
    const struct history_finding *newest, *oldest; /* of the same rule, stage and series */
    size_t runs;
    int64_t first_ns;
    double largest_ms;
};
struct rule_rows {
    struct rule_row *v;
    size_t n, cap;
};
#define GROUPS_SHOWN 200

static bool is_in_group(const struct history_finding *f, const struct history_finding *newest) {
    return part_same_text(newest->rule, f->rule) && part_same_text(newest->stage, f->stage) &&
           part_same_text(newest->model, f->model) && part_same_text(newest->device, f->device) &&
           part_same_text(newest->engine, f->engine);
}

static void group_findings(const struct history_findings *list, struct rule_rows *rows) {
    for (size_t i = 0; i < list->n; i++) {
        const struct history_finding *f = &list->v[i];
        size_t k = 0;
        while (k < rows->n && !is_in_group(f, rows->v[k].newest)) k++;
        if (k == rows->n) {
            struct rule_row row = { .newest = f, .largest_ms = NAN };
            vec_push(rows, row);
        }
        struct rule_row *row = &rows->v[k];
        /* A run can have the finding more than once; its findings follow each other. */
        if (!row->oldest || !part_same_text(row->oldest->run, f->run)) row->runs++;
        row->oldest = f;
        row->first_ns = f->started_ns;
        row->largest_ms = fmax(row->largest_ms, f->saving_ms);
    }
}

/* True if the newest run of the series has the finding. */
static bool is_open(const struct history_finding *f, const struct history_series_list *series) {
    for (size_t i = 0; i < series->n; i++) {
        const struct history_series *s = &series->v[i];
        if (part_same_text(s->model, f->model) && part_same_text(s->device, f->device) &&
            part_same_text(s->engine, f->engine))
            return f->started_ns >= s->last_ns;
    }
    return false;
}

static void add_rule_row(struct strbuf *out, const struct rule_row *r, bool open) {
    const struct history_finding *f = r->newest;
    strbuf_addstr(out, "<tr><td>");
    html_escape(out, f->title ? f->title : f->rule);
    strbuf_addf(out, "%s<div class=\"soft\">", open ? " <span class=\"badge warn\">open</span>" : "");
    html_escape(out, f->rule);
    strbuf_addstr(out, "</div></td>");
    part_cell(out, f->stage);
    part_cell(out, f->model);
    part_cell(out, f->device);
    part_number(out, text_count(r->runs).s);
    part_number(out, text_ms_number(f->saving_ms).s);
    part_number(out, text_ms_number(r->largest_ms).s);
    part_day(out, r->first_ns);
    part_day(out, f->started_ns);
    part_run_cell(out, f->run);
    strbuf_addstr(out, "</tr>\n");
}

static void show_findings(struct request *q, const struct history_findings *list,
                          const struct history_series_list *series, size_t runs) {
    struct strbuf *out = &q->out;
    struct rule_rows rows = { 0 };
    group_findings(list, &rows);
    size_t n = MIN(rows.n, GROUPS_SHOWN);
    page_open(q, "Findings", "findings");
    strbuf_addf(
        out,
        "<div class=\"head\"><h1>Findings over time</h1><p class=\"soft\">of the last %zu runs; open: "
        "the newest run of this model, device and engine has it</p></div>\n",
        runs);
    if (n) {
        strbuf_addstr(out,
                      "<div class=\"scroll\"><table class=\"lines\"><thead><tr><th>finding</th><th>stage</th>"
                      "<th>model</th><th>device</th><th class=\"n\">runs</th><th class=\"n\">saving ms</th>"
                      "<th class=\"n\">largest</th><th>first seen</th><th>last seen</th><th>newest run</th>"
                      "</tr></thead>\n<tbody>\n");
        for (size_t i = 0; i < n; i++) add_rule_row(out, &rows.v[i], is_open(rows.v[i].newest, series));
        strbuf_addstr(out, "</tbody></table></div>\n");
        if (rows.n > n)
            strbuf_addf(
                out,
                "<p class=\"soft\">The first %zu of %zu findings, newest first. The other %zu: add "
                "<code>?model=NAME</code>, <code>?device=NAME</code> or <code>?rule=NAME</code> to the "
                "address.</p>\n",
                n, rows.n, rows.n - n);
    } else
        part_empty(out, series->n ? "These runs have no findings." : "There are no runs yet.", !series->n);
    page_close(q);
    free(rows.v);
}

void page_findings(struct request *q) {
    struct history_findings list = { 0 };
    struct history_series_list series = { 0 };
    struct err err;
    size_t runs = 200;
    if (!api_read_count(q, "runs", 1, 500, &runs)) return;
    struct history *h = request_history(q);
    if (!h) return;
    if (history_series(h, &series, &err) < 0 ||
        history_findings(h, http_query(q, "model"), http_query(q, "device"), http_query(q, "engine"),
                         http_query(q, "rule"), runs, &list, &err) < 0)
        request_database_failed(q, &err);
    else
        show_findings(q, &list, &series, runs);
    history_findings_free(&list);
    history_series_free(&series);
    request_done(q, h);
}

/* ---- machines */

static void add_machine_row(struct strbuf *out, const struct history_machine *m) {
    const char *pairs[] = { "host", m->host, "device", m->device, NULL };
    strbuf_addstr(out, "<tr><td>");
    part_link(out, "/runs", pairs, text_or_dash(m->host));
    strbuf_addstr(out, "</td>");
    part_cell(out, m->device);
    part_number(out, text_count((uint64_t)m->runs).s);
    part_cell(out, m->version);
    part_run_cell(out, m->last_run);
    part_date(out, m->last_ns);
    strbuf_addstr(out, "</tr>\n");
}

void page_machines(struct request *q) {
    struct history_machines list;
    struct err err;
    struct history *h = request_history(q);
    if (!h) return;
    if (history_machines(h, &list, &err) < 0)
        request_database_failed(q, &err);
    else {
        page_open(q, "Machines", "machines");
        strbuf_addstr(&q->out, "<div class=\"head\"><h1>Machines</h1></div>\n");
        if (list.n) {
            strbuf_addstr(
                &q->out,
                "<div class=\"scroll\"><table class=\"lines\"><thead><tr><th>host</th><th>device</th>"
                "<th class=\"n\">runs</th><th>inferprof</th><th>last run</th><th>started</th></tr>"
                "</thead>\n<tbody>\n");
            for (size_t i = 0; i < list.n; i++) add_machine_row(&q->out, &list.v[i]);
            strbuf_addstr(&q->out, "</tbody></table></div>\n");
        } else
            part_empty(&q->out, "There are no runs yet.", true);
        page_close(q);
        history_machines_free(&list);
    }
    request_done(q, h);
}

/* ---- jobs */

static void show_jobs(struct request *q, const struct db_result *r) {
    struct strbuf *out = &q->out;
    page_open(q, "Jobs", "jobs");
    strbuf_addstr(out, "<div class=\"head\"><h1>Jobs</h1></div>\n");
    if (!r->rows) {
        part_empty(out, "There are no jobs. POST /api/v1/profiles starts one.", false);
        page_close(q);
        return;
    }
    strbuf_addstr(
        out, "<div class=\"scroll\"><table class=\"lines\"><thead><tr><th>run</th><th>status</th><th>device"
             "</th><th>created</th><th>ended</th><th>message</th></tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < r->rows; i++) {
        bool done = part_same_text(db_cell(r, i, 1), "done");
        strbuf_addstr(out, "<tr>");
        if (done)
            part_run_cell(out, db_cell(r, i, 0));
        else
            part_cell(out, db_cell(r, i, 0)); /* other jobs may lack a run */
        part_cell(out, db_cell(r, i, 1));
        part_cell(out, db_cell(r, i, 2));
        part_date(out, db_cell_int(r, i, 4));
        part_date(out, db_cell_int(r, i, 5));
        part_cell(out, db_cell(r, i, 3));
        strbuf_addstr(out, "</tr>\n");
    }
    strbuf_addstr(out, "</tbody></table></div>\n");
    page_close(q);
}

void page_jobs(struct request *q) {
    struct db_args args = { 0 };
    struct db_result r;
    struct err err;
    struct history *h = request_history(q);
    if (!h) return;
    db_text(&args, h->store);
    if (database_query(
            h->db,
            "SELECT run_id, state, device, message, created_ns, ended_ns FROM jobs WHERE store = $1 "
            "ORDER BY id DESC LIMIT 200",
            &args, &r, &err) < 0)
        request_database_failed(q, &err);
    else {
        show_jobs(q, &r);
        q->no_store = true;
        db_result_free(&r);
    }
    request_done(q, h);
}
