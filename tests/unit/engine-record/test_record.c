/* Operators and modules whose times a device measures (struct record_device). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/util.h"
#include "engine/record/record.h"
#include "trace/reader.h"
#include "unit/test.h"

/* A device whose kernels start 1000 ns after each other, from the time at which it was opened. */
static struct {
    size_t launched, taken;
    uint64_t start_ns, times[64];
} device;

static size_t mark(void *context) {
    (void)context;
    return device.launched;
}
static size_t take(void *context, const uint64_t **ns) {
    size_t n = device.launched + 1;
    (void)context;
    for (size_t i = 0; i < n; i++) device.times[i] = device.start_ns + (device.taken + i) * 1000;
    device.taken += device.launched;
    device.launched = 0;
    *ns = device.times;
    return n;
}

static void run_op(struct recorder *r, const char *name, int kernels) {
    uint64_t start = record_op_start(r);
    device.launched += (size_t)kernels;
    record_op_end(r, start, &(struct record_op){ .name = name, .kernel = "k", .flops = NAN, .bytes = NAN });
}

struct found {
    char name[24];
    uint64_t start_ns, end_ns;
    uint32_t depth;
};

static size_t read_ranges(const char *path, struct found *out, size_t most) {
    struct err err;
    struct trace_batch b = { 0 };
    struct trace_reader *r = trace_reader_open(path, &err);
    size_t n = 0;
    CHECK(r != NULL);
    CHECK_STR(trace_reader_meta(r, "device.0.kernel_ends"), "next start");
    for (size_t c = 0; c < trace_reader_chunks(r); c++) {
        CHECK_INT(trace_reader_decode(r, c, &b, &err), 0);
        CHECK(b.kind != TRACE_LAUNCH); /* nobody measured them */
        for (size_t i = 0; b.kind == TRACE_KERNEL && i < b.n; i++)
            CHECK(b.kernel[i].correlation == 0 && b.kernel[i].grid_x == 0);
        const struct trace_range *v = b.records;
        for (size_t i = 0; b.kind == TRACE_RANGE && i < b.n && n < most; i++, n++) {
            snprintf(out[n].name, sizeof out[n].name, "%s", trace_reader_string(r, v[i].name, NULL));
            out[n].start_ns = v[i].start_ns;
            out[n].end_ns = v[i].end_ns;
            out[n].depth = v[i].depth;
        }
    }
    trace_batch_free(&b);
    trace_reader_close(r);
    return n;
}

static const struct found *find(const struct found *v, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(v[i].name, name) == 0) return &v[i];
    return NULL;
}

TEST(record_uses_times_of_the_device) {
    char *dir = test_tmpdir(), *path = file_join(dir, "t.ipt");
    struct err err;
    struct record_info info = { .model = "m", .device = "d", .isa = "", .units = 1 };
    struct recorder *r = record_open(path, RECORD_OPERATORS, &info, &err);
    CHECK(r != NULL);
    record_set_device(r, &(struct record_device){ NULL, mark, take });
    CHECK(!record_needs_wait(r));
    record_push(r, RECORD_STAGES, "prefill", -1);
    uint64_t from = clock_wall_ns();
    device.launched = device.taken = 0;
    device.start_ns = from;
    record_push(r, RECORD_STAGES, "sam", -1);
    record_push(r, RECORD_MODULES, "layer.%d", 3);
    run_op(r, "first", 2);
    run_op(r, "second", 1);
    record_pop(r, RECORD_MODULES);
    record_pop(r, RECORD_STAGES);
    run_op(r, "third", 1);
    while (clock_wall_ns() < from + 10000) {} /* the kernels end after 4,000 ns */
    record_pop(r, RECORD_STAGES);
    record_op_ns(r, from + 4000, from + 4500, &(struct record_op){ .name = "late", .kernel = "k" });
    CHECK_INT(record_close(r, &err), 0);

    static const struct found want[] = { { "first", 0, 2000, 3 },    { "second", 2000, 3000, 3 },
                                         { "layer.3", 0, 3000, 2 },  { "sam", 0, 3000, 1 },
                                         { "third", 3000, 4000, 1 }, { "late", 4000, 4500, 1 } };
    struct found v[16];
    size_t n = read_ranges(path, v, COUNTOF(v));
    CHECK_INT(n, COUNTOF(want) + 1);
    for (size_t i = 0; i < COUNTOF(want); i++) {
        const struct found *f = find(v, n, want[i].name);
        CHECK(f != NULL);
        CHECK_INT(f->start_ns - from, want[i].start_ns);
        CHECK_INT(f->end_ns - from, want[i].end_ns);
        CHECK_INT(f->depth, want[i].depth);
    }
    const struct found *stage = find(v, n, "prefill");
    CHECK(stage && stage->start_ns < from + 4000 && stage->end_ns > from + 4000);
    free(path);
    free(dir);
}
