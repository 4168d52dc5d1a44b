/* Finds the nearest name, for "did you mean ...". */
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include <stddef.h>

/* Edit distance: insert, delete, replace, swap neighbours. Both texts are truncated to 63 bytes. */
size_t suggest_distance(const char *a, const char *b);

/* Call suggest_try() for every candidate, then read `best`. NULL: none is near enough. */
struct suggest {
    const char *word, *best;
    size_t best_distance;
};
void suggest_start(struct suggest *s, const char *word);
void suggest_try(struct suggest *s, const char *candidate); /* borrows the candidate */

#endif
