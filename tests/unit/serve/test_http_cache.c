#include <stdio.h>
#include <string.h>

#include "serve/http_cache.h"
#include "unit/test.h"

static void put(struct http_cache *c, int number, int64_t revision, size_t bytes) {
    char key[32], body[2048];
    snprintf(key, sizeof key, "/trends?series=%d", number);
    memset(body, 'a' + number % 26, sizeof body);
    http_cache_put(c, key, revision, body, bytes, "text/html");
}

static bool has(struct http_cache *c, int number, int64_t revision, size_t bytes) {
    char key[32];
    const char *type = NULL;
    struct strbuf out = STRBUF_INIT;
    snprintf(key, sizeof key, "/trends?series=%d", number);
    bool found = http_cache_get(c, key, revision, &out, &type);
    CHECK(!found || (out.len == bytes && out.buf[0] == 'a' + number % 26 && strcmp(type, "text/html") == 0));
    strbuf_free(&out);
    return found;
}

TEST(a_few_hundred_answers_do_not_replace_each_other) {
    struct http_cache *c = http_cache_open(1 << 20);
    int found = 0;
    for (int i = 0; i < 300; i++) put(c, i, 7, 100);
    for (int i = 0; i < 300; i++) found += has(c, i, 7, 100);
    CHECK_INT(found, 300);
    http_cache_close(c);
}

TEST(an_answer_of_an_older_revision_is_not_used) {
    struct http_cache *c = http_cache_open(1 << 20);
    put(c, 1, 7, 100);
    CHECK(!has(c, 1, 8, 100));
    put(c, 1, 8, 200);
    CHECK(has(c, 1, 8, 200));
    http_cache_close(c);
}

TEST(a_full_cache_discards_other_answers) {
    struct http_cache *c = http_cache_open(64 << 10);
    int found = 0;
    for (int i = 0; i < 1000; i++) {
        put(c, i, 7, 1024);
        CHECK(has(c, i, 7, 1024));
    }
    for (int i = 0; i < 1000; i++) found += has(c, i, 7, 1024);
    CHECK(found <= 64);
    CHECK(found >= 32);
    http_cache_close(c);
}
