/* inferprof export: writes traces in formats of other tools. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "base/log.h"
#include "base/scratch.h"
#include "base/text.h"
#include "base/util.h"
#include "cmd/commands.h"
#include "cmd/rank_report.h"
#include "report/export.h"
#include "run/load.h"
#include "trace/reader_set.h"

struct export_opts {
    const char *format, *output, *window;
};

static char *default_output(const struct loaded_run *r, const char *format, const char *operand) {
    static const char *const endings[][2] = { { "perfetto", "perfetto-trace" },
                                              { "chrome", "chrome.json" },
                                              { "csv", "csv" },
                                              { "speedscope", "speedscope.json" },
                                              { "collapsed", "collapsed.txt" },
                                              { "pprof", "pprof.pb" },
                                              { "sqlite", "sqlite" } };
    const char *ending = format;
    for (size_t i = 0; i < COUNTOF(endings); i++)
        if (strcmp(endings[i][0], format) == 0) ending = endings[i][1];
    if (r->dir) return xasprintf("%s/%s.%s", r->dir, "trace", ending);
    return xasprintf("%.*s.%s", (int)file_stem_bytes(operand, ".ipt"), operand, ending);
}

static int copy_to_stdout(const char *path, struct err *err) {
    char buf[1 << 16];
    size_t n;
    FILE *f = fopen(path, "rbe");
    if (!f) return err_set(err, "%s: %s", path, strerror(errno));
    while ((n = fread(buf, 1, sizeof buf, f)) > 0 && fwrite(buf, 1, n, stdout) == n) {}
    fclose(f);
    return 0; /* close_stdout() reports errors */
}

/* export_write() needs a file, which is copied to stdout. */
static int export_to_stdout(struct export_job *x, const char *format, struct err *err) {
    char *dir;
    int scratch, file_scratch;
    if (file_make_temporary_dir("inferprof-export", &dir, &scratch) < 0)
        return err_set(err, "cannot create a temporary folder; set TMPDIR to a writable one");
    char *path = file_join(dir, "export");
    file_scratch = scratch_add(path);
    int rc = export_write(x, format, path, err);
    if (rc == 0) rc = copy_to_stdout(path, err);
    unlink(path);
    rmdir(dir);
    scratch_forget(file_scratch);
    scratch_forget(scratch);
    free(path);
    free(dir);
    return rc;
}

static int export_to_file(struct export_job *x, const char *format, const char *path, struct err *err) {
    if (export_write(x, format, path, err) < 0) return -1;
    printf("%s\n", path);
    return 0;
}

static bool is_stdout(const char *output) { return output && strcmp(output, "-") == 0; }

static int export_run(struct loaded_run *r, struct trace_set *readers, const struct export_opts *o,
                      const char *operand, struct err *err) {
    if (!r->timeline) return err_set(err, "%s: this run has no traces to export", operand);
    struct export_job x;
    char *path = o->output ? xstrdup(o->output) : default_output(r, o->format, operand);
    export_open(&x, r->timeline, &r->analysis);
    x.readers = readers;
    int rc = o->window ? export_window(&x, o->window, err) : 0;
    if (rc == 0)
        rc = is_stdout(o->output) ? export_to_stdout(&x, o->format, err)
                                  : export_to_file(&x, o->format, path, err);
    if (rc < 0 && !o->output) command_hint(err, "use --output FILE to write it elsewhere");
    if (rc == 0) log_info("%s records", text_count(x.written).s);
    if (rc == 0 && x.omitted)
        log_warn(
            "%s slices are missing from the file: more than 1,024 others of their thread or stream overlap "
            "them; --format csv has all",
            text_count(x.omitted).s);
    export_close(&x);
    free(path);
    return rc;
}

static int run(const void *opts, int argc, char **argv) {
    const struct export_opts *o = opts;
    struct loaded_run r;
    struct export_stretch stretch;
    struct err err;
    if (o->window && export_window_parse(o->window, &stretch, &err) < 0)
        return command_usage("export: %s", err.msg);
    if (is_stdout(o->output) && strcmp(o->format, "csv") == 0)
        return command_usage("export: csv is a folder of files; --output - is for the other formats");
    if (o->window && export_is_stacks(o->format))
        return command_usage(
            "export: --window cannot be used with --format %s, which adds up the whole trace", o->format);
    struct trace_set *readers = trace_set_new();
    struct run_options all = { .whole = true, .readers = readers };
    struct rank_operands job;
    int rc = rank_operands_open(&job, (const char *const *)argv, (size_t)argc, readers, NULL, &err);
    if (job.ranks > 1) all.clocks = &job.clocks;
    if (rc == 0) rc = run_load(&r, (const char *const *)argv, (size_t)argc, &all, &err);
    if (rc == 0) {
        rc = export_run(&r, readers, o, argv[0], &err);
        run_unload(&r);
    }
    rank_operands_close(&job);
    trace_set_free(readers);
    return rc < 0 ? command_fail(&err) : EXIT_DONE;
}

static const struct opt options[] = {
    { 'f', "format", OPT_CHOICE, offsetof(struct export_opts, format), "FORMAT",
      "output format (default: perfetto)", EXPORT_FORMATS },
    { 'o', "output", OPT_STR, offsetof(struct export_opts, output), "FILE",
      "output file, - for stdout; for csv a folder", NULL },
    { 'w', "window", OPT_STR, offsetof(struct export_opts, window), "STAGE[:FROM..TO]",
      "only this part: occurrences (2..5) or times (10ms..25ms) of a stage", NULL },
};

static const struct export_opts defaults = { .format = "perfetto" };

const struct command cmd_export = {
    .name = "export",
    .args = "RUN_DIR|FILE.ipt...",
    .summary = "write a trace in formats of other tools: Perfetto, Chrome JSON, CSV, SQLite like Nsight "
               "Systems, flame graphs",
    .details =
        "perfetto opens in ui.perfetto.dev; chrome in chrome://tracing and all tools that read "
        "PyTorch's traces; sqlite has\n"
        "the tables and columns of an Nsight Systems export. speedscope, collapsed and pprof add up call "
        "paths (ranges, Python\n"
        "frames, kernels) for flame graphs. Prints the path of the written file.",
    .opts = options,
    .nopts = COUNTOF(options),
    .defaults = &defaults,
    .opts_bytes = sizeof(struct export_opts),
    .min_args = 1,
    .max_args = -1,
    .complete = COMPLETE_FILES,
    .run = run,
};
