/* A program that behaves as if it used CUDA and NVTX, for tests of the collector. It carries out its
 * arguments in order:
 *     init               cuInit()
 *     kernels=N graphs=N copies=N memsets=N syncs=N          N calls of that kind
 *     threads=T:N        T threads launch N kernels each
 *     tape=FILE          replays a recorded tape (src/collect/raw.h)
 *     nvtx               uses every form of NVTX
 *     push=NAME pop start=NAME mark=NAME                      single NVTX calls
 *     nest=N             N nested ranges
 *     stream=NAME        names stream 7
 *     device=N           works on device N from now on
 *     graph=N            later graph launches are of graph N; graph-made=N and graph-updated=N: it is
 *                        created or updated
 *     module=FILE unload  loads a library that calls the runtime (graphs.c); unloads it
 *     replaced           waits until the library's calls go to the collector
 *     attached=N         waits until the collector has attached CUPTI N times and records kernels
 *     detached=N         repeats the last kind of work once and synchronises, until the collector has
 *                        detached CUPTI N times; at most 60 s
 *     calls=N destroy    that library launches the graph N times; destroys it
 *     capture captured   begins and ends a stream capture: kernels in between are launched, but do not run
 *     alloc=BYTES free   allocates device memory; frees the newest block
 *     nccl=V:N nccl-threads=V:T:N nccl-broken=V               NCCL with version V of the profiler interface
 *     streams=N          later work is spread over N streams (2)
 *     takeover           registers other CUPTI buffers, as another tool would
 *     hold               another tool subscribes to CUPTI as soon as it is free
 *     await release      waits until CUPTI is disabling kernels (fault slowoff); lets it go on
 *     fork               a child process with a range
 *     leave=NAME         a thread opens a range and ends
 *     open=VAR map=VAR close unlink=VAR                       the path is in the variable VAR: opens
 *                        or maps the file, closes the opened one, deletes it
 *     exec=A,B,..        restarts itself with these arguments
 *     dlclose            closes the collector library
 *     sleep=MS say=TEXT  TEXT goes to standard output; nothing else is printed
 *     exit=N _exit=N kill segv abort                          ends the process */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

#include "collect/abi.h"
#include "mock/mock.h"
#include "mock/nccl.h"

static mock_work_fn work_fn;
static mock_tape_fn tape_fn;
static mock_takeover_fn takeover_fn, hold_fn;
static mock_await_fn await_fn, release_fn;
static mock_device_fn device_fn;
static mock_graph_fn graph_fn;
static mock_memory_fn memory_fn;
static mock_graph_handle_fn graph_handle_fn;
static mock_attached_fn attached_fn, detached_fn;

static void *symbol(void *lib, const char *name) { return lib ? dlsym(lib, name) : NULL; }

static void init(void) {
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *f = symbol(cuda, "cuInit");
    int (*cu_init)(unsigned);
    memcpy(&cu_init, &f, sizeof f);
    if (!f || cu_init(0) != 0) exit(90);
    void *cupti =
        dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD); /* loaded only if the collector is active */
    f = symbol(cupti, "mock_work");
    memcpy(&work_fn, &f, sizeof f);
    f = symbol(cupti, "mock_memory");
    memcpy(&memory_fn, &f, sizeof f);
    f = symbol(cupti, "mock_tape");
    memcpy(&tape_fn, &f, sizeof f);
    f = symbol(cupti, "mock_takeover");
    memcpy(&takeover_fn, &f, sizeof f);
    f = symbol(cupti, "mock_hold");
    memcpy(&hold_fn, &f, sizeof f);
    f = symbol(cupti, "mock_await");
    memcpy(&await_fn, &f, sizeof f);
    f = symbol(cupti, "mock_release");
    memcpy(&release_fn, &f, sizeof f);
    f = symbol(cupti, "mock_device");
    memcpy(&device_fn, &f, sizeof f);
    f = symbol(cupti, "mock_graph");
    memcpy(&graph_fn, &f, sizeof f);
    f = symbol(cupti, "mock_attached");
    memcpy(&attached_fn, &f, sizeof f);
    f = symbol(cupti, "mock_detached");
    memcpy(&detached_fn, &f, sizeof f);
    f = symbol(cupti, "mock_graph_handle");
    memcpy(&graph_handle_fn, &f, sizeof f);
}

static uint32_t nstreams = 2;

static void work(enum mock_work kind, long n) {
    static const char *const names[] = { "_Z9gemm_bf16PfS_", "rms_norm", "_ZN5flash4attnEv" };
    for (long i = 0; work_fn && i < n; i++) work_fn(kind, names[i % 3], 7 + (uint32_t)i % nstreams);
}

static void *thread_main(void *arg) {
    work(MOCK_KERNEL, *(long *)arg);
    return NULL;
}

static void use_nccl(const char *verb, const char *spec) {
    int v[3] = { 0 };
    if (!spec || sscanf(spec, "%d:%d:%d", &v[0], &v[1], &v[2]) < 1) exit(92);
    if (strcmp(verb, "nccl") == 0) mock_nccl_run(v[0], v[1]);
    if (strcmp(verb, "nccl-threads") == 0) mock_nccl_threads(v[0], v[1], v[2]);
    if (strcmp(verb, "nccl-broken") == 0) mock_nccl_misbehave(v[0]);
}

static void threads(const char *spec) {
    char *end;
    long t = strtol(spec, &end, 10), n = strtol(end + 1, NULL, 10);
    pthread_t all[256];
    for (long i = 0; i < t && i < 256; i++) pthread_create(&all[i], NULL, thread_main, &n);
    for (long i = 0; i < t && i < 256; i++) pthread_join(all[i], NULL);
}

/* ---- NVTX as in its headers: a table of functions that the injected library overwrites */
static nvtx_function core[16], core2[16], cudart[16], *core_slots[16], *core2_slots[16], *cudart_slots[16];
static int attached;

static int get_module(int module, nvtx_function ***table, unsigned *n) {
    *table = module == NVTX_MODULE_CORE     ? core_slots
             : module == NVTX_MODULE_CUDART ? cudart_slots
                                            : core2_slots;
    *n = 16;
    return module == NVTX_MODULE_CORE || module == NVTX_MODULE_CORE2 || module == NVTX_MODULE_CUDART;
}
static const void *get_table(uint32_t id) {
    static const struct nvtx_callbacks table = { sizeof table, get_module };
    return id == NVTX_TABLE_CALLBACKS ? &table : NULL;
}
static void nvtx_init(void) {
    static bool done;
    const char *path = getenv("NVTX_INJECTION64_PATH");
    if (done) return;
    done = true;
    for (int i = 0; i < 16; i++) {
        core_slots[i] = &core[i];
        core2_slots[i] = &core2[i];
        cudart_slots[i] = &cudart[i];
    }
    void *lib = path ? dlopen(path, RTLD_LAZY) : NULL, *f = symbol(lib, "InitializeInjectionNvtx2");
    int (*inject)(nvtx_get_table);
    memcpy(&inject, &f, sizeof f);
    attached = f ? inject(get_table) : 0;
}

#define CORE(slot, type, ...) (core[slot] ? ((type)core[slot])(__VA_ARGS__) : 0)
#define CORE2(slot, type, ...) (core2[slot] ? ((type)core2[slot])(__VA_ARGS__) : 0)
typedef int (*f_text)(const char *);
typedef int (*f_wide)(const wchar_t *);
typedef int (*f_none)(void);
typedef int (*f_attr)(const struct nvtx_attributes *);
typedef uint64_t (*f_start)(const char *);
typedef int (*f_end)(uint64_t);
typedef void *(*f_domain)(const char *);
typedef void *(*f_string)(const void *, const char *);
typedef int (*f_dattr)(const void *, const struct nvtx_attributes *);
typedef uint64_t (*f_dstart)(const void *, const struct nvtx_attributes *);
typedef int (*f_dpop)(const void *);
typedef int (*f_dend)(const void *, uint64_t);
typedef int (*f_category)(const void *, uint32_t, const char *);

static struct nvtx_attributes attributes(int type, const void *text) {
    return (struct nvtx_attributes){
        .version = 3, .size = sizeof(struct nvtx_attributes), .text_type = type, .text = text
    };
}

static void nvtx_domains(void) {
    void *domain = CORE2(12, f_domain, "lib"), *own = CORE2(12, f_domain, "inferprof");
    void *registered = CORE2(10, f_string, domain, "registered");
    struct nvtx_attributes a = attributes(NVTX_TEXT_REGISTERED, registered);
    CORE2(8, f_category, domain, 9, "math");
    a.category = 9;
    a.payload_type = NVTX_PAYLOAD_I32;
    a.payload.i32 = -5;
    CORE2(4, f_dattr, domain, &a);
    CORE(9, f_text, "over the domain");
    CORE2(5, f_dpop, domain); /* the other one stays open */
    CORE(11, f_none);
    uint64_t id = CORE2(2, f_dstart, domain, &a);
    CORE2(3, f_dend, domain, id);
    a = attributes(NVTX_TEXT_ASCII, "prefill");
    a.category = 1;
    CORE2(4, f_dattr, own, &a);
    CORE2(5, f_dpop, own);
    a = attributes(NVTX_TEXT_ASCII, "tokens");
    a.category = 5;
    a.payload_type = NVTX_PAYLOAD_U64;
    a.payload.u64 = 12;
    CORE2(1, f_dattr, own, &a);
}

static void nvtx(void) {
    nvtx_init();
    struct nvtx_attributes a = attributes(NVTX_TEXT_ASCII, "ex"), cut = a;
    CORE(9, f_text, "outer");
    CORE(10, f_wide, L"inn\u00e9r");
    CORE(8, f_attr, &a);
    CORE(11, f_none);
    CORE(11, f_none);
    CORE(11, f_none);
    CORE(11, f_none); /* one too many */
    uint64_t first = CORE(5, f_start, "first"), second = CORE(5, f_start, "second");
    CORE(7, f_end, first);
    CORE(7, f_end, second);
    CORE(7, f_end, 12345); /* never started */
    CORE(2, f_text, "mark");
    cut.size = 8;
    CORE(1, f_attr, &cut); /* from another NVTX version: must not be read */
    CORE(1, f_attr, NULL);
    CORE(9, f_text, NULL);
    CORE(11, f_none);
    a = attributes(NVTX_TEXT_REGISTERED, (const void *)(uintptr_t)0xdeadbeef); /* an invalid handle */
    CORE(1, f_attr, &a);
    nvtx_domains();
}

static void nest(long n) {
    for (long i = 0; i < n; i++) CORE(9, f_text, "nested");
    for (long i = 0; i < n; i++) CORE(11, f_none);
}

static void child_with_range(void) {
    pid_t pid = fork();
    if (pid == 0) {
        CORE(9, f_text, "in the child");
        CORE(11, f_none);
        exit(0);
    }
    waitpid(pid, NULL, 0);
}

static void *leave_range_open(void *name) {
    CORE(9, f_text, name);
    return NULL;
}

static void thread_with_open_range(char *name) {
    pthread_t t;
    nvtx_init();
    if (pthread_create(&t, NULL, leave_range_open, name) == 0) pthread_join(t, NULL);
}

static void restart(char *spec, char *self) {
    char *argv[64] = { self };
    int n = 1;
    for (char *w = strtok(spec, ","); w && n < 63; w = strtok(NULL, ",")) argv[n++] = w;
    execv("/proc/self/exe", argv);
    exit(91);
}

static void close_collector(void) {
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *lib = path ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    for (int i = 0; lib && i < 4; i++) dlclose(lib);
}

static bool end_verb(const char *verb, const char *value) {
    if (strcmp(verb, "exit") == 0) exit(atoi(value));
    if (strcmp(verb, "_exit") == 0) _exit(atoi(value));
    if (strcmp(verb, "kill") == 0) kill(getpid(), SIGKILL);
    if (strcmp(verb, "segv") == 0) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    if (strcmp(verb, "abort") == 0) {
        signal(SIGABRT, SIG_DFL);
        abort();
    }
    return false;
}

static bool nvtx_verb(const char *verb, const char *value) {
    bool found = true;
    nvtx_init();
    if (strcmp(verb, "push") == 0)
        CORE(9, f_text, value);
    else if (strcmp(verb, "pop") == 0)
        CORE(11, f_none);
    else if (strcmp(verb, "start") == 0)
        CORE(5, f_start, value);
    else if (strcmp(verb, "mark") == 0)
        CORE(2, f_text, value);
    else if (strcmp(verb, "stream") == 0) {
        if (cudart[3]) ((void (*)(void *, const char *))cudart[3])((void *)7, value);
    } else if (strcmp(verb, "nvtx") == 0)
        nvtx();
    else if (strcmp(verb, "nest") == 0)
        nest(atol(value));
    else
        found = false;
    return found;
}

static enum mock_work last_work = MOCK_KERNEL; /* or MOCK_GRAPH */

static bool work_verb(const char *verb, const char *value) {
    static const char *const verbs[] = { "kernels", "graphs", "copies", "memsets", "syncs" };
    for (int i = 0; i < 5; i++)
        if (strcmp(verb, verbs[i]) == 0) {
            work((enum mock_work)i, atol(value));
            if (i == MOCK_KERNEL || i == MOCK_GRAPH) last_work = (enum mock_work)i;
            return true;
        }
    return false;
}

static bool graph_verb(const char *verb, const char *value) {
    static const char *const verbs[] = { [MOCK_GRAPH_SAME] = "graph",
                                         [MOCK_GRAPH_MADE] = "graph-made",
                                         [MOCK_GRAPH_UPDATED] = "graph-updated",
                                         [MOCK_CAPTURE_BEGINS] = "capture",
                                         [MOCK_CAPTURE_ENDS] = "captured" };
    for (int i = 0; i < 5; i++)
        if (strcmp(verb, verbs[i]) == 0) {
            if (graph_fn) graph_fn((uint32_t)atol(value), i);
            return true;
        }
    return false;
}

static bool module_verb(const char *verb, const char *value) {
    static void *module;
    mock_launch_graphs_fn launch;
    mock_destroy_graph_fn destroy;
    mock_launch_target_fn target;
    void *f;
    if (strcmp(verb, "module") == 0) {
        if (!(module = dlopen(value, RTLD_LAZY | RTLD_LOCAL))) exit(95);
    } else if (strcmp(verb, "unload") == 0) {
        dlclose(module);
    } else if (strcmp(verb, "calls") == 0) {
        f = symbol(module, "mock_launch_graphs");
        memcpy(&launch, &f, sizeof f);
        if (graph_handle_fn && launch(graph_handle_fn(), 7, atol(value))) exit(95);
    } else if (strcmp(verb, "replaced") == 0) {
        f = symbol(module, "mock_launch_target");
        memcpy(&target, &f, sizeof f);
        void *runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
        for (int i = 0; target() == symbol(runtime, "cudaGraphLaunch"); i++, usleep(500))
            if (i == 120000) exit(96);
    } else if (strcmp(verb, "attached") == 0) {
        if (attached_fn && !attached_fn((unsigned)atol(value))) exit(96);
    } else if (strcmp(verb, "detached") == 0) {
        for (int i = 0; detached_fn && i < 270 && !detached_fn((unsigned)atol(value)); i++) {
            work(last_work, 1);
            work(MOCK_SYNC, 1);
            usleep(200000); /* CUPTI delivers the record, and the collector asks for a detach */
            work(MOCK_SYNC, 1);
            usleep(20000);
        }
    } else if (strcmp(verb, "destroy") == 0) {
        f = symbol(module, "mock_destroy_graph");
        memcpy(&destroy, &f, sizeof f);
        if (graph_handle_fn) destroy(graph_handle_fn());
    } else
        return false;
    return true;
}

/* The paths are not arguments, because the collector looks at arguments too. */
static bool file_verb(const char *verb, const char *variable) {
    static int fd = -1;
    const char *path = getenv(variable);
    if (strcmp(verb, "open") == 0) {
        fd = open(path ? path : "", O_RDONLY);
        if (fd < 0) exit(94);
    } else if (strcmp(verb, "map") == 0) {
        int mapped = open(path ? path : "", O_RDONLY);
        off_t bytes = lseek(mapped, 0, SEEK_END);
        if (mapped < 0 || mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, mapped, 0) == MAP_FAILED)
            exit(94);
        close(mapped);
    } else if (strcmp(verb, "close") == 0) {
        close(fd);
    } else if (strcmp(verb, "unlink") == 0) {
        unlink(path ? path : "");
    } else {
        return false;
    }
    return true;
}

/* Blocks are a stack; addresses are reused. */
static void change_memory(uint64_t bytes) {
    static uint64_t blocks;
    if (!memory_fn) return;
    if (bytes)
        memory_fn(0x7f0000000000u + 4096 * blocks++, bytes);
    else if (blocks)
        memory_fn(0x7f0000000000u + 4096 * --blocks, 0);
}

static bool process_verb(const char *verb, char *value, char *self) {
    if (strcmp(verb, "init") == 0)
        init();
    else if (strcmp(verb, "threads") == 0)
        threads(value);
    else if (strncmp(verb, "nccl", 4) == 0)
        use_nccl(verb, value);
    else if (strcmp(verb, "alloc") == 0 || strcmp(verb, "free") == 0)
        change_memory(*verb == 'a' ? strtoull(value, NULL, 10) : 0);
    else if (strcmp(verb, "tape") == 0) {
        if (tape_fn && tape_fn(value) < 0) exit(92);
    } else if (strcmp(verb, "takeover") == 0) {
        if (takeover_fn) takeover_fn();
    } else if (strcmp(verb, "hold") == 0) {
        if (hold_fn) hold_fn();
    } else if (strcmp(verb, "await") == 0) {
        if (await_fn) await_fn();
    } else if (strcmp(verb, "release") == 0) {
        if (release_fn) release_fn();
    } else if (strcmp(verb, "device") == 0) {
        if (device_fn) device_fn((uint32_t)atol(value));
    } else if (strcmp(verb, "streams") == 0)
        nstreams = (uint32_t)atol(value);
    else if (strcmp(verb, "fork") == 0)
        child_with_range();
    else if (strcmp(verb, "leave") == 0)
        thread_with_open_range(value);
    else if (strcmp(verb, "exec") == 0)
        restart(value, self);
    else if (strcmp(verb, "dlclose") == 0)
        close_collector();
    else if (strcmp(verb, "sleep") == 0)
        usleep((useconds_t)atol(value) * 1000);
    else if (strcmp(verb, "say") == 0) {
        puts(value);
        fflush(stdout);
    } else
        return false;
    return true;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        char *value = argv[i] + strcspn(argv[i], "=");
        if (*value) *value++ = '\0';
        if (!work_verb(argv[i], value) && !graph_verb(argv[i], value) && !module_verb(argv[i], value) &&
            !file_verb(argv[i], value) && !process_verb(argv[i], value, argv[0]) &&
            !end_verb(argv[i], value) && !nvtx_verb(argv[i], value)) {
            fprintf(stderr, "mock_app: unknown argument '%s'\n", argv[i]);
            return 93;
        }
    }
    return 0;
}
