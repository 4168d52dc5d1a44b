#include "collect/layout.h"

#include <stddef.h>

#include "base/util.h"
#include "collect/abi.h"

static const struct layout_kernel kernel_12 = {
    .registers = 6,
    .start = 16,
    .end = 24,
    .device = 40,
    .context = 44,
    .stream = 48,
    .grid = 52,
    .block = 64,
    .static_smem = 76,
    .dynamic_smem = 80,
    .correlation = 92,
    .name = 104,
    .graph_node = 144,
    .graph = 156,
};
static const struct layout_copy memcpy_12 = {
    .copy_kind = 4,
    .bytes = 8,
    .start = 16,
    .end = 24,
    .device = 32,
    .context = 36,
    .stream = 40,
    .correlation = 44,
    .graph_node = 64,
    .graph = 72,
};
static const struct layout_copy memset_12 = {
    .bytes = 8,
    .start = 16,
    .end = 24,
    .device = 32,
    .context = 36,
    .stream = 40,
    .correlation = 44,
    .graph_node = 64,
    .graph = 72,
};
static const struct layout_copy peer_12 = {
    .copy_kind = 4,
    .bytes = 8,
    .start = 16,
    .end = 24,
    .device = 32,
    .context = 36,
    .stream = 40,
    .correlation = 60,
    .graph_node = 72,
    .graph = 80,
};
static const struct layout_graph graph_12 = {
    .correlation = 4,
    .start = 8,
    .end = 16,
    .device = 24,
    .graph = 28,
    .context = 32,
    .stream = 36,
};

#define OFFSETS_12 &kernel_12, &memcpy_12, &memset_12, &peer_12, &graph_12
static const struct layout layouts[] = {
    /* CUPTI version, then record sizes: kernel, memcpy, memset, peer, graph */
    { 18, 208, 88, 88, 96, 48, OFFSETS_12 },       /* CUDA 12.0 */
    { 26, 208, 96, 88, 96, 56, OFFSETS_12 },       /* 12.8 */
    { 130001, 216, 96, 88, 96, 56, OFFSETS_12 },   /* 13.0 */
    { 130101, 224, 96, 88, 96, 56, OFFSETS_12 },   /* 13.1 */
    { 130301, 232, 96, 88, 96, 56, OFFSETS_12 },   /* 13.3 */
    { 130401, 248, 112, 104, 96, 56, OFFSETS_12 }, /* 13.4 */
};

const struct layout *layout_find(uint32_t cupti_version) {
    const struct layout *found = NULL;
    for (size_t i = 0; i < COUNTOF(layouts); i++)
        if (cupti_version >= layouts[i].cupti_version) found = &layouts[i];
    return found;
}

uint32_t layout_newest(void) { return layouts[COUNTOF(layouts) - 1].cupti_version; }

uint16_t layout_record_bytes(const struct layout *l, uint32_t kind) {
    switch (kind) {
    case KIND_CONCURRENT_KERNEL: return l->kernel_bytes;
    case KIND_MEMCPY: return l->memcpy_bytes;
    case KIND_MEMSET: return l->memset_bytes;
    case KIND_MEMCPY2: return l->peer_bytes;
    case KIND_GRAPH_TRACE: return l->graph_bytes;
    default: return 0;
    }
}
