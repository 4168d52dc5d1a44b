#include <math.h>
#include <string.h>

#include "base/jsonr.h"
#include "base/jsonw.h"
#include "unit/test.h"

static const char *written(struct strbuf *s, void (*fill)(struct jsonw *)) {
    struct jsonw j;
    jsonw_start(&j, s, JSONW_COMPACT);
    fill(&j);
    jsonw_finish(&j);
    return s->buf;
}

static void numbers(struct jsonw *j) {
    jsonw_array(j);
    jsonw_num(j, NAN);
    jsonw_num(j, INFINITY);
    jsonw_num(j, -0.0);
    jsonw_num(j, 0.1);
    jsonw_num(j, 1e300);
    jsonw_num(j, 123456789012.0);
    jsonw_u64_exact(j, UINT64_MAX);
    jsonw_i64(j, INT64_MIN);
    jsonw_end(j);
}

TEST(jsonw_known_variants_write_null_for_unknown) {
    struct strbuf s = STRBUF_INIT;
    struct jsonw j;
    jsonw_start(&j, &s, JSONW_COMPACT);
    jsonw_object(&j);
    jsonw_ku64_known(&j, "a", 0);
    jsonw_ku64_known(&j, "b", 7);
    jsonw_kbool_known(&j, "c", -1);
    jsonw_kbool_known(&j, "d", 0);
    jsonw_kbool_known(&j, "e", 1);
    jsonw_end(&j);
    jsonw_finish(&j);
    CHECK_STR(s.buf, "{\"a\":null,\"b\":7,\"c\":null,\"d\":false,\"e\":true}");
    strbuf_free(&s);
}

TEST(jsonw_writes_non_finite_numbers_as_null_and_others_exactly) {
    struct strbuf s = STRBUF_INIT;
    CHECK_STR(written(&s, numbers),
              "[null,null,0,0.1,1e+300,123456789012,18446744073709551615,-9223372036854775808]");
    strbuf_free(&s);
}

static void large_integers(struct jsonw *j) {
    jsonw_object(j);
    jsonw_ku64(j, "largest", INT64_MAX);
    jsonw_ku64(j, "larger", UINT64_MAX);
    jsonw_end(j);
}

/* jansson rejects documents with larger integers. A trace with such a time made a metrics.json that could not
 * be read again. */
TEST(jsonw_writes_integers_that_jsonr_reads) {
    struct strbuf s = STRBUF_INIT;
    struct err err;
    CHECK_STR(written(&s, large_integers),
              "{\"largest\":9223372036854775807,\"larger\":1.8446744073709552e+19}");
    json_t *root = jsonr_load_text(s.buf, s.len, "text", &err);
    CHECK(root);
    CHECK_NEAR(jsonr_number(root, "larger"), 18446744073709551615.0, 0);
    json_decref(root);
    strbuf_free(&s);
}

static void texts(struct jsonw *j) {
    jsonw_object(j);
    jsonw_kstr(j, "quote\"", "back\\slash\n\x01");
    jsonw_kstr(j, "bad utf8", "a\xff\xc0\x80z");
    jsonw_kstr(j, "none", NULL);
    jsonw_kstr(j, "line sep", "\xe2\x80\xa8");
    jsonw_end(j);
}

TEST(jsonw_escapes_any_text) {
    struct strbuf s = STRBUF_INIT;
    CHECK_STR(
        written(&s, texts),
        "{\"quote\\\"\":\"back\\\\slash\\n\\u0001\",\"bad utf8\":\"a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz\","
        "\"none\":null,\"line sep\":\"\\u2028\"}");
    strbuf_free(&s);
}

TEST(jansson_reads_back_any_bytes_written_by_jsonw) {
    struct strbuf s = STRBUF_INIT;
    struct err err;
    for (unsigned a = 0; a < 256; a++) {
        struct jsonw j;
        char text[] = { 'x', (char)a, (char)(a * 7), (char)(255 - a), 'y' };
        strbuf_reset(&s);
        jsonw_start(&j, &s, JSONW_PRETTY);
        jsonw_array(&j);
        jsonw_strn(&j, text, sizeof text);
        jsonw_object(&j);
        jsonw_end(&j);
        jsonw_end(&j);
        jsonw_finish(&j);
        json_t *root = jsonr_load_text(s.buf, s.len, "test", &err);
        CHECK(root != NULL ||
              (text[1] == 0 || text[2] == 0 || text[3] == 0)); /* jansson rejects embedded NULs */
        json_decref(root);
    }
    strbuf_free(&s);
}

TEST(jsonr_error_has_line_and_column) {
    struct err err;
    const char *text = "{\n  \"a\": 1,\n  \"a\": 2\n}";
    CHECK(jsonr_load_text(text, strlen(text), "config.json", &err) == NULL);
    CHECK_STR(err.msg, "config.json: line 3, column 5: duplicate object key near '\"a\"'");
}
