#include "import/json_pull.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/utf8.h"
#include "base/util.h"
#include "import/json_scan.h"

#define WINDOW_DEFAULT (4u << 20)
#define FILL_BYTES (256u << 10) /* stays in the CPU cache */

struct json_pull *json_pull_open(json_fill_fn *fill, void *source, size_t window_bytes) {
    struct json_pull *j = xcalloc(1, sizeof *j);
    j->cap = window_bytes ? window_bytes : WINDOW_DEFAULT;
    j->window = xmalloc(j->cap);
    j->scratch = xmalloc(JSON_TEXT_MAX + 8);
    j->p = j->end = j->window;
    j->fill = fill;
    j->source = source;
    j->want_value = true;
    return j;
}

void json_pull_close(struct json_pull *j) {
    if (!j) return;
    free(j->window);
    free(j->scratch);
    free(j);
}

/* Shared by all readers of values in memory on this thread. A text in it is valid until the next call of any
 * of them. */
static _Thread_local char memory_scratch[JSON_TEXT_MAX + 8];

void json_pull_memory(struct json_pull *j, const char *text, size_t len) {
    j->p = text;
    j->end = text + len;
    j->text = NULL;
    j->len = 0;
    j->error = NULL;
    j->cut_short = false;
    j->commas = j->cut_texts = 0;
    j->offset = 0;
    j->fill = NULL;
    j->window = NULL;
    j->scratch = memory_scratch;
    j->eof = j->want_value = true;
    j->seen_item = false;
    j->depth = 0;
}

uint64_t json_pull_position(const struct json_pull *j) {
    return j->window ? j->offset + (uint64_t)(j->p - j->window) : 0;
}

/* Moves [keep, end) to the front of the window, updates *keep and reads more. Returns false at the end of the
 * input, or if the window is full. */
static bool refill(struct json_pull *j, const char **keep) {
    if (j->eof) return false;
    size_t kept = (size_t)(j->end - *keep), ahead = (size_t)(j->p - *keep);
    j->offset += (uint64_t)(*keep - j->window);
    memmove(j->window, *keep, kept);
    size_t room = MIN(j->cap - kept, FILL_BYTES);
    size_t got = room ? j->fill(j->source, j->window + kept, room) : 0;
    j->eof = got == 0 && kept < j->cap;
    *keep = j->window;
    j->p = j->window + ahead;
    j->end = j->window + kept + got;
    return got > 0;
}

static inline bool have_byte(struct json_pull *j) { return j->p < j->end || refill(j, &j->p); }

static inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

/* false: end of the input */
static inline bool skip_space(struct json_pull *j) {
    for (;;) {
        while (j->p < j->end && is_space(*j->p)) j->p++;
        if (j->p < j->end) return true;
        if (!refill(j, &j->p)) return false;
    }
}

static enum json_token parse_error(struct json_pull *j, const char *what) {
    j->error = what;
    return JSON_ERROR;
}

static enum json_token end_of_input(struct json_pull *j) {
    j->cut_short = j->cut_short || j->depth > 0 || (j->want_value && j->seen_item);
    return j->depth ? parse_error(j, "the input ends inside a value") : JSON_END;
}

static inline bool in_object(const struct json_pull *j) {
    uint32_t d = j->depth - 1;
    return j->is_object[d / 8] >> (d % 8) & 1;
}

static enum json_token push_container(struct json_pull *j, bool object) {
    if (j->depth == JSON_DEPTH_MAX) return parse_error(j, "nested too deep");
    uint8_t bit = (uint8_t)(1u << (j->depth % 8));
    if (object)
        j->is_object[j->depth / 8] |= bit;
    else
        j->is_object[j->depth / 8] &= (uint8_t)~bit;
    j->depth++;
    j->seen_item = false;
    j->want_value = !object;
    return object ? JSON_OBJECT : JSON_ARRAY;
}

static enum json_token pop_container(struct json_pull *j, char c) {
    bool object = c == '}';
    if (j->depth == 0 || in_object(j) != object)
        return parse_error(j, "a closing bracket without an opening one");
    j->depth--;
    j->seen_item = true;
    j->want_value = j->depth > 0 && !in_object(j);
    return object ? JSON_OBJECT_END : JSON_ARRAY_END;
}

/* ---- Strings */

static int hex4(const char *p, uint32_t *out) {
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        uint32_t d = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                     : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                     : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                            : 16;
        if (d > 15) return -1;
        v = v << 4 | d;
    }
    *out = v;
    return 0;
}

static bool need_bytes(struct json_pull *j, size_t n) {
    while ((size_t)(j->end - j->p) < n)
        if (!refill(j, &j->p)) return false;
    return true;
}

/* Decodes \uXXXX at j->p (after the u), and a low surrogate after it, if any. Returns the length of the UTF-8
 * text; 0: invalid. */
static size_t take_unicode(struct json_pull *j, char out[4]) {
    uint32_t v, low;
    if (!need_bytes(j, 4) || hex4(j->p, &v) < 0) return 0;
    j->p += 4;
    if (v >= 0xd800 && v < 0xdc00 && need_bytes(j, 6) && j->p[0] == '\\' && j->p[1] == 'u' &&
        hex4(j->p + 2, &low) == 0 && low >= 0xdc00 && low < 0xe000) {
        j->p += 6;
        v = 0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00);
    }
    size_t n = utf8_put(v, out);
    if (n) return n;
    memcpy(out, UTF8_REPLACEMENT, 3);
    return 3;
}

static size_t take_escape(struct json_pull *j, char out[4]) { /* after the backslash; 0: invalid */
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (!have_byte(j)) return 0;
    char c = *j->p++;
    if (c == 'u') return take_unicode(j, out);
    const char *hit = c ? strchr(from, c) : NULL;
    out[0] = hit ? to[hit - from] : c; /* other escapes: \x is x */
    return 1;
}

static void keep_text(struct json_pull *j, size_t *len, const char *p, size_t n) {
    size_t room = JSON_TEXT_MAX - *len;
    if (n > room) {
        j->cut_texts += *len <= JSON_TEXT_MAX && room > 0;
        n = room;
    }
    memcpy(j->scratch + *len, p, n);
    *len += n;
}

/* For escapes, long strings and strings that cross the window. j->p is after the opening quote. */
static enum json_token string_slow(struct json_pull *j, enum json_token tok) {
    size_t len = 0;
    for (;;) {
        size_t run = json_string_run(j->p, (size_t)(j->end - j->p));
        keep_text(j, &len, j->p, run);
        j->p += run;
        if (!have_byte(j)) {
            j->cut_short = true;
            return parse_error(j, "the input ends inside a string");
        }
        if (*j->p == '"') break;
        if (*j->p != '\\') continue; /* the window was refilled */
        j->p++;
        char utf8[4];
        size_t n = take_escape(j, utf8);
        if (!n) return parse_error(j, "invalid escape in a string");
        keep_text(j, &len, utf8, n);
    }
    j->p++;
    j->text = j->scratch;
    j->len = len;
    return tok;
}

static inline enum json_token take_string(struct json_pull *j, enum json_token tok) {
    j->p++;
    size_t left = (size_t)(j->end - j->p);
    size_t run = json_string_run(j->p, left);
    if (run == left || j->p[run] == '\\' || run > JSON_TEXT_MAX) return string_slow(j, tok);
    j->text = j->p;
    j->len = run;
    j->p += run + 1;
    return tok;
}

/* ---- Numbers and words */

static inline bool is_word(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' ||
           c == '-' || c == '.';
}

static enum json_token classify(struct json_pull *j) {
    const char *t = j->text;
    size_t n = j->len;
    if ((t[0] >= '0' && t[0] <= '9') || (t[0] == '-' && n > 1 && t[1] >= '0' && t[1] <= '9'))
        return JSON_NUMBER;
    static const struct {
        const char *word;
        enum json_token tok;
    } words[] = { { "true", JSON_TRUE },   { "false", JSON_FALSE },     { "null", JSON_NULL },
                  { "NaN", JSON_NUMBER },  { "nan", JSON_NUMBER },      { "-nan", JSON_NUMBER },
                  { "inf", JSON_NUMBER },  { "-inf", JSON_NUMBER },     { "Infinity", JSON_NUMBER },
                  { "-NaN", JSON_NUMBER }, { "-Infinity", JSON_NUMBER } };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].word) == n && memcmp(words[i].word, t, n) == 0) return words[i].tok;
    return parse_error(j, "expected a value or a bracket");
}

static enum json_token take_word(struct json_pull *j) {
    const char *start = j->p;
    for (;;) {
        while (j->p < j->end && is_word(*j->p)) j->p++;
        if (j->p < j->end || !refill(j, &start)) break;
    }
    j->text = start;
    j->len = (size_t)(j->p - start);
    if (j->len == 0) {
        j->p++; /* always advance */
        return parse_error(j, "a byte that cannot begin a value");
    }
    return classify(j);
}

/* ---- Grammar */

static enum json_token take_value(struct json_pull *j) {
    j->seen_item = true;
    j->want_value = j->depth > 0 && !in_object(j);
    switch (*j->p) {
    case '{': j->p++; return push_container(j, true);
    case '[': j->p++; return push_container(j, false);
    case '"': return take_string(j, JSON_STRING);
    default: return take_word(j);
    }
}

static enum json_token take_key(struct json_pull *j) {
    if (*j->p != '"') {
        j->p++;
        return parse_error(j, "a key without a quote");
    }
    enum json_token tok = take_string(j, JSON_KEY);
    if (tok != JSON_KEY) return tok;
    /* Reading the colon may refill the window, which overwrites the text. */
    if (j->text != j->scratch && !(j->p < j->end && *j->p == ':')) {
        memcpy(j->scratch, j->text, j->len);
        j->text = j->scratch;
    }
    if (!skip_space(j)) return end_of_input(j);
    if (*j->p != ':') return parse_error(j, "a key without its colon");
    j->p++;
    j->want_value = true;
    return JSON_KEY;
}

/* Advances to the first byte of the next item, after its comma. If there is none, *arrived is false and the
 * result is the token to return. */
static enum json_token next_item(struct json_pull *j, bool *arrived) {
    *arrived = false;
    if (!skip_space(j)) return end_of_input(j);
    if (j->depth == 0) {
        if (j->seen_item) return parse_error(j, "extra data after the end of the value");
        *arrived = true;
        return JSON_END;
    }
    if (in_object(j) && j->want_value) { /* the value after the colon */
        *arrived = true;
        return JSON_END;
    }
    char c = *j->p;
    if (c == '}' || c == ']') return j->p++, pop_container(j, c);
    if (!j->seen_item && c != ',') {
        *arrived = true;
        return JSON_END;
    }
    if (c != ',') return parse_error(j, "no comma between two items");
    while (c == ',') {
        j->p++;
        j->commas += !j->seen_item;
        j->seen_item = false;
        if (!skip_space(j)) return end_of_input(j);
        c = *j->p;
    }
    if (c == '}' || c == ']') {
        j->commas++;
        return j->p++, pop_container(j, c);
    }
    *arrived = true;
    return JSON_END;
}

enum json_token json_pull_next(struct json_pull *j) {
    bool arrived;
    enum json_token tok = next_item(j, &arrived);
    if (!arrived) return tok;
    if (j->depth && in_object(j) && !j->want_value) return take_key(j);
    return take_value(j);
}

/* Skips the object or array at j->p. With `keep`, its bytes stay in the window from *start on. Returns 0:
 * done; -1: end of input; 1: the window is full. */
static int pass_value(struct json_pull *j, const char **start, bool keep) {
    struct json_skip skip = JSON_SKIP_START;
    for (;;) {
        j->p += json_skip(&skip, j->p, (size_t)(j->end - j->p));
        if (skip.started && skip.depth == 0) return 0;
        if (!keep) *start = j->p;
        if ((size_t)(j->end - *start) == j->cap) return 1;
        if (!refill(j, start)) return -1;
    }
}

static enum json_token whole_value(struct json_pull *j, bool keep) {
    bool arrived;
    enum json_token tok = next_item(j, &arrived);
    if (!arrived) return tok;
    if (*j->p != '{' && *j->p != '[') return take_value(j);
    tok = *j->p == '{' ? JSON_OBJECT : JSON_ARRAY;
    const char *start = j->p;
    int rc = pass_value(j, &start, keep);
    if (rc) {
        j->cut_short = rc < 0;
        if (keep) j->p = start;
        return parse_error(j, rc < 0 ? "the input ends inside a value" : "a value longer than the window");
    }
    j->seen_item = true;
    j->want_value = j->depth > 0 && !in_object(j);
    j->text = keep ? start : NULL;
    j->len = keep ? (size_t)(j->p - start) : 0;
    return tok;
}

enum json_token json_pull_raw(struct json_pull *j) { return whole_value(j, true); }
enum json_token json_pull_skip(struct json_pull *j) { return whole_value(j, false); }

void json_pull_rewind(struct json_pull *j, const char *text) {
    j->p = text;
    j->seen_item = false;
}

bool json_pull_resync(struct json_pull *j) {
    bool comma = false;
    if (have_byte(j)) j->p++;
    while (have_byte(j)) {
        char c = *j->p;
        if (comma && c == '{') break;
        if (!is_space(c)) comma = c == ',';
        j->p++;
    }
    j->error = NULL;
    j->seen_item = false;
    j->want_value = true;
    return j->p < j->end;
}

/* ---- Number conversion */

bool json_to_double(const char *text, size_t len, double *out) {
    char buf[64];
    if (len == 0 || len >= sizeof buf || memchr(text, 'x', len) || memchr(text, 'X', len))
        return false; /* no hex */
    memcpy(buf, text, len);
    buf[len] = 0;
    char *end;
    *out = strtod(buf, &end);
    return end == buf + len;
}

bool json_to_scaled(const char *text, size_t len, unsigned scale, int64_t *out) {
    const char *p = text, *end = text + len;
    bool negative = p < end && *p == '-';
    p += negative;
    uint64_t v = 0;
    unsigned digits = 0, fraction = 0;
    bool point = false, round_up = false;
    for (; p < end; p++) {
        unsigned d = (unsigned)(*p - '0');
        if (*p == '.' && !point) {
            point = true;
        } else if (d <= 9) {
            if (point && fraction == scale) {
                round_up = d >= 5;
                while (++p < end && *p >= '0' && *p <= '9') {}
                break;
            }
            if (v > (INT64_MAX - 9) / 10) return false;
            v = v * 10 + d;
            fraction += point;
            digits++;
        } else {
            break;
        }
    }
    if (!digits) return false;
    if (p < end) { /* exponent, or invalid */
        double d, times = 1;
        if (!json_to_double(text, len, &d)) return false;
        for (unsigned i = 0; i < scale; i++) times *= 10;
        d *= times;
        if (!(d > -9.2e18 && d < 9.2e18)) return false;
        *out = (int64_t)(d < 0 ? d - 0.5 : d + 0.5);
        return true;
    }
    for (; fraction < scale; fraction++) {
        if (v > INT64_MAX / 10) return false;
        v *= 10;
    }
    v += round_up;
    *out = negative ? -(int64_t)v : (int64_t)v;
    return true;
}

bool json_to_u64(const char *text, size_t len, uint64_t *out) {
    uint64_t v = 0;
    size_t i = 0;
    for (; i < len && text[i] >= '0' && text[i] <= '9'; i++) {
        uint64_t d = (uint64_t)(text[i] - '0');
        if (v > (UINT64_MAX - d) / 10) return false;
        v = v * 10 + d;
    }
    if (i == 0) return false;
    if (i < len) { /* 7.0, 1e3 */
        double x;
        if (!json_to_double(text, len, &x) || !(x >= 0 && x < 1.8e19) || (double)(uint64_t)x != x)
            return false;
        v = (uint64_t)x;
    }
    *out = v;
    return true;
}
