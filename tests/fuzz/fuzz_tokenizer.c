/* A tokenizer.json and, after a NUL, a text. Encoding must give ids of the vocabulary, and decoding must give
 * UTF-8. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "engine/tokenizer/tokenizer.h"
#include "fuzz/fuzz.h"

static void decode(const struct tokenizer *t, const struct token_ids *ids) {
    struct strbuf out = STRBUF_INIT;
    struct token_stream s;
    tokenizer_decode(t, ids->v, ids->n, TOKENIZER_SKIP_SPECIAL, &out);
    if (!utf8_valid(out.buf, out.len)) __builtin_trap();
    strbuf_reset(&out);
    token_stream_init(&s, t, TOKENIZER_KEEP_SPECIAL);
    for (size_t i = 0; i < ids->n; i++) {
        token_stream_next(&s, ids->v[i], &out);
        if (!utf8_valid(out.buf, out.len)) __builtin_trap(); /* no incomplete character */
    }
    token_stream_finish(&s, &out);
    if (!utf8_valid(out.buf, out.len)) __builtin_trap();
    strbuf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *json = (const char *)data;
    size_t n = strnlen(json, size);
    const char *text = n < size ? json + n + 1 : "some text 123 <a>";
    size_t len = n < size ? size - n - 1 : 17;
    struct err err;
    struct tokenizer *t = tokenizer_open_text(json, n, "fuzz", &err);
    if (!t) return 0;
    struct token_ids ids = { 0 };
    if (tokenizer_encode(t, text, len, TOKENIZER_ADD_SPECIAL, &ids, &err) == 0) decode(t, &ids);
    free(ids.v);
    tokenizer_close(t);
    return 0;
}
