#include "collect/nvtx_names.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "collect/host.h"
#include "collect/output.h"
#include "collect/pages.h"

struct name {
    char *text;
    _Atomic uint64_t string; /* slot of output_string() */
};

/* Entries are only added, so readers need no lock. */
static struct {
    struct name *v;
    unsigned cap;
    atomic_uint n;
} tables[NVTX_TABLES] = {
    [NVTX_DOMAINS] = { .cap = 4096 },
    [NVTX_STRINGS] = { .cap = 65536 },
    [NVTX_CATEGORIES] = { .cap = 4096 },
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define TEXT_BYTES ((size_t)64 << 10)
static struct {
    char *pages; /* the last ones, of TEXT_BYTES */
    size_t used;
} texts = { .used = TEXT_BYTES };

static char *keep_text(const char *text) {
    size_t n = strnlen(text, NVTX_TEXT_MAX);
    if (n >= TEXT_BYTES - texts.used) {
        char *pages = pages_map(TEXT_BYTES);
        if (!pages) return NULL;
        texts.pages = pages;
        texts.used = 0;
    }
    char *copy = texts.pages + texts.used; /* the pages are zeroed: the copy has its end */
    memcpy(copy, text, n);
    texts.used += n + 1;
    return copy;
}

static uint32_t find_text(enum nvtx_table table, const char *text) {
    for (unsigned i = 0; i < tables[table].n; i++)
        if (strcmp(tables[table].v[i].text, text) == 0) return i + 1;
    return 0;
}

/* Registered strings are not searched: a program registers each string once, and two numbers for the same
 * text are harmless. */
uint32_t nvtx_name_add(enum nvtx_table table, const char *text) {
    if (!lock_take(&lock, &host_locks)) return 0;
    uint32_t number = table == NVTX_STRINGS ? 0 : find_text(table, text);
    unsigned n = tables[table].n;
    if (!tables[table].v) tables[table].v = pages_map(tables[table].cap * sizeof *tables[table].v);
    if (!number && tables[table].v && n < tables[table].cap && (tables[table].v[n].text = keep_text(text))) {
        atomic_store(&tables[table].n, n + 1);
        number = n + 1;
    }
    pthread_mutex_unlock(&lock);
    return number;
}

const char *nvtx_name_text(enum nvtx_table table, uint32_t number) {
    return number && number <= atomic_load(&tables[table].n) ? tables[table].v[number - 1].text : "";
}

uint32_t nvtx_name_string(enum nvtx_table table, uint32_t number, struct trace_writer *w) {
    if (!number || number > atomic_load(&tables[table].n)) return 0;
    struct name *name = &tables[table].v[number - 1];
    return output_string(w, name->text, &name->string);
}

/* Entries of NVTX_CATEGORIES have the form "domain:category:name". */
static void category_key(uint32_t domain, uint32_t category, char *out, size_t cap) {
    snprintf(out, cap, "%u:%u:", domain, category);
}

void nvtx_category_name(uint32_t domain, uint32_t category, const char *text) {
    char key[NVTX_TEXT_MAX];
    category_key(domain, category, key, sizeof key);
    size_t n = strlen(key);
    snprintf(key + n, sizeof key - n, "%s", text);
    nvtx_name_add(NVTX_CATEGORIES, key);
}

uint32_t nvtx_category_string(uint32_t domain, uint32_t category, struct trace_writer *w) {
    char key[32];
    unsigned n = atomic_load(&tables[NVTX_CATEGORIES].n);
    if (!category || !n) return 0;
    category_key(domain, category, key, sizeof key);
    size_t len = strlen(key);
    for (unsigned i = 0; i < n; i++) {
        const char *text = tables[NVTX_CATEGORIES].v[i].text;
        if (strncmp(text, key, len) != 0) continue;
        char shown[NVTX_TEXT_MAX + 16];
        snprintf(shown, sizeof shown, "category %s", text + len);
        return trace_writer_str(w, shown);
    }
    return 0;
}

void nvtx_utf8(const wchar_t *wide, char *out, size_t cap) {
    size_t n = 0;
    for (; wide && *wide && n + 5 < cap; wide++) {
        uint32_t c = (uint32_t)*wide;
        if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) c = 0xfffd;
        unsigned more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        static const uint8_t lead[] = { 0, 0xc0, 0xe0, 0xf0 };
        out[n++] = (char)(lead[more] | c >> (6 * more));
        while (more--) out[n++] = (char)(0x80 | (c >> (6 * more) & 0x3f));
    }
    out[n] = '\0';
}

/* Another thread of the parent may have been writing a text. */
void nvtx_names_after_fork(void) {
    pthread_mutex_init(&lock, NULL);
    texts.used = TEXT_BYTES;
}
