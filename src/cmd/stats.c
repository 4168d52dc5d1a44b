/* `inferprof stats FILE...`: plain totals of any trace or importable file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyze/analyze.h"
#include "analyze/totals.h"
#include "base/die.h"
#include "base/file.h"
#include "base/scratch.h"
#include "base/strlist.h"
#include "base/util.h"
#include "base/vec.h"
#include "cmd/commands.h"
#include "cmd/rank_report.h"
#include "import/import.h"
#include "import/ncu.h"
#include "import/nsys_summary.h"
#include "report/stats.h"
#include "timeline/timeline.h"
#include "trace/reader.h"
#include "trace/reader_files.h"
#include "trace/reader_set.h"

struct stats_opts {
    bool json;
    uint64_t top;
};

/* The contents of the operands. */
struct stats_sources {
    struct strlist traces; /* including temporary traces of imports */
    struct strlist named;  /* [traces.n] original file names */
    struct sums sums;      /* sums of tables without times */
    bool any_sums;
    char *temporary_dir; /* NULL: none was needed */
    struct {
        int *v; /* scratch.h slots */
        size_t n, cap;
    } scratch;
};

static void sources_init(struct stats_sources *s) {
    *s = (struct stats_sources){ 0 };
    sums_init(&s->sums);
}

static void sources_free(struct stats_sources *s) {
    strlist_free(&s->traces);
    strlist_free(&s->named);
    sums_free(&s->sums);
}

static void add_trace(struct stats_sources *s, const char *trace, const char *named) {
    strlist_add(&s->traces, "%s", trace);
    strlist_add(&s->named, "%s", named);
}

static int make_temporary_dir(struct stats_sources *s, const char *path, struct err *err) {
    if (s->temporary_dir) return 0;
    int slot;
    if (file_make_temporary_dir("inferprof-stats", &s->temporary_dir, &slot) < 0)
        return err_set(err, "%s: cannot create a temporary folder; set TMPDIR to a writable one", path);
    vec_push(&s->scratch, slot);
    return 0;
}

static int add_foreign(struct stats_sources *s, const char *path, const struct import_format *f,
                       struct err *err) {
    if (make_temporary_dir(s, path, err) < 0) return -1;
    char *trace = xasprintf("%s/%zu.ipt", s->temporary_dir, s->traces.n);
    struct import_options options = { .rank = -1 };
    struct import_result result;
    vec_push(&s->scratch, scratch_add(trace));
    int rc = import_to_trace(path, f, trace, &options, &result, err);
    if (rc == 0) add_trace(s, trace, path);
    free(trace);
    return rc;
}

static void remove_temporary(struct stats_sources *s) {
    if (!s->temporary_dir) return;
    size_t dir_bytes = strlen(s->temporary_dir);
    for (size_t i = 0; i < s->traces.n; i++)
        if (strncmp(s->traces.v[i], s->temporary_dir, dir_bytes) == 0) unlink(s->traces.v[i]);
    rmdir(s->temporary_dir);
    for (size_t i = 0; i < s->scratch.n; i++) scratch_forget(s->scratch.v[i]);
    free(s->scratch.v);
    free(s->temporary_dir);
    s->temporary_dir = NULL;
}

static int add_file(struct stats_sources *s, const char *path, struct err *err) {
    uint64_t bad_rows = 0;
    const struct import_format *f = import_detect(path, err);
    if (!f) return -1;
    if (f == &import_trace_format) {
        add_trace(s, path, path);
        return 0;
    }
    if (f->read) return add_foreign(s, path, f, err);
    if (f->read_sums(path, sums_add_row, &s->sums, &bad_rows, err) < 0) return -1;
    sums_add_problem(&s->sums, "bad_row", bad_rows);
    s->any_sums = true;
    return 0;
}

static const char *explain_problem(const char *name) {
    static const char *const own[][2] = {
        { "no_launch", "kernels and copies whose launch is not in the trace" },
        { "duplicate_correlation", "calls with the correlation id of an earlier call" },
        { "overlap_on_stream",
          "kernels and copies that start before the previous one on their stream ended" },
        { "lost_records", "records dropped while recording" },
        { "damaged_places", "unreadable parts of a trace, skipped" },
        { "damaged_chunks", "chunks of a trace that cannot be decoded, skipped" },
        { "end_before_start", "records that end before they start, ignored" },
        { "unfinished_trace", "traces that their writer did not close" },
    };
    for (size_t i = 0; i < COUNTOF(own); i++)
        if (strcmp(own[i][0], name) == 0) return own[i][1];
    return sink_problem_words(name);
}

/* [nprocesses] file names */
static const char **named_files(const struct stats_sources *s, const struct timeline *tl) {
    const char **files = xcalloc(tl->nprocesses + 1, sizeof *files);
    for (size_t p = 0; p < tl->nprocesses; p++) {
        const char *path = timeline_text(tl, tl->processes[p].path);
        files[p] = path;
        for (size_t i = 0; i < s->traces.n; i++)
            if (strcmp(s->traces.v[i], path) == 0) files[p] = s->named.v[i];
    }
    return files;
}

static bool holds_file(const struct timeline *tl, const char *path) {
    for (size_t i = 0; tl && i < tl->nprocesses; i++)
        if (strcmp(timeline_text(tl, tl->processes[i].path), path) == 0) return true;
    return false;
}

/* Prints an error for each unreadable trace. NULL: all are unreadable. */
static struct timeline *load_traces(struct stats_sources *s, struct trace_set *readers, int *status) {
    struct err err;
    struct timeline_options how = { .traces = readers };
    struct timeline *tl = timeline_load_with((const char *const *)s->traces.v, s->traces.n, &how, &err);
    for (size_t i = 0; i < s->traces.n; i++) {
        if (holds_file(tl, s->traces.v[i])) continue;
        /* for the error message */
        struct trace_reader *r = trace_reader_open(s->traces.v[i], &err);
        if (!r) *status = command_fail(&err);
        trace_reader_close(r);
    }
    return tl;
}

static void print_stats(const struct stats_opts *o, struct stats_sources *s, const struct timeline *tl,
                        const struct rank_job *job) {
    struct strbuf out = STRBUF_INIT;
    struct analysis a = { 0 };
    const struct analyze_input input = { .totals = true, .no_steps = true };
    struct stats_view v = { .sums = &s->sums,
                            .top = o->top,
                            .line_width = command_line_width(),
                            .explain = explain_problem,
                            .job = job };
    const char **files = NULL;
    if (tl) {
        analyze_run(tl, &input, &a);
        sums_add_all(&s->sums, &a.totals->sums);
        v.totals = a.totals;
        v.unrecorded = &a.unrecorded;
        v.no_stages = a.nstages && a.stages[0].implicit;
        v.files = files = named_files(s, tl);
    }
    sums_sort(&s->sums);
    if (o->json)
        stats_json(&v, &out);
    else
        stats_text(&v, &out);
    fwrite(out.buf, 1, out.len, stdout);
    strbuf_free(&out);
    free(files);
    analysis_free(&a);
}

static int run(const void *opts, int argc, char **argv) {
    struct stats_sources s;
    struct err err;
    struct strlist paths = { 0 };
    int status = EXIT_DONE;
    sources_init(&s);
    for (int i = 0; i < argc; i++)
        if (!trace_files_add(&paths, argv[i])) status = command_no_traces(argv[i]);
    for (size_t i = 0; i < paths.n; i++)
        if (add_file(&s, paths.v[i], &err) < 0) status = command_fail(&err);
    struct trace_set *readers = trace_set_new();
    struct rank_operands job = { 0 };
    struct timeline *tl = s.traces.n ? load_traces(&s, readers, &status) : NULL;
    /* Files that are not ranks of one job, or cannot be compared, have no delays. */
    if (s.traces.n > 1)
        rank_operands_open(&job, (const char *const *)s.traces.v, s.traces.n, readers, NULL, &err);
    remove_temporary(&s);
    if (tl || s.any_sums) print_stats(opts, &s, tl, job.ranks > 1 ? &job.job : NULL);
    rank_operands_close(&job);
    trace_set_free(readers);
    timeline_close(tl);
    sources_free(&s);
    strlist_free(&paths);
    return status;
}

static const struct opt options[] = {
    { 'j', "json", OPT_FLAG, offsetof(struct stats_opts, json), NULL, "print JSON, with every row", NULL },
    { 'n', "top", OPT_UINT, offsetof(struct stats_opts, top), "N",
      "maximum rows per table, without --json (15)", NULL },
};
static const struct stats_opts defaults = { .top = 15 };

const struct command cmd_stats = {
    .name = "stats",
    .args = "FILE...",
    .summary = "print plain totals of a trace or of any file that can be imported",
    .details = "FILE is a trace (.ipt), a run folder, torch.profiler JSON, an Nsight Systems SQLite export "
               "or summary CSV, or an Nsight Compute CSV. Several files are treated as the ranks of one job.",
    .opts = options,
    .nopts = COUNTOF(options),
    .defaults = &defaults,
    .opts_bytes = sizeof(struct stats_opts),
    .min_args = 1,
    .max_args = -1,
    .complete = COMPLETE_FILES,
    .run = run,
};
