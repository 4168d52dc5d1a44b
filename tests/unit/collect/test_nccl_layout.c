/* The offsets that the collector reads, against those of NCCL's own headers (tests/tools/nccl_layout.py
 * writes the file). */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "collect/nccl_layout.c"
#include "unit/test.h"

#define OFFSETS "tests/data/nccl/offsets.tsv"

/* Returns the table's value for a member of NCCL's header, or -1 if the table does not have the member. */
static long table_value(const struct nccl_layout *l, const char *member) {
    const struct {
        const char *member;
        uint16_t value;
    } rows[] = {
#define F(name, nccl_member) { #nccl_member, l->name },
        NCCL_FIELDS(F)
#undef F
            { "size", l->size },
        { "type_bytes", l->type_bytes },
        { "state", l->state_timer },
    };
    for (size_t i = 0; i < COUNTOF(rows); i++)
        if (strcmp(rows[i].member, member) == 0) return rows[i].value;
    return -1;
}

TEST(sizes_and_offsets_are_those_of_nccls_headers) {
    char line[256], member[64], bytes[32];
    unsigned version, found[NCCL_LAST_VERSION + 1] = { 0 };
    FILE *in = fopen(OFFSETS, "r");
    CHECK(in != NULL);
    while (fgets(line, sizeof line, in)) {
        if (line[0] == '#') continue;
        CHECK_INT(sscanf(line, "%u %63s %31s", &version, member, bytes), 3);
        const struct nccl_layout *l = nccl_layout(version);
        CHECK(l != NULL);
        long want = strcmp(bytes, "-") == 0 ? NCCL_ABSENT : strtol(bytes, NULL, 10);
        if (table_value(l, member) != want) fprintf(stderr, "%s", line);
        CHECK_INT(table_value(l, member), want);
        found[version]++;
    }
    fclose(in);
    for (unsigned v = NCCL_FIRST_VERSION; v <= NCCL_LAST_VERSION; v++) CHECK_INT(found[v], 33);
}

TEST(unknown_interface_versions_have_no_layout) {
    CHECK(nccl_layout(NCCL_FIRST_VERSION - 1) == NULL);
    CHECK(nccl_layout(NCCL_LAST_VERSION + 1) == NULL);
}
