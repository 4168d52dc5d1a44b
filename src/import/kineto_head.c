#include "import/kineto_head.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"

/* deviceProperties key -> meta key after "device.N." */
static const char *const device_keys[][2] = {
    { "name", "name" },
    { "totalGlobalMem", "memory_bytes" },
    { "maxThreadsPerMultiprocessor", "max_threads_per_sm" },
    { "maxThreadsPerMultiProcessor", "max_threads_per_sm" },
    { "regsPerMultiprocessor", "regs_per_sm" },
    { "sharedMemPerMultiprocessor", "smem_per_sm_bytes" },
    { "warpSize", "warp_size" },
    { "numSms", "sms" },
    { "uuid", "uuid" },
};

struct device {
    char texts[COUNTOF(device_keys)][128];
    char id[16], major[16], minor[16];
};

static void keep_text(char *out, size_t cap, const struct json_pull *j) {
    snprintf(out, cap, "%.*s", (int)MIN(j->len, cap - 1), j->text);
}

static void device_member(struct device *d, const char *key, const struct json_pull *j) {
    for (size_t i = 0; i < COUNTOF(device_keys); i++)
        if (strcmp(key, device_keys[i][0]) == 0) keep_text(d->texts[i], sizeof d->texts[i], j);
    if (strcmp(key, "id") == 0) keep_text(d->id, sizeof d->id, j);
    if (strcmp(key, "computeMajor") == 0) keep_text(d->major, sizeof d->major, j);
    if (strcmp(key, "computeMinor") == 0) keep_text(d->minor, sizeof d->minor, j);
}

static void write_device(struct sink *sink, const struct device *d) {
    uint64_t id;
    char key[64];
    if (!json_to_u64(d->id, strlen(d->id), &id) || id > 4096) return;
    for (size_t i = 0; i < COUNTOF(device_keys); i++) {
        snprintf(key, sizeof key, "device.%u.%s", (unsigned)id, device_keys[i][1]);
        if (d->texts[i][0]) sink_meta(sink, key, "%s", d->texts[i]);
    }
    snprintf(key, sizeof key, "device.%u.cc", (unsigned)id);
    if (d->major[0]) sink_meta(sink, key, "%s.%s", d->major, d->minor[0] ? d->minor : "0");
}

/* Calls `call` for each string and number of the current object. Skips other values. */
static void each_scalar(struct json_pull *j, void (*call)(void *, const char *, const struct json_pull *),
                        void *ctx) {
    char key[64];
    while (json_pull_next(j) == JSON_KEY) {
        keep_text(key, sizeof key, j);
        enum json_token tok = json_pull_raw(j);
        if (tok <= JSON_END) return;
        if (tok == JSON_STRING || tok == JSON_NUMBER) call(ctx, key, j);
    }
}

static void device_call(void *ctx, const char *key, const struct json_pull *j) { device_member(ctx, key, j); }

static void take_devices(struct sink *sink, const char *text, size_t len) {
    struct json_pull j;
    json_pull_memory(&j, text, len);
    if (json_pull_next(&j) != JSON_ARRAY) return;
    for (int i = 0; i < 1024 && json_pull_next(&j) == JSON_OBJECT; i++) {
        struct device d = { 0 };
        each_scalar(&j, device_call, &d);
        write_device(sink, &d);
    }
}

static void job_call(struct kineto_info *info, const char *key, const struct json_pull *j) {
    uint64_t v;
    if (!json_to_u64(j->text, j->len, &v) || v > 1u << 24) return;
    if (strcmp(key, "rank") == 0) info->rank = (int64_t)v;
    if (strcmp(key, "world_size") == 0) info->world_size = (int64_t)v;
}

/* A process group. */
struct group {
    char name[128], description[128], ranks[4096]; /* "0,1,2"; empty: unknown */
    uint64_t size;                                 /* 0: unknown */
};

static void add_ranks(struct group *g, const char *text, size_t len) {
    struct json_pull j;
    size_t used = 0, n = 0;
    json_pull_memory(&j, text, len);
    if (json_pull_next(&j) != JSON_ARRAY) return;
    for (; json_pull_next(&j) == JSON_NUMBER; n++) {
        if (used + j.len + 2 > sizeof g->ranks) used = 0; /* too many: list is unknown */
        if (n && !used) continue;
        used += (size_t)snprintf(g->ranks + used, sizeof g->ranks - used, "%s%.*s", n ? "," : "", (int)j.len,
                                 j.text);
    }
    if (!used) g->ranks[0] = '\0';
    if (!g->size) g->size = n;
}

static void read_group(struct json_pull *j, struct group *g) {
    char key[64];
    while (json_pull_next(j) == JSON_KEY) {
        keep_text(key, sizeof key, j);
        enum json_token tok = json_pull_raw(j);
        if (tok <= JSON_END) return;
        if (strcmp(key, "pg_name") == 0 && tok == JSON_STRING) keep_text(g->name, sizeof g->name, j);
        if (strcmp(key, "pg_desc") == 0 && tok == JSON_STRING)
            keep_text(g->description, sizeof g->description, j);
        if (strcmp(key, "pg_size") == 0 && tok == JSON_NUMBER) json_to_u64(j->text, j->len, &g->size);
        if (strcmp(key, "ranks") == 0 && tok == JSON_ARRAY) add_ranks(g, j->text, j->len);
    }
}

static void write_group(struct sink *sink, unsigned number, const struct group *g) {
    char key[64];
    bool described = g->description[0] && strcmp(g->description, "undefined") != 0;
    snprintf(key, sizeof key, "group.%u.name", number);
    sink_meta(sink, key, "%s", described ? g->description : g->name);
    snprintf(key, sizeof key, "group.%u.size", number);
    if (g->size) sink_meta(sink, key, "%llu", (unsigned long long)g->size);
    snprintf(key, sizeof key, "group.%u.ranks", number);
    if (g->ranks[0]) sink_meta(sink, key, "%s", g->ranks);
}

/* "pg_config": [{"pg_name": "1", "pg_desc": "mesh_tp", "pg_size": 2, "ranks": [0, 1]}, ...] */
static void take_groups(struct sink *sink, const char *text, size_t len) {
    struct json_pull j;
    json_pull_memory(&j, text, len);
    if (json_pull_next(&j) != JSON_ARRAY) return;
    for (unsigned i = 0; i < 256 && json_pull_next(&j) == JSON_OBJECT; i++) {
        struct group g = { .size = 0 };
        read_group(&j, &g);
        write_group(sink, i, &g);
    }
}

static void take_job(struct sink *sink, struct kineto_info *info, const char *text, size_t len) {
    struct json_pull j;
    char key[64];
    json_pull_memory(&j, text, len);
    if (json_pull_next(&j) != JSON_OBJECT) return;
    while (json_pull_next(&j) == JSON_KEY) {
        keep_text(key, sizeof key, &j);
        enum json_token tok = json_pull_raw(&j);
        if (tok <= JSON_END) return;
        if (tok == JSON_STRING || tok == JSON_NUMBER) job_call(info, key, &j);
        if (tok == JSON_ARRAY && strcmp(key, "pg_config") == 0) take_groups(sink, j.text, j.len);
    }
}

/* 12040 becomes 12.4 */
static void take_version(struct sink *sink, const char *key, const char *text, size_t len) {
    uint64_t v;
    if (json_to_u64(text, len, &v) && v >= 1000 && v < 1000000)
        sink_meta(sink, key, "%u.%u", (unsigned)(v / 1000), (unsigned)(v % 1000 / 10));
}

void kineto_head_member(struct sink *sink, struct kineto_info *info, const char *key, const char *text,
                        size_t len) {
    static const char *const copied[][2] = {
        { "cupti_version", "cupti.version" },         { "host_name", "host" },
        { "record_shapes", "setting.record_shapes" }, { "with_stack", "setting.with_stack" },
        { "with_flops", "setting.with_flops" },       { "profile_memory", "setting.profile_memory" },
        { "trace_id", "setting.trace_id" },           { "roctracer_version", "setting.roctracer_version" },
    };
    if (strcmp(key, "deviceProperties") == 0) take_devices(sink, text, len);
    if (strcmp(key, "distributedInfo") == 0) take_job(sink, info, text, len);
    if (strcmp(key, "cuda_runtime_version") == 0) take_version(sink, "cuda.runtime", text, len);
    if (strcmp(key, "cuda_driver_version") == 0) take_version(sink, "cuda.driver", text, len);
    if (strcmp(key, "baseTimeNanoseconds") == 0)
        info->has_base = json_to_scaled(text, len, 0, &info->base_ns) && info->base_ns >= 0;
    for (size_t i = 0; i < COUNTOF(copied); i++)
        if (strcmp(key, copied[i][0]) == 0)
            sink_meta(sink, copied[i][1], "%.*s", (int)MIN(len, (size_t)500), text);
}
