#include "cmd/rank_report.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "cmd/build_info.h"
#include "cmd/command.h"
#include "ranks/trace_clock.h"
#include "report/ranks.h"

/* ---- Clocks of the traces */
static void *open_clock(const void *arg, const char *path) {
    const struct rank_operands *o = arg;
    for (size_t i = 0; i < o->inputs.n; i++)
        for (size_t k = 0; k < o->inputs.v[i].traces.n; k++) {
            if (strcmp(o->inputs.v[i].traces.v[k], path) != 0) continue;
            const struct rank_row *r = rank_job_find(&o->job, o->inputs.v[i].rank);
            if (!r || r->clock >= o->job.nclocks) return NULL;
            const struct rank_clock *c = &o->job.clocks[r->clock];
            return trace_clock_open(&(struct trace_clock_rank){ c->steps, c->nsteps, c }, path);
        }
    return NULL;
}

/* ---- Operands */
static void measure(struct rank_operands *o) {
    struct stat st;
    for (size_t i = 0; i < o->inputs.n; i++) {
        const struct strlist *traces = &o->inputs.v[i].traces;
        o->digests |= !traces->n;
        for (size_t k = 0; k < traces->n; k++)
            if (stat(traces->v[k], &st) == 0) o->bytes += (unsigned long long)st.st_size;
    }
}

int rank_operands_open(struct rank_operands *o, const char *const *operands, size_t n,
                       struct trace_set *readers, const struct rank_options *options, struct err *err) {
    struct err why;
    *o = (struct rank_operands){ .readers = readers };
    struct rank_filter filter = { .threads = options ? options->threads : 0, .readers = readers };
    /* Not an error: the operands are not one job with traces. The caller handles that. */
    if (rank_inputs_find(&o->inputs, operands, n, &filter, &why) < 0) {
        if (o->inputs.twice) log_warn("%s: no figures per rank", why.msg);
        return 0;
    }
    o->ranks = o->inputs.n;
    if (o->ranks < 2) return 0;
    measure(o);
    if (rank_job_load_inputs(&o->job, &o->inputs, options, err) < 0) {
        rank_inputs_free(&o->inputs);
        o->ranks = 0;
        return -1;
    }
    o->clocks =
        (struct timeline_clocks){ o, open_clock, trace_clock_convert, trace_clock_time, trace_clock_close };
    return 0;
}

void rank_operands_close(struct rank_operands *o) {
    if (o->ranks > 1) rank_job_free(&o->job);
    if (o->ranks) rank_inputs_free(&o->inputs);
    *o = (struct rank_operands){ 0 };
}

/* ---- Report */
static int write_report(const struct rank_operands *ranks, const char *dir,
                        const struct rank_report_options *o, const struct rank_layout *layout,
                        const struct rank_links *links, struct err *err) {
    const struct rank_job *job = &ranks->job;
    struct rank_peaks peaks = { o->peak_flops_per_s, o->peak_bytes_per_s };
    struct rank_costs costs;
    struct rank_findings findings;
    struct rank_lanes lanes;
    struct strbuf screen = STRBUF_INIT;
    rank_costs_find(job, layout, o->model, &peaks, &costs);
    rank_findings_find(job, layout, links, &findings);
    rank_lanes_load(job, ranks->readers, &lanes);
    struct rank_report r = { .job = job,
                             .layout = layout,
                             .costs = &costs,
                             .findings = &findings,
                             .links = links,
                             .lanes = &lanes,
                             .title = o->title,
                             .model = o->model ? o->model->name : NULL,
                             .version = build_version() };
    int rc = file_mkdirs(dir, err);
    if (rc == 0) rc = rank_report_write(dir, &r, err);
    if (rc == 0) {
        if (o->screen) rank_report_terminal(&r, command_line_width(), &screen);
        if (o->screen) fputs(screen.buf, o->screen);
        log_info("wrote %s/ranks.html, ranks.md and ranks.json", dir);
    }
    strbuf_free(&screen);
    rank_lanes_free(&lanes);
    rank_findings_free(&findings);
    rank_costs_free(&costs);
    return rc;
}

int rank_report_run(const struct rank_operands *ranks, const char *dir, const struct rank_report_options *o,
                    struct err *err) {
    struct rank_given given = { o->tp, o->pp, o->ep, o->dp };
    struct llm_link custom[2];
    struct rank_links links = { 0 };
    struct rank_layout layout;
    if (o->link && !(links.link = llm_link_find(o->link, &custom[0], err))) return err_wrap(err, "--link");
    if (o->net && !(links.net = llm_link_find(o->net, &custom[1], err))) return err_wrap(err, "--net");
    if (rank_layout_find(&ranks->job, &given, &layout, err) < 0) return -1;
    int rc = write_report(ranks, dir, o, &layout, &links, err);
    rank_layout_free(&layout);
    return rc;
}
