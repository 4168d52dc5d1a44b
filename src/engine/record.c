#include "engine/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/hash.h"
#include "engine/nvtx.h"
#include "trace/writer.h"

enum { MAX_DEPTH = 64, CACHE = 1024 };

/* Texts of an operator, found again by its name and shape: formatting them each time would cost more than
 * the operator does in a small model. */
struct op_text {
    uint64_t key;
    uint32_t name, detail, kernel;
};

struct recorder {
    struct trace_writer *writer; /* NULL: NVTX only */
    enum record_detail detail;
    uint32_t thread, domain, launch_api, blocks;
    bool no_shapes;
    struct open_range {
        uint64_t start_ns;
        uint32_t name;
        enum record_detail level;
    } open[MAX_DEPTH];
    uint32_t depth;
    uint64_t correlation;
    struct op_text cache[CACHE];
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

struct recorder *record_open(const char *path, enum record_detail detail, const struct record_info *info,
                             struct err *err) {
    struct recorder *r = xcalloc(1, sizeof *r);
    r->detail = detail;
    r->thread = (uint32_t)gettid();
    r->blocks = (uint32_t)info->threads;
    r->no_shapes = info->no_shapes;
    nvtx_attach();
    if (!path) return r;
    r->writer = trace_writer_open(path, NULL, err);
    if (!r->writer) {
        free(r);
        return NULL;
    }
    write_meta(r, info);
    r->domain = trace_writer_str(r->writer, "inferprof");
    r->launch_api = trace_writer_str(r->writer, "threads_run");
    return r;
}

int record_close(struct recorder *r, struct err *err) {
    if (!r) return 0;
    while (r->depth > 0) record_pop(r, RECORD_STAGES); /* of a request that failed half-way */
    int rc = r->writer ? trace_writer_close(r->writer, err) : 0;
    free(r);
    return rc;
}

void record_push(struct recorder *r, enum record_detail level, const char *name, int index) {
    if (!r || level > r->detail || r->depth == MAX_DEPTH) return;
    char text[128];
    snprintf(text, sizeof text, name, index);
    nvtx_push(text);
    r->open[r->depth++] = (struct open_range){ clock_wall_ns(), trace_writer_str(r->writer, text), level };
}

void record_pop(struct recorder *r, enum record_detail level) {
    if (!r || level > r->detail || r->depth == 0) return;
    const struct open_range *o = &r->open[--r->depth];
    nvtx_pop();
    struct trace_range range = { .start_ns = o->start_ns,
                                 .end_ns = clock_wall_ns(),
                                 .thread = r->thread,
                                 .depth = r->depth,
                                 .category =
                                     o->level == RECORD_STAGES ? TRACE_CATEGORY_STAGE : TRACE_CATEGORY_MODULE,
                                 .domain = r->domain,
                                 .name = o->name,
                                 .flops = NAN,
                                 .bytes = NAN,
                                 .payload = NAN };
    trace_writer_range(r->writer, &range, 1);
}

uint64_t record_op_start(struct recorder *r) {
    return r && r->detail >= RECORD_OPERATORS ? clock_wall_ns() : 0;
}

static void add_detail(const struct record_op *op, char *out, size_t cap) {
    const char *type = dtype_name(op->type);
    if (strncmp(op->kernel, "attention", 9) == 0)
        snprintf(out, cap, "q[%ld,%ld]f32 kv[%ld,%ld]f32", op->m, op->k, op->n, op->k);
    else if (op->k)
        snprintf(out, cap, "x[%ld,%ld]f32 w[%ld,%ld]%s", op->m, op->k, op->n, op->k, type);
    else if (op->n)
        snprintf(out, cap, "x[%ld,%ld]f32", op->m, op->n);
    else
        snprintf(out, cap, "x[%ld]f32", op->m);
}

static const struct op_text *texts(struct recorder *r, const struct record_op *op) {
    const uint64_t id[] = { (uint64_t)(uintptr_t)op->name,
                            (uint64_t)(uintptr_t)op->kernel,
                            (uint64_t)op->m,
                            (uint64_t)op->n,
                            (uint64_t)op->k,
                            (uint64_t)op->type };
    uint64_t key = hash_bytes(id, sizeof id) | 1;
    struct op_text *t = &r->cache[key >> 32 & (CACHE - 1)];
    if (t->key == key) return t;
    char text[160];
    t->key = key;
    t->name = trace_writer_str(r->writer, op->name);
    if (!r->no_shapes) add_detail(op, text, sizeof text);
    t->detail = r->no_shapes ? 0 : trace_writer_str(r->writer, text);
    snprintf(text, sizeof text, "%s_%s", op->kernel, dtype_name(op->type));
    t->kernel = trace_writer_str(r->writer, text);
    return t;
}

void record_op_end(struct recorder *r, uint64_t start_ns, const struct record_op *op) {
    if (!start_ns || !r->writer) return;
    uint64_t end_ns = clock_wall_ns(), id = ++r->correlation;
    const struct op_text *t = texts(r, op);
    struct trace_range range = { .start_ns = start_ns,
                                 .end_ns = end_ns,
                                 .thread = r->thread,
                                 .depth = r->depth,
                                 .category = TRACE_CATEGORY_OP,
                                 .domain = r->domain,
                                 .name = t->name,
                                 .detail = t->detail,
                                 .flops = op->flops,
                                 .bytes = op->bytes,
                                 .payload = NAN };
    struct trace_launch launch = {
        .start_ns = start_ns, .end_ns = start_ns, .correlation = id, .thread = r->thread, .api = r->launch_api
    };
    struct trace_kernel kernel = { .start_ns = start_ns,
                                   .end_ns = end_ns,
                                   .correlation = id,
                                   .name = t->kernel,
                                   .grid_x = r->blocks,
                                   .grid_y = 1,
                                   .grid_z = 1,
                                   .block_x = 1,
                                   .block_y = 1,
                                   .block_z = 1 };
    trace_writer_range(r->writer, &range, 1);
    trace_writer_launch(r->writer, &launch, 1);
    trace_writer_kernel(r->writer, &kernel, 1);
}

void record_tokens(struct recorder *r, uint64_t request, uint32_t count, int made) {
    if (!r) return;
    struct trace_token t = { .time_ns = clock_wall_ns(),
                             .request = request,
                             .count = count,
                             .token_kind = made ? TRACE_TOKEN_MADE : TRACE_TOKEN_CONSUMED,
                             .thread = r->thread };
    trace_writer_token(r->writer, &t, 1);
}
