/* inferprof report: writes the files of a report from traces. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "base/log.h"
#include "base/util.h"
#include "cmd/build_info.h"
#include "cmd/commands.h"
#include "cmd/rank_report.h"
#include "cmd/stage_option.h"
#include "llm/model.h"
#include "report/report.h"
#include "run/load.h"
#include "trace/reader_set.h"

struct report_opts {
    const char *output, *model, *link, *net;
    struct opt_list stages;
    double peak_tflops, peak_gbps;
    uint64_t tp, pp, ep, dp;
    bool slim, whole_trace;
};

/* A job with larger traces gets only the report of its ranks. */
#define JOB_BYTES_MAX (1ull << 30)

static char *output_folder(const char *run_dir, const struct report_opts *o, const char *operand) {
    if (o->output) return xstrdup(o->output);
    if (run_dir) return xstrdup(run_dir);
    return xasprintf("%.*s-report", (int)file_stem_bytes(operand, ".ipt"), operand);
}

static int write_and_print(struct loaded_run *r, const struct report_opts *o, const char *operand,
                           struct err *err) {
    struct strbuf screen = STRBUF_INIT;
    struct view v;
    char *dir = output_folder(r->dir, o, operand);
    r->info.version = build_version();
    r->info.slim = o->slim;
    view_init(&v, &r->info);
    int rc = file_mkdirs(dir, err);
    if (rc == 0) rc = report_write_all(dir, &v, err);
    if (rc < 0 && !o->output) command_hint(err, "use --output DIR to write the files elsewhere");
    if (rc == 0) {
        command_screen(&v, STDOUT_FILENO, &screen);
        fputs(screen.buf, stdout);
        char *page = file_join(dir, "report.html");
        log_info("wrote %s, report.md, metrics.json and the tables", page);
        free(page);
    }
    view_free(&v);
    strbuf_free(&screen);
    free(dir);
    return rc;
}

/* Writes the report of the ranks if the operands are a job. *done: nothing else is reported. */
static int report_ranks(const struct report_opts *o, const struct rank_operands *job,
                        const struct llm_model *model, const char *operand, bool *done, struct err *err) {
    if (job->ranks < 2)
        return o->link || o->net ? err_set(err, "--link and --net need the traces of several ranks") : 0;
    char *dir = output_folder(file_is_dir(operand) ? operand : NULL, o, operand);
    struct rank_report_options options = {
        .model = model,
        .tp = o->tp,
        .pp = o->pp,
        .ep = o->ep,
        .dp = o->dp,
        .link = o->link,
        .net = o->net,
        .peak_flops_per_s = o->peak_tflops * 1e12,
        .peak_bytes_per_s = o->peak_gbps * 1e9,
        .title = file_basename(dir),
        .screen = stdout,
    };
    int rc = rank_report_run(job, dir, &options, err);
    *done = job->digests || job->bytes > JOB_BYTES_MAX;
    if (rc == 0 && *done && !job->digests)
        log_info(
            "the traces have %.1f GB: no report.html of all ranks together; report one rank with its file",
            (double)job->bytes * 1e-9);
    free(dir);
    return rc;
}

static int run(const void *opts, int argc, char **argv) {
    const struct report_opts *o = opts;
    struct stage_option rules = { 0 };
    struct loaded_run r;
    struct err err;
    if (stage_option_parse(&o->stages, &rules, &err) < 0) {
        stage_option_free(&rules);
        return command_usage("report: %s", err.msg);
    }
    struct llm_model *model = o->model ? llm_model_load(o->model, &(struct llm_load){ 0 }, &err) : NULL;
    struct run_options options = { .rules = rules.v,
                                   .nrules = rules.n,
                                   .model = model,
                                   .tp = o->tp,
                                   .pp = o->pp,
                                   .ep = o->ep,
                                   .dp = o->dp,
                                   .whole_trace = o->whole_trace,
                                   .peak_flops_per_s = o->peak_tflops * 1e12,
                                   .peak_bytes_per_s = o->peak_gbps * 1e9 };
    const struct rank_options ranks = {
        .rules = rules.v, .nrules = rules.n, .no_steps = o->whole_trace, .keep_kernels = true
    };
    struct rank_operands job = { 0 };
    struct trace_set *readers = trace_set_new();
    bool done = false;
    int rc = o->model && !model ? -1 : 0;
    if (rc == 0)
        rc = rank_operands_open(&job, (const char *const *)argv, (size_t)argc, readers, &ranks, &err);
    if (rc == 0) rc = report_ranks(o, &job, model, argv[0], &done, &err);
    options.readers = readers;
    if (job.ranks > 1) options.clocks = &job.clocks;
    if (rc == 0 && !done) rc = run_load(&r, (const char *const *)argv, (size_t)argc, &options, &err);
    if (rc == 0 && !done) {
        if (model && !r.timeline)
            rc = err_set(&err, "--model: the run has no trace to compare the model with");
        if (rc == 0 && r.analysis.no_model_costs)
            log_warn("%s%s; no MFU, MBU or roofline time", model ? "--model: " : "",
                     r.analysis.no_model_costs);
        r.info.has_ranks = job.ranks > 1;
        if (rc == 0) rc = write_and_print(&r, o, argv[0], &err);
        run_unload(&r);
    }
    rank_operands_close(&job);
    trace_set_free(readers);
    llm_model_free(model);
    stage_option_free(&rules);
    return rc < 0 ? command_fail(&err) : EXIT_DONE;
}

static const struct opt options[] = {
    { 'o', "output", OPT_STR, offsetof(struct report_opts, output), "DIR",
      "folder for the files (default: the run folder)", NULL },
    { 'm', "model", OPT_STR, offsetof(struct report_opts, model), "PATH",
      "folder or config.json of the model: adds MFU, MBU, roofline time and distance", NULL },
    { 0, "tp", OPT_UINT, offsetof(struct report_opts, tp), "N",
      "tensor parallel: number of GPUs that divide each layer; costs are those of a GPU's part", "1..65536" },
    { 0, "pp", OPT_UINT, offsetof(struct report_opts, pp), "N",
      "pipeline parallel: number of stages with different layers", "1..4096" },
    { 0, "ep", OPT_UINT, offsetof(struct report_opts, ep), "N",
      "expert parallel: number of GPUs with different experts (default: each has a part of all)",
      "1..65536" },
    { 0, "dp", OPT_UINT, offsetof(struct report_opts, dp), "N",
      "data parallel: number of replicas (default: all remaining GPUs)", "1..65536" },
    { 0, "link", OPT_STR, offsetof(struct report_opts, link), "NAME|GB/s",
      "link between GPUs of a node, for jobs of several ranks (default: the GPU's)", NULL },
    { 0, "net", OPT_STR, offsetof(struct report_opts, net), "NAME|GB/s",
      "link between nodes, per GPU and direction", NULL },
    { 's', "stage", OPT_LIST, offsetof(struct report_opts, stages), "NAME=GLOB",
      "ranges with matching names belong to this stage; may be repeated", NULL },
    { 0, "peak-tflops", OPT_DOUBLE, offsetof(struct report_opts, peak_tflops), "T",
      "compute peak of the device, instead of the built-in table", ">0" },
    { 0, "peak-gbps", OPT_DOUBLE, offsetof(struct report_opts, peak_gbps), "G",
      "memory bandwidth of the device, instead of the built-in table", ">0" },
    { 0, "whole-trace", OPT_FLAG, offsetof(struct report_opts, whole_trace), NULL,
      "treat a trace without stages as one stage instead of looking for steps", NULL },
    { 0, "slim", OPT_FLAG, offsetof(struct report_opts, slim), NULL,
      "a smaller page: a short timeline, no embedded CSV files", NULL },
};

const struct command cmd_report = {
    .name = "report",
    .args = "RUN_DIR|FILE.ipt...",
    .summary = "report where the time of a trace went, compare it with the roofline, and list what to change",
    .details = "Writes report.html, report.md, stakeholder_summary.md, metrics.json, findings.json, the "
               "tables as CSV and\n"
               "Markdown, and charts/. A job of several ranks also gets ranks.html, ranks.md and ranks.json.",
    .opts = options,
    .nopts = COUNTOF(options),
    .opts_bytes = sizeof(struct report_opts),
    .min_args = 1,
    .max_args = -1,
    .complete = COMPLETE_FILES,
    .run = run,
};
