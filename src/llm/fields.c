#include "llm/fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/util.h"
#include "base/vec.h"

void notes_add(struct llm_notes *notes, const char *fmt, ...) {
    struct strbuf s = STRBUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    strbuf_vaddf(&s, fmt, ap);
    va_end(ap);
    vec_push(notes, strbuf_detach(&s));
}

int fields_fail(struct llm_fields *f, const char *fmt, ...) {
    if (f->failed) return -1;
    struct strbuf s = STRBUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    strbuf_vaddf(&s, fmt, ap);
    va_end(ap);
    f->failed = true;
    err_set(f->err, "%s: %s", f->what, s.buf);
    strbuf_free(&s);
    return -1;
}

static const json_t *find_in(const json_t *object, const char *names, const char **name) {
    for (const char *p = names; *p;) {
        size_t n = strcspn(p, "|");
        char key[64];
        snprintf(key, sizeof key, "%.*s", (int)MIN(n, sizeof key - 1), p);
        const json_t *v = json_object_get(object, key);
        if (v) {
            if (name) *name = p;
            return v;
        }
        p += n + (p[n] == '|');
    }
    return NULL;
}

const json_t *fields_find(const struct llm_fields *f, const char *names, const char **name) {
    const json_t *v = find_in(f->section, names, name);
    if (!v && f->top) v = find_in(f->top, names, name);
    return v;
}

bool fields_has(const struct llm_fields *f, const char *names) {
    const json_t *v = fields_find(f, names, NULL);
    return v && !json_is_null(v);
}

/* Returns a label such as "text_config.hidden_size", with the first of the names. Alternates between two
 * buffers, so that a message can use two labels. */
static const char *label(const struct llm_fields *f, const char *name) {
    static _Thread_local char text[2][128];
    static _Thread_local unsigned turn;
    char *out = text[turn++ & 1];
    snprintf(out, sizeof text[0], "%s%.*s", f->prefix, (int)strcspn(name, "|"), name);
    return out;
}

/* Writes the value as JSON, truncated to fit a message. */
static void shown(const json_t *v, char *out, size_t cap) {
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
    snprintf(out, cap, "%s", text ? text : "?");
    if (text && strlen(text) >= cap && cap > 4) memcpy(out + cap - 4, "...", 4);
    free(text);
}

static uint64_t bad_value(struct llm_fields *f, const char *name, const json_t *v, const char *expected) {
    char text[80];
    shown(v, text, sizeof text);
    fields_fail(f, "%s is %s; expected %s", label(f, name), text, expected);
    return 1;
}

/* Accepts whole numbers, also if written as 4096.0. Returns -1 for other values. */
static int as_whole_number(const json_t *v, int64_t *out) {
    if (json_is_integer(v)) {
        *out = json_integer_value(v);
        return 0;
    }
    if (!json_is_real(v)) return -1;
    double d = json_real_value(v);
    if (!(fabs(d) < 9e15) || d != floor(d)) return -1;
    *out = (int64_t)d;
    return 0;
}

static uint64_t uint_in_range(struct llm_fields *f, const char *name, const json_t *v, uint64_t min,
                              uint64_t max) {
    int64_t got;
    char expected[64];
    snprintf(expected, sizeof expected, "a whole number from %" PRIu64 " to %" PRIu64, min, max);
    if (as_whole_number(v, &got) < 0 || got < (int64_t)min || (uint64_t)got > max)
        return bad_value(f, name, v, expected);
    return (uint64_t)got;
}

uint64_t fields_uint(struct llm_fields *f, const char *names, uint64_t fallback, uint64_t max) {
    const char *name = names;
    const json_t *v = f->failed ? NULL : fields_find(f, names, &name);
    if (v && !json_is_null(v)) return uint_in_range(f, name, v, 1, max);
    if (f->failed) return 1;
    if (fallback == FIELDS_REQUIRED) {
        fields_fail(f, "%s is missing; %s requires it", label(f, names), f->family);
        return 1;
    }
    notes_add(f->notes, "%s is not in the config: %" PRIu64 ", the default of %s", label(f, names), fallback,
              f->family);
    return fallback;
}

uint64_t fields_edge(struct llm_fields *f, const char *names, uint64_t fallback, uint64_t max) {
    const char *name = names;
    const json_t *v = f->failed ? NULL : fields_find(f, names, &name);
    if (!json_is_array(v)) return fields_uint(f, names, fallback, max);
    const json_t *width = json_array_get(v, 0), *height = json_array_get(v, 1);
    int64_t w, h;
    if (json_array_size(v) != 2 || as_whole_number(width, &w) < 0 || as_whole_number(height, &h) < 0 ||
        w != h)
        return bad_value(f, name, v, "a whole number, or two equal numbers");
    return uint_in_range(f, name, width, 1, max);
}

uint64_t fields_uint_if_set(struct llm_fields *f, const char *names, uint64_t max) {
    const char *name = names;
    const json_t *v = f->failed ? NULL : fields_find(f, names, &name);
    return v && !json_is_null(v) ? uint_in_range(f, name, v, 1, max) : 0;
}

uint64_t fields_uint_or_none(struct llm_fields *f, const char *names, uint64_t fallback, uint64_t max) {
    const char *name = names;
    const json_t *v = f->failed ? NULL : fields_find(f, names, &name);
    if (v && json_is_null(v)) return 0;
    if (v) return uint_in_range(f, name, v, 0, max);
    if (fallback && !f->failed)
        notes_add(f->notes, "%s is not in the config: %" PRIu64 ", the default of %s", label(f, names),
                  fallback, f->family);
    return fallback;
}

double fields_number(struct llm_fields *f, const char *names, double fallback) {
    const char *name = names;
    const json_t *v = f->failed ? NULL : fields_find(f, names, &name);
    if (!v || json_is_null(v)) return fallback;
    if (!json_is_number(v) || !isfinite(json_number_value(v))) {
        bad_value(f, name, v, "a number");
        return fallback;
    }
    return json_number_value(v);
}

double fields_positive(struct llm_fields *f, const char *names, double fallback) {
    const char *name = names;
    const json_t *v = f->failed ? NULL : fields_find(f, names, &name);
    double got = fields_number(f, names, fallback);
    if (v && !json_is_null(v) && !f->failed && !(got > 0)) bad_value(f, name, v, "a number greater than 0");
    return f->failed ? fallback : got;
}

bool fields_bool(struct llm_fields *f, const char *names, bool fallback) {
    const char *name = names;
    const json_t *v = f->failed ? NULL : fields_find(f, names, &name);
    if (!v || json_is_null(v)) return fallback;
    if (!json_is_boolean(v)) bad_value(f, name, v, "true or false");
    return json_is_true(v);
}

/* Returns the value of the field; NULL if it is missing or null. Fails if the value does not have the
 * expected type. */
static const json_t *get_of_type(struct llm_fields *f, const char *names, bool (*is_kind)(const json_t *),
                                 const char *expected) {
    const char *name = names;
    const json_t *v = f->failed ? NULL : fields_find(f, names, &name);
    if (!v || json_is_null(v)) return NULL;
    if (is_kind(v)) return v;
    bad_value(f, name, v, expected);
    return NULL;
}

static bool is_text(const json_t *v) { return json_is_string(v); }
static bool is_list(const json_t *v) { return json_is_array(v); }
static bool is_section(const json_t *v) { return json_is_object(v); }

const char *fields_str(struct llm_fields *f, const char *names, const char *fallback) {
    const json_t *v = get_of_type(f, names, is_text, "a text");
    return v ? json_string_value(v) : fallback;
}

const json_t *fields_list(struct llm_fields *f, const char *names) {
    return get_of_type(f, names, is_list, "a list");
}

const json_t *fields_section(struct llm_fields *f, const char *names) {
    return get_of_type(f, names, is_section, "an object");
}

/* Accepts -1, because some files use it for "none". */
static bool is_one_id(const json_t *v) {
    return json_is_integer(v) && json_integer_value(v) >= -1 && json_integer_value(v) < UINT32_MAX;
}

static bool is_id(const json_t *v) {
    if (!json_is_array(v)) return is_one_id(v);
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!is_one_id(json_array_get(v, i))) return false;
    return true;
}

uint32_t fields_ids(struct llm_fields *f, const char *names, uint32_t *out, uint32_t max) {
    const json_t *v = get_of_type(f, names, is_id, "a token id, or a list of token ids");
    uint32_t n = 0;
    size_t count = json_is_array(v) ? json_array_size(v) : v ? 1 : 0;
    if (count > max) {
        fields_fail(f, "%s lists %zu token ids; at most %u are supported", label(f, names), count, max);
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        json_int_t id = json_integer_value(json_is_array(v) ? json_array_get(v, i) : v);
        if (id >= 0) out[n++] = (uint32_t)id;
    }
    return n;
}

int64_t fields_id(struct llm_fields *f, const char *names) {
    const json_t *v = get_of_type(f, names, is_id, "a token id, or a list of token ids");
    if (json_is_array(v)) v = json_array_get(v, 0);
    return json_is_integer(v) ? json_integer_value(v) : -1;
}
