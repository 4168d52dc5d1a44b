/* Internals of the timeline builder, shared by the files of this folder: growable columns, and the steps that
 * turn them into a timeline (devices.c, link.c, nest.c, collectives.c, finish.c). */
#ifndef TIMELINE_BUILD_H
#define TIMELINE_BUILD_H

#include "base/intern.h"
#include "timeline/timeline.h"

/* KEPT: always in the timeline. OPTIONAL: dropped if all values are unknown. BUILD_ONLY: dropped at the
 * end. */
enum column_use { COLUMN_KEPT, COLUMN_OPTIONAL, COLUMN_BUILD_ONLY };
struct column {
    const char *name;
    void **data;
    size_t elem_bytes;
    enum column_use use;
    bool is_double; /* unknown is NaN, not 0 */
};
#define BUILD_MAX_COLUMNS 16
struct columns {
    size_t *n, *cap;
    struct column list[BUILD_MAX_COLUMNS];
    size_t count;
};

/* Declares struct kernel_columns { size_t n, cap; uint64_t *start_ns; ... }; and so on. */
#define BUILD_DECLARE(type, name) type *name;
#define X(KIND, record, columns)                                               \
    struct record##_columns {                                                  \
        size_t n, cap;                                                         \
        TIMELINE_##KIND##_COLUMNS(BUILD_DECLARE, BUILD_DECLARE, BUILD_DECLARE) \
    };
TIMELINE_KINDS(X)
#undef X
#undef BUILD_DECLARE

/* Index of the first record of the open process. */
struct build_segment {
    size_t first[TRACE_KIND_END];
    size_t meta;
};

#define SHAPE_CACHE 512
struct timeline_builder {
    struct timeline tl; /* filled by timeline_builder_finish; its `owner` points to this struct */
    struct intern *texts;
    /* Each maps a key to an index in the vector of the same table below. */
    struct intern *shape_ids, *lane_ids, *thread_ids, *device_ids, *set_ids;
#define X(KIND, record, columns) struct record##_columns columns;
    TIMELINE_KINDS(X)
#undef X
    struct {
        float *v;
        size_t n, cap;
    } sample_values;
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
    } warnings;
    struct build_segment segment;
    /* [processes.n], set by finish: the lowest index of all files of the same process */
    uint32_t *process_group;
    struct {
        struct timeline_shape shape;
        uint32_t id; /* TIMELINE_NONE: empty */
    } shape_cache[SHAPE_CACHE];
    uint32_t last_tid, last_thread;
    uint64_t bad_records;
};

/* columns.c */
/* Returns the columns of a record kind; count is 0 if the timeline has no columns for this kind. */
struct columns build_columns(struct timeline_builder *b, enum trace_kind kind);
void columns_reserve(struct columns *c, size_t more);
void columns_free(struct columns *c);
/* Removes columns that are only used while building, and optional columns in which all values are unknown. */
void columns_drop_unused(struct columns *c);
void columns_permute(struct columns *c, const uint32_t *order); /* NULL: already in order */
/* Replaces each value by now[value] in every uint32_t column of that name, of every kind. TIMELINE_NONE
 * stays. */
void build_renumber(struct timeline_builder *b, const char *name, const uint32_t *now);
/* Returns the order that sorts keys ascending; equal keys keep their order. NULL: the keys are already
 * sorted. */
uint32_t *columns_order(const uint64_t *keys, size_t n);
/* Returns the order by the more significant key `major`, whose values are 0 to nvalues - 1. Records with
 * equal values keep the order `order` (NULL: their index). Takes ownership of `order`. NULL: already in
 * order. */
uint32_t *columns_order_by(uint32_t *order, const uint32_t *major, size_t n, size_t nvalues);

/* builder.c */
/* Reads the meta records of the open process and links its records. */
void build_end_process(struct timeline_builder *b);
const char *build_file_name(const struct timeline_builder *b); /* of the open process, without its folder */
uint32_t build_device(struct timeline_builder *b, uint32_t process, uint32_t index);
uint32_t build_thread(struct timeline_builder *b, uint32_t tid);
/* devices.c: reads the meta records of the open process; merges equal devices, and files of the same
 * process. */
void build_process_meta(struct timeline_builder *b);
void build_merge_devices(struct timeline_builder *b);
void build_label_devices(struct timeline_builder *b); /* after build_slice_devices() */
void build_merge_processes(struct timeline_builder *b);
/* strays.c: drops records of the open process whose times are damaged. */
void build_drop_strays(struct timeline_builder *b);
/* calls.c: the launches of the open process by correlation id. */
struct build_calls {
    const uint64_t *correlation; /* [n]: ids of the launches */
    uint32_t *order;             /* launches sorted by id; NULL: already in order */
    size_t first, n, hint;       /* first: index of the first launch */
};
void build_calls_open(struct build_calls *c, const struct timeline_builder *b);
void build_calls_close(struct build_calls *c);
uint64_t build_calls_id(const struct build_calls *c, size_t i); /* i: position, sorted by id */
uint32_t build_calls_launch(const struct build_calls *c, size_t i);
/* Returns the first position with the id. *end: after the last one, which is limited in number; equal to the
 * result if there is none. */
size_t build_calls_find(struct build_calls *c, uint64_t id, size_t *end);
/* split.c: the processes of the open file, if it has several. */
struct build_owners {
    uint32_t *pids, n;     /* [n]: an owner is an index of it; TIMELINE_NONE: calls of unknown processes */
    uint32_t *of_thread;   /* [threads.n]: owner; TIMELINE_NONE: unknown */
    uint32_t *of_lane;     /* [lanes.n]: owner; TIMELINE_NONE: unknown */
    bool *lane_known;      /* [lanes.n]: the file names the process */
    bool any_known;        /* of a stream */
    uint32_t unsure_lanes; /* can be of another process */
};
/* Returns false, and sets all to 0, if the file has one process. */
bool build_owners_open(struct build_owners *o, struct timeline_builder *b);
void build_owners_close(struct build_owners *o);
/* Adds the processes and gives them their threads, work on devices and collectives. Called after linking. */
void build_owners_split(struct timeline_builder *b, const struct build_owners *o);
/* elect.c: sets of_lane of streams whose process the file does not name. */
void build_owners_elect(struct build_owners *o, const struct timeline_builder *b, struct build_calls *calls);
/* link_split.c: links kernels and copies to launches. Returns the number of correlation ids with work on a
 * stream that either of several processes can have started. */
size_t build_owners_link(struct timeline_builder *b, const struct build_owners *o, struct build_calls *calls);
/* link.c: links kernels, copies and GEMMs of the open process to its launches. */
void build_link_process(struct timeline_builder *b);
/* finish.c: build_slice_devices() sets each device's part of the sorted kernels and copies. build_publish()
 * makes the columns and tables visible in struct timeline. */
void build_slice_devices(struct timeline_builder *b);
void build_publish(struct timeline_builder *b);
/* nest.c: finds the parents of ranges, and the ranges of launches, kernels, copies, collectives and syncs.
 * Called after sorting. */
void build_nest(struct timeline_builder *b);
/* collectives.c: completes the table of collectives. Called after nesting. */
void build_collectives(struct timeline_builder *b);

#endif
