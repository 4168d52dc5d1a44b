#include "import/nsys_db.h"

#include <math.h>
#include <sqlite3.h>
#include <string.h>

#include "base/strbuf.h"

static bool has_column(sqlite3 *db, const char *table, const char *column) {
    sqlite3_stmt *s = NULL;
    bool yes = false;
    if (sqlite3_prepare_v2(db, "SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2 COLLATE NOCASE", -1, &s,
                           NULL) == SQLITE_OK) {
        sqlite3_bind_text(s, 1, table, -1, SQLITE_STATIC);
        sqlite3_bind_text(s, 2, column, -1, SQLITE_STATIC);
        yes = sqlite3_step(s) == SQLITE_ROW;
    }
    sqlite3_finalize(s);
    return yes;
}

bool nsys_rows_open(struct nsys_rows *r, sqlite3 *db, const char *table, const char *const *columns,
                    const char *const *order) {
    *r = (struct nsys_rows){ 0 };
    struct strbuf sql = STRBUF_INIT;
    strbuf_addstr(&sql, "SELECT ");
    for (int i = 0; columns[i]; i++) {
        bool there = has_column(db, table, columns[i]);
        r->found |= (uint64_t)there << i;
        strbuf_addf(&sql, there ? "%s\"%s\"" : "%sNULL", i ? ", " : "", columns[i]);
    }
    strbuf_addf(&sql, " FROM \"%s\"", table); /* names are our own constants */
    int ordered = 0;
    for (int i = 0; order && order[i]; i++)
        if (has_column(db, table, order[i]))
            strbuf_addf(&sql, "%s\"%s\"", ordered++ ? ", " : " ORDER BY ", order[i]);
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
