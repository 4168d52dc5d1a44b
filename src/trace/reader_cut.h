/* Copies a time span of a trace into a new trace.
 *     struct trace_cut cut = { .anonymous = true };
 *     trace_cut_find(in, "prefill", &cut)          -- the last range of that name
 *     trace_cut_file(in, "out.ipt", &cut, &err)
 * Keeps records that start within [from_ns, to_ns), and ranges that overlap this span, clipped to it. Loss
 * counts are copied unchanged, and so are meta records, except those that `anonymous` omits or replaces. A
 * meta record `cut` marks the result as a part of a trace; `cut.clipped` is the number of ranges that were
 * shortened. */
#ifndef TRACE_READER_CUT_H
#define TRACE_READER_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/reader.h"

struct trace_cut {
    uint64_t from_ns, to_ns;
    /* Omits meta records that identify the machine or its folders, and replaces the uuids of its devices. */
    bool anonymous;
};

/* Sets from_ns and to_ns to the range of that name with the latest start. Returns false and changes nothing
 * if no range has that name. */
bool trace_cut_find(const struct trace_reader *in, const char *name, struct trace_cut *cut);
int trace_cut_file(const struct trace_reader *in, const char *path, const struct trace_cut *cut,
                   struct err *err);

#endif
