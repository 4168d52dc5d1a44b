/* Efficiency of the native engine, as ratios within one run:
 *     decode   bytes of weights read per second, relative to the fastest plain read of memory
 *     gemm     FLOP/s on the shapes of prefill and vision, relative to OpenBLAS's sgemm (if installed)
 *     record   decode time of a small model with recorded operators, relative to without
 * Arguments select some of the three; the default is all. */
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/file.h"
#include "base/util.h"
#include "engine/cpu/cpu.h"
#include "engine/decoder/decoder.h"
#include "engine/internal.h"

/* ---- plain read of memory */
struct read_job {
    const uint64_t *data;
    size_t part; /* words per task */
    uint64_t sums[4096];
};

static void read_task(void *job, int task, int worker) {
    struct read_job *j = job;
    const uint64_t *p = j->data + (size_t)task * j->part;
    uint64_t s[8] = { 0 };
    (void)worker;
    for (size_t i = 0; i < j->part; i += 8)
        for (int k = 0; k < 8; k++) s[k] += p[i + (size_t)k];
    for (int k = 1; k < 8; k++) s[0] += s[k];
    j->sums[task] = s[0];
}

static double read_bytes_per_s(struct threads *t) {
    enum { MIB = 1 << 20, TASKS = 512 };
    size_t bytes = (size_t)512 * MIB;
    uint64_t *data = NULL;
    if (posix_memalign((void **)&data, 2 * MIB, bytes) != 0) die("out of memory");
    memset(data, 1, bytes);
    static struct read_job j;
    j.data = data;
    j.part = bytes / 8 / TASKS;
    double best = 0;
    for (int i = 0; i < 6; i++) {
        uint64_t start = clock_mono_ns();
        threads_run(t, read_task, &j, TASKS);
        best = fmax(best, (double)bytes / (double)(clock_mono_ns() - start) * 1e9);
    }
    free(data);
    return best;
}

/* ---- decode of a model larger than any cache: 0.54 G weights in bf16 */
static const char config[] =
    "{\"model_type\":\"llama\",\"hidden_size\":2048,\"num_hidden_layers\":7,"
    "\"num_attention_heads\":16,\"num_key_value_heads\":4,\"intermediate_size\":8192,"
    "\"vocab_size\":32000,\"max_position_embeddings\":1024,\"torch_dtype\":\"bfloat16\","
    "\"rms_norm_eps\":1e-6,\"hidden_act\":\"silu\"}";

static struct engine *open_model(void) {
    struct err err;
    char dir[] = "/tmp/inferprof-bench-XXXXXX";
    if (!mkdtemp(dir)) die("mkdtemp failed");
    char *path = file_join(dir, "config.json");
    if (file_write_atomic(path, config, sizeof config - 1, &err) < 0) die("%s", err.msg);
    struct engine *e = engine_open(&(struct engine_load){ .model = dir, .weights = "synthetic:1" }, &err);
    if (!e) die("%s", err.msg);
    unlink(path);
    rmdir(dir);
    free(path);
    return e;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, by_size);
    return v[n / 2];
}

static double decode_step_s(struct engine *e, int context) {
    struct decoder *d = e->decoder;
    struct tensor *x = ops_alloc(d->ops, (size_t)d->hidden, TENSOR_ZERO),
                  *logits = ops_alloc(d->ops, (size_t)d->vocab, TENSOR_ZERO);
    double t[15];
    for (int i = 0; i < (int)COUNTOF(t); i++) {
        uint64_t start = clock_mono_ns();
        decoder_embed(d, &(uint32_t){ 7 }, 1, view_of(x));
        decoder_forward(d, view_of(x), 1, context, logits);
        t[i] = (double)(clock_mono_ns() - start) / 1e9;
    }
    ops_free(d->ops, x);
    ops_free(d->ops, logits);
    double best = t[0]; /* the fastest, as for reading: other processes may use the machine */
    for (size_t i = 1; i < COUNTOF(t); i++) best = fmin(best, t[i]);
    return best;
}

static void bench_decode(void) {
    struct engine *e = open_model();
    const struct decoder *d = e->decoder;
    const double layer = 2.0 * 2048 * 2048 + 2.0 * 512 * 2048 + 3.0 * 2048 * 8192;
    double bytes = 2 * (7 * layer + 32000.0 * d->hidden), step = decode_step_s(e, 128);
    struct threads *threads = threads_open(0);
    double read = read_bytes_per_s(threads);
    threads_close(threads);
    printf("read      %6.2f GB/s with %d threads (%s)\n", read / 1e9, engine_threads(e), engine_isa(e));
    printf("decode    %6.2f GB/s of weights, %.1f ms per token: %.0f%% of plain read\n", bytes / step / 1e9,
           step * 1e3, 100 * bytes / step / read);
    engine_close(e);
}

/* ---- matrix products */
typedef void sgemm_fn(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                      const float *b, int ldb, float beta, float *c, int ldc);

static sgemm_fn *find_openblas(int threads) {
    void *lib = dlopen("libopenblas.so.0", RTLD_NOW);
    sgemm_fn *sgemm = NULL;
    void (*set_threads)(int) = NULL;
    if (!lib) return NULL;
    *(void **)&sgemm = dlsym(lib, "cblas_sgemm");
    *(void **)&set_threads = dlsym(lib, "openblas_set_num_threads");
    if (set_threads) set_threads(threads);
    return sgemm;
}

struct gemm_case {
    const char *name;
    int m, n, k;
};

struct operands {
    float *x, *w, *y;
    uint16_t *narrow;
    struct tensor *rows, *weights, *narrow_weights, *out; /* the same as tensors */
};

static double once_s(struct ops *o, sgemm_fn *sgemm, const struct gemm_case *c, const struct operands *v,
                     enum dtype type) {
    struct linear l = { { type == DTYPE_F32 ? v->weights : v->narrow_weights, type, c->n, c->k }, NULL };
    uint64_t start = clock_mono_ns();
    if (sgemm)
        sgemm(101, 111, 112, c->m, c->n, c->k, 1.0f, v->x, c->k, v->w, c->k, 0.0f, v->y, c->n); /* A B^T */
    else
        ops_linear(o, "bench", &l, view_of(v->rows), c->k, c->m, view_of(v->out), c->n, OPS_SET);
    return (double)(clock_mono_ns() - start) / 1e9;
}

static struct operands make_operands(struct ops *o, const struct gemm_case *c) {
    size_t nw = (size_t)c->n * (size_t)c->k, nx = (size_t)c->m * (size_t)c->k;
    size_t ny = (size_t)c->m * (size_t)c->n;
    struct operands v = { xcalloc(nx, 4), xcalloc(nw, 4), xcalloc(ny, 4), xcalloc(nw, 2) };
    for (size_t i = 0; i < nw; i++) {
        v.w[i] = (float)(i % 13) - 6;
        v.narrow[i] = bf16_from_float(v.w[i]);
    }
    for (size_t i = 0; i < nx; i++) v.x[i] = (float)(i % 7) - 3;
    v.rows = ops_wrap(o, v.x, nx * 4);
    v.weights = ops_wrap(o, v.w, nw * 4);
    v.narrow_weights = ops_wrap(o, v.narrow, nw * 2);
    v.out = ops_alloc(o, ny, TENSOR_ZERO);
    return v;
}

/* Idle threads spin for a while, OpenBLAS's for 30 ms and more. A measurement right after them would share
 * the cores with them. */
static void let_threads_sleep(void) { usleep(60000); }

/* Alternates between the three, so that other load on the machine affects all of them. */
static void bench_case(struct ops *o, sgemm_fn *sgemm, const struct gemm_case *c) {
    struct operands v = make_operands(o, c);
    double flops = 2.0 * c->m * c->n * c->k, f32 = INFINITY, bf16 = INFINITY, blas = sgemm ? INFINITY : NAN;
    int repeats = flops < 1e9 ? 20 : flops < 1e10 ? 3 : 1;
    for (int round = 0; round < 3; round++) {
        let_threads_sleep();
        for (int i = 0; i < repeats; i++) f32 = fmin(f32, once_s(o, NULL, c, &v, DTYPE_F32));
        for (int i = 0; i < repeats; i++) bf16 = fmin(bf16, once_s(o, NULL, c, &v, DTYPE_BF16));
        let_threads_sleep();
        for (int i = 0; sgemm && i < repeats; i++) blas = fmin(blas, once_s(o, sgemm, c, &v, DTYPE_F32));
    }
    printf("gemm      %-13s [%d,%d]x[%d,%d]  f32 %6.1f GFLOP/s (%3.0f%% of OpenBLAS)  bf16 %6.1f (%3.0f%%)\n",
           c->name, c->m, c->k, c->n, c->k, flops / f32 / 1e9, 100 * blas / f32, flops / bf16 / 1e9,
           100 * blas / bf16);
    struct tensor *const tensors[] = { v.rows, v.weights, v.narrow_weights, v.out };
    for (size_t i = 0; i < COUNTOF(tensors); i++) ops_free(o, tensors[i]);
    free(v.x);
    free(v.w);
    free(v.y);
    free(v.narrow);
}

static void bench_gemm(void) {
    static const struct gemm_case cases[] = {
        { "sam qkv", 4900, 2304, 768 },      { "sam lin1", 4096, 3072, 768 },
        { "sam lin2", 4096, 768, 3072 },     { "clip fc1", 257, 4096, 1024 },
        { "prefill qkv", 512, 1280, 1280 },  { "prefill gate", 512, 6848, 1280 },
        { "prefill down", 512, 1280, 6848 }, { "expert gate", 48, 896, 1280 },
    };
    struct threads *threads = threads_open(0);
    struct ops *o = cpu_open(threads, NULL);
    sgemm_fn *sgemm = find_openblas(threads_count(threads));
    for (size_t i = 0; i < COUNTOF(cases); i++) bench_case(o, sgemm, &cases[i]);
    if (!sgemm) printf("gemm      no libopenblas.so.0 on this machine: no comparison\n");
    ops_close(o);
    threads_close(threads);
}

/* ---- recording */
enum { ROUNDS = 40, STEPS = 64, PAGES = 7 };
#define PAGE "samples/page-text.png"

static struct engine_result infer(struct engine *e, struct engine_request q, const char *trace) {
    struct err err;
    struct engine_result r;
    q.ignore_eos = true;
    q.detail = trace ? RECORD_OPERATORS : RECORD_NONE;
    q.trace = trace;
    if (trace) unlink(trace);
    if (engine_infer(e, &q, &r, &err) < 0) die("%s", err.msg);
    return r;
}

/* Decode of a short prompt, which has the smallest operators. [0]: not recorded, [1]: recorded. */
static void record_decode(struct engine *e, const char *trace) {
    static double token_ms[2][ROUNDS * STEPS], run_ms[2][ROUNDS];
    const uint32_t ids[] = { 0, 65, 66, 67 };
    struct engine_request q = { .ids = ids, .nids = COUNTOF(ids), .max_new_tokens = STEPS + 1 };
    for (int i = 0; i < 2 * ROUNDS; i++) { /* alternating, so that other load affects both */
        struct engine_result r = infer(e, q, i % 2 ? trace : NULL);
        memcpy(token_ms[i % 2] + i / 2 * STEPS, r.token_ms + 1, STEPS * sizeof **token_ms);
        run_ms[i % 2][i / 2] = r.decode_ms;
        engine_result_free(&r);
    }
    double off = median_of(token_ms[0], ROUNDS * STEPS), on = median_of(token_ms[1], ROUNDS * STEPS);
    double run = median_of(run_ms[1], ROUNDS) / median_of(run_ms[0], ROUNDS);
    printf("record    embedded model, %.3f ms per token (median): overhead of recorded operators %.1f%%, "
           "%.1f%% of a decode of %d\n",
           off, 100 * (on / off - 1), 100 * (run - 1), STEPS);
}

/* A complete request: a page with tiles, then tokens. */
static void record_page(struct engine *e, const char *trace) {
    static double ms[2][PAGES];
    const char *image = PAGE;
    struct engine_request q = { .images = &image, .nimages = 1, .max_new_tokens = STEPS };
    if (access(PAGE, R_OK) < 0) return;
    for (int i = 0; i < 2 * PAGES; i++) {
        uint64_t start = clock_mono_ns();
        struct engine_result r = infer(e, q, i % 2 ? trace : NULL);
        ms[i % 2][i / 2] = (double)(clock_mono_ns() - start) / 1e6; /* including closing the trace */
        engine_result_free(&r);
    }
    double off = median_of(ms[0], PAGES), on = median_of(ms[1], PAGES);
    printf(
        "record    embedded model, a page and %d tokens in %.0f ms: overhead of recorded operators %.1f%%\n",
        STEPS, off, 100 * (on / off - 1));
}

static void bench_record(void) {
    struct err err;
    char trace[] = "/tmp/inferprof-bench-XXXXXX";
    int fd = mkstemp(trace);
    struct engine *e = engine_open(&(struct engine_load){ .model = "embedded" }, &err);
    if (!e || fd < 0) die("cannot start");
    record_decode(e, trace);
    record_page(e, trace);
    engine_close(e);
    close(fd);
    unlink(trace);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = { { "decode", bench_decode }, { "gemm", bench_gemm }, { "record", bench_record } };
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < COUNTOF(parts); i++) {
        bool wanted = argc == 1;
        for (int a = 1; a < argc; a++) wanted |= strcmp(argv[a], parts[i].name) == 0;
        if (wanted) parts[i].run();
    }
    return 0;
}
