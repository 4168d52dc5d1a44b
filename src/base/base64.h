/* Base64 (RFC 4648) with padding. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include <stdbool.h>
#include <stddef.h>

static inline size_t base64_chars(size_t bytes) { return (bytes + 2) / 3 * 4; }

/* Writes base64_chars(n) characters without a final zero. Returns their number. */
size_t base64_encode(const void *data, size_t n, char *out);
/* `out` needs n / 4 * 3 bytes. Returns false if the text is not base64. Padding is accepted at the end
 * only. */
bool base64_decode(const char *text, size_t n, void *out, size_t *bytes);

#endif
