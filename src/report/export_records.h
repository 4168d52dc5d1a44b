/* The records of a timeline as tables: one list of columns per record kind, with the name of each column in
 * every format. */
#ifndef REPORT_EXPORT_RECORDS_H
#define REPORT_EXPORT_RECORDS_H

#include "base/columns.h"
#include "report/export.h"

struct export_row {
    const struct export_job *x;
    size_t i;        /* index of the record */
    uint32_t metric; /* for samples: index of the counter */
};

enum export_use {
    EXPORT_VALUE,
    EXPORT_TIME,     /* ns; SQLite: since the trace start */
    EXPORT_ID,       /* 0 or "": unknown */
    EXPORT_NAME,     /* text; SQLite: id in StringIds */
    EXPORT_REQUIRED, /* SQLite omits rows without it */
};

struct export_column {
    const char *csv, *sql; /* NULL: not in this format */
    const char *argument;  /* in Chrome and Perfetto; NULL: none */
    enum export_use use;
    struct column_value (*get)(const struct export_row *r);
};

struct export_table {
    const char *csv, *sql; /* file and table; NULL: not in this format */
    const struct export_column *columns;
    size_t n;
    size_t count;                                           /* offset in struct timeline */
    bool (*has)(const struct export_job *x, size_t i);      /* record is in the window */
    uint32_t (*rows)(const struct export_job *x, size_t i); /* rows per record; NULL: one */
};

extern const struct export_table export_tables[];
extern const size_t export_ntables;
size_t export_count(const struct export_table *t, const struct timeline *tl);
/* An EXPORT_ID is unknown if it is 0 or empty. */
bool export_is_known(const struct export_column *column, struct column_value v);
/* Returns false if the column is not an argument, or its value is unknown. */
bool export_argument(const struct export_column *column, const struct export_row *row,
                     struct column_value *out);

/* for Chrome and Perfetto */
extern const struct export_table export_kernels, export_copies, export_launches, export_ranges, export_syncs,
    export_devices;

/* A value of the power samples that is drawn as a counter; NaN: unknown. */
struct export_series {
    const char *name, *unit;
    double (*get)(const struct timeline_powers *p, size_t i);
};
extern const struct export_series export_power_series[2];

/* ids of Nsight Systems */
uint64_t export_global_pid(const struct export_job *x, uint32_t process);
uint64_t export_global_tid(const struct export_job *x, uint32_t thread);
uint64_t export_nvtx_category(unsigned category); /* enum trace_range_category */
uint64_t export_metric_type(uint32_t set, uint32_t device);
bool export_is_driver_call(const char *api); /* false: runtime API */

#endif
