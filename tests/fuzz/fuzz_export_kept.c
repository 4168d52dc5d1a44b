/* Arbitrary texts as the kept arguments of imported events, one per line. Whatever the texts are, the export
 * must write valid JSON objects. The first 40 bytes are the numbers that replace the placeholders. */
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "fuzz/fuzz.h"
#include "fuzz/scratch_folder.h"
#include "report/export_kept.h"
#include "trace/writer.h"

#define NUMBERS 40

static void write_events(struct trace_writer *w, const uint8_t *data, size_t size) {
    struct trace_source_event e = { .phase = 'X', .name = trace_writer_str(w, "event") };
    const char *text = (const char *)data + NUMBERS, *end = (const char *)data + size;
    memcpy(&e.id0, data, 8);
    memcpy(&e.id1, data + 8, 8);
    memcpy(&e.id2, data + 16, 8);
    memcpy(&e.id3, data + 24, 8);
    memcpy(&e.value, data + 32, 8);
    while (text < end) {
        const char *line_end = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((line_end ? line_end : end) - text);
        e.args = trace_writer_string(w, text, n);
        trace_writer_source_event(w, &e, 1);
        text += n + 1;
    }
}

static void check_events(const char *path) {
    struct export_kept k;
    json_error_t why;
    if (export_kept_open(&k, NULL, path)) {
        while (export_kept_next(&k)) {
            if (!*k.args) continue;
            /* jansson reads 64-bit ids only as real numbers */
            json_t *parsed = json_loads(k.args, JSON_DECODE_INT_AS_REAL | JSON_REJECT_DUPLICATES, &why);
            if (!json_is_object(parsed)) abort();
            json_decref(parsed);
        }
    }
    export_kept_close(&k);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct err err;
    if (size <= NUMBERS) return 0;
    char path[80];
    snprintf(path, sizeof path, "%s/0.ipt", scratch_folder());
    struct trace_writer *w = trace_writer_open(path, &(struct trace_writer_options){ .file_id = 1 }, &err);
    if (!w) abort(); /* an existing file cannot be opened */
    write_events(w, data, size);
    if (trace_writer_close(w, &err) == 0) check_events(path);
    unlink(path);
    return 0;
}
