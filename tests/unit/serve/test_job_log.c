#include <stdio.h>
#include <string.h>

#include "serve/job_log.h"
#include "unit/test.h"

/* The events of a log from *position on. */
static void read_events(const void *log, size_t n, long *position, struct strbuf *out) {
    FILE *f = tmpfile();
    CHECK(f && fwrite(log, 1, n, f) == n);
    strbuf_reset(out);
    job_log_events(f, position, out);
    fclose(f);
}

/* The n bytes of the log, which are complete lines, give these events. */
static void check_events(const char *log, size_t n, const char *want) {
    struct strbuf out = STRBUF_INIT;
    long position = 0;
    read_events(log, n, &position, &out);
    CHECK_STR(out.buf, want);
    CHECK_INT(position, n);
    strbuf_free(&out);
}

TEST(lines_of_a_job_are_events) {
    static const char log[] = "loading\nprogress: timing 3 of 40 repeats\nprogress: writing\n\nprogress\n";
    check_events(
        log, sizeof log - 1,
        "event: log\ndata: loading\n\n"
        "event: progress\ndata: {\"what\":\"timing\",\"done\":3,\"total\":40,\"unit\":\"repeats\"}\n\n"
        "event: progress\ndata: {\"what\":\"writing\"}\n\n"
        "event: log\ndata: \n\nevent: log\ndata: progress\n\n");
}

TEST(of_a_line_that_a_job_draws_several_times_the_last_text_is_sent) {
    static const char log[] = "\r10%\r20%\r\n30%\rdone\nend\r\n";
    check_events(log, sizeof log - 1,
                 "event: log\ndata: 20%\n\nevent: log\ndata: done\n\nevent: log\ndata: end\n\n");
}

TEST(an_incomplete_line_of_a_job_is_sent_when_it_is_complete) {
    static const char log[] = "one\nprogress: timing 3 of 40 repeats\rtwo\n";
    const size_t half = sizeof log - 1 - 2;
    struct strbuf out = STRBUF_INIT;
    long position = 0;
    read_events(log, half, &position, &out);
    CHECK(strstr(out.buf, "timing") && !strstr(out.buf, "tw"));
    read_events(log, sizeof log - 1, &position, &out);
    CHECK_STR(out.buf, "event: log\ndata: two\n\n");
    strbuf_free(&out);
}

/* A line with NUL was never complete, and the lines after it were not sent. */
TEST(a_line_of_a_job_may_contain_nul) {
    static const char log[] = "a\0b\nnext\n";
    check_events(log, sizeof log - 1,
                 "event: log\ndata: a\xef\xbf\xbd"
                 "b\n\nevent: log\ndata: next\n\n");
}

TEST(a_long_line_of_a_job_is_split) {
    char log[3000];
    struct strbuf out = STRBUF_INIT;
    long position = 0;
    memset(log, 'x', sizeof log);
    log[sizeof log - 1] = '\n';
    read_events(log, sizeof log, &position, &out);
    CHECK_INT(position, sizeof log);
    CHECK_INT(out.len, sizeof log - 1 + 2 * strlen("event: log\ndata: \n\n"));
    strbuf_free(&out);
}
