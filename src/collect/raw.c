#include "collect/raw.h"

#include <pthread.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>

#include "collect/abi.h"
#include "collect/cupti.h"
#include "collect/host.h"
#include "collect/layout.h"
#include "collect/output.h"

static FILE *tape;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Addresses of texts that are on the tape. After a collision a text is written again, which is harmless. */
static uint64_t written[4096];

void raw_start(uint32_t cupti_version) {
    const uint32_t head[2] = { cupti_version, 0 };
    if (!settings.raw[0]) return;
    if (!(tape = fopen(settings.raw, "we"))) {
        report_problem("INFERPROF_COLLECT_RAW: %s cannot be written", settings.raw);
        return;
    }
    fwrite("IPTAPE1\n", 1, 8, tape);
    fwrite(head, sizeof head, 1, tape);
    fflush(tape);
}

bool raw_on(void) { return tape != NULL; }

static void write_block(uint32_t type, const void *a, size_t na, const void *b, size_t nb) {
    const uint32_t head[2] = { type, (uint32_t)(na + nb) };
    fwrite(head, sizeof head, 1, tape);
    fwrite(a, 1, na, tape);
    if (nb) fwrite(b, 1, nb, tape);
}

static void write_text(uint64_t address) {
    uint64_t *slot = &written[(address >> 4) % (sizeof written / sizeof written[0])];
    const char *p = (const char *)(uintptr_t)address;
    if (!address || *slot == address) return;
    *slot = address;
    write_block(RAW_TEXT, &address, sizeof address, p, strlen(p));
}

void raw_buffer(uint8_t *buffer, size_t valid) {
    const struct layout *l = tape ? layout_find(cupti.version) : NULL;
    uint8_t *r = NULL;
    if (!l || !lock_take(&lock, &host_locks)) return;
    while (cupti.next_record(buffer, valid, &r) == CUPTI_OK)
        if (field_u32(r, 0) == KIND_CONCURRENT_KERNEL) write_text(field_u64(r, l->kernel->name));
    write_block(RAW_BUFFER, buffer, valid, NULL, 0);
    fflush(tape);
    pthread_mutex_unlock(&lock);
}

void raw_call(const struct raw_call *c) {
    if (!tape || !lock_take(&lock, &host_locks)) return;
    write_text(c->name);
    write_block(RAW_CALL, c, sizeof *c, NULL, 0);
    pthread_mutex_unlock(&lock);
}

/* Discards data that the parent has not flushed yet: otherwise it would be written twice. */
void raw_after_fork(void) {
    pthread_mutex_init(&lock, NULL);
    if (tape) __fpurge(tape);
    tape = NULL;
}
