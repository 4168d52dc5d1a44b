/* `inferprof trace cut RUN_DIR -o DIR`: extracts a part of a trace, for archiving or sharing. */
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
    bool anonymous;
};

/* Finds the last range with the given name in any of the files. Its time span is used for all files. */
static int find_stretch(const struct cut_opts *o, const struct strlist *paths, struct trace_cut *out,
                        struct err *err) {
    bool found = false;
    for (size_t i = 0; i < paths->n; i++) {
        struct trace_cut here = *out;
        struct trace_reader *r = trace_reader_open(paths->v[i], err);
        if (!r) return -1;
        if (trace_cut_find(r, o->range, &here) && (!found || here.from_ns > out->from_ns)) {
            *out = here;
            found = true;
        }
        trace_reader_close(r);
    }
    if (!found)
        return err_set(err,
                       "--range: no range named '%s'; `inferprof trace dump --kind range` lists all ranges",
                       o->range);
    if (o->duration_s > 0) out->to_ns = out->from_ns + (uint64_t)(o->duration_s * 1e9);
    return 0;
}

/* The collector names traces HOST-PID.ipt. An anonymous trace has no host in its name. */
static const char *name_of(const char *path, const struct trace_reader *r, bool anonymous) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *host = trace_reader_meta(r, "host");
    size_t n = host ? strlen(host) : 0;
    bool named = anonymous && n && strncmp(name, host, n) == 0 && name[n] == '-';
    return named ? name + n + 1 : name;
}

static int cut_file(const char *path, const char *dir, const struct trace_cut *cut, struct err *err) {
    struct trace_reader *r = trace_reader_open(path, err);
    if (!r) return -1;
    char *out = file_join(dir, name_of(path, r, cut->anonymous));
    int rc = trace_cut_file(r, out, cut, err);
    if (rc == 0) log_info("wrote %s", out);
    free(out);
    trace_reader_close(r);
    return rc;
}

static int run_trace_cut(const void *opts, int argc, char **argv) {
    const struct cut_opts *o = opts;
    struct strlist paths = { 0 };
    struct trace_cut cut = { .anonymous = o->anonymous };
    struct err err;
    int status = EXIT_DONE;
    (void)argc;
    if (!o->output || !o->range)
        return command_usage(
            "trace cut: expected --output DIR for the new files and --range NAME for the time span");
    if (!trace_files_add(&paths, argv[0]))
        status = command_no_traces(argv[0]);
    else if (find_stretch(o, &paths, &cut, &err) < 0 || file_mkdirs(o->output, &err) < 0)
        status = command_fail(&err);
    for (size_t i = 0; status == EXIT_DONE && i < paths.n; i++)
        if (cut_file(paths.v[i], o->output, &cut, &err) < 0) status = command_fail(&err);
    strlist_free(&paths);
    return status;
}

static const struct opt options[] = {
    { 'o', "output", OPT_STR, offsetof(struct cut_opts, output), "DIR",
      "folder for the new files; file names are kept", NULL },
    { 'r', "range", OPT_STR, offsetof(struct cut_opts, range), "NAME",
      "extract the time span of the last range with this name", NULL },
    { 0, "duration", OPT_DOUBLE, offsetof(struct cut_opts, duration_s), "S",
      "length in seconds (default: to the end of the range)", ">0" },
    { 0, "anonymous", OPT_FLAG, offsetof(struct cut_opts, anonymous), NULL,
      "remove host, command, paths and device ids", NULL },
};

const struct command cmd_trace_cut = {
    .name = "trace cut",
    .args = "RUN_DIR|FILE.ipt",
    .summary = "extract a part of a trace as a new trace",
    .opts = options,
    .nopts = COUNTOF(options),
    .opts_bytes = sizeof(struct cut_opts),
    .min_args = 1,
    .max_args = 1,
    .complete = COMPLETE_FILES,
    .run = run_trace_cut,
};
