#include "cmd/run_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "base/util.h"
#include "cmd/build_info.h"
#include "cmd/command.h"
#include "report/run.h"
#include "timeline/timeline.h"
#include "trace/reader_files.h"

/* Counts the traces of processes; nvml.ipt (power) does not count. */
static size_t count_traces(const char *dir) {
    struct strlist paths = { 0 };
    size_t n = 0;
    trace_files_add(&paths, dir);
    for (size_t i = 0; i < paths.n; i++) n += strcmp(file_basename(paths.v[i]), "nvml.ipt") != 0;
    strlist_free(&paths);
    return n;
}

static struct report_kv *env_rows(const struct env *e) {
    struct report_kv *rows = xcalloc(e->n + 1, sizeof *rows);
    for (size_t i = 0; i < e->n; i++)
        rows[i] = (struct report_kv){ e->v[i].group, e->v[i].key, e->v[i].value };
    return rows;
}

static int write_out(struct run_report *r, struct report_run *run, struct err *err) {
    struct report_input *in = &run->in;
    struct report_kv *env = env_rows(r->env);
    in->run_id = r->run_id;
    in->title = r->title;
    in->command = r->command;
    in->version = build_version();
    if (r->started_wall_ns) in->started_wall_ns = r->started_wall_ns;
    if (r->env->n) {
        in->env = env;
        in->nenv = r->env->n;
    }
    in->problems = (const char *const *)r->problems.v;
    in->nproblems = r->problems.n;
    int rc = r->write_files ? report_write_all(r->dir, in, err) : 0;
    if (r->print) {
        struct strbuf screen = STRBUF_INIT;
        report_terminal(in, command_width(STDERR_FILENO), &screen);
        fputs(screen.buf, stderr);
        strbuf_free(&screen);
        r->on_screen = MIN(r->problems.n, REPORT_TERMINAL_DOUBTS);
    }
    free(env);
    return rc;
}

int run_report(struct run_report *r, struct err *err) {
    const struct report_run_options options = { .rules = r->rules, .nrules = r->nrules, .fresh = true };
    struct report_run run;
    r->files = count_traces(r->dir);
    if (!r->files) return 0;
    if (report_run_open(&run, &r->dir, 1, &options, err) < 0) return -1;
    r->kernels = run.timeline->kernels.n + run.timeline->copies.n;
    r->ranges = run.timeline->ranges.n;
    r->tokens = run.timeline->tokens.n;
    report_trace_problems(run.timeline, &r->problems);
    int rc = r->kernels || r->ranges ? write_out(r, &run, err) : 0;
    report_run_close(&run);
    return rc;
}
