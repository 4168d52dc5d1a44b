#include <stdlib.h>

#include "collect/mapped_file.c"
#include "unit/test.h"

TEST(a_line_of_the_memory_map_names_its_file) {
    char line[] = "7f0000000000-7f0000100000 r--p 00002000 fe:01 1234                       /models/a b.gguf";
    struct mapped_file m;
    CHECK(mapped_file_parse(line, &m));
    CHECK_STR(m.path, "/models/a b.gguf");
    CHECK_INT(m.from, 0x7f0000000000);
    CHECK_INT(m.to, 0x7f0000100000);
    CHECK_INT(m.file_offset, 0x2000);
    CHECK(!m.deleted);
}

TEST(a_mapping_of_a_deleted_file_is_recognised) {
    char line[] = "7f0000000000-7f0000100000 r--s 00000000 fe:01 1234 /models/a.gguf (deleted)",
         anonymous[] = "7f0000000000-7f0000100000 rw-p 00000000 00:00 0 ";
    struct mapped_file m;
    CHECK(mapped_file_parse(line, &m));
    CHECK_STR(m.path, "/models/a.gguf");
    CHECK(m.deleted);
    CHECK(!mapped_file_parse(anonymous, &m));
}

/* Exact allocations: the address sanitizer sees a read past the end. */
TEST(an_incomplete_line_of_the_memory_map_is_not_read_past_its_end) {
    static const char *const lines[] = { "/a.gguf", "1-/a", "1-2 /a", "1-2 r--p/a", " /" };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct mapped_file m;
        char *copy = strdup(lines[i]);
        CHECK(mapped_file_parse(copy, &m));
        CHECK(m.path[0] == '/');
        free(copy);
    }
}
