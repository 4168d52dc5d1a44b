/* A mock of NCCL: loads the profiler plugin that NCCL_PROFILER_PLUGIN names and calls it as NCCL does, in
 * every version of the interface, and as a broken NCCL would. The descriptors are declared here
 * independently of the collector, member by member as docs/ranks.md lists them. */
#include "mock/nccl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RANKS 4
#define CHANNELS 2
enum { COLL = 2, P2P = 4, KERNEL_CHANNEL = 64, GROUP_API = 256, COLL_API = 512, P2P_API = 1024, CE = 4096 };
#define CHANNEL_STOP 22

/* Up to version 3, events name their communicator. */
struct old_coll {
    const char *comm_name;
    uint64_t comm_hash, sequence;
    const char *function;
    const void *send;
    void *receive;
    size_t count;
    int root;
    const char *type;
};
struct v2_coll {
    struct old_coll c;
    size_t traffic_bytes;
    uint8_t max_channels, warps;
    const char *algorithm, *protocol;
};
struct v3_coll {
    struct old_coll c;
    uint8_t max_channels, warps;
    const char *algorithm, *protocol;
};
struct old_p2p {
    const char *comm_name;
    uint64_t comm_hash;
    const char *function;
    void *buffer;
    const char *type;
    size_t count;
    int peer;
};
struct coll {
    uint64_t sequence;
    const char *function;
    const void *send;
    void *receive;
    size_t count;
    int root;
    const char *type;
    uint8_t channels, warps;
    const char *algorithm, *protocol;
};
struct p2p {
    const char *function;
    void *buffer;
    const char *type;
    size_t count;
    int peer;
    uint8_t channels;
};
struct channel {
    uint8_t id;
    uint64_t timer;
};
struct coll_api {
    const char *function;
    size_t count;
    const char *type;
    int root;
    void *stream;
    bool captured;
};
struct p2p_api {
    const char *function;
    size_t count;
    const char *type;
    void *stream;
    bool captured;
};
struct ce_coll {
    uint64_t sequence;
    const char *function;
    const void *send;
    void *receive;
    size_t count;
    int root;
    const char *type, *sync;
    bool sync_batches;
    uint32_t batch, batches, number;
    void *stream;
};
/* The type has one byte up to version 4, and eight from version 5 on. */
struct descriptor {
    union {
        uint8_t narrow;
        uint64_t wide;
    } type;
    void *parent;
    int rank;
    union {
        struct v2_coll v2;
        struct v3_coll v3;
        struct coll coll;
        struct old_p2p old_p2p;
        struct p2p p2p;
        struct channel channel;
        struct coll_api coll_api;
        struct p2p_api p2p_api;
        struct ce_coll ce;
    } u;
};

struct plugin {
    int version;
    int (*start)(void *, void **, void *), (*stop)(void *), (*state)(void *, int, void *),
        (*finalize)(void *);
    int (*init)(void); /* called with the arguments of the version */
    void *context;
    int mask;
};
struct symbol {
    const char *name;
    int (*init)(void);
    int (*start)(void *, void **, void *);
    int (*stop)(void *);
    int (*state)(void *, int, void *);
    int (*finalize)(void *);
};

static void fail(const char *what) {
    fprintf(stderr, "mock NCCL: %s\n", what);
    exit(91);
}

static int call_init(struct plugin *p, void **context, int *mask, uint64_t hash, const char *name, int rank) {
    int (*v2)(void **, int *);
    int (*v4)(void **, int *, const char *, uint64_t, int, int, int, void *);
    int (*v5)(void **, uint64_t, int *, const char *, int, int, int, void *);
    memcpy(&v2, &p->init, sizeof v2);
    memcpy(&v4, &p->init, sizeof v4);
    memcpy(&v5, &p->init, sizeof v5);
    if (p->version < 4) return v2(context, mask);
    if (p->version == 4) return v4(context, mask, name, hash, 1, RANKS, rank, NULL);
    return v5(context, hash, mask, name, 1, RANKS, rank, NULL);
}

static void load(struct plugin *p, int version) {
    const char *path = getenv("NCCL_PROFILER_PLUGIN");
    char name[32];
    void *lib = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    snprintf(name, sizeof name, "ncclProfiler_v%d", version);
    const struct symbol *s = lib ? dlsym(lib, name) : NULL;
    if (!s || !s->name || !s->init || !s->start || !s->stop || !s->state || !s->finalize) fail(name);
    *p = (struct plugin){ .version = version,
                          .init = s->init,
                          .start = s->start,
                          .stop = s->stop,
                          .state = s->state,
                          .finalize = s->finalize };
}

static int own_rank(void) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank ? atoi(rank) % RANKS : 1;
}

static void set_type(const struct plugin *p, struct descriptor *d, uint64_t type) {
    memset(d, 0, sizeof *d);
    d->rank = own_rank();
    if (p->version < 5)
        d->type.narrow = (uint8_t)type;
    else
        d->type.wide = type;
}

/* The mock's GPU has a clock of its own: 5 s behind the host's. */
static uint64_t gpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec - 5000000000u;
}

static void *start(const struct plugin *p, struct descriptor *d) {
    void *event = &event;
    if (p->start(p->context, &event, d) != 0) fail("startEvent failed");
    return event;
}

static void *call_api(const struct plugin *p, uint64_t type, const char *function, uint64_t count) {
    struct descriptor d;
    if (p->version < 5) return NULL;
    set_type(p, &d, type);
    if (type == COLL_API)
        d.u.coll_api = (struct coll_api){ .function = function, .count = count, .type = "ncclBfloat16" };
    else
        d.u.p2p_api = (struct p2p_api){ .function = function, .count = count, .type = "ncclBfloat16" };
    return start(p, &d);
}

static void *start_coll(const struct plugin *p, const char *function, uint64_t sequence, uint64_t count,
                        void *parent) {
    struct descriptor d;
    set_type(p, &d, COLL);
    d.parent = parent;
    struct old_coll old = { "old comm", 0xc0ffee, sequence, function, NULL, NULL, count, 0, "ncclBfloat16" };
    if (p->version == 2)
        d.u.v2 = (struct v2_coll){ old, 99, CHANNELS, 16, "RING", "SIMPLE" };
    else if (p->version == 3)
        d.u.v3 = (struct v3_coll){ old, CHANNELS, 16, "RING", "SIMPLE" };
    else
        d.u.coll = (struct coll){ .sequence = sequence,
                                  .function = function,
                                  .count = count,
                                  .type = "ncclBfloat16",
                                  .channels = CHANNELS,
                                  .warps = 16,
                                  .algorithm = "RING",
                                  .protocol = "SIMPLE" };
    return start(p, &d);
}

static void *start_p2p(const struct plugin *p, const char *function, int peer, uint64_t count, void *parent) {
    struct descriptor d;
    set_type(p, &d, P2P);
    d.parent = parent;
    if (p->version < 4)
        d.u.old_p2p = (struct old_p2p){ "old comm", 0xc0ffee, function, NULL, "ncclFloat32", count, peer };
    else
        d.u.p2p = (struct p2p){
            .function = function, .type = "ncclFloat32", .count = count, .peer = peer, .channels = CHANNELS
        };
    return start(p, &d);
}

static void *start_channel_at(const struct plugin *p, void *operation, uint8_t id, uint64_t at_ns) {
    struct descriptor d;
    set_type(p, &d, KERNEL_CHANNEL);
    d.parent = operation;
    d.u.channel = (struct channel){ id, at_ns };
    return start(p, &d);
}
static void *start_channel(const struct plugin *p, void *operation, uint8_t id) {
    return start_channel_at(p, operation, id, gpu_ns());
}

static void stop_channel_at(const struct plugin *p, void *channel, uint64_t at_ns) {
    uint64_t args[4] = { at_ns };
    if (p->version >= 4) p->state(channel, CHANNEL_STOP, args);
    p->stop(channel);
}
static void stop_channel(const struct plugin *p, void *channel) { stop_channel_at(p, channel, gpu_ns()); }

/* NCCL's own thread reports the kernel's channels, after the operation was enqueued. */
struct progress {
    const struct plugin *p;
    void *operation;
};
static void *run_channels(void *arg) {
    const struct progress *w = arg;
    void *channels[CHANNELS];
    for (uint8_t i = 0; i < CHANNELS; i++) channels[i] = start_channel(w->p, w->operation, i);
    nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
    for (uint8_t i = 0; i < CHANNELS; i++) stop_channel(w->p, channels[i]);
    return NULL;
}

static void finish_operation(const struct plugin *p, void *operation) {
    pthread_t thread;
    struct progress w = { p, operation };
    p->stop(operation);
    if (p->mask & KERNEL_CHANNEL && pthread_create(&thread, NULL, run_channels, &w) == 0)
        pthread_join(thread, NULL);
}

static void open_comm(struct plugin *p) {
    if (call_init(p, &p->context, &p->mask, 0xc0ffee, "tp_group", own_rank()) != 0) fail("init failed");
    if (!p->context || (p->mask & (COLL | P2P)) != (COLL | P2P)) fail("init gave no context or mask");
}

void mock_nccl_run(int version, int n) {
    struct plugin p;
    load(&p, version);
    open_comm(&p);
    for (int i = 0; i < n; i++) {
        void *call = call_api(&p, COLL_API, "AllReduce", 1000);
        void *operation = start_coll(&p, "AllReduce", (uint64_t)i, 1000, call);
        if (call) p.stop(call);
        finish_operation(&p, operation);
    }
    call_api(&p, P2P_API, "Send", 10);
    finish_operation(&p, start_p2p(&p, "Send", 2, 10, NULL));
    finish_operation(&p, start_p2p(&p, "Send", 2, 10, NULL));
    finish_operation(&p, start_p2p(&p, "Recv", 2, 10, NULL));
    if (p.mask & CE) {
        struct descriptor d;
        set_type(&p, &d, CE);
        d.u.ce = (struct ce_coll){ .sequence = 7, .function = "AllGather", .count = 64, .type = "ncclInt8" };
        p.stop(start(&p, &d));
    }
    p.finalize(p.context);
}

/* ---- a broken NCCL */

void mock_nccl_misbehave(int version) {
    struct plugin p;
    struct descriptor d;
    void *event = NULL;
    load(&p, version);
    p.stop(NULL);
    p.stop((void *)(uintptr_t)0xdeadbeefcafe);
    p.state((void *)(uintptr_t)0x7fffffffffff, CHANNEL_STOP, &d);
    p.finalize(NULL);
    p.finalize((void *)(uintptr_t)3);
    p.start(NULL, &event, &d);
    if (call_init(&p, NULL, NULL, 1, NULL, 0) == 0) fail("init accepted NULL");
    if (call_init(&p, &p.context, &p.mask, 1, NULL, -7) != 0) fail("init refused a nameless communicator");
    p.start(p.context, NULL, NULL);
    p.start(p.context, &event, NULL);
    for (uint64_t type = 1; type; type <<= version < 5 ? 1 : 3) { /* every type, known or not */
        set_type(&p, &d, type);
        p.start(p.context, &event, &d);
        p.state(event, (int)type, NULL);
        p.state(event, CHANNEL_STOP, &d);
        p.stop(event);
        p.stop(event);
        if (version < 5 && type == 128) break;
    }
    void *operation = start_coll(&p, "Frobnicate", 5, UINT64_MAX, (void *)(uintptr_t)0x1234567);
    void *channel = start_channel(&p, operation, 255);
    start_channel(&p, operation, 0); /* never stopped */
    start_channel(&p, channel, 1);   /* a child of a child */
    p.stop(channel);
    p.stop(channel);
    p.stop(operation);
    p.stop(operation);
    operation = start_coll(&p, "Jump", 6, 1, NULL); /* the GPU's clock jumps by 2^64 ns */
    stop_channel_at(&p, start_channel_at(&p, operation, 0, 1), UINT64_MAX);
    p.stop(operation);
    for (int i = 0; i < 10000; i++) start_coll(&p, "AllReduce", (uint64_t)i, 1, NULL); /* never stopped */
    operation = start_coll(&p, NULL, 1, 1, NULL);
    void *stale = p.context;
    p.finalize(p.context);
    p.finalize(stale);
    start_channel(&p, operation, 0); /* after the end */
    p.stop(operation);
    if (start_coll(&p, "AllReduce", 1, 1, NULL)) fail("an event was started after the end");
    for (int i = 0; i < 300; i++) /* more communicators than the plugin has room for; never finalized */
        call_init(&p, &p.context, &p.mask, (uint64_t)i, "leak", 0);
    start_coll(&p, "Broadcast", 1, 1, NULL); /* open at exit */
}

struct worker {
    const struct plugin *p;
    int n;
};
static void *run_worker(void *arg) {
    const struct worker *w = arg;
    for (int i = 0; i < w->n; i++) {
        void *operation = start_coll(w->p, "AllGather", (uint64_t)i, 8, NULL);
        void *channels[CHANNELS];
        bool watched = w->p->mask & KERNEL_CHANNEL;
        for (uint8_t k = 0; watched && k < CHANNELS; k++) channels[k] = start_channel(w->p, operation, k);
        w->p->stop(operation);
        for (uint8_t k = 0; watched && k < CHANNELS; k++) stop_channel(w->p, channels[k]);
    }
    return NULL;
}

void mock_nccl_threads(int version, int threads, int n) {
    struct plugin p;
    pthread_t ids[64];
    load(&p, version);
    open_comm(&p);
    struct worker w = { &p, n };
    if (threads > 64) threads = 64;
    for (int i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, run_worker, &w) != 0) fail("no thread");
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    p.finalize(p.context);
}
