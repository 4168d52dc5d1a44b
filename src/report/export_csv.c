/* One CSV file per record kind, with the results of the analysis for each record. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/scratch.h"
#include "base/table.h"
#include "base/util.h"
#include "report/columns.h"
#include "report/export.h"
#include "report/view.h"

/* A table keeps its cells as text, so it is written and cleared after this many rows. */
#define FLUSH_ROWS 4096

struct csv {
    struct export_job *x;
    struct file_atomic f;
    struct table t;
    bool has_heads;  /* the heading line has been written */
    uint32_t metric; /* index of the counter being written */
};

static void csv_flush(struct csv *c, bool all) {
    if (!all && table_rows(&c->t) < FLUSH_ROWS) return;
    struct strbuf s = STRBUF_INIT;
    table_csv(&c->t, &s);
    size_t skip = 0;
    while (c->has_heads && skip < s.len && s.buf[skip++] != '\n') {}
    fwrite(s.buf + skip, 1, s.len - skip, c->f.out);
    c->has_heads = true;
    strbuf_free(&s);
    for (size_t i = 0; i < c->t.cells.n; i++) free(c->t.cells.v[i]);
    c->t.cells.n = 0;
}

/* ---- values */

static struct column_value name_of_range(const struct timeline *tl, uint32_t range) {
    return column_str(range == TIMELINE_NONE ? "" : timeline_text(tl, tl->ranges.name[range]));
}
/* Returns the correlation id as in the other exports: index of the launch + 1; 0: no launch. */
static struct column_value correlation_of(uint32_t launch) {
    return column_u64(launch == TIMELINE_NONE ? 0 : (uint64_t)launch + 1);
}
static struct column_value pid_of(const struct csv *c, uint32_t thread) {
    return column_u64(export_pid(c->x, c->x->tl->threads[thread].process));
}
static struct column_value tid_of(const struct timeline *tl, uint32_t thread) {
    return column_u64(tl->threads[thread].tid);
}
static struct column_value text_of(const struct timeline *tl, uint32_t text) {
    return column_str(timeline_text(tl, text));
}
static struct column_value known_f64(uint32_t v, double scale) {
    return column_f64(v == TRACE_UNKNOWN_U32 ? NAN : v * scale);
}
static const struct analysis_kernel *kernel_of(const struct csv *c, size_t i) {
    return &c->x->a->kernels[c->x->a->shape_kernel[c->x->tl->kernels.shape[i]]];
}
static const struct timeline_shape *shape_of(const struct timeline *tl, size_t i) {
    return &tl->shapes[tl->kernels.shape[i]];
}
static const char *stage_of(const struct csv *c, size_t i) {
    const struct analysis *a = c->x->a;
    uint32_t o = a->kernel_occurrence ? a->kernel_occurrence[i] : ANALYSIS_NONE;
    return o == ANALYSIS_NONE ? NULL : view_stage_name(a, a->occurrences[o].stage);
}

/* ---- columns of each file: X(kind, heading, value). `i` is the record, `c` the struct csv. */

#define KERNEL_COLUMNS(X)                                                               \
    X(kernel, start_ns, column_u64(tl->kernels.start_ns[i]))                            \
    X(kernel, end_ns, column_u64(tl->kernels.end_ns[i]))                                \
    X(kernel, duration_ns, column_u64(tl->kernels.end_ns[i] - tl->kernels.start_ns[i])) \
    X(kernel, device, column_u64(shape_of(tl, i)->device))                              \
    X(kernel, context, column_u64(tl->lanes[tl->kernels.lane[i]].context))              \
    X(kernel, stream, column_u64(tl->lanes[tl->kernels.lane[i]].stream))                \
    X(kernel, correlation, correlation_of(tl->kernels.launch[i]))                       \
    X(kernel, name, column_str(kernel_of(c, i)->name))                                  \
    X(kernel, short_name, column_str(kernel_of(c, i)->short_name))                      \
    X(kernel, category, column_str(kernel_category_name(kernel_of(c, i)->category)))    \
    X(kernel, library, column_str(kernel_library_name(kernel_of(c, i)->library)))       \
    X(kernel, stage, column_str(stage_of(c, i)))                                        \
    X(kernel, range, name_of_range(tl, tl->kernels.range[i]))                           \
    X(kernel, grid_x, column_u64(shape_of(tl, i)->grid[0]))                             \
    X(kernel, grid_y, column_u64(shape_of(tl, i)->grid[1]))                             \
    X(kernel, grid_z, column_u64(shape_of(tl, i)->grid[2]))                             \
    X(kernel, block_x, column_u64(shape_of(tl, i)->block[0]))                           \
    X(kernel, block_y, column_u64(shape_of(tl, i)->block[1]))                           \
    X(kernel, block_z, column_u64(shape_of(tl, i)->block[2]))                           \
    X(kernel, registers, column_u64(shape_of(tl, i)->registers))                        \
    X(kernel, static_smem_bytes, column_u64(shape_of(tl, i)->static_smem_bytes))        \
    X(kernel, dynamic_smem_bytes, column_u64(shape_of(tl, i)->dynamic_smem_bytes))      \
    X(kernel, graph, column_u64(tl->kernels.graph ? tl->kernels.graph[i] : 0))
#define COPY_COLUMNS(X)                                                             \
    X(copy, start_ns, column_u64(tl->copies.start_ns[i]))                           \
    X(copy, end_ns, column_u64(tl->copies.end_ns[i]))                               \
    X(copy, duration_ns, column_u64(tl->copies.end_ns[i] - tl->copies.start_ns[i])) \
    X(copy, device, column_u64(tl->lanes[tl->copies.lane[i]].device))               \
    X(copy, stream, column_u64(tl->lanes[tl->copies.lane[i]].stream))               \
    X(copy, correlation, correlation_of(tl->copies.launch[i]))                      \
    X(copy, kind, column_str(export_copy_name(tl->copies.kind[i])))                 \
    X(copy, bytes, column_u64(tl->copies.bytes[i]))                                 \
    X(copy, range, name_of_range(tl, tl->copies.range[i]))
#define LAUNCH_COLUMNS(X)                                                                 \
    X(launch, start_ns, column_u64(tl->launches.start_ns[i]))                             \
    X(launch, end_ns, column_u64(tl->launches.end_ns[i]))                                 \
    X(launch, duration_ns, column_u64(tl->launches.end_ns[i] - tl->launches.start_ns[i])) \
    X(launch, pid, pid_of(c, tl->launches.thread[i]))                                     \
    X(launch, tid, tid_of(tl, tl->launches.thread[i]))                                    \
    X(launch, correlation, correlation_of((uint32_t)i))                                   \
    X(launch, api, text_of(tl, tl->launches.api[i]))                                      \
    X(launch, kernels, column_u64(tl->launches.kernels[i]))                               \
    X(launch, range, name_of_range(tl, tl->launches.range[i]))
#define RANGE_COLUMNS(X)                                                              \
    X(range, start_ns, column_u64(tl->ranges.start_ns[i]))                            \
    X(range, end_ns, column_u64(tl->ranges.end_ns[i]))                                \
    X(range, duration_ns, column_u64(tl->ranges.end_ns[i] - tl->ranges.start_ns[i]))  \
    X(range, pid, pid_of(c, tl->ranges.thread[i]))                                    \
    X(range, tid, tid_of(tl, tl->ranges.thread[i]))                                   \
    X(range, category, column_str(trace_range_category_name(tl->ranges.category[i]))) \
    X(range, name, text_of(tl, tl->ranges.name[i]))                                   \
    X(range, detail, text_of(tl, tl->ranges.detail[i]))                               \
    X(range, parent, name_of_range(tl, tl->ranges.parent[i]))
#define SYNC_COLUMNS(X)                                                           \
    X(sync, start_ns, column_u64(tl->syncs.start_ns[i]))                          \
    X(sync, end_ns, column_u64(tl->syncs.end_ns[i]))                              \
    X(sync, duration_ns, column_u64(tl->syncs.end_ns[i] - tl->syncs.start_ns[i])) \
    X(sync, pid, pid_of(c, tl->syncs.thread[i]))                                  \
    X(sync, tid, tid_of(tl, tl->syncs.thread[i]))                                 \
    X(sync, kind, column_str(trace_sync_kind_name(tl->syncs.kind[i])))            \
    X(sync, range, name_of_range(tl, tl->syncs.range[i]))
#define POWER_COLUMNS(X)                                               \
    X(power, time_ns, column_u64(tl->powers.time_ns[i]))               \
    X(power, device, column_u64(tl->powers.device[i]))                 \
    X(power, watts, known_f64(tl->powers.power_mw[i], 1e-3))           \
    X(power, sm_mhz, known_f64(tl->powers.sm_mhz[i], 1))               \
    X(power, memory_mhz, known_f64(tl->powers.memory_mhz[i], 1))       \
    X(power, temperature_c, known_f64(tl->powers.temperature_c[i], 1)) \
    X(power, throttle_reasons, column_u64(tl->powers.throttle_reasons[i]))
#define COUNTER_COLUMNS(X)                                                                \
    X(counter, start_ns, column_u64(tl->samples.start_ns[i]))                             \
    X(counter, end_ns, column_u64(tl->samples.end_ns[i]))                                 \
    X(counter, duration_ns, column_u64(tl->samples.end_ns[i] - tl->samples.start_ns[i]))  \
    X(counter, device, column_u64(tl->samples.device[i]))                                 \
    X(counter, metric, text_of(tl, tl->metric_sets[tl->samples.set[i]].names[c->metric])) \
    X(counter, value, column_f64((double)tl->sample_values[tl->samples.first[i] + c->metric]))
#define TOKEN_COLUMNS(X)                                                  \
    X(token, time_ns, column_u64(tl->tokens.time_ns[i]))                  \
    X(token, pid, pid_of(c, tl->tokens.thread[i]))                        \
    X(token, tid, tid_of(tl, tl->tokens.thread[i]))                       \
    X(token, request, column_u64(tl->tokens.request[i]))                  \
    X(token, kind, column_str(trace_token_kind_name(tl->tokens.kind[i]))) \
    X(token, count, column_u64(tl->tokens.count[i]))
#define GEMM_COLUMNS(X)                                       \
    X(gemm, start_ns, column_u64(tl->gemms.v[i].start_ns))    \
    X(gemm, pid, pid_of(c, tl->gemms.v[i].thread))            \
    X(gemm, tid, tid_of(tl, tl->gemms.v[i].thread))           \
    X(gemm, correlation, correlation_of(tl->gemms.launch[i])) \
    X(gemm, m, column_u64(tl->gemms.v[i].m))                  \
    X(gemm, n, column_u64(tl->gemms.v[i].n))                  \
    X(gemm, k, column_u64(tl->gemms.v[i].k))                  \
    X(gemm, batch, column_u64(tl->gemms.v[i].batch))          \
    X(gemm, types, text_of(tl, tl->gemms.v[i].types))         \
    X(gemm, layout, text_of(tl, tl->gemms.v[i].layout))       \
    X(gemm, algorithm, text_of(tl, tl->gemms.v[i].algorithm))

#define GETTER(kind, heading, value)                                          \
    static struct column_value kind##_##heading(const struct column_row *r) { \
        const struct csv *c = r->item;                                        \
        const struct timeline *tl = c->x->tl;                                 \
        size_t i = r->index;                                                  \
        (void)tl;                                                             \
        return value;                                                         \
    }
#define COLUMN(kind, heading, value) { #heading, .source = GET(kind##_##heading), .data = CSV },
KERNEL_COLUMNS(GETTER)
COPY_COLUMNS(GETTER)
LAUNCH_COLUMNS(GETTER)
RANGE_COLUMNS(GETTER)
SYNC_COLUMNS(GETTER)
POWER_COLUMNS(GETTER)
COUNTER_COLUMNS(GETTER)
TOKEN_COLUMNS(GETTER)
GEMM_COLUMNS(GETTER)
static const struct column kernel_columns[] = { KERNEL_COLUMNS(COLUMN) };
static const struct column copy_columns[] = { COPY_COLUMNS(COLUMN) };
static const struct column launch_columns[] = { LAUNCH_COLUMNS(COLUMN) };
static const struct column range_columns[] = { RANGE_COLUMNS(COLUMN) };
static const struct column sync_columns[] = { SYNC_COLUMNS(COLUMN) };
static const struct column power_columns[] = { POWER_COLUMNS(COLUMN) };
static const struct column counter_columns[] = { COUNTER_COLUMNS(COLUMN) };
static const struct column token_columns[] = { TOKEN_COLUMNS(COLUMN) };
static const struct column gemm_columns[] = { GEMM_COLUMNS(COLUMN) };

/* ---- the files */

#define WITHIN(name, from, to)                                       \
    static bool name(const struct csv *c, size_t i) {                \
        return export_has(c->x, c->x->tl->from[i], c->x->tl->to[i]); \
    }
WITHIN(has_kernel, kernels.start_ns, kernels.end_ns)
WITHIN(has_copy, copies.start_ns, copies.end_ns)
WITHIN(has_range, ranges.start_ns, ranges.end_ns)
WITHIN(has_sync, syncs.start_ns, syncs.end_ns)
WITHIN(has_power, powers.time_ns, powers.time_ns)
WITHIN(has_sample, samples.start_ns, samples.end_ns)
WITHIN(has_token, tokens.time_ns, tokens.time_ns)
static bool has_launch(const struct csv *c, size_t i) { return export_has_launch(c->x, i); }
static bool has_gemm(const struct csv *c, size_t i) {
    return export_has(c->x, c->x->tl->gemms.v[i].start_ns, c->x->tl->gemms.v[i].start_ns);
}
/* A counter sample has one row per metric. */
static uint32_t sample_rows(const struct csv *c, size_t i) {
    return c->x->tl->metric_sets[c->x->tl->samples.set[i]].n;
}

#define COLUMNS(list) \
    { .columns = list, .n = COUNTOF(list) }
static const struct csv_file {
    const char *name;
    struct column_group columns;
    size_t count; /* offset in the timeline of the number of records */
    bool (*has)(const struct csv *c, size_t i);
    uint32_t (*rows)(const struct csv *c, size_t i); /* NULL: one per record */
} files[] = {
    { "kernels.csv", COLUMNS(kernel_columns), offsetof(struct timeline, kernels.n), has_kernel },
    { "copies.csv", COLUMNS(copy_columns), offsetof(struct timeline, copies.n), has_copy },
    { "launches.csv", COLUMNS(launch_columns), offsetof(struct timeline, launches.n), has_launch },
    { "ranges.csv", COLUMNS(range_columns), offsetof(struct timeline, ranges.n), has_range },
    { "syncs.csv", COLUMNS(sync_columns), offsetof(struct timeline, syncs.n), has_sync },
    { "power.csv", COLUMNS(power_columns), offsetof(struct timeline, powers.n), has_power },
    { "counters.csv", COLUMNS(counter_columns), offsetof(struct timeline, samples.n), has_sample,
      sample_rows },
    { "tokens.csv", COLUMNS(token_columns), offsetof(struct timeline, tokens.n), has_token },
    { "gemms.csv", COLUMNS(gemm_columns), offsetof(struct timeline, gemms.n), has_gemm },
};

static void write_rows(struct csv *c, const struct csv_file *file) {
    struct column_set set;
    size_t n = *(const size_t *)(const void *)((const char *)c->x->tl + file->count);
    column_set_init(&set, &file->columns, 1, COLUMN_DOC_CSV, NULL);
    column_set_heads(&set, &c->t);
    for (size_t i = 0; i < n; i++) {
        if (!file->has(c, i)) continue;
        uint32_t rows = file->rows ? file->rows(c, i) : 1;
        for (c->metric = 0; c->metric < rows; c->metric++) {
            column_set_cells(&set, &(struct column_row){ .item = c, .index = i }, &c->t);
            c->x->written++;
            csv_flush(c, false);
        }
    }
    csv_flush(c, true);
    table_free(&c->t);
}

int export_csv(struct export_job *x, const char *dir, struct err *err) {
    bool made = !file_exists(dir);
    int rc = file_mkdirs(dir, err), scratch = rc == 0 && made ? scratch_add(dir) : -1;
    for (size_t i = 0; i < COUNTOF(files) && rc == 0; i++) {
        struct csv c = { .x = x };
        char *path = file_join(dir, files[i].name);
        rc = file_atomic_open(&c.f, path, err);
        free(path);
        if (rc < 0) break;
        write_rows(&c, &files[i]);
        rc = file_atomic_commit(&c.f, err);
    }
    scratch_forget(scratch);
    if (rc < 0 && made) rmdir(dir); /* rmdir fails, as intended, if a file was written */
    return rc;
}
