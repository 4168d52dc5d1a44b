/* Shared by the query files. */
#ifndef HISTORY_QUERY_INTERNAL_H
#define HISTORY_QUERY_INTERNAL_H

#include "base/strbuf.h"
#include "history/query.h"

/* A statement under construction. */
struct query {
    struct strbuf sql;
    struct db_args args;
    struct strlist texts; /* owned parameters */
};
void query_free(struct query *q);

/* How SQLite finds the runs of a list: through the condition with the fewest runs, or in the order of the
 * list. PostgreSQL decides with its statistics, unless `first` is set. */
enum query_lead {
    QUERY_LEAD_ORDER,
    QUERY_LEAD_SEARCH,
    QUERY_LEAD_TAG,
    QUERY_LEAD_TIME,   /* runs between since and until, in another order */
    QUERY_LEAD_COLUMN, /* plus the number of the column in query_filter.c */
};
struct query_plan {
    int lead;             /* enum query_lead; for PostgreSQL only the order, the tag or the time */
    bool first;           /* PostgreSQL must read the few rows of the lead first */
    int64_t grouped_runs; /* runs that match the filters on model, device, engine and host */
    bool grouped_only;    /* the filter has no other conditions */
};
int query_plan(struct history *h, const struct history_filter *f, bool by_time, struct query_plan *plan,
               struct err *err);
/* Columns of the start time and of the id of a run: of the table `tags` if the tag leads. */
const char *query_time_column(const struct query_plan *plan);
const char *query_id_column(const struct query_plan *plan);
/* Adds "FROM runs r ... WHERE ...", or "FROM tags t CROSS JOIN runs r ... WHERE ..." if the tag leads. */
void query_add_conditions(struct query *q, const struct history *h, const struct history_filter *f,
                          const struct query_plan *plan);
/* *total: -1 if more than HISTORY_COUNT_MAX runs match, unless `grouped_only` is set. */
int query_count(struct history *h, const struct history_filter *f, const struct query_plan *plan,
                int64_t *total, struct err *err);

extern const char *const query_run_columns; /* of "runs r" */
/* Moves a row with these columns to *run. Two or more further columns are values of a stage. */
void query_take_run(const struct history *h, struct db_result *r, size_t row, struct history_run *run);

#endif
