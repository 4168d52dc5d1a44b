/* Texts of the machine: files of /proc and /sys, the cache of measured peaks, and the environment. The first
 * byte of the input selects the reader, the lines of the rest are its files or variables. */
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/launcher.h"
#include "collect/mapped_file.c"
#include "collect/settings.c"
#include "fuzz/fuzz.h"
#include "fuzz/scratch_folder.h"
#include "session/contention.h"
#include "session/cpu_caches.h"
#include "session/cpu_peak.h"
#include "session/gpu_peak.h"
#include "session/peak_cache.h"

#define LINES 64

static struct {
    char *text;
    size_t bytes;
    char *v[LINES]; /* in `text` */
    size_t n;
} lines;

static void split(const uint8_t *data, size_t size) {
    lines.text = malloc(size + 1);
    if (!lines.text) abort();
    memcpy(lines.text, data, size);
    lines.text[lines.bytes = size] = '\0';
    lines.n = 0;
    for (char *p = lines.text; p && lines.n < LINES;) {
        char *end = strchr(p, '\n');
        if (end) *end++ = '\0';
        lines.v[lines.n++] = p;
        p = end;
    }
}

static const char *line(size_t i) { return lines.v[i % lines.n]; }

/* Writes a file below the scratch folder, and the folders on its path. */
static void write_text(const char *name, const char *text) {
    struct err err;
    char path[200], dir[200];
    snprintf(path, sizeof path, "%s/%s", scratch_folder(), name);
    snprintf(dir, sizeof dir, "%.*s", (int)(file_basename(path) - path), path);
    if (file_mkdirs(dir, &err) < 0 || file_write_atomic(path, text, strlen(text), &err) < 0) abort();
}

/* ---- the collector */

static void check_mapping(void) {
    for (size_t i = 0; i < lines.n; i++) {
        char *copy = strdup(lines.v[i]); /* of exactly its size */
        struct mapped_file m;
        if (!copy) abort();
        size_t n = strlen(copy);
        if (mapped_file_parse(copy, &m) && (m.path < copy || m.path + strlen(m.path) > copy + n)) abort();
        free(copy);
    }
}

static void warn(const char *fmt, ...) {
    char text[8192];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
}

static void check_settings(void) {
    static struct settings s;
    char name[64], value[PATH_MAX + 1];
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        snprintf(name, sizeof name, PREFIX "%s", rows[i].name);
        setenv(name, line(i), 1);
    }
    settings_load(&s, warn);
    if (s.buffer_bytes > s.memory_bytes || s.memory_bytes < (uint64_t)4 << 20) abort();
    if (settings_wait_ns(&s, 100) > MAX_WAIT_MS * 1000000) abort();
    settings_set_what(&s, line(0), warn);
    for (unsigned i = 0; settings_at(&s, i, name, sizeof name, value, sizeof value); i++)
        if (!*name || strlen(value) >= sizeof value) abort();
}

static const char *variable(const char *name) {
    const char *text = line(hash_bytes(name, strlen(name)));
    return *text ? text : NULL;
}

static bool is_file_name(const char *text) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_";
    return strspn(text, plain) == strlen(text);
}

static void check_launcher(void) {
    struct launcher l;
    launcher_read(&l, variable);
    if (!is_file_name(l.node) || !is_file_name(l.job)) abort();
    if (l.rank != LAUNCHER_UNKNOWN && l.world_size != LAUNCHER_UNKNOWN && l.rank >= l.world_size) abort();
    if (launcher_is_rank(&l) && !l.name) abort();
}

/* ---- the session */

static void check_contention(void) {
    struct contention c;
    setenv("INFERPROF_PROC", scratch_folder(), 1);
    write_text("loadavg", line(0));
    write_text("7/task/7/schedstat", line(1));
    write_text("7/task/8/schedstat", line(2));
    contention_start(&c);
    struct contention_times before = contention_times(7);
    write_text("7/task/7/schedstat", line(3));
    contention_add(&c, 7, &before, strtoull(line(4), NULL, 10));
    char *why = contention_reason(&c, lines.n & 1);
    if (why && (!*why || strstr(why, "nan"))) abort();
    free(why);
    unsetenv("INFERPROF_PROC");
}

static void check_caches(void) {
    static const char *const names[] = { "level", "type", "size", "shared_cpu_list" };
    double bytes[CPU_CACHE_LEVELS];
    char name[80];
    size_t n = 0;
    for (int cpu = 0; cpu < 2; cpu++)
        for (int i = 0; i < 3; i++)
            for (size_t k = 0; k < COUNTOF(names); k++) {
                snprintf(name, sizeof name, "cpu%d/cache/index%d/%s", cpu, i, names[k]);
                write_text(name, line(n++));
            }
    cpu_caches_read(scratch_folder(), bytes);
    for (size_t i = 0; i < CPU_CACHE_LEVELS; i++)
        if (!(bytes[i] >= 0) || isinf(bytes[i])) abort();
    if (!cpu_caches_level(bytes, 1e6)) abort();
}

static bool is_same(const json_t *old, const json_t *row) { return old == row; }

/* Rows of other programs and versions stay in the file when a row is added. */
static void check_peaks(const uint8_t *data, size_t size) {
    struct cpu_peak cpu;
    struct gpu_peaks gpus;
    struct err err;
    setenv("XDG_CACHE_HOME", scratch_folder(), 1);
    write_text("inferprof/cpu-peak.json", "");
    for (int i = 0; i < 2; i++) {
        char *path = i ? gpu_peak_cache_path() : cpu_peak_cache_path();
        if (file_write_atomic(path, data, size, &err) < 0) abort();
        if (i == 0 && cpu_peak_cached(&cpu) && !(cpu.flops_per_s > 0 && cpu.bytes_per_s > 0)) abort();
        if (i == 1) gpu_peaks_cached(&gpus);
        for (size_t k = 0; i && k < gpus.n; k++)
            if (!(gpus.v[k].bytes_per_s > 0) || !gpus.v[k].nreads) abort();
        json_t *row = json_pack("{s:s}", "name", "new"), *after;
        if (!peak_cache_replace(path, "gpus", row, is_same)) abort();
        after = peak_cache_load(path);
        if (!json_array_size(json_object_get(after, "gpus"))) abort();
        json_decref(after);
        free(path);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    split(data + 1, size - 1);
    switch (data[0] % 6) {
    case 0: check_mapping(); break;
    case 1: check_settings(); break;
    case 2: check_launcher(); break;
    case 3: check_contention(); break;
    case 4: check_caches(); break;
    default: check_peaks(data + 1, size - 1); break;
    }
    scratch_clear(scratch_folder());
    free(lines.text);
    return 0;
}
