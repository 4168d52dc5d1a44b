/* `inferprof run -- PROGRAM ARGS...`: runs an unmodified program with the collector injected, samples power
 * and, if requested, hardware counters, and writes the report. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/launcher.h"
#include "base/log.h"
#include "base/program.h"
#include "base/secret.h"
#include "base/units.h"
#include "base/util.h"
#include "base/vec.h"
#include "cmd/build_info.h"
#include "cmd/command.h"
#include "cmd/commands.h"
#include "cmd/run_report.h"
#include "cmd/stage_option.h"
#include "cmd/tools.h"
#include "session/counters.h"
#include "session/inject.h"
#include "session/nvml.h"
#include "session/rank_folder.h"
#include "session/run_dir.h"
#include "session/spawn.h"
#include "trace/writer.h"

#define WAIT_FOR_WORKERS_MS 2000
#define RULES_FILE "run.ipt"
#define GRAPH_REPLAYS 51 /* per CUDA graph, with --graphs sample; the first one is warm-up in reports */
#define BY_PRESET 0      /* no --counter-interval given */

struct run_opts {
    const char *out, *preset, *range, *graphs;
    struct opt_list stages;
    double delay_s, duration_s, budget_pct;
    uint64_t max_size, memory, power_ms, counter_us;
    bool gemm_shapes, allocations, counters, report;
    struct tools_opts tools;
};
static const struct run_opts defaults = {
    .preset = "default",
    .graphs = "sample",
    .power_ms = 100,
    .counter_us = BY_PRESET,
    .report = true,
};

#define ROW(letter, name, type, field, arg, help, choices) \
    { letter, name, type, offsetof(struct run_opts, field), arg, help, choices }
static const struct opt options[] = {
    ROW('o', "output", OPT_STR, out, "DIR", "run folder (default: " RUN_DIR_ROOT "/TIME-PROGRAM)", NULL),
    ROW('p', "preset", OPT_CHOICE, preset, "NAME",
        "min: NVTX ranges and power; default: also kernels, launches, copies and syncs; max: also GEMM "
        "shapes "
        "and counters",
        "min|default|max"),
    ROW('s', "stage", OPT_LIST, stages, "NAME=GLOB", "ranges whose name matches GLOB belong to stage NAME",
        NULL),
    ROW('r', "range", OPT_STR, range, "GLOB", "capture kernels only inside NVTX ranges that match GLOB",
        NULL),
    ROW(0, "delay", OPT_DOUBLE, delay_s, "S", "start capturing S seconds after the program's start",
        "0..1000000000"),
    ROW(0, "duration", OPT_DOUBLE, duration_s, "S", "capture for S seconds (default: until the program ends)",
        "0..1000000000"),
    ROW(0, "budget", OPT_DOUBLE, budget_pct, "PCT",
        "capture in windows, so that the overhead is at most PCT percent", "0..100"),
    ROW(0, "graphs", OPT_CHOICE, graphs, "LEVEL",
        "sample: record the kernels of 51 replays of each CUDA graph, and of a few later ones; node: of all "
        "replays; graph: one record per replay instead of its kernels",
        "sample|node|graph"),
    ROW(0, "gemm-shapes", OPT_FLAG, gemm_shapes, NULL,
        "record M, N, K, types and algorithm of each cuBLAS GEMM", NULL),
    ROW(0, "allocations", OPT_FLAG, allocations, NULL,
        "record allocations of device memory (cudaMalloc, cuMemAlloc and others)", NULL),
    ROW(0, "max-size", OPT_BYTES, max_size, "BYTES", "maximum size of a process's trace", NULL),
    ROW(0, "memory", OPT_BYTES, memory, "BYTES", "memory of the collector per process (64MiB)", NULL),
    ROW(0, "power-interval", OPT_UINT, power_ms, "MS", "NVML sampling interval in ms (100); 0: no sampling",
        "0..3600000"),
    ROW(0, "counters", OPT_FLAG, counters, NULL,
        "sample hardware counters of the GPUs visible to the program", NULL),
    ROW(0, "counter-interval", OPT_UINT, counter_us, "US",
        "counter sampling interval in microseconds (100; 20 with --preset max)", "1..1000000"),
    ROW(0, "ncu", OPT_FLAG, tools.ncu, NULL,
        "run the program again under Nsight Compute, for the kernels that take the most time", NULL),
    ROW(0, "ncu-top", OPT_UINT, tools.top, "K", "number of kernels for --ncu (10)", "1..1000"),
    ROW(0, "ncu-stage", OPT_STR, tools.stage, "STAGE", "only kernels of this stage for --ncu", NULL),
    ROW(0, "nsys", OPT_FLAG, tools.nsys, NULL,
        "run the program again under Nsight Systems and keep its report", NULL),
    ROW(0, "tool-limit", OPT_DOUBLE, tools.limit_s, "S",
        "time limit for a run under Nsight, in seconds (900)", "1..1000000"),
    ROW(0, "report", OPT_FLAG, report, NULL, "analyse and report at the end (--no-report: only record)",
        NULL),
};

struct run {
    const struct run_opts *o;
    char **argv;
    char *dir, *id, *trace_dir, *command;
    uint64_t started_ns;
    struct stage_option rules;
    struct strlist warnings;
    struct launcher launcher;
    struct rank_folder ranks; /* dir NULL: not a rank */
    size_t nlogged;           /* warnings logged before the start */
    size_t nhardware;         /* warnings of counters and power */
    struct spawn program;
    struct engine_proc *counters; /* NULL: not sampled */
};

static void free_run(struct run *r) {
    stage_option_free(&r->rules);
    rank_folder_free(&r->ranks);
    free(r->dir);
    free(r->id);
    free(r->trace_dir);
    free(r->command);
    strlist_free(&r->warnings);
}

static bool is_empty_dir(const char *path) {
    DIR *d = opendir(path);
    bool empty = true;
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        empty &= strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
    if (d) closedir(d);
    return empty;
}

static bool is_rank(const struct run *r) { return r->ranks.dir != NULL; }
/* True if this process does the work that is done once per node. */
static bool serves_node(const struct run *r) {
    const struct launcher *l = &r->launcher;
    return !is_rank(r) || (l->local_rank != LAUNCHER_UNKNOWN ? l->local_rank == 0 : l->rank == 0);
}
/* True if this process writes the files that exist once per run folder. */
static bool serves_folder(const struct run *r) { return !is_rank(r) || r->ranks.first; }

/* Path of a trace that is written once per node. Caller frees. */
static char *node_trace(const struct run *r, const char *what) {
    char *name = is_rank(r) ? xasprintf("%s-%s.ipt", what, r->launcher.node) : xasprintf("%s.ipt", what);
    char *path = file_join(r->trace_dir, name);
    free(name);
    return path;
}

static int make_trace_folder(struct run *r, struct err *err) {
    r->id = xstrdup(file_basename(r->dir));
    r->trace_dir = file_join(r->dir, "trace");
    return file_mkdirs(r->trace_dir, err);
}

static int make_folder(struct run *r, struct err *err) {
    if (r->o->out && launcher_is_rank(&r->launcher)) {
        if (rank_folder_join(&r->ranks, r->o->out, &r->launcher, r->command, err) < 0) return -1;
        r->dir = xstrdup(r->ranks.dir);
        return make_trace_folder(r, err);
    }
    char *id = run_dir_default_id(r->started_ns, file_basename(r->argv[0]));
    if (!r->o->out) {
        r->dir = run_dir_create(RUN_DIR_ROOT, id, err);
    } else if (file_mkdirs(r->o->out, err) == 0) {
        if (!is_empty_dir(r->o->out))
            err_set(err, "%s is not empty: choose another folder for this run", r->o->out);
        else if (run_dir_mark(r->o->out,
                              "This run has not finished: it is still running, or it was killed.\n",
                              err) == 0)
            r->dir = xstrdup(r->o->out);
    }
    free(id);
    return r->dir ? make_trace_folder(r, err) : -1;
}

/* Removes the folder if the program could not be started. rmdir() keeps a folder with other files. The folder
 * of a job is kept. */
static void drop_folder(struct run *r) {
    struct err ignored;
    if (is_rank(r)) {
        rank_folder_cancel(&r->ranks);
        return;
    }
    char *rules = file_join(r->trace_dir, RULES_FILE);
    unlink(rules);
    if (run_dir_complete(r->dir, &ignored) == 0 && rmdir(r->trace_dir) == 0) rmdir(r->dir);
    free(rules);
}

static void join_command(struct run *r) {
    struct strbuf s = STRBUF_INIT;
    size_t n = 0;
    while (r->argv[n]) n++;
    strbuf_add_shell_words(&s, r->argv, n);
    r->command = strbuf_detach(&s);
    secret_mask(r->command);
}

/* Stores the stage rules in the run folder, so that later reports use them. */
static void write_rules(const struct run *r) {
    struct err err;
    if (!r->rules.n || !serves_folder(r)) return;
    char *path = file_join(r->trace_dir, RULES_FILE);
    struct trace_writer *w = trace_writer_open(path, NULL, &err);
    trace_writer_meta(w, "clock", "unix");
    trace_writer_meta(w, "source", "run");
    for (size_t i = 0; i < r->rules.n; i++)
        trace_writer_meta(w, "stage.rule", "%s=%s", r->rules.v[i].stage, r->rules.v[i].glob);
    if (w) trace_writer_close(w, &err);
    free(path);
}

static unsigned inject_flags(const struct run_opts *o) {
    unsigned what = strcmp(o->preset, "min") == 0   ? INJECT_MIN
                    : strcmp(o->preset, "max") == 0 ? INJECT_MAX
                                                    : INJECT_DEFAULT;
    if (o->gemm_shapes) what |= INJECT_GEMMS;
    if (o->allocations) what |= INJECT_ALLOCATIONS;
    if (strcmp(o->graphs, "graph") == 0 && what & INJECT_KERNELS) what |= INJECT_WHOLE_GRAPHS;
    return what;
}

/* logged before the program starts */
static void log_newest_warning(struct run *r) {
    log_warn("%s", r->warnings.v[r->warnings.n - 1]);
    r->nlogged = r->warnings.n;
}

static int start_program(struct run *r, struct err *err) {
    const struct inject_options inject = {
        .trace_dir = r->trace_dir,
        .what = inject_flags(r->o),
        .range = r->o->range,
        .delay_s = r->o->delay_s,
        .duration_s = r->o->duration_s,
        .budget_pct = r->o->budget_pct,
        .graph_replays = strcmp(r->o->graphs, "sample") == 0 ? GRAPH_REPLAYS : 0,
        .max_file_bytes = r->o->max_size,
        .memory_bytes = r->o->memory,
    };
    struct spawn_options spawn = SPAWN_OPTIONS_INIT;
    struct inject_env env;
    if (inject_env_make(&env, &inject, err) < 0) return -1;
    for (size_t i = 0; i < COUNTOF(env.kept); i++) {
        if (!env.kept[i]) continue;
        strlist_add(&r->warnings, "%s is already set, so the collector is not loaded through it; unset it",
                    env.kept[i]);
        log_newest_warning(r);
    }
    spawn.argv = r->argv;
    spawn.set = (const char *const *)env.set;
    int rc = spawn_start(&r->program, &spawn, err);
    inject_env_free(&env);
    return rc;
}

/* Number of other processes with a trace on this machine that still run. A rank counts only its own
 * processes. */
static unsigned count_writers(const struct run *r) {
    DIR *d = opendir(r->trace_dir);
    unsigned n = 0;
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        long pid = inject_trace_pid(e->d_name);
        uint32_t rank = is_rank(r) ? r->launcher.rank : LAUNCHER_UNKNOWN;
        bool alive = pid > 0 && inject_trace_is_local(e->d_name, &r->launcher, rank) &&
                     (kill((pid_t)pid, 0) == 0 || errno == EPERM);
        n += alive && pid != r->program.pid;
    }
    if (d) closedir(d);
    return n;
}

/* Waits briefly, because workers may outlive the program and some never end. */
static void wait_for_workers(struct run *r) {
    unsigned n = count_writers(r);
    for (unsigned waited = 0; n && waited < WAIT_FOR_WORKERS_MS; waited += 50) {
        usleep(50000);
        n = count_writers(r);
    }
    if (n)
        strlist_add(
            &r->warnings,
            "%u of the program's processes are still running: the report covers their traces up to now", n);
}

/* Missing counters and power samples do not explain missing records. */
static const char *no_records_reason(const struct run *r, const struct run_report *report) {
    if (report->warnings.n > r->nhardware) return "see the problems above";
    if (report->files == 0)
        return "none of its processes initialised CUDA or NVTX. A CPU program has nothing to record; a "
               "program "
               "that clears its environment, or is statically linked, does not load the collector "
               "('inferprof doctor' checks this machine)";
    return "it initialised CUDA or NVTX, but launched no kernel and opened no range while capture was on";
}

static bool use_ncu(struct run_report *report, const struct tools *t) {
    struct err err;
    if (run_report_load(report, &err) < 0 || !report->loaded) {
        strlist_add(t->warnings, "Nsight Compute was not run: %s",
                    report->files ? err.msg : "there is no trace");
        log_warn("%s", t->warnings->v[t->warnings->n - 1]);
        return false;
    }
    return tools_ncu(t, &report->run.analysis);
}

/* Runs the program again under the tools and updates the report. Returns false if a tool has no result. */
static bool use_tools(struct run *r, struct run_report *report, int status) {
    struct tools t = { .dir = r->dir, .argv = r->argv, .o = &r->o->tools, .warnings = &report->warnings };
    struct err err;
    bool ok = true;
    if (!r->o->tools.ncu && !r->o->tools.nsys) return true;
    if (status != 0) {
        log_warn("the program failed, so it is not run again under Nsight");
        return false;
    }
    interrupt_watch();
    if (r->o->tools.ncu) ok = use_ncu(report, &t);
    if (r->o->tools.nsys && !interrupt_signal()) ok &= tools_nsys(&t);
    interrupt_unwatch();
    report->print = false;
    if (report->loaded) run_add_profiles(&report->run);
    if (r->o->report && run_report(report, &err) < 0) log_error("%s", err.msg);
    if (ok) log_info("Nsight results: %s", r->dir);
    return ok;
}

/* failed_early: the program failed before it had a trace. */
static void log_end(const struct run *r, int status, bool failed_early) {
    struct strbuf how = STRBUF_INIT;
    program_add_end(&how, r->program.wait_status);
    if (failed_early)
        log_error("%s ended with %s before it initialised CUDA or NVTX: nothing was recorded", r->argv[0],
                  how.buf);
    else if (status != 0)
        log_warn("%s ended with %s", r->argv[0], how.buf);
    strbuf_free(&how);
}

/* Returns the program's exit status, or EXIT_FAILED if the program succeeded but a result is missing. */
static int finish_run(struct run *r, struct run_report *report, int status, struct err *err) {
    bool failed_early = status != 0 && r->o->report && report->warnings.n == r->nhardware &&
                        run_report_traces(r->dir, NULL) == 0;
    log_end(r, status, failed_early);
    bool unwritten = r->o->report && run_report(report, err) < 0;
    if (unwritten) log_error("%s", err->msg);
    for (size_t i = MAX(r->nlogged, report->on_screen); i < report->warnings.n; i++)
        log_warn("%s", report->warnings.v[i]);
    bool nothing = r->o->report && report->kernels == 0 && report->ranges == 0;
    if (nothing && !failed_early)
        log_error("nothing was recorded from %s: %s", r->argv[0], no_records_reason(r, report));
    bool complete = use_tools(r, report, status != 0 ? status : nothing);
    log_info("run folder: %s", r->dir);
    if (unwritten)
        run_dir_mark(r->dir, "Cannot write the report of this run; `inferprof report` writes it again.\n",
                     err);
    else if (run_dir_complete(r->dir, err) < 0)
        log_warn("%s", err->msg);
    return status == 0 && (nothing || unwritten || !complete) ? EXIT_FAILED : status;
}

static bool is_max(const struct run_opts *o) { return strcmp(o->preset, "max") == 0; }

/* Starts before the program, to cover its first kernels. On failure the run continues without counters. */
static void start_counters(struct run *r) {
    struct err err;
    if ((!r->o->counters && !is_max(r->o)) || !serves_node(r)) return;
    unsigned preset_us = is_max(r->o) ? COUNTERS_MAX_US : COUNTERS_DEFAULT_US,
             interval_us = r->o->counter_us == BY_PRESET ? preset_us : (unsigned)r->o->counter_us;
    char *path = node_trace(r, "counters");
    r->counters = counters_start(path, interval_us, NULL, &err);
    free(path);
    if (r->counters) return;
    strlist_add(&r->warnings,
                "hardware counters are not sampled: %s ('inferprof doctor' checks this machine)", err.msg);
    log_newest_warning(r);
    r->nhardware++;
}

static int run_program(struct run *r, struct err *err) {
    struct nvml_sampler *nvml = NULL;
    struct err nvml_err, late;
    char *power = node_trace(r, "nvml");
    bool sample_power = r->o->power_ms && serves_node(r);
    start_counters(r);
    if (start_program(r, err) < 0) {
        counters_stop(r->counters);
        free(power);
        return -1;
    }
    if (sample_power) nvml = nvml_sampler_start(power, (unsigned)r->o->power_ms, &nvml_err);
    if (sample_power && !nvml) log_debug("%s", nvml_err.msg);
    int status = spawn_wait(&r->program);
    wait_for_workers(r);
    inject_add_warnings(r->trace_dir, &r->warnings);
    counters_stop(r->counters);
    if (nvml_sampler_stop(nvml, &late) < 0) {
        strlist_add(&r->warnings, "%s", late.msg);
        r->nhardware++;
    }
    free(power);
    return status;
}

static void write_env(const struct run *r, const struct env *env) {
    if (!serves_folder(r)) return;
    struct strbuf json = STRBUF_INIT;
    struct err err;
    env_json(env, &json);
    if (run_dir_write(r->dir, "env.json", json.buf, json.len, &err) < 0) log_warn("%s", err.msg);
    strbuf_free(&json);
}

static bool rank_has_trace(const struct run *r) {
    DIR *d = opendir(r->trace_dir);
    bool found = false;
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        found |=
            inject_trace_pid(e->d_name) && inject_trace_is_local(e->d_name, &r->launcher, r->launcher.rank);
    if (d) closedir(d);
    return found;
}

/* Ends a rank that does not write the report. Returns the exit status. */
static int finish_rank(const struct run *r, int status) {
    bool nothing = !rank_has_trace(r);
    struct strbuf how = STRBUF_INIT;
    program_add_end(&how, r->program.wait_status);
    if (status != 0) log_warn("rank %u: %s ended with %s", r->launcher.rank, r->argv[0], how.buf);
    strbuf_free(&how);
    for (size_t i = r->nlogged; i < r->warnings.n; i++)
        log_warn("rank %u: %s", r->launcher.rank, r->warnings.v[i]);
    if (nothing)
        log_error("rank %u: nothing was recorded from %s: it did not initialise CUDA or NVTX",
                  r->launcher.rank, r->argv[0]);
    return status == 0 && nothing ? EXIT_FAILED : status;
}

/* Returns false only for a rank that is not the last one to end. */
static bool reports(struct run *r) {
    struct err err;
    if (!is_rank(r)) return true;
    bool last = rank_folder_leave(&r->ranks, r->program.wait_status, &r->warnings, &err);
    if (err.msg[0]) log_warn("rank %u: %s", r->launcher.rank, err.msg);
    return last;
}

static int run_and_report(struct run *r) {
    struct err err;
    struct env env = { 0 };
    struct nvml_inventory *gpus = xcalloc(1, sizeof *gpus);
    int status = EXIT_FAILED;
    r->started_ns = clock_wall_ns();
    launcher_read(&r->launcher, launcher_env);
    join_command(r);
    if (make_folder(r, &err) < 0) {
        command_fail(&err);
        goto done;
    }
    write_rules(r);
    bool have_gpus = nvml_inventory(gpus, &err) == 0;
    int program = run_program(r, &err);
    if (program < 0) {
        status = command_fail(&err);
        drop_folder(r);
        goto done;
    }
    env_capture(&env, have_gpus ? gpus : NULL);
    build_info_env(&env);
    env_add(&env, "Run", "command", "%s", r->command);
    write_env(r, &env);
    if (!reports(r)) {
        status = finish_rank(r, program);
        goto done;
    }
    char *title = xasprintf("%s", r->command);
    struct run_report report = { .dir = r->dir,
                                 .run_id = r->id,
                                 .title = title,
                                 .command = r->command,
                                 .started_wall_ns = r->started_ns,
                                 .rules = r->rules.v,
                                 .nrules = r->rules.n,
                                 .env = &env,
                                 .warnings = r->warnings,
                                 .write_files = true,
                                 .print = log_get_level() >= LOG_INFO };
    status = finish_run(r, &report, program, &err);
    r->warnings = report.warnings;
    run_report_close(&report);
    free(title);
done:
    env_free(&env);
    free(gpus);
    return status;
}

static const char *find_misuse(const struct run_opts *o) {
    struct launcher l;
    launcher_read(&l, launcher_env);
    if (launcher_is_rank(&l) && !o->out)
        return "this process is one of several ranks: give --output DIR, the same for all ranks";
    if (launcher_is_rank(&l) && (o->tools.ncu || o->tools.nsys))
        return "--ncu and --nsys run the program again, which one rank of a job cannot do alone";
    if (o->counter_us != BY_PRESET && !o->counters && !is_max(o))
        return "--counter-interval requires --counters";
    return tools_misused(&o->tools);
}

static int run(const void *opts, int argc, char **argv) {
    struct run r = { .o = opts, .argv = xcalloc((size_t)argc + 1, sizeof *argv) };
    memcpy(r.argv, argv, (size_t)argc * sizeof *argv);
    struct err err;
    const char *misuse = find_misuse(r.o);
    int status = misuse                                                 ? command_usage("run: %s", misuse)
                 : stage_option_parse(&r.o->stages, &r.rules, &err) < 0 ? command_usage("run: %s", err.msg)
                                                                        : run_and_report(&r);
    free(r.argv);
    free_run(&r);
    return status;
}

const struct command cmd_run = {
    .name = "run",
    .args = "-- PROGRAM ARGS...",
    .summary = "run a CUDA program unmodified and report its GPU time",
    .details =
        "The program is not modified: it keeps its standard streams, its signals and its exit status. The\n"
        "collector is loaded through the injection interfaces of CUDA and NVTX. The run folder contains one\n"
        "trace per process and the report. Started once per rank (mpirun, srun, torchrun), all ranks write\n"
        "one folder, and the rank that ends last writes the report. Exit status: the program's own (128 + n "
        "after signal n); 1 if it\n"
        "succeeded but nothing was recorded, the report could not be written, or a requested tool (--ncu,\n"
        "--nsys) has no result.",
    .opts = options,
    .nopts = COUNTOF(options),
    .defaults = &defaults,
    .opts_bytes = sizeof(struct run_opts),
    .min_args = 1,
    .max_args = -1,
    .runs_program = true,
    .complete = COMPLETE_COMMANDS,
    .run = run,
};
