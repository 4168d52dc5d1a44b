/* Shared by the nsys files. */
#ifndef IMPORT_NSYS_INTERNAL_H
#define IMPORT_NSYS_INTERNAL_H

#include "import/nsys.h"
#include "import/nsys_db.h"

#define NSYS_UNKNOWN_TEXT 0

struct nsys {
    struct sqlite3 *db;
    struct sink *sink;
    int64_t epoch_ns; /* unix time of time 0; 0: unknown */
    struct {          /* StringIds, sorted by id */
        struct nsys_string {
            int64_t id;
            size_t offset, len;
        } * v;
        size_t n, cap;
    } strings;
    struct {
        char *v;
        size_t n, cap;
    } text;
    struct { /* with calls or work on devices: globalPid >> 24 */
        uint64_t *v;
        size_t n, cap;
    } processes;
    struct { /* two processes may have contexts with one number */
        struct nsys_context {
            uint64_t process;
            uint32_t own, number; /* in the file and in the trace */
        } * v;
        size_t n, cap;
    } contexts;
    bool contexts_full; /* the processes of some contexts are unknown */
    bool unowned;       /* calls or work on devices do not name their process */
    struct {            /* device numbers are per process */
        struct nsys_device {
            uint64_t pid, cuda_id, gpu_id;
        } * v;
        size_t n, cap;
    } devices;
};

/* Sets the interval of a row in ns; unix time if epoch_ns is known. Counts an invalid row and returns
 * false. */
bool nsys_interval(struct nsys *n, const struct nsys_rows *r, int start, int end, uint64_t *start_ns,
                   uint64_t *end_ns);
const char *nsys_string(const struct nsys *n, int64_t id, size_t *len); /* NULL: not found */
/* Text id in the trace; NSYS_UNKNOWN_TEXT: not found. */
uint32_t nsys_string_text(struct nsys *n, int64_t id);
/* Closes the rows. Counts a table that could not be read completely. */
void nsys_end(struct nsys *n, struct nsys_rows *r);

/* nsys_process.c. `global_id`, `global_pid`, `global_tid`: NSYS_NO_PROCESS if the row has none. */
#define NSYS_NO_PROCESS UINT64_MAX
void nsys_find_owners(struct nsys *n); /* sets `unowned` */
/* Ids in the trace: of calls and their work, unless `unowned` not equal in two processes; of threads; of
 * contexts. */
uint64_t nsys_correlation(struct nsys *n, uint64_t global_id, uint64_t correlation);
uint32_t nsys_thread(struct nsys *n, uint64_t global_tid);
uint32_t nsys_context(struct nsys *n, uint64_t global_pid, uint64_t context);
/* Writes the pid, and those of threads and contexts if there are several. Called last. */
void nsys_write_processes(struct nsys *n);

void nsys_read_nvtx(struct nsys *n);
void nsys_read_metrics(struct nsys *n);
void nsys_read_gpus(struct nsys *n);
void nsys_read_own(struct nsys *n); /* tables added by `inferprof export` */

#endif
