#include "engine/tokenizer/unicode.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/alloc_guard.h"
#include "base/die.h"
#include "base/utf8.h"

#define FIRST_COMBINING 0x300u /* NFC does not change text whose code points are all below this */

static bool is_space(uint32_t c) {
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
           c == 0x3000;
}

const char *unicode_skip_spaces(const char *p, const char *end) {
    while (p < end) {
        const char *next = p;
        if (!is_space(utf8_next(&next, end))) break;
        p = next;
    }
    return p;
}

const char *unicode_skip_spaces_back(const char *begin, const char *p) {
    while (p > begin) {
        const char *before = p - 1;
        while (before > begin && ((unsigned char)*before & 0xc0) == 0x80) before--;
        const char *at = before;
        if (!is_space(utf8_next(&at, p))) break;
        p = before;
    }
    return p;
}

/* UTF8PROC_STABLE follows Unicode's stability policy for compositions, as NFC requires. */
static void normalise(const char *text, size_t n, utf8proc_option_t form, struct strbuf *out) {
    utf8proc_uint8_t *normalised = NULL;
    utf8proc_ssize_t len = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &normalised,
                                        UTF8PROC_STABLE | form);
    if (len == UTF8PROC_ERROR_NOMEM) alloc_failed(n);
    if (len < 0) die("Unicode normalisation of %zu bytes: %s", n, utf8proc_errmsg(len));
    strbuf_add(out, normalised, (size_t)len);
    free(normalised);
}

static void nfc_piece(const char *text, size_t n, struct strbuf *out) {
    if (n > 0) normalise(text, n, UTF8PROC_COMPOSE, out);
}

/* utf8proc 2.8 drops U+11A7 after a Hangul syllable, because it interprets the letter as "no final
 * consonant". The letter neither composes nor moves, so the text before it and the text after it are
 * normalised separately. */
static void nfc_around_u11a7(const char *text, size_t n, struct strbuf *out) {
    static const char letter[] = "\xe1\x86\xa7";
    const char *end = text + n, *at;
    while ((at = memmem(text, (size_t)(end - text), letter, 3))) {
        nfc_piece(text, (size_t)(at - text), out);
        strbuf_add(out, letter, 3);
        text = at + 3;
    }
    nfc_piece(text, (size_t)(end - text), out);
}

void unicode_nfc(const char *text, size_t n, struct strbuf *out) {
    for (const char *p = text, *end = text + n; p < end;) {
        if (utf8_next(&p, end) < FIRST_COMBINING) continue;
        nfc_around_u11a7(text, n, out);
        return;
    }
    strbuf_add(out, text, n);
}

void unicode_nfd(const char *text, size_t n, struct strbuf *out) {
    normalise(text, n, UTF8PROC_DECOMPOSE, out);
}
