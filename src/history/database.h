/* A connection to the database of runs: SQLite (a file) or PostgreSQL (a URL). Both accept the same SQL.
 * Parameters are $1, $2, ..., and every parameter and result is text; NULL is unknown.
 *     struct database *db = database_open("runs/.inferprof/index.sqlite", &err);
 *     struct db_args args = { 0 };
 *     db_text(&args, "llama");
 *     struct db_result r;
 *     if (database_query(db, "SELECT name FROM runs WHERE model = $1", &args, &r, &err) < 0) ...
 *     ... db_cell(&r, row, 0) ...
 *     db_result_free(&r);
 *     database_close(db);
 * A connection belongs to one thread at a time. */
#ifndef HISTORY_DATABASE_H
#define HISTORY_DATABASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct database;

/* Texts are borrowed until the query returns. */
#define DB_ARGS_MAX 256
struct db_args {
    const char *v[DB_ARGS_MAX];
    char numbers[DB_ARGS_MAX][32];
    size_t n;
};
void db_text(struct db_args *args, const char *text); /* NULL: an unknown value */
void db_int(struct db_args *args, int64_t v);
void db_num(struct db_args *args, double v); /* not finite: unknown */

struct db_result {
    char **cells; /* [rows * columns]; NULL: unknown */
    size_t rows, columns;
    size_t cap;      /* private */
    int64_t changed; /* by INSERT, UPDATE or DELETE */
};
const char *db_cell(const struct db_result *r, size_t row, size_t column);
int64_t db_cell_int(const struct db_result *r, size_t row, size_t column); /* 0: unknown */
double db_cell_num(const struct db_result *r, size_t row, size_t column);  /* NaN: unknown */
char *db_take(struct db_result *r, size_t row, size_t column);             /* the caller frees it */
void db_result_free(struct db_result *r);

/* `url`: the path of an SQLite file (created if needed), or postgresql:// or postgres://. libpq is loaded
 * only for a URL. */
struct database *database_open(const char *url, struct err *err);
void database_close(struct database *db); /* NULL is fine */
bool database_is_postgres(const struct database *db);
/* Without the password, for messages. Caller frees. */
char *database_shown_url(const char *url);

/* `args` and `result` may be NULL. If the server closed the connection, the next statement outside of a
 * transaction reconnects. */
int database_query(struct database *db, const char *sql, const struct db_args *args, struct db_result *result,
                   struct err *err);
/* Several statements separated by semicolons, without parameters. */
int database_script(struct database *db, const char *sql, struct err *err);

/* Starts a write transaction. Writers of one SQLite file wait for each other, at most 20 s. */
int database_begin(struct database *db, struct err *err);
int database_commit(struct database *db, struct err *err);
void database_rollback(struct database *db);

#endif
