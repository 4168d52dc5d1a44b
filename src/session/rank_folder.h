/* A run folder that all ranks of a job write: `mpirun inferprof run --output DIR -- PROGRAM` starts one
 * inferprof per rank. Each rank owns the file ranks/rank-<N>.json (schema inferprof.rank/1) and its
 * traces, and changes no other rank's files. The rank that ends last writes the report.
 *     struct rank_folder f;
 *     if (rank_folder_join(&f, dir, &launcher, command, &err) < 0) ...    -- see err
 *     bool last = rank_folder_leave(&f, wait_status, &warnings, &err);    -- true: report now
 *     rank_folder_free(&f);
 * Works on file systems without locks: files are created exclusively or replaced atomically. If new files
 * appear late (NFS), possibly no rank finds that it is the last one; `inferprof report DIR` then writes
 * the report. */
#ifndef SESSION_RANK_FOLDER_H
#define SESSION_RANK_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/launcher.h"
#include "base/strlist.h"

#define RANK_FOLDER_NAME "ranks"

struct rank_folder {
    struct launcher launcher;
    char *dir, *path; /* the run folder; the file of this rank */
    char *command;
    uint64_t started_ns; /* wall clock */
    bool first;          /* the first rank of the folder: it writes the files that exist only once */
};

int rank_folder_join(struct rank_folder *f, const char *dir, const struct launcher *l, const char *command,
                     struct err *err);
/* Removes the file of this rank: its program could not be started. */
void rank_folder_cancel(struct rank_folder *f);
/* Stores how the program ended. Returns true for one rank only: the first rank that sees that all ranks of
 * the job have ended. err is empty unless the file of this rank cannot be written. */
bool rank_folder_leave(struct rank_folder *f, int wait_status, const struct strlist *warnings,
                       struct err *err);
void rank_folder_free(struct rank_folder *f);

/* Adds warnings of the job from the files of the ranks: ranks that failed, did not end, never started or left
 * no trace, and the warnings that ranks reported. `recorded(rank, ctx)` returns true if the rank has a trace.
 * Returns false, and adds nothing, for a folder that is not shared by ranks. */
typedef bool rank_recorded(uint32_t rank, const void *ctx);
bool rank_folder_warnings(const char *dir, rank_recorded *recorded, const void *ctx, struct strlist *out);

#endif
