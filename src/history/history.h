/* The runs under a folder, and a database for searching them. The folders are the source of truth: the rows
 * can be rebuilt from them.
 *     struct history *h = history_open("runs", NULL, &err);      -- NULL: runs/.inferprof/index.sqlite
 *     history_refresh(h, HISTORY_CHANGED, &counts, &err);
 *     ...                                                        -- query.h
 *     history_close(h);
 * One history per thread. Several processes may use one folder and one database at the same time. */
#ifndef HISTORY_HISTORY_H
#define HISTORY_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/strlist.h"
#include "history/database.h"

#define HISTORY_PRIVATE ".inferprof" /* index, uploads, jobs, deleted runs */

struct history {
    char *root;  /* real path */
    char *store; /* Identity of the root folder, stored in it: the same on every machine that mounts it. */
    char *url;   /* URL of the database */
    struct database *db;
};

/* `url` NULL: an SQLite file in the root folder. Creates or migrates the tables. */
struct history *history_open(const char *root, const char *url, struct err *err);
void history_close(struct history *h); /* NULL is fine */

enum history_scan {
    /* Reads new runs and unfinished runs that changed. Marks removed runs. */
    HISTORY_CHANGED,
    HISTORY_ALL, /* reads every run folder again */
};
struct history_counts {
    uint64_t seen, added, updated;
    uint64_t missing; /* folders that are gone; with HISTORY_CHANGED, only those that were there before */
    /* Unreadable metrics.json files and rejected runs. Caller frees. */
    struct strlist warnings;
};
int history_refresh(struct history *h, enum history_scan scan, struct history_counts *counts,
                    struct err *err);
/* Reads runs again whose metrics.json changed, which the times of the folders do not show. Looks at `runs`
 * runs after *position, and moves it; 0: at all runs from the first one on. */
int history_recheck(struct history *h, int64_t *position, size_t runs, struct history_counts *counts,
                    struct err *err);
/* Indexes a folder. `path` is relative to the root. *name: name of the run in the database; caller frees;
 * `name` may be NULL. */
int history_index_folder(struct history *h, const char *path, char **name, struct err *err);

/* Grows with every change of the runs; -1: failed. */
int64_t history_revision(struct history *h, struct err *err);
int history_bump_revision(struct history *h, struct err *err);
/* Starts a transaction that changes runs. Such transactions wait for each other: they update the same rows of
 * `run_groups`, and could otherwise deadlock in PostgreSQL. */
int history_begin(struct history *h, struct err *err);

/* caller frees */
char *history_folder(const struct history *h, const char *path);

#endif
