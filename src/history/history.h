/* The runs under a folder, and the database that makes them searchable. The folders are the source of truth:
 * the rows of runs can be rebuilt from them at any time.
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

#define HISTORY_PRIVATE ".inferprof" /* folder under the root: index, uploads, jobs, deleted runs */

struct history {
    char *root;  /* real path */
    char *store; /* identity of the root folder, stored in it: the same from every machine that mounts it */
    char *url;   /* URL of the database */
    struct database *db;
};

/* `url` NULL: an SQLite file in the root folder. Creates the tables, or migrates them. */
struct history *history_open(const char *root, const char *url, struct err *err);
void history_close(struct history *h); /* NULL is fine */

enum history_scan {
    /* reads runs that are new or were missing, and unfinished runs that changed; marks removed runs */
    HISTORY_CHANGED,
    HISTORY_ALL, /* reads every run folder again */
};
struct history_counts {
    uint64_t seen, added, updated, missing;
    /* messages about unreadable metrics.json files and rejected runs; the caller frees the list */
    struct strlist problems;
};
int history_refresh(struct history *h, enum history_scan scan, struct history_counts *counts,
                    struct err *err);
/* Indexes one folder under the root, given by its path relative to the root. *name is set to the name of the
 * run in the database; the caller frees it. `name` may be NULL. */
int history_index_folder(struct history *h, const char *path, char **name, struct err *err);

/* Returns a number that grows with every change of the runs; -1: err. */
int64_t history_revision(struct history *h, struct err *err);
int history_bump_revision(struct history *h, struct err *err);
/* Starts a transaction that changes runs. Such transactions wait for each other: they update the same rows of
 * `run_groups`, and in PostgreSQL two of them could block each other. */
int history_begin(struct history *h, struct err *err);

/* Returns the folder of a run of this store. The caller frees it. */
char *history_folder(const struct history *h, const char *path);

#endif
