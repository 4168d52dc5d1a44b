/* Reads tables in which columns may be missing.
 *     static const char *const columns[] = { "start", "end", "deviceId", NULL };
 *     struct nsys_rows rows;
 *     if (nsys_rows_open(&rows, db, "CUPTI_ACTIVITY_KIND_KERNEL", columns, NULL))
 *         while (nsys_rows_next(&rows)) use(nsys_u64(&rows, 2, 0));
 *     nsys_rows_close(&rows);                    -- false: read error */
#ifndef IMPORT_NSYS_DB_H
#define IMPORT_NSYS_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sqlite3;
struct sqlite3_stmt;

struct nsys_rows {
    struct sqlite3_stmt *stmt;
    bool broken;
    uint64_t found; /* bit i: column i exists */
};

/* Limits the work that a file can cause: SQLite fails if reading takes many more steps than a normal file of
 * this size. Call nsys_limit_end() before closing the database. */
struct nsys_limit {
    uint64_t steps, max_steps;
    bool exceeded;
};
void nsys_limit_start(struct nsys_limit *limit, struct sqlite3 *db);
void nsys_limit_end(struct sqlite3 *db);

/* False for views and virtual tables, whose rows are computed: there may be 10^15 of them. */
bool nsys_table_exists(struct sqlite3 *db, const char *name);

/* Returns false if there is no such table, or it has none of the columns. At most 64 columns. `order`:
 * columns to sort by, if they exist; NULL: unsorted. */
bool nsys_rows_open(struct nsys_rows *r, struct sqlite3 *db, const char *table, const char *const *columns,
                    const char *const *order);
bool nsys_rows_next(struct nsys_rows *r);
bool nsys_rows_close(struct nsys_rows *r);

bool nsys_null(const struct nsys_rows *r, int column);
int64_t nsys_i64(const struct nsys_rows *r, int column, int64_t otherwise); /* for NULL and missing columns */
/* `otherwise` also for negative numbers */
uint64_t nsys_u64(const struct nsys_rows *r, int column, uint64_t otherwise);
double nsys_double(const struct nsys_rows *r, int column); /* NaN for NULL */
const char *nsys_text(const struct nsys_rows *r, int column,
                      size_t *len); /* NULL for SQL NULL; valid until the next row */

#endif
