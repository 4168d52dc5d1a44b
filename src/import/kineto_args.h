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
    uint64_t device_type, address, total_bytes; /* [memory] events; device type 0: host */
    uint64_t grid[3], block[3];
    struct span dims, types; /* raw "Input Dims", "Input type" */
    struct span values;      /* raw "Concrete Inputs" */
    struct span kind;        /* "HtoD", "Stream Sync"; empty: none, or with escapes */
    bool valid;              /* false: invalid JSON after the members that are set */
};
void kineto_args_parse(struct span args, struct kineto_args *out);

/* For metadata events: appends the string or number `key`. Returns false if there is none. */
bool kineto_args_text(struct span args, const char *key, struct strbuf *out);

/* Formats dims and types as "[16,559]i64 [151936,1024]bf16". Omits scalars. */
void kineto_args_detail(struct span dims, struct span types, struct strbuf *out);

/* Appends the inputs that are not tensors, such as "; [2,2] [1,1] False 1", if the file contains them. */
void kineto_args_values(struct span values, struct strbuf *out);

/* For counter events: appends the names "EVENT.KEY", joined with ';', and stores up to `max` values. Returns
 * their number. */
size_t kineto_args_counters(struct span args, struct span event_name, struct strbuf *names, double *values,
                            size_t max);

#endif
