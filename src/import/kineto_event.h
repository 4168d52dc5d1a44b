/* One Chrome trace event, taken apart. Knows the event's fields, not what its category means to us. */
#ifndef IMPORT_KINETO_EVENT_H
#define IMPORT_KINETO_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct span {
    const char *p; /* never NULL, also when empty */
    size_t n;
};

static inline bool span_has(struct span s, const char *word) {
    return s.n && memmem(s.p, s.n, word, strlen(word)) != NULL;
}
static inline bool span_starts(struct span s, const char *word) {
    size_t n = strlen(word);
    return s.n >= n && memcmp(s.p, word, n) == 0;
}

enum kineto_category { /* what we make of `cat`; the many names of the years are in kineto_event.c */
                       KINETO_NONE, /* no category */
                       KINETO_KERNEL,
                       KINETO_MEMCPY,
                       KINETO_MEMSET,
                       KINETO_RUNTIME,
                       KINETO_DRIVER,
                       KINETO_OP,
                       KINETO_USER,
                       KINETO_GPU_USER,
                       KINETO_PYTHON,
                       KINETO_SYNC,
                       KINETO_OVERHEAD,
                       KINETO_OTHER
};

/* pid and tid may be numbers, texts or texts that hold numbers. */
struct kineto_id {
    uint64_t key;    /* the number, or a hash of the text with the top bit set */
    uint64_t number; /* UINT64_MAX: none. "stream 7" is 7 here, though its key is that of the text */
};

struct kineto_event {
    char phase; /* 0: none */
    enum kineto_category category;
    struct span cat, name, id; /* id: as it stands */
    struct kineto_id pid, tid;
    int64_t ts_ns, dur_ns;
    bool has_ts, has_dur, bad_number; /* bad_number: a time that is NaN or out of range */
    struct span args;                 /* the object as it stands; empty when there is none */
    bool cut_text;
};

/* Copies of texts with escapes, which the parser does not keep; one a reader of events. Allocated when
 * needed. */
struct kineto_scratch {
    char *buf;
    size_t used, cap;
};
void kineto_scratch_init(struct kineto_scratch *s);
void kineto_scratch_free(struct kineto_scratch *s);

/* `text` is one JSON object. False: not valid JSON. Spans point into text or scratch, until the next call.
 * A flow is read no further than to its phase unless `whole_flows`: there are two for each kernel, and
 * hardly ever a need for them. */
bool kineto_event_parse(const char *text, size_t len, bool whole_flows, struct kineto_scratch *scratch,
                        struct kineto_event *ev);

#endif
