/* make_ranks DIR [key=value...]: writes the traces of a simulated job, one per rank, and DIR/truth.json with
 * the times that were simulated. Equal arguments give equal files. Used by tests and benchmarks.
 *
 * Each step has `layers` layers. A layer is `kernels` kernels that compute and one all-reduce over the ranks
 * of the node; a step ends with one all-reduce over all ranks. An all-reduce moves its bytes when the last
 * rank has started it. Every node has a clock of its own. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/util.h"
#include "trace/writer.h"

#define START_NS 1790000000000000000ull
#define LAUNCH_NS 3000ull  /* from a launch call to the start of its kernel */
#define GAP_NS 1000ull     /* between two kernels */
#define POWER_NS 100000ull /* between two samples of the power */

struct settings {
    double ranks, per_node, steps, layers, kernels;
    double kernel_ns, move_ns, noise; /* noise: spread of kernel durations, a fraction */
    double jitter_ns;                 /* spread of the ends of a collective */
    double offset_ms, drift_ppm;      /* of the nodes' clocks: largest values */
    /* step of a clock: of node step_node (-1: of odd nodes), at step_ms of true time (-1: inside of an
     * all-reduce in the middle of the job) */
    double step_us, step_node, step_ms;
    double slow, slow_percent;      /* this rank's kernels take longer; -1: none */
    double lazy, lazy_us;           /* this rank launches each layer later; -1: none */
    double busy, busy_percent;      /* this rank has more tokens and larger kernels; -1: none */
    double hide;                    /* share of an all-reduce that another kernel hides */
    double missing, killed;         /* this rank has no trace; its trace is not closed; -1: none */
    double from, to, seed;          /* ranks to write */
    double collectives;             /* 0: no collective records, only kernels */
    double slow_link, link_percent; /* collectives of this node take longer; -1: none */
    double rotate_percent;          /* in step s, rank s mod ranks has larger kernels */
    double rotate_tokens;           /* 1: and more tokens */
    double exchange;                /* 1: layers end with an all-to-all instead of an all-reduce */
    double pipeline;                /* 1: each rank of a node computes after the one before it */
    double power, throttled; /* 1: a file of power records per node; this rank's SM clock is 30% lower */
    double experts, experts_percent; /* odd kernels are of experts; they take longer on this rank; -1: none */
    double extra, extra_kernels;     /* this rank runs further kernels in each layer; -1: none */
    double late, late_steps;         /* this rank is recorded only from this step on; -1: none */
    double prompt; /* above 0: the first step is a prefill of this many tokens; the GPUs are H200s */
};
static struct settings set = { .ranks = 8,
                               .per_node = 8,
                               .steps = 10,
                               .layers = 4,
                               .kernels = 8,
                               .kernel_ns = 20000,
                               .move_ns = 30000,
                               .noise = 0.02,
                               .jitter_ns = 500,
                               .slow = -1,
                               .lazy = -1,
                               .busy = -1,
                               .missing = -1,
                               .killed = -1,
                               .to = 1e9,
                               .seed = 1,
                               .slow_link = -1,
                               .throttled = -1,
                               .experts = -1,
                               .extra = -1,
                               .late = -1,
                               .collectives = 1,
                               .step_node = -1,
                               .step_ms = -1 };

#define KEY(name) \
    { #name, offsetof(struct settings, name) }
static const struct {
    const char *name;
    size_t offset;
} keys[] = { KEY(ranks),
             KEY(per_node),
             KEY(steps),
             KEY(layers),
             KEY(kernels),
             KEY(kernel_ns),
             KEY(move_ns),
             KEY(noise),
             KEY(jitter_ns),
             KEY(offset_ms),
             KEY(drift_ppm),
             KEY(step_us),
             KEY(step_node),
             KEY(step_ms),
             KEY(slow),
             KEY(slow_percent),
             KEY(lazy),
             KEY(lazy_us),
             KEY(busy),
             KEY(busy_percent),
             KEY(hide),
             KEY(missing),
             KEY(killed),
             KEY(from),
             KEY(to),
             KEY(seed),
             KEY(collectives),
             KEY(slow_link),
             KEY(link_percent),
             KEY(rotate_percent),
             KEY(rotate_tokens),
             KEY(exchange),
             KEY(pipeline),
             KEY(power),
             KEY(throttled),
             KEY(experts),
             KEY(experts_percent),
             KEY(extra),
             KEY(extra_kernels),
             KEY(late),
             KEY(late_steps),
             KEY(prompt) };

static int read_setting(const char *text) {
    const char *equals = strchr(text, '=');
    for (size_t i = 0; equals && i < COUNTOF(keys); i++)
        if (strlen(keys[i].name) == (size_t)(equals - text) &&
            strncmp(keys[i].name, text, strlen(keys[i].name)) == 0) {
            *(double *)(void *)((char *)&set + keys[i].offset) = strtod(equals + 1, NULL);
            return 0;
        }
    fprintf(stderr, "make_ranks: unknown setting '%s'\n", text);
    return -1;
}

/* A number in [0, 1) for an event of a rank. */
static double chance(uint64_t what, uint64_t rank, uint64_t index) {
    uint64_t h = hash_u64(hash_u64(hash_u64((uint64_t)set.seed * 1000003 + what) + rank) + index);
    return (double)(h >> 11) / 9007199254740992.0;
}

/* ---- the simulated job; all times are true times since START_NS */

static bool is_turn(uint64_t rank, uint64_t step) {
    return set.rotate_percent > 0 && rank == step % (uint64_t)set.ranks;
}

static uint64_t kernel_ns(uint64_t rank, uint64_t index) {
    double ns = set.kernel_ns * (1 + set.noise * (2 * chance(1, rank, index) - 1));
    if (rank == set.slow) ns *= 1 + set.slow_percent / 100;
    if (rank == set.experts && index % (uint64_t)set.kernels % 2) ns *= 1 + set.experts_percent / 100;
    if (rank == set.busy) ns *= 1 + set.busy_percent / 100;
    if (is_turn(rank, index / (uint64_t)(set.kernels * set.layers))) ns *= 1 + set.rotate_percent / 100;
    return (uint64_t)ns;
}

static uint64_t move_ns(uint64_t node) {
    return (uint64_t)(set.move_ns * (node == set.slow_link ? 1 + set.link_percent / 100 : 1));
}

static uint64_t extra_kernels(uint64_t rank) { return rank == set.extra ? (uint64_t)set.extra_kernels : 0; }

/* Time from the start of a layer to the start of its all-reduce. */
static uint64_t layer_ns(uint64_t rank, uint64_t layer) {
    uint64_t ns = rank == set.lazy ? (uint64_t)(set.lazy_us * 1000) : 0;
    for (uint64_t k = 0; k < (uint64_t)set.kernels; k++)
        ns += kernel_ns(rank, layer * (uint64_t)set.kernels + k) + GAP_NS;
    return ns + extra_kernels(rank) * ((uint64_t)set.kernel_ns + GAP_NS) + LAUNCH_NS;
}

static uint64_t end_jitter(uint64_t rank, uint64_t collective) {
    return (uint64_t)(set.jitter_ns * chance(2, rank, collective));
}

static uint64_t node_of(uint64_t rank) { return rank / (uint64_t)set.per_node; }

/* When the last rank arrived, for every all-reduce: [node][layer] and [step] for all ranks. */
struct schedule {
    uint64_t layers, steps, nodes, ranks;
    uint64_t *node_last; /* [nodes x layers] */
    uint64_t *all_last;  /* [steps] */
};

static bool has_world(const struct schedule *s) { return s->nodes > 1; }

static void simulate(struct schedule *s) {
    s->ranks = (uint64_t)set.ranks;
    s->nodes = (s->ranks + (uint64_t)set.per_node - 1) / (uint64_t)set.per_node;
    s->steps = (uint64_t)set.steps;
    s->layers = s->steps * (uint64_t)set.layers;
    s->node_last = calloc(s->nodes * s->layers + 1, sizeof *s->node_last);
    s->all_last = calloc(s->steps + 1, sizeof *s->all_last);
    uint64_t *now = calloc(s->ranks + 1, sizeof *now);
    for (uint64_t layer = 0; layer < s->layers; layer++) {
        for (uint64_t r = 0; r < s->ranks; r++) {
            uint64_t *last = &s->node_last[node_of(r) * s->layers + layer];
            *last = MAX(*last, now[r] + layer_ns(r, layer));
        }
        for (uint64_t r = 0; r < s->ranks; r++)
            now[r] = s->node_last[node_of(r) * s->layers + layer] + move_ns(node_of(r)) +
                     end_jitter(r, 2 * layer) + GAP_NS;
        if ((layer + 1) % (uint64_t)set.layers || !has_world(s)) continue;
        uint64_t step = layer / (uint64_t)set.layers;
        for (uint64_t r = 0; r < s->ranks; r++)
            s->all_last[step] = MAX(s->all_last[step], now[r] + LAUNCH_NS);
        for (uint64_t r = 0; r < s->ranks; r++)
            now[r] = s->all_last[step] + (uint64_t)set.move_ns + end_jitter(r, 2 * layer + 1) + GAP_NS;
    }
    free(now);
}

/* ---- clocks */

static double clock_offset(uint64_t node) {
    return node ? set.offset_ms * 1e6 * (2 * chance(3, node, 0) - 1) : 0;
}
static double clock_drift(uint64_t node) {
    return node ? set.drift_ppm * 1e-6 * (2 * chance(4, node, 0) - 1) : 0;
}
static double clock_step(uint64_t node) {
    return (set.step_node < 0 ? node % 2 == 1 : node == set.step_node) ? set.step_us * 1000 : 0;
}

static uint64_t step_time(const struct schedule *s, uint64_t node) {
    return set.step_ms < 0 ? s->node_last[node * s->layers + s->layers / 2] : (uint64_t)(set.step_ms * 1e6);
}

/* The time that the node's clock shows. */
static uint64_t shown(const struct schedule *s, uint64_t node, uint64_t ns) {
    double off = clock_offset(node) + clock_drift(node) * (double)ns;
    if (ns > step_time(s, node)) off += clock_step(node);
    return START_NS + ns + (uint64_t)(int64_t)llround(off);
}

/* ---- one rank */

struct rank {
    struct trace_writer *w;
    const struct schedule *s;
    uint64_t rank, node, now, correlation, records;
    uint32_t names[16], reduce, pair, hidden, additional, api, step, prefill, domain;
    bool silent; /* nothing is recorded yet */
    double compute_ns, exposed_ns, wait_ns;
};

static void keep_up(struct rank *r) {
    if (++r->records % 100000 == 0) trace_writer_flush(r->w, 60000);
}

static void put_kernel(struct rank *r, uint32_t name, uint32_t stream, uint64_t start, uint64_t end) {
    uint64_t called = start - LAUNCH_NS, id = ++r->correlation;
    if (r->silent) return;
    struct trace_launch l = { .start_ns = shown(r->s, r->node, called),
                              .end_ns = shown(r->s, r->node, called + 2000),
                              .correlation = id,
                              .thread = 1,
                              .api = r->api };
    struct trace_kernel k = { .start_ns = shown(r->s, r->node, start),
                              .end_ns = shown(r->s, r->node, end),
                              .correlation = id,
                              .device = 0,
                              .context = 1,
                              .stream = stream,
                              .name = name,
                              .grid_x = 132,
                              .grid_y = 1,
                              .grid_z = 1,
                              .block_x = 256,
                              .block_y = 1,
                              .block_z = 1 };
    trace_writer_launch(r->w, &l, 1);
    trace_writer_kernel(r->w, &k, 1);
    keep_up(r);
}

static void put_collective(struct rank *r, uint64_t start, uint64_t end, uint64_t comm, uint64_t sequence,
                           uint32_t place, uint32_t size) {
    if (!set.collectives || r->silent) return;
    struct trace_collective c = trace_collective_unknown(shown(r->s, r->node, start - LAUNCH_NS));
    c.end_ns = c.start_ns + 2000;
    c.kernel_start_ns = shown(r->s, r->node, start);
    c.kernel_end_ns = shown(r->s, r->node, end);
    c.flags = TRACE_COLLECTIVE_KERNEL_TIMES;
    c.sequence = sequence;
    c.correlation = r->correlation;
    c.communicator = comm;
    c.bytes = 8 << 20;
    c.op = set.exchange && comm != 1 ? TRACE_OP_ALL_TO_ALL : TRACE_OP_ALL_REDUCE;
    c.thread = 1;
    c.rank = place;
    c.size = size;
    c.data_type = trace_writer_str(r->w, "bf16");
    trace_writer_collective(r->w, &c, 1);
}

/* The part of [from, to) that [a, b) does not cover. */
static double uncovered(uint64_t from, uint64_t to, uint64_t a, uint64_t b) {
    if (to <= from) return 0;
    uint64_t first = MAX(from, a), last = MIN(to, b);
    return (double)(to - from) - (last > first ? (double)(last - first) : 0);
}

static void all_reduce(struct rank *r, uint64_t start, uint64_t last, uint64_t end, uint64_t comm,
                       uint64_t sequence, uint32_t place, uint32_t size) {
    uint64_t hide = (uint64_t)((double)(end - start) * set.hide), from = start + 4000, to = from + hide;
    put_kernel(r, r->reduce, 20, start, end);
    put_collective(r, start, end, comm, sequence, place, size);
    if (hide) put_kernel(r, r->hidden, 7, from, MIN(to, end));
    if (!hide) from = to = end;
    to = MIN(to, end);
    r->compute_ns += (double)(to - from);
    r->exposed_ns += uncovered(start, end, from, to);
    r->wait_ns += uncovered(start, last, from, to);
    r->now = end + GAP_NS;
}

static void write_layer(struct rank *r, uint64_t layer) {
    uint64_t t = r->now + LAUNCH_NS + (r->rank == set.lazy ? (uint64_t)(set.lazy_us * 1000) : 0);
    for (uint64_t k = 0; k < (uint64_t)set.kernels; k++) {
        uint64_t ns = kernel_ns(r->rank, layer * (uint64_t)set.kernels + k);
        put_kernel(r, r->names[k % COUNTOF(r->names)], 7, t, t + ns);
        r->compute_ns += (double)ns;
        t += ns + GAP_NS;
    }
    for (uint64_t k = 0; k < extra_kernels(r->rank); k++, t += (uint64_t)set.kernel_ns + GAP_NS) {
        put_kernel(r, r->additional, 7, t, t + (uint64_t)set.kernel_ns);
        r->compute_ns += (uint64_t)set.kernel_ns;
    }
    uint64_t last = r->s->node_last[r->node * r->s->layers + layer];
    uint32_t first = (uint32_t)(r->node * (uint64_t)set.per_node);
    all_reduce(r, t, last, last + move_ns(r->node) + end_jitter(r->rank, 2 * layer), 1000 + r->node, layer,
               (uint32_t)r->rank - first, (uint32_t)MIN((uint64_t)set.per_node, r->s->ranks - first));
}

static void write_step(struct rank *r, uint64_t step) {
    uint64_t began = r->now;
    r->silent = r->rank == set.late && step < set.late_steps;
    for (uint64_t l = 0; l < (uint64_t)set.layers; l++) write_layer(r, step * (uint64_t)set.layers + l);
    if (has_world(r->s)) {
        uint64_t last = r->s->all_last[step], layer = (step + 1) * (uint64_t)set.layers - 1;
        all_reduce(r, r->now + LAUNCH_NS, last,
                   last + (uint64_t)set.move_ns + end_jitter(r->rank, 2 * layer + 1), 1, step,
                   (uint32_t)r->rank, (uint32_t)r->s->ranks);
    }
    struct trace_range range = { .start_ns = shown(r->s, r->node, began),
                                 .end_ns = shown(r->s, r->node, r->now - GAP_NS / 2),
                                 .thread = 1,
                                 .category = TRACE_CATEGORY_STAGE,
                                 .name = r->step,
                                 .domain = r->domain,
                                 .flops = NAN,
                                 .bytes = NAN,
                                 .payload = NAN };
    bool prefill = set.prompt > 0 && step == 0;
    if (prefill) range.name = r->prefill;
    uint32_t tokens = set.prompt > 0        ? 1
                      : r->rank == set.busy ? (uint32_t)(32 * (1 + set.busy_percent / 100))
                                            : 32;
    if (set.rotate_tokens && is_turn(r->rank, step)) tokens = (uint32_t)(32 * (1 + set.rotate_percent / 100));
    struct trace_token token = { .time_ns = range.start_ns + 1000,
                                 .count = tokens,
                                 .token_kind = TRACE_TOKEN_MADE,
                                 .request = step + 1,
                                 .thread = 1 };
    if (r->silent) {
        r->compute_ns = r->exposed_ns = r->wait_ns = 0;
        return;
    }
    trace_writer_range(r->w, &range, 1);
    trace_writer_token(r->w, &token, 1);
    token.count = (uint32_t)set.prompt;
    token.token_kind = TRACE_TOKEN_CONSUMED;
    if (prefill) trace_writer_token(r->w, &token, 1);
}

/* ---- a pipeline: stage p computes, sends to stage p + 1, and waits for the next step in a receive kernel */

static void put_pair(struct rank *r, uint64_t start, uint64_t end, uint64_t first, bool sends,
                     uint64_t step) {
    put_kernel(r, r->pair, 20, start, end);
    struct trace_collective c = trace_collective_unknown(shown(r->s, r->node, start - LAUNCH_NS));
    c.end_ns = c.start_ns + 2000;
    c.kernel_start_ns = shown(r->s, r->node, start);
    c.kernel_end_ns = shown(r->s, r->node, end);
    c.flags = TRACE_COLLECTIVE_KERNEL_TIMES;
    c.sequence = step;
    c.correlation = r->correlation;
    c.communicator = 5000 + first;
    c.bytes = 1 << 20;
    c.op = sends ? TRACE_OP_SEND : TRACE_OP_RECV;
    c.thread = 1;
    c.rank = sends ? 0 : 1;
    c.peer = sends ? 1 : 0;
    c.size = 2;
    trace_writer_collective(r->w, &c, 1);
}

static void put_stage(struct rank *r, uint64_t start, uint64_t end) {
    struct trace_range range = { .start_ns = shown(r->s, r->node, start),
                                 .end_ns = shown(r->s, r->node, end),
                                 .thread = 1,
                                 .category = TRACE_CATEGORY_STAGE,
                                 .name = r->step,
                                 .domain = r->domain,
                                 .flops = NAN,
                                 .bytes = NAN,
                                 .payload = NAN };
    trace_writer_range(r->w, &range, 1);
}

/* One step of a pipeline takes stages x (work + move). */
static void write_pipeline_step(struct rank *r, uint64_t step) {
    uint64_t place = r->rank % (uint64_t)set.per_node, n = (uint64_t)(set.layers * set.kernels);
    uint64_t each = (uint64_t)set.kernel_ns + GAP_NS, work = n * each, move = (uint64_t)set.move_ns;
    uint64_t step_ns = (uint64_t)set.per_node * (work + move), began = 100000 + step * step_ns;
    uint64_t t = began + place * (work + move);
    if (place) put_pair(r, MAX(r->now, began) + LAUNCH_NS, t - GAP_NS / 2, r->rank - 1, false, step);
    for (uint64_t k = 0; k < n; k++, t += each)
        put_kernel(r, r->names[k % COUNTOF(r->names)], 7, t, t + each - GAP_NS);
    if (place + 1 < (uint64_t)set.per_node) put_pair(r, t, t + move - GAP_NS / 2, r->rank, true, step);
    r->now = t + move;
    put_stage(r, began, began + step_ns - 1);
}

static void write_meta(struct rank *r) {
    trace_writer_meta(r->w, "host", "node%llu", (unsigned long long)r->node);
    trace_writer_meta(r->w, "node", "node%llu", (unsigned long long)r->node);
    trace_writer_meta(r->w, "rank", "%llu", (unsigned long long)r->rank);
    trace_writer_meta(r->w, "world_size", "%llu", (unsigned long long)r->s->ranks);
    trace_writer_meta(r->w, "local_rank", "%llu", (unsigned long long)(r->rank % (uint64_t)set.per_node));
    trace_writer_meta(r->w, "launcher", "simulated");
    trace_writer_meta(r->w, "job", "simulated-%llu", (unsigned long long)set.seed);
    trace_writer_meta(r->w, "process.pid", "%llu", (unsigned long long)(1000 + r->rank));
    trace_writer_meta(r->w, "device.0.name", "%s", set.prompt > 0 ? "NVIDIA H200" : "Simulated GPU");
    trace_writer_meta(r->w, "device.0.uuid", "GPU-%08llx", (unsigned long long)r->rank);
    for (size_t i = 0; i < COUNTOF(r->names); i++) {
        char name[32];
        const char *stem = set.experts >= 0 && i % 2 ? "fused_moe_kernel" : "layer_kernel";
        int n = snprintf(name, sizeof name, "%s_%zu", stem, i);
        r->names[i] = trace_writer_string(r->w, name, (size_t)n);
    }
    r->reduce =
        trace_writer_str(r->w, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)");
    r->pair = trace_writer_str(r->w, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)");
    if (set.exchange) r->reduce = r->pair;
    r->hidden = trace_writer_str(r->w, "prefetch_kernel");
    r->additional = trace_writer_str(r->w, "additional_kernel");
    r->api = trace_writer_str(r->w, "cudaLaunchKernel");
    r->step = trace_writer_str(r->w, "decode");
    r->prefill = trace_writer_str(r->w, "prefill");
    r->domain = trace_writer_str(r->w, "simulated");
}

static int write_rank(const struct schedule *s, const char *dir, uint64_t rank, struct rank *r) {
    char path[4096];
    struct err err;
    *r = (struct rank){ .s = s, .rank = rank, .node = node_of(rank) };
    snprintf(path, sizeof path, "%s/node%llu-%llu.ipt", dir, (unsigned long long)r->node,
             (unsigned long long)(1000 + rank));
    r->w = trace_writer_open(path, &(struct trace_writer_options){ .file_id = 42 + rank }, &err);
    if (!r->w) {
        fprintf(stderr, "make_ranks: %s\n", err.msg);
        return -1;
    }
    write_meta(r);
    for (uint64_t step = 0; step < s->steps; step++)
        (set.pipeline ? write_pipeline_step : write_step)(r, step);
    if (rank == set.killed) {
        trace_writer_flush(r->w, 60000);
        return 0; /* the writer stays open, as in a process that was killed */
    }
    if (trace_writer_close(r->w, &err) == 0) return 0;
    fprintf(stderr, "make_ranks: %s\n", err.msg);
    return -1;
}

/* Writes nvml-NODE.ipt, as `inferprof run` does: the power of all GPUs of the node. */
static int write_power(const struct schedule *s, const char *dir, uint64_t node) {
    char path[4096];
    struct err err;
    uint64_t first = node * (uint64_t)set.per_node, end = s->node_last[(node + 1) * s->layers - 1];
    uint64_t count = MIN((uint64_t)set.per_node, s->ranks - first);
    snprintf(path, sizeof path, "%s/nvml-node%llu.ipt", dir, (unsigned long long)node);
    struct trace_writer *w = trace_writer_open(path, &(struct trace_writer_options){ .file_id = 7 }, &err);
    if (!w) return -1;
    trace_writer_meta(w, "source", "nvml");
    for (uint64_t i = 0; i < count; i++) {
        char key[48];
        snprintf(key, sizeof key, "device.%llu.uuid", (unsigned long long)i);
        trace_writer_meta(w, key, "GPU-%08llx", (unsigned long long)(first + i));
    }
    for (uint64_t ns = POWER_NS; ns < end; ns += POWER_NS)
        for (uint64_t i = 0; i < count; i++) {
            struct trace_power p = { .time_ns = shown(s, node, ns),
                                     .device = (uint32_t)i,
                                     .sm_mhz = first + i == set.throttled ? 1386 : 1980,
                                     .memory_mhz = TRACE_UNKNOWN_U32,
                                     .temperature_c = TRACE_UNKNOWN_U32,
                                     .power_mw = 500000 };
            trace_writer_power(w, &p, 1);
        }
    return trace_writer_close(w, &err);
}

static void print_truth(FILE *out, const struct rank *r, bool first) {
    fprintf(
        out,
        "%s\n{\"rank\": %llu, \"node\": %llu, \"compute_ns\": %.0f, \"exposed_ns\": %.0f, \"wait_ns\": %.0f, "
        "\"clock_offset_ns\": %.3f, \"clock_drift\": %.12g, \"clock_step_ns\": %.0f}",
        first ? "" : ",", (unsigned long long)r->rank, (unsigned long long)r->node, r->compute_ns,
        r->exposed_ns, r->wait_ns, clock_offset(r->node), clock_drift(r->node), clock_step(r->node));
}

int main(int argc, char **argv) {
    struct schedule s;
    char path[4096];
    bool first = true;
    if (argc < 2 || argv[1][0] == '-') {
        fprintf(stderr, "usage: make_ranks DIR [key=value...]\n");
        return 2;
    }
    for (int i = 2; i < argc; i++)
        if (read_setting(argv[i]) < 0) return 2;
    if (mkdir(argv[1], 0777) < 0 && errno != EEXIST) {
        perror(argv[1]);
        return 1;
    }
    simulate(&s);
    snprintf(path, sizeof path, "%s/truth.json", argv[1]);
    FILE *out = fopen(path, "w");
    if (!out) {
        perror(path);
        return 1;
    }
    fprintf(out, "[");
    for (uint64_t rank = (uint64_t)set.from; rank < s.ranks && rank < set.to; rank++) {
        struct rank r;
        if (rank == set.missing) continue;
        if (write_rank(&s, argv[1], rank, &r) < 0) return 1;
        print_truth(out, &r, first);
        first = false;
    }
    fprintf(out, "\n]\n");
    for (uint64_t node = 0; set.power && node < s.nodes; node++)
        if (write_power(&s, argv[1], node) < 0) return 1;
    free(s.node_last);
    free(s.all_last);
    int status = fclose(out) == 0 ? 0 : 1;
    if (set.killed >= 0) _exit(status); /* no leak check: one writer was left open on purpose */
    return status;
}
