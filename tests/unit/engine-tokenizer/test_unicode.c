/* Canonical normalisation: the cases that libraries get wrong. Expected values: Python's unicodedata. */
#include <string.h>

#include "engine/tokenizer/unicode.h"
#include "unit/test.h"

static void check_forms(const char *text, const char *nfc, const char *nfd) {
    struct strbuf out = STRBUF_INIT;
    unicode_nfc(text, strlen(text), &out);
    CHECK_STR(out.buf, nfc);
    out.len = 0;
    unicode_nfd(text, strlen(text), &out);
    CHECK_STR(out.buf, nfd);
    strbuf_free(&out);
}

TEST(letters_and_accents_compose_and_decompose) {
    check_forms("caf\u00e9", "caf\u00e9", "cafe\u0301");
    check_forms("cafe\u0301", "caf\u00e9", "cafe\u0301");
    check_forms("\u212b", "\u00c5", "A\u030a"); /* the angstrom sign is a letter */
    check_forms("plain", "plain", "plain");
}

TEST(marks_are_sorted_by_their_class) {
    check_forms("q\u0307\u0323", "q\u0323\u0307", "q\u0323\u0307");
    check_forms("a\u0334\u0301", "\u00e1\u0334", "a\u0334\u0301");
}

TEST(characters_excluded_from_composition_stay_apart) {
    check_forms("\u0958", "\u0915\u093c", "\u0915\u093c");
}

TEST(hangul_composes_and_keeps_letters_that_are_no_final_consonant) {
    check_forms("\u1112\u1161\u11ab", "\ud55c", "\u1112\u1161\u11ab");
    check_forms("\uac00\u11a7", "\uac00\u11a7", "\u1100\u1161\u11a7"); /* utf8proc alone drops U+11A7 */
    check_forms("\u11a7\u11a7e\u0301", "\u11a7\u11a7\u00e9", "\u11a7\u11a7e\u0301");
}
