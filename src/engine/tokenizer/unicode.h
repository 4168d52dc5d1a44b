/* Canonical normalisation (NFC, NFD) with libutf8proc, and white space. */
#ifndef ENGINE_TOKENIZER_UNICODE_H
#define ENGINE_TOKENIZER_UNICODE_H

#include <stddef.h>

#include "base/strbuf.h"

/* Both functions append to `out`; text must be valid UTF-8. */
void unicode_nfc(const char *text, size_t n, struct strbuf *out);
void unicode_nfd(const char *text, size_t n, struct strbuf *out);
/* Returns the first character of [p, end) that is not white space (Unicode's White_Space property), or
 * `end`. */
const char *unicode_skip_spaces(const char *p, const char *end);
/* Returns the end of the last character of [begin, p) that is not white space, or `begin`. */
const char *unicode_skip_spaces_back(const char *begin, const char *p);

#endif
