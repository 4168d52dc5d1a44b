/* Reads config fields: finds a field under any of its names and checks its value. If it is missing, uses
 * the family's default and adds a note.
 *     struct llm_fields f = { .section = text, .top = root, .prefix = "text_config.", ... };
 *     t->hidden = fields_uint(&f, "hidden_size|n_embd", 4096, 1 << 20);
 *     if (f.failed) return -1;
 * err keeps the first error, so a reader can check `failed` once at the end. Internal to src/llm. */
#ifndef LLM_FIELDS_H
#define LLM_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "llm/model.h"

#define FIELDS_REQUIRED UINT64_MAX /* as a default: the field is required */

struct llm_notes {
    char **v;
    size_t n, cap;
};

struct llm_fields {
    const json_t *section; /* searched first */
    const json_t *top;     /* searched if the section does not have the field; NULL: none */
    const char *what;      /* file name, for messages */
    const char *prefix;    /* "text_config." or "" */
    const char *family;    /* family of the defaults */
    struct llm_notes *notes;
    struct err *err;
    bool failed;
};

void notes_add(struct llm_notes *notes, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Returns the value of the first name ("a|b|c") that is present, and sets *name to that name. An explicit
 * null counts as present. */
const json_t *fields_find(const struct llm_fields *f, const char *names, const char **name);
bool fields_has(const struct llm_fields *f, const char *names); /* present and not null */

/* Reads a whole number in 1..max. If it is missing or null, returns the default and adds a note, or fails
 * if the default is FIELDS_REQUIRED. */
uint64_t fields_uint(struct llm_fields *f, const char *names, uint64_t fallback, uint64_t max);
/* Like fields_uint(), for the edge of a square, which may also be written as [448, 448]. */
uint64_t fields_edge(struct llm_fields *f, const char *names, uint64_t fallback, uint64_t max);
/* Like fields_uint(), but returns 0 without a note if the field is missing or null. */
uint64_t fields_uint_if_set(struct llm_fields *f, const char *names, uint64_t max);
/* Reads a whole number in 0..max; null is 0, which means "none". If the field is missing, returns the
 * default, and adds a note unless the default is 0. */
uint64_t fields_uint_or_none(struct llm_fields *f, const char *names, uint64_t fallback, uint64_t max);
double fields_number(struct llm_fields *f, const char *names, double fallback); /* finite; no note */
/* greater than 0; no note */
double fields_positive(struct llm_fields *f, const char *names, double fallback);
bool fields_bool(struct llm_fields *f, const char *names, bool fallback);              /* no note */
const char *fields_str(struct llm_fields *f, const char *names, const char *fallback); /* borrowed */
const json_t *fields_list(struct llm_fields *f, const char *names);    /* NULL: missing or null */
const json_t *fields_section(struct llm_fields *f, const char *names); /* NULL: missing or null */
int64_t fields_id(struct llm_fields *f, const char *names); /* a token id, or the first of a list; -1: none */
/* Reads all ids of a list, or one id, into out[max]; returns their number. Ignores ids of -1. Fails if there
 * are more than `max` ids. */
uint32_t fields_ids(struct llm_fields *f, const char *names, uint32_t *out, uint32_t max);
int fields_fail(struct llm_fields *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
