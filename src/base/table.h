/* A table of text cells, for a terminal, Markdown or CSV. Each format escapes the cells.
 *     struct table t;
 *     table_init(&t);
 *     table_column(&t, "kernel", TABLE_LEFT);
 *     table_column(&t, "calls", TABLE_RIGHT);
 *     table_cell(&t, "%s", name);                -- row by row, left to right
 *     table_cell(&t, "%u", calls);
 *     table_text(&t, &out);
 *     table_free(&t); */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include <stddef.h>

#include "base/strbuf.h"

enum table_align { TABLE_LEFT, TABLE_RIGHT };

struct table {
    struct {
        char **v;
        size_t n, cap;
    } heads, cells;
    struct {
        enum table_align *v;
        size_t n, cap;
    } aligns;
    size_t text_max_width; /* terminal: wider cells are truncated; 0: never */
    /* Longest line; 0: no limit. The first column is truncated to at least 16 characters, and the last
     * columns are omitted; two columns remain. */
    size_t text_line_width;
};

void table_init(struct table *t);
void table_free(struct table *t);
void table_column(struct table *t, const char *head, enum table_align align);
void table_cell(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
size_t table_rows(const struct table *t);
size_t table_find(const struct table *t, const char *head); /* heads.n: not found */
void table_drop(struct table *t, size_t column);
/* Drops the columns with these headings (ends with NULL), in this order, until a line fits `width` columns
 * (0: drops none). If that is not enough, table_text() omits the last columns. */
void table_fit(struct table *t, size_t width, const char *const *least);
void table_text(const struct table *t, struct strbuf *out);
size_t table_text_width(const struct table *t); /* before any truncation to text_line_width */
void table_markdown(const struct table *t, struct strbuf *out);
void table_csv(const struct table *t, struct strbuf *out); /* RFC 4180; formulas are escaped */

#endif
