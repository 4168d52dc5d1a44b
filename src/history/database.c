#include "history/database.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/secret.h"
#include "base/vec.h"
#include "history/database_driver.h"

struct database {
    const struct database_driver *driver;
    void *connection;
    bool in_transaction;
};

static void add_arg(struct db_args *args, const char *text) {
    if (args->n == DB_ARGS_MAX) die("a statement has more than %d parameters", DB_ARGS_MAX);
    args->v[args->n++] = text;
}

void db_text(struct db_args *args, const char *text) { add_arg(args, text); }

void db_int(struct db_args *args, int64_t v) {
    size_t at = args->n;
    add_arg(args, NULL);
    snprintf(args->numbers[at], sizeof args->numbers[at], "%" PRId64, v);
    args->v[at] = args->numbers[at];
}

void db_num(struct db_args *args, double v) {
    size_t at = args->n;
    add_arg(args, NULL);
    if (!isfinite(v)) return;
    snprintf(args->numbers[at], sizeof args->numbers[at], "%.17g", v);
    args->v[at] = args->numbers[at];
}

const char *db_cell(const struct db_result *r, size_t row, size_t column) {
    return row < r->rows && column < r->columns ? r->cells[row * r->columns + column] : NULL;
}

int64_t db_cell_int(const struct db_result *r, size_t row, size_t column) {
    const char *text = db_cell(r, row, column);
    return text ? strtoll(text, NULL, 10) : 0;
}

double db_cell_num(const struct db_result *r, size_t row, size_t column) {
    const char *text = db_cell(r, row, column);
    return text ? strtod(text, NULL) : NAN;
}

char *db_take(struct db_result *r, size_t row, size_t column) {
    if (!db_cell(r, row, column)) return NULL;
    char *text = r->cells[row * r->columns + column];
    r->cells[row * r->columns + column] = NULL;
    return text;
}

char **db_result_add_row(struct db_result *r) {
    r->cells = vec_fit(r->cells, (r->rows + 1) * r->columns + 1, &r->cap, sizeof *r->cells);
    char **row = r->cells + r->rows++ * r->columns;
    for (size_t i = 0; i < r->columns; i++) row[i] = NULL;
    return row;
}

void db_result_free(struct db_result *r) {
    for (size_t i = 0; i < r->rows * r->columns; i++) free(r->cells[i]);
    free(r->cells);
    *r = (struct db_result){ 0 };
}

static bool is_url(const char *text) {
    return strncmp(text, "postgresql://", 13) == 0 || strncmp(text, "postgres://", 11) == 0;
}

bool database_is_postgres(const struct database *db) { return db->driver == &database_postgres; }

char *database_shown_url(const char *url) {
    char *copy = xstrdup(url);
    secret_mask(copy);
    return copy;
}

struct database *database_open(const char *url, struct err *err) {
    const struct database_driver *driver = is_url(url) ? &database_postgres : &database_sqlite;
    void *connection = driver->open(url, err);
    if (!connection) return NULL;
    struct database *db = xcalloc(1, sizeof *db);
    *db = (struct database){ driver, connection, false };
    return db;
}

void database_close(struct database *db) {
    if (!db) return;
    db->driver->close(db->connection);
    free(db);
}

int database_query(struct database *db, const char *sql, const struct db_args *args, struct db_result *result,
                   struct err *err) {
    static const struct db_args none;
    struct db_result ignored = { 0 };
    struct db_result *into = result ? result : &ignored;
    *into = (struct db_result){ 0 };
    int rc = db->driver->query(db->connection, db->in_transaction, sql, args ? args : &none, into, err);
    if (rc < 0 || !result) db_result_free(into);
    return rc;
}

int database_script(struct database *db, const char *sql, struct err *err) {
    return db->driver->script(db->connection, sql, err);
}

int database_begin(struct database *db, struct err *err) {
    if (database_query(db, db->driver->begin, NULL, NULL, err) < 0) return -1;
    db->in_transaction = true;
    return 0;
}

int database_commit(struct database *db, struct err *err) {
    int rc = database_query(db, "COMMIT", NULL, NULL, err);
    if (rc < 0) database_rollback(db);
    db->in_transaction = false;
    return rc;
}

void database_rollback(struct database *db) {
    struct err ignored;
    if (db->in_transaction) database_query(db, "ROLLBACK", NULL, NULL, &ignored);
    db->in_transaction = false;
}
