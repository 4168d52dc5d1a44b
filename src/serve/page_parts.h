/* Parts of pages. Every text is escaped. */
#ifndef SERVE_PAGE_PARTS_H
#define SERVE_PAGE_PARTS_H

#include "base/columns.h"
#include "base/text.h"
#include "history/query.h"
#include "serve/http.h"

/* table cell; NULL: a dash */
void part_cell(struct strbuf *out, const char *text);
void part_number(struct strbuf *out, const char *text);   /* right-aligned */
void part_run_cell(struct strbuf *out, const char *name); /* a link to the run */
/* A table with the columns of a set. `css_class`: of the table; "": none. Each row is a <tr> with
 * part_cells() for the columns [first, end), or other cells. */
void part_table_open(struct strbuf *out, const struct column_set *set, const char *css_class);
void part_cells(struct strbuf *out, const struct column_set *set, const void *item, size_t first, size_t end);
void part_table_close(struct strbuf *out);
void part_table(struct strbuf *out, const struct column_group *group, struct column_items items);
void part_link(struct strbuf *out, const char *path, const char *const *pairs, const char *text);
/* Appends "?key=value&...", escaped for an attribute. The pairs end with NULL; pairs with value NULL are
 * omitted. */
void part_query(struct strbuf *out, const char *const *pairs);
void part_date(struct strbuf *out, int64_t ns); /* table cell: date and time */
void part_day(struct strbuf *out, int64_t ns);  /* table cell: date */
/* A <select>. `texts`: the shown texts; NULL: the values. `any`: the text of a first option with an empty
 * value; NULL: no such option. */
void part_select(struct strbuf *out, const char *name, const char *label, const char *const *values,
                 const char *const *texts, size_t n, const char *selected, const char *any);
/* A message instead of an empty table. `no_runs`: adds how to get the first run. */
void part_empty(struct strbuf *out, const char *message, bool no_runs);
bool part_same_text(const char *a, const char *b); /* NULL equals "" */
void part_series_title(struct strbuf *out, const char *model, const char *device, const char *engine);
/* Line chart with change points. `width` is in user units. */
struct change_point;
void part_trend_chart(struct strbuf *out, const struct history_points *points,
                      const struct change_point *changes, size_t nchanges, double width,
                      const char *css_class);
/* A small chart without axes, for a table cell. */
void part_sparkline(struct strbuf *out, const struct history_points *points,
                    const struct change_point *changes, size_t nchanges);

#endif
