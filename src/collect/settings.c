#include "collect/settings.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/util.h"

#define PREFIX "INFERPROF_COLLECT_"
#define MAX_WAIT_MS ((uint64_t)3600000)
#define MAX_DIGITS 18 /* two values can be added */

enum type { TEXT, COUNT, SWITCH };

/* Name without prefix, type, offset and size of the field, default. There are no decimals, because the
 * program's locale may use a decimal comma. */
static const struct row {
    const char *name;
    enum type type;
    size_t offset, cap;
    const char *fallback;
} rows[] = {
#define FIELD(f) offsetof(struct settings, f), sizeof((struct settings *)0)->f
    { "DIR", TEXT, FIELD(dir), "" },
    { "WHAT", TEXT, FIELD(what), "kernels,copies,launches,syncs,nvtx" },
    { "NOTICE", TEXT, FIELD(notice), "" },
    { "RANGE", TEXT, FIELD(range), "" },
    { "WARMUP_RANGE", TEXT, FIELD(warmup_range), "" },
    { "START", COUNT, FIELD(start_mono_ns), "0" },
    { "DELAY_US", COUNT, FIELD(delay_us), "0" },
    { "DURATION_US", COUNT, FIELD(duration_us), "0" },
    { "BUDGET_PPM", COUNT, FIELD(budget_ppm), "0" },
    { "REPLAYS", COUNT, FIELD(replays), "0" },
    { "MEMORY", COUNT, FIELD(memory_bytes), "67108864" },
    { "MAX_SIZE", COUNT, FIELD(max_file_bytes), "0" },
    { "BUFFER", COUNT, FIELD(buffer_bytes), "131072" },
    { "FLUSH_MS", COUNT, FIELD(flush_ms), "200" },
    { "WAIT_MS", COUNT, FIELD(wait_ms), "1000" },
    { "CUPTI", TEXT, FIELD(cupti), "" },
    { "RAW", TEXT, FIELD(raw), "" },
    { "ARMS", SWITCH, FIELD(arms), "0" },
#undef FIELD
};

/* Returns -1 if the value is invalid. */
static int set_value(const struct row *r, struct settings *s, const char *text) {
    char *at = (char *)s + r->offset;
    if (r->type == TEXT) return (size_t)snprintf(at, r->cap, "%s", text) < r->cap ? 0 : -1;
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > MAX_DIGITS || text[digits]) return -1;
    uint64_t v = strtoull(text, NULL, 10);
    if (r->type == SWITCH)
        *(bool *)at = v != 0;
    else
        *(uint64_t *)(void *)at = v;
    return 0;
}

static bool is_known(const char *name, size_t len) {
    for (size_t i = 0; i < COUNTOF(rows); i++)
        if (strlen(rows[i].name) == len && strncmp(rows[i].name, name, len) == 0) return true;
    return false;
}

static void warn_unknown(void (*warn)(const char *, ...)) {
    for (char **e = environ; e && *e; e++) {
        if (strncmp(*e, PREFIX, sizeof PREFIX - 1) != 0) continue;
        const char *name = *e + sizeof PREFIX - 1;
        size_t len = strcspn(name, "=");
        if (!is_known(name, len)) warn("unknown variable " PREFIX "%.*s", (int)len, name);
    }
}

static bool *flag_of(struct settings *s, const char *word, size_t len) {
    const struct {
        const char *word;
        bool *flag;
    } words[] = { { "kernels", &s->kernels },
                  { "copies", &s->copies },
                  { "launches", &s->launches },
                  { "syncs", &s->syncs },
                  { "nvtx", &s->nvtx },
                  { "gemms", &s->gemms },
                  { "allocations", &s->allocations },
                  { "whole-graphs", &s->whole_graphs },
                  { "empty", &s->empty },
                  { "passing", &s->passing } };
    for (size_t i = 0; i < COUNTOF(words); i++)
        if (strlen(words[i].word) == len && strncmp(words[i].word, word, len) == 0) return words[i].flag;
    return NULL;
}

void settings_set_what(struct settings *s, const char *words, void (*warn)(const char *, ...)) {
    s->kernels = s->copies = s->launches = s->syncs = s->gemms = s->whole_graphs = s->empty = s->passing =
        false;
    for (const char *p = words; *p; p += *p == ',') {
        size_t len = strcspn(p, ",");
        bool *flag = flag_of(s, p, len);
        if (flag)
            *flag = true;
        else if (len && !(len == 4 && strncmp(p, "none", 4) == 0))
            warn(PREFIX "WHAT: '%.*s' is not one of kernels, copies, launches, syncs, nvtx, gemms, "
                        "allocations, whole-graphs",
                 (int)len, p);
        p += len;
    }
}

/* Returns 1/16 of the address space limit. UINT64_MAX: no limit. */
static uint64_t address_space_share(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
    return limit.rlim_cur / 16;
}

void settings_load(struct settings *s, void (*warn)(const char *fmt, ...)) {
    memset(s, 0, sizeof *s);
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        char name[64];
        snprintf(name, sizeof name, PREFIX "%s", rows[i].name);
        const char *text = getenv(name);
        set_value(&rows[i], s, rows[i].fallback);
        if (!text || !*text || set_value(&rows[i], s, text) == 0) continue;
        warn("%s=%.100s is invalid; using the default '%s'", name, text, rows[i].fallback);
        set_value(&rows[i], s, rows[i].fallback);
    }
    s->memory_bytes = MIN(MAX(s->memory_bytes, (uint64_t)4 << 20), address_space_share());
    s->buffer_bytes = MIN(MAX(s->buffer_bytes, (uint64_t)64 << 10), s->memory_bytes / 8);
    settings_set_what(s, s->what, warn);
    warn_unknown(warn);
}

bool settings_at(const struct settings *s, unsigned i, char *name, unsigned long name_cap, char *value,
                 unsigned long value_cap) {
    if (i >= COUNTOF(rows)) return false;
    const struct row *r = &rows[i];
    const char *at = (const char *)s + r->offset;
    size_t n = 0;
    for (; r->name[n] && n + 1 < name_cap; n++) name[n] = r->name[n] == '_' ? '_' : (char)(r->name[n] | 0x20);
    name[n] = '\0';
    switch (r->type) {
    case TEXT: snprintf(value, value_cap, "%s", at); break;
    case COUNT:
        snprintf(value, value_cap, "%llu", (unsigned long long)*(const uint64_t *)(const void *)at);
        break;
    case SWITCH: snprintf(value, value_cap, "%d", *(const bool *)at); break;
    }
    return true;
}

uint64_t settings_wait_ns(const struct settings *s, unsigned percent) {
    return MIN(s->wait_ms, MAX_WAIT_MS) * 1000000 / 100 * percent;
}
