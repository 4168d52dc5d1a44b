/* Compared with Hugging Face `tokenizers`; tests/oracle/tokenizers_fixtures.py describes the files. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/bytes.h"
#include "base/crc32.h"
#include "base/die.h"
#include "base/strbuf.h"
#include "engine/tokenizer/tokenizer.h"
#include "llm/gguf.h"
#include "unit/test.h"

#define DATA "tests/data/tokenizer/"

static void read_gz(const char *name, const char *suffix, struct strbuf *out) {
    char *path = xasprintf(DATA "%s%s.gz", name, suffix), part[65536];
    gzFile f = gzopen(path, "rb");
    if (!f) die("%s is missing: run from the top of the source", path);
    for (int n; (n = gzread(f, part, sizeof part)) > 0;) strbuf_add(out, part, (size_t)n);
    gzclose(f);
    free(path);
}

static struct bytes view(const struct strbuf *s) {
    return (struct bytes){ (const uint8_t *)s->buf, (const uint8_t *)s->buf + s->len };
}

static struct bytes next_string(struct bytes *in) {
    uint32_t n;
    struct bytes s;
    if (!bytes_u32(in, &n) || !bytes_slice(in, n, &s)) die("a test file ends too early");
    return s;
}

static struct tokenizer *open_fixture(const char *name) {
    struct strbuf json = STRBUF_INIT;
    struct err err;
    read_gz(name, ".json", &json);
    struct tokenizer *t = tokenizer_open_text(json.buf, json.len, name, &err);
    if (!t) fail_msg("%s", err.msg);
    strbuf_free(&json);
    return t;
}

static void check_encoding(struct tokenizer *t, const char *name) {
    struct strbuf strings = STRBUF_INIT, want = STRBUF_INIT;
    struct token_ids ids = { 0 };
    struct err err;
    size_t n = 0, wrong = 0;
    read_gz("strings", "", &strings);
    read_gz(name, ".ids", &want);
    struct bytes in = view(&strings), crcs = view(&want);
    for (; bytes_left(&in) > 0; n++) {
        uint16_t crc = 0;
        struct bytes s = next_string(&in);
        ids.n = 0;
        CHECK_INT(tokenizer_encode(t, (const char *)s.p, bytes_left(&s), TOKENIZER_PLAIN, &ids, &err), 0);
        CHECK(bytes_u16(&crcs, &crc));
        if ((crc32_update(0, ids.v, ids.n * sizeof *ids.v) & 0xffff) == crc) continue;
        if (wrong++ < 5)
            print_error("%s: string %zu \"%.*s\" differs\n", name, n, (int)bytes_left(&s), (const char *)s.p);
    }
    if (wrong > 0) fail_msg("%s: %zu of %zu strings differ", name, wrong, n);
    CHECK(n > 10000);
    CHECK_INT(bytes_left(&crcs), 0);
    strbuf_free(&strings);
    strbuf_free(&want);
    free(ids.v);
}

static void decode_stream(const struct tokenizer *t, const uint32_t *ids, size_t n, enum tokenizer_skip skip,
                          struct strbuf *out) {
    struct token_stream s;
    token_stream_init(&s, t, skip);
    for (size_t i = 0; i < n; i++) token_stream_next(&s, ids[i], out);
    token_stream_finish(&s, out);
}

static void check_decoding(const struct tokenizer *t, const char *name, bool stream_is_equal) {
    struct strbuf want = STRBUF_INIT, got = STRBUF_INIT, streamed = STRBUF_INIT;
    read_gz(name, ".txt", &want);
    struct bytes in = view(&want);
    for (size_t n = 0; bytes_left(&in) > 0; n++) {
        uint32_t ids[64], count = 0;
        CHECK(bytes_u32(&in, &count) && count <= 64 && bytes_copy(&in, ids, count * sizeof *ids));
        for (int skip = 0; skip <= 1; skip++) {
            struct bytes text = next_string(&in);
            strbuf_reset(&got);
            strbuf_reset(&streamed);
            tokenizer_decode(t, ids, count, (enum tokenizer_skip)skip, &got);
            if (got.len != bytes_left(&text) || memcmp(got.buf, text.p, got.len) != 0)
                fail_msg("%s: run %zu decodes to \"%s\", not \"%.*s\"", name, n, got.buf,
                         (int)bytes_left(&text), (const char *)text.p);
            decode_stream(t, ids, count, (enum tokenizer_skip)skip, &streamed);
            if (stream_is_equal) CHECK_STR(streamed.buf, got.buf);
        }
    }
    strbuf_free(&want);
    strbuf_free(&got);
    strbuf_free(&streamed);
}

static void check_fixture(const char *name, bool stream_is_equal) {
    struct tokenizer *t = open_fixture(name);
    check_encoding(t, name);
    check_decoding(t, name, stream_is_equal);
    tokenizer_close(t);
}

TEST(gpt2_tokens_are_those_of_the_reference) { check_fixture("gpt2", true); }
TEST(byte_level_with_a_prefix_space_agrees) { check_fixture("gpt2_prefix", true); }
TEST(deepseek_tokens_are_those_of_the_reference) { check_fixture("deepseek", true); }
TEST(llama3_tokens_are_those_of_the_reference) { check_fixture("llama3", true); }
TEST(qwen2_tokens_are_those_of_the_reference) { check_fixture("qwen2", true); }
TEST(llama2_tokens_are_those_of_the_reference) { check_fixture("llama2", false); }
TEST(mistral_tokens_are_those_of_the_reference) { check_fixture("mistral", false); }
TEST(o200k_tokens_are_those_of_the_reference) { check_fixture("o200k", true); }
TEST(gemma_tokens_are_those_of_the_reference) { check_fixture("gemma", false); }
TEST(metaspace_and_token_flags_agree) { check_fixture("metaspace", true); }
TEST(every_behaviour_of_splits_agrees) { check_fixture("behaviours", true); }
TEST(word_prefix_and_suffix_agree) { check_fixture("suffix", true); }

/* Ids as text: "1 2 3". */
static const char *encode_to_text(struct tokenizer *t, const char *text, enum tokenizer_special special,
                                  struct strbuf *out) {
    struct token_ids ids = { 0 };
    struct err err;
    strbuf_reset(out);
    CHECK_INT(tokenizer_encode(t, text, strlen(text), special, &ids, &err), 0);
    for (size_t i = 0; i < ids.n; i++) strbuf_addf(out, "%s%u", i ? " " : "", ids.v[i]);
    free(ids.v);
    return out->buf;
}

TEST(special_tokens_are_added_only_on_request) {
    struct tokenizer *t = open_fixture("llama3");
    struct strbuf plain = STRBUF_INIT, special = STRBUF_INIT;
    char *want = xasprintf("%u %s", tokenizer_find(t, "<|begin_of_text|>"),
                           encode_to_text(t, "some text", TOKENIZER_PLAIN, &plain));
    CHECK_STR(encode_to_text(t, "some text", TOKENIZER_ADD_SPECIAL, &special), want);
    CHECK_INT(tokenizer_find(t, "<|no such|>"), TOKENIZER_NONE);
    CHECK_STR(tokenizer_token(t, tokenizer_find(t, "e")), "e");
    CHECK(!tokenizer_token(t, 1u << 30));
    free(want);
    strbuf_free(&plain);
    strbuf_free(&special);
    tokenizer_close(t);
}

TEST(invalid_utf8_counts_as_the_replacement_character) {
    struct tokenizer *t = open_fixture("deepseek");
    struct strbuf got = STRBUF_INIT, want = STRBUF_INIT;
    CHECK_STR(encode_to_text(t, "a\xff z \xe4\xbd", TOKENIZER_PLAIN, &got),
              encode_to_text(t, "a\xef\xbf\xbd z \xef\xbf\xbd\xef\xbf\xbd", TOKENIZER_PLAIN, &want));
    CHECK(want.len > 0);
    strbuf_free(&got);
    strbuf_free(&want);
    tokenizer_close(t);
}

TEST(the_stream_holds_back_half_a_character) {
    struct tokenizer *t = tokenizer_open_builtin();
    struct token_stream s;
    struct strbuf out = STRBUF_INIT;
    token_stream_init(&s, t, TOKENIZER_KEEP_SPECIAL);
    const unsigned char smile[] = { 0xf0, 0x9f, 0x98, 0x80 };
    for (int i = 0; i < 3; i++) token_stream_next(&s, 3u + smile[i], &out);
    CHECK_INT(out.len, 0);
    token_stream_next(&s, 3u + smile[3], &out);
    CHECK_STR(out.buf, "\xf0\x9f\x98\x80");
    strbuf_reset(&out);
    token_stream_next(&s, 3u + 0xe4, &out); /* an incomplete character, then another one */
    token_stream_next(&s, 3u + 0xbd, &out);
    token_stream_next(&s, 3u + 'x', &out);
    CHECK_STR(out.buf, "\xef\xbf\xbdx");
    strbuf_reset(&out);
    token_stream_next(&s, 3u + 0xe4, &out);
    CHECK_INT(out.len, 0);
    token_stream_finish(&s, &out);
    CHECK_STR(out.buf, "\xef\xbf\xbd");
    strbuf_free(&out);
    tokenizer_close(t);
}

TEST(byte_fallback_streams_character_by_character) {
    struct tokenizer *t = open_fixture("llama2");
    struct token_stream s;
    struct strbuf out = STRBUF_INIT;
    token_stream_init(&s, t, TOKENIZER_KEEP_SPECIAL);
    token_stream_next(&s, tokenizer_find(t, "\xe2\x96\x81"), &out); /* the first space is dropped */
    token_stream_next(&s, tokenizer_find(t, "<0xC3>"), &out);
    CHECK_INT(out.len, 0);
    token_stream_next(&s, tokenizer_find(t, "<0xA9>"), &out);
    CHECK_STR(out.buf, "\xc3\xa9");
    token_stream_next(&s, tokenizer_find(t, "<0xC3>"), &out);
    token_stream_next(&s, tokenizer_find(t, "\xe2\x96\x81"), &out);
    CHECK_STR(out.buf, "\xc3\xa9\xef\xbf\xbd ");
    strbuf_free(&out);
    tokenizer_close(t);
}

TEST(the_builtin_tokenizer_decodes_what_it_encoded) {
    static const char text[] = "<image>\n<|grounding|>Convert the document to markdown. "
                               "\xe4\xbd\xa0\xe5\xa5\xbd 12345 [[10, 20]]\t\x01";
    struct tokenizer *t = tokenizer_open_builtin();
    struct token_ids ids = { 0 };
    struct strbuf out = STRBUF_INIT;
    struct err err;
    CHECK_INT(tokenizer_size(t), 1024);
    CHECK_INT(tokenizer_find(t, "<image>"), 1011);
    CHECK_INT(tokenizer_encode(t, text, strlen(text), TOKENIZER_PLAIN, &ids, &err), 0);
    CHECK_INT(ids.v[0], 1011);
    CHECK(ids.n < strlen(text) * 2 / 3); /* merges were applied */
    tokenizer_decode(t, ids.v, ids.n, TOKENIZER_KEEP_SPECIAL, &out);
    CHECK_STR(out.buf, text);
    strbuf_reset(&out);
    for (uint32_t id = 0; id < 1024; id++) CHECK(tokenizer_token(t, id));
    tokenizer_decode(t, (const uint32_t[]){ 0, 3 + 'a', 1 }, 3, TOKENIZER_SKIP_SPECIAL, &out);
    CHECK_STR(out.buf, "a");
    strbuf_free(&out);
    free(ids.v);
    tokenizer_close(t);
}

TEST(encoding_time_of_long_words_is_not_quadratic) { /* quadratic merging would take minutes */
    struct tokenizer *t = open_fixture("llama2");
    struct token_ids ids = { 0 };
    struct err err;
    size_t n = 300000;
    char *text = xmalloc(n);
    for (size_t i = 0; i < n; i++) text[i] = "the cat "[i * 7 % 8];
    CHECK_INT(tokenizer_encode(t, text, n, TOKENIZER_PLAIN, &ids, &err), 0);
    CHECK(ids.n > n / 16);
    free(text);
    free(ids.v);
    tokenizer_close(t);
}

static void expect_refusal(const char *json, const char *message) {
    struct err err;
    struct tokenizer *t = tokenizer_open_text(json, strlen(json), "t.json", &err);
    CHECK(!t);
    CHECK_STR(err.msg, message);
}

#define MODEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}"

TEST(unsupported_parts_are_rejected_by_name) {
    expect_refusal("[]", "t.json: not an object: is this a tokenizer.json?");
    expect_refusal("{}", "t.json: \"model\" is missing: is this a tokenizer.json?");
    expect_refusal("{\"model\":{\"type\":\"Unigram\"}}",
                   "t.json: model.type is \"Unigram\": only BPE is supported");
    expect_refusal("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}",
                   "t.json: model.vocab: \"a\" has no id between 0 and 16777215");
    expect_refusal("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":1},\"merges\":[\"a a\"]}}",
                   "t.json: merge 0 (\"a\" + \"a\") names a token that is not in the vocabulary");
    expect_refusal("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":1},\"merges\":[\"a\"]}}",
                   "t.json: model.merges: entry 0 is neither \"a b\" nor [\"a\", \"b\"]");
    expect_refusal("{" MODEL ",\"normalizer\":{\"type\":\"NFKC\"}}",
                   "t.json: normalizer \"NFKC\": this kind is not supported");
    expect_refusal(
        "{" MODEL
        ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"UnicodeScripts\"}]}}",
        "t.json: pre_tokenizer \"UnicodeScripts\": this kind is not supported");
    expect_refusal("{" MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&[b]]\"},"
                   "\"behavior\":\"Isolated\"}}",
                   "t.json: pre_tokenizer: the pattern has an intersection of classes before \"&[b]]\", "
                   "which is not supported");
    expect_refusal(
        "{" MODEL
        ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a\"},\"behavior\":\"Isolated\"}}",
        "t.json: pre_tokenizer: at character 2: missing closing parenthesis");
    expect_refusal("{" MODEL ",\"decoder\":{\"type\":\"WordPiece\"}}",
                   "t.json: decoder \"WordPiece\" is not supported");
    expect_refusal("{" MODEL ",\"post_processor\":{\"type\":\"Odd\"}}",
                   "t.json: post_processor \"Odd\" is not supported");
    expect_refusal("{" MODEL, "t.json: line 1, column 69: '}' expected near end of file");
}

TEST(the_error_names_a_folder_without_tokenizer_json) {
    struct err err;
    char *dir = test_tmpdir();
    CHECK(!tokenizer_open(dir, &err));
    CHECK(strstr(err.msg, "tokenizer.json"));
    free(dir);
}

TEST(a_pattern_that_backtracks_too_long_is_stopped) {
    static const char json[] = "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\","
                               "\"pattern\":{\"Regex\":\"(a|aa)+$\"}}}";
    struct err err;
    struct token_ids ids = { 0 };
    struct tokenizer *t = tokenizer_open_text(json, strlen(json), "t.json", &err);
    CHECK(t);
    CHECK_INT(tokenizer_encode(t, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", 47, TOKENIZER_PLAIN,
                               &ids, &err),
              -1);
    CHECK_STR(err.msg, "a pattern of the tokenizer failed on this text: match limit exceeded");
    free(ids.v);
    tokenizer_close(t);
}

/* ---- GGUF */

static void put_u32(struct strbuf *s, uint32_t v) { strbuf_add(s, (const char *)&v, 4); }
static void put_u64(struct strbuf *s, uint64_t v) { strbuf_add(s, (const char *)&v, 8); }
static void put_text(struct strbuf *s, const char *text, size_t n) {
    put_u64(s, n);
    strbuf_add(s, text, n);
}
static void put_key(struct strbuf *s, const char *key, uint32_t kind) {
    put_text(s, key, strlen(key));
    put_u32(s, kind);
}
static void put_value(struct strbuf *s, const char *key, const char *text) {
    put_key(s, key, GGUF_STRING);
    put_text(s, text, strlen(text));
}

/* The start of an array of n numbers or texts, which the caller adds. */
static void put_array(struct strbuf *file, const char *key, uint32_t type, uint64_t n) {
    put_key(file, key, GGUF_ARRAY);
    put_u32(file, type);
    put_u64(file, n);
}

static void put_tokens(struct strbuf *s, const json_t *root) {
    enum { MOST = 1 << 16 };
    const json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab"), *v;
    const json_t *added = json_object_get(root, "added_tokens");
    const char **names = xcalloc(MOST, sizeof *names), *key;
    int32_t *types = xcalloc(MOST, sizeof *types);
    uint32_t n = 0;
    size_t i;
    json_object_foreach((json_t *)vocab, key, v) {
        names[json_integer_value(v)] = key;
        types[json_integer_value(v)] = 1;
    }
    json_array_foreach(added, i, v) {
        json_int_t id = json_integer_value(json_object_get(v, "id"));
        names[id] = json_string_value(json_object_get(v, "content"));
        types[id] = json_is_true(json_object_get(v, "special")) ? 3 : 4;
    }
    while (names[n]) n++;
    put_array(s, "tokenizer.ggml.tokens", GGUF_STRING, n);
    for (uint32_t id = 0; id < n; id++) put_text(s, names[id], strlen(names[id]));
    put_array(s, "tokenizer.ggml.token_type", GGUF_I32, n);
    strbuf_add(s, (const char *)types, n * sizeof *types);
    free(names);
    free(types);
}

static void put_merges(struct strbuf *s, const json_t *root) {
    const json_t *merges = json_object_get(json_object_get(root, "model"), "merges"), *m;
    size_t i;
    put_array(s, "tokenizer.ggml.merges", GGUF_STRING, json_array_size(merges));
    json_array_foreach(merges, i, m) {
        char *pair = json_is_string(m) ? xstrdup(json_string_value(m))
                                       : xasprintf("%s %s", json_string_value(json_array_get(m, 0)),
                                                   json_string_value(json_array_get(m, 1)));
        put_text(s, pair, strlen(pair));
        free(pair);
    }
}

static struct gguf *parse_gguf(const struct strbuf *file, const char *name) {
    struct err err;
    struct gguf *g = gguf_parse(file->buf, file->len, name, &err);
    if (!g) fail_msg("%s", err.msg);
    return g;
}

static struct tokenizer *open_gguf_bytes(const struct strbuf *file, const char *name) {
    struct err err;
    struct gguf *g = parse_gguf(file, name);
    CHECK(tokenizer_in_gguf(g));
    struct tokenizer *t = tokenizer_open_gguf(g, name, &err);
    if (!t) fail_msg("%s", err.msg);
    gguf_close(g);
    return t;
}

/* The start of a GGUF file without tensors, with n values: two, and those that the caller adds. */
static void put_head(struct strbuf *file, uint64_t n, const char *model) {
    strbuf_add(file, "GGUF", 4);
    put_u32(file, 3);
    put_u64(file, 0);
    put_u64(file, n);
    put_value(file, "general.architecture", "llama");
    put_value(file, "tokenizer.ggml.model", model);
}
/* The fixture's vocabulary in a GGUF file has the ids of its tokenizer.json. */
static void check_gguf(const char *name, const char *pre) {
    struct strbuf json = STRBUF_INIT, file = STRBUF_INIT;
    read_gz(name, ".json", &json);
    json_t *root = json_loadb(json.buf, json.len, 0, NULL);
    put_head(&file, 6, "gpt2");
    put_value(&file, "tokenizer.ggml.pre", pre);
    put_tokens(&file, root);
    put_merges(&file, root);
    struct tokenizer *t = open_gguf_bytes(&file, name);
    check_encoding(t, name);
    check_decoding(t, name, true);
    tokenizer_close(t);
    json_decref(root);
    strbuf_free(&json);
    strbuf_free(&file);
}

TEST(bpe_vocabularies_of_gguf_files_have_the_ids_of_their_tokenizer_json) {
    check_gguf("gpt2", "gpt-2");
    check_gguf("llama3", "llama-bpe");
    check_gguf("qwen2", "qwen2");
    check_gguf("deepseek", "deepseek-v3");
    check_gguf("o200k", "gpt-4o");
}

TEST(sentencepiece_vocabularies_of_gguf_files_have_the_ids_of_sentencepiece) {
    struct strbuf file = STRBUF_INIT;
    read_gz("pieces", ".gguf", &file);
    struct tokenizer *t = open_gguf_bytes(&file, "pieces");
    check_encoding(t, "pieces");
    tokenizer_close(t);
    strbuf_free(&file);
}

TEST(unknown_vocabularies_of_gguf_files_are_rejected_by_name) {
    struct strbuf file = STRBUF_INIT;
    struct err err;
    put_head(&file, 3, "t5");
    put_array(&file, "tokenizer.ggml.tokens", GGUF_STRING, 1);
    put_text(&file, "a", 1);
    struct gguf *g = parse_gguf(&file, "file");
    CHECK(!tokenizer_open_gguf(g, "file", &err));
    CHECK_STR(err.msg, "file: tokenizer.ggml.model is 't5'; this engine reads gpt2 (BPE) and llama "
                       "(SentencePiece): give prompt_ids instead of a prompt");
    gguf_close(g);
    strbuf_free(&file);
}

/* A SentencePiece vocabulary. */
static struct gguf *pieces_of(struct strbuf *file, const char *const *texts, const float *scores,
                              uint32_t n) {
    put_head(file, 5, "llama");
    put_array(file, "tokenizer.ggml.tokens", GGUF_STRING, n);
    for (uint32_t i = 0; i < n; i++) put_text(file, texts[i], strlen(texts[i]));
    put_array(file, "tokenizer.ggml.scores", GGUF_F32, n);
    strbuf_add(file, (const char *)scores, n * sizeof *scores);
    put_key(file, "tokenizer.ggml.add_space_prefix", GGUF_BOOL);
    strbuf_addch(file, '\0');
    return parse_gguf(file, "file");
}

/* The time for its pairs grows with the square of its length. */
TEST(very_long_pieces_of_gguf_files_are_rejected) {
    struct strbuf file = STRBUF_INIT, text = STRBUF_INIT;
    struct err err;
    strbuf_addchars(&text, 'a', 1 << 20);
    struct gguf *g = pieces_of(&file, (const char *const[]){ "a", text.buf }, (float[]){ 0, 0 }, 2);
    CHECK(!tokenizer_open_gguf(g, "file", &err));
    CHECK_STR(err.msg, "file: tokenizer.ggml.tokens: token 1 has 1048576 bytes; at most 1024 are possible");
    gguf_close(g);
    strbuf_free(&text);
    strbuf_free(&file);
}

TEST(pieces_whose_score_is_not_a_number_merge_last) {
    static const char *const texts[] = { "a", "b", "c", "bc", "ab", "<unk>" };
    struct strbuf file = STRBUF_INIT;
    struct token_ids ids = { 0 };
    struct err err;
    struct gguf *g = pieces_of(&file, texts, (float[]){ 0, 0, 0, -1, NAN, 0 }, 6);
    struct tokenizer *t = tokenizer_open_gguf(g, "file", &err);
    if (!t) fail_msg("%s", err.msg);
    CHECK_INT(tokenizer_encode(t, "abc", 3, TOKENIZER_PLAIN, &ids, &err), 0);
    CHECK_INT(ids.n, 2);
    CHECK_INT(ids.v[0], 0);
    CHECK_INT(ids.v[1], 3);
    free(ids.v);
    tokenizer_close(t);
    gguf_close(g);
    strbuf_free(&file);
}

/* The byte 0x96 is inside of U+2581. */
TEST(added_tokens_of_gguf_files_that_are_not_utf8_are_rejected) {
    struct strbuf file = STRBUF_INIT;
    struct err err;
    put_head(&file, 6, "gpt2");
    put_value(&file, "tokenizer.ggml.pre", "qwen2");
    put_array(&file, "tokenizer.ggml.tokens", GGUF_STRING, 2);
    put_text(&file, "a", 1);
    put_text(&file, "\x96", 1);
    put_array(&file, "tokenizer.ggml.token_type", GGUF_I32, 2);
    put_u32(&file, 1);
    put_u32(&file, 4);
    put_array(&file, "tokenizer.ggml.merges", GGUF_STRING, 0);
    struct gguf *g = parse_gguf(&file, "file");
    CHECK(!tokenizer_open_gguf(g, "file", &err));
    CHECK_STR(err.msg, "file: tokenizer.ggml.tokens: token 1 is not UTF-8");
    gguf_close(g);
    strbuf_free(&file);
}
