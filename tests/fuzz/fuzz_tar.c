/* An uploaded tar stream, fed in pieces of several sizes. */
#include <string.h>

#include "base/util.h"
#include "fuzz/fuzz.h"
#include "serve/tar.h"

struct seen {
    uint64_t announced, received;
};

static int on_file(void *context, const char *path, uint64_t bytes, struct err *err) {
    struct seen *s = context;
    (void)err;
    if (!tar_path_is_safe(path)) __builtin_trap();
    *s = (struct seen){ bytes, 0 };
    return 0;
}

static int on_data(void *context, const void *data, size_t n, struct err *err) {
    struct seen *s = context;
    (void)data;
    (void)err;
    s->received += n;
    if (s->received > s->announced) __builtin_trap();
    return 0;
}

static int on_end(void *context, struct err *err) {
    const struct seen *s = context;
    (void)err;
    if (s->received != s->announced) __builtin_trap();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const size_t pieces[] = { SIZE_MAX, 1, 511, 777 };
    for (size_t i = 0; i < COUNTOF(pieces); i++) {
        struct seen seen = { 0 };
        struct tar_sink sink = { on_file, on_data, on_end, &seen };
        struct tar_reader r;
        struct err err;
        int rc = 0;
        tar_reader_init(&r, &sink);
        for (size_t at = 0; rc == 0 && at < size; at += MIN(pieces[i], size - at))
            rc = tar_reader_feed(&r, data + at, MIN(pieces[i], size - at), &err);
        if (rc == 0) tar_reader_finish(&r, &err);
        tar_reader_free(&r);
    }
    return 0;
}
