/* `inferprof digest DIR|TRACE...`: writes a small summary per rank, on the machine that has the traces. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/launcher.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/util.h"
#include "cmd/commands.h"
#include "cmd/stage_option.h"
#include "ranks/digest.h"
#include "ranks/inputs.h"
#include "trace/reader_set.h"

struct digest_opts {
    const char *output, *part;
    bool local;
    struct opt_list stages;
    bool whole_trace;
};

/* Parses I/N with I from 0: "2/8" is the third of eight parts. */
static bool parse_part(const char *text, struct rank_filter *out) {
    char *end, *last;
    unsigned long part = strtoul(text, &end, 10);
    if (end == text || *end != '/' || *text == '-' || end[1] == '-') return false;
    unsigned long parts = strtoul(end + 1, &last, 10);
    if (last == end + 1 || *last || !parts || part >= parts || parts > UINT32_MAX) return false;
    out->part = (uint32_t)part;
    out->parts = (uint32_t)parts;
    return true;
}

/* Under a launcher, each process reads its share of the traces. */
static void take_share(const struct digest_opts *o, struct rank_filter *out) {
    struct launcher l;
    launcher_read(&l, launcher_env);
    uint32_t part = o->local ? l.local_rank : l.rank, parts = o->local ? l.local_size : l.world_size;
    if (part == LAUNCHER_UNKNOWN || parts == LAUNCHER_UNKNOWN || part >= parts) return;
    out->part = part;
    out->parts = parts;
}

/* The default folder: `digest` in a run folder, or the folder of a single trace. */
static char *default_folder(const char *operand) {
    if (file_is_dir(operand)) return file_join(operand, RANK_DIGEST_FOLDER);
    const char *name = file_basename(operand);
    return name == operand ? xstrdup(".") : xasprintf("%.*s", (int)(name - operand), operand);
}

static int digest_rank(const struct rank_input *r, const char *folder, const struct digest_limits *limits,
                       struct err *err) {
    char name[48];
    struct rank_digest *d = rank_digest_make((const char *const *)r->traces.v, r->traces.n, limits, err);
    if (!d) return -1;
    snprintf(name, sizeof name, "rank-%05" PRIu32 RANK_DIGEST_ENDING, r->rank == RANK_NONE ? 0 : r->rank);
    char *path = file_join(folder, name);
    int rc = rank_digest_write(d, path, err);
    if (rc == 0)
        printf("%s: %" PRIu64 " kernels, %zu of %" PRIu64 " collectives\n", path, d->kernels, d->ncollectives,
               d->ncollectives_total);
    free(path);
    rank_digest_free(d);
    return rc;
}

static int digest_ranks(const struct rank_inputs *in, const char *folder,
                        const struct digest_limits *limits) {
    struct err err;
    int status = EXIT_DONE;
    if (in->n && file_mkdirs(folder, &err) < 0) return command_fail(&err);
    progress_start("reading ranks", "ranks", in->n);
    for (size_t i = 0; i < in->n; i++) {
        if (digest_rank(&in->v[i], folder, limits, &err) < 0) status = command_fail(&err);
        progress_update(i + 1);
    }
    progress_finish();
    return status;
}

static int digest_operands(const struct digest_opts *o, char **operands, size_t n, struct rank_filter *filter,
                           const struct rank_options *options) {
    struct rank_inputs in;
    struct err err;
    filter->readers = trace_set_new();
    if (rank_inputs_find(&in, (const char *const *)operands, n, filter, &err) < 0) {
        trace_set_free(filter->readers);
        return command_fail(&err);
    }
    for (size_t i = 0; i < in.warnings.n; i++) log_warn("%s", in.warnings.v[i]);
    char *folder = o->output ? xstrdup(o->output) : default_folder(operands[0]);
    int status =
        digest_ranks(&in, folder, &(struct digest_limits){ .options = options, .traces = filter->readers });
    if (in.warnings.n && status == EXIT_DONE) status = EXIT_FAILED;
    free(folder);
    rank_inputs_free(&in);
    trace_set_free(filter->readers);
    return status;
}

static int run_digest(const void *opts, int argc, char **argv) {
    const struct digest_opts *o = opts;
    struct rank_filter filter = { .traces_only = true };
    struct stage_option rules = { 0 };
    struct err err;
    int status;
    if (o->part && !parse_part(o->part, &filter))
        return command_usage("digest: --part: '%s' is not I/N with I below N, such as 0/8", o->part);
    if (!o->part) take_share(o, &filter);
    if (stage_option_parse(&o->stages, &rules, &err) < 0) {
        status = command_usage("digest: %s", err.msg);
    } else {
        struct rank_options options = { .rules = rules.v, .nrules = rules.n, .no_steps = o->whole_trace };
        status = digest_operands(o, argv, (size_t)argc, &filter, &options);
    }
    stage_option_free(&rules);
    return status;
}

static const struct opt options[] = {
    { 'o', "output", OPT_STR, offsetof(struct digest_opts, output), "DIR",
      "folder for the digests (default: digest/ in the run folder)", NULL },
    { 0, "part", OPT_STR, offsetof(struct digest_opts, part), "I/N",
      "read only part I (from 0) of N equal parts of the traces", NULL },
    { 0, "local", OPT_FLAG, offsetof(struct digest_opts, local), NULL,
      "the traces are on a disk of this node: share them among the processes of the node", NULL },
    { 's', "stage", OPT_LIST, offsetof(struct digest_opts, stages), "NAME=GLOB",
      "count ranges whose name matches GLOB as stage NAME; may be repeated", NULL },
    { 0, "whole-trace", OPT_FLAG, offsetof(struct digest_opts, whole_trace), NULL,
      "treat a trace without stages as one stage instead of looking for steps", NULL },
};

const struct command cmd_digest = {
    .name = "digest",
    .args = "RUN_DIR|FILE.ipt...",
    .summary = "write a small summary of each rank on the machine that has its trace",
    .details =
        "Writes one small file per rank, rank-NNNNN.digest.json. `inferprof merge` and `inferprof report` "
        "read it instead of the trace. Its size does not depend on the number of kernels. Under mpirun, srun "
        "or torchrun, each process reads its share of the traces.",
    .opts = options,
    .nopts = COUNTOF(options),
    .opts_bytes = sizeof(struct digest_opts),
    .min_args = 1,
    .max_args = -1,
    .complete = COMPLETE_FILES,
    .run = run_digest,
};
