/* `inferprof merge DIR... -o OUT`: joins the ranks of a job, from several nodes or from digests. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/log.h"
#include "base/units.h"
#include "base/util.h"
#include "cmd/commands.h"
#include "cmd/stage_option.h"
#include "ranks/ranks.h"

struct merge_opts {
    const char *output;
    struct opt_list stages;
    bool whole_trace;
    uint64_t threads;
};

static void print_drift(const struct rank_clock *c) {
    if (isnan(rank_clock_drift(c)))
        printf(", drift unknown (too few collectives)");
    else
        printf(", drift %+.3f us/s (error %.3f us/s)", c->segments[0].drift * 1e6,
               c->segments[0].drift_error * 1e6);
}

static void print_clocks(const struct rank_job *job) {
    char error[32], offset[32];
    for (size_t c = 0; c < job->nclocks && job->nclocks > 1; c++) {
        const struct rank_clock *k = &job->clocks[c];
        if (k->node == RANK_NONE) continue;
        const struct rank_clock_segment *s = &k->segments[0];
        printf("clock of %s: %s", job->nodes[k->node].name, rank_clock_source_name(k->source));
        if (k->source == RANK_CLOCK_COLLECTIVES) {
            printf(", offset %s%s", s->offset_ns < 0 ? "-" : "",
                   units_duration_ns(fabs(s->offset_ns), offset, sizeof offset));
            print_drift(k);
            printf(", remaining error %s, %zu segment%s", units_duration_ns(k->error_ns, error, sizeof error),
                   k->nsegments, k->nsegments == 1 ? "" : "s");
        }
        printf("\n");
    }
}

static void print_share(const char *what, double ns, double all_ns) {
    if (isnan(ns))
        printf(", %s -", what);
    else
        printf(", %s %.1f%%", what, 100 * ns / all_ns);
}

/* Shares of the time, summed over all ranks. */
static void print_time(const struct rank_job *job) {
    char text[32];
    if (!(job->timeline_ns > 0)) return;
    printf("time of all ranks: %s", units_duration_ns(job->timeline_ns, text, sizeof text));
    print_share("compute", job->time.compute_ns, job->timeline_ns);
    print_share("exposed communication", job->time.exposed_ns, job->timeline_ns);
    print_share("of it waiting for other ranks", job->time.wait_ns, job->timeline_ns);
    print_share("moving bytes", job->time.move_ns, job->timeline_ns);
    print_share("copies", job->time.copy_ns, job->timeline_ns);
    print_share("idle", job->time.idle_ns, job->timeline_ns);
    print_share("unrecorded", job->unrecorded_ns, job->timeline_ns);
    printf("\n");
}

static void print_straggler(const struct rank_job *job) {
    const struct rank_straggler *s = &job->straggler;
    char text[32];
    if (s->rank == RANK_NONE) return;
    printf("straggler: rank %" PRIu32
           ", last in %.0f%% of the collectives, others wait %s for it; reason: %s\n",
           s->rank, 100 * s->last_share, units_duration_ns(s->wait_caused_ns, text, sizeof text),
           s->reason == RANK_REASON_UNKNOWN ? "-" : rank_reason_name(s->reason));
    if (s->evidence) printf("  %s\n", s->evidence);
}

/* Slowest, median and fastest rank, then ranks without complete data. */
static void print_ranks(const struct rank_job *job) {
    static const char *const places[][3] = { { "slowest" },
                                             { "slowest", "fastest" },
                                             { "slowest", "median", "fastest" } };
    size_t rows[3], n = rank_job_choose(job, rows);
    for (size_t i = 0; i < n && n > 1; i++)
        printf("%s%s rank %" PRIu32, i ? ", " : "", places[n - 1][i], job->ranks[rows[i]].rank);
    for (size_t r = 0, named = 0; r < job->nranks && named < 8; r++) {
        if (job->ranks[r].state == RANK_STATE_COMPLETE) continue;
        printf("%srank %" PRIu32 " %s", n > 1 || named ? ", " : "", job->ranks[r].rank,
               rank_state_name(job->ranks[r].state));
        named++;
    }
    if (n > 1 || job->present < job->nranks) printf("\n");
}

static void print_job(const struct rank_job *job) {
    char text[40];
    printf("%zu of ", job->present);
    if (job->world_size == RANK_NONE)
        printf("an unknown number of ranks");
    else
        printf("%" PRIu32 " rank%s", job->world_size, job->world_size == 1 ? "" : "s");
    printf(" on %zu node%s; %s matched collectives\n", job->nnodes, job->nnodes == 1 ? "" : "s",
           units_grouped(job->matched, text, sizeof text));
    print_clocks(job);
    print_ranks(job);
    print_time(job);
    print_straggler(job);
}

static int merge_operands(const struct merge_opts *o, const struct rank_options *options, char **operands,
                          size_t n) {
    struct rank_job job;
    struct err err;
    if (rank_job_load(&job, (const char *const *)operands, n, options, &err) < 0) return command_fail(&err);
    int status = rank_job_save(&job, o->output, &err) < 0 ||
                         rank_job_save_endings((const char *const *)operands, n, o->output, &err) < 0
                     ? command_fail(&err)
                     : EXIT_DONE;
    for (size_t i = 0; i < job.nwarnings; i++) log_warn("%s", job.warnings[i]);
    if (status == EXIT_DONE) {
        print_job(&job);
        log_info("wrote %s; next: inferprof report %s", o->output, o->output);
    }
    rank_job_free(&job);
    return status;
}

static int run_merge(const void *opts, int argc, char **argv) {
    const struct merge_opts *o = opts;
    struct stage_option rules = { 0 };
    struct err err;
    int status;
    if (!o->output) return command_usage("merge: expected --output DIR for the new run folder");
    if (stage_option_parse(&o->stages, &rules, &err) < 0) {
        status = command_usage("merge: %s", err.msg);
    } else {
        struct rank_options options = {
            .rules = rules.v, .nrules = rules.n, .no_steps = o->whole_trace, .threads = (unsigned)o->threads
        };
        status = merge_operands(o, &options, argv, (size_t)argc);
    }
    stage_option_free(&rules);
    return status;
}

static const struct opt options[] = {
    { 'o', "output", OPT_STR, offsetof(struct merge_opts, output), "DIR", "the new run folder", NULL },
    { 0, "threads", OPT_UINT, offsetof(struct merge_opts, threads), "N",
      "ranks to read at the same time (default: one per processor)", "1..256" },
    { 's', "stage", OPT_LIST, offsetof(struct merge_opts, stages), "NAME=GLOB",
      "count ranges whose name matches GLOB as stage NAME; may be repeated", NULL },
    { 0, "whole-trace", OPT_FLAG, offsetof(struct merge_opts, whole_trace), NULL,
      "treat a trace without stages as one stage instead of looking for steps", NULL },
};

const struct command cmd_merge = {
    .name = "merge",
    .args = "RUN_DIR|FILE...",
    .summary = "join the ranks of a job into one run folder",
    .details =
        "Operands are run folders of several nodes, traces, or digests made by `inferprof digest`. Digests "
        "are "
        "read instead of the traces of their ranks. Names the ranks that are missing, died or started late.",
    .opts = options,
    .nopts = COUNTOF(options),
    .opts_bytes = sizeof(struct merge_opts),
    .min_args = 1,
    .max_args = -1,
    .complete = COMPLETE_FILES,
    .run = run_merge,
};
