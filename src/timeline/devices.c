/* Reads processes, threads, streams and devices from meta records, and merges entries that appear in several
 * files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/strbuf.h"
#include "base/util.h"
#include "base/vec.h"
#include "timeline/build.h"

static const char *text_of(const struct timeline_builder *b, uint32_t text) {
    return intern_text(b->texts, text);
}

static uint64_t parse_u64(const char *value) {
    char *end;
    uint64_t v = strtoull(value, &end, 10);
    return end == value || *value == '-' ? 0 : v;
}

static uint32_t parse_u32(const char *value) { return (uint32_t)MIN(parse_u64(value), UINT32_MAX - 1); }

/* TIMELINE_NONE: it has more than 32 bits. */
static uint32_t parse_pid(const char *value) {
    uint64_t pid = parse_u64(value);
    return pid < TIMELINE_NONE ? (uint32_t)pid : TIMELINE_NONE;
}

/* Importers name the processes of a file only by pids of 32 bits. */
static void set_pid(struct timeline_builder *b, struct timeline_process *p, const char *value) {
    p->pid = parse_pid(value);
    if (p->pid == TIMELINE_NONE)
        timeline_builder_warning(
            b,
            "%s: the process id %s is above 2^32: if the file contains several processes, "
            "they are read as one, and times of steps may be wrong; import the trace of "
            "each process on its own",
            build_file_name(b), value);
}

/* For the key "device.3.sms" and the prefix "device.": sets the index to 3 and returns "sms". Returns NULL if
 * the key does not have this form. */
static const char *split_index(const char *key, const char *prefix, uint32_t *index) {
    size_t len = strlen(prefix);
    char *end;
    if (strncmp(key, prefix, len) != 0 || key[len] < '0' || key[len] > '9') return NULL;
    unsigned long long v = strtoull(key + len, &end, 10);
    if (v >= UINT32_MAX || *end != '.') return NULL;
    *index = (uint32_t)v;
    return end + 1;
}

static void set_device(struct timeline_builder *b, struct timeline_device *d, const char *field,
                       const char *value) {
    static const struct {
        const char *name;
        size_t offset;
        bool wide;
    } limits[] = {
        { "sms", offsetof(struct timeline_device, sms), false },
        { "max_threads_per_sm", offsetof(struct timeline_device, max_threads_per_sm), false },
        { "max_blocks_per_sm", offsetof(struct timeline_device, max_blocks_per_sm), false },
        { "regs_per_sm", offsetof(struct timeline_device, regs_per_sm), false },
        { "smem_per_sm_bytes", offsetof(struct timeline_device, smem_per_sm_bytes), false },
        { "warp_size", offsetof(struct timeline_device, warp_size), false },
        { "sm_clock_khz", offsetof(struct timeline_device, sm_clock_khz), true },
        { "memory_bytes", offsetof(struct timeline_device, memory_bytes), true },
        { "l2_bytes", offsetof(struct timeline_device, l2_bytes), true },
    };
    for (size_t i = 0; i < COUNTOF(limits); i++) {
        if (strcmp(field, limits[i].name) != 0) continue;
        void *at = (char *)d + limits[i].offset;
        if (limits[i].wide)
            *(uint64_t *)at = parse_u64(value);
        else
            *(uint32_t *)at = parse_u32(value);
        return;
    }
    if (strcmp(field, "name") == 0) {
        d->name = timeline_builder_text(b, value);
        d->is_cpu = strcmp(value, "cpu") == 0;
    }
    if (strcmp(field, "kernel_ends") == 0) d->joined = strcmp(value, "next start") == 0;
    if (strcmp(field, "uuid") == 0) d->uuid = timeline_builder_text(b, value);
    if (strcmp(field, "cc") == 0) {
        const char *dot = strchr(value, '.');
        d->cc_major = parse_u32(value);
        d->cc_minor = dot ? parse_u32(dot + 1) : 0;
    }
    if (strcmp(field, "peak_gbps") == 0) {
        double gbps = strtod(value, NULL);
        if (gbps > 0 && isfinite(gbps)) d->peak_bytes_per_s = gbps * 1e9;
    }
}

static void set_lane_names(struct timeline_builder *b, uint32_t process, uint32_t stream, uint32_t name) {
    for (size_t i = 0; i < b->lanes.n; i++)
        if (b->lanes.v[i].process == process && b->lanes.v[i].stream == stream) b->lanes.v[i].name = name;
}

/* Pids of contexts. A map, because a hostile file can have millions of contexts and streams. */
struct context_pids {
    struct intern *contexts;
    struct {
        uint32_t *v;
        size_t n, cap;
    } pids;
};

static void take_context_pid(struct context_pids *c, uint32_t context, uint32_t pid) {
    if (!c->contexts) c->contexts = intern_open();
    if (intern_id(c->contexts, (const char *)&context, sizeof context) == c->pids.n) vec_push(&c->pids, pid);
}

static void set_lane_pids(struct timeline_builder *b, uint32_t process, struct context_pids *c) {
    for (size_t i = 0; c->contexts && i < b->lanes.n; i++) {
        struct timeline_lane *l = &b->lanes.v[i];
        if (l->process != process) continue;
        uint32_t id = intern_find(c->contexts, (const char *)&l->context, sizeof l->context);
        if (id != INTERN_NONE) l->pid = c->pids.v[id];
    }
    if (c->contexts) intern_close(c->contexts);
    free(c->pids.v);
}

static void set_process(struct timeline_builder *b, struct timeline_process *p, const char *key,
                        const struct timeline_meta *m) {
    const char *value = text_of(b, m->value);
    char *end;
    if (strcmp(key, "process.pid") == 0) set_pid(b, p, value);
    if (strcmp(key, "rank") == 0) p->rank = parse_u32(value);
    if (strcmp(key, "world_size") == 0) p->world_size = parse_u32(value);
    if (strcmp(key, "local_rank") == 0) p->local_rank = parse_u32(value);
    if (strcmp(key, "local_size") == 0) p->local_size = parse_u32(value);
    if (strcmp(key, "node_rank") == 0) p->node_rank = parse_u32(value);
    if (strcmp(key, "node") == 0) p->node = m->value;
    if (strcmp(key, "launcher") == 0) p->launcher = m->value;
    if (strcmp(key, "host") == 0) p->host = m->value;
    if (strcmp(key, "process.command") == 0) p->command = m->value;
    if (strcmp(key, "source") == 0) p->source = m->value;
    if (strcmp(key, "clock") == 0) p->relative_clock = strcmp(value, "relative") == 0;
    if (strcmp(key, "problem") == 0) vec_push(&b->warnings, m->value);
    if (strcmp(key, "capture.window") == 0) {
        struct timeline_window w = { .start_ns = strtoull(value, &end, 10),
                                     .process = (uint32_t)(p - b->processes.v) };
        w.end_ns = *end == '\0' ? UINT64_MAX : strtoull(end, NULL, 10);
        if (w.end_ns > w.start_ns) vec_push(&b->windows, w);
    }
    if (strcmp(key, "capture.from") == 0) p->capture_from_ns = strtoull(value, NULL, 10);
    if (strcmp(key, "capture.to") == 0) p->capture_to_ns = strtoull(value, NULL, 10);
}

static bool is_thread_field(const char *field) {
    return strcmp(field, "name") == 0 || strcmp(field, "pid") == 0 || strcmp(field, "device") == 0;
}

static void set_thread(struct timeline_builder *b, uint32_t process, uint32_t thread, const char *field,
                       const struct timeline_meta *m) {
    const char *value = text_of(b, m->value);
    if (strcmp(field, "name") == 0) b->threads.v[thread].name = m->value;
    if (strcmp(field, "pid") == 0) b->threads.v[thread].pid = parse_pid(value);
    if (strcmp(field, "device") == 0)
        b->threads.v[thread].device = build_device(b, process, parse_u32(value));
}

void build_process_meta(struct timeline_builder *b) {
    struct context_pids contexts = { 0 };
    uint32_t process = (uint32_t)b->processes.n - 1, index;
    for (size_t i = b->segment.meta; i < b->meta.n; i++) {
        struct timeline_meta m = b->meta.v[i];
        const char *key = text_of(b, m.key), *value = text_of(b, m.value), *field;
        if ((field = split_index(key, "device.", &index))) {
            uint32_t device = build_device(b, process, index); /* may reallocate the table */
            set_device(b, &b->devices.v[device], field, value);
        } else if ((field = split_index(key, "thread.", &index)) && is_thread_field(field)) {
            set_thread(b, process, build_thread(b, index), field, &m);
        } else if ((field = split_index(key, "stream.", &index)) && strcmp(field, "name") == 0) {
            set_lane_names(b, process, index, m.value);
        } else if ((field = split_index(key, "context.", &index)) && strcmp(field, "pid") == 0) {
            take_context_pid(&contexts, index, parse_pid(value));
        } else {
            set_process(b, &b->processes.v[process], key, &m);
        }
    }
    set_lane_pids(b, process, &contexts);
}

/* ---- one device in several files */

/* Writes a text that is equal for equal devices. A device without uuid is merged with a device of another
 * file only if its name and host are known. */
static void device_key(const struct timeline_builder *b, size_t device, struct strbuf *key) {
    const struct timeline_device *d = &b->devices.v[device];
    const struct timeline_process *p = &b->processes.v[d->process];
    strbuf_reset(key);
    if (d->uuid)
        strbuf_addf(key, "uuid %s", text_of(b, d->uuid));
    else if (d->name && p->host)
        strbuf_addf(key, "host %s %u %u %s", text_of(b, p->host), p->rank, d->index, text_of(b, d->name));
    else
        strbuf_addf(key, "file %u %u", d->process, d->index);
}

/* Fills in unknown fields from the same device in another file. */
static void merge_limits(struct timeline_device *into, const struct timeline_device *from) {
#define TAKE(field) \
    if (!into->field) into->field = from->field
    TAKE(name);
    TAKE(is_cpu);
    TAKE(joined);
    TAKE(cc_major);
    TAKE(cc_minor);
    TAKE(sms);
    TAKE(max_threads_per_sm);
    TAKE(max_blocks_per_sm);
    TAKE(regs_per_sm);
    TAKE(smem_per_sm_bytes);
    TAKE(warp_size);
    TAKE(memory_bytes);
    TAKE(l2_bytes);
    TAKE(sm_clock_khz);
#undef TAKE
    if (isnan(into->peak_bytes_per_s)) into->peak_bytes_per_s = from->peak_bytes_per_s;
}

/* Applies the new device numbers to the shapes, and merges shapes that are equal afterwards. */
static void renumber_shapes(struct timeline_builder *b, const uint32_t *device_now) {
    uint32_t *shape_now = xmalloc((b->shapes.n + 1) * sizeof *shape_now);
    struct intern *ids = intern_open();
    size_t kept = 0, before = b->shapes.n;
    for (size_t i = 0; i < before; i++) {
        struct timeline_shape s = b->shapes.v[i];
        s.device = device_now[s.device];
        shape_now[i] = intern_id(ids, (const char *)&s, sizeof s);
        if (shape_now[i] == kept) b->shapes.v[kept++] = s;
    }
    b->shapes.n = kept;
    if (kept != before) build_renumber(b, "shape", shape_now);
    intern_close(ids);
    free(shape_now);
}

struct device_place {
    uint32_t rank, process, index, row;
};

static int place_order(const void *pa, const void *pb) {
    const struct device_place *a = pa, *b = pb;
    if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
    if (a->process != b->process) return a->process < b->process ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

/* Sorts the devices by rank, file and index, so that tables list them in the order of their numbers. Files
 * without a rank come last. now[0..n): row of each device before the merge; updated. */
static void sort_devices(struct timeline_builder *b, uint32_t *now, size_t n) {
    size_t rows = b->devices.n;
    struct device_place *places = xmalloc((rows + 1) * sizeof *places);
    struct timeline_device *sorted = xmalloc((rows + 1) * sizeof *sorted);
    uint32_t *row_now = xmalloc((rows + 1) * sizeof *row_now);
    for (size_t i = 0; i < rows; i++) {
        const struct timeline_device *d = &b->devices.v[i];
        places[i] =
            (struct device_place){ b->processes.v[d->process].rank, d->process, d->index, (uint32_t)i };
    }
    qsort(places, rows, sizeof *places, place_order);
    for (size_t i = 0; i < rows; i++) {
        sorted[i] = b->devices.v[places[i].row];
        row_now[places[i].row] = (uint32_t)i;
    }
    for (size_t i = 0; i < rows; i++) b->devices.v[i] = sorted[i];
    for (size_t i = 0; i < n; i++) now[i] = row_now[now[i]];
    free(row_now);
    free(sorted);
    free(places);
}

void build_merge_devices(struct timeline_builder *b) {
    size_t before = b->devices.n;
    uint32_t *now = xmalloc((b->devices.n + 1) * sizeof *now);
    struct intern *keys = intern_open();
    struct strbuf key = STRBUF_INIT;
    size_t kept = 0;
    for (size_t i = 0; i < before; i++) {
        device_key(b, i, &key);
        now[i] = intern_str(keys, key.buf);
        if (now[i] == kept)
            b->devices.v[kept++] = b->devices.v[i];
        else
            merge_limits(&b->devices.v[now[i]], &b->devices.v[i]);
    }
    b->devices.n = kept;
    sort_devices(b, now, before);
    for (size_t i = 0; i < b->lanes.n; i++) b->lanes.v[i].device = now[b->lanes.v[i].device];
    build_renumber(b, "device", now);
    renumber_shapes(b, now);
    strbuf_free(&key);
    intern_close(keys);
    free(now);
}

static bool has_work(const struct timeline_device *d) { return d->kernel_count || d->copy_count; }

/* Counts the devices with work per number; with `per_rank`, per number and rank: users[id[i]] are those with
 * the number of device i. */
static void count_users(const struct timeline_builder *b, bool per_rank, uint32_t *id, size_t *users) {
    struct intern *keys = intern_open();
    for (size_t i = 0; i < b->devices.n; i++) {
        const struct timeline_device *d = &b->devices.v[i];
        uint32_t key[2] = { d->index, per_rank ? b->processes.v[d->process].rank : 0 };
        id[i] = intern_id(keys, (const char *)key, sizeof key);
        users[id[i]] += has_work(d);
    }
    intern_close(keys);
}

void build_label_devices(struct timeline_builder *b) {
    size_t n = b->devices.n + 1;
    uint32_t *number = xmalloc(n * sizeof *number), *in_rank = xmalloc(n * sizeof *in_rank);
    size_t *users = xcalloc(n, sizeof *users), *rank_users = xcalloc(n, sizeof *rank_users);
    count_users(b, false, number, users);
    count_users(b, true, in_rank, rank_users);
    for (size_t i = 0; i < b->devices.n; i++) {
        struct timeline_device *d = &b->devices.v[i];
        uint32_t rank = b->processes.v[d->process].rank;
        char label[64];
        if (users[number[i]] <= (size_t)has_work(d))
            snprintf(label, sizeof label, "%u", d->index);
        else if (rank != TIMELINE_NONE && rank_users[in_rank[i]] <= (size_t)has_work(d))
            snprintf(label, sizeof label, "rank%u:%u", rank, d->index);
        else
            snprintf(label, sizeof label, "file%u:%u", d->process, d->index);
        d->label = timeline_builder_text(b, label);
    }
    free(number);
    free(in_rank);
    free(users);
    free(rank_users);
}

/* ---- several files of one process (from the collector and the engine) share their threads */

/* An imported file contains all records of its process. Processes of two hosts or containers may have the
 * same number, and imported files do not name the host. */
static bool same_process(const struct timeline_builder *b, const struct timeline_process *p,
                         const struct timeline_process *q) {
    static const char imported[] = "import:";
    if (p->pid == TIMELINE_NONE || p->pid != q->pid || p->host != q->host) return false;
    if (p->relative_clock || q->relative_clock) return false;
    if (p->rank != TIMELINE_NONE && q->rank != TIMELINE_NONE && p->rank != q->rank) return false;
    return strncmp(text_of(b, p->source), imported, strlen(imported)) != 0 &&
           strncmp(text_of(b, q->source), imported, strlen(imported)) != 0;
}

static void group_processes(struct timeline_builder *b) {
    b->process_group = xmalloc((b->processes.n + 1) * sizeof *b->process_group);
    for (size_t i = 0; i < b->processes.n; i++) {
        const struct timeline_process *p = &b->processes.v[i];
        b->process_group[i] = (uint32_t)i;
        for (size_t j = 0; j < i; j++) {
            if (!same_process(b, p, &b->processes.v[j])) continue;
            b->process_group[i] = b->process_group[j];
            break;
        }
    }
}

void build_merge_processes(struct timeline_builder *b) {
    group_processes(b);
    uint32_t *now = xmalloc((b->threads.n + 1) * sizeof *now);
    struct intern *ids = intern_open();
    size_t kept = 0;
    for (size_t i = 0; i < b->threads.n; i++) {
        struct timeline_thread t = b->threads.v[i];
        uint32_t key[2] = { b->process_group[t.process], t.tid };
        now[i] = intern_id(ids, (const char *)key, sizeof key);
        if (now[i] == kept)
            b->threads.v[kept++] = t;
        else if (!b->threads.v[now[i]].name)
            b->threads.v[now[i]].name = t.name;
    }
    if (kept != b->threads.n) {
        build_renumber(b, "thread", now);
        for (size_t i = 0; i < b->gemms.n; i++) b->gemms.v[i].thread = now[b->gemms.v[i].thread];
    }
    b->threads.n = kept;
    intern_close(ids);
    free(now);
}
