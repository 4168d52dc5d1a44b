#include <string.h>

#include "conf/yaml.h"
#include "unit/test.h"

static const char *parse_error(const char *text) {
    static struct err err;
    struct conf_node *n = conf_yaml_parse(text, strlen(text), "f", &err);
    if (n) {
        conf_node_free(n);
        err_set(&err, "(accepted)");
    }
    return err.msg;
}

TEST(yaml_errors_have_file_and_line) {
    CHECK_STR(parse_error("a: 1\na: 2\n"), "f:2: duplicate key 'a'");
    CHECK_STR(parse_error("a: 1\n---\nb: 2\n"), "f:2: a second document; expected one");
    CHECK_STR(parse_error("a.b: 1\n"), "f:1: key 'a.b': write nested keys as nested maps");
    CHECK_STR(parse_error("a: &x [*x]\n"), "f:1: *x is inside &x");
    CHECK_STR(parse_error("a: *nowhere\n"), "f:1: *nowhere has no &nowhere before it");
    CHECK_STR(parse_error("? [a]\n: 1\n"), "f:1: a key must be a scalar");
    CHECK(strstr(parse_error("a: [1,\nb: }"), "f:2: "));
    CHECK(strstr(parse_error("a: \"x\\0y\""), "NUL"));
}

TEST(yaml_alias_expansion_is_limited) {
    CHECK(strstr(parse_error("a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
                             "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
                             "e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n"),
                 "more than 20000 values"));
}

TEST(yaml_nesting_is_limited) {
    char text[201];
    memset(text, '[', 200);
    text[200] = '\0';
    CHECK_STR(parse_error(text), "f:1: nested too deeply");
}

/* Written scalars read back as the same text with the same type. */
TEST(yaml_writes_what_it_reads) {
    static const char *const texts[] = { "plain",
                                         "",
                                         "null",
                                         "~",
                                         "true",
                                         "1e5",
                                         "-3",
                                         "- x",
                                         "a: b",
                                         "a #b",
                                         "x:",
                                         "<i>",
                                         "\n",
                                         "\"q\"",
                                         "yes",
                                         "a,b",
                                         "\\n",
                                         "\xc3\xa9",
                                         " x ",
                                         "cuda:0",
                                         "[x",
                                         "\x1b[0m",
                                         "-1: list the items",
                                         "-1 # no",
                                         "-1 ",
                                         "-1:",
                                         "-1,",
                                         "-2.5e3",
                                         "\xc2\x91",         /* a control character, U+0091 */
                                         "a\xe2\x80\xa8 b",  /* the line separator, U+2028 */
                                         "\xef\xbf\xbe",     /* no character, U+FFFE */
                                         "\xf3\xa0\x81\xa7", /* a tag, U+E0067 */
                                         "\xf0\x9f\x98\x80" };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        for (int quoted = 0; quoted < 2; quoted++) {
            struct err err;
            struct strbuf out = STRBUF_INIT;
            struct conf_node *map = conf_map();
            conf_add(map, "k", conf_scalar(texts[i], quoted));
            conf_yaml_write(map, CONF_YAML_PLAIN, &out);
            struct conf_node *back = conf_yaml_parse(out.buf, out.len, "f", &err);
            CHECK(back);
            const struct conf_node *was = map->v[0], *is = back->v[0];
            CHECK_INT(conf_is_null(is), conf_is_null(was));
            if (!conf_is_null(was)) CHECK_STR(is->text, was->text);
            double a, b;
            CHECK_INT(conf_as_num(is, &a), conf_as_num(was, &b));
            conf_node_free(back);
            conf_node_free(map);
            strbuf_free(&out);
        }
}

/* Writes {key: {inner: 1}, last: 2} with origins and reads it again. */
static void check_read_back(const struct conf_node *map, const char *key, const char *inner) {
    struct err err;
    struct strbuf out = STRBUF_INIT;
    conf_yaml_write(map, CONF_YAML_ORIGINS, &out);
    struct conf_node *back = conf_yaml_parse(out.buf, out.len, "f", &err);
    CHECK(back);
    CHECK_INT(back->n, 2);
    CHECK_STR(back->v[0]->key, key);
    CHECK_INT(back->v[0]->n, 1);
    CHECK_STR(back->v[0]->v[0]->key, inner);
    CHECK_STR(back->v[0]->v[0]->text, "1");
    CHECK_STR(back->v[1]->text, "2");
    conf_node_free(back);
    strbuf_free(&out);
}

/* YAML refuses "key:" if the key has more than 1024 characters as written, that is, with its escapes. */
TEST(yaml_keys_of_any_length_are_read_back) {
    static const size_t lengths[] = { 1, 249, 250, 255, 256, 257, 998, 1000, 1001, 1024, 1025, 5000 };
    static const char fill[] = { 'k', '\x16' };
    char key[5001];
    for (size_t i = 0; i < 2 * sizeof lengths / sizeof lengths[0]; i++) {
        size_t n = lengths[i / 2];
        memset(key, fill[i % 2], n);
        key[n] = '\0';
        struct conf_node *map = conf_map(), *inner = conf_map();
        conf_add(inner, key, conf_scalar("1", false));
        conf_add(map, key, inner);
        conf_add(map, "last", conf_scalar("2", false));
        check_read_back(map, key, key);
        conf_node_free(map);
    }
}

/* A comment stays on its line, and has no character that YAML does not allow. */
TEST(yaml_origins_of_any_text_are_read_back) {
    static const char *const texts[] = { "a\nb: [", "\xc2\x85}", "\xe2\x80\xa9]", "\xef\xbf\xbf", "\xff" };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct conf_node *map = conf_map(), *inner = conf_map(), *v = conf_scalar("1", false);
        v->file = texts[i];
        v->written = strdup(texts[i]);
        conf_add(inner, "b", v);
        conf_add(map, "a", inner);
        conf_add(map, "last", conf_scalar("2", false));
        check_read_back(map, "a", "b");
        conf_node_free(map);
    }
}

TEST(bytes_that_are_not_utf8_are_replaced) {
    struct strbuf out = STRBUF_INIT;
    conf_yaml_scalar("a\xff\xc3", false, &out);
    CHECK_STR(out.buf, "\"a\xef\xbf\xbd\xef\xbf\xbd\"");
    strbuf_free(&out);
}

TEST(scalars_are_numbers_by_yaml_rules) {
    static const struct {
        const char *text;
        int is_int, is_num;
    } rows[] = {
        { "1", 1, 1 },   { "-1", 1, 1 },  { "0x10", 1, 1 }, { "1.5", 0, 1 }, { "1e3", 0, 1 },
        { "nan", 0, 0 }, { "inf", 0, 0 }, { "1x", 0, 0 },   { "", 0, 0 },    { "99999999999999999999", 0, 1 },
        { " 1", 0, 0 }
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct conf_node *n = conf_scalar(rows[i].text, false);
        int64_t v;
        double d;
        CHECK_INT(conf_as_int(n, &v), rows[i].is_int);
        CHECK_INT(conf_as_num(n, &d), rows[i].is_num);
        conf_node_free(n);
    }
}
