/* Open readers by path, so that one command opens and checks each trace only once.
 *     struct trace_set *set = trace_set_new();
 *     struct trace_reader *r = trace_set_take(set, path, &err);     -- NULL: see err
 *     trace_set_give(set, r);                                       -- stays open for the next take
 *     trace_set_free(set);
 * Every reader has an open file, so at most TRACE_SET_MAX readers stay open; the rest are closed when they
 * are given back. Several threads may use a set. `set` may be NULL: then no reader stays open. */
#ifndef TRACE_READER_SET_H
#define TRACE_READER_SET_H

#include "trace/reader.h"

#define TRACE_SET_MAX 256

struct trace_set;

struct trace_set *trace_set_new(void);
void trace_set_free(struct trace_set *set); /* closes the readers; NULL: does nothing */
struct trace_reader *trace_set_take(struct trace_set *set, const char *path, struct err *err);
void trace_set_give(struct trace_set *set, struct trace_reader *r); /* r NULL: does nothing */

#endif
