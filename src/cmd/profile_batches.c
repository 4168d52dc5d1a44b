#include "cmd/profile_batches.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/interrupt.h"
#include "base/vec.h"
#include "cmd/command.h"
#include "report/bench_table.h"

#define DEFAULT_PROMPT 512
#define DEFAULT_NEW 128
#define MAX_BATCH 65536

struct sizes {
    uint64_t *v;
    size_t n, cap;
};

bool batches_asked(const struct batches_opts *o) {
    return o->prompt_tokens || o->new_tokens || o->batches || o->csv || o->json || o->chart;
}

/* "1,8,32" */
static bool parse_sizes(const char *text, struct sizes *out) {
    for (const char *p = text;;) {
        char *end;
        unsigned long v = *p >= '0' && *p <= '9' ? strtoul(p, &end, 10) : 0;
        if (v < 1 || v > MAX_BATCH || (*end && *end != ',')) return false;
        vec_push(out, (uint64_t)v);
        if (!*end) return true;
        p = end + 1;
    }
}

const char *batches_misused(const struct batches_opts *o) {
    struct sizes sizes = { 0 };
    bool good = !o->batches || parse_sizes(o->batches, &sizes);
    free(sizes.v);
    if (!good) return "-b expects batch sizes from 1 to 65536 separated by commas, as 1,8,32";
    if (o->csv && o->json) return "--csv and --json exclude each other";
    return NULL;
}

static int write_results(const struct bench *b, const struct batches_opts *o, struct err *err) {
    struct strbuf out = STRBUF_INIT, svg = STRBUF_INIT;
    if (o->csv)
        bench_csv(b, &out);
    else if (o->json)
        bench_json(b, &out);
    else
        bench_text(b, command_width(STDOUT_FILENO), &out);
    fputs(out.buf, stdout);
    if (o->chart) bench_svg(b, &svg);
    int rc = o->chart ? file_write_atomic(o->chart, svg.buf, svg.len, err) : 0;
    strbuf_free(&out);
    strbuf_free(&svg);
    return rc;
}

static uint64_t prompt_of(const struct batches_opts *o) {
    return o->prompt_tokens ? o->prompt_tokens : DEFAULT_PROMPT;
}

static uint64_t new_of(const struct batches_opts *o) { return o->new_tokens ? o->new_tokens : DEFAULT_NEW; }

void batches_plan_text(const struct profile_plan *p, const struct batches_opts *o, struct strbuf *out) {
    profile_plan_engine_text(p, out);
    strbuf_addf(out, "inputs    synthetic prompts of %" PRIu64 " tokens, %" PRIu64 " new tokens each\n",
                prompt_of(o), new_of(o));
    strbuf_addf(out, "timing    %" PRId64 " repeats per batch size: %s\n", p->s.repeats,
                o->batches ? o->batches : "1");
    strbuf_addstr(out, "output    a table; no run folder\n");
}

int batches_run(const struct profile_plan *p, const struct batches_opts *o) {
    struct sizes sizes = { 0 };
    struct device_peak peak;
    struct err err;
    parse_sizes(o->batches ? o->batches : "1", &sizes);
    interrupt_watch();
    device_peak_find(p, &peak);
    struct bench b = { .plan = p,
                       .peak = &peak,
                       .prompt_tokens = prompt_of(o),
                       .new_tokens = new_of(o),
                       .batches = sizes.v,
                       .nbatches = sizes.n };
    struct err written;
    int rc = bench_run(&b, &err), status = EXIT_DONE;
    size_t measured = 0;
    for (size_t i = 0; i < b.nbatches; i++) measured += b.rows[i].repeats > 0;
    if (measured || rc == 0) {
        if (write_results(&b, o, &written) < 0) status = command_fail(&written);
    }
    if (rc < 0) status = command_fail(&err);
    if (rc == 0 && !measured && !b.interrupted) status = EXIT_FAILED;
    if (b.interrupted) status = 128 + b.interrupted;
    interrupt_unwatch();
    bench_free(&b);
    free(sizes.v);
    return status;
}
