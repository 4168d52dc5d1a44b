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
#include "report/report.h"
#include "run/load.h"
#include "run/trace_facts.h"
#include "timeline/timeline.h"
#include "trace/reader_files.h"
#include "trace/reader_set.h"

/* Traces that inferprof itself writes: start of the file name, and "source" in the trace. */
static const struct {
    const char *name, *source;
} own_traces[] = {
    { "nvml", "nvml" },
    { "counters", "counters" },
    { "run", "run" },
    { "memory", "engine memory" },
};

static bool is_from(struct trace_set *readers, const char *path, const char *source) {
    struct err err;
    struct trace_reader *r = trace_set_take(readers, path, &err);
    const char *found = r ? trace_reader_meta(r, "source") : NULL;
    bool same = found && strcmp(found, source) == 0;
    trace_set_give(readers, r);
    return same;
}

/* Only files with a matching name are opened, because a program's trace can be large. */
static bool is_own_trace(struct trace_set *readers, const char *path) {
    for (size_t i = 0; i < COUNTOF(own_traces); i++)
        if (strncmp(file_basename(path), own_traces[i].name, strlen(own_traces[i].name)) == 0)
            return is_from(readers, path, own_traces[i].source);
    return false;
}

size_t run_report_traces(const char *dir, struct trace_set *readers) {
    struct strlist paths = { 0 };
    size_t n = 0;
    trace_files_add(&paths, dir);
    for (size_t i = 0; i < paths.n; i++) n += !is_own_trace(readers, paths.v[i]);
    strlist_free(&paths);
    return n;
}

static struct run_kv *env_rows(const struct env *e) {
    struct run_kv *rows = xcalloc(e->n + 1, sizeof *rows);
    for (size_t i = 0; i < e->n; i++) rows[i] = (struct run_kv){ e->v[i].group, e->v[i].key, e->v[i].value };
    return rows;
}

/* A job that cannot be joined is reported with a warning, not an error. */
static void load_ranks(struct run_report *r) {
    const struct rank_options options = { .rules = r->rules, .nrules = r->nrules, .keep_kernels = true };
    struct err err;
    if (r->files < 2 || rank_operands_open(&r->job, &r->dir, 1, r->readers, &options, &err) == 0) return;
    strlist_add(&r->warnings, "The ranks cannot be compared: %s", err.msg);
}

static int write_ranks(const struct run_report *r, struct err *err) {
    const struct rank_report_options options = { .title = r->title, .screen = r->print ? stderr : NULL };
    return r->job.ranks > 1 ? rank_report_run(&r->job, r->dir, &options, err) : 0;
}

int run_report_load(struct run_report *r, struct err *err) {
    struct run_options options = { .rules = r->rules, .nrules = r->nrules, .fresh = true };
    if (r->loaded) return 0;
    if (!r->readers) r->readers = trace_set_new();
    options.readers = r->readers;
    r->files = run_report_traces(r->dir, r->readers);
    if (!r->files) return 0;
    load_ranks(r);
    if (r->job.ranks > 1) options.clocks = &r->job.clocks;
    if (run_load(&r->run, &r->dir, 1, &options, err) < 0) return -1;
    const struct timeline *tl = r->run.timeline;
    r->loaded = true;
    r->kernels = tl->kernels.n + tl->copies.n;
    r->ranges = tl->ranges.n;
    r->tokens = tl->tokens.n;
    if (*r->run.no_peaks) run_add_warning(&r->warnings, r->run.no_peaks);
    run_rank_warnings(&r->run, &r->warnings);
    run_trace_warnings(tl, &r->warnings);
    return 0;
}

static void print_screen(struct run_report *r, const struct view *v) {
    struct strbuf screen = STRBUF_INIT;
    r->on_screen = command_screen(v, STDERR_FILENO, &screen);
    fputs(screen.buf, stderr);
    strbuf_free(&screen);
}

int run_report(struct run_report *r, struct err *err) {
    struct run_info *info = &r->run.info;
    struct view v;
    if (run_report_load(r, err) < 0) return -1;
    if (!r->kernels && !r->ranges) return 0;
    struct run_kv *env = env_rows(r->env);
    info->run_id = r->run_id;
    info->title = r->title;
    info->command = r->command;
    info->version = build_version();
    info->has_ranks = r->job.ranks > 1;
    if (r->started_wall_ns) info->started_wall_ns = r->started_wall_ns;
    if (r->env->n) {
        info->env = env;
        info->nenv = r->env->n;
    }
    info->warnings = (const char *const *)r->warnings.v;
    info->nwarnings = r->warnings.n;
    view_init(&v, info);
    int rc = r->write_files ? report_write_all(r->dir, &v, err) : 0;
    if (rc == 0 && r->write_files) rc = write_ranks(r, err);
    if (r->print) print_screen(r, &v);
    view_free(&v);
    free(env);
    return rc;
}

void run_report_close(struct run_report *r) {
    if (r->loaded) run_unload(&r->run);
    rank_operands_close(&r->job);
    trace_set_free(r->readers);
    r->readers = NULL;
    r->loaded = false;
}
