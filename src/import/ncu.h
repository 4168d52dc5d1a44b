/* Reads Nsight Compute CSV: `--page details`, `--page raw`, and files of single sections. There is one entry
 * per profiled launch; rows and files of the same launch (equal process, id and name) are merged.
 *     struct ncu n;
 *     ncu_init(&n);
 *     rc = ncu_read(&n, path, &err);              -- call once per file
 *     ncu_classes(&n, &classes);                  -- means over launches of equal name, grid and block
 *     ncu_free(&n);
 * Values are NaN if not measured. Percentages are 0 to 100. */
#ifndef IMPORT_NCU_H
#define IMPORT_NCU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/intern.h"
#include "base/strbuf.h"
#include "import/format.h"
#include "import/ncu_stall.h"

extern const struct import_format ncu_format; /* sums: durations by kernel name */

/* X(id, key in JSON) */
#define NCU_METRICS(X)                        \
    X(DURATION, "duration_ns")                \
    X(CYCLES, "elapsed_cycles")               \
    X(SM, "sm_pct")                           \
    X(MEMORY, "memory_pct")                   \
    X(DRAM, "dram_pct")                       \
    X(DRAM_RATE, "dram_bytes_per_s")          \
    X(DRAM_BYTES, "dram_bytes")               \
    X(DRAM_READ, "dram_read_bytes")           \
    X(DRAM_WRITE, "dram_write_bytes")         \
    X(L1_HIT, "l1_hit_pct")                   \
    X(L2_HIT, "l2_hit_pct")                   \
    X(OCCUPANCY, "occupancy_pct")             \
    X(OCCUPANCY_LIMIT, "occupancy_limit_pct") \
    X(TENSOR, "tensor_pct")                   \
    X(IPC, "ipc")                             \
    X(REGISTERS, "registers")                 \
    X(WAVES, "waves_per_sm")                  \
    X(SM_CLOCK, "sm_clock_hz")                \
    X(DRAM_CLOCK, "dram_clock_hz")            \
    X(WARP_CYCLES, "warp_cycles_per_issue")
enum ncu_metric {
#define X(id, key) NCU_##id,
    NCU_METRICS(X)
#undef X
        NCU_METRIC_END
};
const char *ncu_metric_key(enum ncu_metric m);

struct ncu_launch {
    uint32_t name, process, id, grid, block, device, cc; /* text ids */
    uint64_t launches;                                   /* 1; classes: number of averaged launches */
    double value[NCU_METRIC_END];
    double stall[NCU_STALL_END]; /* from stall_source; NaN: not measured */
    enum ncu_stall_source stall_source;
};
struct ncu_launches {
    struct ncu_launch *v;
    size_t n, cap;
};
struct ncu {
    struct intern *texts;
    struct ncu_launches launches;
    uint64_t rows, rules, bad_rows, not_measured; /* not_measured: values "n/a" */
};

void ncu_init(struct ncu *n);
void ncu_free(struct ncu *n);
int ncu_read(struct ncu *n, const char *path, struct err *err);
int ncu_read_text(struct ncu *n, char *text, size_t len, const char *name, struct err *err);

/* Merges launches with equal name, grid and block. Percentages, rates and stalls are weighted by the duration
 * of the launches. Sorted by total duration. The caller frees classes->v. */
void ncu_classes(const struct ncu *n, struct ncu_launches *classes);
/* "compute", "memory", "balanced" or "latency"; NULL: not measured. */
const char *ncu_bound(const struct ncu_launch *k);

/* Largest stall reason and its share in percent; NULL: not measured. */
const char *ncu_top_stall(const struct ncu_launch *k, double *pct);

void ncu_json(const struct ncu *n, const struct ncu_launches *classes, struct strbuf *out);
/* line_width: columns of the terminal; 0: no limit */
void ncu_text(const struct ncu *n, const struct ncu_launches *classes, size_t top, size_t line_width,
              struct strbuf *out);

int ncu_write_run(const struct ncu *n, const char *run_dir, struct err *err); /* run_dir/ncu.json */
/* Converts CSV files of ncu to RUN/ncu.json. Replaces an earlier ncu.json. */
int ncu_into_run(const char *const *csv_paths, size_t n, const char *run_dir, struct err *err);

#endif
