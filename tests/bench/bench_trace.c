/* The trace format: records written and read per second, and bytes per kernel on disk, compared with Chrome
 * JSON of the same events, plain and gzip. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/strbuf.h"
#include "programs/decode_trace.h"
#include "trace/reader.h"

#define TOKENS 4000u /* 2.1 million kernels */
#define REPEATS 5

static double cpu_seconds(void) { /* of all threads */
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static struct trace_kernel *make_kernels(uint32_t *names) {
    size_t n = (size_t)TOKENS * DECODE_KERNELS;
    struct trace_kernel *all = xmalloc(n * sizeof *all);
    uint64_t now = DECODE_START_NS;
    for (uint32_t t = 0; t < TOKENS; t++)
        for (uint32_t k = 0; k < DECODE_KERNELS; k++)
            all[(size_t)t * DECODE_KERNELS + k] = decode_kernel(t, k, &now, names);
    return all;
}

/* Writes a few hundred records at a time, as CUPTI delivers them. Waits for the encoder, because no record
 * may be dropped here. */
static double write_once(const char *path, const struct trace_kernel *all, size_t n) {
    struct err err;
    uint32_t names[DECODE_NAMES];
    unlink(path);
    double before = cpu_seconds();
    struct trace_writer *w = trace_writer_open(path, NULL, &err);
    if (!w) die("%s", err.msg);
    decode_names(w, names);
    for (size_t i = 0; i < n; i += DECODE_KERNELS) {
        trace_writer_kernel(w, all + i, DECODE_KERNELS);
        if (i % (DECODE_KERNELS * 256u) == 0) trace_writer_flush(w, 10000);
    }
    struct trace_writer_stats s;
    trace_writer_stats(w, &s);
    if (s.lost[TRACE_KERNEL][TRACE_LOST_MEMORY]) die("records were dropped: the figure would lie");
    if (trace_writer_close(w, &err) < 0) die("%s", err.msg);
    return (double)n / (cpu_seconds() - before);
}

static double read_once(const char *path, size_t n) {
    struct err err;
    struct trace_batch b = { 0 };
    uint64_t sum = 0, count = 0;
    double before = cpu_seconds();
    struct trace_reader *r = trace_reader_open(path, &err);
    if (!r) die("%s", err.msg);
    for (size_t i = 0; i < trace_reader_chunks(r); i++) {
        if (trace_reader_decode(r, i, &b, &err) < 0) die("%s", err.msg);
        for (size_t k = 0; b.kind == TRACE_KERNEL && k < b.n; k++) {
            sum += b.kernel[k].end_ns - b.kernel[k].start_ns;
            count++;
        }
    }
    double rate = (double)count / (cpu_seconds() - before);
    trace_batch_free(&b);
    trace_reader_close(r);
    if (count != n || sum == 0) die("read %llu of %zu kernels", (unsigned long long)count, n);
    return rate;
}

/* The events that torch.profiler writes for the same kernels, with gzip level 6 as there. */
static double gzip_bytes_per_kernel(const struct trace_kernel *all, size_t n, double *plain) {
    struct strbuf json = STRBUF_INIT;
    char name[256];
    for (size_t i = 0; i < n; i++) {
        const struct trace_kernel *k = &all[i];
        decode_name(k->name % DECODE_NAMES, name, sizeof name);
        strbuf_addf(&json,
                    "  {\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"%s\", \"pid\": 0, \"tid\": "
                    "7,\n    \"ts\": %.3f, \"dur\": %.3f,\n"
                    "    \"args\": {\n      \"External id\": %llu,\n      \"queued\": 0, \"device\": 0, "
                    "\"context\": 1,\n      \"stream\": 7, \"correlation\": %llu,\n"
                    "      \"registers per thread\": %u,\n      \"shared memory\": %u,\n      \"grid\": [%u, "
                    "%u, %u],\n      \"block\": [%u, %u, %u]\n    }\n  },\n",
                    name, (double)k->start_ns / 1e3, (double)(k->end_ns - k->start_ns) / 1e3,
                    (unsigned long long)k->correlation, (unsigned long long)k->correlation, k->registers,
                    k->dynamic_smem_bytes, k->grid_x, k->grid_y, k->grid_z, k->block_x, k->block_y,
                    k->block_z);
    }
    z_stream z = { 0 };
    deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    uLong cap = deflateBound(&z, json.len);
    z.next_in = (Bytef *)json.buf;
    z.avail_in = (uInt)json.len;
    z.next_out = xmalloc(cap);
    z.avail_out = (uInt)cap;
    Bytef *buffer = z.next_out;
    deflate(&z, Z_FINISH);
    double bytes = (double)z.total_out / (double)n;
    *plain = (double)json.len / (double)n;
    deflateEnd(&z);
    free(buffer);
    strbuf_free(&json);
    return bytes;
}

static int compare(const void *a, const void *b) { return *(const double *)a < *(const double *)b ? -1 : 1; }
static double median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, compare);
    return v[n / 2];
}

int main(void) {
    char path[] = "/tmp/inferprof-bench-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0) die("no room in /tmp");
    close(fd);
    uint32_t names[DECODE_NAMES];
    for (uint32_t i = 0; i < DECODE_NAMES; i++) names[i] = i + 1;
    size_t n = (size_t)TOKENS * DECODE_KERNELS;
    struct trace_kernel *all = make_kernels(names);
    double writes[REPEATS], reads[REPEATS], plain;
    for (int i = 0; i < REPEATS; i++) {
        writes[i] = write_once(path, all, n);
        reads[i] = read_once(path, n);
    }
    struct err err;
    struct trace_reader *r = trace_reader_open(path, &err);
    double ours = (double)trace_reader_summary(r)->file_bytes / (double)n;
    trace_reader_close(r);
    double gz = gzip_bytes_per_kernel(all, n / 20, &plain);
    printf("%zu kernel records, %u per token, %u names; medians of %d, CPU time of all threads\n", n,
           DECODE_KERNELS, DECODE_NAMES, REPEATS);
    printf("written            %8.2f M records/s  (target 5)\n", median(writes, REPEATS) / 1e6);
    printf("read               %8.2f M records/s  (target 20)\n", median(reads, REPEATS) / 1e6);
    printf("on disk            %8.2f bytes/kernel (target: under 20)\n", ours);
    printf("Chrome JSON        %8.2f bytes/kernel, %.0f times ours\n", plain, plain / ours);
    printf("Chrome JSON, gzip  %8.2f bytes/kernel, %.1f times ours\n", gz, gz / ours);
    free(all);
    unlink(path);
    return 0;
}
