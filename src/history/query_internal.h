/* Internal to the files of queries. */
#ifndef HISTORY_QUERY_INTERNAL_H
#define HISTORY_QUERY_INTERNAL_H

#include "base/strbuf.h"
#include "history/query.h"

/* A statement under construction. */
struct query {
    struct strbuf sql;
    struct db_args args;
    struct strlist texts; /* parameters that the filter does not own */
};
void query_free(struct query *q);

extern const char *const query_run_columns; /* of "runs r" */
/* Takes the texts of a row with these columns, and of a stage if more columns follow. */
void query_take_run(const struct history *h, struct db_result *r, size_t row, struct history_run *run);

#endif
