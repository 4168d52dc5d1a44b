#include "import/nsys_db.h"

#include <math.h>
#include <sqlite3.h>
#include <strings.h>

#include "base/strbuf.h"

/* Limit of SQLite's steps per byte of the file. A row of a normal file has tens of bytes and takes about 100
 * steps, and tables are read up to twice. */
#define STEPS_PER_BYTE 100
#define STEPS_FREE 20000000u /* additional; 1 to 2 s */
#define STEPS_PER_CALL 100000

static int count_steps(void *ctx) {
    struct nsys_limit *limit = ctx;
    limit->steps += STEPS_PER_CALL;
    limit->exceeded |= limit->steps > limit->max_steps;
    return limit->exceeded;
}

static uint64_t pragma_number(sqlite3 *db, const char *pragma) {
    sqlite3_stmt *s = NULL;
    sqlite3_int64 v = 0;
    if (sqlite3_prepare_v2(db, pragma, -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
        v = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return v > 0 ? (uint64_t)v : 0;
}

void nsys_limit_start(struct nsys_limit *limit, sqlite3 *db) {
    uint64_t bytes = pragma_number(db, "PRAGMA page_count") * pragma_number(db, "PRAGMA page_size");
    *limit = (struct nsys_limit){ .max_steps = STEPS_FREE + STEPS_PER_BYTE * bytes };
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_progress_handler(db, STEPS_PER_CALL, count_steps, limit);
}

void nsys_limit_end(sqlite3 *db) { sqlite3_progress_handler(db, 0, NULL, NULL); }

bool nsys_table_exists(sqlite3 *db, const char *name) {
    sqlite3_stmt *s = NULL;
    bool yes = false;
    /* Virtual tables also have type 'table', but no pages, and their SQL starts with CREATE VIRTUAL TABLE. */
    static const char query[] = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
                                " AND sql LIKE 'CREATE TABLE%' AND name = ?1";
    if (sqlite3_prepare_v2(db, query, -1, &s, NULL) == SQLITE_OK) {
        sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC);
        yes = sqlite3_step(s) == SQLITE_ROW;
    }
    sqlite3_finalize(s);
    return yes;
}

/* Bit i: names[i] is a column of the table. */
static uint64_t find_columns(sqlite3 *db, const char *table, const char *const *names) {
    sqlite3_stmt *s = NULL;
    uint64_t found = 0;
    if (sqlite3_prepare_v2(db, "SELECT name FROM pragma_table_info(?1)", -1, &s, NULL) == SQLITE_OK) {
        sqlite3_bind_text(s, 1, table, -1, SQLITE_STATIC);
        while (sqlite3_step(s) == SQLITE_ROW) {
            const char *column = (const char *)sqlite3_column_text(s, 0);
            for (int i = 0; column && names[i]; i++)
                if (strcasecmp(column, names[i]) == 0) found |= 1ull << i;
        }
    }
    sqlite3_finalize(s);
    return found;
}

bool nsys_rows_open(struct nsys_rows *r, sqlite3 *db, const char *table, const char *const *columns,
                    const char *const *order) {
    *r = (struct nsys_rows){ 0 };
    if (!nsys_table_exists(db, table)) return false;
    struct strbuf sql = STRBUF_INIT;
    r->found = find_columns(db, table, columns);
    strbuf_addstr(&sql, "SELECT ");
    for (int i = 0; columns[i]; i++)
        strbuf_addf(&sql, r->found >> i & 1 ? "%s\"%s\"" : "%sNULL", i ? ", " : "", columns[i]);
    strbuf_addf(&sql, " FROM \"%s\"", table); /* safe: names are constants */
    uint64_t sorted = order ? find_columns(db, table, order) : 0;
    const char *before = " ORDER BY ";
    for (int i = 0; order && order[i]; i++) {
        if (!(sorted >> i & 1)) continue;
        strbuf_addf(&sql, "%s\"%s\"", before, order[i]);
        before = ", ";
    }
    bool ok = r->found && sqlite3_prepare_v2(db, sql.buf, -1, &r->stmt, NULL) == SQLITE_OK;
    strbuf_free(&sql);
    return ok;
}

bool nsys_rows_next(struct nsys_rows *r) {
    int rc = sqlite3_step(r->stmt);
    r->broken |= rc != SQLITE_ROW && rc != SQLITE_DONE;
    return rc == SQLITE_ROW;
}

bool nsys_rows_close(struct nsys_rows *r) {
    sqlite3_finalize(r->stmt);
    r->stmt = NULL;
    return !r->broken;
}

bool nsys_null(const struct nsys_rows *r, int column) {
    return sqlite3_column_type(r->stmt, column) == SQLITE_NULL;
}

int64_t nsys_i64(const struct nsys_rows *r, int column, int64_t otherwise) {
    return nsys_null(r, column) ? otherwise : sqlite3_column_int64(r->stmt, column);
}

uint64_t nsys_u64(const struct nsys_rows *r, int column, uint64_t otherwise) {
    int64_t v = nsys_i64(r, column, -1);
    return v < 0 ? otherwise : (uint64_t)v;
}

double nsys_double(const struct nsys_rows *r, int column) {
    return nsys_null(r, column) ? NAN : sqlite3_column_double(r->stmt, column);
}

const char *nsys_text(const struct nsys_rows *r, int column, size_t *len) {
    const unsigned char *text = sqlite3_column_text(r->stmt, column);
    *len = text ? (size_t)sqlite3_column_bytes(r->stmt, column) : 0;
    return (const char *)text;
}
