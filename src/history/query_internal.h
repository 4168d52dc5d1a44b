/* Internal to the files of queries. */
#ifndef HISTORY_QUERY_INTERNAL_H
#define HISTORY_QUERY_INTERNAL_H

#include "base/strbuf.h"
#include "history/query.h"

/* A statement under construction. */
struct query {
    struct strbuf sql;
    struct db_args args;
    struct strlist texts; /* parameters that are owned by this query, not by the filter */
};
void query_free(struct query *q);

extern const char *const query_run_columns; /* columns of the table "runs r" */
/* Moves a row with these columns to *run. If more columns follow, they are values of a stage. */
void query_take_run(const struct history *h, struct db_result *r, size_t row, struct history_run *run);

#endif
