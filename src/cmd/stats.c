/* `inferprof stats FILE...`: the plain totals of any trace or importable file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyze/trace_stats.h"
#include "base/die.h"
#include "base/file.h"
#include "base/log.h"
#include "base/scratch.h"
#include "base/util.h"
#include "base/vec.h"
#include "cmd/commands.h"
#include "import/import.h"
#include "import/ncu.h"
#include "import/nsys_summary.h"
#include "report/stats_json.h"
#include "trace/reader.h"
#include "trace/reader_files.h"

struct stats_opts {
    bool json;
    uint64_t top;
};

static int add_trace(struct trace_stats *st, const char *trace, const char *name, struct err *err) {
    struct trace_reader *r = trace_reader_open(trace, err);
    if (!r) return -1;
    int rc = trace_stats_read(st, r, name, err);
    trace_reader_close(r);
    return rc;
}

/* Through a trace in a temporary folder: one way to count, whatever the source. */
static int add_foreign(struct trace_stats *st, const char *path, enum import_format f, struct err *err) {
    const char *tmp = getenv("TMPDIR");
    char *dir = xasprintf("%s/inferprof-stats-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(dir)) {
        free(dir);
        return err_set(err, "%s: no temporary folder can be made; set TMPDIR to one that can be written",
                       path);
    }
    char *trace = file_join(dir, "import.ipt");
    int scratch_dir = scratch_add(dir), scratch = scratch_add(trace);
    struct import_options options = { .rank = -1 };
    struct import_result result;
    int rc = import_to_trace(path, f, trace, &options, &result, err);
    if (rc == 0) rc = add_trace(st, trace, path, err);
    unlink(trace);
    rmdir(dir);
    scratch_forget(scratch);
    scratch_forget(scratch_dir);
    free(trace);
    free(dir);
    return rc;
}

static void add_sum(void *ctx, const char *name, size_t len, uint64_t calls, uint64_t total_ns) {
    trace_stats_add_kernel(ctx, name, len, calls, total_ns);
    trace_stats_event(ctx, "kernel", calls);
}

static int add_file(struct trace_stats *st, const char *path, struct err *err) {
    uint64_t bad_rows = 0;
    enum import_format f = import_detect(path, err);
    switch (f) {
    case IMPORT_UNKNOWN: return -1;
    case IMPORT_TRACE: return add_trace(st, path, path, err);
    case IMPORT_NSYS_SUMMARY:
        if (nsys_summary_read(path, add_sum, st, &bad_rows, err) < 0) return -1;
        break;
    case IMPORT_NCU_CSV:
        if (ncu_read_sums(path, add_sum, st, &bad_rows, err) < 0) return -1;
        break;
    default: return add_foreign(st, path, f, err);
    }
    trace_stats_problem(st, "bad_row", bad_rows);
    return 0;
}

static const char *problem_words(const char *name) {
    static const char *const own[][2] = {
        { "no_launch", "device work whose launch is not in the trace" },
        { "duplicate_correlation", "calls that share a correlation id with another" },
        { "overlap_on_stream", "began before the work in front of it on its stream had ended" },
        { "lost_records", "were dropped while recording" },
        { "unfinished_trace", "the writer did not close it" },
    };
    for (size_t i = 0; i < COUNTOF(own); i++)
        if (strcmp(own[i][0], name) == 0) return own[i][1];
    return sink_problem_words(name);
}

static int run(const void *opts, int argc, char **argv) {
    const struct stats_opts *o = opts;
    struct trace_stats st;
    struct err err;
    struct strlist paths = { 0 };
    trace_stats_init(&st);
    int status = EXIT_DONE, used = 0;
    for (int i = 0; i < argc; i++)
        if (!trace_files_add(&paths, argv[i])) status = command_no_traces(argv[i]);
    for (size_t i = 0; i < paths.n; i++) {
        int rc = add_file(&st, paths.v[i], &err);
        if (rc < 0) status = command_fail(&err);
        used += rc == 0;
    }
    strlist_free(&paths);
    if (used) {
        struct strbuf out = STRBUF_INIT;
        trace_stats_finish(&st);
        if (o->json)
            stats_json(&st, &out);
        else
            stats_text(&st, &(struct stats_form){ o->top, command_line_width(), problem_words }, &out);
        fwrite(out.buf, 1, out.len, stdout);
        strbuf_free(&out);
    }
    trace_stats_free(&st);
    return status;
}

static const struct opt options[] = {
    { 'j', "json", OPT_FLAG, offsetof(struct stats_opts, json), NULL, "print JSON, with every row", NULL },
    { 'n', "top", OPT_UINT, offsetof(struct stats_opts, top), "N", "rows of each table for people (15)",
      NULL },
};
static const struct stats_opts defaults = { .top = 15 };

const struct command cmd_stats = {
    .name = "stats",
    .args = "FILE...",
    .summary = "plain totals of a trace or of any file that can be imported",
    .details = "FILE is a trace (.ipt), a run folder, torch.profiler JSON, an Nsight Systems SQLite export "
               "or summary CSV, or "
               "an Nsight Compute CSV. Several files are taken as the ranks of one job.",
    .opts = options,
    .nopts = COUNTOF(options),
    .defaults = &defaults,
    .opts_bytes = sizeof(struct stats_opts),
    .min_args = 1,
    .max_args = -1,
    .complete = COMPLETE_FILES,
    .run = run,
};
