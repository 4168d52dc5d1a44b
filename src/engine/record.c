#include "engine/record.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "engine/nvtx.h"
#include "engine/record_texts.h"
#include "trace/writer.h"

enum { MAX_DEPTH = 64, BATCH = 64 };

struct recorder {
    struct trace_writer *writer; /* NULL: NVTX only */
    struct record_texts *texts;
    enum record_detail detail;
    uint32_t thread, domain;
    struct open_range {
        uint64_t start_ns;
        uint32_t name;
        enum record_detail level;
    } open[MAX_DEPTH];
    uint32_t depth;
    uint64_t correlation;
    /* What ended lately. The writer takes it by the batch: its locks cost as much as an operator's clocks. What is
     * the same in all launches and kernels was filled in at the start. */
    struct trace_range ranges[BATCH];
    struct trace_launch launches[BATCH];
    struct trace_kernel kernels[BATCH];
    size_t nranges, nops;
};

static void write_meta(struct recorder *r, const struct record_info *info) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    trace_writer_meta(r->writer, "clock", "unix");
    trace_writer_meta(r->writer, "source", "engine");
    trace_writer_meta(r->writer, "process.pid", "%d", (int)getpid());
    trace_writer_meta(r->writer, "process.command", "inferprof engine");
    trace_writer_meta(r->writer, "host", "%s", host);
    trace_writer_meta(r->writer, "device.0.name", "cpu");
    trace_writer_meta(r->writer, "device.0.sms", "%d", info->threads);
    trace_writer_meta(r->writer, "setting.isa", "%s", info->device);
    trace_writer_meta(r->writer, "model.name", "%s", info->model);
}

static void fill_batch(struct recorder *r, const struct record_info *info) {
    uint32_t api = trace_writer_str(r->writer, "threads_run");
    for (size_t i = 0; i < BATCH; i++) {
        r->launches[i] = (struct trace_launch){ .thread = r->thread, .api = api };
        r->kernels[i] = (struct trace_kernel){ .grid_x = (uint32_t)info->threads,
                                               .grid_y = 1,
                                               .grid_z = 1,
                                               .block_x = 1,
                                               .block_y = 1,
                                               .block_z = 1 };
    }
}

struct recorder *record_open(const char *path, enum record_detail detail, const struct record_info *info,
                             struct err *err) {
    struct recorder *r = xcalloc(1, sizeof *r);
    r->detail = detail;
    r->thread = (uint32_t)gettid();
    nvtx_attach();
    if (!path) return r;
    r->writer = trace_writer_open(path, NULL, err);
    if (!r->writer) {
        free(r);
        return NULL;
    }
    write_meta(r, info);
    r->texts = record_texts_open(r->writer);
    r->domain = trace_writer_str(r->writer, "inferprof");
    fill_batch(r, info);
    return r;
}

static void flush(struct recorder *r) {
    trace_writer_range(r->writer, r->ranges, r->nranges);
    trace_writer_launch(r->writer, r->launches, r->nops);
    trace_writer_kernel(r->writer, r->kernels, r->nops);
    r->nranges = r->nops = 0;
}

static void add_range(struct recorder *r, const struct trace_range *range) {
    if (r->nranges == BATCH) flush(r);
    r->ranges[r->nranges++] = *range;
}

int record_close(struct recorder *r, struct err *err) {
    if (!r) return 0;
    while (r->depth > 0) record_pop(r, RECORD_STAGES); /* of a request that failed half-way */
    flush(r);
    int rc = r->writer ? trace_writer_close(r->writer, err) : 0;
    record_texts_close(r->texts);
    free(r);
    return rc;
}

static void push_nvtx(const char *name, int index) {
    char text[128];
    snprintf(text, sizeof text, name, index);
    nvtx_push(text);
}

void record_push(struct recorder *r, enum record_detail level, const char *name, int index) {
    if (!r || level > r->detail || r->depth == MAX_DEPTH) return;
    if (nvtx_attached()) push_nvtx(name, index);
    uint32_t text = r->writer ? record_texts_range(r->texts, name, index) : 0;
    r->open[r->depth++] = (struct open_range){ clock_wall_ns(), text, level };
}

void record_pop(struct recorder *r, enum record_detail level) {
    if (!r || level > r->detail || r->depth == 0) return;
    const struct open_range *o = &r->open[--r->depth];
    bool stage = o->level == RECORD_STAGES;
    nvtx_pop();
    if (!r->writer) return;
    add_range(r, &(struct trace_range){ .start_ns = o->start_ns,
                                        .end_ns = clock_wall_ns(),
                                        .thread = r->thread,
                                        .depth = r->depth,
                                        .category = stage ? TRACE_CATEGORY_STAGE : TRACE_CATEGORY_MODULE,
                                        .domain = r->domain,
                                        .name = o->name,
                                        .flops = NAN,
                                        .bytes = NAN,
                                        .payload = NAN });
    if (stage) flush(r); /* what a crash in a later stage must not take along */
}

uint64_t record_op_start(struct recorder *r) {
    return r && r->writer && r->detail >= RECORD_OPERATORS ? clock_wall_ns() : 0;
}

void record_op_end(struct recorder *r, uint64_t start_ns, const struct record_op *op) {
    if (!start_ns) return;
    uint64_t end_ns = clock_wall_ns(), id = ++r->correlation;
    const struct record_text *t = record_texts_find(r->texts, op);
    if (r->nops == BATCH) flush(r);
    struct trace_launch *launch = &r->launches[r->nops];
    struct trace_kernel *kernel = &r->kernels[r->nops++];
    launch->start_ns = launch->end_ns = kernel->start_ns = start_ns;
    kernel->end_ns = end_ns;
    launch->correlation = kernel->correlation = id;
    kernel->name = t->kernel;
    add_range(r, &(struct trace_range){ .start_ns = start_ns,
                                        .end_ns = end_ns,
                                        .thread = r->thread,
                                        .depth = r->depth,
                                        .category = TRACE_CATEGORY_OP,
                                        .domain = r->domain,
                                        .name = t->name,
                                        .detail = t->detail,
                                        .flops = op->flops,
                                        .bytes = op->bytes,
                                        .payload = NAN });
}

void record_tokens(struct recorder *r, uint64_t request, uint32_t count, int made) {
    if (!r || !r->writer) return;
    struct trace_token t = { .time_ns = clock_wall_ns(),
                             .request = request,
                             .count = count,
                             .token_kind = made ? TRACE_TOKEN_MADE : TRACE_TOKEN_CONSUMED,
                             .thread = r->thread };
    trace_writer_token(r->writer, &t, 1);
}
