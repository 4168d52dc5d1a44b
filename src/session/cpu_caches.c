#include "session/cpu_caches.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "base/strlist.h"

#define MAX_CPUS 1024
#define MAX_CACHES 8 /* of one core */

/* Reads the first line of a file of sysfs; "" if it cannot be read. */
static void read_line(const char *root, int cpu, int index, const char *name, char *out, size_t cap) {
    char path[512];
    struct strbuf text = STRBUF_INIT;
    struct err ignored;
    snprintf(path, sizeof path, "%.300s/cpu%d/cache/index%d/%s", root, cpu, index, name);
    *out = '\0';
    if (file_exists(path) && file_read(path, 4096, &text, &ignored) == 0)
        snprintf(out, cap, "%.*s", (int)strcspn(text.buf, "\n"), text.buf);
    strbuf_free(&text);
}

static double size_bytes(const char *text) { /* such as "32768K"; not "inf", which strtod() accepts */
    char *end;
    if (*text < '0' || *text > '9') return 0;
    double v = (double)strtoull(text, &end, 10);
    return v * (*end == 'K' ? 1024 : *end == 'M' ? 1048576 : 1);
}

/* Returns true only for the first core that lists a cache. Every core that shares the cache lists it. */
static bool is_new(struct strlist *seen, int level, const char *shared_by) {
    char key[300];
    snprintf(key, sizeof key, "%d:%.280s", level, shared_by);
    for (size_t i = 0; i < seen->n; i++)
        if (strcmp(seen->v[i], key) == 0) return false;
    strlist_add(seen, "%s", key);
    return true;
}

static void add_cpu(const char *root, int cpu, struct strlist *seen, double *bytes) {
    for (int i = 0; i < MAX_CACHES; i++) {
        char level[16], type[32], size[32], shared[300];
        read_line(root, cpu, i, "level", level, sizeof level);
        int n = atoi(level);
        if (!*level) return;
        read_line(root, cpu, i, "type", type, sizeof type);
        read_line(root, cpu, i, "size", size, sizeof size);
        read_line(root, cpu, i, "shared_cpu_list", shared, sizeof shared);
        if (n < 1 || n > CPU_CACHE_LEVELS || strcmp(type, "Instruction") == 0) continue;
        if (is_new(seen, n, shared)) bytes[n - 1] += size_bytes(size);
    }
}

void cpu_caches_read(const char *root, double bytes[CPU_CACHE_LEVELS]) {
    cpu_set_t set;
    struct strlist seen = { 0 };
    for (int i = 0; i < CPU_CACHE_LEVELS; i++) bytes[i] = 0;
    if (sched_getaffinity(0, sizeof set, &set) < 0) return;
    for (int cpu = 0; cpu < MAX_CPUS && cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set)) add_cpu(root, cpu, &seen, bytes);
    strlist_free(&seen);
}

const char *cpu_caches_level(const double bytes[CPU_CACHE_LEVELS], double working_set_bytes) {
    static const char *const names[CPU_CACHE_LEVELS] = { "L1", "L2", "L3", "L4" };
    bool known = false;
    for (int i = 0; i < CPU_CACHE_LEVELS; i++) {
        if (bytes[i] >= working_set_bytes) return names[i];
        known |= bytes[i] > 0;
    }
    return known ? "DRAM" : "";
}
