/* Arbitrary bytes as a file that an importer reads, plain or gzip. Reading in pieces must give the same
 * bytes as zlib on the whole input, member by member, and must report damage and truncation exactly when
 * they exist. */
#include <string.h>
#include <zlib.h>

#include "fuzz/fuzz.h"
#include "fuzz/memory_file.h"
#include "base/strbuf.h"
#include "import/source.h"

#define MOST_BYTES (4u << 20) /* limit for a decompression bomb */

/* Returns true if the input ended with a complete member, or with padding after one. */
static bool inflate_all(const uint8_t *data, size_t size, struct strbuf *out) {
    z_stream z = { .next_in = (Bytef *)data, .avail_in = (uInt)size };
    char block[4096];
    bool whole = false;
    if (inflateInit2(&z, 15 + 16) != Z_OK) abort();
    while (out->len < MOST_BYTES) {
        z.next_out = (Bytef *)block;
        z.avail_out = sizeof block;
        int rc = inflate(&z, Z_NO_FLUSH);
        strbuf_add(out, block, sizeof block - z.avail_out);
        if (rc == Z_STREAM_END)
            inflateReset(&z);
        else if (rc != Z_OK) { /* Z_BUF_ERROR: no input left */
            whole = rc == Z_BUF_ERROR ? z.total_in == 0 : z.total_in <= 2 && z.total_out == 0;
            break;
        }
    }
    inflateEnd(&z);
    return whole;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct memory_file f = memory_file_open(data, size);
    struct strbuf got = STRBUF_INIT, want = STRBUF_INIT;
    struct err err;
    struct source *s = source_open(f.path, &err);
    if (!s) abort();
    bool gzip = size >= 2 && data[0] == 0x1f && data[1] == 0x8b, whole = true;
    char piece[1021];
    size_t n;
    while (got.len < MOST_BYTES && (n = source_read(s, piece, sizeof piece)) > 0) strbuf_add(&got, piece, n);
    if (gzip)
        whole = inflate_all(data, size, &want);
    else
        strbuf_add(&want, data, size);
    if (source_is_gzip(s) != gzip) abort();
    if (got.len < MOST_BYTES && want.len < MOST_BYTES) {
        if (got.len != want.len || memcmp(got.buf, want.buf, want.len) != 0) abort();
        if ((source_problem(s) == NULL) != whole) abort();
    }
    source_close(s);
    close(f.fd);
    strbuf_free(&got);
    strbuf_free(&want);
    return 0;
}
