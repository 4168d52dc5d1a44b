/* The database in one file. With write-ahead logging, readers and one writer work at the same time. */
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/util.h"
#include "history/database_driver.h"

#define BUSY_MS 20000
#define STATEMENTS 256 /* prepared statements kept per connection */

struct sqlite {
    sqlite3 *db;
    char *path;
    struct {
        uint64_t hash;
        char *sql;
        sqlite3_stmt *statement;
    } kept[STATEMENTS];
};

static void sqlite_close(void *connection) {
    struct sqlite *s = connection;
    for (size_t i = 0; i < STATEMENTS; i++) {
        sqlite3_finalize(s->kept[i].statement);
        free(s->kept[i].sql);
    }
    sqlite3_close(s->db);
    free(s->path);
    free(s);
}

static int sqlite_fail(const struct sqlite *s, struct err *err) {
    const char *remedy = "";
    int code = sqlite3_errcode(s->db);
    if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT) remedy = "; delete it to rebuild the index";
    if (code == SQLITE_CANTOPEN || code == SQLITE_READONLY)
        remedy = "; use --database FILE for another place";
    if (code == SQLITE_FULL) remedy = ": the disk is full";
    return err_set(err, "%s: %s%s", s->path, sqlite3_errmsg(s->db), remedy);
}

static int sqlite_script(void *connection, const char *sql, struct err *err) {
    struct sqlite *s = connection;
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : sqlite_fail(s, err);
}

static void *sqlite_open(const char *url, struct err *err) {
    struct sqlite *s = xcalloc(1, sizeof *s);
    s->path = xstrdup(url);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    int rc = sqlite3_open_v2(url, &s->db, flags, NULL) == SQLITE_OK ? 0 : sqlite_fail(s, err);
    if (rc == 0) {
        sqlite3_busy_timeout(s->db, BUSY_MS);
        rc = sqlite_script(s,
                           "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                           "PRAGMA foreign_keys = ON; PRAGMA cache_size = -8000; PRAGMA temp_store = MEMORY;"
                           "PRAGMA trusted_schema = OFF;",
                           err);
    }
    if (rc == 0) return s;
    sqlite_close(s);
    return NULL;
}

/* Replaces $1 by ?1, because SQLite treats $1 as a name. */
static char *own_parameters(const char *sql) {
    char *copy = xstrdup(sql);
    for (char *p = copy; *p; p++)
        if (*p == '$' && p[1] >= '1' && p[1] <= '9') *p = '?';
    return copy;
}

/* NULL: the SQL is not valid. A new statement replaces the one in its hash slot. */
static sqlite3_stmt *prepare(struct sqlite *s, const char *sql) {
    uint64_t hash = hash_bytes(sql, strlen(sql));
    size_t slot = hash % STATEMENTS;
    if (s->kept[slot].sql && s->kept[slot].hash == hash && strcmp(s->kept[slot].sql, sql) == 0)
        return s->kept[slot].statement;
    sqlite3_finalize(s->kept[slot].statement);
    free(s->kept[slot].sql);
    s->kept[slot].sql = NULL;
    s->kept[slot].statement = NULL;
    sqlite3_stmt *statement;
    char *own = own_parameters(sql);
    int rc = sqlite3_prepare_v3(s->db, own, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL);
    free(own);
    if (rc != SQLITE_OK) return NULL;
    s->kept[slot].hash = hash;
    s->kept[slot].sql = xstrdup(sql);
    return s->kept[slot].statement = statement;
}

static void bind_args(sqlite3_stmt *statement, const struct db_args *args) {
    int used = sqlite3_bind_parameter_count(statement);
    for (int i = 0; i < (int)args->n && i < used; i++) {
        if (args->v[i])
            sqlite3_bind_text(statement, i + 1, args->v[i], -1, SQLITE_STATIC);
        else
            sqlite3_bind_null(statement, i + 1);
    }
}

/* 17 digits, because SQLite would print only 15. */
static char *cell_text(sqlite3_stmt *statement, int column) {
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_NULL: return NULL;
    case SQLITE_FLOAT: return xasprintf("%.17g", sqlite3_column_double(statement, column));
    default: return xstrdup((const char *)sqlite3_column_text(statement, column));
    }
}

static int sqlite_query(void *connection, bool in_transaction, const char *sql, const struct db_args *args,
                        struct db_result *result, struct err *err) {
    (void)in_transaction;
    struct sqlite *s = connection;
    sqlite3_stmt *statement = prepare(s, sql);
    if (!statement) return sqlite_fail(s, err);
    bind_args(statement, args);
    result->columns = (size_t)sqlite3_column_count(statement);
    int rc;
    while ((rc = sqlite3_step(statement)) == SQLITE_ROW) {
        char **row = db_result_add_row(result);
        for (size_t i = 0; i < result->columns; i++) row[i] = cell_text(statement, (int)i);
    }
    if (rc == SQLITE_DONE) result->changed = sqlite3_changes(s->db);
    int status = rc == SQLITE_DONE ? 0 : sqlite_fail(s, err);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return status;
}

const struct database_driver database_sqlite = { sqlite_open, sqlite_close, sqlite_query, sqlite_script,
                                                 "BEGIN IMMEDIATE" };
