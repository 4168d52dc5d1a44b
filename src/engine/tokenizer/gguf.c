/* Makes a tokenizer from the vocabulary of a GGUF file. "gpt2" has merges, and tokenizer.ggml.pre names
 * the regular expression that splits text. "llama" is SentencePiece: two neighbours merge if their
 * concatenation is a token, and the pair whose token has the highest score merges first. This is
 * equivalent to a list of all pairs that form a token, ordered by the token's score. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/jsonr.h"
#include "base/utf8.h"
#include "base/util.h"
#include "base/vec.h"
#include "engine/tokenizer/internal.h"
#include "llm/gguf.h"

#define KEY "tokenizer.ggml."
enum { TYPE_NORMAL = 1, TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_USER = 4, TYPE_BYTE = 6 };

#define SPLIT(regex) \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex "\"},\"behavior\":\"Isolated\",\"invert\":false},"
#define BYTES "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false}"
#define SEQUENCE(splits) "{\"type\":\"Sequence\",\"pretokenizers\":[" splits BYTES "]}"
#define AFTER_NUMBERS "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define WORDS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|"

static const char gpt2_split[] =
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true}";
static const char llama3_split[] = SEQUENCE(SPLIT(WORDS "\\\\p{N}{1,3}" AFTER_NUMBERS));
static const char qwen2_split[] = SEQUENCE(SPLIT(WORDS "\\\\p{N}" AFTER_NUMBERS));
static const char deepseek3_split[] =
    SEQUENCE(SPLIT("\\\\p{N}{1,3}") SPLIT("[\\u4e00-\\u9fa5\\u3040-\\u309f\\u30a0-\\u30ff]+") SPLIT(
        "[!\\\"#$%&'()*+,\\\\-./:;<=>?@\\\\[\\\\\\\\\\\\]^_`{|}~][A-Za-z]+|"
        "[^\\\\r\\\\n\\\\p{L}\\\\p{P}\\\\p{S}]?[\\\\p{L}\\\\p{M}]+| ?[\\\\p{P}\\\\p{S}]+[\\\\r\\\\n]*|"
        "\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"));
#define UPPER "[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define LOWER "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define ENDINGS "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
static const char gpt4o_split[] = SEQUENCE(
    SPLIT("[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?" UPPER "*" LOWER "+" ENDINGS "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?" UPPER
          "+" LOWER "*" ENDINGS "\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|\\\\s*[\\\\r\\\\n]+|"
          "\\\\s+(?!\\\\S)|\\\\s+"));

/* How text is split, by the value of tokenizer.ggml.pre. */
static const struct split_row {
    const char *name, *pre_tokenizer;
    bool ignore_merges, nfc;
} split_rows[] = {
    { "gpt-2", gpt2_split, false, false },
    { "llama-bpe", llama3_split, true, false },
    { "llama3", llama3_split, true, false },
    { "llama-v3", llama3_split, true, false },
    { "qwen2", qwen2_split, false, true },
    { "deepseek-r1-qwen", qwen2_split, false, true },
    { "deepseek-v3", deepseek3_split, false, false },
    { "gpt-4o", gpt4o_split, false, false },
};

static const char *text_or(const struct gguf *g, const char *key, char *out, size_t cap) {
    struct bytes b;
    if (!gguf_str(g, key, &b) || bytes_left(&b) >= cap) return NULL;
    memcpy(out, b.p, bytes_left(&b));
    out[bytes_left(&b)] = '\0';
    return out;
}

static uint64_t token_type(const struct gguf_value *types, uint64_t id) {
    uint64_t t;
    return types && gguf_array_u64(types, id, &t) ? t : TYPE_NORMAL;
}

static int add_tokens(struct tokenizer *t, const struct gguf *g, struct err *err) {
    const struct gguf_value *tokens = gguf_value(g, KEY "tokens"), *types = gguf_value(g, KEY "token_type");
    if (!tokens || tokens->kind != GGUF_ARRAY || tokens->element != GGUF_STRING)
        return err_set(err, KEY "tokens is missing or not a list of texts");
    if (tokens->count > TOK_MAX_ID) return err_set(err, KEY "tokens has too many entries");
    struct bytes at = tokens->raw, text;
    for (uint32_t id = 0; gguf_next_str(&at, &text); id++)
        if (tok_bpe_add_token(t->bpe, (const char *)text.p, bytes_left(&text), id, err) < 0) return -1;
    at = tokens->raw;
    for (uint32_t id = 0; gguf_next_str(&at, &text); id++) {
        uint64_t type = token_type(types, id);
        if (type != TYPE_CONTROL && type != TYPE_USER) continue;
        /* it would split texts inside of characters */
        if (!utf8_valid((const char *)text.p, bytes_left(&text)))
            return err_set(err, KEY "tokens: token %u is not UTF-8", id);
        tok_add_added(t, (struct tok_added){ .id = id, .special = type == TYPE_CONTROL },
                      (const char *)text.p, bytes_left(&text));
    }
    return tok_index_added(t, err);
}

/* ---- parts shared with tokenizer.json */
static int load_steps(const char *json, const char *where, struct tok_steps *out, struct err *err) {
    json_t *root = jsonr_load_text(json, strlen(json), where, err);
    int rc = root ? tok_load_steps(root, where, out, err) : -1;
    json_decref(root);
    return rc;
}

static int load_decoder(const char *json, struct tok_decoder *out, struct err *err) {
    json_t *root = jsonr_load_text(json, strlen(json), "decoder", err);
    int rc = root ? tok_load_decoder(root, out, err) : -1;
    json_decref(root);
    return rc;
}

static void add_ends(struct tokenizer *t, const struct gguf *g, bool bos_by_default) {
    bool bos = bos_by_default, eos = false;
    uint64_t id;
    gguf_bool(g, KEY "add_bos_token", &bos);
    gguf_bool(g, KEY "add_eos_token", &eos);
    if (bos && gguf_u64(g, KEY "bos_token_id", &id) && id < TOK_MAX_ID) vec_push(&t->prefix, (uint32_t)id);
    if (eos && gguf_u64(g, KEY "eos_token_id", &id) && id < TOK_MAX_ID) vec_push(&t->suffix, (uint32_t)id);
}

/* ---- byte-level BPE */
static int add_merges(struct tokenizer *t, const struct gguf *g, struct err *err) {
    const struct gguf_value *merges = gguf_value(g, KEY "merges");
    if (!merges || merges->kind != GGUF_ARRAY || merges->element != GGUF_STRING)
        return err_set(err, KEY "merges is missing or not a list of texts");
    struct bytes at = merges->raw, text;
    for (size_t i = 0; gguf_next_str(&at, &text); i++) {
        const char *p = (const char *)text.p;
        size_t n = bytes_left(&text);
        const char *space = n ? memchr(p + 1, ' ', n - 1) : NULL;
        if (!space) return err_set(err, KEY "merges: entry %zu is not \"a b\"", i);
        size_t left = (size_t)(space - p);
        if (tok_bpe_add_merge(t->bpe, p, left, space + 1, n - left - 1, err) < 0) return -1;
    }
    return 0;
}

static const struct split_row *find_split(const struct gguf *g, struct err *err) {
    char name[64];
    const char *pre = text_or(g, KEY "pre", name, sizeof name);
    struct strbuf known = STRBUF_INIT;
    for (size_t i = 0; i < COUNTOF(split_rows); i++) {
        if (pre && strcmp(pre, split_rows[i].name) == 0) {
            strbuf_free(&known);
            return &split_rows[i];
        }
        strbuf_addf(&known, "%s%s", i ? ", " : "", split_rows[i].name);
    }
    err_set(err, KEY "pre is '%s'; this engine splits text as %s: give prompt_ids instead",
            pre ? pre : "(missing)", known.buf);
    strbuf_free(&known);
    return NULL;
}

static int load_bpe(struct tokenizer *t, const struct gguf *g, struct err *err) {
    const struct split_row *row = find_split(g, err);
    if (!row) return -1;
    struct tok_bpe_settings set = { .prefix = "", .suffix = "", .ignore_merges = row->ignore_merges };
    if (tok_bpe_set(t->bpe, &set, err) < 0 || add_merges(t, g, err) < 0) return -1;
    if (row->nfc && load_steps("{\"type\":\"NFC\"}", "normalizer", &t->normalizer, err) < 0) return -1;
    if (load_steps(row->pre_tokenizer, "pre_tokenizer", &t->pre_tokenizer, err) < 0) return -1;
    add_ends(t, g, false);
    return load_decoder("{\"type\":\"ByteLevel\"}", &t->decoder, err);
}

/* ---- SentencePiece */
struct pair {
    uint32_t left, right;
    float score; /* score of the token that the pair forms */
};
struct pairs {
    struct pair *v;
    size_t n, cap;
};

/* Orders by descending score, then by ids, like the converter of transformers. */
static int compare_pairs(const void *a, const void *b) {
    const struct pair *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->left != y->left) return x->left < y->left ? -1 : 1;
    return x->right < y->right ? -1 : x->right > y->right;
}

/* The time for the pairs of a token grows with the square of its length. Tokens of released models have up to
 * a few hundred bytes. */
#define PIECE_BYTES_MAX 1024

static void add_pairs(const struct tok_bpe *bpe, const char *text, size_t n, float score,
                      struct pairs *pairs) {
    for (size_t cut = 1; cut < n; cut++) {
        if (((unsigned char)text[cut] & 0xc0) == 0x80) continue; /* inside a character */
        uint32_t left = tok_bpe_find(bpe, text, cut), right = tok_bpe_find(bpe, text + cut, n - cut);
        if (left != TOKENIZER_NONE && right != TOKENIZER_NONE)
            vec_push(pairs, ((struct pair){ left, right, score }));
    }
}

/* A score that is not a number is below all others. */
static float score_of(const struct gguf_value *scores, uint32_t id) {
    double score = 0;
    gguf_array_f64(scores, id, &score);
    return isnan(score) ? -INFINITY : (float)score;
}

static int find_pairs(const struct tokenizer *t, const struct gguf *g, struct pairs *pairs, struct err *err) {
    const struct gguf_value *scores = gguf_value(g, KEY "scores"), *types = gguf_value(g, KEY "token_type");
    struct bytes at = gguf_value(g, KEY "tokens")->raw, text;
    for (uint32_t id = 0; gguf_next_str(&at, &text); id++) {
        uint64_t type = token_type(types, id);
        if (type != TYPE_NORMAL && type != TYPE_USER) continue;
        if (bytes_left(&text) > PIECE_BYTES_MAX)
            return err_set(err, KEY "tokens: token %u has %zu bytes; at most %d are possible", id,
                           bytes_left(&text), PIECE_BYTES_MAX);
        add_pairs(t->bpe, (const char *)text.p, bytes_left(&text), score_of(scores, id), pairs);
    }
    if (pairs->n) qsort(pairs->v, pairs->n, sizeof *pairs->v, compare_pairs);
    return 0;
}

static int add_pair_merges(struct tokenizer *t, const struct gguf *g, struct err *err) {
    struct pairs pairs = { 0 };
    int rc = find_pairs(t, g, &pairs, err);
    for (size_t i = 0; rc == 0 && i < pairs.n; i++) {
        size_t nl, nr;
        const char *l = tok_bpe_text(t->bpe, pairs.v[i].left, &nl),
                   *r = tok_bpe_text(t->bpe, pairs.v[i].right, &nr);
        rc = tok_bpe_add_merge(t->bpe, l, nl, r, nr, err);
    }
    free(pairs.v);
    return rc;
}

#define MARK "\xe2\x96\x81"
#define MARKS "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" MARK "\"}"
#define SPACES "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" MARK "\"},\"content\":\" \"}"
#define TEXT SPACES ",{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}"

static int load_pieces(struct tokenizer *t, const struct gguf *g, struct err *err) {
    uint64_t unk = 0;
    size_t n = 0;
    bool space = true;
    const struct gguf_value *scores = gguf_value(g, KEY "scores");
    if (!scores || scores->kind != GGUF_ARRAY || scores->count < tok_bpe_size(t->bpe))
        return err_set(err, KEY "scores is missing or too short");
    gguf_bool(g, KEY "add_space_prefix", &space);
    gguf_u64(g, KEY "unknown_token_id", &unk);
    const char *unknown = unk < TOK_MAX_ID ? tok_bpe_text(t->bpe, (uint32_t)unk, &n) : NULL;
    struct tok_bpe_settings set = {
        .unk_token = unknown, .prefix = "", .suffix = "", .fuse_unk = true, .byte_fallback = true
    };
    if (tok_bpe_set(t->bpe, &set, err) < 0 || add_pair_merges(t, g, err) < 0) return -1;
    const char *normalizer = space ? "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\","
                                     "\"prepend\":\"" MARK "\"}," MARKS "]}"
                                   : MARKS;
    if (load_steps(normalizer, "normalizer", &t->normalizer, err) < 0) return -1;
    add_ends(t, g, true);
    return load_decoder(space ? "{\"type\":\"Sequence\",\"decoders\":[" TEXT ",{\"type\":\"Strip\","
                                "\"content\":\" \",\"start\":1,\"stop\":0}]}"
                              : "{\"type\":\"Sequence\",\"decoders\":[" TEXT "]}",
                        &t->decoder, err);
}

bool tokenizer_in_gguf(const struct gguf *g) { return gguf_value(g, KEY "tokens") != NULL; }

struct tokenizer *tokenizer_open_gguf(const struct gguf *g, const char *what, struct err *err) {
    char name[64];
    const char *kind = text_or(g, KEY "model", name, sizeof name);
    struct tokenizer *t = tok_new();
    int rc = add_tokens(t, g, err);
    if (rc == 0 && kind && strcmp(kind, "gpt2") == 0)
        rc = load_bpe(t, g, err);
    else if (rc == 0 && kind && strcmp(kind, "llama") == 0)
        rc = load_pieces(t, g, err);
    else if (rc == 0)
        rc = err_set(err,
                     KEY "model is '%s'; this engine reads gpt2 (BPE) and llama (SentencePiece): give "
                         "prompt_ids instead of a prompt",
                     kind ? kind : "(missing)");
    if (rc == 0) return t;
    err_wrap(err, "%s", what);
    tokenizer_close(t);
    return NULL;
}
