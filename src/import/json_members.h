/* Fast iterator over the members of a JSON object in memory, for the events of a trace. It handles only the
 * simple case. For escapes in a key, comments and so on, it returns JSON_MEMBERS_ODD, and the caller uses
 * json_pull.
 *     struct json_members m = { text, text + len };
 *     while ((rc = json_members_next(&m)) == JSON_MEMBERS_ONE)
 *         use(m.key, m.key_len, m.kind, m.value, m.value_len); */
#ifndef IMPORT_JSON_MEMBERS_H
#define IMPORT_JSON_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>

#include "import/json_scan.h"

enum json_members_result { JSON_MEMBERS_ONE, JSON_MEMBERS_END, JSON_MEMBERS_ODD };

struct json_members {
    const char *p, *end; /* rest of the object */
    const char *key, *value;
    size_t key_len, value_len;
    /* '"': string without escapes, '\\': string with escapes (both without quotes), '{', '[', '0': number or
     * word */
    char kind;
};

static inline const char *json_members_space(const char *p, const char *end) {
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) p++;
    return p;
}

/* p is after the opening quote. Returns the position after the closing quote; NULL: there is none. */
static inline const char *json_members_string(const char *p, const char *end, const char **text, size_t *len,
                                              bool *escapes) {
    const char *from = p;
    *escapes = false;
    for (;;) {
        p += json_string_run(p, (size_t)(end - p));
        if (p == end) return NULL;
        if (*p == '"') break;
        *escapes = true;
        p += 2;
        if (p >= end) return NULL;
    }
    *text = from;
    *len = (size_t)(p - from);
    return p + 1;
}

static inline const char *json_members_value(struct json_members *m, const char *p) {
    bool escapes;
    if (*p == '"') {
        p = json_members_string(p + 1, m->end, &m->value, &m->value_len, &escapes);
        m->kind = escapes ? '\\' : '"';
        return p;
    }
    m->value = p;
    if (*p == '{' || *p == '[') {
        struct json_skip skip = JSON_SKIP_START;
        m->kind = *p;
        p += json_skip(&skip, p, (size_t)(m->end - p));
        if (skip.depth) return NULL;
    } else {
        m->kind = '0';
        while (p < m->end && *p != ',' && *p != '}' && *p > ' ') p++;
        if (p == m->value) return NULL;
    }
    m->value_len = (size_t)(p - m->value);
    return p;
}

static inline enum json_members_result json_members_next(struct json_members *m) {
    const char *p = json_members_space(m->p, m->end);
    bool first = m->key == NULL, escapes;
    if (p == m->end) return JSON_MEMBERS_ODD;
    if (*p == '}' && !first) return m->p = p + 1, JSON_MEMBERS_END;
    if (*p != (first ? '{' : ',')) return JSON_MEMBERS_ODD;
    p = json_members_space(p + 1, m->end);
    if (p == m->end) return JSON_MEMBERS_ODD;
    if (first && *p == '}') return m->p = p + 1, JSON_MEMBERS_END;
    if (*p != '"') return JSON_MEMBERS_ODD;
    p = json_members_string(p + 1, m->end, &m->key, &m->key_len, &escapes);
    if (!p || escapes) return JSON_MEMBERS_ODD;
    p = json_members_space(p, m->end);
    if (p == m->end || *p != ':') return JSON_MEMBERS_ODD;
    p = json_members_space(p + 1, m->end);
    if (p == m->end) return JSON_MEMBERS_ODD;
    m->p = json_members_value(m, p);
    return m->p ? JSON_MEMBERS_ONE : JSON_MEMBERS_ODD;
}

#endif
