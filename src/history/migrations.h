/* The SQL that creates and migrates the database of runs. schema.c runs it. */
#ifndef HISTORY_MIGRATIONS_H
#define HISTORY_MIGRATIONS_H

#include <stddef.h>

struct migration {
    const char *both;              /* SQL that both kinds of database accept */
    const char *sqlite, *postgres; /* SQL for one kind, run after `both`; NULL: none */
};
extern const struct migration migrations[];
extern const size_t migrations_n;

#endif
