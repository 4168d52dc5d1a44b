/* The embedded model's tokenizer, written as a tokenizer.json and loaded like any other. 1024 ids:
 *     0..2        BOS, EOS, padding
 *     3..258      the bytes
 *     259..1010   merges, by rank
 *     1011..1023  DeepSeek-OCR's markers */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/die.h"
#include "base/jsonw.h"
#include "base/utf8.h"
#include "base/util.h"
#include "engine/tokenizer/builtin_data.h"
#include "engine/tokenizer/step.h"
#include "engine/tokenizer/tokenizer.h"

#define FIRST_BYTE 3u
#define TOKENS (256 + BUILTIN_MERGES)

/* The split patterns of DeepSeek's tokenizer.json. */
static const char *const splits[] = {
    "\\p{N}{1,3}",
    "[\xe4\xb8\x80-\xe9\xbe\xa5\xe3\x81\x80-\xe3\x82\x9f\xe3\x82\xa0-\xe3\x83\xbf]+",
    ("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
     "| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"),
};

static const char *const first_tokens[FIRST_BYTE] = {
    "<\xef\xbd\x9c"
    "begin\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
    "<\xef\xbd\x9c"
    "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
    "<\xef\xbd\x9c\xe2\x96\x81pad\xe2\x96\x81\xef\xbd\x9c>",
};
static const char *const last_tokens[] = {
    "<image>", "<|ref|>", "<|/ref|>", "<|det|>",  "<|/det|>",      "<|grounding|>", "<td>",
    "</td>",   "<tr>",    "</tr>",    "<|User|>", "<|Assistant|>", "<|EOT|>",
};

struct spelling {
    char text[64];
};

/* Writes the text of byte i (i < 256) or merge i - 256 to all[i], in the byte alphabet. */
static void spell(struct spelling *all, unsigned i) {
    char c[4];
    if (i < 256) {
        size_t n = utf8_put(tok_byte_to_char((uint8_t)i), c);
        snprintf(all[i].text, sizeof all[i].text, "%.*s", (int)n, c);
        return;
    }
    const unsigned short *m = builtin_merges[i - 256];
    int n = snprintf(all[i].text, sizeof all[i].text, "%s%s", all[m[0]].text, all[m[1]].text);
    if (n >= (int)sizeof all[i].text) die("built-in token %u is too long", i);
}

static void write_model(struct jsonw *j, const struct spelling *all) {
    jsonw_kobject(j, "model");
    jsonw_kstr(j, "type", "BPE");
    jsonw_kobject(j, "vocab");
    for (unsigned i = 0; i < TOKENS; i++) jsonw_ku64(j, all[i].text, FIRST_BYTE + i);
    jsonw_end(j);
    jsonw_karray(j, "merges");
    for (unsigned i = 0; i < BUILTIN_MERGES; i++) {
        jsonw_array(j);
        jsonw_str(j, all[builtin_merges[i][0]].text);
        jsonw_str(j, all[builtin_merges[i][1]].text);
        jsonw_end(j);
    }
    jsonw_end(j);
    jsonw_end(j);
}

static void write_added(struct jsonw *j, const char *text, unsigned id) {
    jsonw_object(j);
    jsonw_ku64(j, "id", id);
    jsonw_kstr(j, "content", text);
    jsonw_kbool(j, "special", true);
    jsonw_kbool(j, "normalized", false);
    jsonw_end(j);
}

static void write_splits(struct jsonw *j) {
    jsonw_kobject(j, "pre_tokenizer");
    jsonw_kstr(j, "type", "Sequence");
    jsonw_karray(j, "pretokenizers");
    for (size_t i = 0; i < COUNTOF(splits); i++) {
        jsonw_object(j);
        jsonw_kstr(j, "type", "Split");
        jsonw_kobject(j, "pattern");
        jsonw_kstr(j, "Regex", splits[i]);
        jsonw_end(j);
        jsonw_kstr(j, "behavior", "Isolated");
        jsonw_end(j);
    }
    jsonw_object(j);
    jsonw_kstr(j, "type", "ByteLevel");
    jsonw_kbool(j, "add_prefix_space", false);
    jsonw_kbool(j, "use_regex", false);
    jsonw_end(j);
    jsonw_end(j);
    jsonw_end(j);
}

static void write_file(struct jsonw *j) {
    static_assert(FIRST_BYTE + TOKENS + COUNTOF(last_tokens) == 1024, "the layout at the top of this file");
    struct spelling *all = xcalloc(TOKENS, sizeof *all);
    for (unsigned i = 0; i < TOKENS; i++) spell(all, i);
    jsonw_object(j);
    write_model(j, all);
    jsonw_karray(j, "added_tokens");
    for (unsigned i = 0; i < FIRST_BYTE; i++) write_added(j, first_tokens[i], i);
    for (unsigned i = 0; i < COUNTOF(last_tokens); i++)
        write_added(j, last_tokens[i], FIRST_BYTE + TOKENS + i);
    jsonw_end(j);
    write_splits(j);
    jsonw_kobject(j, "decoder");
    jsonw_kstr(j, "type", "ByteLevel");
    jsonw_end(j);
    jsonw_end(j);
    free(all);
}

struct tokenizer *tokenizer_open_builtin(void) {
    struct strbuf json = STRBUF_INIT;
    struct jsonw j;
    struct err err;
    jsonw_start(&j, &json, JSONW_COMPACT);
    write_file(&j);
    jsonw_finish(&j);
    struct tokenizer *t = tokenizer_open_text(json.buf, json.len, "the built-in tokenizer", &err);
    if (!t) die("%s", err.msg);
    strbuf_free(&json);
    return t;
}
