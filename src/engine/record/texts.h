/* The texts of operators and ranges, cached by name and shape: formatting and interning them each time would
 * take longer than an operator of a small model. Names are compared by address, because they are string
 * constants.
 *     struct record_texts *t = record_texts_open(false);
 *     record_texts_attach(t, writer);
 *     const struct record_text *text = record_texts_find(t, &op);   -- valid until the next call
 *     record_texts_close(t); */
#ifndef ENGINE_RECORD_TEXTS_H
#define ENGINE_RECORD_TEXTS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/record/record.h"
#include "trace/writer.h"

struct record_text {
    const char *name_at, *kernel_at; /* the key consists of these two addresses, the shape and the types */
    long m, n, k;
    enum dtype type, kv_type;
    uint32_t name, detail, kernel; /* string ids of the trace */
};

struct record_texts;
struct record_texts *record_texts_open(bool no_shapes); /* no_shapes: operators have no detail text */
/* call before the first find; w is borrowed */
void record_texts_attach(struct record_texts *t, struct trace_writer *w);
void record_texts_close(struct record_texts *t);
const struct record_text *record_texts_find(struct record_texts *t, const struct record_op *op);
/* Returns the string id of a range's name, in which the index replaces %d. */
uint32_t record_texts_range(struct record_texts *t, const char *name, int index);

#endif
