/* make_trace FILE TOKENS: writes a decode trace: 535 kernels per token, 60 distinct names, gaps of
 * microseconds. Equal arguments give equal files. Used by the tests. */
#include <stdio.h>
#include <stdlib.h>

#include "programs/decode_trace.h"
#include "trace/writer.h"

int main(int argc, char **argv) {
    struct err err;
    if (argc != 3) {
        fprintf(stderr, "usage: make_trace FILE TOKENS\n");
        return 2;
    }
    struct trace_writer *w =
        trace_writer_open(argv[1], &(struct trace_writer_options){ .file_id = 42 }, &err);
    if (!w) {
        fprintf(stderr, "make_trace: %s\n", err.msg);
        return 1;
    }
    decode_trace_write(w, (uint32_t)strtoul(argv[2], NULL, 10));
    if (trace_writer_close(w, &err) < 0) {
        fprintf(stderr, "make_trace: %s\n", err.msg);
        return 1;
    }
    return 0;
}
