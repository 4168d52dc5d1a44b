/* Strings, UTF-8, units, suggestions, tables, interning. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "base/strbuf.h"
#include "base/suggest.h"
#include "base/table.h"
#include "base/units.h"
#include "base/utf8.h"
#include "base/util.h"
#include "unit/test.h"

TEST(strbuf_grows_and_hands_its_text_over) {
    struct strbuf s = STRBUF_INIT;
    CHECK_STR(s.buf, "");
    for (int i = 0; i < 300; i++) strbuf_addf(&s, "%d,", i % 10);
    CHECK_INT(s.len, 600);
    strbuf_addchars(&s, '-', 3);
    char *text = strbuf_detach(&s);
    CHECK_INT(strlen(text), 603);
    CHECK_INT(s.len, 0);
    free(text);
    text = strbuf_detach(&s);
    CHECK_STR(text, "");
    free(text);
}

TEST(strbuf_quotes_words_for_the_shell) {
    struct strbuf s = STRBUF_INIT;
    char words[][8] = { "run", "a b", "it's", "", "x=1", "$HOME" }, *list[COUNTOF(words)];
    for (size_t i = 0; i < COUNTOF(words); i++) list[i] = words[i];
    strbuf_add_shell_words(&s, list, COUNTOF(list));
    CHECK_STR(s.buf, "run 'a b' 'it'\\''s' '' x=1 '$HOME'");
    strbuf_free(&s);
}

TEST(strbuf_makes_untrusted_text_printable) {
    struct strbuf s = STRBUF_INIT;
    const char *evil = "a\x1b[31mb\xc3\xa9\xff\n\xc2\x9b";
    strbuf_add_printable(&s, evil, strlen(evil));
    CHECK_STR(s.buf, "a\xef\xbf\xbd[31mb\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    strbuf_free(&s);
}

TEST(utf8_rejects_overlong_surrogates_and_truncated_bytes) {
    CHECK(utf8_valid("\xe2\x82\xac\xf0\x9f\x98\x80", 7));
    CHECK(!utf8_valid("\xc0\xaf", 2));
    CHECK(!utf8_valid("\xed\xa0\x80", 3));
    CHECK(!utf8_valid("\xf4\x90\x80\x80", 4));
    CHECK(!utf8_valid("\xe2\x82", 2));
}

TEST(utf8_cut_splits_no_character_and_never_leaves_nothing) {
    CHECK_INT(utf8_cut("abcdef", 4), 4);
    CHECK_INT(utf8_cut("ab\xc3\xa9"
                       "cd",
                       3),
              2);
    CHECK_INT(utf8_cut("a\xf0\x9f\x98\x80z", 4), 1);
    CHECK_INT(utf8_cut("\xab\xab\xab\xab\xab\xab\xab\xab", 6), 6); /* not UTF-8 */
}

TEST(utf8_put_inverts_utf8_next) {
    for (uint32_t c = 0; c <= 0x10ffff; c += c < 0x3000 ? 1 : 251) {
        char out[4];
        size_t n = utf8_put(c, out);
        if (c >= 0xd800 && c < 0xe000) {
            CHECK_INT(n, 0);
            continue;
        }
        const char *p = out;
        CHECK_INT(utf8_next(&p, out + n), c);
        CHECK(p == out + n);
    }
}

TEST(units_are_readable_and_unknown_is_a_dash) {
    char b[32];
    CHECK_STR(units_bytes(0, b, sizeof b), "0 B");
    CHECK_STR(units_bytes(1536, b, sizeof b), "1.54 kB");
    CHECK_STR(units_bytes(999999, b, sizeof b), "1.00 MB");
    CHECK_STR(units_flops(976.91e9, b, sizeof b), "977 GF");
    CHECK_STR(units_duration_ns(1234567, b, sizeof b), "1.23 ms");
    CHECK_STR(units_duration_ns(125e9, b, sizeof b), "2 m 05 s");
    CHECK_STR(units_duration_ns(NAN, b, sizeof b), "\xe2\x80\x93");
    CHECK_STR(units_count(12345678, b, sizeof b), "12.3 M");
    CHECK_STR(units_grouped(1234567, b, sizeof b), "1,234,567");
    CHECK_STR(units_grouped(7, b, sizeof b), "7");
}

TEST(units_parse_sizes_and_reject_other_text) {
    static const struct {
        const char *text;
        uint64_t want;
    } good[] = {
        { "4096", 4096 }, { "64MiB", 64u << 20 }, { "1.5kB", 1500 }, { "2g", 2000000000u }, { "0", 0 },
    };
    static const char *const bad[] = { "", "x", "-1", "1.5.2", "10XB", "1e30", "nan", " 5" };
    struct err err;
    uint64_t v;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        CHECK_INT(units_parse_bytes(good[i].text, &v, &err), 0);
        CHECK_INT(v, good[i].want);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_INT(units_parse_bytes(bad[i], &v, &err), -1);
    CHECK_STR(err.msg, "' 5' is not a size: expected a number with B, kB, MB, GB, KiB, MiB or GiB");
}

TEST(suggest_finds_the_nearest_name_or_none) {
    struct suggest s;
    CHECK_INT(suggest_distance("kernel", "kernle"), 1);
    CHECK_INT(suggest_distance("", "abc"), 3);
    suggest_start(&s, "confg");
    suggest_try(&s, "verbose");
    suggest_try(&s, "config");
    CHECK_STR(s.best, "config");
    static const char *const far[][2] = { { "zzz", "config" }, { "nope", "copy" }, { "foo", "root" },
                                          { "x", "y" },        { "", "a" },        { "gpu", "cpus" } };
    for (size_t i = 0; i < COUNTOF(far); i++) {
        suggest_start(&s, far[i][0]);
        suggest_try(&s, far[i][1]);
        CHECK(s.best == NULL);
    }
}

TEST(table_truncates_its_first_column_to_fit_a_line) {
    struct table t;
    struct strbuf s = STRBUF_INIT;
    table_init(&t);
    table_column(&t, "kernel", TABLE_LEFT);
    table_column(&t, "calls", TABLE_RIGHT);
    table_column(&t, "ms", TABLE_RIGHT);
    table_cell(&t, "a_kernel_of_a_long_name");
    table_cell(&t, "7");
    table_cell(&t, "1.5");
    table_cell(&t, "b");
    table_cell(&t, "12345");
    table_cell(&t, "10.25");
    CHECK_INT(table_text_width(&t), 23 + 2 + 5 + 2 + 5);
    t.text_line_width = 30;
    table_text(&t, &s);
    CHECK_STR(s.buf, "kernel            calls     ms\n"
                     "a_kernel_of_a_l\xe2\x80\xa6      7    1.5\n"
                     "b                 12345  10.25\n");
    strbuf_reset(&s);
    t.text_line_width = 10; /* at least 16 columns, so that names stay distinguishable, and two columns */
    table_text(&t, &s);
    CHECK(strstr(s.buf, "a_kernel_of_a_l\xe2\x80\xa6      7\n") != NULL);
    strbuf_reset(&s);
    table_drop(&t, table_find(&t, "calls"));
    CHECK_INT(table_find(&t, "calls"), 2);
    t.text_line_width = 0;
    table_text(&t, &s);
    CHECK_STR(s.buf, "kernel                      ms\n"
                     "a_kernel_of_a_long_name    1.5\n"
                     "b                        10.25\n");
    strbuf_free(&s);
    table_free(&t);
}

TEST(table_prints_aligned_text_markdown_and_csv) {
    struct table t;
    struct strbuf s = STRBUF_INIT;
    table_init(&t);
    table_column(&t, "name", TABLE_LEFT);
    table_column(&t, "ms", TABLE_RIGHT);
    table_cell(&t, "a|b<c>");
    table_cell(&t, "%.1f", 1.25);
    table_cell(&t, "=cmd(\"x\")");
    table_cell(&t, "-12.5");
    table_text(&t, &s);
    CHECK_STR(s.buf, "name          ms\na|b<c>       1.2\n=cmd(\"x\")  -12.5\n");
    strbuf_reset(&s);
    table_markdown(&t, &s);
    CHECK_STR(s.buf, "| name | ms |\n| --- | ---: |\n| a\\|b&lt;c> | 1.2 |\n| =cmd(\"x\") | -12.5 |\n");
    strbuf_reset(&s);
    table_csv(&t, &s);
    CHECK_STR(s.buf, "name,ms\na|b<c>,1.2\n\"'=cmd(\"\"x\"\")\",-12.5\n");
    strbuf_free(&s);
    table_free(&t);
}

TEST(intern_gives_equal_texts_the_same_id) {
    struct intern *t = intern_open();
    char text[32];
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < 5000; i++) {
            snprintf(text, sizeof text, "name %u", (unsigned)i);
            CHECK_INT(intern_str(t, text), i);
        }
    CHECK_INT(intern_count(t), 5000);
    CHECK_STR(intern_text(t, 4999), "name 4999");
    CHECK(intern_text(t, 5000) == NULL);
    CHECK_INT(intern_find(t, "nobody", 6), INTERN_NONE);
    CHECK_INT(intern_id(t, "a\0b", 3), 5000);
    CHECK_INT(intern_len(t, 5000), 3);
    intern_close(t);
    intern_close(NULL);
}

TEST(strbuf_replace_changes_every_occurrence_once) {
    struct strbuf s = STRBUF_INIT;
    CHECK_INT(strbuf_replace(&s, "a", 1, "b", 1), 0);
    strbuf_addstr(&s, "aXbXXc");
    CHECK_INT(strbuf_replace(&s, "X", 1, "XX", 2), 3);
    CHECK_STR(s.buf, "aXXbXXXXc");
    CHECK_INT(strbuf_replace(&s, "XX", 2, "", 0), 3);
    CHECK_STR(s.buf, "abc");
    CHECK_INT(strbuf_replace(&s, "XX", 2, "", 0), 0);
    strbuf_free(&s);
}
