/* Arbitrary bytes as a Chrome trace, read through a small window so that values cross its edges. */
#include <stdint.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "import/json_scan.h"
#include "import/kineto.h"

struct bytes_left {
    const uint8_t *p;
    size_t n;
};

static size_t fill(void *source, char *buf, size_t cap) {
    struct bytes_left *b = source;
    size_t n = b->n < cap ? b->n : cap;
    if (n > 100) n = 100;
    memcpy(buf, b->p, n);
    b->p += n;
    b->n -= n;
    return n;
}

/* The fast and the plain scan must end at the same byte. */
static void compare_scans(const uint8_t *data, size_t size) {
    if (!size || (data[0] != '{' && data[0] != '[')) return;
    struct json_skip fast = JSON_SKIP_START, plain = { .depth = 1, .started = 1 };
    size_t a = json_skip(&fast, (const char *)data, size),
           b = 1 + json_skip_plain(&plain, (const char *)data + 1, size - 1);
    if (a != b || fast.depth != plain.depth) __builtin_trap();
}

static struct sink sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct bytes_left b = { data, size };
    struct kineto_info info;
    struct err err;
    compare_scans(data, size);
    sink_init(&sink, NULL);
    kineto_import_stream(fill, &b, "fuzz", &sink, &(struct kineto_options){ .window_bytes = 512 }, &info,
                         &err);
    sink_free(&sink);
    return 0;
}
