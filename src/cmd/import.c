/* `inferprof import FILE...`: converts recordings of other tools to traces in a run folder. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyze/sums.h"
#include "base/clock.h"
#include "base/die.h"
#include "base/file.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/scratch.h"
#include "base/strlist.h"
#include "base/units.h"
#include "base/util.h"
#include "base/vec.h"
#include "cmd/build_info.h"
#include "cmd/commands.h"
#include "cmd/run_report.h"
#include "import/import.h"
#include "import/ncu.h"
#include "import/nsys_summary.h"
#include "report/report.h"
#include "report/rows.h"
#include "report/stats.h"
#include "run/load.h"
#include "session/run_dir.h"
#include "trace/reader_files.h"

#define TABLE_ROWS 25

struct import_opts {
    const char *out, *into;
    uint64_t top;
    bool json, report;
};

struct input {
    const char *path;
    const struct import_format *format; /* NULL: see err */
    struct err err;
};

struct session {
    const struct import_opts *o;
    uint64_t top;
    char *dir; /* run folder; NULL: none yet */
    bool made_dir;
    struct ncu ncu;
    struct sums sums; /* totals of Nsight Systems summaries */
    size_t ncu_files, summaries, timelines;
    struct strlist warnings; /* for the report */
    struct strlist failures; /* messages that were printed; an input may be given twice */
    char *sources;           /* inputs, for the title */
    struct strbuf command;   /* repeats the import */
};

/* File name without leading dots, up to its first dot: ".trace.json.gz" gives "trace". "import" if nothing is
 * left. */
static void stem_of(const char *path, char *stem, size_t cap) {
    const char *name = file_basename(path);
    name += strspn(name, ".");
    snprintf(stem, cap, "%s", *name ? name : "import");
    stem[strcspn(stem, ".")] = 0;
}

static char *run_name(const char *path) {
    char stamp[32], stem[64];
    stem_of(path, stem, sizeof stem);
    return xasprintf(RUN_DIR_ROOT "/%s-%s",
                     clock_format(clock_wall_ns(), "%Y%m%d-%H%M%S", 0, stamp, sizeof stamp), stem);
}

/* Traces of two imports in one folder would be read as ranks of one job. */
static bool holds_traces(const char *dir) {
    struct strlist found = { 0 };
    bool any = file_is_dir(dir) && trace_files_add(&found, dir);
    strlist_free(&found);
    return any;
}

static int make_folder(struct session *s, const char *path, struct err *err) {
    if (s->dir) return 0;
    char *dir = s->o->out ? xstrdup(s->o->out) : run_name(path), *traces = file_join(dir, "trace");
    s->made_dir = !file_exists(dir);
    int rc = holds_traces(traces) ? err_set(err, "%s: already contains traces; give another folder", dir)
                                  : file_mkdirs(traces, err);
    if (rc == 0)
        s->dir = dir;
    else
        free(dir);
    free(traces);
    return rc;
}

/* trace/<stem>.ipt, numbered if it exists */
static char *trace_path(const struct session *s, const char *path) {
    char stem[128];
    stem_of(path, stem, sizeof stem);
    for (int i = 0;; i++) {
        char *name =
            i ? xasprintf("%s/trace/%s-%d.ipt", s->dir, stem, i) : xasprintf("%s/trace/%s.ipt", s->dir, stem);
        if (!file_exists(name)) return name;
        free(name);
    }
}

/* Problems of the whole file are not counted. */
static bool is_of_file(unsigned problem) {
    return problem == SINK_PROBLEM_TRUNCATED || problem == SINK_PROBLEM_DAMAGED;
}

static uint64_t count_events(const struct import_result *r) {
    uint64_t n = 0;
    for (unsigned i = 0; i < SINK_EVENT_END; i++) n += r->events[i];
    return n;
}

/* Fails if the file has no events and is damaged. */
static int check_content(const char *path, const struct import_result *r, struct err *err) {
    if (count_events(r)) return 0;
    for (unsigned i = 0; i < SINK_PROBLEM_END; i++)
        if (is_of_file(i) && r->problems[i])
            return err_set(err, "%s: no event can be read: %s", path,
                           sink_problem_words(sink_problem_name(i)));
    return 0;
}

static void log_problems(struct session *s, const char *path, const struct import_result *r) {
    for (unsigned i = 0; i < SINK_PROBLEM_END; i++) {
        char count[32] = "";
        if (!r->problems[i]) continue;
        if (!is_of_file(i)) units_grouped(r->problems[i], count, sizeof count);
        char *line = xasprintf("%s: %s%s%s", file_basename(path), count, *count ? " " : "",
                               sink_problem_words(sink_problem_name(i)));
        if (!strlist_has(&s->warnings, line)) {
            log_warn("%s", line);
            strlist_add(&s->warnings, "%s", line);
        }
        free(line);
    }
}

static void log_imported(const char *path, const struct import_format *f, const struct import_result *r) {
    struct strbuf text = STRBUF_INIT;
    char grouped[32];
    units_grouped(count_events(r), grouped, sizeof grouped);
    strbuf_addf(&text, "%s: %s, %s events (%llu kernels, %llu operators)", path, f->name, grouped,
                (unsigned long long)r->events[SINK_EVENT_KERNEL],
                (unsigned long long)r->events[SINK_EVENT_CPU_OP]);
    if (r->rank >= 0) strbuf_addf(&text, ", rank %lld", (long long)r->rank);
    log_info("%s", text.buf);
    strbuf_free(&text);
}

static void add_source(struct session *s, const char *path) {
    char *more =
        s->sources ? xasprintf("%s, %s", s->sources, file_basename(path)) : xstrdup(file_basename(path));
    free(s->sources);
    s->sources = more;
    strbuf_addch(&s->command, ' ');
    strbuf_add_shell_word(&s->command, path);
}

static void show_progress(uint64_t done, uint64_t all) {
    (void)all;
    progress_update(done);
}

/* Removes the folders if the first file could not be read. rmdir() keeps folders that are not empty. */
static void drop_empty_folder(struct session *s) {
    char *traces = file_join(s->dir, "trace");
    if (rmdir(traces) == 0 && s->made_dir) rmdir(s->dir);
    free(traces);
    free(s->dir);
    s->dir = NULL;
}

static int import_timeline(struct session *s, const char *path, const struct import_format *f,
                           struct err *err) {
    if (make_folder(s, path, err) < 0) return -1;
    char *trace = trace_path(s, path), *traces = file_join(s->dir, "trace");
    struct import_options options = { .rank = -1, .progress = show_progress };
    struct import_result result;
    int scratch[] = { s->made_dir ? scratch_add(s->dir) : -1, scratch_add(traces), scratch_add(trace) };
    progress_start("importing", "bytes", 0);
    int rc = import_to_trace(path, f, trace, &options, &result, err);
    progress_finish();
    if (rc == 0 && check_content(path, &result, err) < 0) {
        unlink(trace);
        rc = -1;
    }
    for (size_t i = 0; i < COUNTOF(scratch); i++) scratch_forget(scratch[i]);
    free(traces);
    if (rc == 0) {
        log_imported(path, f, &result);
        log_problems(s, path, &result);
        add_source(s, path);
        s->timelines++;
    } else if (!s->timelines) {
        drop_empty_folder(s);
    }
    free(trace);
    return rc;
}

static int read_summary(struct session *s, const char *path, const struct import_format *f, struct err *err) {
    uint64_t bad_rows = 0;
    int rc = f->read_sums(path, sums_add_row, &s->sums, &bad_rows, err);
    s->summaries += rc == 0;
    sums_add_problem(&s->sums, "bad_row", bad_rows);
    return rc;
}

/* Summaries have no timestamps, so they are printed and not converted. */
static void print_summaries(struct session *s) {
    struct strbuf out = STRBUF_INIT;
    struct stats_view v = {
        .sums = &s->sums, .top = s->top, .line_width = command_line_width(), .explain = sink_problem_words
    };
    sums_sort(&s->sums);
    if (s->o->json)
        stats_json(&v, &out);
    else
        stats_text(&v, &out);
    fwrite(out.buf, 1, out.len, stdout);
    strbuf_free(&out);
}

static int import_one(struct session *s, const struct input *in, struct err *err) {
    const char *path = in->path;
    const struct import_format *f = in->format;
    if (!f) {
        *err = in->err;
        return -1;
    }
    if (f->read) return import_timeline(s, path, f, err);
    if (f == &import_trace_format)
        return err_set(err, "%s: already an inferprof trace; use 'inferprof report'", path);
    if (f != &ncu_format) return read_summary(s, path, f, err);
    s->ncu_files++;
    return ncu_read(&s->ncu, path, err);
}

/* Error message for an option that has no effect on these inputs; NULL: none. */
static const char *misused(const struct import_opts *o, const struct input *in, size_t n) {
    size_t timelines = 0, counters = 0, sums = 0;
    for (size_t i = 0; i < n; i++) {
        const struct import_format *f = in[i].format;
        timelines += f && f->read;
        counters += f == &ncu_format;
        sums += f && f->read_sums && f != &ncu_format;
    }
    if (timelines + counters + sums == 0) return NULL; /* an error is reported later */
    if (o->json && timelines)
        return "--json is for tables without timestamps (Nsight Compute, summaries); for a timeline use "
               "'inferprof stats --json' or metrics.json of its run folder";
    if (o->top && !counters && !sums)
        return "--top is for tables without timestamps (Nsight Compute, summaries); for a timeline use "
               "'inferprof stats --top'";
    if (o->into && !counters) return "--into adds Nsight Compute counters to a run, but no input has any";
    if (o->out && !timelines && !counters)
        return "--output: summaries without timestamps are only printed, not written to a run folder";
    return NULL;
}

static void print_ncu(const struct session *s) {
    struct ncu_launches classes;
    struct strbuf out = STRBUF_INIT;
    ncu_classes(&s->ncu, &classes);
    if (s->o->json)
        ncu_json(&s->ncu, &classes, &out);
    else
        ncu_text(&s->ncu, &classes, s->top, command_line_width(), &out);
    fwrite(out.buf, 1, out.len, stdout);
    strbuf_free(&out);
    free(classes.v);
}

/* Writes the report again, with ncu.json. */
static int renew_report(const char *dir, struct err *err) {
    struct loaded_run r;
    struct strbuf note = STRBUF_INIT;
    if (run_load(&r, &dir, 1, NULL, err) < 0) return -1;
    r.info.version = build_version();
    struct view v;
    view_init(&v, &r.info);
    int rc = report_write_all(dir, &v, err);
    view_free(&v);
    rows_profiles_note(r.info.analysis, &note);
    if (rc == 0)
        log_info("%s: %s", dir, note.len ? note.buf : "its trace has no kernels to match the profiles with");
    strbuf_free(&note);
    run_unload(&r);
    return rc;
}

static int write_ncu(struct session *s, struct err *err) {
    const char *dir = s->o->into ? s->o->into : s->dir ? s->dir : s->o->out;
    int rc = 0;
    print_ncu(s);
    if (dir && (file_mkdirs(dir, err) < 0 || ncu_write_run(&s->ncu, dir, err) < 0)) return -1;
    if (dir) log_info("%s/ncu.json: %zu launches", dir, s->ncu.launches.n);
    if (s->o->into && s->o->report) rc = renew_report(dir, err);
    return rc;
}

/* Same files and summary as for other runs. */
static int write_report(struct session *s, struct err *err) {
    struct env env = { 0 };
    char *title = xasprintf("Imported: %s", s->sources);
    struct run_report r = { .dir = s->dir,
                            .run_id = file_basename(s->dir),
                            .title = title,
                            .command = s->command.buf,
                            .env = &env,
                            .warnings = s->warnings,
                            .write_files = true,
                            .print = log_get_level() >= LOG_INFO };
    int rc = run_report(&r, err);
    run_report_close(&r);
    s->warnings = r.warnings;
    free(title);
    return rc;
}

static int import_failed(struct session *s, const struct err *err) {
    if (strlist_has(&s->failures, err->msg)) return EXIT_FAILED;
    strlist_add(&s->failures, "%s", err->msg);
    return command_fail(err);
}

static int import_all(const struct import_opts *o, const struct input *in, size_t n) {
    struct session s = { .o = o, .top = o->top ? o->top : TABLE_ROWS, .command = STRBUF_INIT };
    strbuf_addstr(&s.command, "inferprof import");
    struct err err;
    int status = EXIT_DONE;
    ncu_init(&s.ncu);
    sums_init(&s.sums);
    for (size_t i = 0; i < n; i++)
        if (import_one(&s, &in[i], &err) < 0) status = import_failed(&s, &err);
    if (s.ncu_files && write_ncu(&s, &err) < 0) status = command_fail(&err);
    if (s.summaries) print_summaries(&s);
    if (s.timelines && s.o->report && write_report(&s, &err) < 0) status = command_fail(&err);
    if (s.timelines) printf("%s\n", s.dir);
    ncu_free(&s.ncu);
    sums_free(&s.sums);
    strlist_free(&s.warnings);
    strlist_free(&s.failures);
    free(s.sources);
    free(s.dir);
    strbuf_free(&s.command);
    return status;
}

static int run_import(const void *opts, int argc, char **argv) {
    const struct import_opts *o = opts;
    if (o->into && !file_is_dir(o->into))
        return command_usage("import: --into %s: not a run folder", o->into);
    struct input *in = xcalloc((size_t)argc, sizeof *in);
    for (int i = 0; i < argc; i++) {
        in[i].path = argv[i];
        in[i].format = import_detect(argv[i], &in[i].err);
    }
    const char *misuse = misused(o, in, (size_t)argc);
    int status = misuse ? command_usage("import: %s", misuse) : import_all(o, in, (size_t)argc);
    free(in);
    return status;
}

static const struct opt options[] = {
    { 'o', "output", OPT_STR, offsetof(struct import_opts, out), "DIR",
      "run folder to create (default: " RUN_DIR_ROOT "/TIME-INPUT)", NULL },
    { 0, "into", OPT_STR, offsetof(struct import_opts, into), "RUN",
      "add Nsight Compute counters to this run", NULL },
    { 0, "report", OPT_FLAG, offsetof(struct import_opts, report), NULL,
      "also write the report (default: yes); --no-report: only traces", NULL },
    { 'n', "top", OPT_UINT, offsetof(struct import_opts, top), "N",
      "maximum kernels in Nsight Compute and summary tables (default: 25)", "1.." },
    { 'j', "json", OPT_FLAG, offsetof(struct import_opts, json), NULL,
      "print the tables of Nsight Compute and of summaries as JSON", NULL },
};
static const struct import_opts defaults = { .report = true };

const struct command cmd_import = {
    .name = "import",
    .args = "FILE...",
    .summary = "import recordings of torch.profiler, Nsight Systems or Nsight Compute",
    .details = "The format is detected from the content: torch.profiler (Kineto) JSON, plain or gzip; Nsight "
               "Systems SQLite exports\n(.nsys-rep if nsys is installed) and summary CSVs; Nsight Compute "
               "CSV of the pages details and raw, or of single\nsections. Tables without timestamps are "
               "printed. Several traces are read as the ranks of one job. Prints the run folder.",
    .opts = options,
    .nopts = COUNTOF(options),
    .defaults = &defaults,
    .opts_bytes = sizeof(struct import_opts),
    .min_args = 1,
    .max_args = -1,
    .complete = COMPLETE_FILES,
    .run = run_import,
};
