/* A JSON reader that asks for bytes as it goes and never holds the document: memory is one window.
 *     struct json_pull *j = json_pull_open(fill, source, 0);
 *     while ((tok = json_pull_next(j)) > JSON_END) ...      -- j->text, j->len belong to KEY, STRING, NUMBER
 *     json_pull_close(j);
 * A text lives until the next call. Escapes are resolved (a lone surrogate becomes U+FFFD); bytes that are
 * not UTF-8 pass as they are. NaN, Infinity and -Infinity count as numbers, because profilers write them.
 * A comma before a closing bracket is taken and counted. Strings over JSON_TEXT_MAX are cut and counted.
 * json_pull_memory() reads a value that lies in memory, on the caller's struct, and needs no close. */
#ifndef IMPORT_JSON_PULL_H
#define IMPORT_JSON_PULL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_TEXT_MAX 65536
#define JSON_DEPTH_MAX 256

enum json_token {
    JSON_ERROR = -1, /* j->error says what; j->offset + position says where */
    JSON_END = 0,    /* the input is used up: clean after a whole value, else j->cut_short */
    JSON_OBJECT,
    JSON_OBJECT_END,
    JSON_ARRAY,
    JSON_ARRAY_END,
    JSON_KEY,
    JSON_STRING,
    JSON_NUMBER, /* raw text */
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL,
};

/* Copies up to cap bytes to buf; 0 at the end or on failure (the source remembers which). */
typedef size_t json_fill_fn(void *source, char *buf, size_t cap);

struct json_pull {
    const char *p, *end; /* unread bytes of the window */
    const char *text;    /* of the last token */
    size_t len;
    const char *error;
    bool cut_short;     /* the input ended inside a value */
    uint32_t commas;    /* stray ones that were forgiven */
    uint32_t cut_texts; /* strings that were cut */
    uint64_t offset;    /* of window[0] in the input */
    /* private */
    json_fill_fn *fill;
    void *source;
    char *window, *scratch;
    size_t cap;
    bool eof, want_value, seen_item;
    uint32_t depth;
    uint8_t is_object[JSON_DEPTH_MAX / 8];
};

struct json_pull *json_pull_open(json_fill_fn *fill, void *source, size_t window_bytes); /* 0: 4 MiB */
void json_pull_close(struct json_pull *j);
void json_pull_memory(struct json_pull *j, const char *text, size_t len);
enum json_token json_pull_next(struct json_pull *j);

/* Where the parser stands in the input, in bytes. */
uint64_t json_pull_position(const struct json_pull *j);

/* The whole value that comes next: an object or array as it stands in the input, other values as from
 * json_pull_next. The bytes live until the next call. The end of the enclosing container comes back as
 * from json_pull_next. When the value is longer than the window, or the input ends inside it: JSON_ERROR,
 * and the parser stays before it, to be skipped or resynced. */
enum json_token json_pull_raw(struct json_pull *j);
/* Steps over the value that comes next, whatever its size. */
enum json_token json_pull_skip(struct json_pull *j);
/* Back to before the value that json_pull_raw has just returned. */
void json_pull_rewind(struct json_pull *j, const char *text);

/* After JSON_ERROR among the items of an array: drops at least a byte and goes to the next "{" that follows a
 * comma.
 * False at the end of the input. */
bool json_pull_resync(struct json_pull *j);

/* Number helpers, for the text of a JSON_NUMBER (or of a string that holds one). */
bool json_to_double(const char *text, size_t len, double *out);
bool json_to_u64(const char *text, size_t len, uint64_t *out); /* whole and in range; "7.0" is 7 */
/* A decimal with `scale` more digits: "12.3456" with scale 3 gives 12346 (rounded half up). */
bool json_to_scaled(const char *text, size_t len, unsigned scale, int64_t *out);

#endif
