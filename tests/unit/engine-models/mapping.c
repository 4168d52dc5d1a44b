#include "unit/engine-models/mapping.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "engine/cpu/internal.h"
#include "engine/internal.h"
#include "unit/test.h"

/* Reads /proc/self/smaps up to the mapping that contains `address`. Returns the file that is mapped there,
 * "" if the memory is anonymous; *huge: MADV_HUGEPAGE was set. */
static void find_mapping(const void *address, char path[4096], bool *huge) {
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[5000];
    bool inside = false;
    path[0] = '\0';
    *huge = false;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
            if (inside) break;
            inside = (uintptr_t)address >= from && (uintptr_t)address < to;
            const char *name = strchr(line, '/');
            if (inside && name) snprintf(path, 4096, "%.*s", (int)strcspn(name, "\n"), name);
        } else if (inside && strncmp(line, "VmFlags:", 8) == 0) {
            *huge = strstr(line, " hg") != NULL;
        }
    }
    fclose(f);
}

void check_weights_are_mapped(const struct engine *e, const char *file) {
    char found[4096], *real = realpath(file, NULL);
    bool huge;
    find_mapping(e->decoder->layer[0].q.w.data->data, found, &huge);
    CHECK_STR(found, real);
    if (file_exists("/sys/kernel/mm/transparent_hugepage/enabled")) CHECK(huge);
    free(real);
}
