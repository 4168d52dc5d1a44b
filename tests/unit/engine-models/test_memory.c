/* When memory runs out, loading and requests end with an error, and the engine serves the next one. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc_guard.h"
#include "base/file.h"
#include "engine/internal.h"
#include "engine/protocol/protocol.h"
#include "unit/test.h"

#if defined(__SANITIZE_ADDRESS__)
#define CHECKS_LEAKS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CHECKS_LEAKS 1
#endif
#endif
#ifdef CHECKS_LEAKS
#include <sanitizer/lsan_interface.h>
#else
static void __lsan_disable(void) {}
static void __lsan_enable(void) {}
#endif

/* What a guarded call had allocated and not yet handed on is lost: it is not reported as leaked. */
static void fail_from_now(size_t n) {
    __lsan_disable();
    alloc_guard_fail_nth(n);
}

static void fail_no_more(void) {
    alloc_guard_fail_nth(0);
    __lsan_enable();
}

/* All of the first allocations, then fewer. */
static size_t next_step(size_t n) { return n + 1 + n / 6; }

TEST(loading_without_memory_is_an_error_at_any_allocation) {
    const struct engine_load load = { .device = "cpu", .threads = 2, .max_context = 64 };
    struct engine *e = NULL;
    struct err err;
    size_t n = 1, failed = 0;
    for (; !e; n = next_step(n)) {
        fail_from_now(n);
        e = engine_open(&load, &err);
        fail_no_more();
        if (e) break;
        CHECK(strstr(err.msg, "memory"));
        failed++;
    }
    CHECK(failed > 20);
    struct engine_result result;
    const uint32_t ids[] = { 0, 65, 66 };
    const struct engine_request r = { .ids = ids, .nids = 3, .max_new_tokens = 2, .ignore_eos = true };
    CHECK_INT(engine_infer(e, &r, &result, &err), 0);
    CHECK_INT(result.ids.n, 2);
    engine_result_free(&result);
    engine_close(e);
}

/* Fails at each allocation of the request in turn. At the end the engine gives the same answer as before,
 * and has the same number of tensors. */
static void check_request(struct engine *e, const struct engine_request *r, size_t least) {
    struct engine_result want, got;
    struct err err;
    if (engine_infer(e, r, &want, &err) < 0) fail_msg("%s", err.msg);
    size_t live = e->ops->live.n, failed = 0;
    for (size_t n = 1;; n = next_step(n)) {
        fail_from_now(n);
        int rc = engine_infer(e, r, &got, &err);
        fail_no_more();
        CHECK(e->ops->live.n <= live); /* fewer: the cache was being resized */
        CHECK(!e->ops->rec && !e->ops->on_step);
        if (r->trace) unlink(r->trace);
        if (rc == 0) break;
        CHECK(strstr(err.msg, "memory"));
        failed++;
    }
    CHECK(failed >= least);
    CHECK_INT(e->ops->live.n, live);
    CHECK_INT(got.ids.n, want.ids.n);
    CHECK_MEM(got.ids.v, want.ids.v, want.ids.n * sizeof *want.ids.v);
    engine_result_free(&want);
    engine_result_free(&got);
}

TEST(a_request_without_memory_is_an_error_and_the_next_one_is_served) {
    char *dir = test_tmpdir(), *trace = file_join(dir, "t.ipt");
    struct err err;
    struct engine *e = engine_open(&(struct engine_load){ .device = "cpu", .threads = 2 }, &err);
    const char *const images[] = { "samples/page-text.png" };
    const struct engine_request page = {
        .images = images, .nimages = 1, .max_new_tokens = 2, .ignore_eos = true, .image_mode = "tiny"
    };
    const struct engine_request text = { .prompt = "Hello",
                                         .prompt_len = 5,
                                         .max_new_tokens = 3,
                                         .ignore_eos = true,
                                         .no_repeat_ngram = 3,
                                         .detail = RECORD_OPERATORS,
                                         .trace = trace };
    CHECK(e);
    check_request(e, &page, 15);
    check_request(e, &text, 8);
    engine_close(e);
    free(trace);
    free(dir);
}

TEST(the_protocol_answers_an_error_when_memory_runs_out) {
    struct protocol *p = protocol_open("test", NULL);
    struct strbuf reply = STRBUF_INIT;
    static const char *const lines[] = {
        "{\"op\":\"load\",\"threads\":1,\"max_context\":64,\"id\":7}",
        "{\"op\":\"warmup\",\"prompt_ids\":[0,65],\"max_new_tokens\":2,\"id\":7}",
        "{\"op\":\"infer\",\"prompt_ids\":[0,65],\"max_new_tokens\":2,\"id\":7}",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        for (size_t n = 1, answered = 0; !answered; n = next_step(n)) {
            fail_from_now(n);
            CHECK(protocol_line(p, lines[i], strlen(lines[i]), &reply));
            fail_no_more();
            CHECK(strstr(reply.buf, "\"id\":7}") || strstr(reply.buf, "memory"));
            answered = !strstr(reply.buf, "\"error\":");
        }
    protocol_close(p);
    strbuf_free(&reply);
}
