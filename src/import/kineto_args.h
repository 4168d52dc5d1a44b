/* Parses the "args" of events. Unknown numbers are KINETO_UNKNOWN. */
#ifndef IMPORT_KINETO_ARGS_H
#define IMPORT_KINETO_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "import/kineto_event.h"

#define KINETO_UNKNOWN UINT64_MAX

struct kineto_args {
    uint64_t device, stream, context, correlation, bytes, registers, smem_bytes, graph, graph_node;
    uint64_t device_type, address,
        total_bytes; /* only in [memory] events (allocations and frees); device type 0: host memory */
    uint64_t grid[3], block[3];
    struct span dims, types; /* raw "Input Dims" and "Input type" */
    struct span values;      /* raw "Concrete Inputs" */
    struct span kind;        /* "HtoD", "Stream Sync"; empty if the text contains escapes */
    bool valid;              /* false: invalid JSON; only fields before the error are set */
};
void kineto_args_parse(struct span args, struct kineto_args *out);

/* Appends the string or number `key` of an object. Returns false if there is none. For metadata events. */
bool kineto_args_text(struct span args, const char *key, struct strbuf *out);

/* Formats dims and types as "[16,559]i64 [151936,1024]bf16"; omits scalars. */
void kineto_args_detail(struct span dims, struct span types, struct strbuf *out);

/* Appends the inputs that are not tensors, such as "; [2,2] [1,1] False 1". Appends nothing if the file does
 * not contain them. */
void kineto_args_values(struct span values, struct strbuf *out);

/* For counter events: appends the names "EVENT.KEY", joined with ';', and gets up to `max` values. Returns
 * their number. */
size_t kineto_args_counters(struct span args, struct span event_name, struct strbuf *names, double *values,
                            size_t max);

#endif
