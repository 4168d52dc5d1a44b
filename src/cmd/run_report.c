#include "cmd/run_report.h"

#include <errno.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "base/log.h"
#include "base/util.h"
#include "base/vec.h"
#include "cmd/build_info.h"
#include "llm/gpus.h"
#include "report/report.h"
#include "timeline/timeline.h"

static size_t terminal_width(void) {
    struct winsize w;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col >= 40) return MIN(w.ws_col, 160);
    return 100;
}

static struct timeline *load(const char *dir, size_t *processes, struct err *err) {
    char *pattern = xasprintf("%s/trace/*.ipt", dir);
    glob_t found;
    struct timeline *tl = NULL;
    *processes = 0;
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            *processes += strcmp(file_basename(found.gl_pathv[i]), "nvml.ipt") != 0;
        if (*processes) tl = timeline_load((const char *const *)found.gl_pathv, found.gl_pathc, err);
    } else {
        err_set(err, "%s: no traces", pattern);
    }
    globfree(&found);
    free(pattern);
    return tl;
}

/* The datasheet's figures for the first GPU, where the table has it. */
static void fill_peak(const struct timeline *tl, struct analyze_input *input, struct report_input *in) {
    struct err ignored;
    for (size_t i = 0; i < tl->ndevices; i++) {
        const char *name = timeline_text(tl, tl->devices[i].name);
        const struct llm_gpu *g = tl->devices[i].kernel_count ? llm_gpu_find(name, &ignored) : NULL;
        if (!g) continue;
        input->peak_flops_per_s = llm_gpu_flop_per_s(g, LLM_BF16);
        input->peak_bytes_per_s = llm_gpu_bytes_per_s(g);
        input->peak_source = "datasheet, dense bf16";
        in->peak = (struct report_peak){ .device = name,
                                         .type = "bf16 dense",
                                         .source = "datasheet",
                                         .flops_per_s = input->peak_flops_per_s,
                                         .bytes_per_s = input->peak_bytes_per_s };
        return;
    }
}

static struct report_kv *env_rows(const struct env *e) {
    struct report_kv *rows = xcalloc(e->n + 1, sizeof *rows);
    for (size_t i = 0; i < e->n; i++)
        rows[i] = (struct report_kv){ e->v[i].group, e->v[i].key, e->v[i].value };
    return rows;
}

static int write_out(struct run_report *r, const struct timeline *tl, struct err *err) {
    struct analyze_input input = { .rules = r->rules,
                                   .nrules = r->nrules,
                                   .peak_flops_per_s = (double)NAN,
                                   .peak_bytes_per_s = (double)NAN };
    struct report_input in;
    struct analysis a;
    report_input_init(&in);
    fill_peak(tl, &input, &in);
    analyze_run(tl, &input, &a);
    struct report_kv *env = env_rows(r->env);
    in.run_id = r->run_id, in.title = r->title, in.command = r->command, in.version = build_version();
    in.started_wall_ns = r->started_wall_ns;
    in.analysis = &a, in.timeline = tl;
    in.env = env, in.nenv = r->env->n;
    in.problems = (const char *const *)r->problems.v, in.nproblems = r->problems.n;
    int rc = r->write_files ? report_write_all(r->dir, &in, err) : 0;
    if (r->print) {
        struct strbuf screen = STRBUF_INIT;
        report_terminal(&in, terminal_width(), &screen);
        fputs(screen.buf, stderr);
        strbuf_free(&screen);
    }
    free(env);
    analysis_free(&a);
    return rc;
}

int run_report(struct run_report *r, struct err *err) {
    struct timeline *tl = load(r->dir, &r->files, err);
    if (!tl) return r->files ? -1 : 0;
    r->kernels = tl->kernels.n + tl->copies.n;
    r->ranges = tl->ranges.n;
    r->tokens = tl->tokens.n;
    for (size_t i = 0; i < tl->nproblems; i++)
        problems_add(&r->problems, "%s", timeline_text(tl, tl->problems[i]));
    int rc = r->kernels || r->ranges ? write_out(r, tl, err) : 0;
    timeline_close(tl);
    return rc;
}
