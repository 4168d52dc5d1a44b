/* Time per kernel launch and per replay of a CUDA graph, measured by the program itself. Run it with and
 * without the collector to get the collector's overhead. Needs a driver, but no CUDA toolkit:
 *     cc -O2 -o launch_cost tests/gpu/launch_cost.c -ldl && ./launch_cost [NODES] [REPLAYS]
 * Prints one line of JSON: medians in microseconds. `replay_us` has the median of each eighth of the replays;
 * a replay ends when its stream is synchronised. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH 500
#define BATCHES 40
#define PARTS 8

static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry spin(.param .u32 n) {\n"
    " .reg .u32 %r<4>; .reg .pred %p;\n"
    " ld.param.u32 %r1, [n]; mov.u32 %r2, %clock;\n"
    "L: mov.u32 %r3, %clock; sub.u32 %r3, %r3, %r2; setp.lt.u32 %p, %r3, %r1; @%p bra L;\n"
    " ret; }\n";

static void *driver;
static void *symbol(const char *name) {
    void *f = dlsym(driver, name);
    if (!f) {
        fprintf(stderr, "libcuda.so.1 lacks %s\n", name);
        exit(1);
    }
    return f;
}
static void check(int rc, const char *call) {
    if (rc == 0) return;
    fprintf(stderr, "%s returned %d\n", call, rc);
    exit(1);
}
/* DRIVER(name, parameter types)(arguments) calls a function of the driver. */
#define DRIVER(name, types) ((int(*) types)(uintptr_t)symbol(name))

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median(double *v, size_t n) {
    qsort(v, n, sizeof *v, by_value);
    return n ? v[n / 2] : 0;
}

struct gpu {
    void *function, *stream, *exec;
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                  void **, void **);
    int (*launch_graph)(void *, void *);
    int (*synchronize)(void *);
};

static void open_gpu(struct gpu *g) {
    int device;
    void *context, *module;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    check(DRIVER("cuInit", (unsigned))(0), "cuInit");
    check(DRIVER("cuDeviceGet", (int *, int))(&device, 0), "cuDeviceGet");
    check(DRIVER("cuDevicePrimaryCtxRetain", (void **, int))(&context, device), "cuDevicePrimaryCtxRetain");
    check(DRIVER("cuCtxSetCurrent", (void *))(context), "cuCtxSetCurrent");
    check(DRIVER("cuModuleLoadData", (void **, const void *))(&module, ptx), "cuModuleLoadData");
    check(DRIVER("cuModuleGetFunction", (void **, void *, const char *))(&g->function, module, "spin"),
          "cuModuleGetFunction");
    check(DRIVER("cuStreamCreate", (void **, unsigned))(&g->stream, 1), "cuStreamCreate");
    *(void **)&g->launch = symbol("cuLaunchKernel");
    *(void **)&g->launch_graph = symbol("cuGraphLaunch");
    *(void **)&g->synchronize = symbol("cuStreamSynchronize");
}

static void launch(const struct gpu *g, unsigned cycles) {
    void *args[] = { &cycles };
    check(g->launch(g->function, 1, 1, 1, 32, 1, 1, 0, g->stream, args, NULL), "cuLaunchKernel");
}

static double launch_us(const struct gpu *g) {
    double v[BATCHES];
    for (int b = 0; b < BATCHES; b++) {
        double before = now_us();
        for (int i = 0; i < BATCH; i++) launch(g, 100);
        v[b] = (now_us() - before) / BATCH;
        check(g->synchronize(g->stream), "cuStreamSynchronize");
    }
    return median(v, BATCHES);
}

static void make_graph(struct gpu *g, int nodes) {
    void *graph;
    check(DRIVER("cuStreamBeginCapture_v2", (void *, int))(g->stream, 1), "cuStreamBeginCapture");
    for (int i = 0; i < nodes; i++) launch(g, 4000);
    check(DRIVER("cuStreamEndCapture", (void *, void **))(g->stream, &graph), "cuStreamEndCapture");
    check(DRIVER("cuGraphInstantiateWithFlags", (void **, void *, unsigned long long))(&g->exec, graph, 0),
          "cuGraphInstantiateWithFlags");
}

int main(int argc, char **argv) {
    int nodes = argc > 1 ? atoi(argv[1]) : 260, replays = argc > 2 ? atoi(argv[2]) : 800;
    struct gpu g;
    double *whole = calloc((size_t)replays + 1, sizeof *whole),
           *calls = calloc((size_t)replays + 1, sizeof *calls);
    if (!whole || !calls || replays < PARTS) return 1;
    open_gpu(&g);
    double eager = launch_us(&g);
    make_graph(&g, nodes);
    for (int i = 0; i < replays; i++) {
        double before = now_us();
        check(g.launch_graph(g.exec, g.stream), "cuGraphLaunch");
        calls[i] = now_us() - before;
        check(g.synchronize(g.stream), "cuStreamSynchronize");
        whole[i] = now_us() - before;
    }
    printf("{\"launch_us\": %.3f, \"replay_us\": [", eager);
    int n = replays / PARTS;
    for (int p = 0; p < PARTS; p++) printf("%s%.1f", p ? ", " : "", median(whole + p * n, (size_t)n));
    printf("], \"graph_launch_us\": [");
    for (int p = 0; p < PARTS; p++) printf("%s%.1f", p ? ", " : "", median(calls + p * n, (size_t)n));
    printf("], \"launch_again_us\": %.3f}\n", launch_us(&g));
    free(whole);
    free(calls);
    return 0;
}
