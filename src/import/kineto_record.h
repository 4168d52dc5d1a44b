/* From a trace event to a record of ours: what the categories mean. Times are left to the caller. */
#ifndef IMPORT_KINETO_RECORD_H
#define IMPORT_KINETO_RECORD_H

#include "base/strbuf.h"
#include "import/kineto_event.h"
#include "import/sink.h"

/* A record on its way to the sink; all kinds begin with start_ns and end_ns. */
struct kineto_record {
    enum trace_kind kind;
    enum sink_event event;
    union {
        struct trace_range range;
        struct trace_launch launch;
        struct trace_kernel kernel;
        struct trace_copy copy;
        struct trace_sync sync;
    };
};

struct kineto_maker {
    struct sink *sink; /* texts and threads get their numbers there */
    uint64_t pid;      /* of the first process that launched or ran an operator; UINT64_MAX: none yet */
    struct text_cache details;
    size_t detail_bytes;
    struct strbuf text; /* reused */
};
void kineto_maker_init(struct kineto_maker *mk, struct sink *sink);
void kineto_maker_free(struct kineto_maker *mk);
void kineto_make(struct kineto_maker *mk, const struct kineto_event *ev, struct kineto_record *r);

uint32_t kineto_thread(struct sink *sink, const struct kineto_event *ev);
enum trace_sync_kind kineto_sync_kind(struct span name); /* "cudaStreamSynchronize", "Event Sync" */

#endif
