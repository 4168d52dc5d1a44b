#include <stdio.h>
#include <string.h>

#include "base/embed.h"
#include "base/file.h"
#include "unit/test.h"

TEST(embedded_files_equal_the_source_files) {
    struct strbuf disk = STRBUF_INIT;
    struct err err;
    CHECK(embed_files_n > 0);
    for (size_t i = 0; i < embed_files_n; i++) {
        const struct embed_file *f = embed_find(embed_files[i].path);
        CHECK(f == &embed_files[i]);
        strbuf_reset(&disk);
        char path[256]; /* tests run from the source tree; the kernels are built */
        snprintf(path, sizeof path, "%s%s", strncmp(f->path, "cuda/", 5) == 0 ? "build/" : "", f->path);
        CHECK_INT(file_read(path, 64 << 20, &disk, &err), 0);
        CHECK_INT(embed_bytes(f), disk.len);
        CHECK_MEM(f->data, disk.buf, disk.len);
        CHECK_INT(f->end[0], 0);
        if (i > 0) CHECK(strcmp(embed_files[i - 1].path, f->path) < 0);
    }
    strbuf_free(&disk);
}

TEST(embed_find_returns_null_for_unknown_paths) {
    CHECK(embed_find("web/no-such-file") == NULL);
    CHECK(embed_find("") == NULL);
}
