#include "report/columns.h"

void view_column_set(struct column_set *set, const struct column_group *groups, size_t ngroups,
                     enum column_document document, const struct view *v) {
    column_set_init(set, groups, ngroups, document, v);
    set->other_headings = view_on_cpu(v);
    set->name_runs = document == COLUMN_DOC_MARKDOWN && view_two_runs(v) && !view_unrecorded(v);
}

void view_table(const struct column_group *groups, size_t ngroups, enum column_document document,
                const struct view *v, struct column_items items, struct table *t) {
    struct column_set set;
    view_column_set(&set, groups, ngroups, document, v);
    column_set_table(&set, v, items, t);
}
