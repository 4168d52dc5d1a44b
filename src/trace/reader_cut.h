/* Copies a time span of a trace into a new trace.
 *     struct trace_cut cut = { .anonymous = true };
 *     trace_cut_find(in, "prefill", &cut)          -- the last range of that name
 *     trace_cut_file(in, "out.ipt", &cut, &err)
 * Keeps records that start within [from, to) and ranges that overlap it, clipped to it. Meta records and loss
 * counts are copied unchanged. A meta record `cut` marks the result as a part. */
#ifndef TRACE_READER_CUT_H
#define TRACE_READER_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/reader.h"

struct trace_cut {
    uint64_t from_ns, to_ns;
    bool anonymous; /* omit meta records that identify the machine, its devices or folders */
};

/* Sets the bounds. Returns false and changes nothing if no range has that name. */
bool trace_cut_find(const struct trace_reader *in, const char *name, struct trace_cut *cut);
int trace_cut_file(const struct trace_reader *in, const char *path, const struct trace_cut *cut,
                   struct err *err);

#endif
