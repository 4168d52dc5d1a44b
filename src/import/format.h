/* The interface of an importer. detect.c lists all importers. */
#ifndef IMPORT_FORMAT_H
#define IMPORT_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "import/sink.h"

/* Start of a file, decompressed. */
struct import_head {
    const char *path;
    const char *bytes; /* [n], followed by a NUL */
    size_t n;
    const char *text; /* `bytes` without byte order mark and leading white space */
};

/* One file to read. */
struct import_job {
    const char *path, *trace_path; /* temporary files: next to trace_path */
    struct sink *sink;
    void (*progress)(uint64_t done_bytes, uint64_t all_bytes); /* NULL: none */
    /* Results. */
    int64_t rank; /* -1: unknown */
    uint64_t read_bytes;
    int signal; /* Signal received while another program ran, or 0. It is raised again after the cleanup. */
};

/* Receives the totals of one kernel. */
typedef void import_sum_fn(void *ctx, const char *name, size_t len, uint64_t calls, uint64_t total_ns);

struct import_format {
    const char *name;   /* "torch.profiler (Kineto) JSON" */
    const char *source; /* in the trace; NULL: not a timeline */
    bool (*detect)(const struct import_head *head);
    int (*read)(struct import_job *job, struct err *err); /* NULL: not a timeline */
    /* For tables without timestamps: calls `row` for each kernel. Counts unreadable rows in *bad_rows. */
    int (*read_sums)(const char *path, import_sum_fn *row, void *ctx, uint64_t *bad_rows, struct err *err);
};

#endif
