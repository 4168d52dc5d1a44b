#include "llm/links.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "base/util.h"
#include "llm/gpu_columns.h"

#define SRC_PCIE "PCI-SIG: transfer rate x 16 lanes, less line coding"
#define SRC_IB "InfiniBand Trade Association roadmap, 4 lanes"
#define SRC_ETH "IEEE 802.3 line rate"

/* GB/s per direction and GPU. A maker's total of both directions is halved. */
static const struct llm_link links[] = {
    { "NVLink 1", 80, false, "P100 white paper: 4 links of 20 GB/s per direction" },
    { "NVLink 2", 150, false, "V100 white paper: 6 links of 25 GB/s per direction" },
    { "NVLink 3", 300, false, "A100 white paper: 12 links of 25 GB/s per direction" },
    { "NVLink 3, 8 links", 200, false, "A800 datasheet: 400 GB/s in both directions" },
    { "NVLink 3 bridge", 56.25, false, "GA102 white paper: 4 links of 14.0625 GB/s per direction" },
    { "NVLink 4", 450, false, "H100 white paper: 18 links of 25 GB/s per direction" },
    { "NVLink 4, 8 links", 200, false, "H800 datasheet: 400 GB/s in both directions" },
    { "NVLink 4 bridge", 300, false, "H100 NVL datasheet: 600 GB/s in both directions" },
    { "NVLink 5", 900, false, "Blackwell datasheet: 18 links of 50 GB/s per direction" },
    { "xGMI MI300", 448, false, "AMD MI300X data sheet: 7 links of 64 GB/s per direction" },
    { "PCIe 3", 15.754, false, SRC_PCIE " 128/130" },
    { "PCIe 4", 31.508, false, SRC_PCIE " 128/130" },
    { "PCIe 5", 63.015, false, SRC_PCIE " 128/130" },
    { "PCIe 6", 121, false, SRC_PCIE " 242/256" },
    { "InfiniBand EDR", 12.5, true, SRC_IB ": 100 Gb/s" },
    { "InfiniBand HDR", 25, true, SRC_IB ": 200 Gb/s" },
    { "InfiniBand NDR", 50, true, SRC_IB ": 400 Gb/s" },
    { "InfiniBand XDR", 100, true, SRC_IB ": 800 Gb/s" },
    { "Ethernet 10G", 1.25, true, SRC_ETH },
    { "Ethernet 25G", 3.125, true, SRC_ETH },
    { "Ethernet 100G", 12.5, true, SRC_ETH },
    { "Ethernet 200G", 25, true, SRC_ETH },
    { "Ethernet 400G", 50, true, SRC_ETH },
    { "Ethernet 800G", 100, true, SRC_ETH },
};

/* GPUs that are always sold with the same link. A GPU on a PCIe card may also have a bridge, and the slot
 * may be slower than the card. Such GPUs have no row. */
static const struct {
    const char *gpu, *link;
} gpu_links[] = {
    { "V100 SXM2", "NVLink 2" },
    { "V100 SXM2 16GB", "NVLink 2" },
    { "A100 40GB SXM", "NVLink 3" },
    { "A100 80GB SXM", "NVLink 3" },
    { "A800 80GB SXM", "NVLink 3, 8 links" },
    { "H100 SXM", "NVLink 4" },
    { "H800 SXM", "NVLink 4, 8 links" },
    { "H20", "NVLink 4" },
    { "H20-3e", "NVLink 4" },
    { "H200 SXM", "NVLink 4" },
    { "B100", "NVLink 5" },
    { "B200", "NVLink 5" },
    { "GB200", "NVLink 5" },
    { "B300", "NVLink 5" },
    { "MI300X", "xGMI MI300" },
    { "MI325X", "xGMI MI300" },
};

size_t llm_links(void) { return COUNTOF(links); }
const struct llm_link *llm_link_at(size_t i) { return &links[i]; }

/* Keeps letters and digits, in lower case. */
static void simplify(const char *text, char *out, size_t cap) {
    size_t n = 0;
    for (; *text && n + 1 < cap; text++)
        if (isalnum((unsigned char)*text)) out[n++] = (char)tolower((unsigned char)*text);
    out[n] = '\0';
}

/* Returns the row whose name is `key`, or the network whose last word is `key` ("ndr", "400g"). */
static const struct llm_link *find_row(const char *key) {
    char name[32];
    for (size_t i = 0; i < COUNTOF(links); i++) {
        const char *last = strrchr(links[i].name, ' ');
        simplify(links[i].name, name, sizeof name);
        if (strcmp(name, key) == 0) return &links[i];
        if (!links[i].network) continue;
        simplify(last, name, sizeof name);
        if (strcmp(name, key) == 0) return &links[i];
    }
    return NULL;
}

const struct llm_link *llm_link_find(const char *text, struct llm_link *custom, struct err *err) {
    char key[32], *end;
    double gbps = strtod(text, &end);
    if (*text && !*end && isfinite(gbps) && gbps > 0 && gbps < 1e6) {
        *custom = (struct llm_link){ .name = "given", .gbytes_per_s = gbps, .source = "given" };
        return custom;
    }
    simplify(text, key, sizeof key);
    const struct llm_link *found = find_row(key);
    if (found) return found;
    struct suggest near;
    char row[32];
    const char *near_name = NULL;
    suggest_start(&near, key);
    for (size_t i = 0; i < COUNTOF(links); i++) {
        size_t before = near.best_distance;
        simplify(links[i].name, row, sizeof row);
        suggest_try(&near, row);
        if (near.best_distance != before) near_name = links[i].name;
    }
    if (near_name)
        err_set(err, "no link '%s' in the table; did you mean %s? `--link list` prints all", text, near_name);
    else
        err_set(err, "no link '%s' in the table; `--link list` prints all; GB/s per direction also work",
                text);
    return NULL;
}

const struct llm_link *llm_link_of_gpu(const struct llm_gpu *gpu) {
    char key[32];
    for (size_t i = 0; gpu && i < COUNTOF(gpu_links); i++) {
        if (strcmp(gpu_links[i].gpu, gpu->name) != 0) continue;
        simplify(gpu_links[i].link, key, sizeof key);
        return find_row(key);
    }
    return NULL;
}

static const char *const collective_names[] = {
#define X(id, name) name,
    LLM_COLLECTIVES(X)
#undef X
};

const char *llm_collective_name(enum llm_collective_kind kind) {
    return kind < LLM_COLLECTIVE_KINDS ? collective_names[kind] : "collective";
}

enum llm_collective_kind llm_collective_of(const char *name) {
    char key[32], row[32];
    if (!name) return LLM_COLLECTIVE_KINDS;
    simplify(name, key, sizeof key);
    for (size_t i = 0; i < COUNTOF(collective_names); i++) {
        simplify(collective_names[i], row, sizeof row);
        if (strcmp(key, row) == 0) return (enum llm_collective_kind)i;
    }
    return LLM_COLLECTIVE_KINDS;
}

double llm_collective_factor(enum llm_collective_kind kind, uint64_t ranks) {
    double n = (double)ranks;
    if (ranks < 2) return NAN;
    switch (kind) {
    case LLM_ALL_REDUCE: return 2 * (n - 1) / n;
    case LLM_ALL_GATHER:
    case LLM_REDUCE_SCATTER:
    case LLM_ALL_TO_ALL: return (n - 1) / n;
    case LLM_BROADCAST:
    case LLM_REDUCE:
    case LLM_SEND:
    case LLM_RECV: return 1;
    case LLM_COLLECTIVE_KINDS: break;
    }
    return NAN;
}

void llm_link_json(const struct llm_link *l, struct jsonw *j) {
    if (!l) {
        jsonw_null(j);
        return;
    }
    jsonw_object(j);
    columns_json(&llm_link_columns, &(struct column_row){ .item = l }, j);
    jsonw_end(j);
}
