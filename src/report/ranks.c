/* ranks.html, ranks.md and the terminal summary of a job of several ranks. */
#include "report/ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/html.h"
#include "base/strlist.h"
#include "base/text.h"
#include "base/util.h"
#include "base/wrap.h"
#include "ranks/sums.h"
#include "report/glossary.h"
#include "report/html.h"

static const char heat_help[] =
    "Time per step of every rank. In each row, a stronger colour is a rank with more of this time. "
    "A rank that computes longer than the others makes them wait.";
static const char skew_help[] =
    "Compute time per step of the slowest rank (solid, accent), the median (dashed) and the "
    "fastest rank. The distance is what the others wait.";
static const char lanes_help[] =
    "Kernels of three ranks on the clock of the job, from the middle of the run. A "
    "communication kernel that starts early waits for the slowest rank.";
static const char shares_help[] =
    "Shares of the time of the GPUs. Exposed: only communication runs. Waiting: until the last rank "
    "started the same collective. Moving: the rest of the exposed time.";

/* ---- HTML */
/* Colours of the charts, and the terms of the page. */
static void html_rank_legend(struct strbuf *out) {
    size_t n;
    const struct glossary_term *terms = glossary_rank_legend(&n);
    strbuf_addstr(out,
                  "<div class=\"key\" style=\"margin-top:18px\"><span><i class=\"busy\"></i>compute</span>"
                  "<span><i class=\"c10\"></i>communication: moving</span>"
                  "<span><i class=\"c10 hatched\"></i>communication: waiting</span>"
                  "<span><i class=\"idle\"></i>idle</span></div>\n");
    html_legend(terms, n, out);
}

static void html_findings(const struct rank_report *r, struct strbuf *out) {
    html_section(out, "findings", "Findings", "Savings are upper bounds for the job, per step.");
    if (!r->findings->n)
        strbuf_addstr(out, "<p>No finding: no loss above 5% of a step was recognised.</p>\n");
    if (r->findings->n) strbuf_addstr(out, "<ul class=\"findings\">\n");
    for (size_t i = 0; i < r->findings->n; i++) {
        const struct rank_finding *f = &r->findings->v[i];
        strbuf_addf(out,
                    "<li><div class=\"save\"><small>Could save up to</small> %s <small>per step (%s of "
                    "it)</small></div><h3>",
                    text_ms(f->saving_ms).s, text_percent(f->saving_percent / 100).s);
        html_escape(out, f->title);
        strbuf_addstr(out, "</h3><p>");
        html_escape(out, f->evidence);
        strbuf_addstr(out, "</p><p class=\"do\">");
        html_escape(out, f->advice);
        strbuf_addf(out, "</p><div class=\"tag\">%s, confidence %s</div></li>\n", f->rule,
                    analysis_confidence_name(f->confidence));
    }
    if (r->findings->n) strbuf_addstr(out, "</ul>\n");
    html_rank_legend(out);
    html_section_end(out);
}

static void html_draw(const struct rank_report *r, const char *id, const char *heading, const char *lede,
                      bool (*draw)(const struct rank_report *, const struct chart_form *, struct strbuf *),
                      struct strbuf *out) {
    struct strbuf svg = STRBUF_INIT;
    if (draw(r, &(struct chart_form){ 1072, "wide", false }, &svg)) {
        draw(r, &(struct chart_form){ 420, "narrow", false }, &svg);
        html_section(out, id, heading, lede);
        strbuf_addstr(out, "<div class=\"chart\">\n");
        strbuf_add(out, svg.buf, svg.len);
        strbuf_addstr(out, "</div>\n");
        html_section_end(out);
    }
    strbuf_free(&svg);
}

/* Problems of the job, and facts that make its figures unknown or uncertain. */
static void rank_caveats(const struct rank_report *r, struct strlist *out) {
    const struct rank_job *job = r->job;
    for (size_t i = 0; i < job->nwarnings; i++) strlist_add(out, "%s", job->warnings[i]);
    if (job->nclocks > 1 && isnan(job->clock_error_ns))
        strlist_add(out, "The clocks of the ranks could not be aligned: waiting, lateness and the timeline "
                         "of several nodes are uncertain.");
    if (!r->layout->source) strlist_add(out, "The layout of the ranks is unknown: %s.", r->layout->why);
    if (r->layout->assumed_order)
        strlist_add(out, "No communicator shows the pipeline stage or the replica of every rank: ranks are "
                         "assumed to be numbered tp first, then dp, then pp.");
    if (r->costs->why) strlist_add(out, "MFU, MBU and roofline time are unknown: %s.", r->costs->why);
}

static void html_caveats(const struct rank_report *r, struct strbuf *out) {
    struct strlist caveats = { 0 };
    rank_caveats(r, &caveats);
    strbuf_addf(out, "<div class=\"notice\" id=\"caveats\"><h3>Caveats</h3>%s\n",
                caveats.n ? "<ul>" : "<p>None: every rank has data, and all figures are known.</p>");
    for (size_t i = 0; i < caveats.n; i++) {
        strbuf_addstr(out, "<li>");
        html_escape(out, caveats.v[i]);
        strbuf_addstr(out, "</li>\n");
    }
    strbuf_addf(out, "%s</div>\n", caveats.n ? "</ul>" : "");
    strlist_free(&caveats);
}

static void html_rank_tables(const struct rank_report *r, struct strbuf *out) {
    struct table t;
    html_section(out, "nodes", "Nodes", shares_help);
    rank_table_nodes(r, &t);
    html_table(out, &t);
    html_section_end(out);
    html_section(out, "ranks", "Ranks", "Late: mean arrival at collectives after the first rank.");
    size_t left = rank_table_ranks(r, &t);
    html_table(out, &t);
    if (left)
        strbuf_addf(out, "<p class=\"soft\">The latest %d ranks; ranks.json has the other %zu.</p>\n",
                    RANK_ROWS_MAX, left);
    html_section_end(out);
    html_section(
        out, "collectives", "Collectives",
        "Bus bandwidth as nccl-tests defines it, over the median moving time. An unknown link has a dash.");
    rank_table_collectives(r, &t);
    html_table(out, &t);
    html_section_end(out);
    html_section(out, "communicators", "Communicators", NULL);
    rank_table_communicators(r, &t);
    html_table(out, &t);
    html_section_end(out);
    html_section(out, "clocks", "Clocks", "Offsets are against the clock of the job.");
    rank_table_clocks(r, &t);
    html_table(out, &t);
    html_section_end(out);
}

static void rank_html(const struct rank_report *r, struct strbuf *out) {
    static const char *const ids[] = { "caveats", "findings", "heat",  "stages",      "skew",
                                       "lanes",   "nodes",    "ranks", "collectives", "clocks" };
    static const char *const names[] = { "Caveats",  "Findings", "Heat map", "Stages",      "Skew",
                                         "Timeline", "Nodes",    "Ranks",    "Collectives", "Clocks" };
    struct table t;
    html_page_start(r->title ? r->title : "Ranks", out);
    rank_facts(r, out, "<span>", "</span>\n");
    strbuf_addstr(out, "</div>\n</header>\n<nav aria-label=\"Sections\"><div class=\"in\">\n");
    for (size_t i = 0; i < COUNTOF(ids); i++) strbuf_addf(out, "<a href=\"#%s\">%s</a>\n", ids[i], names[i]);
    strbuf_addstr(out, "</div></nav>\n<main>\n");
    html_caveats(r, out);
    html_findings(r, out);
    html_draw(r, "heat", "Ranks and stages", heat_help, rank_chart_heat, out);
    html_section(out, "stages", "Stages", shares_help);
    rank_table_stages(r, &t);
    html_table(out, &t);
    html_section_end(out);
    html_draw(r, "skew", "Skew over steps", skew_help, rank_chart_skew, out);
    html_draw(r, "lanes", "Timeline of three ranks", lanes_help, rank_chart_lanes, out);
    html_rank_tables(r, out);
    html_page_end(r->version, out);
}

/* ---- Markdown and terminal */
static void md_table(const char *heading, const char *lede, struct table *t, struct strbuf *out) {
    strbuf_addf(out, "\n## %s\n\n", heading);
    if (lede) strbuf_addf(out, "%s\n\n", lede);
    table_markdown(t, out);
    table_free(t);
}

static void md_findings(const struct rank_report *r, struct strbuf *out) {
    strbuf_addstr(out, "\n## Findings\n\nSavings are upper bounds for the job, per step.\n\n");
    if (!r->findings->n) strbuf_addstr(out, "No finding: no loss above 5% of a step was recognised.\n");
    for (size_t i = 0; i < r->findings->n; i++) {
        const struct rank_finding *f = &r->findings->v[i];
        strbuf_addf(out, "%zu. **%s per step (%s)**: ", i + 1, text_ms(f->saving_ms).s,
                    text_percent(f->saving_percent / 100).s);
        text_markdown(out, f->title);
        strbuf_addstr(out, ". ");
        text_markdown(out, f->evidence);
        strbuf_addf(out, ". To do: %s. (`%s`, confidence %s)\n", f->advice, f->rule,
                    analysis_confidence_name(f->confidence));
    }
}

/* The heat map as numbers. Omitted for more than RANK_ROWS_MAX ranks. */
static void md_heat(const struct rank_report *r, struct strbuf *out) {
    const struct rank_job *job = r->job;
    struct table t;
    if (job->nranks > RANK_ROWS_MAX) return;
    table_init(&t);
    table_column(&t, "rank", TABLE_RIGHT);
    for (size_t s = 0; s < job->nstages; s++)
        if (!isnan(rank_step_ns(job, s))) table_column(&t, job->stages[s].name, TABLE_RIGHT);
    for (size_t i = 0; i < job->nranks; i++) {
        table_cell(&t, "%u", job->ranks[i].rank);
        for (size_t s = 0; s < job->nstages; s++) {
            const struct rank_cell *c = rank_job_cell(job, i, s);
            if (isnan(rank_step_ns(job, s))) continue;
            table_cell(&t, "%s / %s / %s / %s",
                       text_ms_number(rank_cell_each(c, c->time.compute_ns) * 1e-6).s,
                       text_ms_number(rank_cell_each(c, c->time.wait_ns) * 1e-6).s,
                       text_ms_number(rank_cell_each(c, c->time.move_ns) * 1e-6).s,
                       text_ms_number(rank_cell_each(c, c->time.idle_ns) * 1e-6).s);
        }
    }
    md_table("Ranks and stages", "Compute / waiting / moving / idle, in ms per step.", &t, out);
}

/* At most 16 rows per stage. */
static void md_skew(const struct rank_report *r, struct strbuf *out) {
    const struct rank_job *job = r->job;
    struct table t;
    for (size_t k = 0; k < job->nsteps; k++) {
        const struct rank_steps *s = &job->steps[k];
        size_t every = (s->nrows + 15) / 16;
        table_init(&t);
        table_column(&t, "step", TABLE_RIGHT);
        table_column(&t, "slowest ms", TABLE_RIGHT);
        table_column(&t, "median ms", TABLE_RIGHT);
        table_column(&t, "fastest ms", TABLE_RIGHT);
        for (size_t i = 0; i < s->nrows; i += MAX(1, every)) {
            struct stats st = rank_step_stats(job, s, i);
            table_cell(&t, "%zu", i * s->steps_per_row);
            table_cell(&t, "%s", text_ms_number(st.max * 1e-6).s);
            table_cell(&t, "%s", text_ms_number(st.median * 1e-6).s);
            table_cell(&t, "%s", text_ms_number(st.min * 1e-6).s);
        }
        strbuf_addf(out, "\n## Skew over steps of %s\n\nCompute time per step.\n\n",
                    job->stages[s->stage].name);
        table_markdown(&t, out);
        table_free(&t);
    }
}

static void rank_markdown(const struct rank_report *r, struct strbuf *out) {
    struct table t;
    strbuf_addstr(out, "# ");
    text_markdown(out, r->title ? r->title : "Ranks");
    strbuf_addstr(out, "\n\n");
    rank_facts(r, out, "- ", "\n");
    struct strlist caveats = { 0 };
    rank_caveats(r, &caveats);
    strbuf_addstr(out, caveats.n ? "\n## Caveats\n\n" : "\n## Caveats\n\nNone.\n");
    for (size_t i = 0; i < caveats.n; i++) {
        strbuf_addstr(out, "- ");
        text_markdown(out, caveats.v[i]);
        strbuf_addch(out, '\n');
    }
    strlist_free(&caveats);
    md_findings(r, out);
    rank_table_stages(r, &t);
    md_table("Stages", shares_help, &t, out);
    md_heat(r, out);
    md_skew(r, out);
    rank_lanes_markdown(r, out);
    rank_table_nodes(r, &t);
    md_table("Nodes", NULL, &t, out);
    size_t left = rank_table_ranks(r, &t);
    md_table("Ranks", "Late: mean arrival at collectives after the first rank.", &t, out);
    if (left) strbuf_addf(out, "\nThe latest %d ranks; ranks.json has the other %zu.\n", RANK_ROWS_MAX, left);
    rank_table_collectives(r, &t);
    md_table("Collectives", NULL, &t, out);
    rank_table_communicators(r, &t);
    md_table("Communicators", NULL, &t, out);
    rank_table_clocks(r, &t);
    md_table("Clocks", NULL, &t, out);
}

void rank_report_terminal(const struct rank_report *r, size_t width, struct strbuf *out) {
    struct table t;
    struct strbuf facts = STRBUF_INIT;
    rank_facts(r, &facts, "", "\n");
    wrap_lines(out, facts.buf, width);
    strbuf_free(&facts);
    for (size_t i = 0; i < MIN(r->job->nwarnings, (size_t)4); i++) {
        strbuf_addstr(out, "caveat: ");
        wrap_text(out, r->job->warnings[i], 8, width, 8);
    }
    strbuf_addch(out, '\n');
    rank_table_stages(r, &t);
    t.text_line_width = width;
    table_text(&t, out);
    table_free(&t);
    strbuf_addch(out, '\n');
    if (!r->findings->n) strbuf_addstr(out, "no finding: no loss above 5% of a step was recognised\n");
    for (size_t i = 0; i < MIN(r->findings->n, (size_t)5); i++) {
        const struct rank_finding *f = &r->findings->v[i];
        strbuf_addf(out, "%zu. %s per step (%s): ", i + 1, text_ms(f->saving_ms).s,
                    text_percent(f->saving_percent / 100).s);
        size_t line = out->len;
        while (line > 0 && out->buf[line - 1] != '\n') line--;
        wrap_text(out, f->title, out->len - line, width, 3);
        strbuf_addstr(out, "   ");
        wrap_text(out, f->evidence, 3, width, 3);
    }
}

/* ---- Files */
int rank_report_write(const char *dir, const struct rank_report *r, struct err *err) {
    static const struct {
        const char *name;
        void (*write)(const struct rank_report *, struct strbuf *);
    } files[] = { { "ranks.html", rank_html }, { "ranks.md", rank_markdown }, { "ranks.json", rank_json } };
    int rc = 0;
    for (size_t i = 0; i < COUNTOF(files) && rc == 0; i++) {
        struct strbuf text = STRBUF_INIT;
        char *path = file_join(dir, files[i].name);
        files[i].write(r, &text);
        rc = file_write_atomic(path, text.buf, text.len, err);
        free(path);
        strbuf_free(&text);
    }
    return rc;
}
