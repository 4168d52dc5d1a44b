/* Queries of the database of runs. Unknown doubles are NaN, unknown texts NULL. */
#ifndef HISTORY_QUERY_H
#define HISTORY_QUERY_H

#include "history/history.h"
#include "history/record.h"

struct history_run {
    int64_t id, started_ns, findings;
    char *name, *store, *path, *digest, *title, *model, *device, *engine, *host, *version, *command, *verdict,
        *busy; /* see struct run_record */
    double repeats, failed_repeats, mfu, mbu, time_to_first_token_ms, time_per_token_ms, tokens_per_s;
    bool incomplete, unstable;
    int64_t metrics_mtime_ns, metrics_bytes; /* of metrics.json when it was read; 0: there was none */
    bool missing;                            /* its folder does not exist */
    bool here;                               /* false: in another store */
    /* of the filter's stage; NaN: none, or unknown */
    double stage_time_ms, stage_ci95_low_ms, stage_ci95_high_ms, stage_time_per_token_ms, stage_tokens_per_s,
        stage_mfu, stage_mbu, stage_distance;
    struct strlist tags;
};
void history_run_free(struct history_run *run);

/* NULL or 0: no condition. A '*' in model, device, engine, host or version makes the text a pattern that
 * ignores case. */
struct history_filter {
    const char *model, *device, *engine, *host, *tag, *version;
    const char *text;  /* up to 8 words; each is part of the name, title, model, device or host */
    const char *stage; /* only runs with this stage */
    int64_t since_ns, until_ns;
    const char *sort;   /* key of history_sort_keys(); NULL: started */
    bool reverse;       /* of the key's default order */
    size_t limit;       /* 0: 50; at most HISTORY_LIMIT_MAX */
    const char *cursor; /* `next` of the previous page */
    bool count;         /* also count all matching runs */
};
#define HISTORY_LIMIT_MAX 1000
#define HISTORY_COUNT_MAX 500

struct history_page {
    struct history_run *v;
    size_t n;
    char *next; /* next page; NULL: last page */
    /* Matching runs; -1: not counted, or more than HISTORY_COUNT_MAX. If the filter has only model, device,
     * engine and host, there is no maximum. */
    int64_t total;
};
/* Returns -1 if the sort key or the cursor (which must be set) is not valid. history_list() checks this too;
 * with this function a server can distinguish a wrong request from a failing database. */
int history_check_cursor(const struct history_filter *filter, struct err *err);
int history_list(struct history *h, const struct history_filter *filter, struct history_page *page,
                 struct err *err);
void history_page_free(struct history_page *page);
const char *history_sort_keys(void); /* "started|name|..." */

/* Returns 1; 0: no such run; -1: failure. */
int history_find(struct history *h, const char *name, struct history_run *run, struct err *err);
/* Also finds the start of a name, if only one run has it. -1: failure, or several runs have it. */
int history_find_start(struct history *h, const char *name, struct history_run *run, struct err *err);
/* Finds an upload whose folder is in this store. Another store of the same database may have the run, too,
 * but its disk is not ours. */
int history_find_digest(struct history *h, const char *digest, struct history_run *run, struct err *err);
/* Reads stages, figures, kernels, findings, environment and tags. */
int history_details(struct history *h, int64_t id, struct run_record *out, struct err *err);

/* Changes the tags in the folder and in the database. */
int history_tag(struct history *h, const struct history_run *run, const char *const *add, size_t nadd,
                const char *const *remove, size_t nremove, struct err *err);
/* Deletes the folder and the row. Returns 1; 0: already deleted; -1: failure. */
int history_delete(struct history *h, const struct history_run *run, struct err *err);
/* If the folder or its metrics.json has changed, updates the row and returns true: `run` is outdated. */
bool history_verify(struct history *h, const struct history_run *run);

/* Model, device and engine. */
struct history_series {
    char *model, *device, *engine;
    int64_t runs, last_ns;
};
struct history_series_list {
    struct history_series *v;
    size_t n, cap;
};
/* Lists the 2,000 series with the newest runs. */
int history_series(struct history *h, struct history_series_list *out, struct err *err);
void history_series_free(struct history_series_list *list);

/* A metric of one run. */
struct history_point {
    char *name, *version;
    int64_t started_ns;
    double value, low, high; /* 95% interval; NaN: unknown */
};
struct history_points {
    struct history_point *v; /* oldest first */
    size_t n, cap;
    char *unit;
    bool larger_is_better;
};
struct history_trend {
    const char *model, *device, *engine; /* "": only runs without this value */
    const char *stage;                   /* NULL: `metric` is a figure */
    /* Key of a figure, or for a stage: time, time_per_token, tokens_per_s, mfu, mbu, distance. */
    const char *metric;
    size_t limit; /* newest runs; 0: 200 */
};
int history_trend(struct history *h, const struct history_trend *t, struct history_points *out,
                  struct err *err);
void history_points_free(struct history_points *points);
/* Sets *id to the newest run of the trend's model, device and engine. Returns 1; 0: no run; -1: failure. */
int history_newest(struct history *h, const struct history_trend *t, int64_t *id, struct err *err);
bool history_stage_metric(const char *metric); /* metric of a stage */

/* A finding and its run. */
struct history_finding {
    char *run, *rule, *stage, *title, *model, *device, *engine, *advice;
    int64_t started_ns;
    double saving_ms, saving_percent;
};
struct history_findings {
    struct history_finding *v;
    size_t n, cap;
};
/* Findings of the newest `runs` runs with this model, device and engine (NULL: any; "": unknown), newest run
 * first. `rule` NULL: all rules. */
int history_findings(struct history *h, const char *model, const char *device, const char *engine,
                     const char *rule, size_t runs, struct history_findings *out, struct err *err);
void history_findings_free(struct history_findings *list);

struct history_machine {
    char *host, *device, *version; /* version: inferprof of the last run */
    char *last_run;
    int64_t runs, last_ns;
};
struct history_machines {
    struct history_machine *v;
    size_t n, cap;
};
/* Lists the 1,000 pairs of host and device with the newest runs. */
int history_machines(struct history *h, struct history_machines *out, struct err *err);
void history_machines_free(struct history_machines *list);

/* Converts "7d", "24h", "30m", "2w" (before now), "2026-11-01", "2026-11-01T12:00:00Z", "2026-11-01T12:00" or
 * "2026-11-01 12:00" (UTC) to Unix ns. */
int history_parse_time(const char *text, int64_t now_ns, int64_t *out_ns, struct err *err);

#endif
