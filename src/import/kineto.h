/* Reads a Chrome-JSON trace of torch.profiler (Kineto), plain or gzip, into a sink. Streams: memory does
 * not grow with the file. What is broken is counted in the sink and left out; only a file that cannot be
 * opened, or holds no trace at all, fails.
 *     struct kineto_info info;
 *     rc = kineto_import(path, &sink, &(struct kineto_options){ 0 }, &info, &err); */
#ifndef IMPORT_KINETO_H
#define IMPORT_KINETO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "import/json_pull.h"
#include "import/sink.h"

struct kineto_options {
    size_t window_bytes;                                       /* 0: as json_pull_open */
    void (*progress)(uint64_t done_bytes, uint64_t all_bytes); /* NULL: none */
};

struct kineto_info {
    bool has_base, late_base; /* late: given after the events; the trace carries it as meta clock.offset_ns */
    int64_t base_ns;          /* baseTimeNanoseconds */
    int64_t rank, world_size; /* -1: not said */
    uint64_t pid;             /* of the process that launched; UINT64_MAX: none */
    uint64_t read_bytes;      /* of JSON */
};

int kineto_import(const char *path, struct sink *sink, const struct kineto_options *options,
                  struct kineto_info *info, struct err *err);
/* The same from any source of bytes; `name` is for messages. */
int kineto_import_stream(json_fill_fn *fill, void *source, const char *name, struct sink *sink,
                         const struct kineto_options *options, struct kineto_info *info, struct err *err);

#endif
