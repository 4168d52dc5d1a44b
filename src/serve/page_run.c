/* One run: figures, findings, stages, kernels and environment. */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/html.h"
#include "base/util.h"
#include "report/html.h"
#include "serve/api.h"
#include "serve/page_parts.h"
#include "serve/pages.h"
#include "serve/run_columns.h"
#include "serve/server.h"

static void add_figure(struct strbuf *out, const char *name, const char *value, const char *detail) {
    strbuf_addf(out, "<div><dt>%s</dt><dd>", name);
    html_escape(out, value);
    strbuf_addstr(out, "<small>");
    html_escape(out, detail);
    strbuf_addstr(out, "</small></dd></div>\n");
}

static void add_figures(struct strbuf *out, const struct history_run *run) {
    strbuf_addstr(out, "<dl class=\"figures\">\n");
    add_figure(out, "Time to first token", text_ms(run->time_to_first_token_ms).s, "");
    add_figure(out, "Time per token", text_ms(run->time_per_token_ms).s, "");
    add_figure(out, "Decode rate", text_num(run->tokens_per_s, 1).s, "tokens/s");
    add_figure(out, "MFU", text_percent(run->mfu).s, "prefill and decode");
    add_figure(out, "MBU", text_percent(run->mbu).s, "prefill and decode");
    strbuf_addstr(out, "</dl>\n");
}

#define FINDINGS_SHOWN 6

static void add_run_findings(struct strbuf *out, const struct run_record *r) {
    if (!r->findings.n) return;
    html_section(out, "findings", "Findings", NULL);
    strbuf_addstr(out, "<ul class=\"findings\">\n");
    for (size_t i = 0; i < MIN(r->findings.n, FINDINGS_SHOWN); i++) {
        const struct record_finding *f = &r->findings.v[i];
        strbuf_addstr(out, "<li>");
        if (isfinite(f->saving_ms)) {
            strbuf_addf(out, "<div class=\"save\"><small>Could save up to</small> %s <small>",
                        text_ms(f->saving_ms).s);
            if (isfinite(f->saving_percent))
                strbuf_addf(out, "(%s of ", text_percent(f->saving_percent / 100).s);
            html_escape(out, f->stage ? f->stage : "the run");
            strbuf_addf(out, "%s</small></div>", isfinite(f->saving_percent) ? ")" : "");
        }
        strbuf_addstr(out, "<h3>");
        html_escape(out, f->title);
        strbuf_addstr(out, "</h3><p>");
        html_escape(out, f->evidence);
        strbuf_addstr(out, "</p><p class=\"do\">");
        html_escape(out, f->advice);
        strbuf_addstr(out, "</p><div class=\"tag\">");
        html_escape(out, f->rule);
        if (f->confidence) {
            strbuf_addstr(out, ", confidence ");
            html_escape(out, f->confidence);
        }
        strbuf_addstr(out, "</div></li>\n");
    }
    strbuf_addstr(out, "</ul>\n");
    if (r->findings.n > FINDINGS_SHOWN)
        strbuf_addf(out, "<p class=\"soft\">%zu more in the report.</p>\n", r->findings.n - FINDINGS_SHOWN);
    html_section_end(out);
}

static void add_stage_row(struct strbuf *out, const struct history_run *run, const struct record_stage *s,
                          const struct column_set *set) {
    const char *pairs[] = { "model",  run->model ? run->model : "",
                            "device", run->device ? run->device : "",
                            "engine", run->engine ? run->engine : "",
                            "stage",  s->name,
                            "metric", "time",
                            NULL };
    strbuf_addf(out, "<tr%s><td>", s->parent ? " class=\"sub\"" : "");
    part_link(out, "/trends", pairs, s->name);
    strbuf_addstr(out, "</td>");
    part_cells(out, set, s, 1, set->n); /* the first column is the link */
    strbuf_addstr(out, "</tr>\n");
}

static void add_stages(struct strbuf *out, const struct history_run *run, const struct run_record *r) {
    struct column_set set;
    if (!r->stages.n) return;
    column_set_init(&set, &run_stage_columns, 1, COLUMN_DOC_HTML, NULL);
    html_section(out, "stages", "Stages",
                 "Median of the timed repeats with its 95% interval. A stage links to its trend.");
    part_table_open(out, &set, "");
    for (size_t i = 0; i < r->stages.n; i++)
        if (isfinite(r->stages.v[i].time_ms)) add_stage_row(out, run, &r->stages.v[i], &set);
    part_table_close(out);
    html_section_end(out);
}

static void add_kernels(struct strbuf *out, const struct run_record *r) {
    if (!r->kernels.n) return;
    html_section(out, "kernels", "Kernels", "The kernel classes with most time.");
    part_table(out, &run_kernel_columns,
               (struct column_items){ r->kernels.v, r->kernels.n, sizeof *r->kernels.v });
    html_section_end(out);
}

static void add_environment(struct strbuf *out, const struct history_run *run, const struct run_record *r) {
    if (!r->env.n && !run->command) return;
    html_section(out, "environment", "Environment", NULL);
    if (run->command) {
        strbuf_addstr(out, "<pre>");
        html_escape(out, run->command);
        strbuf_addstr(out, "</pre>\n");
    }
    strbuf_addstr(out, "<dl class=\"env\">\n");
    for (size_t i = 0; i < r->env.n; i++) {
        strbuf_addstr(out, "<dt>");
        html_escape(out, r->env.v[i].key);
        strbuf_addstr(out, "</dt><dd>");
        html_escape(out, text_or_dash(r->env.v[i].value));
        strbuf_addstr(out, "</dd>\n");
    }
    strbuf_addstr(out, "</dl>\n");
    html_section_end(out);
}

/* Adds a link to a report in the folder of the run, unless the folder lacks the file. */
static void add_report_link(struct strbuf *out, const struct history *h, const struct history_run *run,
                            const char *file, const char *path, const char *text) {
    int fd = run->here && !run->missing ? api_open_artifact(h, run, file) : -1;
    if (fd < 0) return;
    close(fd);
    strbuf_addstr(out, "<a class=\"button\" href=\"");
    page_run_link(out, run->name);
    strbuf_addf(out, "%s\">%s</a> ", path, text);
}

static void add_actions(struct strbuf *out, const struct history *h, const struct history_run *run) {
    const char *pairs[] = { "model", run->model, "device", run->device, "engine", run->engine, NULL };
    strbuf_addstr(out, "<p class=\"actions\">");
    add_report_link(out, h, run, "report.html", "/report", "Full report");
    add_report_link(out, h, run, "ranks.html", "/ranks", "Ranks");
    part_link(out, "/trends", pairs, "Trends");
    strbuf_addstr(out, " ");
    part_link(out, "/runs", pairs, "Runs of this series");
    strbuf_addstr(out, " <a href=\"/api/v1/runs/");
    page_url(out, run->name);
    strbuf_addstr(out, "\">JSON</a> <a href=\"/api/v1/runs/");
    page_url(out, run->name);
    strbuf_addstr(out, "/artifacts\">Files</a></p>\n");
}

static void show_run(struct request *q, const struct history *h, const struct history_run *run,
                     const struct run_record *r, const void *data) {
    (void)data;
    struct strbuf *out = &q->out;
    page_open(q, run->name, "runs");
    strbuf_addstr(out, "<div class=\"head run\"><h1>");
    html_escape(out, run->title ? run->title : run->name);
    strbuf_addstr(out, "</h1><div class=\"meta\"><span>");
    html_escape(out, run->name);
    strbuf_addf(out, "</span><span>%s</span><span>", text_date((uint64_t)run->started_ns).s);
    html_escape(out, text_or_dash(run->device));
    strbuf_addstr(out, "</span><span>host ");
    html_escape(out, text_or_dash(run->host));
    strbuf_addstr(out, "</span><span>inferprof ");
    html_escape(out, text_or_dash(run->version));
    strbuf_addstr(out, "</span></div></div>\n");
    if (run->missing)
        strbuf_addstr(out, "<p class=\"notice\">The folder of this run was moved or deleted.</p>\n");
    if (run->incomplete) strbuf_addstr(out, "<p class=\"notice\">This run did not finish.</p>\n");
    add_actions(out, h, run);
    if (run->verdict) {
        strbuf_addstr(out, "<p class=\"lede\">");
        html_escape(out, run->verdict);
        strbuf_addstr(out, "</p>\n");
    }
    add_figures(out, run);
    add_run_findings(out, r);
    add_stages(out, run, r);
    add_kernels(out, r);
    add_environment(out, run, r);
    page_close(q);
}

void page_run(struct request *q) { api_answer_run(q, show_run, NULL); }
