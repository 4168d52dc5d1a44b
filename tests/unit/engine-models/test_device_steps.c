/* How requests use decoding steps that run on a device, and what follows when the device runs out of memory:
 * the CPU backend with steps that return a fixed token. */
#include <string.h>

#include "base/util.h"
#include "engine/cpu/cpu.h"
#include "engine/internal.h"
#include "engine/ops/decode.h"
#include "unit/engine-models/fixture.h"
#include "unit/test.h"

enum { TOKEN = 7, MOST = 32 };

static struct {
    struct ops_backend backend; /* the CPU's with the steps of this file */
    struct tensor *(*alloc_cache)(void *context, size_t numbers, enum dtype type);
    int sequences, context, positions[MOST], tokens; /* tokens: that were taken */
    int opened, closed, prepared;
    bool refuse_cache, refuse_steps; /* no memory for these */
    bool failed;
} device;

/* ---- memory that runs out */
static int check(void *context, struct err *err) {
    (void)context;
    return device.failed ? err_set(err, "the device is out of memory") : 0;
}
static void recover(void *context) {
    (void)context;
    device.failed = false;
}
static struct tensor *alloc_cache(void *context, size_t numbers, enum dtype type) {
    size_t floats = (numbers * dtype_bytes(type) + 3) / 4;
    device.failed = device.failed || device.refuse_cache;
    return device.alloc_cache ? device.alloc_cache(context, numbers, type)
                              : device.backend.alloc(context, floats, TENSOR_ZERO);
}

/* ---- steps */
static void *open_steps(void *context, const struct decode_plan *plan) {
    (void)context;
    device.context = plan->max_context;
    device.opened++;
    device.failed = device.failed || device.refuse_steps;
    return device.failed ? NULL : &device;
}
static void close_steps(void *steps) { device.closed += steps != NULL; }
static void prepare(void *steps) { device.prepared += steps != NULL; }
static void begin_one(void *steps, const struct decode_start *start) {
    (void)steps;
    device.positions[0] = start->n - 1;
    device.sequences = 1;
}
static int portion(void *steps) { return steps ? 1 : 0; }
static void submit(void *steps, int n) {
    (void)steps;
    (void)n;
}
static void stop(void *steps) { (void)steps; }
static bool take_one(void *steps, uint32_t *token) {
    (void)steps;
    *token = TOKEN;
    device.tokens++;
    return !device.failed;
}
static size_t no_spans(void *steps, struct decode_span **spans) {
    (void)steps;
    *spans = NULL;
    return 0;
}
static const struct ops_decode_calls one = { .open = open_steps,
                                             .close = close_steps,
                                             .prepare = prepare,
                                             .begin = begin_one,
                                             .portion = portion,
                                             .submit = submit,
                                             .stop = stop,
                                             .take = take_one,
                                             .spans = no_spans };

static void *open_batch(void *context, const struct decode_plan *plan, int n) {
    device.sequences = n;
    return open_steps(context, plan);
}
static void begin_batch(void *batch, const uint32_t *tokens, const int *positions) {
    (void)batch;
    (void)tokens;
    memcpy(device.positions, positions, (size_t)device.sequences * sizeof *positions);
}
static bool take_batch(void *batch, uint32_t *tokens) {
    (void)batch;
    for (int i = 0; i < device.sequences; i++) tokens[i] = TOKEN;
    device.tokens++;
    return !device.failed;
}
static const struct ops_batch_calls several = { .open = open_batch,
                                                .close = close_steps,
                                                .begin = begin_batch,
                                                .submit = submit,
                                                .take = take_batch,
                                                .spans = no_spans };

static struct ops *open_device(struct threads *threads, int index, struct err *err) {
    (void)index;
    (void)err;
    struct ops *o = cpu_open(threads, NULL);
    memset(&device, 0, sizeof device);
    device.backend = *o->backend;
    device.alloc_cache = o->backend->alloc_cache;
    device.backend.alloc_cache = alloc_cache;
    device.backend.check = check;
    device.backend.recover = recover;
    device.backend.decode = &one;
    device.backend.batch = &several;
    o->backend = &device.backend;
    return o;
}
static const struct engine_backend backend = { .name = "cpu", .open = open_device };

/* ---- requests of the small Llama: prompts of these lengths */
static int request(struct engine *e, const int *lengths, int n, uint32_t new_tokens,
                   struct engine_result *out, struct err *err) {
    static uint32_t ids[64];
    struct token_ids list[MOST];
    for (int i = 0; i < n; i++) list[i] = (struct token_ids){ .v = ids, .n = (size_t)lengths[i] };
    return engine_infer(
        e,
        &(struct engine_request){
            .batch = list, .nbatch = (size_t)n, .max_new_tokens = new_tokens, .ignore_eos = true },
        out, err);
}
static void free_results(struct engine_result *r, int n) {
    for (int i = 0; i < n; i++) engine_result_free(&r[i]);
}
static struct engine *open_model(struct fixture *f, int max_context) {
    struct err err;
    fixture_open(f, "llama");
    const struct engine_load load = { .model = f->dir,
                                      .weights = "synthetic:1",
                                      .dtype = "f32",
                                      .max_context = max_context,
                                      .threads = 2,
                                      .backend = &backend };
    struct engine *e = engine_open(&load, &err);
    if (!e) fail_msg("%s", err.msg);
    return e;
}

TEST(steps_of_a_batch_stay_within_the_context) {
    enum { CONTEXT = 32 };
    struct fixture f;
    struct err err;
    struct engine_result out[2];
    struct engine *e = open_model(&f, CONTEXT);
    CHECK_INT(request(e, (const int[]){ CONTEXT, 3 }, 2, 4, out, &err), 0);
    CHECK_INT(out[0].stop, ENGINE_STOP_CONTEXT);
    CHECK_INT(out[0].ids.n, 1);
    CHECK_INT(out[1].ids.n, 4);
    CHECK_INT(device.context, CONTEXT);
    CHECK_INT(device.positions[0], CONTEXT - 1); /* it has stopped, but the steps compute it too */
    CHECK_INT(device.positions[1], 3);
    free_results(out, 2);
    engine_close(e);
    fixture_close(&f);
}

/* The cache, or the steps, of a batch do not fit: an error without any token. The next requests are
 * served. */
static void check_recovery(bool *refuse) {
    struct fixture f;
    struct err err;
    struct engine_result out[2];
    struct engine *e = open_model(&f, 64);
    static const int lengths[] = { 5, 3 };
    *refuse = true;
    CHECK_INT(request(e, lengths, 2, 4, out, &err), -1);
    CHECK_STR(err.msg, "the device is out of memory");
    CHECK_INT(device.tokens, 0);
    CHECK_INT(request(e, lengths, 2, 4, out, &err), -1);
    *refuse = false;
    CHECK_INT(request(e, lengths, 1, 4, out, &err), 0);
    CHECK_INT(out[0].ids.n, 4);
    CHECK_INT(out[0].ids.v[3], TOKEN);
    CHECK_INT(device.tokens, 3);
    free_results(out, 1);
    CHECK_INT(request(e, lengths, 2, 4, out, &err), 0);
    CHECK_INT(out[1].ids.v[3], TOKEN);
    free_results(out, 2);
    engine_close(e);
    CHECK(device.prepared > 0);
    fixture_close(&f);
}
TEST(a_batch_whose_cache_does_not_fit_is_an_error_and_the_next_one_is_served) {
    check_recovery(&device.refuse_cache);
}
TEST(a_batch_whose_steps_do_not_fit_is_an_error_and_the_next_one_is_served) {
    check_recovery(&device.refuse_steps);
}

/* A request of one sequence after a batch: the cache is another one, so its steps are opened again. */
TEST(steps_are_closed_before_they_are_opened_for_another_cache) {
    struct fixture f;
    struct err err;
    struct engine_result out[2];
    struct engine *e = open_model(&f, 64);
    static const int lengths[] = { 5, 3 };
    CHECK_INT(device.opened, 1);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(request(e, lengths, 1, 4, out, &err), 0);
        free_results(out, 1);
        CHECK_INT(request(e, lengths, 2, 4, out, &err), 0);
        free_results(out, 2);
    }
    CHECK_INT(device.opened, 4); /* at load, for two batches, and for the second request of one sequence */
    engine_close(e);
    CHECK_INT(device.closed, device.opened);
    fixture_close(&f);
}
