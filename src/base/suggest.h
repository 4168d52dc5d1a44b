/* "Did you mean ...": the nearest of a list of names. */
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include <stddef.h>

/* Edits (insert, delete, replace, swap neighbours) that turn a into b; both are cut at 63 bytes. */
size_t suggest_distance(const char *a, const char *b);

/* Feed every candidate, then read `best`: NULL if nothing is near enough to be worth saying. */
struct suggest {
    const char *word, *best;
    size_t best_distance;
};
void suggest_start(struct suggest *s, const char *word);
void suggest_try(struct suggest *s, const char *candidate); /* borrowed */

#endif
