/* Parses one Chrome trace event into its fields. kineto_record.h interprets the categories. */
#ifndef IMPORT_KINETO_EVENT_H
#define IMPORT_KINETO_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct span {
    const char *p; /* never NULL, even if empty */
    size_t n;
};

static inline bool span_has(struct span s, const char *word) {
    return s.n && memmem(s.p, s.n, word, strlen(word)) != NULL;
}
static inline bool span_starts(struct span s, const char *word) {
    size_t n = strlen(word);
    return s.n >= n && memcmp(s.p, word, n) == 0;
}

enum kineto_category {              /* meaning of `cat` */
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

/* pid and tid may be numbers or texts. */
struct kineto_id {
    uint64_t key;     /* number, or hash with the top bit set */
    uint64_t number;  /* 7 for "stream 7"; UINT64_MAX: none */
    int64_t shown;    /* signed number, TRACE_ID_NONE or TRACE_ID_EMPTY */
    struct span text; /* empty for numbers */
};

struct kineto_event {
    char phase; /* 0: none */
    enum kineto_category category;
    struct span cat, name, id; /* id: raw text */
    struct kineto_id pid, tid;
    int64_t ts_ns, dur_ns;
    bool has_ts, has_dur, bad_number; /* bad_number: a time is invalid */
    struct span args;                 /* raw object; empty if none */
    bool cut_text;
};

/* Copies of texts that the parser would overwrite. Allocated on first use. */
struct kineto_scratch {
    char *buf;
    size_t used, cap;
};
void kineto_scratch_init(struct kineto_scratch *s);
void kineto_scratch_free(struct kineto_scratch *s);

/* `text` is one JSON object. Returns false if it is not valid. Spans point into text or scratch and are valid
 * until the next call. */
bool kineto_event_parse(const char *text, size_t len, struct kineto_scratch *scratch,
                        struct kineto_event *ev);

#endif
