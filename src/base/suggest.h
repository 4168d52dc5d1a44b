/* Suggests a name ("did you mean ..."): finds the nearest name in a list. */
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include <stddef.h>

/* Returns the edit distance (insert, delete, replace, swap neighbours) from a to b; both are truncated to
 * 63 bytes. */
size_t suggest_distance(const char *a, const char *b);

/* A search for the nearest name: call suggest_try() for every candidate, then read `best`. NULL: none is near
 * enough. */
struct suggest {
    const char *word, *best;
    size_t best_distance;
};
void suggest_start(struct suggest *s, const char *word);
void suggest_try(struct suggest *s, const char *candidate); /* borrows the candidate */

#endif
