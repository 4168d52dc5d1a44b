/* Converts files of other tools to our trace format. The input format is detected from name and content.
 *     const struct import_format *f = import_detect(path, &err);
 *     if (f && f->read) rc = import_to_trace(path, f, "out.ipt", &options, &result, &err);
 * Tables without timestamps (Nsight Compute, nsys summaries) are not traces. Their formats have read_sums
 * instead of read. */
#ifndef IMPORT_IMPORT_H
#define IMPORT_IMPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "import/format.h"
#include "import/sink.h"

#define IMPORT_HEAD_BYTES 65536                        /* bytes examined, after decompression */
extern const struct import_format import_trace_format; /* our own .ipt */
const struct import_format *import_detect(const char *path, struct err *err); /* NULL: see err */
/* `head`: the first bytes, followed by a NUL. NULL: unknown format. */
const struct import_format *import_detect_head(const char *path, const char *head, size_t n);

struct import_options {
    int64_t rank; /* -1: from file or name */
    void (*progress)(uint64_t done_bytes, uint64_t all_bytes);
};

struct import_result {
    uint64_t events[SINK_EVENT_END], problems[SINK_PROBLEM_END];
    uint64_t read_bytes;
    int64_t rank; /* -1: unknown */
};

int import_to_trace(const char *path, const struct import_format *f, const char *trace_path,
                    const struct import_options *options, struct import_result *result, struct err *err);

/* 3 for "rank-3.json.gz", "rank_3" and "rank3"; -1: none */
int64_t import_rank_from_name(const char *path);

#endif
