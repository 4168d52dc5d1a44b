/* Reading a config: a field under any of its names, checked, or its family's default, noted.
 *     struct llm_fields f = { .section = text, .top = root, .prefix = "text_config.", ... };
 *     t->hidden = fields_uint(&f, "hidden_size|n_embd", 4096, 1 << 20);
 *     if (f.failed) return -1;
 * The first bad field is kept in err and all later reads return their default, so that a reader can be
 * written straight through and asks once. Internal to src/llm. */
#ifndef LLM_FIELDS_H
#define LLM_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "llm/model.h"

#define FIELDS_REQUIRED UINT64_MAX /* as a default: there is none */

struct llm_notes {
    char **v;
    size_t n, cap;
};

struct llm_fields {
    const json_t *section; /* looked at first */
    const json_t *top;     /* then the whole file; NULL: the section is all there is */
    const char *what;      /* the file, for messages */
    const char *prefix;    /* "text_config." or "" */
    const char *family;    /* whose defaults apply */
    struct llm_notes *notes;
    struct err *err;
    bool failed;
};

void notes_add(struct llm_notes *notes, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The value of the first name ("a|b|c") that is there; *name is that name. An explicit null counts as
 * there. */
const json_t *fields_find(const struct llm_fields *f, const char *names, const char **name);
bool fields_has(const struct llm_fields *f, const char *names); /* there and not null */

/* A whole number in 1..max. Missing or null: the default, with a note; FIELDS_REQUIRED makes that an
 * error. */
uint64_t fields_uint(struct llm_fields *f, const char *names, uint64_t fallback, uint64_t max);
/* The same for an edge of a square, which may be written as [448, 448]. */
uint64_t fields_edge(struct llm_fields *f, const char *names, uint64_t fallback, uint64_t max);
/* The same where absence is told apart by the caller: 0 for missing and null, without a note. */
uint64_t fields_uint_if_set(struct llm_fields *f, const char *names, uint64_t max);
/* The same where 0, null and absence all mean "has none": no note, 0 allowed. */
uint64_t fields_uint_or_none(struct llm_fields *f, const char *names, uint64_t fallback, uint64_t max);
double fields_number(struct llm_fields *f, const char *names, double fallback);        /* finite; no note */
double fields_positive(struct llm_fields *f, const char *names, double fallback);      /* over 0; no note */
bool fields_bool(struct llm_fields *f, const char *names, bool fallback);              /* no note */
const char *fields_str(struct llm_fields *f, const char *names, const char *fallback); /* borrowed */
const json_t *fields_list(struct llm_fields *f, const char *names);    /* NULL: missing or null */
const json_t *fields_section(struct llm_fields *f, const char *names); /* NULL: missing or null */
int64_t fields_id(struct llm_fields *f, const char *names); /* a token id or the first of several; -1 */
int fields_fail(struct llm_fields *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
