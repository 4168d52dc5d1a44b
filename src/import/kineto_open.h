/* Pending records by key, newest first: begin events without an end (key: thread or id), and calls and device
 * work without a flow (key: pid, tid and time). The size is limited. */
#ifndef IMPORT_KINETO_OPEN_H
#define IMPORT_KINETO_OPEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "import/kineto_record.h"

#define KINETO_OPEN_MAX 65536
#define KINETO_OPEN_BUCKETS 4096

struct kineto_open {
    struct kineto_open_entry {
        struct kineto_record record;
        uint64_t key;
        uint32_t next; /* index + 1; 0: end */
    } * v;
    size_t n, cap, count; /* count: pending records */
    uint32_t free_list;   /* first free entry + 1; 0: none */
    uint32_t heads[KINETO_OPEN_BUCKETS];
};

bool kineto_open_push(struct kineto_open *o, uint64_t key, const struct kineto_record *r); /* false: full */
bool kineto_open_pop(struct kineto_open *o, uint64_t key, struct kineto_record *out);      /* false: none */
/* Removes any pending record. Returns false if there is none. */
bool kineto_open_any(struct kineto_open *o, struct kineto_record *out);
void kineto_open_free(struct kineto_open *o);

#endif
