/* Offsets of the fields in CUPTI's activity records, which have the layout of CUPTI's own version. Every
 * version so far kept the offsets of the fields used here. The table has one row per version that changed a
 * record size; tests/oracle/cupti_layouts.py checks it against CUPTI's headers. */
#ifndef COLLECT_LAYOUT_H
#define COLLECT_LAYOUT_H

#include <stdint.h>
#include <string.h>

struct layout_kernel {
    uint16_t registers, start, end, device, context, stream, grid, block, static_smem, dynamic_smem,
        correlation, name, graph_node, graph;
};
struct layout_copy { /* copy_kind 0: no such field */
    uint16_t copy_kind, bytes, start, end, device, context, stream, correlation, graph_node, graph;
};
struct layout_graph {
    uint16_t correlation, start, end, device, graph, context, stream;
};

struct layout {
    uint32_t cupti_version; /* first version with this layout */
    uint16_t kernel_bytes, memcpy_bytes, memset_bytes, peer_bytes, graph_bytes; /* record sizes */
    const struct layout_kernel *kernel;
    const struct layout_copy *memcpy_, *memset_, *peer;
    const struct layout_graph *graph;
};

const struct layout *layout_find(uint32_t cupti_version); /* NULL: version too old */
uint32_t layout_newest(void);
/* Returns 0 for activity kinds that are not used. */
uint16_t layout_record_bytes(const struct layout *l, uint32_t kind);

static inline uint64_t field_u64(const uint8_t *record, uint16_t offset) {
    uint64_t v;
    memcpy(&v, record + offset, sizeof v);
    return v;
}
static inline uint32_t field_u32(const uint8_t *record, uint16_t offset) {
    uint32_t v;
    memcpy(&v, record + offset, sizeof v);
    return v;
}
static inline uint16_t field_u16(const uint8_t *record, uint16_t offset) {
    uint16_t v;
    memcpy(&v, record + offset, sizeof v);
    return v;
}

#endif
