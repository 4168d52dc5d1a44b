/* Functions that SQLite and PostgreSQL implement. */
#ifndef HISTORY_DATABASE_DRIVER_H
#define HISTORY_DATABASE_DRIVER_H

#include "history/database.h"

struct database_driver {
    void *(*open)(const char *url, struct err *err); /* NULL: err */
    void (*close)(void *connection);
    int (*query)(void *connection, bool in_transaction, const char *sql, const struct db_args *args,
                 struct db_result *result, struct err *err);
    int (*script)(void *connection, const char *sql, struct err *err);
    const char *begin;
};
extern const struct database_driver database_sqlite, database_postgres;

/* Adds a row of empty cells. */
char **db_result_add_row(struct db_result *r);

#endif
