/* A job of several ranks: its ranks, how their clocks relate, and where the time of each rank went.
 *     struct rank_job job;
 *     if (rank_job_load(&job, operands, n, NULL, &err) < 0) ...        -- run folders, traces or digests
 *     for (size_t r = 0; r < job.nranks; r++) use(rank_job_cell(&job, r, stage)->time.compute_ns);
 *     rank_job_free(&job);
 * Each rank is first reduced to a digest (digest.h): one rank at a time per worker thread, so the memory for
 * traces does not grow with their number. Times are in ns. Unknown values are NaN, NULL or RANK_NONE, unless
 * a member says that 0 is unknown. Definitions of all figures: docs/ranks.md.
 *
 * The time of a device (docs/analysis.md, "Time of a stage") is divided by the work that runs at each moment:
 *     compute    at least one kernel that does not communicate
 *     exposed    at least one communication kernel and no other kernel
 *     copy       only copies and memsets
 *     idle       nothing
 *     unrecorded the trace has no data (known per rank, not per stage)
 * compute + exposed + copy + idle of all top-level stages + unrecorded = timeline.
 * Exposed communication is divided further: a rank waits from the start of its communication kernel until the
 * last rank of the communicator has started the same collective; from then on, bytes move. */
#ifndef RANKS_RANKS_H
#define RANKS_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyze/analyze.h"
#include "base/err.h"
#include "base/stats.h"

#define RANK_NONE UINT32_MAX
#define RANK_STEPS_MAX 256 /* largest number of step rows per stage; longer jobs have several steps per row */

/* ---- Clocks */

/* How a clock was aligned with the clock of the job:
 *     REFERENCE    it is the clock of the job: that of the lowest rank, unless it was set back
 *     COLLECTIVES  fitted to the matched ends of collectives
 *     WALL         too few matched collectives; the wall clock is used unchanged
 *     RELATIVE     the file has no wall clock and too few matched collectives: it is not aligned */
#define RANK_CLOCK_SOURCES(X)     \
    X(REFERENCE, "reference")     \
    X(COLLECTIVES, "collectives") \
    X(WALL, "wall clock")         \
    X(RELATIVE, "relative clock")
enum rank_clock_source {
#define X(id, name) RANK_CLOCK_##id,
    RANK_CLOCK_SOURCES(X)
#undef X
        RANK_CLOCK_SOURCES_END
};
const char *rank_clock_source_name(enum rank_clock_source source);

/* A step that was removed from the times of a rank: a user or NTP set its clock. */
struct rank_clock_step {
    uint64_t at_ns;  /* time that the clock showed just before it was set */
    double step_ns;  /* how far it was set forward; negative: back */
    double error_ns; /* of step_ns */
};
/* A part of a fitted clock. A clock that was stepped or changed its rate has several segments. */
struct rank_clock_segment {
    uint64_t from_ns;   /* start of the segment on the rank's own clock */
    uint64_t begin_ns;  /* start of the segment on the job's clock; 0: the first segment */
    uint64_t at_ns;     /* a time on the rank's own clock, near the middle of the segment */
    double offset_ns;   /* own clock minus job clock at `at_ns` */
    double drift;       /* change of the offset per ns of the rank's own clock; 1e-6 is 1 us per second */
    double drift_error; /* half the 95% interval of the drift; NaN: unknown */
    double error_ns;    /* remaining error of the offset; NaN: unknown */
    size_t points;      /* matched collectives in the fit */
    /* Step between the previous segment and this one; 0: only the rate changed, or the first segment. The
     * last matched collective before the step ended at before_ns, the first one after it at after_ns, both on
     * the rank's own clock; on the job's clock, job_before_ns and job_after_ns. */
    double step_ns, step_error_ns;
    uint64_t before_ns, after_ns, job_before_ns, job_after_ns;
};
/* Usually the clock of all ranks of a node. A rank whose clock differs from its node's has its own. */
struct rank_clock {
    enum rank_clock_source source;
    uint32_t node;
    struct rank_clock_segment *segments; /* sorted by from_ns; at least one */
    size_t nsegments;
    /* Steps that were removed from the times of its ranks, in the order of time. Times of digests and of
     * segments are without them; trace_clock.h removes them from the times of a trace. */
    const struct rank_clock_step *steps;
    size_t nsteps;
    /* Largest error over the segments. The error of a segment is the robust standard deviation of the
     * residuals, or the 95% interval of the fit if that is wider, combined with the largest error of the
     * clocks that it was fitted to. NaN: unknown (wall clock). 0 for the reference. */
    double error_ns;
    size_t outliers; /* collectives whose ends are further than 6 standard deviations from the fit */
    /* Possible step at the start or the end of the recording: `edge_points` matched collectives differ by
     * edge_ns from the fit, which may be a step or outliers. error_ns includes it, the errors of the
     * segments do not. 0: none. */
    double edge_ns;
    size_t edge_points;
    bool edge_is_last; /* at the end */
};
/* Converts a time of this clock, without its steps, to the clock of the job. */
uint64_t rank_clock_to_job(const struct rank_clock *c, uint64_t own_ns);
/* Returns the drift of its first segment; NaN: too few collectives to know it. */
double rank_clock_drift(const struct rank_clock *c);
/* A step of a clock, removed or not. */
struct rank_clock_change {
    uint64_t job_ns; /* on the job's clock */
    double step_ns, error_ns;
    bool removed;
};
/* Returns step i of a clock; false: it has fewer. */
bool rank_clock_change(const struct rank_clock *c, size_t i, struct rank_clock_change *out);

/* ---- Ranks */

/*   COMPLETE  its trace was closed, and it was not late
 *   DIED      its trace was not closed: the process was killed, crashed or still runs
 *   LATE      its first record is later than the end of the first step (median over the ranks)
 *   MISSING   the world size includes it, but it has neither trace nor digest */
#define RANK_STATES(X)      \
    X(COMPLETE, "complete") \
    X(DIED, "died")         \
    X(LATE, "late")         \
    X(MISSING, "missing")
enum rank_state {
#define X(id, name) RANK_STATE_##id,
    RANK_STATES(X)
#undef X
        RANK_STATE_END
};
const char *rank_state_name(enum rank_state state);

/* Time of a rank in a stage, or of a whole rank. */
struct rank_time {
    double compute_ns, exposed_ns, copy_ns, idle_ns;
    /* exposed_ns = wait_ns + move_ns. Both are 0 if exposed_ns is 0, and NaN if no collective was
     * matched or if too much of it is in operations, such as receives, of which none was matched. */
    double wait_ns, move_ns;
    /* Share of exposed_ns in matched collectives that the digest keeps, 0..1. The rest is divided in the same
     * ratio, if wait_ns is known. NaN: there is no exposed time. */
    double matched_share;
    double hidden_ns; /* communication that overlaps other kernels; included in compute_ns */
};

/* A kernel on any GPU of a rank, on the clock of the rank. */
struct rank_kernel {
    uint64_t start_ns, end_ns;
    bool communication;
};

struct rank_row {
    uint32_t rank;
    enum rank_state state;
    uint32_t local_rank, pid; /* RANK_NONE: unknown */
    uint32_t node, clock;     /* rows of rank_job.nodes and .clocks; RANK_NONE: missing rank */
    const char *device;       /* name of its GPU; "H200,A100" for different GPUs; NULL: unknown */
    const char *device_uuid;  /* of its first GPU; NULL: unknown */
    const char *trace;        /* path of its first trace; NULL: no trace was found, only a digest */
    const struct rank_kernel *kept_kernels; /* sorted by start; NULL: not kept (see rank_options) */
    size_t nkept_kernels;
    const char *digest;         /* path of its digest; NULL: computed from the traces */
    uint64_t first_ns, last_ns; /* first and last record, on the job's clock; 0: unknown */
    uint64_t kernels, launches, collectives, lost_records;
    struct rank_time time; /* sums over its devices and top-level stages */
    double timeline_ns;    /* timeline of its devices: compute + exposed + copy + idle + unrecorded */
    double unrecorded_ns;
    double late_ns; /* mean delay of its arrival after the first rank, over matched collectives */
    /* matched collectives, except sends and receives, in which it clearly started last */
    uint64_t last_arrivals;
    /* waiting of the other ranks in these collectives, from the arrival of the last but one rank on */
    double wait_caused_ns;
    double sm_mhz_mean;     /* mean SM clock of its first GPU while busy; NaN: no power records */
    double throttled_ns;    /* time with reduced clocks while busy; NaN: unknown */
    double throttled_share; /* throttled_ns / timeline_ns */
    double joules;          /* energy; NaN: unknown */
};

/* A node: ranks with the same node name (from the launcher), else with the same host name. */
struct rank_node {
    const char *name;
    size_t present;             /* number of ranks with data */
    struct rank_time time;      /* sums over its ranks with data, like the next two members */
    double timeline_ns, joules; /* NaN: unknown */
    double sm_mhz_mean;         /* mean over its ranks; NaN: unknown */
    uint32_t latest;            /* the rank that is latest in collectives; RANK_NONE: unknown */
    double late_ns;             /* of `latest`; NaN: unknown */
};

/* ---- Stages and steps */

struct rank_stage {
    const char *name, *path; /* as in struct analysis_stage */
    uint32_t parent;         /* row of rank_job.stages; RANK_NONE: top level */
    bool outside, implicit;
    size_t present; /* ranks that have the stage */
};

/* One rank in one stage: sums over all occurrences in its trace. */
struct rank_cell {
    bool present; /* false: the rank is missing or does not have the stage */
    uint64_t occurrences, kernels, launches;
    double tokens_in, tokens_out; /* NaN: unknown */
    struct rank_time time;
    /* compute + exposed + copy + idle; NaN, like these: the trace does not give the time of the stage */
    double wall_ns;
    double idle_cause_ns[ANALYSIS_IDLE_CAUSES];
    double category_ns[KERNEL_CATEGORY_END]; /* kernel time by category, including nested stages */
};

/* One rank in one row of steps. Floats, because there are many cells in large jobs. */
struct rank_step_cell {
    float wall_ns, compute_ns, exposed_ns, wait_ns; /* means per step; NaN: unknown */
    /* mean per step of max(tokens read, tokens generated); NaN: unknown */
    float tokens;
};
struct rank_steps { /* steps of one stage */
    uint32_t stage;
    uint32_t steps_per_row;       /* 1, 2, 4, ... */
    size_t nrows;                 /* at most RANK_STEPS_MAX */
    struct rank_step_cell *cells; /* [nrows x nranks] */
};

/* ---- Collectives */

struct rank_communicator {
    uint64_t id;      /* equal on all its ranks */
    const char *name; /* name of the process group; NULL: not recorded */
    uint32_t *ranks;  /* ranks of the job that have used it, ascending */
    size_t nranks;
    /* number of its ranks, as recorded; 0: unknown. If larger than nranks, ranks are missing */
    uint32_t size;
    bool from_kernels; /* no collective records: matched by the order of communication kernels */
    uint32_t nodes;    /* number of nodes that its ranks span */
};
/* Collectives with the same communicator, operation, type and size. Sorted by exposed_ns, largest first. */
struct rank_collective {
    uint32_t communicator;
    const char *operation; /* "all_reduce" */
    const char *type;      /* "bf16"; NULL: unknown */
    uint64_t bytes;        /* payload per rank, as recorded by NCCL (count x element size); 0: unknown */
    uint64_t calls;        /* number of calls on all ranks */
    uint64_t matched;      /* number of collectives matched between at least two ranks */
    /* Statistics over matched collectives. move_ns: from the last start to the last end. skew_ns: from the
     * first start to the last start. */
    struct stats move_ns, skew_ns;
    double exposed_ns, wait_ns; /* sums over ranks */
    /* Algorithm bandwidth, and bus bandwidth as nccl-tests defines it, at the median of move_ns. NaN: the
     * size or the operation is unknown, or nothing was matched. */
    double algorithm_bytes_per_s, bus_bytes_per_s;
};

/* ---- Straggler */

#define RANK_REASONS(X)                    \
    X(UNKNOWN, "unknown")                  \
    X(SLOWER_KERNELS, "slower kernels")    \
    X(THROTTLED, "throttled clocks")       \
    X(LATER_LAUNCHES, "later launches")    \
    X(MORE_TOKENS, "more tokens")          \
    X(MORE_WORK, "more or larger kernels") \
    X(EXPERTS, "more work in its experts")
enum rank_reason {
#define X(id, name) RANK_REASON_##id,
    RANK_REASONS(X)
#undef X
        RANK_REASON_END
};
const char *rank_reason_name(enum rank_reason reason);

/* The rank for which the others wait. */
struct rank_straggler {
    uint32_t rank; /* RANK_NONE: no rank stands out */
    /* Row of the stage in which it loses most time: its compute and idle time minus the time that the mean of
     * the other ranks needs for the same number of steps. RANK_NONE: none. */
    uint32_t stage;
    enum rank_reason reason; /* RANK_REASON_UNKNOWN: the evidence does not show a reason; printed as a dash */
    const char *evidence;    /* the figures that support the reason, in one sentence; NULL: none */
    double last_share;       /* share of the job's matched collectives in which it arrived last, 0..1 */
    double wait_caused_ns;   /* as in struct rank_row */
    double behind_ns;        /* its mean delay at collectives minus the mean delay of the other ranks */
};

/* ---- The job */

struct rank_job {
    uint32_t world_size;    /* as recorded; RANK_NONE: unknown */
    const char *id;         /* job id of the launcher; NULL: unknown */
    struct rank_row *ranks; /* sorted by rank; includes missing ranks */
    size_t nranks, present; /* number of rows, and of rows with data */
    size_t died, late, missing;
    struct rank_node *nodes;
    size_t nnodes;
    struct rank_clock *clocks;
    size_t nclocks;
    double clock_error_ns; /* largest error over all clocks; NaN: unknown */
    struct rank_stage *stages;
    size_t nstages;
    struct rank_cell *cells;  /* [nranks x nstages] */
    struct rank_steps *steps; /* top-level stages with at least two rows of steps */
    size_t nsteps;
    struct rank_communicator *communicators;
    size_t ncommunicators;
    struct rank_collective *collectives;
    size_t ncollectives;
    uint64_t matched; /* number of matched collectives */
    struct rank_straggler straggler;
    /* Sums over the ranks with data. */
    struct rank_time time;
    double timeline_ns, unrecorded_ns;
    uint64_t first_ns, last_ns;  /* first and last record, on the job's clock */
    const char *const *warnings; /* messages for the user: missing, dead and late ranks, clocks, conflicts */
    size_t nwarnings;
    void *owner; /* private */
};

struct rank_options {
    const struct analyze_rule *rules; /* rules that map ranges to stages, as for `report` */
    size_t nrules;
    bool no_steps;    /* treat a trace without stages as one stage instead of looking for steps */
    unsigned threads; /* 0: one per processor */
    /* Keep the kernels of ranks that have few of them, so that rank_lanes_load() does not read the traces
     * again. */
    bool keep_kernels;
};

/* An operand is a run folder, a folder of traces or digests, a trace file (.ipt) or a digest file. Returns -1
 * if the operands are not one job (the message names two files) or if none could be read. If a rank has a
 * digest, its traces are not read. */
int rank_job_load(struct rank_job *job, const char *const *operands, size_t n,
                  const struct rank_options *options, struct err *err);
/* Writes the job into a new folder that `report` reads: DIR/digest/ with one digest per rank, and DIR/trace/
 * with links to the traces (copies on another file system). Fails if the folder exists and is not empty. */
int rank_job_save(const struct rank_job *job, const char *dir, struct err *err);
/* Copies the files ranks/rank-N.json of the run folders, which record how each rank ended, to DIR/ranks/. */
int rank_job_save_endings(const char *const *operands, size_t n, const char *dir, struct err *err);
void rank_job_free(struct rank_job *job); /* also accepts a zeroed struct */

static inline const struct rank_cell *rank_job_cell(const struct rank_job *j, size_t rank_row, size_t stage) {
    return &j->cells[rank_row * j->nstages + stage];
}
const struct rank_row *rank_job_find(const struct rank_job *job, uint32_t rank); /* NULL: no such rank */

/* Chooses the slowest, the median and the fastest rank with data, for drawing: by the mean delay at
 * collectives if all ranks have one, else by compute time. The median and the fastest rank are chosen from
 * those that neither died nor started late, so that they ran at the same time as the slowest. Returns the
 * number of different rows, at most 3. */
size_t rank_job_choose(const struct rank_job *job, size_t rows[3]);

#endif
