/* libcuda.so.1 for tests: one device whose kernels are run by the interpreter. The engine's own images are
 * not used: kernels are looked up by name in the .ptx files of $INFERPROF_PTX.
 *     INFERPROF_PTX=DIR        files of PTX, all for one architecture
 *     INFERPROF_PTX_ARCH=80    compute capability times ten; 86 and the like have 99 kB of shared memory
 *     INFERPROF_PTX_SMS=4      multiprocessors
 *     INFERPROF_PTX_MB=4096    memory of the device
 *     INFERPROF_PTX_KERNELS=F  the file F gets the names of the kernels that run
 * Streams are synchronous: what is launched has ended when the call returns. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/die.h"
#include "base/util.h"
#include "base/vec.h"
#include "driver/cuda.h"
#include "ptx/ptx.h"

#define EXPORT __attribute__((visibility("default")))
#define X(name, symbol, parameters) EXPORT int symbol parameters;
CU_CALLS(X)
#undef X

#define POISON_BYTES ((size_t)64 << 20) /* larger blocks are zero at first: to fill them would take long */
enum { INVALID = 1, NOT_FOUND = 500 };

static long setting(const char *name, long otherwise) {
    const char *v = getenv(name);
    return v && *v ? strtol(v, NULL, 10) : otherwise;
}

/* ---- files */
static struct {
    struct ptx_module **v;
    size_t n, cap;
} modules;

static struct ptx_variable *find_variable(const char *name) {
    for (size_t m = 0; m < modules.n; m++)
        for (size_t i = 0; i < modules.v[m]->nvariables; i++) {
            struct ptx_variable *v = &modules.v[m]->variables[i];
            if (strcmp(v->name, name) == 0 && v->data) return v;
        }
    return NULL;
}

/* A variable that several files have is one variable: the engine sets it in each file. */
static void join_variables(struct ptx_module *m) {
    for (size_t i = 0; i < m->nvariables; i++) {
        struct ptx_variable *v = &m->variables[i], *first = find_variable(v->name);
        if (first && v->data && first->bytes == v->bytes) v->data = first->data;
    }
}

static void load_files(void) {
    const char *dir = getenv("INFERPROF_PTX");
    DIR *d = dir ? opendir(dir) : NULL;
    if (!d) die("INFERPROF_PTX: a folder with .ptx files is required");
    for (struct dirent *e; (e = readdir(d));) {
        char path[4096];
        size_t n = strlen(e->d_name);
        if (n < 4 || strcmp(e->d_name + n - 4, ".ptx") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        vec_push(&modules, ptx_open(path));
        join_variables(modules.v[modules.n - 1]);
    }
    closedir(d);
}

/* ---- device */
EXPORT int cuInit(unsigned flags) {
    (void)flags;
    if (!modules.n) load_files();
    return CU_OK;
}
EXPORT int cuDriverGetVersion(int *version) {
    *version = 13000;
    return CU_OK;
}
EXPORT int cuDeviceGetCount(int *n) {
    *n = 1;
    return CU_OK;
}
EXPORT int cuDeviceGet(int *device, int index) {
    *device = index;
    return index ? INVALID : CU_OK;
}
EXPORT int cuDeviceGetName(char *name, int cap, int device) {
    (void)device;
    snprintf(name, (size_t)cap, "PTX interpreter");
    return CU_OK;
}
EXPORT int cuDeviceGetUuid_v2(unsigned char id[16], int device) {
    memset(id, device, 16);
    return CU_OK;
}
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
    long arch = setting("INFERPROF_PTX_ARCH", 80);
    (void)device;
    switch (attribute) {
    case CU_ATTR_SMS: *value = (int)setting("INFERPROF_PTX_SMS", 4); break;
    case CU_ATTR_L2_BYTES: *value = 50 << 20; break;
    case CU_ATTR_MAJOR: *value = (int)arch / 10; break;
    case CU_ATTR_MINOR: *value = (int)arch % 10; break;
    case CU_ATTR_SHARED_OPTIN: *value = (arch == 90 ? 227 : arch == 80 ? 163 : 99) << 10; break;
    default: return INVALID;
    }
    return CU_OK;
}
EXPORT int cuDevicePrimaryCtxRetain(cu_context *context, int device) {
    (void)device;
    *context = (cu_context)(uintptr_t)1;
    return CU_OK;
}
EXPORT int cuDevicePrimaryCtxRelease_v2(int device) { return device ? INVALID : CU_OK; }
EXPORT int cuCtxSetCurrent(cu_context context) {
    (void)context;
    return CU_OK;
}

/* ---- modules: all files are one. Which file an image is of is not known, so a name must be unique. */
EXPORT int cuModuleLoadData(cu_module *module, const void *image) {
    *module = (cu_module)image;
    return CU_OK;
}
EXPORT int cuModuleUnload(cu_module module) { return module ? CU_OK : INVALID; }
EXPORT int cuModuleGetFunction(cu_function *f, cu_module module, const char *name) {
    (void)module;
    for (size_t i = 0; i < modules.n; i++)
        if ((*f = (cu_function)ptx_find(modules.v[i], name))) return CU_OK;
    return NOT_FOUND;
}
EXPORT int cuModuleGetGlobal_v2(cu_ptr *p, size_t *bytes, cu_module module, const char *name) {
    (void)module;
    struct ptx_variable *v = find_variable(name);
    if (!v) return NOT_FOUND;
    *p = (cu_ptr)(uintptr_t)v->data;
    *bytes = v->bytes;
    return CU_OK;
}
EXPORT int cuFuncSetAttribute(cu_function f, int attribute, int value) {
    int most;
    if (!f || attribute != CU_FUNC_MAX_SHARED) return INVALID;
    cuDeviceGetAttribute(&most, CU_ATTR_SHARED_OPTIN, 0);
    return value <= most ? CU_OK : INVALID;
}
EXPORT int cuFuncGetAttribute(int *value, int attribute, cu_function f) {
    if (!f || attribute != CU_FUNC_PTX_VERSION) return INVALID;
    *value = (int)setting("INFERPROF_PTX_ARCH", 80);
    return CU_OK;
}

/* ---- memory */
static struct {
    struct {
        void *p;
        size_t bytes;
    } * v;
    size_t n, cap, used;
} blocks;

static size_t all_bytes(void) { return (size_t)setting("INFERPROF_PTX_MB", 4096) << 20; }

/* New memory is NaN, so that what reads it before it is written differs. */
EXPORT int cuMemAlloc_v2(cu_ptr *p, size_t bytes) {
    if (!bytes || bytes > all_bytes() - blocks.used) return bytes ? CU_OUT_OF_MEMORY : INVALID;
    void *data = NULL;
    if (bytes > POISON_BYTES)
        data = calloc(1, bytes); /* pages of zeros until they are written */
    else if (posix_memalign(&data, 512, bytes) == 0)
        memset(data, 0xff, bytes);
    if (!data) return CU_OUT_OF_MEMORY;
    vec_reserve(&blocks, blocks.n + 1);
    blocks.v[blocks.n].p = data;
    blocks.v[blocks.n++].bytes = bytes;
    blocks.used += bytes;
    ptx_memory_add(data, bytes);
    *p = (cu_ptr)(uintptr_t)data;
    return CU_OK;
}
EXPORT int cuMemFree_v2(cu_ptr p) {
    for (size_t i = 0; i < blocks.n; i++) {
        if ((cu_ptr)(uintptr_t)blocks.v[i].p != p) continue;
        ptx_memory_remove(blocks.v[i].p);
        free(blocks.v[i].p);
        blocks.used -= blocks.v[i].bytes;
        blocks.v[i] = blocks.v[--blocks.n];
        return CU_OK;
    }
    return p ? INVALID : CU_OK;
}
EXPORT int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    *total = all_bytes();
    *free_bytes = *total - blocks.used;
    return CU_OK;
}
EXPORT int cuMemHostAlloc(void **p, size_t bytes, unsigned flags) {
    (void)flags;
    if (posix_memalign(p, 512, bytes + !bytes)) return CU_OUT_OF_MEMORY;
    memset(*p, 0xff, bytes);
    ptx_memory_add(*p, bytes);
    return CU_OK;
}
EXPORT int cuMemFreeHost(void *p) {
    ptx_memory_remove(p);
    free(p);
    return CU_OK;
}
EXPORT int cuMemHostGetDevicePointer_v2(cu_ptr *p, void *host, unsigned flags) {
    (void)flags;
    *p = (cu_ptr)(uintptr_t)host;
    return CU_OK;
}

/* ---- streams and graphs: a graph is a list of things to do */
struct step {
    struct ptx_launch launch; /* .kernel NULL: fill or copy */
    void *to;
    const void *from; /* NULL: fill with `word` */
    unsigned word;
    size_t bytes;
};
struct cu_graph_s {
    struct step *v;
    size_t n, cap;
};
struct cu_stream_s {
    struct cu_graph_s *graph; /* being captured */
};
struct cu_exec_s {
    struct cu_graph_s *graph;
};
struct cu_event_s {
    struct timespec at;
};

static void note_kernel(const struct ptx_kernel *k) {
    const char *path = getenv("INFERPROF_PTX_KERNELS");
    FILE *f = path && !k->parsed ? fopen(path, "a") : NULL;
    if (!f) return;
    fprintf(f, "%s\n", k->name);
    fclose(f);
}

static void perform(struct step *s) {
    if (s->launch.kernel) {
        note_kernel(s->launch.kernel);
        ptx_run(&s->launch);
    } else if (s->from)
        memcpy(s->to, s->from, s->bytes);
    else
        for (size_t i = 0; i < s->bytes / 4; i++) memcpy((char *)s->to + 4 * i, &s->word, 4);
}
static int submit(cu_stream stream, struct step s) {
    if (stream && stream->graph) {
        vec_push(stream->graph, s);
        return CU_OK;
    }
    perform(&s);
    free(s.launch.params);
    return CU_OK;
}

EXPORT int cuMemcpyHtoDAsync_v2(cu_ptr to, const void *from, size_t bytes, cu_stream stream) {
    return submit(stream, (struct step){ .to = (void *)(uintptr_t)to, .from = from, .bytes = bytes });
}
EXPORT int cuMemcpyDtoHAsync_v2(void *to, cu_ptr from, size_t bytes, cu_stream stream) {
    return submit(stream, (struct step){ .to = to, .from = (void *)(uintptr_t)from, .bytes = bytes });
}
EXPORT int cuMemsetD32Async(cu_ptr to, unsigned word, size_t n, cu_stream stream) {
    return submit(stream, (struct step){ .to = (void *)(uintptr_t)to, .word = word, .bytes = 4 * n });
}
EXPORT int cuMemsetD8_v2(cu_ptr to, unsigned char byte, size_t n) {
    memset((void *)(uintptr_t)to, byte, n);
    return CU_OK;
}
EXPORT int cuStreamCreate(cu_stream *stream, unsigned flags) {
    (void)flags;
    *stream = xcalloc(1, sizeof **stream);
    return CU_OK;
}
EXPORT int cuStreamDestroy_v2(cu_stream stream) {
    free(stream);
    return CU_OK;
}
EXPORT int cuStreamSynchronize(cu_stream stream) { return stream && stream->graph ? INVALID : CU_OK; }
EXPORT int cuStreamQuery(cu_stream stream) { return cuStreamSynchronize(stream); }
EXPORT int cuStreamBeginCapture_v2(cu_stream stream, int mode) {
    (void)mode;
    if (stream->graph) return INVALID;
    stream->graph = xcalloc(1, sizeof *stream->graph);
    return CU_OK;
}
EXPORT int cuStreamEndCapture(cu_stream stream, cu_graph *graph) {
    *graph = stream->graph;
    stream->graph = NULL;
    return *graph ? CU_OK : INVALID;
}
static struct cu_graph_s *graph_copy(const struct cu_graph_s *g) {
    struct cu_graph_s *c = xcalloc(1, sizeof *c);
    for (size_t i = 0; i < g->n; i++) {
        struct step s = g->v[i];
        if (s.launch.kernel) {
            s.launch.params = xmalloc(s.launch.kernel->param_bytes + 1);
            memcpy(s.launch.params, g->v[i].launch.params, s.launch.kernel->param_bytes);
        }
        vec_push(c, s);
    }
    return c;
}
static void graph_free(struct cu_graph_s *g) {
    for (size_t i = 0; i < g->n; i++) free(g->v[i].launch.params);
    free(g->v);
    free(g);
}
EXPORT int cuGraphInstantiateWithFlags(cu_exec *exec, cu_graph graph, uint64_t flags) {
    (void)flags;
    *exec = xcalloc(1, sizeof **exec);
    (*exec)->graph = graph_copy(graph);
    return CU_OK;
}
EXPORT int cuGraphLaunch(cu_exec exec, cu_stream stream) {
    (void)stream;
    for (size_t i = 0; i < exec->graph->n; i++) perform(&exec->graph->v[i]);
    return CU_OK;
}
EXPORT int cuGraphDestroy(cu_graph graph) {
    graph_free(graph);
    return CU_OK;
}
EXPORT int cuGraphExecDestroy(cu_exec exec) {
    graph_free(exec->graph);
    free(exec);
    return CU_OK;
}

/* ---- launches */
EXPORT int cuLaunchKernelEx(const struct cu_launch *c, cu_function f, void **params, void **extra) {
    struct ptx_kernel *k = (struct ptx_kernel *)f;
    struct ptx_launch l = { .kernel = k,
                            .grid = { c->grid_x, c->grid_y, c->grid_z },
                            .block = { c->block_x, c->block_y, c->block_z },
                            .cluster = 1,
                            .dynamic_shared_bytes = c->shared_bytes };
    int most;
    (void)extra;
    for (unsigned i = 0; i < c->nattrs; i++) {
        if (c->attrs[i].id == CU_LAUNCH_CLUSTER) l.cluster = c->attrs[i].value.cluster.x;
        if (c->attrs[i].id == CU_LAUNCH_COOPERATIVE) l.cooperative = c->attrs[i].value.cooperative;
    }
    cuDeviceGetAttribute(&most, CU_ATTR_SHARED_OPTIN, 0);
    if (!l.grid[0] || !l.grid[1] || !l.grid[2] || l.grid[1] > 65535 || l.grid[2] > 65535) return INVALID;
    if (!l.block[0] || l.block[0] * l.block[1] * l.block[2] > 1024 || l.grid[0] % l.cluster) return INVALID;
    if (l.dynamic_shared_bytes > (unsigned)most) return INVALID;
    if (l.cooperative && l.grid[0] * l.grid[1] * l.grid[2] > (unsigned)setting("INFERPROF_PTX_SMS", 4))
        return CU_TOO_MANY_BLOCKS;
    l.params = xcalloc(1, k->param_bytes + 1);
    for (size_t i = 0; i < k->params.n; i++)
        memcpy(l.params + k->params.offset[i], params[i], k->params.bytes[i]);
    return submit(c->stream, (struct step){ .launch = l });
}
EXPORT int cuLaunchKernel(cu_function f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned shared_bytes, cu_stream stream,
                          void **params, void **extra) {
    return cuLaunchKernelEx(&(struct cu_launch){ grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                                 shared_bytes, stream, NULL, 0 },
                            f, params, extra);
}

/* ---- events */
EXPORT int cuEventCreate(cu_event *event, unsigned flags) {
    (void)flags;
    *event = xcalloc(1, sizeof **event);
    return CU_OK;
}
EXPORT int cuEventDestroy_v2(cu_event event) {
    free(event);
    return CU_OK;
}
EXPORT int cuEventRecord(cu_event event, cu_stream stream) {
    if (stream && stream->graph) return INVALID;
    clock_gettime(CLOCK_MONOTONIC, &event->at);
    return CU_OK;
}
EXPORT int cuEventSynchronize(cu_event event) { return event ? CU_OK : INVALID; }
EXPORT int cuEventElapsedTime(float *ms, cu_event start, cu_event end) {
    *ms = (float)((double)(end->at.tv_sec - start->at.tv_sec) * 1e3 +
                  (double)(end->at.tv_nsec - start->at.tv_nsec) * 1e-6);
    return CU_OK;
}

/* ---- maps for the TMA unit */
EXPORT int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *data, const uint64_t *sizes,
                                  const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                                  int interleave, int swizzle, int promotion, int fill) {
    struct ptx_map m = { .data = data, .rank = (uint8_t)rank, .swizzle = swizzle == CU_MAP_SWIZZLE_128 };
    (void)promotion;
    m.element_bytes = type == CU_MAP_U8 ? 1 : 2;
    if (rank < 1 || rank > 5 || (uintptr_t)data % 16 || interleave || fill) return INVALID;
    if (swizzle && (swizzle != CU_MAP_SWIZZLE_128 || box[0] * m.element_bytes > 128)) return INVALID;
    if (type != CU_MAP_U8 && type != CU_MAP_F16 && type != CU_MAP_BF16) return INVALID;
    if (box[0] * m.element_bytes % 16) return INVALID;
    for (uint32_t d = 0; d < rank; d++) {
        if (!box[d] || box[d] > 256 || !sizes[d] || sizes[d] >> 32 || steps[d] != 1) return INVALID;
        m.sizes[d] = (uint32_t)sizes[d];
        m.box[d] = (uint16_t)box[d];
        if (d + 1 < rank && (strides[d] % 16 || strides[d] >> 40)) return INVALID;
        if (d + 1 < rank) m.strides[d] = strides[d];
    }
    memset(map, 0, 128);
    memcpy(map, &m, sizeof m);
    return CU_OK;
}

/* ---- errors */
EXPORT int cuGetErrorName(int error, const char **name) {
    *name = error == CU_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR";
    return CU_OK;
}
EXPORT int cuGetErrorString(int error, const char **text) {
    *text = error == CU_OUT_OF_MEMORY ? "out of memory" : "an error of the interpreter's driver";
    return CU_OK;
}
