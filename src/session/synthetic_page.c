#include "session/synthetic_page.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/die.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/strbuf.h"

#define MARGIN 64u
#define LINE 24u /* line spacing in pixels */

static void put_u32(uint8_t *p, uint32_t v) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static void write_chunk(struct strbuf *out, const char *kind, const uint8_t *data, size_t n) {
    uint8_t word[4];
    put_u32(word, (uint32_t)n);
    strbuf_add(out, word, 4);
    size_t from = out->len;
    strbuf_add(out, kind, 4);
    strbuf_add(out, data, n);
    put_u32(word, (uint32_t)crc32(0, (const uint8_t *)out->buf + from, (uInt)(n + 4)));
    strbuf_add(out, word, 4);
}

/* Words are dark bars with gaps; each row starts with the PNG filter byte 0. */
static uint8_t *draw_page(unsigned width, unsigned height, size_t *n) {
    *n = (size_t)height * (width + 1);
    uint8_t *rows = xmalloc(*n);
    memset(rows, 255, *n);
    for (unsigned y = 0; y < height; y++) {
        uint8_t *row = rows + (size_t)y * (width + 1);
        row[0] = 0;
        bool ink = y > MARGIN && y + MARGIN < height && y % LINE < LINE / 2;
        for (unsigned x = MARGIN; ink && x + MARGIN < width; x++)
            if (hash_u64(y / LINE * 4096u + x / 12) % 5 != 0 && x % 12 < 9) row[1 + x] = 40;
    }
    return rows;
}

int synthetic_page_write(const char *path, unsigned width, unsigned height, struct err *err) {
    struct strbuf out = STRBUF_INIT;
    uint8_t head[13] = { 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0 }; /* 8 bits, grey */
    size_t n;
    uint8_t *rows = draw_page(width, height, &n);
    uLongf packed_n = compressBound((uLong)n);
    uint8_t *packed = xmalloc(packed_n);
    put_u32(head, width);
    put_u32(head + 4, height);
    int rc =
        compress2(packed, &packed_n, rows, (uLong)n, 1) == Z_OK ? 0 : err_set(err, "%s: zlib failed", path);
    strbuf_add(&out, "\x89PNG\r\n\x1a\n", 8);
    write_chunk(&out, "IHDR", head, sizeof head);
    write_chunk(&out, "IDAT", packed, packed_n);
    write_chunk(&out, "IEND", head, 0);
    if (rc == 0) rc = file_write_atomic(path, out.buf, out.len, err);
    strbuf_free(&out);
    free(packed);
    free(rows);
    return rc;
}
