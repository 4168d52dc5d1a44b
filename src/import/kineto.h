/* Reads a Chrome-JSON trace of torch.profiler (Kineto), plain or gzip, into a sink. Memory does not grow with
 * the file. Invalid parts are counted in the sink and dropped. Fails only if the file cannot be read or
 * contains no trace.
 *     struct kineto_info info;
 *     rc = kineto_import(path, &sink, &(struct kineto_options){ 0 }, &info, &err); */
#ifndef IMPORT_KINETO_H
#define IMPORT_KINETO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "import/format.h"
#include "import/json_pull.h"
#include "import/sink.h"

extern const struct import_format kineto_format;

struct kineto_options {
    size_t window_bytes;                                       /* 0: default of json_pull_open */
    void (*progress)(uint64_t done_bytes, uint64_t all_bytes); /* NULL: none */
};

struct kineto_info {
    /* late_base: found after the events; written as meta clock.offset_ns */
    bool has_base, late_base;
    int64_t base_ns;          /* baseTimeNanoseconds */
    int64_t rank, world_size; /* -1: unknown */
    uint64_t pid;             /* First process that launched work or ran an operator; UINT64_MAX: none. */
    uint64_t read_bytes;      /* JSON bytes read */
};

int kineto_import(const char *path, struct sink *sink, const struct kineto_options *options,
                  struct kineto_info *info, struct err *err);
/* Like kineto_import(), from any byte source. `name` is for messages. */
int kineto_import_stream(json_fill_fn *fill, void *source, const char *name, struct sink *sink,
                         const struct kineto_options *options, struct kineto_info *info, struct err *err);

#endif
