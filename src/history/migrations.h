/* SQL of the database of runs. */
#ifndef HISTORY_MIGRATIONS_H
#define HISTORY_MIGRATIONS_H

#include <stddef.h>

struct migration {
    const char *both;              /* SQL for both databases */
    const char *sqlite, *postgres; /* run after `both`; NULL: none */
};
extern const struct migration migrations[];
extern const size_t migrations_n;

#endif
