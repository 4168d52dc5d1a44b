#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/escape.h"
#include "base/html.h"
#include "base/jsonw.h"
#include "base/table.h"
#include "base/utf8.h"
#include "unit/test.h"

#define RIGHT_TO_LEFT "\xe2\x80\xae" /* U+202E: reverses the text after it */
#define BAD UTF8_REPLACEMENT

static void check_markdown(const char *text, const char *want) {
    struct strbuf s = STRBUF_INIT;
    escape_markdown(&s, text);
    CHECK_STR(s.buf, want);
    strbuf_free(&s);
}

TEST(markdown_of_hostile_text_has_no_links_images_or_html) {
    check_markdown("![x](http://evil/a.png)", "!\\[x\\](http\\://evil/a.png)");
    check_markdown("see https://evil, WWW.evil and a.b", "see https\\://evil, WWW\\.evil and a.b");
    check_markdown("me@e.vil, mailto:a.b@c.de", "me<!-- -->@e.vil, mailto:a.b<!-- -->@c.de");
    check_markdown("memcpy@plt @a.b a@ b.c", "memcpy@plt @a.b a@ b.c");
    check_markdown("[x](javascript:alert(1))", "\\[x\\](javascript:alert(1))");
    check_markdown("<img src=x onerror=y>", "&lt;img src=x onerror=y>");
    check_markdown("a|b`c*d_e~f&g\\", "a\\|b\\`c\\*d\\_e\\~f&amp;g\\\\");
    check_markdown("# a # b", "\\# a # b");
    check_markdown("> a > b", "\\> a > b");
    check_markdown("-1.5", "-1.5");
    check_markdown("a\nb\033[31m" RIGHT_TO_LEFT "c", "a" BAD "b" BAD "\\[31m" BAD "c");
    check_markdown(NULL, "");
}

TEST(table_cells_follow_the_same_markdown_rule_as_other_text) {
    static const char hostile[] = "![x](http://evil)|<b>\033" RIGHT_TO_LEFT;
    struct strbuf cell = STRBUF_INIT, alone = STRBUF_INIT;
    struct table t;
    table_init(&t);
    table_column(&t, "name", TABLE_LEFT);
    table_cell(&t, "%s", hostile);
    table_markdown(&t, &cell);
    escape_markdown(&alone, hostile);
    CHECK(strstr(cell.buf, alone.buf) != NULL);
    table_free(&t);
    strbuf_free(&cell);
    strbuf_free(&alone);
}

TEST(markdown_block_cannot_be_left_by_its_text) {
    struct strbuf s = STRBUF_INIT;
    static const char text[] = "a\n````\nb\033c" RIGHT_TO_LEFT;
    escape_markdown_block(&s, "sh", text, strlen(text));
    CHECK_STR(s.buf, "`````sh\na\n````\nb" BAD "c" BAD "\n`````\n");
    strbuf_free(&s);
}

static void check_csv(const char *text, const char *want) {
    struct strbuf s = STRBUF_INIT;
    escape_csv(&s, text);
    CHECK_STR(s.buf, want);
    strbuf_free(&s);
}

TEST(csv_of_hostile_text_has_no_control_characters_or_formulas) {
    check_csv("a\033]0;title\007" RIGHT_TO_LEFT "b", "a" BAD "]0;title" BAD BAD "b");
    check_csv("=cmd()", "\"'=cmd()\"");
    check_csv("-1.5", "-1.5");
    check_csv("a\n\"b\",c", "\"a\n\"\"b\"\",c\"");
    check_csv("\xff", BAD);
}

TEST(every_format_removes_or_encodes_text_direction_and_control_characters) {
    static const char *const unsafe[] = { "\033",        "\x7f",         "\xc2\x9b",     "\xe2\x80\xa8",
                                          RIGHT_TO_LEFT, "\xe2\x81\xa6", "\xe2\x80\x8f", "\xd8\x9c" };
    for (size_t i = 0; i < sizeof unsafe / sizeof *unsafe; i++) {
        struct strbuf html = STRBUF_INIT, json = STRBUF_INIT, line = STRBUF_INIT;
        char *message = xstrdup(unsafe[i]);
        html_escape(&html, unsafe[i]);
        jsonw_quote(&json, unsafe[i], strlen(unsafe[i]));
        strbuf_add_printable(&line, unsafe[i], strlen(unsafe[i]));
        escape_in_place(message);
        check_markdown(unsafe[i], BAD);
        check_csv(unsafe[i], BAD);
        CHECK_STR(html.buf, BAD);
        CHECK_STR(line.buf, BAD);
        CHECK_STR(message, "?");
        CHECK(strstr(json.buf, unsafe[i]) == NULL && strncmp(json.buf, "\"\\u", 3) == 0);
        strbuf_free(&html);
        strbuf_free(&json);
        strbuf_free(&line);
        free(message);
    }
}
