#include <math.h>
#include <string.h>

#include "serve/push_answer.h"
#include "unit/test.h"

static struct push_answer parse(const char *text) { return push_answer_parse(text, strlen(text)); }

TEST(push_answer_has_the_name_of_the_run_and_the_reason) {
    struct push_answer a = parse("{\"run\":\"llama-2\",\"detail\":\"busy\",\"received\":512}");
    CHECK_STR(a.run, "llama-2");
    CHECK_STR(a.detail, "busy");
    CHECK(a.received == 512);
    push_answer_free(&a);
}

TEST(push_answer_without_json_has_nothing) {
    struct push_answer a = parse("<html>502 Bad Gateway</html>");
    CHECK(!a.run && !a.detail && isnan(a.received));
    push_answer_free(&a);
}

TEST(push_prints_no_control_characters_of_the_server) {
    struct push_answer a = parse("{\"run\":\"a\\u001b[31m\\nb\"}");
    CHECK_STR(a.run, "a\xef\xbf\xbd[31m\xef\xbf\xbd"
                     "b");
    push_answer_free(&a);
    a = parse("{\"run\":\"\"}");
    CHECK(!a.run);
    push_answer_free(&a);
}

TEST(push_answer_cuts_a_name_that_is_longer_than_a_folder_name) {
    char text[700] = "{\"run\":\"";
    for (size_t i = 0; i < 300; i++) strcat(text, "\xc3\xa4");
    strcat(text, "\"}");
    struct push_answer a = parse(text);
    CHECK_INT(strlen(a.run), 254);
    push_answer_free(&a);
}
