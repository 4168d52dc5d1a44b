/* A stretch of a trace as a trace of its own.
 *     trace_cut_find(in, "prefill", &from, &to)    -- the last range of that name
 *     trace_cut_file(in, "out.ipt", from, to, &err)
 * Kept are records that start within [from, to) and ranges that touch it, shortened to it. What describes the whole (meta,
 * losses) is kept as it is; a meta record `cut` says that this is a part. */
#ifndef TRACE_READER_CUT_H
#define TRACE_READER_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/reader.h"

/* False: no range has that name, and the bounds are left as they were. */
bool trace_cut_find(const struct trace_reader *in, const char *name, uint64_t *from_ns, uint64_t *to_ns);
int trace_cut_file(const struct trace_reader *in, const char *path, uint64_t from_ns, uint64_t to_ns,
                   struct err *err);

#endif
