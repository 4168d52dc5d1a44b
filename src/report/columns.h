/* Tables of columns (base/columns.h) whose context is a view. */
#ifndef REPORT_COLUMNS_H
#define REPORT_COLUMNS_H

#include "base/columns.h"
#include "report/view.h"

static inline const struct view *view_of(const struct column_row *r) { return r->context; }

/* Like column_set_init() and columns_table(). Headings name the device and, if the table has figures of both
 * runs, the run. */
void view_column_set(struct column_set *set, const struct column_group *groups, size_t ngroups,
                     enum column_document document, const struct view *v);
void view_table(const struct column_group *groups, size_t ngroups, enum column_document document,
                const struct view *v, struct column_items items, struct table *t);

#endif
