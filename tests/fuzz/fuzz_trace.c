/* Arbitrary bytes as a trace file. Half of the inputs get correct checksums first, so that the fuzzer reaches
 * the column decoders. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "fuzz/fuzz.h"
#include "fuzz/sealed_trace.h"
#include "trace/reader.h"

static void read_all(const char *path) {
    struct err err;
    struct trace_batch b = { 0 };
    const char *key, *value;
    struct trace_reader *r = trace_reader_open(path, &err);
    if (!r) return;
    for (size_t i = 0; i < trace_reader_chunks(r); i++) trace_reader_decode(r, i, &b, &err);
    for (size_t i = 0; trace_reader_meta_at(r, i, &key, &value); i++) trace_reader_meta(r, value);
    for (uint32_t id = 0; id < trace_reader_string_end(r) && id < 1000; id++)
        trace_reader_string(r, id, NULL);
    trace_batch_free(&b);
    trace_reader_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    struct strbuf s = STRBUF_INIT;
    if (size < 1) return 0;
    strbuf_add(&s, data + 1, size - 1);
    if (data[0] & 1) sealed_trace(&s);
    int fd = memfd_create("trace", 0);
    if (fd >= 0 && write(fd, s.buf, s.len) == (ssize_t)s.len) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        read_all(path);
    }
    close(fd);
    strbuf_free(&s);
    return 0;
}
