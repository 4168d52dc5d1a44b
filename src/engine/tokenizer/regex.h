/* Regular expressions as tokenizer.json means them. The files are written for Oniguruma (Ruby syntax, Unicode
 * throughout); the pattern is translated where PCRE2 reads it differently, and refused where it cannot say
 * the same. Text must be valid UTF-8. One thread an expression. */
#ifndef ENGINE_TOKENIZER_REGEX_H
#define ENGINE_TOKENIZER_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct tok_regex;
struct tok_regex *tok_regex_open(const char *pattern, size_t n, struct err *err);
struct tok_regex *tok_regex_open_literal(const char *text, size_t n, struct err *err);
void tok_regex_close(struct tok_regex *re);

/* Goes from match to match, left to right; an empty match right behind the last one does not count.
 *     struct tok_match m = { 0 };
 *     while ((rc = tok_regex_next(re, text, n, &m, &err)) > 0) use(m.start, m.end);      -- rc < 0: see err */
struct tok_match {
    size_t start, end;
    size_t from; /* where the search goes on */
    bool had_one;
};
int tok_regex_next(struct tok_regex *re, const char *text, size_t n, struct tok_match *m, struct err *err);

#endif
