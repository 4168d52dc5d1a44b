#include "base/suggest.h"

#include <stdint.h>
#include <string.h>

#include "base/util.h"

#define MAX_WORD_BYTES 63

size_t suggest_distance(const char *a, const char *b) {
    size_t na = MIN(strlen(a), MAX_WORD_BYTES), nb = MIN(strlen(b), MAX_WORD_BYTES);
    size_t rows[3][MAX_WORD_BYTES + 1];
    size_t *before = rows[0], *above = rows[1], *now = rows[2];
    for (size_t j = 0; j <= nb; j++) above[j] = j;
    for (size_t i = 1; i <= na; i++) {
        now[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t d = MIN(above[j] + 1, now[j - 1] + 1);
            d = MIN(d, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) d = MIN(d, before[j - 2] + 1);
            now[j] = d;
        }
        size_t *spare = before;
        before = above;
        above = now;
        now = spare;
    }
    return above[nb];
}

void suggest_start(struct suggest *s, const char *word) {
    *s = (struct suggest){ .word = word, .best_distance = SIZE_MAX };
}

void suggest_try(struct suggest *s, const char *candidate) {
    size_t n = strlen(s->word);
    size_t d = suggest_distance(s->word, candidate);
    if (n >= 2 && strncmp(s->word, candidate, n) == 0) d = MIN(d, 1); /* prefix of the candidate */
    if (d < s->best_distance && d < n && d <= MAX(n / 3, 1)) {
        s->best = candidate;
        s->best_distance = d;
    }
}
