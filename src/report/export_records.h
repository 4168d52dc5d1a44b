/* The records of a timeline as tables: one list of columns per record kind, with the name of each column in
 * every format. All writers walk these lists, so a new timeline column is one row. */
#ifndef REPORT_EXPORT_RECORDS_H
#define REPORT_EXPORT_RECORDS_H

#include "report/columns.h"
#include "report/export.h"

struct export_row {
    const struct export_job *x;
    size_t i;        /* index of the record */
    uint32_t metric; /* index of the counter, for samples */
};

enum export_use {
    EXPORT_VALUE,
    EXPORT_TIME,     /* ns; SQLite stores it relative to the start of the trace */
    EXPORT_ID,       /* 0 or "": unknown, and omitted as an argument; NULL in SQLite */
    EXPORT_NAME,     /* text; SQLite stores its number in StringIds */
    EXPORT_REQUIRED, /* SQLite omits the row if the value is unknown */
};

struct export_column {
    const char *csv, *sql; /* heading and column name; NULL: not in this format */
    const char *argument;  /* name as an argument of a slice in Chrome and Perfetto; NULL: not an argument */
    enum export_use use;
    struct column_value (*get)(const struct export_row *r);
};

struct export_table {
    const char *csv, *sql; /* file name and table name; NULL: not in this format */
    const struct export_column *columns;
    size_t n;
    size_t count; /* offset in struct timeline of the number of records */
    bool (*has)(const struct export_job *x, size_t i);      /* true if the record is in the window */
    uint32_t (*rows)(const struct export_job *x, size_t i); /* number of rows of a record; NULL: one */
};

extern const struct export_table export_tables[];
extern const size_t export_ntables;
size_t export_count(const struct export_table *t, const struct timeline *tl);
/* Returns false for a value that is missing. An EXPORT_ID is missing if it is 0 or empty. */
bool export_is_known(const struct export_column *column, struct column_value v);
/* Returns false if the column is not an argument, or if its value is unknown. */
bool export_argument(const struct export_column *column, const struct export_row *row,
                     struct column_value *out);

/* The tables that the writers of Chrome and Perfetto use. */
extern const struct export_table export_kernels, export_copies, export_launches, export_ranges, export_syncs,
    export_devices;

/* Values of a power sample that are drawn as counters; NaN: unknown. */
struct export_series {
    const char *name, *unit;
    double (*get)(const struct timeline_powers *p, size_t i);
};
extern const struct export_series export_power_series[2];

/* Nsight Systems' ids of processes and threads. */
uint64_t export_global_pid(const struct export_job *x, uint32_t process);
uint64_t export_global_tid(const struct export_job *x, uint32_t thread);
uint64_t export_metric_type(uint32_t set, uint32_t device);
bool export_is_driver_call(const char *api); /* true for the driver API, false for the runtime API */

#endif
