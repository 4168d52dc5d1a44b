/* `inferprof calibrate`: measures the peak performance of this CPU and caches it for `profile`. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/jsonw.h"
#include "base/log.h"
#include "base/units.h"
#include "base/util.h"
#include "cmd/commands.h"
#include "session/cpu_peak.h"

struct calibrate_opts {
    bool cached, json;
};

static const struct opt options[] = {
    { 0, "cached", OPT_FLAG, offsetof(struct calibrate_opts, cached), NULL,
      "print the cached peaks; measure only if there are none", NULL },
    { 0, "json", OPT_FLAG, offsetof(struct calibrate_opts, json), NULL, "print JSON", NULL },
};

static void print_json(const struct cpu_peak *p) {
    struct strbuf out = STRBUF_INIT;
    struct jsonw j;
    jsonw_start(&j, &out, JSONW_PRETTY);
    jsonw_object(&j);
    jsonw_kstr(&j, "cpu", p->cpu);
    jsonw_ku64(&j, "threads", p->threads);
    jsonw_kstr(&j, "kernel", p->kernel);
    jsonw_knum(&j, "flops_per_s", p->flops_per_s);
    jsonw_knum(&j, "bytes_per_s", p->bytes_per_s);
    jsonw_kbool(&j, "cached", p->cached);
    jsonw_kbool(&j, "kept", p->kept);
    jsonw_knum(&j, "spread", p->cached ? (double)NAN : p->spread);
    jsonw_knum(&j, "cpu_share", p->cached ? (double)NAN : p->cpu_share);
    jsonw_end(&j);
    jsonw_finish(&j);
    fputs(out.buf, stdout);
    strbuf_free(&out);
}

static int run_calibrate(const void *opts, int argc, char **argv) {
    const struct calibrate_opts *o = opts;
    struct cpu_peak p;
    struct err err;
    char bytes[32];
    (void)argc;
    (void)argv;
    if (cpu_peak_get(&p, !o->cached, &err) < 0) return command_fail(&err);
    if (!p.cached && !cpu_peak_is_stable(&p))
        log_warn("this machine is busy: the threads got %.0f%% of their cores, the best rounds differ by "
                 "%.1f%%. The peaks may be too low and are not cached; try again when it is idle",
                 p.cpu_share * 100, p.spread * 100);
    if (o->json) {
        print_json(&p);
        return EXIT_DONE;
    }
    char *path = cpu_peak_cache_path();
    printf("%s, %u cores%s\n  matrix product (f32, %s)  %.1f GFLOP/s\n  reading memory            %s/s\n",
           p.cpu, p.threads, p.cached ? " (from the cache)" : "", p.kernel, p.flops_per_s * 1e-9,
           units_bytes(p.bytes_per_s, bytes, sizeof bytes));
    if (p.kept)
        printf("cached in %s\n", path);
    else if (cpu_peak_is_stable(&p))
        log_warn("cannot write %s: the peaks are not cached",
                 path ? path : "neither XDG_CACHE_HOME nor HOME is set");
    free(path);
    return EXIT_DONE;
}

const struct command cmd_calibrate = {
    .name = "calibrate",
    .args = "",
    .summary = "measure the peak performance of this CPU, for MFU and MBU",
    .details = "Measures a single-precision matrix product and memory reads on all usable cores, in CPU "
               "time: the best of\n"
               "three to nine rounds, until two agree. On a busy machine it warns and does not cache the "
               "result. `profile` runs\n"
               "this once automatically. Peaks of GPUs come from the table of `inferprof static`.",
    .opts = options,
    .nopts = COUNTOF(options),
    .opts_bytes = sizeof(struct calibrate_opts),
    .run = run_calibrate,
};
