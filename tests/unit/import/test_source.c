/* Files that are read through gzip. */
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "base/die.h"
#include "fuzz/memory_file.h"
#include "import/source.h"
#include "unit/test.h"

enum { ZEROS = 3 << 20 }; /* several blocks of the reader */

static size_t compressed_zeros(unsigned char **data) {
    z_stream z = { 0 };
    Bytef *zeros = xcalloc(ZEROS, 1);
    *data = xmalloc(ZEROS);
    CHECK_INT(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = zeros;
    z.avail_in = ZEROS;
    z.next_out = *data;
    z.avail_out = ZEROS;
    CHECK_INT(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t n = z.total_out;
    deflateEnd(&z);
    free(zeros);
    return n;
}

/* Returns the bytes that zlib gets out of the data at once. */
static size_t inflated_bytes(unsigned char *data, size_t n) {
    z_stream z = { .next_in = data, .avail_in = (uInt)n };
    Bytef *out = xmalloc(ZEROS + 1);
    CHECK_INT(inflateInit2(&z, 15 + 16), Z_OK);
    z.next_out = out;
    z.avail_out = ZEROS + 1;
    inflate(&z, Z_NO_FLUSH);
    size_t bytes = z.total_out;
    inflateEnd(&z);
    free(out);
    return bytes;
}

static size_t source_bytes(const unsigned char *data, size_t n, bool *problem) {
    struct memory_file f = memory_file_open(data, n);
    struct err err;
    struct source *s = source_open(f.path, &err);
    char piece[4096];
    size_t got, all = 0;
    CHECK(s);
    while ((got = source_read(s, piece, sizeof piece)) > 0) all += got;
    *problem = source_problem(s) != NULL;
    source_close(s);
    close(f.fd);
    return all;
}

/* A block can be full while zlib still has bytes to write and no input left. */
TEST(gzip_that_ends_early_gives_all_bytes_that_there_are) {
    unsigned char *data;
    size_t n = compressed_zeros(&data);
    bool problem;
    CHECK_INT(source_bytes(data, n, &problem), ZEROS);
    CHECK(!problem);
    for (size_t left = 20; left < n; left += 61) {
        CHECK_INT(source_bytes(data, left, &problem), inflated_bytes(data, left));
        CHECK(problem);
    }
    free(data);
}
