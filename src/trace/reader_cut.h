/* A stretch of a trace as a trace of its own.
 *     struct trace_cut cut = { .anonymous = true };
 *     trace_cut_find(in, "prefill", &cut)          -- the last range of that name
 *     trace_cut_file(in, "out.ipt", &cut, &err)
 * Kept are records that start within [from, to) and ranges that touch it, shortened to it. What describes
 * the whole (meta, losses) is kept as it is; a meta record `cut` says that this is a part. */
#ifndef TRACE_READER_CUT_H
#define TRACE_READER_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/reader.h"

struct trace_cut {
    uint64_t from_ns, to_ns;
    bool anonymous; /* leave out meta records that name the machine, its devices or folders */
};

/* False: no range has that name, and the bounds are left as they were. */
bool trace_cut_find(const struct trace_reader *in, const char *name, struct trace_cut *cut);
int trace_cut_file(const struct trace_reader *in, const char *path, const struct trace_cut *cut,
                   struct err *err);

#endif
