#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "import/json_pull.h"
#include "import/json_scan.h"
#include "unit/test.h"

struct text_source {
    const char *p;
    size_t left, step; /* returns at most `step` bytes per call */
};

static size_t text_fill(void *source, char *buf, size_t cap) {
    struct text_source *s = source;
    size_t n = s->left < s->step ? s->left : s->step;
    if (n > cap) n = cap;
    memcpy(buf, s->p, n);
    s->p += n;
    s->left -= n;
    return n;
}

/* Tokens as one line: {"a":1} gives "{ k:a n:1 }". */
static void tokens(const char *text, size_t window, size_t step, struct strbuf *out) {
    struct text_source src = { text, strlen(text), step };
    struct json_pull *j = json_pull_open(text_fill, &src, window);
    for (;;) {
        enum json_token tok = json_pull_next(j);
        static const char marks[] = "?{}[]ksnTFN";
        if (tok <= JSON_END) {
            strbuf_addf(out, "%s%s", tok == JSON_ERROR ? "!" : ".", j->cut_short ? "cut" : "");
            break;
        }
        strbuf_addch(out, marks[tok]);
        if (tok == JSON_KEY || tok == JSON_STRING || tok == JSON_NUMBER) {
            strbuf_addch(out, ':');
            strbuf_add(out, j->text, j->len);
        }
        strbuf_addch(out, ' ');
    }
    json_pull_close(j);
}

static void check_tokens(const char *text, const char *want) {
    for (size_t step = 1; step <= 64; step *= 4) {
        struct strbuf got = STRBUF_INIT;
        tokens(text, 64, step, &got);
        CHECK_STR(got.buf, want);
        strbuf_free(&got);
    }
}

TEST(json_pull_tokens_do_not_depend_on_read_size) {
    check_tokens("{\"a\": 1, \"b\": [true, null, -2.5e3, \"x\"], \"c\": {}}",
                 "{ k:a n:1 k:b [ T N n:-2.5e3 s:x ] k:c { } } .");
    check_tokens(" [ ] ", "[ ] .");
    check_tokens("\"a\\n\\u00e9\\ud83d\\ude00\\\\\"", "s:a\n\xc3\xa9\xf0\x9f\x98\x80\\ .");
    check_tokens("[\"\\ud83dx\"]", "[ s:\xef\xbf\xbdx ] .");
}

TEST(json_pull_accepts_numbers_written_by_profilers) {
    check_tokens("[NaN, -Infinity, Infinity]", "[ n:NaN n:-Infinity n:Infinity ] .");
}

TEST(json_pull_accepts_a_trailing_comma) {
    struct json_pull j;
    json_pull_memory(&j, "[1, 2, ]", 8);
    CHECK_INT(json_pull_next(&j), JSON_ARRAY);
    CHECK_INT(json_pull_next(&j), JSON_NUMBER);
    CHECK_INT(json_pull_next(&j), JSON_NUMBER);
    CHECK_INT(json_pull_next(&j), JSON_ARRAY_END);
    CHECK_INT(json_pull_next(&j), JSON_END);
    CHECK_INT(j.commas, 1);
}

TEST(json_pull_reports_truncated_input) {
    check_tokens("[1, \"ab", "[ n:1 !cut");
    check_tokens("{\"a\"", "{ !cut");
    check_tokens("[[1]", "[ [ n:1 ] !cut");
}

TEST(json_pull_rejects_invalid_json) {
    check_tokens("[1 2]", "[ n:1 !");
    check_tokens("{1: 2}", "{ !");
    check_tokens("[}", "[ !");
    check_tokens("[tru]", "[ !");
}

TEST(json_pull_rejects_deep_nesting_and_skips_it) {
    char deep[2 * 5000 + 1];
    memset(deep, '[', 5000);
    memset(deep + 5000, ']', 5000);
    struct json_pull j;
    json_pull_memory(&j, deep, 10000);
    enum json_token tok;
    while ((tok = json_pull_next(&j)) > JSON_END) {}
    CHECK_INT(tok, JSON_ERROR);
    json_pull_memory(&j, deep, 10000);
    CHECK_INT(json_pull_skip(&j), JSON_ARRAY);
    CHECK_INT(json_pull_next(&j), JSON_END);
}

TEST(json_pull_truncates_a_huge_string) {
    size_t n = 3 * JSON_TEXT_MAX;
    char *text = malloc(n + 3);
    memset(text, 'x', n + 2);
    text[0] = text[n + 1] = '"';
    text[n + 2] = 0;
    struct text_source src = { text, n + 2, 4096 };
    struct json_pull *j = json_pull_open(text_fill, &src, 8192);
    CHECK_INT(json_pull_next(j), JSON_STRING);
    CHECK_INT(j->len, JSON_TEXT_MAX);
    CHECK_INT(j->cut_texts, 1);
    CHECK_INT(json_pull_next(j), JSON_END);
    json_pull_close(j);
    free(text);
}

TEST(json_pull_raw_returns_bytes_or_reports_they_do_not_fit) {
    const char *text = "[{\"a\": \"}\"}, {\"b\": \"0123456789012345678901234567890123456789\"}, 7]";
    struct text_source src = { text, strlen(text), 5 };
    struct json_pull *j = json_pull_open(text_fill, &src, 32);
    CHECK_INT(json_pull_next(j), JSON_ARRAY);
    CHECK_INT(json_pull_raw(j), JSON_OBJECT);
    CHECK_INT(j->len, 10);
    CHECK_MEM(j->text, "{\"a\": \"}\"}", 10);
    CHECK_INT(json_pull_raw(j), JSON_ERROR);
    CHECK_STR(j->error, "a value longer than the window");
    CHECK_INT(json_pull_skip(j), JSON_OBJECT);
    CHECK_INT(json_pull_raw(j), JSON_NUMBER);
    CHECK_INT(json_pull_raw(j), JSON_ARRAY_END);
    json_pull_close(j);
}

/* The fast scanners must agree with plain C on any bytes, split anywhere. */
TEST(json_skip_agrees_with_the_plain_scan) {
    static const char alphabet[] = "{}[]\"\"\\\\ab,: ";
    unsigned seed = 12345;
    for (int round = 0; round < 2000; round++) {
        char text[400];
        text[0] = '{';
        for (size_t i = 1; i < sizeof text; i++) {
            seed = seed * 1103515245u + 12345u;
            text[i] = alphabet[(seed >> 16) % (round % 2 ? sizeof alphabet - 1 : 4)];
            if (round % 2 == 0 && seed % 3) text[i] = '{';
        }
        struct json_skip fast = JSON_SKIP_START, plain = { .depth = 1, .started = 1 };
        size_t cut = (seed >> 8) % sizeof text, a = json_skip(&fast, text, cut);
        if (!fast.started || fast.depth) a += json_skip(&fast, text + a, sizeof text - a);
        size_t b = 1 + json_skip_plain(&plain, text + 1, sizeof text - 1);
        CHECK_INT(a, b);
        CHECK_INT(fast.depth, plain.depth);
    }
}

TEST(json_numbers_are_exact) {
    int64_t v;
    uint64_t u;
    CHECK(json_to_scaled("4203669604595.407", 17, 3, &v));
    CHECK_INT(v, 4203669604595407);
    CHECK(json_to_scaled("1695835542514261", 16, 3, &v));
    CHECK_INT(v, 1695835542514261000);
    CHECK(json_to_scaled("-0.0005", 7, 3, &v));
    CHECK_INT(v, -1);
    CHECK(json_to_scaled("1.5e3", 5, 3, &v));
    CHECK_INT(v, 1500000);
    CHECK(!json_to_scaled("NaN", 3, 3, &v));
    CHECK(!json_to_scaled("99999999999999999999", 20, 3, &v));
    CHECK(!json_to_scaled("1e300", 5, 3, &v));
    CHECK(json_to_u64("7.0", 3, &u));
    CHECK_INT(u, 7);
    CHECK(!json_to_u64("-1", 2, &u));
    CHECK(!json_to_u64("0x0", 3, &u));
}
