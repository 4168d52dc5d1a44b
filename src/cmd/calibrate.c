/* `inferprof calibrate`: measures this CPU's peaks and keeps them for `profile`. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/jsonw.h"
#include "base/units.h"
#include "base/util.h"
#include "cmd/commands.h"
#include "session/cpu_peak.h"

struct calibrate_opts {
    bool cached, json;
};

static const struct opt options[] = {
    { 0, "cached", OPT_FLAG, offsetof(struct calibrate_opts, cached), NULL,
      "show what is kept; measure only if nothing is", NULL },
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
    jsonw_end(&j);
    jsonw_finish(&j);
    fputs(out.buf, stdout);
    strbuf_free(&out);
}

static int run(const void *opts, int argc, char **argv) {
    const struct calibrate_opts *o = opts;
    struct cpu_peak p;
    struct err err;
    char bytes[32];
    (void)argc, (void)argv;
    if (cpu_peak_get(&p, !o->cached, &err) < 0) return command_fail(&err);
    if (o->json) {
        print_json(&p);
        return EXIT_DONE;
    }
    char *path = cpu_peak_cache_path();
    printf("%s, %u cores%s\n  matrix product (f32, %s)  %.1f GFLOP/s\n  reading memory            %s/s\n",
           p.cpu, p.threads, p.cached ? " (kept from an earlier measurement)" : "", p.kernel,
           p.flops_per_s * 1e-9, units_bytes(p.bytes_per_s, bytes, sizeof bytes));
    if (path) printf("kept in %s\n", path);
    free(path);
    return EXIT_DONE;
}

const struct command cmd_calibrate = {
    .name = "calibrate",
    .args = "",
    .summary = "measure what this CPU can do, for MFU and MBU",
    .details =
        "A single-precision matrix product and a sweep through memory on all usable cores, best of three rounds, by time on\n"
        "the cores. `profile` does this once by itself. For GPUs the peaks come from the table of `inferprof static`.",
    .opts = options,
    .nopts = COUNTOF(options),
    .opts_bytes = sizeof(struct calibrate_opts),
    .run = run,
};
