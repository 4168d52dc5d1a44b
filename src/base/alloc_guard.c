#include "base/alloc_guard.h"

#include <setjmp.h>
#include <stdlib.h>

#include "base/die.h"

/* Reserved during a guarded call and freed when the call ends, so that memory is left to report a failure. */
#define RESERVE_BYTES (256u << 10)

struct alloc_guard {
    jmp_buf frame;
    struct alloc_guard *outer;
    size_t failed_bytes;
};

static _Thread_local struct alloc_guard *current;
static size_t refuse_in; /* allocations until one fails; 0: none */

bool alloc_guard_run(void (*call)(void *context), void *context, size_t *bytes) {
    struct alloc_guard g = { .outer = current };
    void *volatile reserve = malloc(RESERVE_BYTES);
    bool done = false;
    if (setjmp(g.frame) == 0) {
        current = &g;
        call(context);
        done = true;
    }
    current = g.outer;
    free(reserve);
    *bytes = g.failed_bytes;
    return done;
}

void alloc_failed(size_t bytes) {
    if (!current) die("out of memory: %zu bytes", bytes);
    current->failed_bytes = bytes;
    longjmp(current->frame, 1);
}

struct alloc_guard *alloc_guard_suspend(void) {
    struct alloc_guard *g = current;
    current = NULL;
    return g;
}

void alloc_guard_resume(struct alloc_guard *g) { current = g; }

void alloc_guard_fail_nth(size_t n) { refuse_in = n; }

bool alloc_guard_refuses(void) { return current && refuse_in && --refuse_in == 0; }
