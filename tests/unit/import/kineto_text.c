#include "unit/import/kineto_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "unit/test.h"

struct memory {
    const char *p;
    size_t left;
};

static size_t memory_fill(void *source, char *buf, size_t cap) {
    struct memory *m = source;
    size_t n = m->left < cap ? m->left : cap;
    memcpy(buf, m->p, n);
    m->p += n;
    m->left -= n;
    return n;
}

int kineto_count(const char *text, size_t window_bytes, struct sink *sink, struct kineto_info *info) {
    struct memory m = { text, strlen(text) };
    struct err err;
    sink_init(sink, NULL);
    int rc = kineto_import_stream(memory_fill, &m, "test", sink,
                                  &(struct kineto_options){ .window_bytes = window_bytes }, info, &err);
    sink_free(sink);
    return rc;
}

struct trace_reader *kineto_trace(const char *text, struct import_result *result) {
    char *dir = test_tmpdir(), *json = file_join(dir, "a.json"), *trace = file_join(dir, "a.ipt");
    struct err err;
    CHECK_INT(file_write_atomic(json, text, strlen(text), &err), 0);
    CHECK_INT(
        import_to_trace(json, &kineto_format, trace, &(struct import_options){ .rank = -1 }, result, &err),
        0);
    struct trace_reader *r = trace_reader_open(trace, &err);
    CHECK(r != NULL);
    free(dir);
    free(json);
    free(trace);
    return r;
}

const void *kineto_records(struct trace_reader *r, enum trace_kind kind, size_t *n) {
    static struct trace_batch b;
    struct err err;
    trace_batch_free(&b);
    *n = 0;
    for (size_t i = 0; i < trace_reader_chunks(r); i++) {
        if (trace_reader_chunk(r, i)->kind != kind) continue;
        CHECK_INT(trace_reader_decode(r, i, &b, &err), 0);
        *n = b.n;
        return b.records;
    }
    return NULL;
}
