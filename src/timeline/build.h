/* Inside of the timeline builder, shared by the files of this folder: columns that grow, and the steps
 * that turn them into a timeline (devices.c, link.c, nest.c, finish.c). */
#ifndef TIMELINE_BUILD_H
#define TIMELINE_BUILD_H

#include "base/intern.h"
#include "timeline/timeline.h"

/* One column of a record kind; all columns of a kind grow and are reordered together. */
struct column {
    void **data;
    size_t elem_bytes;
};
#define COLUMN(field) \
    { (void **)&(field), sizeof *(field) }
#define BUILD_MAX_COLUMNS 16

struct kernel_columns {
    size_t n, cap;
    uint64_t *start_ns, *end_ns, *correlation, *graph_node;
    uint32_t *shape, *lane, *launch, *range, *graph;
    bool any_graph, any_node;
};
struct copy_columns {
    size_t n, cap;
    uint64_t *start_ns, *end_ns, *correlation, *bytes;
    uint32_t *lane, *launch, *range;
    uint8_t *kind;
};
struct launch_columns {
    size_t n, cap;
    uint64_t *start_ns, *end_ns, *correlation;
    uint32_t *thread, *range, *api, *kernels;
    uint8_t *api_kind;
};
struct range_columns {
    size_t n, cap;
    uint64_t *start_ns, *end_ns;
    uint32_t *thread, *parent, *name, *domain, *detail;
    uint16_t *depth; /* for sorting only */
    uint8_t *category, *flags;
    double *flops, *bytes, *payload;
    bool any_flops, any_bytes, any_payload;
};
struct sync_columns {
    size_t n, cap;
    uint64_t *start_ns, *end_ns;
    uint32_t *thread, *range, *context, *stream;
    uint8_t *kind;
};
struct sample_columns {
    size_t n, cap;
    uint64_t *start_ns, *end_ns, *first;
    uint32_t *device, *set;
    struct {
        float *v;
        size_t n, cap;
    } values;
};
struct power_columns {
    size_t n, cap;
    uint64_t *time_ns, *energy_mj, *throttle_reasons;
    uint32_t *device, *sm_mhz, *memory_mhz, *temperature_c, *power_mw;
};
struct gemm_columns {
    size_t n, cap;
    struct trace_gemm *v;
    uint32_t *launch;
};
struct token_columns {
    size_t n, cap;
    uint64_t *time_ns, *request;
    uint32_t *count, *thread;
    uint8_t *kind;
};

/* Where the records of the open process begin. */
struct build_segment {
    size_t kernel, copy, launch, gemm, meta;
};

#define SHAPE_CACHE 512
struct timeline_builder {
    struct timeline tl; /* filled by finish; its `owner` is this struct */
    struct intern *texts;
    /* Keys are the bytes of the row: equal rows get one number, which is their index in the vector. */
    struct intern *shape_ids, *lane_ids, *thread_ids, *device_ids, *set_ids;
    struct kernel_columns kernels;
    struct copy_columns copies;
    struct launch_columns launches;
    struct range_columns ranges;
    struct sync_columns syncs;
    struct sample_columns samples;
    struct power_columns powers;
    struct gemm_columns gemms;
    struct token_columns tokens;
    struct {
        struct timeline_shape *v;
        size_t n, cap;
    } shapes;
    struct {
        struct timeline_lane *v;
        size_t n, cap;
    } lanes;
    struct {
        struct timeline_thread *v;
        size_t n, cap;
    } threads;
    struct {
        struct timeline_device *v;
        size_t n, cap;
    } devices;
    struct {
        uint32_t *v; /* process that named the device first */
        size_t n, cap;
    } device_process;
    struct {
        struct timeline_process *v;
        size_t n, cap;
    } processes;
    struct {
        struct timeline_metric_set *v;
        size_t n, cap;
    } sets;
    struct {
        struct timeline_meta *v;
        size_t n, cap;
    } meta;
    struct {
        struct timeline_window *v;
        size_t n, cap;
    } windows;
    struct {
        uint32_t *v;
        size_t n, cap;
    } problems;
    struct build_segment segment;
    /* [processes.n], by finish: files of one process share the lowest of their numbers */
    uint32_t *process_group;
    struct {
        struct timeline_shape shape;
        uint32_t id; /* TIMELINE_NONE: empty */
    } shape_cache[SHAPE_CACHE];
    uint32_t last_tid, last_thread;
    uint64_t bad_records;
};

/* columns.c */
void columns_fit(const struct column *columns, size_t ncolumns, size_t *cap, size_t need);
void columns_free(const struct column *columns, size_t ncolumns);
void columns_permute(const struct column *columns, size_t ncolumns, const uint32_t *order, size_t n);
/* The order that sorts keys ascending, equal keys in their old order; NULL: they are sorted already. */
uint32_t *columns_order(const uint64_t *keys, size_t n);
/* Sorts the order of columns_order by a second, more important key with few values (0 .. nvalues). */
uint32_t *columns_order_by(uint32_t *order, const uint32_t *major, size_t n, size_t nvalues);
size_t kernel_columns_list(struct kernel_columns *c, struct column *out);
size_t copy_columns_list(struct copy_columns *c, struct column *out);
size_t launch_columns_list(struct launch_columns *c, struct column *out);
size_t range_columns_list(struct range_columns *c, struct column *out);
size_t sync_columns_list(struct sync_columns *c, struct column *out);
size_t sample_columns_list(struct sample_columns *c, struct column *out);
size_t power_columns_list(struct power_columns *c, struct column *out);
size_t gemm_columns_list(struct gemm_columns *c, struct column *out);
size_t token_columns_list(struct token_columns *c, struct column *out);

/* builder.c */
void build_end_process(struct timeline_builder *b); /* meta read, records linked */
uint32_t build_device(struct timeline_builder *b, uint32_t process, uint32_t index);
uint32_t build_thread(struct timeline_builder *b, uint32_t tid);
/* devices.c: reads the meta records of the open process; merges devices and files of one process. */
void build_process_meta(struct timeline_builder *b);
void build_merge_devices(struct timeline_builder *b);
void build_merge_processes(struct timeline_builder *b);
/* link.c: kernels, copies and GEMMs of the open process to its launches. */
void build_link_process(struct timeline_builder *b);
/* finish.c: which rows of the sorted kernels and copies belong to each device; the timeline's own struct. */
void build_slice_devices(struct timeline_builder *b);
void build_lay_out(struct timeline_builder *b);
/* nest.c: parents of ranges; ranges of launches, kernels, copies and syncs. After sorting. */
void build_nest(struct timeline_builder *b);

#endif
