#include "cmd/tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/kernel_profile.h"
#include "base/die.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/tool.h"
#include "base/util.h"
#include "base/vec.h"
#include "cmd/ncu_plan.h"
#include "import/ncu.h"
#include "run/ncu_profiles.h"

#define SAY(t, ...) (strlist_add((t)->warnings, __VA_ARGS__), warn_newest(t))

static void warn_newest(const struct tools *t) { log_warn("%s", t->warnings->v[t->warnings->n - 1]); }

#define TOP 10
#define LIMIT_S 900.0

const char *tools_misused(const struct tools_opts *o) {
    if ((o->top || o->stage) && !o->ncu) return "--ncu-top and --ncu-stage require --ncu";
    if (o->limit_s > 0 && !o->ncu && !o->nsys) return "--tool-limit requires --ncu or --nsys";
    return NULL;
}

#define NO_NCU                                                                                              \
    "Nsight Compute (ncu) found neither in PATH nor in /usr/local/cuda or /opt/nvidia: install it or omit " \
    "--ncu"
#define NO_NSYS                                                                                              \
    "Nsight Systems (nsys) found neither in PATH nor in /usr/local/cuda or /opt/nvidia: install it or omit " \
    "--nsys"

void tools_missing(const struct tools_opts *o, struct strlist *errors) {
    char *ncu = o->ncu ? tool_find("ncu") : NULL, *nsys = o->nsys ? tool_find("nsys") : NULL;
    if (o->ncu && !ncu) strlist_add(errors, NO_NCU);
    if (o->nsys && !nsys) strlist_add(errors, NO_NSYS);
    free(ncu);
    free(nsys);
}

static double limit_s(const struct tools *t) { return t->o->limit_s > 0 ? t->o->limit_s : LIMIT_S; }

struct words {
    char **v;
    size_t n, cap;
};

static void add_words(struct words *w, const char *const *v) {
    for (; *v; v++) vec_push(w, xstrdup(*v));
}

static void free_words(struct words *w) {
    for (size_t i = 0; i < w->n; i++) free(w->v[i]);
    free(w->v);
}

static void add_program(struct words *w, char *const *argv) {
    for (; *argv; argv++) vec_push(w, xstrdup(*argv));
    vec_push(w, NULL);
}

/* Creates DIR/NAME; caller frees. NULL: failed; the reason is added to the warnings. */
static char *make_folder(const struct tools *t, const char *name) {
    struct err err;
    char *dir = file_join(t->dir, name);
    if (file_mkdirs(dir, &err) == 0) return dir;
    SAY(t, "%s", err.msg);
    free(dir);
    return NULL;
}

/* Runs a tool with the program. Removes the file of an earlier run, because engines do not overwrite it. */
static int run_program(const struct tools *t, const struct tool_run *run, struct err *err) {
    if (t->creates) unlink(t->creates);
    return tool_run(run, err);
}

/* ---- Nsight Compute */

/* Clocks are not locked. Caches are flushed before every pass, because otherwise later passes would find data
 * in the L2 cache that the real run reads from memory (decode's weights: 64% of the bandwidth in the run, 20%
 * under ncu). */
static void ncu_command(const char *ncu, const struct ncu_plan *p, const char *csv, char *const *argv,
                        struct words *w) {
    const char *fixed[] = { ncu,
                            "--target-processes",
                            "all",
                            "--clock-control",
                            "none",
                            "--cache-control",
                            "all",
                            "--csv",
                            "--page",
                            "raw",
                            "--print-units",
                            "base",
                            "--print-kernel-base",
                            "mangled",
                            "--section",
                            "SpeedOfLight",
                            "--section",
                            "MemoryWorkloadAnalysis",
                            "--section",
                            "Occupancy",
                            "--section",
                            "LaunchStats",
                            "--section",
                            "WarpStateStats",
                            "--metrics",
                            "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
                            "--kernel-name-base",
                            "mangled",
                            "--kernel-name",
                            p->names.buf,
                            "--log-file",
                            csv,
                            NULL };
    const char *range[] = { "--nvtx", "--nvtx-include", p->range, "--nvtx-include", p->marked_range, NULL };
    char skip[24], count[24];
    snprintf(skip, sizeof skip, "%llu", (unsigned long long)p->skip);
    snprintf(count, sizeof count, "%llu", (unsigned long long)p->count);
    const char *place[] = { "--launch-skip", skip, "--launch-count", count, NULL };
    add_words(w, fixed);
    if (p->range) add_words(w, range);
    add_words(w, place);
    add_program(w, argv);
}

/* Number of kernels of the plan that match a profile. */
static size_t count_met(const struct analysis *a, const struct ncu_plan *p, const struct ncu *n) {
    struct ncu_launches classes;
    struct strbuf json = STRBUF_INIT;
    struct err err;
    size_t met = 0;
    ncu_classes(n, &classes);
    ncu_json(n, &classes, &json);
    struct ncu_profiles *profiles = ncu_profiles_parse(json.buf, json.len, "ncu", &err);
    struct analysis_profiles *matched = profiles ? kernel_profiles_match(a, profiles->v, profiles->n) : NULL;
    for (size_t i = 0; matched && i < p->kernels.n; i++)
        met += matched->of_kernel[p->kernels.v[i]] != ANALYSIS_NONE;
    kernel_profiles_free(matched);
    ncu_profiles_close(profiles);
    strbuf_free(&json);
    free(classes.v);
    return met;
}

/* Appends the most useful line of ncu's CSV if it is a message of ncu ("==..."). */
static void collect_ncu_messages(const char *csv, struct strbuf *out) {
    if (file_exists(csv)) tool_last_words(csv, out);
    if (out->len && strncmp(out->buf, "==", 2) != 0) strbuf_reset(out);
}

/* Runs the program once under ncu. Returns true if at least one kernel of the plan was measured. */
static bool profile_stage(const struct tools *t, const struct analysis *a, const char *ncu,
                          const struct ncu_plan *p, const char *csv, const char *log_path) {
    struct words w = { 0 };
    struct ncu found;
    struct err err, unread;
    struct strbuf words = STRBUF_INIT;
    const char *where = p->stage ? p->stage : "no stage";
    ncu_command(ncu, p, csv, t->argv, &w);
    log_info("running it again under Nsight Compute: %zu kernels of %s, %llu launches", p->kernels.n, where,
             (unsigned long long)p->count);
    struct tool_run run = {
        .argv = w.v, .set = t->set, .log = log_path, .input = t->input, .limit_s = limit_s(t)
    };
    int rc = run_program(t, &run, &err);
    ncu_init(&found);
    bool read = file_exists(csv) && ncu_read(&found, csv, &unread) == 0;
    size_t met = read ? count_met(a, p, &found) : 0;
    collect_ncu_messages(csv, &words);
    if (rc < 0)
        SAY(t, "%s: %s%s%s%s", where, err.msg, words.len ? ": " : "", words.buf,
            met ? "; partial results are shown" : "");
    if (read && found.launches.n && !met)
        SAY(t, "%s: Nsight Compute measured %zu launches, none of the requested kernels", where,
            found.launches.n);
    else if (!met && rc < 0)
        SAY(t, "%s: Nsight Compute measured nothing before it ended", where);
    else if (!met)
        SAY(t,
            "%s: Nsight Compute measured nothing: no launch matched (the program may behave differently "
            "when it is run again, "
            "or open no NVTX range '%s' under ncu)%s%s",
            where, p->range ? p->range : "", words.len ? "; it says: " : "", words.buf);
    else if (met < p->kernels.n)
        SAY(t, "%s: Nsight Compute measured %zu of %zu kernels", where, met, p->kernels.n);
    ncu_free(&found);
    free_words(&w);
    strbuf_free(&words);
    return met > 0;
}

static bool profile_stages(const struct tools *t, const struct analysis *a, const char *ncu,
                           const struct ncu_plans *plans, const char *dir) {
    struct words files = { 0 };
    struct err err;
    for (size_t i = 0; i < plans->n && !interrupt_signal(); i++) {
        char *csv = xasprintf("%s/%zu-%s.csv", dir, i + 1, plans->v[i].stage ? plans->v[i].stage : "outside"),
             *log_path = xasprintf("%s/%zu.log", dir, i + 1);
        for (char *c = csv + strlen(dir) + 1; *c; c++)
            if (strchr("/ \\\n", *c)) *c = '_';
        bool ok = profile_stage(t, a, ncu, &plans->v[i], csv, log_path);
        if (ok) vec_push(&files, xstrdup(csv));
        free(csv);
        free(log_path);
    }
    bool any = files.n > 0;
    if (any && ncu_into_run((const char *const *)files.v, files.n, t->dir, &err) < 0) {
        SAY(t, "%s", err.msg);
        any = false;
    }
    free_words(&files);
    return any;
}

bool tools_ncu(const struct tools *t, const struct analysis *a) {
    const char *stage = t->o->stage;
    struct ncu_plans plans;
    char *ncu = tool_find("ncu"), *dir = NULL;
    bool any = false;
    ncu_plan_make(a, t->o->top ? t->o->top : TOP, stage, &plans);
    if (!ncu)
        SAY(t, NO_NCU);
    else if (!plans.n && stage)
        SAY(t, "Nsight Compute was not run: no kernel of a stage '%s' was recorded", stage);
    else if (!plans.n)
        SAY(t, "Nsight Compute was not run: no kernel was recorded");
    else if ((dir = make_folder(t, "ncu")))
        any = profile_stages(t, a, ncu, &plans, dir);
    ncu_plan_free(&plans);
    free(ncu);
    free(dir);
    return any;
}

/* ---- Nsight Systems */

#define SAVE_S 15.0 /* for a report after the time limit */

static bool holds_bytes(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && st.st_size > 0;
}

/* Samples and thread switches of the host, and calls of the C library, are left out: nsys needs minutes for
 * those of a Python program with many threads. It waits for the program only, not for processes that the
 * program leaves behind. */
static void nsys_command(const char *nsys, const char *base, char *const *argv, struct words *w) {
    const char *fixed[] = { nsys,         "profile", "--trace", "cuda,nvtx", "--sample",          "none",
                            "--cpuctxsw", "none",    "--wait",  "primary",   "--force-overwrite", "true",
                            "--output",   base,      NULL };
    add_words(w, fixed);
    add_program(w, argv);
}

bool tools_nsys(const struct tools *t) {
    char *nsys = tool_find("nsys"), *dir = nsys ? make_folder(t, "nsys") : NULL;
    bool kept = false;
    if (!nsys) SAY(t, NO_NSYS);
    if (dir) {
        struct words w = { 0 };
        struct err err;
        char *base = file_join(dir, "report"), *report = xasprintf("%s.nsys-rep", base),
             *raw = xasprintf("%s.qdstrm", base), *log_path = file_join(dir, "nsys.log");
        nsys_command(nsys, base, t->argv, &w);
        log_info("running it again under Nsight Systems");
        struct tool_run run = { .argv = w.v,
                                .set = t->set,
                                .log = log_path,
                                .input = t->input,
                                .limit_s = limit_s(t),
                                .save_s = SAVE_S };
        int rc = run_program(t, &run, &err);
        kept = holds_bytes(report);
        if (rc < 0) SAY(t, "%s%s", err.msg, kept ? "; its report is kept" : "");
        if (!kept)
            SAY(t, "Nsight Systems wrote no report%s",
                holds_bytes(raw)
                    ? ", only its raw data in nsys/report.qdstrm: this installation has no importer; open "
                      "the file with the nsys-ui of a complete one"
                    : " and no raw data; its output is in nsys/nsys.log");
        free_words(&w);
        free(base);
        free(report);
        free(raw);
        free(log_path);
    }
    free(nsys);
    free(dir);
    return kept;
}
