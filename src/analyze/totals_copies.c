/* Memcpys and memsets by kind. */
#include "analyze/totals_internal.h"

void totals_copies(struct analysis_totals *t, const struct analysis *a) {
    const struct timeline_copies *c = &a->timeline->copies;
    for (size_t i = 0; i < c->n; i++) {
        struct totals_copy *row = &t->copies[c->kind[i]];
        row->count++;
        row->bytes += c->bytes[i];
        row->total_ns += c->end_ns[i] - c->start_ns[i];
    }
    for (unsigned kind = 0; kind < TRACE_COPY_KIND_END; kind++) {
        t->all_copies.count += t->copies[kind].count;
        t->all_copies.bytes += t->copies[kind].bytes;
        t->all_copies.total_ns += t->copies[kind].total_ns;
    }
}
