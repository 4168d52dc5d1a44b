#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/strbuf.h"
#include "base/util.h"
#include "base/vec.h"
#include "timeline/build.h"

struct timeline_builder *timeline_builder_open(void) {
    struct timeline_builder *b = xcalloc(1, sizeof *b);
    b->texts = intern_open();
    intern_str(b->texts, ""); /* text 0 */
    b->shape_ids = intern_open();
    b->lane_ids = intern_open();
    b->thread_ids = intern_open();
    b->device_ids = intern_open();
    b->set_ids = intern_open();
    b->last_thread = TIMELINE_NONE;
    for (size_t i = 0; i < SHAPE_CACHE; i++) b->shape_cache[i].id = TIMELINE_NONE;
    return b;
}

const char *build_file_name(const struct timeline_builder *b) {
    return file_basename(intern_text(b->texts, b->processes.v[b->processes.n - 1].path));
}

void build_end_process(struct timeline_builder *b) {
    if (!b->processes.n) return;
    build_process_meta(b);
    build_drop_strays(b);
    build_link_process(b);
    for (unsigned kind = 0; kind < TRACE_KIND_END; kind++) {
        struct columns c = build_columns(b, kind);
        b->segment.first[kind] = c.count ? *c.n : 0;
    }
    b->segment.meta = b->meta.n;
    b->last_thread = TIMELINE_NONE;
}

void timeline_builder_process(struct timeline_builder *b, const char *path) {
    build_end_process(b);
    vec_push(&b->processes, ((struct timeline_process){ .path = timeline_builder_text(b, path),
                                                        .pid = TIMELINE_NONE,
                                                        .rank = TIMELINE_NONE,
                                                        .world_size = TIMELINE_NONE,
                                                        .local_rank = TIMELINE_NONE,
                                                        .local_size = TIMELINE_NONE,
                                                        .node_rank = TIMELINE_NONE,
                                                        .finished = true }));
}

static uint32_t open_process(struct timeline_builder *b) {
    if (!b->processes.n) timeline_builder_process(b, "");
    return (uint32_t)b->processes.n - 1;
}

uint32_t timeline_builder_text(struct timeline_builder *b, const char *text) {
    return intern_str(b->texts, text);
}

uint32_t timeline_builder_textn(struct timeline_builder *b, const char *text, size_t len) {
    return intern_id(b->texts, text, len);
}

void timeline_builder_meta(struct timeline_builder *b, const char *key, const char *value) {
    vec_push(&b->meta, ((struct timeline_meta){ open_process(b), timeline_builder_text(b, key),
                                                timeline_builder_text(b, value) }));
}

void timeline_builder_warning(struct timeline_builder *b, const char *fmt, ...) {
    struct strbuf s = STRBUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    strbuf_vaddf(&s, fmt, ap);
    va_end(ap);
    vec_push(&b->warnings, timeline_builder_text(b, s.buf));
    strbuf_free(&s);
}

void timeline_builder_lost(struct timeline_builder *b, enum trace_kind kind, uint64_t count) {
    if ((unsigned)kind < TRACE_KIND_END) b->processes.v[open_process(b)].lost[kind] += count;
}

/* ---- rows that many records refer to */

uint32_t build_device(struct timeline_builder *b, uint32_t process, uint32_t index) {
    uint32_t key[2] = { process, index };
    uint32_t id = intern_id(b->device_ids, (const char *)key, sizeof key);
    if (id == b->devices.n)
        vec_push(&b->devices,
                 ((struct timeline_device){ .index = index, .process = process, .peak_bytes_per_s = NAN }));
    return id;
}

uint32_t build_thread(struct timeline_builder *b, uint32_t tid) {
    if (b->last_thread != TIMELINE_NONE && b->last_tid == tid) return b->last_thread;
    uint32_t key[2] = { open_process(b), tid };
    uint32_t id = intern_id(b->thread_ids, (const char *)key, sizeof key);
    if (id == b->threads.n)
        vec_push(&b->threads,
                 ((struct timeline_thread){
                     .process = key[0], .tid = tid, .pid = TIMELINE_NONE, .device = TIMELINE_NONE }));
    b->last_tid = tid;
    return b->last_thread = id;
}

static uint32_t build_lane(struct timeline_builder *b, uint32_t device, uint32_t context, uint32_t stream) {
    uint32_t process = open_process(b);
    uint32_t key[4] = { process, build_device(b, process, device), context, stream };
    uint32_t id = intern_id(b->lane_ids, (const char *)key, sizeof key);
    if (id == b->lanes.n)
        vec_push(&b->lanes, ((struct timeline_lane){ .process = key[0],
                                                     .device = key[1],
                                                     .context = context,
                                                     .stream = stream,
                                                     .pid = TIMELINE_NONE }));
    return id;
}

static uint32_t build_shape(struct timeline_builder *b, const struct trace_kernel *r, uint32_t device) {
    struct timeline_shape shape = { r->name,
                                    device,
                                    { r->grid_x, r->grid_y, r->grid_z },
                                    { r->block_x, r->block_y, r->block_z },
                                    r->registers,
                                    r->static_smem_bytes,
                                    r->dynamic_smem_bytes };
    uint64_t hash = hash_u64((uint64_t)r->name << 32 ^ (uint64_t)r->grid_x << 16 ^ r->grid_y ^ r->block_x);
    size_t slot = hash % SHAPE_CACHE;
    if (b->shape_cache[slot].id != TIMELINE_NONE &&
        memcmp(&b->shape_cache[slot].shape, &shape, sizeof shape) == 0)
        return b->shape_cache[slot].id;
    uint32_t id = intern_id(b->shape_ids, (const char *)&shape, sizeof shape);
    if (id == b->shapes.n) vec_push(&b->shapes, shape);
    b->shape_cache[slot].shape = shape;
    b->shape_cache[slot].id = id;
    return id;
}

/* ---- records */

/* Reserves space for n more records of a kind and counts them. Returns the index of their process. */
static uint32_t take_records(struct timeline_builder *b, enum trace_kind kind, size_t n) {
    uint32_t process = open_process(b);
    struct columns c = build_columns(b, kind);
    columns_reserve(&c, n);
    b->processes.v[process].records[kind] += n;
    return process;
}

/* Returns false, and counts the record, if it ends before it starts. */
static bool check_times(struct timeline_builder *b, uint64_t start_ns, uint64_t end_ns) {
    b->bad_records += end_ns < start_ns;
    return end_ns >= start_ns;
}
static uint32_t text_or_none(const struct timeline_builder *b, uint32_t text) {
    return text < intern_count(b->texts) ? text : 0;
}

static void add_range(struct timeline_builder *b, const struct trace_range *r) {
    struct range_columns *c = &b->ranges;
    if (!check_times(b, r->start_ns, r->end_ns)) return;
    size_t i = c->n++;
    c->start_ns[i] = r->start_ns;
    c->end_ns[i] = r->end_ns;
    c->thread[i] = build_thread(b, r->thread);
    c->parent[i] = TIMELINE_NONE;
    c->name[i] = text_or_none(b, r->name);
    c->domain[i] = text_or_none(b, r->domain);
    c->detail[i] = text_or_none(b, r->detail);
    c->stack[i] = text_or_none(b, r->stack);
    c->depth[i] = (uint16_t)MIN(r->depth, UINT16_MAX);
    c->category[i] = (uint8_t)(r->category < TRACE_CATEGORY_END ? r->category : TRACE_CATEGORY_USER);
    c->flags[i] = (uint8_t)r->flags;
    c->flops[i] = r->flops;
    c->bytes[i] = r->bytes;
    c->payload[i] = r->payload;
}

void timeline_builder_range(struct timeline_builder *b, const struct trace_range *r, size_t n) {
    take_records(b, TRACE_RANGE, n);
    for (size_t i = 0; i < n; i++) add_range(b, &r[i]);
}

/* Classifies names such as cudaLaunchKernelExC, cuLaunchKernel, hipGraphLaunch, cudaMemcpyAsync,
 * cuMemsetD8_v2. */
static enum timeline_api api_kind(const char *api) {
    if (strstr(api, "GraphLaunch")) return TIMELINE_API_GRAPH;
    if (strstr(api, "Launch") && !strstr(api, "HostFunc")) return TIMELINE_API_KERNEL;
    if (strstr(api, "Memcpy") || strstr(api, "Memset")) return TIMELINE_API_COPY;
    return TIMELINE_API_OTHER;
}

void timeline_builder_launch(struct timeline_builder *b, const struct trace_launch *r, size_t n) {
    struct launch_columns *c = &b->launches;
    uint32_t last_api = TIMELINE_NONE;
    enum timeline_api last_kind = TIMELINE_API_OTHER;
    take_records(b, TRACE_LAUNCH, n);
    for (size_t j = 0; j < n; j++, r++) {
        if (!check_times(b, r->start_ns, r->end_ns)) continue;
        size_t i = c->n++;
        c->start_ns[i] = r->start_ns;
        c->end_ns[i] = r->end_ns;
        c->correlation[i] = r->correlation;
        c->thread[i] = build_thread(b, r->thread);
        c->range[i] = TIMELINE_NONE;
        c->kernels[i] = 0;
        c->api[i] = text_or_none(b, r->api);
        if (c->api[i] != last_api) last_kind = api_kind(intern_text(b->texts, last_api = c->api[i]));
        c->api_kind[i] = (uint8_t)last_kind;
    }
}

void timeline_builder_kernel(struct timeline_builder *b, const struct trace_kernel *r, size_t n) {
    struct kernel_columns *c = &b->kernels;
    uint32_t key[3] = { 0 }, lane = TIMELINE_NONE;
    take_records(b, TRACE_KERNEL, n);
    for (size_t j = 0; j < n; j++, r++) {
        if (!check_times(b, r->start_ns, r->end_ns)) continue;
        if (lane == TIMELINE_NONE || key[0] != r->device || key[1] != r->context || key[2] != r->stream) {
            lane = build_lane(b, r->device, r->context, r->stream);
            key[0] = r->device;
            key[1] = r->context;
            key[2] = r->stream;
        }
        struct trace_kernel k = *r;
        k.name = text_or_none(b, r->name);
        size_t i = c->n++;
        c->start_ns[i] = r->start_ns;
        c->end_ns[i] = r->end_ns;
        c->correlation[i] = r->correlation;
        c->graph[i] = r->graph;
        c->graph_node[i] = r->graph_node;
        c->lane[i] = lane;
        c->shape[i] = build_shape(b, &k, b->lanes.v[lane].device);
        c->launch[i] = c->range[i] = TIMELINE_NONE;
    }
}

void timeline_builder_copy(struct timeline_builder *b, const struct trace_copy *r, size_t n) {
    struct copy_columns *c = &b->copies;
    take_records(b, TRACE_COPY, n);
    for (size_t j = 0; j < n; j++, r++) {
        if (!check_times(b, r->start_ns, r->end_ns)) continue;
        size_t i = c->n++;
        c->start_ns[i] = r->start_ns;
        c->end_ns[i] = r->end_ns;
        c->correlation[i] = r->correlation;
        c->bytes[i] = r->bytes;
        c->lane[i] = build_lane(b, r->device, r->context, r->stream);
        c->launch[i] = c->range[i] = TIMELINE_NONE;
        c->kind[i] = (uint8_t)(r->copy_kind < TRACE_COPY_KIND_END ? r->copy_kind : TRACE_COPY_UNKNOWN);
    }
}

void timeline_builder_sync(struct timeline_builder *b, const struct trace_sync *r, size_t n) {
    struct sync_columns *c = &b->syncs;
    take_records(b, TRACE_SYNC, n);
    for (size_t j = 0; j < n; j++, r++) {
        if (!check_times(b, r->start_ns, r->end_ns)) continue;
        size_t i = c->n++;
        c->start_ns[i] = r->start_ns;
        c->end_ns[i] = r->end_ns;
        c->thread[i] = build_thread(b, r->thread);
        c->range[i] = TIMELINE_NONE;
        c->context[i] = r->context;
        c->stream[i] = r->stream;
        c->kind[i] = (uint8_t)(r->sync_kind < TRACE_SYNC_KIND_END ? r->sync_kind : TRACE_SYNC_UNKNOWN);
    }
}

/* Converts "a;b;c" to a set of metrics. Equal texts give the same set. */
static uint32_t build_set(struct timeline_builder *b, uint32_t metrics) {
    uint32_t id = intern_id(b->set_ids, (const char *)&metrics, sizeof metrics);
    if (id < b->sets.n) return id;
    struct timeline_metric_set set = { .n = 0 };
    for (const char *p = intern_text(b->texts, metrics); *p && set.n < TRACE_SAMPLE_VALUES;) {
        size_t len = strcspn(p, ";");
        set.names[set.n++] = timeline_builder_textn(b, p, len);
        p += len + (p[len] == ';');
    }
    vec_push(&b->sets, set);
    return id;
}

void timeline_builder_sample(struct timeline_builder *b, const struct trace_sample *r, size_t n) {
    struct sample_columns *c = &b->samples;
    uint32_t process = take_records(b, TRACE_SAMPLE, n);
    for (size_t j = 0; j < n; j++, r++) {
        if (!check_times(b, r->start_ns, r->end_ns)) continue;
        size_t i = c->n++;
        c->start_ns[i] = r->start_ns;
        c->end_ns[i] = r->end_ns;
        c->device[i] = build_device(b, process, r->device);
        c->set[i] = build_set(b, text_or_none(b, r->metrics));
        c->first[i] = b->sample_values.n;
        for (uint32_t m = 0; m < b->sets.v[c->set[i]].n; m++) vec_push(&b->sample_values, (float)(&r->v0)[m]);
    }
}

void timeline_builder_power(struct timeline_builder *b, const struct trace_power *r, size_t n) {
    struct power_columns *c = &b->powers;
    uint32_t process = take_records(b, TRACE_POWER, n);
    for (size_t j = 0; j < n; j++, r++) {
        size_t i = c->n++;
        c->time_ns[i] = r->time_ns;
        c->energy_mj[i] = r->energy_mj;
        c->throttle_reasons[i] = r->throttle_reasons;
        c->device[i] = build_device(b, process, r->device);
        c->sm_mhz[i] = r->sm_mhz;
        c->memory_mhz[i] = r->memory_mhz;
        c->temperature_c[i] = r->temperature_c;
        c->power_mw[i] = r->power_mw;
    }
}

void timeline_builder_gemm(struct timeline_builder *b, const struct trace_gemm *r, size_t n) {
    struct gemm_columns *c = &b->gemms;
    take_records(b, TRACE_GEMM, n);
    for (size_t j = 0; j < n; j++, r++) {
        size_t i = c->n++;
        struct trace_gemm *g = &c->v[i];
        *g = *r;
        g->thread = build_thread(b, r->thread);
        g->types = text_or_none(b, r->types);
        g->layout = text_or_none(b, r->layout);
        g->algorithm = text_or_none(b, r->algorithm);
        c->start_ns[i] = r->start_ns;
        c->launch[i] = TIMELINE_NONE;
    }
}

void timeline_builder_token(struct timeline_builder *b, const struct trace_token *r, size_t n) {
    struct token_columns *c = &b->tokens;
    take_records(b, TRACE_TOKEN, n);
    for (size_t j = 0; j < n; j++, r++) {
        size_t i = c->n++;
        c->time_ns[i] = r->time_ns;
        c->request[i] = r->request;
        c->count[i] = r->count;
        c->thread[i] = build_thread(b, r->thread);
        c->kind[i] = (uint8_t)(r->token_kind == TRACE_TOKEN_MADE ? TRACE_TOKEN_MADE : TRACE_TOKEN_CONSUMED);
    }
}

void timeline_builder_replay(struct timeline_builder *b, const struct trace_replay *r, size_t n) {
    struct replay_columns *c = &b->replays;
    take_records(b, TRACE_REPLAY, n);
    for (size_t j = 0; j < n; j++, r++) {
        if (!check_times(b, r->start_ns, r->end_ns)) continue;
        size_t i = c->n++;
        c->start_ns[i] = r->start_ns;
        c->end_ns[i] = r->end_ns;
        c->graph[i] = r->graph;
        c->thread[i] = build_thread(b, r->thread);
        c->detach[i] = r->detach;
    }
}

void timeline_builder_model_file(struct timeline_builder *b, const struct trace_model_file *r, size_t n) {
    struct model_file_columns *c = &b->model_files;
    uint32_t process = take_records(b, TRACE_MODEL_FILE, n);
    for (size_t j = 0; j < n; j++, r++) {
        size_t i = c->n++;
        struct trace_model_file *f = &c->v[i];
        *f = *r;
        f->path = text_or_none(b, r->path);
        f->format = text_or_none(b, r->format);
        f->text = text_or_none(b, r->text);
        c->time_ns[i] = r->time_ns;
        c->process[i] = process;
    }
}

void timeline_builder_memory(struct timeline_builder *b, const struct trace_memory *r, size_t n) {
    struct memory_columns *c = &b->memories;
    uint32_t process = take_records(b, TRACE_MEMORY, n);
    for (size_t j = 0; j < n; j++, r++) {
        if (r->memory_kind >= TRACE_MEMORY_KIND_END || r->action >= TRACE_MEMORY_ACTION_END) continue;
        size_t i = c->n++;
        c->time_ns[i] = r->time_ns;
        c->address[i] = r->address;
        c->bytes[i] = r->bytes;
        c->device[i] = r->device == TRACE_UNKNOWN_U32 ? TIMELINE_NONE : build_device(b, process, r->device);
        c->process[i] = process;
        c->kind[i] = (uint8_t)r->memory_kind;
        c->action[i] = (uint8_t)r->action;
    }
}

void timeline_builder_collective(struct timeline_builder *b, const struct trace_collective *r, size_t n) {
    struct collective_columns *c = &b->collectives;
    uint32_t process = take_records(b, TRACE_COLLECTIVE, n);
    for (size_t j = 0; j < n; j++, r++) {
        if (!check_times(b, r->start_ns, r->end_ns)) continue;
        size_t i = c->n++;
        struct trace_collective *v = &c->v[i];
        *v = *r;
        if (v->op >= TRACE_OP_END) v->op = TRACE_OP_UNKNOWN;
        if (v->kernel_end_ns < v->kernel_start_ns) v->flags &= ~(uint32_t)TRACE_COLLECTIVE_KERNEL_TIMES;
        v->communicator_name = text_or_none(b, r->communicator_name);
        v->name = text_or_none(b, r->name);
        v->data_type = text_or_none(b, r->data_type);
        v->algorithm = text_or_none(b, r->algorithm);
        v->protocol = text_or_none(b, r->protocol);
        c->start_ns[i] = r->start_ns;
        c->end_ns[i] = r->end_ns;
        c->process[i] = process;
        c->thread[i] = r->thread == TRACE_UNKNOWN_U32 ? TIMELINE_NONE : build_thread(b, r->thread);
        c->launch[i] = c->range[i] = c->kernel[i] = TIMELINE_NONE;
    }
}
