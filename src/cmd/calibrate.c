/* `inferprof calibrate`: measures the peaks of this CPU, for `profile`, and the read bandwidth of GPUs, for
 * reports. Caches stable results. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/jsonw.h"
#include "base/log.h"
#include "base/schema.h"
#include "base/units.h"
#include "base/util.h"
#include "cmd/commands.h"
#include "llm/gpus.h"
#include "session/cpu_peak.h"
#include "session/gpu_peak.h"

struct calibrate_opts {
    bool cached, cached_cpu, json;
};

static const struct opt options[] = {
    { 0, "cached", OPT_FLAG, offsetof(struct calibrate_opts, cached), NULL,
      "print cached peaks; measure the CPU only if there are none", NULL },
    { 0, "cached-cpu", OPT_FLAG, offsetof(struct calibrate_opts, cached_cpu), NULL,
      "print the cached peaks of the CPU, but measure the GPUs", NULL },
    { 0, "json", OPT_FLAG, offsetof(struct calibrate_opts, json), NULL, "print JSON", NULL },
};

static void cpu_json(struct jsonw *j, const struct cpu_peak *p) {
    jsonw_kstr(j, "cpu", p->cpu);
    jsonw_ku64(j, "threads", p->threads);
    jsonw_kstr(j, "kernel", p->kernel);
    jsonw_knum(j, "flops_per_s", p->flops_per_s);
    jsonw_kstr(j, "bf16_kernel", *p->bf16_kernel ? p->bf16_kernel : NULL);
    jsonw_knum(j, "bf16_flops_per_s", p->bf16_flops_per_s > 0 ? p->bf16_flops_per_s : NAN);
    jsonw_knum(j, "bytes_per_s", p->bytes_per_s);
    jsonw_karray(j, "levels");
    for (size_t i = 0; i < p->levels.n; i++) {
        jsonw_object(j);
        jsonw_kstr(j, "level", p->levels.v[i].name);
        jsonw_knum(j, "bytes", p->levels.v[i].bytes);
        jsonw_knum(j, "bytes_per_s", p->levels.v[i].bytes_per_s);
        jsonw_end(j);
    }
    jsonw_end(j);
    jsonw_kbool(j, "cached", p->cached);
    jsonw_kbool(j, "kept", p->kept);
    jsonw_knum(j, "spread", p->cached ? (double)NAN : p->spread);
    jsonw_knum(j, "cpu_share", p->cached ? (double)NAN : p->cpu_share);
}

/* NaN: the GPU is not in the table */
static double of_datasheet(const struct gpu_peak *p) {
    struct err ignored;
    const struct llm_gpu *g = llm_gpu_find(p->name, &ignored);
    return g ? p->bytes_per_s / llm_gpu_bytes_per_s(g) : NAN;
}

static void gpus_json(struct jsonw *j, const struct gpu_peaks *gpus, const char *problem) {
    jsonw_karray(j, "gpus");
    for (size_t i = 0; i < gpus->n; i++) {
        const struct gpu_peak *p = &gpus->v[i];
        jsonw_object(j);
        jsonw_kstr(j, "name", p->name);
        jsonw_knum(j, "l2_bytes", p->l2_bytes > 0 ? p->l2_bytes : NAN);
        jsonw_knum(j, "read_bytes_per_s", p->bytes_per_s);
        jsonw_knum(j, "share_of_datasheet", of_datasheet(p));
        jsonw_karray(j, "reads");
        for (size_t k = 0; k < p->nreads; k++) {
            jsonw_object(j);
            jsonw_knum(j, "bytes", p->reads[k].bytes);
            jsonw_knum(j, "bytes_per_s", p->reads[k].bytes_per_s);
            jsonw_end(j);
        }
        jsonw_end(j);
        jsonw_kstr(j, "problem", *p->problem ? p->problem : NULL);
        jsonw_end(j);
    }
    jsonw_end(j);
    jsonw_kstr(j, "gpu_problem", problem);
}

static void print_json(const struct cpu_peak *p, const struct gpu_peaks *gpus, const char *gpu_problem) {
    struct strbuf out = STRBUF_INIT;
    struct jsonw j;
    jsonw_start(&j, &out, JSONW_PRETTY);
    jsonw_object(&j);
    jsonw_kstr(&j, "schema", SCHEMA_CALIBRATE);
    cpu_json(&j, p);
    gpus_json(&j, gpus, gpu_problem);
    jsonw_end(&j);
    jsonw_finish(&j);
    fputs(out.buf, stdout);
    strbuf_free(&out);
}

static void print_product(const char *type, const char *kernel, double flops_per_s) {
    printf("  %s products, %-*s%.1f GFLOP/s\n", type, (int)(16 - strlen(type)), kernel, flops_per_s * 1e-9);
}

static void print_cpu(const struct cpu_peak *p) {
    char bytes[32], level[32];
    printf("%s, %u cores%s\n", p->cpu, p->threads, p->cached ? " (from the cache)" : "");
    print_product("f32", p->kernel, p->flops_per_s);
    if (p->bf16_flops_per_s > 0) print_product("bf16", p->bf16_kernel, p->bf16_flops_per_s);
    if (!p->levels.n)
        printf(
            "  reading memory             %s/s (cached by an older version; run calibrate again to measure "
            "the caches)\n",
            units_bytes(p->bytes_per_s, bytes, sizeof bytes));
    for (size_t i = 0; i < p->levels.n; i++)
        printf("  reading %-19s%s/s\n", llm_level_text(&p->levels.v[i], level, sizeof level),
               units_bytes(p->levels.v[i].bytes_per_s, bytes, sizeof bytes));
    char *path = cpu_peak_cache_path();
    if (p->kept)
        printf("cached in %s\n", path);
    else if (cpu_peak_is_stable(p))
        log_warn("not cached: %s cannot be written", path ? path : "neither XDG_CACHE_HOME nor HOME is set");
    free(path);
}

static void print_kept(const struct gpu_peaks *gpus) {
    char *path = gpu_peak_cache_path();
    bool stable = false;
    for (size_t i = 0; i < gpus->n; i++) {
        stable |= gpu_peak_is_stable(&gpus->v[i]);
        if (gpus->v[i].nreads && !gpu_peak_is_stable(&gpus->v[i]))
            log_warn(
                "%s is busy: the best two rounds differ by %.1f%%. Its bandwidth may be too low and is not "
                "cached; try again when it is idle",
                gpus->v[i].name, gpus->v[i].spread * 100);
    }
    if (stable && gpu_peaks_keep(gpus))
        printf("cached in %s: reports show it beside the datasheet's bandwidth\n", path);
    else if (stable)
        log_warn("not cached: %s cannot be written", path ? path : "neither XDG_CACHE_HOME nor HOME is set");
    free(path);
}

static void print_gpus(const struct gpu_peaks *gpus, const char *problem, bool cached) {
    char bytes[32], rate[32];
    if (problem) printf("GPU: not measured: %s\n", problem);
    for (size_t i = 0; i < gpus->n; i++) {
        const struct gpu_peak *p = &gpus->v[i];
        printf("%s%s\n", p->name, cached ? " (from the cache)" : "");
        if (*p->problem) printf("  not measured: %s\n", p->problem);
        for (size_t k = 0; k < p->nreads; k++)
            printf("  reading %-5s %-12s%s/s\n", p->reads[k].bytes <= p->l2_bytes ? "L2," : "DRAM,",
                   units_bytes(p->reads[k].bytes, bytes, sizeof bytes),
                   units_bytes(p->reads[k].bytes_per_s, rate, sizeof rate));
        if (isfinite(of_datasheet(p)))
            printf("  %.1f%% of the datasheet's bandwidth; set peak.gbps=%.0f to use the measured one\n",
                   100 * of_datasheet(p), p->bytes_per_s / 1e9);
        else if (!*p->problem)
            printf("  not in the table of GPUs; set peak.gbps=%.0f to use the measured bandwidth\n",
                   p->bytes_per_s / 1e9);
    }
    if (!cached) print_kept(gpus);
}

static int run_calibrate(const void *opts, int argc, char **argv) {
    const struct calibrate_opts *o = opts;
    static struct gpu_peaks gpus;
    struct cpu_peak p;
    struct err err, gpu_err = { 0 };
    (void)argc;
    (void)argv;
    if (cpu_peak_get(&p, !o->cached && !o->cached_cpu, &err) < 0) return command_fail(&err);
    if (!p.cached && !cpu_peak_is_stable(&p))
        log_warn("this machine is busy: the threads got %.0f%% of their cores, the best rounds differ by "
                 "%.1f%%. The peaks may be too low and are not cached; try again when it is idle",
                 p.cpu_share * 100, p.spread * 100);
    const char *gpu_problem = NULL;
    if (o->cached)
        gpu_peaks_cached(&gpus);
    else if (gpu_peaks_measure(&gpus, &gpu_err) < 0)
        gpu_problem = gpu_err.msg;
    if (o->json) {
        if (!o->cached) gpu_peaks_keep(&gpus);
        print_json(&p, &gpus, gpu_problem);
        return EXIT_DONE;
    }
    print_cpu(&p);
    print_gpus(&gpus, gpu_problem, o->cached);
    return EXIT_DONE;
}

const struct command cmd_calibrate = {
    .name = "calibrate",
    .args = "",
    .summary = "measure the peak performance of this CPU and the read bandwidth of GPUs",
    .details =
        "Measures a single-precision matrix product, and reading working sets from 256 KiB to 512 MiB, "
        "on all usable\ncores, in CPU time. Repeats the measurement three to nine times, until the best "
        "two results agree. On a busy\nmachine it warns and does not cache the result. `profile` "
        "measures the CPU once automatically. On GPUs it reads\nbuffers that fit into the L2 cache and "
        "larger ones, and caches the bandwidth: later reports show it beside the\nbandwidth of the "
        "datasheet.",
    .opts = options,
    .nopts = COUNTOF(options),
    .opts_bytes = sizeof(struct calibrate_opts),
    .run = run_calibrate,
};
