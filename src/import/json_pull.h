/* A streaming JSON reader. It keeps only one window of the input in memory.
 *     struct json_pull *j = json_pull_open(fill, source, 0);
 *     while ((tok = json_pull_next(j)) > JSON_END) ...      -- j->text, j->len: for KEY, STRING, NUMBER
 *     json_pull_close(j);
 * A text is valid until the next call. Escapes are decoded; a lone surrogate becomes U+FFFD. Invalid UTF-8 is
 * not changed. NaN and Infinity are numbers, because profilers write them. Superfluous commas are accepted
 * and counted. Strings over JSON_TEXT_MAX are truncated and counted. json_pull_memory() reads a value in
 * memory and needs no close. */
#ifndef IMPORT_JSON_PULL_H
#define IMPORT_JSON_PULL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_TEXT_MAX 65536
#define JSON_DEPTH_MAX 256

enum json_token {
    JSON_ERROR = -1, /* see j->error and json_pull_position() */
    JSON_END = 0,    /* end of the input */
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

/* Copies up to cap bytes to buf. Returns 0 at the end or on failure. */
typedef size_t json_fill_fn(void *source, char *buf, size_t cap);

struct json_pull {
    const char *p, *end; /* unread bytes of the window */
    const char *text;    /* text of the last token */
    size_t len;
    const char *error;
    bool cut_short;     /* the input ended too early */
    uint32_t commas;    /* superfluous commas accepted */
    uint32_t cut_texts; /* truncated strings */
    uint64_t offset;    /* input offset of window[0] */
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

/* Position in the input in bytes; 0 for a value in memory. */
uint64_t json_pull_position(const struct json_pull *j);

/* Returns the whole next value: an object or array as raw bytes, other tokens as json_pull_next() does. If
 * the value is longer than the window, or the input ends inside it, returns JSON_ERROR and stays before the
 * value. */
enum json_token json_pull_raw(struct json_pull *j);
/* Skips the next value, of any size. */
enum json_token json_pull_skip(struct json_pull *j);
/* Goes back to the start of the value that json_pull_raw() has just returned. */
void json_pull_rewind(struct json_pull *j, const char *text);

/* After JSON_ERROR in an array: skips to the next "{" after a comma, at least one byte. Returns false at the
 * end of the input. */
bool json_pull_resync(struct json_pull *j);

/* For the text of a JSON_NUMBER, or of a string with a number. */
bool json_to_double(const char *text, size_t len, double *out);
/* Accepts integers >= 0 that fit; "7.0" is 7. */
bool json_to_u64(const char *text, size_t len, uint64_t *out);
/* Multiplies a decimal by 10^scale: "12.3456" with scale 3 gives 12346. Rounds half away from zero. */
bool json_to_scaled(const char *text, size_t len, unsigned scale, int64_t *out);

#endif
