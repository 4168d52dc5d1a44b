/* The regular expressions of tokenizer.json. The files are written for Oniguruma (Ruby syntax, Unicode
 * throughout). Syntax that PCRE2 interprets differently is translated; unsupported syntax is an error.
 * Text must be valid UTF-8. An expression may be used by one thread only. */
#ifndef ENGINE_TOKENIZER_REGEX_H
#define ENGINE_TOKENIZER_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct tok_regex;
struct tok_regex *tok_regex_open(const char *pattern, size_t n, struct err *err);
struct tok_regex *tok_regex_open_literal(const char *text, size_t n, struct err *err);
void tok_regex_close(struct tok_regex *re);

struct tok_match {
    size_t start, end;
    size_t from; /* start of the next search */
    bool had_one;
};
/* Finds the matches from left to right; skips an empty match directly after the previous one.
 *     struct tok_match m = { 0 };
 *     while ((rc = tok_regex_next(re, text, n, &m, &err)) > 0) use(m.start, m.end);
 * rc < 0: see err. */
int tok_regex_next(struct tok_regex *re, const char *text, size_t n, struct tok_match *m, struct err *err);

#endif
