/* The safetensors header reader: valid and invalid input. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "base/util.h"
#include "llm/safetensors.h"
#include "unit/test.h"

#define HEAD(text) text, sizeof(text) - 1

static const char two[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                          "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[8,20]},"
                          "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";

TEST(safetensors_finds_tensors_by_name) {
    struct err err;
    struct safetensors *st = safetensors_parse(HEAD(two), 20, "t", &err);
    CHECK(st != NULL);
    CHECK_INT(safetensors_count(st), 2);
    const struct safetensors_tensor *b = safetensors_find(st, "b");
    CHECK(b != NULL);
    CHECK_INT(b->dtype, LLM_BF16);
    CHECK_INT(b->ndims, 2);
    CHECK_INT(b->shape[1], 3);
    CHECK_INT(b->numbers, 6);
    CHECK_INT(b->offset, 8 + sizeof two - 1 + 8);
    CHECK_INT(b->bytes, 12);
    CHECK(safetensors_find(st, "c") == NULL);
    safetensors_close(st);
}

TEST(safetensors_rejects_inconsistent_headers) {
    static const struct {
        const char *head, *message;
    } cases[] = {
        { "[]", "t: the header is not a JSON object" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
          "t: tensor \"a\" ends at byte 8 of 7: the file is truncated or damaged" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}",
          "t: tensor \"a\": 4 bytes do not match 2 numbers of fp32" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}",
          "t: tensor \"a\": data_offsets is not [start, end]" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}",
          "t: tensor \"a\": data_offsets is not [start, end]" },
        { "{\"a\":{\"dtype\":\"Q9\",\"shape\":[1],\"data_offsets\":[0,4]}}",
          "t: tensor \"a\": unknown dtype 'Q9'" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}",
          "t: tensor \"a\": invalid shape: not a list of at most 8 sizes whose product fits 64 bits" },
        { "{\"a\":{\"dtype\":\"I64\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}",
          "t: tensor \"a\": 0 bytes do not match 4611686018427387904 numbers of int64" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
          "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[3,7]}}",
          "t: tensors \"a\" and \"b\" overlap" },
        { "{\"a\":4}", "t: tensor \"a\": has no dtype" },
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct err err = { "" };
        CHECK(safetensors_parse(cases[i].head, strlen(cases[i].head), 7, "t", &err) == NULL);
        CHECK_STR(err.msg, cases[i].message);
    }
}

/* Writes header length, header and `data` zero bytes to dir/name. */
static void write_file(const char *dir, const char *name, const char *head, uint64_t head_bytes,
                       size_t data) {
    struct strbuf s = STRBUF_INIT;
    struct err err;
    strbuf_add(&s, &head_bytes, 8);
    strbuf_addstr(&s, head);
    strbuf_addchars(&s, '\0', data);
    char *path = file_join(dir, name);
    CHECK_INT(file_write_atomic(path, s.buf, s.len, &err), 0);
    free(path);
    strbuf_free(&s);
}

TEST(safetensors_reads_shards_through_their_index) {
    static const char index[] = "{\"weight_map\":{\"a\":\"m-1.safetensors\",\"b\":\"m-1.safetensors\","
                                "\"c\":\"m-2.safetensors\"}}";
    static const char one[] = "{\"c\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}";
    char *dir = test_tmpdir(), *path = file_join(dir, "model.safetensors.index.json");
    struct err err = { "" };
    write_file(dir, "m-1.safetensors", two, sizeof two - 1, 20);
    write_file(dir, "m-2.safetensors", one, sizeof one - 1, 1);
    write_file(dir, "stray.safetensors", "{", 1, 0);
    CHECK_INT(file_write_atomic(path, index, sizeof index - 1, &err), 0);
    struct safetensors *st = safetensors_open(dir, &err);
    CHECK(st != NULL);
    CHECK_INT(safetensors_files(st), 2);
    CHECK_INT(safetensors_count(st), 3);
    const struct safetensors_tensor *c = safetensors_find(st, "c");
    CHECK_INT(c->numbers, 1);
    CHECK_STR(file_basename(safetensors_file(st, c->file)), "m-2.safetensors");
    safetensors_close(st);
    free(path);
    free(dir);
}

TEST(safetensors_rejects_a_header_longer_than_the_file) {
    char *dir = test_tmpdir(), *path = file_join(dir, "x.safetensors");
    struct err err = { "" };
    write_file(dir, "x.safetensors", "{}", UINT64_MAX, 0);
    CHECK(safetensors_open(path, &err) == NULL);
    CHECK(strstr(err.msg, "a header of 18446744073709551615 bytes in a file of 10: not a safetensors file") !=
          NULL);
    free(path);
    free(dir);
}

TEST(safetensors_index_may_not_point_outside_its_folder) {
    static const char index[] = "{\"weight_map\":{\"a\":\"../other.safetensors\"}}";
    char *dir = test_tmpdir(), *path = file_join(dir, "model.safetensors.index.json");
    struct err err = { "" };
    CHECK_INT(file_write_atomic(path, index, sizeof index - 1, &err), 0);
    CHECK(safetensors_open(dir, &err) == NULL);
    CHECK(strstr(err.msg, "tensor \"a\" is not in a file of this folder") != NULL);
    free(path);
    free(dir);
}

TEST(safetensors_index_without_files_is_rejected) {
    static const char index[] = "{\"weight_map\":{}}";
    char *dir = test_tmpdir(), *path = file_join(dir, "model.safetensors.index.json");
    struct err err = { "" };
    CHECK_INT(file_write_atomic(path, index, sizeof index - 1, &err), 0);
    CHECK(safetensors_open(dir, &err) == NULL);
    CHECK(strstr(err.msg, "has no weight_map, or an empty one") != NULL);
    free(path);
    free(dir);
}
