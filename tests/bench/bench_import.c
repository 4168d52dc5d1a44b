/* Speed of reading a Kineto trace: the parser only, the whole import on one core, and for comparison Python's
 * json.load and Holistic Trace Analysis on the same text.
 *     bench_import [FILE]          default: 200 MB of generated events like those of torch.profiler */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "import/import.h"
#include "import/json_pull.h"
#include "import/kineto.h"
#include "import/source.h"

static struct sink sink;

/* CPU time of this thread, which does not depend on other load on the machine. */
static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void say(const char *what, uint64_t bytes, uint64_t ns) {
    printf("%-44s %8.1f MB %8.3f s %8.0f MB/s\n", what, (double)bytes / 1e6, (double)ns / 1e9,
           (double)bytes * 1e3 / (double)ns);
}

/* Operators, launches, kernels, flows and Python frames in the proportions of a real trace. */
static void make_events(struct strbuf *out, size_t bytes) {
    strbuf_addstr(out, "{\"schemaVersion\": 1, \"traceEvents\": [\n");
    for (unsigned i = 0; out->len < bytes; i++) {
        unsigned long long ts = 1700000000000000ull + i * 10ull;
        strbuf_addf(out,
                    "  {\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::linear\", \"pid\": 77, "
                    "\"tid\": 77, \"ts\": %llu.125, "
                    "\"dur\": 8.500, \"args\": {\"External id\": %u, \"Record function id\": 0, \"Concrete "
                    "Inputs\": [\"\", \"\", \"\"], "
                    "\"Input type\": [\"c10::BFloat16\", \"c10::BFloat16\", \"\"], \"Input Strides\": "
                    "[[4096, 1], [4096, 1], []], "
                    "\"Input Dims\": [[%u, 4096], [12288, 4096], []], \"Ev Idx\": %u}},\n",
                    ts, i, 1 + i % 512, i);
        strbuf_addf(out,
                    "  {\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": "
                    "77, \"tid\": 77, \"ts\": %llu.200, "
                    "\"dur\": 3.100, \"args\": {\"External id\": %u, \"cbid\": 211, \"correlation\": %u}},\n",
                    ts, i, i + 1);
        strbuf_addf(out,
                    "  {\"ph\": \"s\", \"id\": %u, \"pid\": 77, \"tid\": 77, \"ts\": %llu.200, \"cat\": "
                    "\"ac2g\", \"name\": \"ac2g\"},\n",
                    i + 1, ts);
        strbuf_addf(out,
                    "  {\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"void "
                    "cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_"
                    "32x32_128x2_tn_align8>(cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_"
                    "align8::Params)\", \"pid\": 0, "
                    "\"tid\": 7, \"ts\": %llu.300, \"dur\": 4.000, \"args\": {\"External id\": %u, "
                    "\"queued\": 0, \"device\": 0, \"context\": 1, "
                    "\"stream\": 7, \"correlation\": %u, \"registers per thread\": 96, \"shared memory\": "
                    "32768, \"blocks per SM\": 2.9, "
                    "\"warps per SM\": 11.6, \"grid\": [384, 1, 1], \"block\": [128, 1, 1], \"est. achieved "
                    "occupancy %%\": 18}},\n",
                    ts + 5, i, i + 1);
        strbuf_addf(out,
                    "  {\"ph\": \"X\", \"cat\": \"python_function\", \"name\": "
                    "\"torch/nn/modules/module.py(1532): _call_impl\", \"pid\": 77, "
                    "\"tid\": 77, \"ts\": %llu.000, \"dur\": 9.000, \"args\": {\"Python parent id\": %u, "
                    "\"Python id\": %u, \"Ev Idx\": %u}},\n",
                    ts, i, i + 1, i);
    }
    out->buf[out->len - 2] = ' '; /* the last comma */
    strbuf_addstr(out, "]}\n");
}

/* The fastest of three runs. */
static uint64_t tokens_ns(const char *path) {
    uint64_t best = UINT64_MAX;
    for (int round = 0; round < 3; round++) {
        struct err err;
        struct source *s = source_open(path, &err);
        struct json_pull *j = json_pull_open(source_read, s, 0);
        uint64_t start = cpu_ns(), n = 0;
        while (json_pull_next(j) > JSON_END) n++;
        uint64_t took = cpu_ns() - start;
        if (took < best) best = took;
        json_pull_close(j);
        source_close(s);
    }
    return best;
}

static uint64_t events_ns(const char *path, struct kineto_info *info) {
    uint64_t best = UINT64_MAX;
    for (int round = 0; round < 3; round++) {
        struct err err;
        sink_init(&sink, NULL);
        uint64_t start = cpu_ns();
        kineto_import(path, &sink, &(struct kineto_options){ 0 }, info, &err);
        uint64_t took = cpu_ns() - start;
        if (took < best) best = took;
        sink_free(&sink);
    }
    return best;
}

static uint64_t import_ns(const char *path, const char *trace) {
    struct err err;
    struct import_result result;
    unlink(trace);
    uint64_t start = clock_mono_ns();
    if (import_to_trace(path, &kineto_format, trace, &(struct import_options){ .rank = -1 }, &result, &err) <
        0)
        fprintf(stderr, "%s\n", err.msg);
    return clock_mono_ns() - start;
}

/* Runs a command that prints ns, or the reason why it was skipped. */
static void other(const char *what, const char *command, const char *path, uint64_t bytes) {
    char *line = NULL, *whole = xasprintf("%s '%s' 2>/dev/null", command, path);
    size_t cap = 0;
    FILE *p = popen(whole, "r");
    ssize_t n = p ? getline(&line, &cap, p) : -1;
    unsigned long long ns = n > 0 ? strtoull(line, NULL, 10) : 0;
    if (ns)
        say(what, bytes, ns);
    else
        printf("%-44s %s", what, n > 0 ? line : "skipped: it printed nothing\n");
    if (p) pclose(p);
    free(line);
    free(whole);
}

int main(int argc, char **argv) {
    const char *dir = getenv("TMPDIR");
    char made[512], trace[512];
    struct err err;
    struct kineto_info info = { 0 };
    snprintf(made, sizeof made, "%s/inferprof-bench-%ld.json", dir ? dir : "/tmp", (long)getpid());
    snprintf(trace, sizeof trace, "%s/inferprof-bench-%ld.ipt", dir ? dir : "/tmp", (long)getpid());
    const char *path = argc > 1 ? argv[1] : made;
    if (argc < 2) {
        struct strbuf text = STRBUF_INIT;
        make_events(&text, 200u << 20);
        if (file_write_atomic(made, text.buf, text.len, &err) < 0) {
            fprintf(stderr, "%s\n", err.msg);
            return 1;
        }
        strbuf_free(&text);
    }
    uint64_t events = events_ns(path, &info);
    say("every token (json_pull)", info.read_bytes, tokens_ns(path));
    say("events taken apart (one core)", info.read_bytes, events);
    say("import to a trace (with the writer's thread)", info.read_bytes, import_ns(path, trace));
    other("python3 json.load",
          "python3 -c 'import json,sys,time; f=open(sys.argv[1]); t=time.process_time_ns(); json.load(f); "
          "print(time.process_time_ns()-t)'",
          path, info.read_bytes);
    other("Holistic Trace Analysis (pandas)", "sh tests/bench/hta.sh", path, info.read_bytes);
    unlink(made);
    unlink(trace);
    return 0;
}
