/* Perfetto's protobuf format: a trace is a list of TracePackets.
 *   processes and threads  -> tracks with slices for ranges and launches
 *   devices and streams    -> tracks with slices for kernels and copies
 *   power, counters        -> counter tracks
 *   launch and kernel      -> one flow id on both slices
 *   columns of a record    -> debug annotations of its slice
 * The slices of a track must nest, and those of a stream must not overlap. Slices that do not fit are written
 * to more tracks of the same name. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/intern.h"
#include "base/util.h"
#include "base/vec.h"
#include "report/export_records.h"
#include "report/protobuf.h"

/* Field numbers of the messages in perfetto/trace: trace_packet, track_event, track_descriptor, interned_data
 * and debug_annotation. */
enum {
    TRACE_PACKET = 1,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED = 12,
    PACKET_FLAGS = 13,
    PACKET_TRACK = 60,
    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_NAME_IID = 10,
    EVENT_TRACK = 11,
    EVENT_CATEGORY = 22,
    EVENT_DOUBLE_COUNTER = 44,
    EVENT_FLOW = 47,
    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PROCESS = 3,
    TRACK_THREAD = 4,
    TRACK_PARENT = 5,
    TRACK_COUNTER = 8,
    PROCESS_PID = 1,
    PROCESS_NAME = 6,
    THREAD_PID = 1,
    THREAD_TID = 2,
    THREAD_NAME = 5,
    COUNTER_UNIT_NAME = 6,
    INTERNED_EVENT_NAMES = 2,
    INTERNED_ANNOTATION_NAMES = 3,
    ANNOTATION_NAME_IID = 1,
    ANNOTATION_UINT = 3,
    ANNOTATION_DOUBLE = 5,
    ANNOTATION_STRING = 6,
    ANNOTATION_ARRAY = 12,
    NAME_IID = 1,
    NAME_TEXT = 2
};
enum { SLICE_BEGIN = 1, SLICE_END = 2, COUNTER = 4 };
enum { STATE_CLEARED = 1, STATE_NEEDED = 2 };
/* uuid of a track: kind | number among the tracks of the same name << 32 | index. */
#define UUID_PROCESS (1ull << 48)
#define UUID_THREAD (2ull << 48)
#define UUID_DEVICE (3ull << 48)
#define UUID_LANE (4ull << 48)
#define UUID_COUNTER (5ull << 48)
#define UUID_STAGES (6ull << 48)
/* Maximum number of tracks with one name. It limits the time for a trace whose slices all overlap. */
#define MAX_TRACKS 1024

struct slice {
    uint64_t start_ns, end_ns, flow; /* flow 0: none */
    const char *name, *category;
    const struct export_table *table; /* of the record; NULL: no arguments */
    size_t record;
};

struct perfetto {
    struct export_job *x;
    FILE *out;
    struct intern *names, *annotations; /* iid: id + 1 */
    struct strbuf packet, event, part;
    struct {
        struct slice *v;
        size_t n, cap;
    } slices;
    uint64_t counters;
};

static void packet_end(struct perfetto *p) {
    protobuf_u64(&p->packet, PACKET_SEQUENCE, 1);
    struct strbuf framed = STRBUF_INIT;
    protobuf_bytes(&framed, TRACE_PACKET, p->packet.buf, p->packet.len);
    fwrite(framed.buf, 1, framed.len, p->out);
    strbuf_free(&framed);
    strbuf_reset(&p->packet);
}

static void start_state(struct perfetto *p) {
    protobuf_u64(&p->packet, PACKET_FLAGS, STATE_CLEARED);
    packet_end(p);
}

/* A new name is first written in its own packet. */
static uint64_t name_iid(struct perfetto *p, struct intern *names, uint32_t field, const char *name) {
    uint32_t before = intern_count(names), id = intern_str(names, name);
    if (id < before) return (uint64_t)id + 1;
    strbuf_reset(&p->part);
    protobuf_u64(&p->part, NAME_IID, (uint64_t)id + 1);
    protobuf_text(&p->part, NAME_TEXT, name);
    struct strbuf data = STRBUF_INIT;
    protobuf_bytes(&data, field, p->part.buf, p->part.len);
    protobuf_bytes(&p->packet, PACKET_INTERNED, data.buf, data.len);
    protobuf_u64(&p->packet, PACKET_FLAGS, STATE_NEEDED);
    strbuf_free(&data);
    packet_end(p);
    return (uint64_t)id + 1;
}

static void event_end(struct perfetto *p, uint64_t at) {
    protobuf_u64(&p->packet, PACKET_TIMESTAMP, at);
    protobuf_bytes(&p->packet, PACKET_TRACK_EVENT, p->event.buf, p->event.len);
    protobuf_u64(&p->packet, PACKET_FLAGS, STATE_NEEDED);
    packet_end(p);
    strbuf_reset(&p->event);
}

static void annotate(struct perfetto *p, uint64_t name, struct column_value v) {
    struct strbuf d = STRBUF_INIT, item = STRBUF_INIT;
    protobuf_u64(&d, ANNOTATION_NAME_IID, name);
    switch (v.type) {
    case COLUMN_U64: protobuf_u64(&d, ANNOTATION_UINT, v.u64); break;
    case COLUMN_F64: protobuf_fixed(&d, ANNOTATION_DOUBLE, &v.f64); break;
    case COLUMN_DIMS:
        for (size_t i = 0; i < 3; i++) {
            strbuf_reset(&item);
            protobuf_u64(&item, ANNOTATION_UINT, v.dims[i]);
            protobuf_bytes(&d, ANNOTATION_ARRAY, item.buf, item.len);
        }
        break;
    default: protobuf_text(&d, ANNOTATION_STRING, v.str); break;
    }
    protobuf_bytes(&p->event, EVENT_ANNOTATION, d.buf, d.len);
    strbuf_free(&d);
    strbuf_free(&item);
}

static void annotate_slice(struct perfetto *p, const struct slice *s) {
    const struct export_row row = { .x = p->x, .i = s->record };
    for (size_t k = 0; s->table && k < s->table->n; k++) {
        const struct export_column *column = &s->table->columns[k];
        struct column_value v;
        if (export_argument(column, &row, &v))
            annotate(p, name_iid(p, p->annotations, INTERNED_ANNOTATION_NAMES, column->argument), v);
    }
}

static void begin_slice(struct perfetto *p, uint64_t track, const struct slice *s) {
    uint64_t iid = name_iid(p, p->names, INTERNED_EVENT_NAMES, s->name);
    annotate_slice(p, s);
    protobuf_u64(&p->event, EVENT_TYPE, SLICE_BEGIN);
    protobuf_u64(&p->event, EVENT_TRACK, track);
    protobuf_u64(&p->event, EVENT_NAME_IID, iid);
    protobuf_text(&p->event, EVENT_CATEGORY, s->category);
    if (s->flow) protobuf_fixed(&p->event, EVENT_FLOW, &s->flow);
    event_end(p, s->start_ns);
    p->x->written++;
}

static void end_slice(struct perfetto *p, uint64_t track, uint64_t at) {
    protobuf_u64(&p->event, EVENT_TYPE, SLICE_END);
    protobuf_u64(&p->event, EVENT_TRACK, track);
    event_end(p, at);
}

/* ---- tracks */
static void track(struct perfetto *p, uint64_t uuid, uint64_t parent, const char *name,
                  uint32_t extra_field) {
    struct strbuf d = STRBUF_INIT;
    protobuf_u64(&d, TRACK_UUID, uuid);
    if (name) protobuf_text(&d, TRACK_NAME, name);
    if (parent) protobuf_u64(&d, TRACK_PARENT, parent);
    if (extra_field) protobuf_bytes(&d, extra_field, p->part.buf, p->part.len);
    protobuf_bytes(&p->packet, PACKET_TRACK, d.buf, d.len);
    strbuf_free(&d);
    packet_end(p);
    strbuf_reset(&p->part);
}

static int by_start(const void *a, const void *b) {
    const struct slice *x = a, *y = b;
    if (x->start_ns != y->start_ns) return x->start_ns < y->start_ns ? -1 : 1;
    return (x->end_ns < y->end_ns) - (x->end_ns > y->end_ns);
}

/* Open slices of one track, outermost first. */
struct stack {
    uint64_t *v; /* [n] end times, ns */
    size_t n, cap;
};
struct stacks {
    struct stack *v;
    size_t n, cap;
};

static void pop_until(struct perfetto *p, struct stack *s, uint64_t track_id, uint64_t at) {
    while (s->n && s->v[s->n - 1] <= at) end_slice(p, track_id, s->v[--s->n]);
}

static bool fits(const struct stack *s, const struct slice *one, bool nest) {
    return s->n == 0 || (nest && s->v[s->n - 1] >= one->end_ns);
}

/* Ends the slices that are over. Returns the first track into which `one` fits; tracks->n: none. */
static size_t find_track(struct perfetto *p, struct stacks *tracks, uint64_t base, const struct slice *one,
                         bool nest) {
    for (size_t t = 0; t < tracks->n; t++) {
        pop_until(p, &tracks->v[t], base + (t << 32), one->start_ns);
        if (fits(&tracks->v[t], one, nest)) return t;
    }
    return tracks->n;
}

/* The track `base` exists; the other tracks are created when needed. */
static void flush_slices(struct perfetto *p, uint64_t base, uint64_t parent, const char *name, bool nest) {
    struct stacks tracks = { 0 };
    vec_push(&tracks, (struct stack){ 0 });
    if (p->slices.n) qsort(p->slices.v, p->slices.n, sizeof *p->slices.v, by_start);
    for (size_t i = 0; i < p->slices.n; i++) {
        const struct slice *s = &p->slices.v[i];
        size_t t = find_track(p, &tracks, base, s, nest);
        uint64_t id = base + (t << 32);
        if (t == MAX_TRACKS) {
            p->x->omitted++;
            continue;
        }
        if (t == tracks.n) {
            strbuf_reset(&p->part);
            track(p, id, parent, name, 0);
            vec_push(&tracks, (struct stack){ 0 });
        }
        begin_slice(p, id, s);
        vec_push(&tracks.v[t], s->end_ns);
    }
    for (size_t t = 0; t < tracks.n; t++) {
        pop_until(p, &tracks.v[t], base + (t << 32), UINT64_MAX);
        free(tracks.v[t].v);
    }
    free(tracks.v);
    p->slices.n = 0;
}

/* Adds the slice `s` with these times and this flow. */
static void add_slice(struct perfetto *p, uint64_t start, uint64_t end, uint64_t flow, struct slice s) {
    s.start_ns = start;
    s.end_ns = MAX(end, start + 1);
    s.flow = flow;
    if (!*s.name) s.name = "(no name)";
    vec_push(&p->slices, s);
}

/* ---- host */

/* Returns the process under which a stage is shown. TIMELINE_NONE: on a track of its own, because the process
 * is unknown or the only one. */
static uint32_t stage_process(const struct export_job *x, const struct analysis_occurrence *o) {
    if (x->tl->nprocesses < 2) return TIMELINE_NONE;
    if (o->process != TIMELINE_NONE) return o->process;
    return o->device != TIMELINE_NONE ? export_device_process(x, o->device) : TIMELINE_NONE;
}

static void stages(struct perfetto *p, uint32_t process) {
    const struct analysis *a = p->x->a;
    uint64_t uuid = UUID_STAGES, parent = 0;
    if (process != TIMELINE_NONE) {
        uuid += 1 + process;
        parent = UUID_PROCESS + process;
    }
    for (size_t i = 0; a && i < a->noccurrences; i++) {
        const struct analysis_occurrence *o = &a->occurrences[i];
        if (stage_process(p->x, o) != process || a->stages[o->stage].implicit ||
            !export_has(p->x, o->start_ns, o->wall_end_ns))
            continue;
        add_slice(p, o->start_ns, o->wall_end_ns, 0,
                  (struct slice){ .name = a->stages[o->stage].name, .category = "stage" });
    }
    if (p->slices.n == 0) return;
    strbuf_reset(&p->part);
    track(p, uuid, parent, "Stages", 0);
    flush_slices(p, uuid, parent, "Stages", true);
}

static void processes(struct perfetto *p) {
    char name[256];
    for (uint32_t i = 0; i < p->x->tl->nprocesses; i++) {
        strbuf_reset(&p->part);
        protobuf_u64(&p->part, PROCESS_PID, export_pid(p->x, i));
        protobuf_text(&p->part, PROCESS_NAME, export_process_name(p->x, i, name, sizeof name));
        track(p, UUID_PROCESS + i, 0, NULL, TRACK_PROCESS);
    }
}

static void thread_slices(struct perfetto *p, uint32_t id) {
    const struct timeline *tl = p->x->tl;
    const struct timeline_ranges *r = &tl->ranges;
    const struct timeline_launches *l = &tl->launches;
    const struct timeline_syncs *s = &tl->syncs;
    for (size_t i = 0; i < r->n; i++)
        if (r->thread[i] == id && export_has(p->x, r->start_ns[i], r->end_ns[i]))
            add_slice(p, r->start_ns[i], r->end_ns[i], 0,
                      (struct slice){ .name = timeline_text(tl, r->name[i]),
                                      .category = trace_range_category_name(r->category[i]),
                                      .table = &export_ranges,
                                      .record = i });
    for (size_t i = 0; i < l->n; i++)
        if (l->thread[i] == id && export_has_launch(p->x, i))
            add_slice(p, l->start_ns[i], l->end_ns[i], l->kernels[i] ? i + 1 : 0,
                      (struct slice){ .name = timeline_text(tl, l->api[i]),
                                      .category = "launch",
                                      .table = &export_launches,
                                      .record = i });
    for (size_t i = 0; i < s->n; i++)
        if (s->thread[i] == id && export_has(p->x, s->start_ns[i], s->end_ns[i]))
            add_slice(p, s->start_ns[i], s->end_ns[i], 0,
                      (struct slice){ .name = trace_sync_kind_name(s->kind[i]),
                                      .category = "sync",
                                      .table = &export_syncs,
                                      .record = i });
}

static void threads(struct perfetto *p) {
    const struct timeline *tl = p->x->tl;
    for (uint32_t i = 0; i < tl->nthreads; i++) {
        thread_slices(p, i);
        if (p->slices.n == 0) continue;
        const char *name = timeline_text(tl, tl->threads[i].name);
        uint64_t process = UUID_PROCESS + tl->threads[i].process;
        strbuf_reset(&p->part);
        protobuf_u64(&p->part, THREAD_PID, export_pid(p->x, tl->threads[i].process));
        protobuf_u64(&p->part, THREAD_TID, tl->threads[i].tid);
        if (*name) protobuf_text(&p->part, THREAD_NAME, name);
        track(p, UUID_THREAD + i, process, NULL, TRACK_THREAD);
        flush_slices(p, UUID_THREAD + i, process, *name ? name : "crossing ranges", true);
    }
}

/* ---- devices */
static void lane_slices(struct perfetto *p, uint32_t lane) {
    const struct timeline *tl = p->x->tl;
    for (size_t i = 0; i < tl->kernels.n; i++)
        if (tl->kernels.lane[i] == lane && export_has(p->x, tl->kernels.start_ns[i], tl->kernels.end_ns[i]))
            add_slice(p, tl->kernels.start_ns[i], tl->kernels.end_ns[i],
                      tl->kernels.launch[i] == TIMELINE_NONE ? 0 : (uint64_t)tl->kernels.launch[i] + 1,
                      (struct slice){ .name = export_kernel_name(p->x, i),
                                      .category = "kernel",
                                      .table = &export_kernels,
                                      .record = i });
    for (size_t i = 0; i < tl->copies.n; i++)
        if (tl->copies.lane[i] == lane && export_has(p->x, tl->copies.start_ns[i], tl->copies.end_ns[i]))
            add_slice(p, tl->copies.start_ns[i], tl->copies.end_ns[i], 0,
                      (struct slice){ .name = export_copy_name(tl->copies.kind[i]),
                                      .category = "copy",
                                      .table = &export_copies,
                                      .record = i });
}

static void lanes(struct perfetto *p) {
    const struct timeline *tl = p->x->tl;
    char name[160];
    for (uint32_t i = 0; i < tl->ndevices; i++) {
        uint32_t process = export_device_process(p->x, i);
        strbuf_reset(&p->part);
        track(p, UUID_DEVICE + i, process == TIMELINE_NONE ? 0 : UUID_PROCESS + process,
              export_device_name(p->x, i, name, sizeof name), 0);
    }
    for (uint32_t i = 0; i < tl->nlanes; i++) {
        const struct timeline_lane *l = &tl->lanes[i];
        lane_slices(p, i);
        if (p->slices.n == 0) continue;
        const char *own = timeline_text(tl, l->name);
        snprintf(name, sizeof name, "Stream %u%s%.120s", l->stream, *own ? " " : "", own);
        strbuf_reset(&p->part);
        track(p, UUID_LANE + i, UUID_DEVICE + l->device, name, 0);
        flush_slices(p, UUID_LANE + i, UUID_DEVICE + l->device, name, false);
    }
}

/* ---- counters */
static uint64_t counter_track(struct perfetto *p, uint32_t device, const char *name, const char *unit) {
    uint64_t id = UUID_COUNTER + p->counters++;
    strbuf_reset(&p->part);
    protobuf_text(&p->part, COUNTER_UNIT_NAME, unit);
    track(p, id, device < p->x->tl->ndevices ? UUID_DEVICE + device : 0, name, TRACK_COUNTER);
    return id;
}

static void add_count(struct perfetto *p, uint64_t track_id, uint64_t at, double value) {
    if (!isfinite(value)) return;
    protobuf_u64(&p->event, EVENT_TYPE, COUNTER);
    protobuf_u64(&p->event, EVENT_TRACK, track_id);
    protobuf_fixed(&p->event, EVENT_DOUBLE_COUNTER, &value);
    event_end(p, at);
    p->x->written++;
}

static void power(struct perfetto *p, uint32_t device) {
    const struct timeline_powers *w = &p->x->tl->powers;
    uint64_t id[COUNTOF(export_power_series)] = { 0 };
    for (size_t i = 0; i < w->n; i++) {
        if (w->device[i] != device || !export_has(p->x, w->time_ns[i], w->time_ns[i])) continue;
        for (size_t k = 0; k < COUNTOF(id) && !id[k]; k++)
            id[k] = counter_track(p, device, export_power_series[k].name, export_power_series[k].unit);
        for (size_t k = 0; k < COUNTOF(id); k++)
            add_count(p, id[k], w->time_ns[i], export_power_series[k].get(w, i));
    }
}

static void samples(struct perfetto *p, uint32_t device) {
    const struct timeline *tl = p->x->tl;
    const struct timeline_samples *s = &tl->samples;
    for (uint32_t set = 0; set < tl->nmetric_sets; set++)
        for (uint32_t m = 0; m < tl->metric_sets[set].n; m++) {
            uint64_t id = 0;
            for (size_t i = 0; i < s->n; i++) {
                if (s->device[i] != device || s->set[i] != set ||
                    !export_has(p->x, s->start_ns[i], s->end_ns[i]))
                    continue;
                const char *metric = timeline_text(tl, tl->metric_sets[set].names[m]);
                if (!id) id = counter_track(p, device, metric, strstr(metric, ".pct") ? "%" : "");
                add_count(p, id, s->start_ns[i], (double)tl->sample_values[s->first[i] + m]);
            }
        }
}

int export_perfetto(struct export_job *x, const char *path, struct err *err) {
    struct file_atomic f;
    if (file_atomic_open(&f, path, err) < 0) return -1;
    struct perfetto p = { .x = x,
                          .out = f.out,
                          .names = intern_open(),
                          .annotations = intern_open(),
                          .packet = STRBUF_INIT,
                          .event = STRBUF_INIT,
                          .part = STRBUF_INIT };
    start_state(&p);
    stages(&p, TIMELINE_NONE);
    processes(&p);
    for (uint32_t i = 0; i < x->tl->nprocesses; i++) stages(&p, i);
    threads(&p);
    lanes(&p);
    for (uint32_t i = 0; i < x->tl->ndevices; i++) {
        power(&p, i);
        samples(&p, i);
    }
    strbuf_free(&p.packet);
    strbuf_free(&p.event);
    strbuf_free(&p.part);
    free(p.slices.v);
    intern_close(p.names);
    intern_close(p.annotations);
    return file_atomic_commit(&f, err);
}
