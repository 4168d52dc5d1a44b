/* `inferprof trace cut RUN_DIR -o DIR`: a stretch of a trace, small enough to keep or to send. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/log.h"
#include "base/util.h"
#include "cmd/commands.h"
#include "trace/reader_cut.h"
#include "trace/reader_files.h"

struct cut_opts {
    const char *output, *range;
    double duration_s;
};

struct bounds {
    uint64_t from_ns, to_ns;
    bool found;
};

/* The range may be in any of the files; the stretch is the same for all. The last of its name counts. */
static int find_bounds(const struct cut_opts *o, const struct problems *paths, struct bounds *out,
                       struct err *err) {
    for (size_t i = 0; i < paths->n; i++) {
        uint64_t from, to;
        struct trace_reader *r = trace_reader_open(paths->v[i], err);
        if (!r) return -1;
        if (trace_cut_find(r, o->range, &from, &to) && (!out->found || from > out->from_ns))
            *out = (struct bounds){ from, to, true };
        trace_reader_close(r);
    }
    if (!out->found)
        return err_set(err, "--range: no range is named '%s'; `inferprof trace dump --kind range` lists them",
                       o->range);
    if (o->duration_s > 0) out->to_ns = out->from_ns + (uint64_t)(o->duration_s * 1e9);
    return 0;
}

static int cut_file(const char *path, const char *dir, const struct bounds *b, struct err *err) {
    const char *slash = strrchr(path, '/');
    struct trace_reader *r = trace_reader_open(path, err);
    if (!r) return -1;
    char *out = xasprintf("%s/%s", dir, slash ? slash + 1 : path);
    int rc = trace_cut_file(r, out, b->from_ns, b->to_ns, err);
    if (rc == 0) log_info("wrote %s", out);
    free(out);
    trace_reader_close(r);
    return rc;
}

static int run(const void *opts, int argc, char **argv) {
    const struct cut_opts *o = opts;
    struct problems paths = { 0 };
    struct bounds b = { 0 };
    struct err err;
    int status = EXIT_DONE;
    (void)argc;
    if (!o->output || !o->range)
        return command_usage(
            "trace cut: give --output DIR for the new files and --range NAME for the stretch");
    if (!trace_files_add(&paths, argv[0]))
        status = command_no_traces(argv[0]);
    else if (find_bounds(o, &paths, &b, &err) < 0 || file_mkdirs(o->output, &err) < 0)
        status = command_fail(&err);
    for (size_t i = 0; status == EXIT_DONE && i < paths.n; i++)
        if (cut_file(paths.v[i], o->output, &b, &err) < 0) status = command_fail(&err);
    problems_free(&paths);
    return status;
}

static const struct opt options[] = {
    { 'o', "output", OPT_STR, offsetof(struct cut_opts, output), "DIR",
      "folder for the new files, which keep their names", NULL },
    { 'r', "range", OPT_STR, offsetof(struct cut_opts, range), "NAME",
      "the stretch starts with the last range of this name, and ends with it", NULL },
    { 0, "duration", OPT_DOUBLE, offsetof(struct cut_opts, duration_s), "S",
      "or ends so many seconds after its start", ">0" },
};

const struct command cmd_trace_cut = {
    .name = "trace cut",
    .args = "RUN_DIR|FILE.ipt",
    .summary = "keep a stretch of a trace as a trace of its own",
    .opts = options,
    .nopts = COUNTOF(options),
    .opts_bytes = sizeof(struct cut_opts),
    .min_args = 1,
    .max_args = 1,
    .complete = COMPLETE_FILES,
    .run = run,
};
