/* Converts a trace event to one of our records, by its category. The caller sets the times. */
#ifndef IMPORT_KINETO_RECORD_H
#define IMPORT_KINETO_RECORD_H

#include "base/strbuf.h"
#include "import/kineto_event.h"
#include "import/sink.h"

/* All kinds begin with start_ns and end_ns. */
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

#define KINETO_PIDS 1024 /* later ones belong to the process of the file */
struct kineto_maker {
    struct sink *sink; /* numbers texts and threads */
    uint64_t pid;      /* First process that launched work or ran an operator; UINT64_MAX: none yet. */
    struct kineto_pid {
        uint64_t key;
        uint32_t number;
        bool calls, ranges; /* a process of the host has both; MTIA lists calls under the device, too */
    } pids[KINETO_PIDS];
    size_t npids, last_pid; /* last_pid: index of the last event's */
    struct {                /* threads that are tracks of a device */
        struct kineto_track {
            uint32_t thread, device;
        } * v;
        size_t n, cap;
    } tracks;
    struct text_cache details;
    size_t detail_bytes;
    struct strbuf text; /* scratch buffer */
};
void kineto_maker_init(struct kineto_maker *mk, struct sink *sink);
void kineto_maker_free(struct kineto_maker *mk);
void kineto_make(struct kineto_maker *mk, const struct kineto_event *ev, struct kineto_record *r);

uint32_t kineto_thread(struct sink *sink, const struct kineto_event *ev);
enum trace_sync_kind kineto_sync_kind(struct span name); /* "cudaStreamSynchronize", "Event Sync" */

#endif
