/* The profiler interface of NCCL and RCCL, versions 2 to 7: our own declarations, and the offsets of the
 * fields that the collector reads. tests/tools/nccl_layout.py compares the offsets with NCCL's headers. */
#ifndef COLLECT_NCCL_LAYOUT_H
#define COLLECT_NCCL_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#define NCCL_FIRST_VERSION 2
#define NCCL_LAST_VERSION 7
#define NCCL_ABSENT 0xffff /* no such field */

/* Bits of the activation mask, and values of the field `type`. */
enum nccl_event {
    NCCL_EVENT_COLL = 1 << 1,
    NCCL_EVENT_P2P = 1 << 2,
    NCCL_EVENT_KERNEL_CHANNEL = 1 << 6,
    NCCL_EVENT_COLL_API = 1 << 9,
    NCCL_EVENT_P2P_API = 1 << 10,
    NCCL_EVENT_CE_COLL = 1 << 12, /* uses copy engines, no kernel */
};
#define NCCL_STATE_KERNEL_CHANNEL_STOP 22
#define NCCL_SUCCESS 0
#define NCCL_INTERNAL_ERROR 3 /* NCCL then runs without plugin */

/* F(name, member in NCCL's header) */
#define NCCL_FIELDS(F)                          \
    F(type, type)                               \
    F(parent, parentObj)                        \
    F(rank, rank)                               \
    F(coll_name, coll.name)                     \
    F(coll_hash, coll.commHash)                 \
    F(coll_sequence, coll.seqNumber)            \
    F(coll_function, coll.func)                 \
    F(coll_count, coll.count)                   \
    F(coll_root, coll.root)                     \
    F(coll_type, coll.datatype)                 \
    F(coll_max_channels, coll.nMaxChannels)     \
    F(coll_channels, coll.nChannels)            \
    F(coll_algorithm, coll.algo)                \
    F(coll_protocol, coll.proto)                \
    F(p2p_name, p2p.name)                       \
    F(p2p_hash, p2p.commHash)                   \
    F(p2p_function, p2p.func)                   \
    F(p2p_type, p2p.datatype)                   \
    F(p2p_count, p2p.count)                     \
    F(p2p_peer, p2p.peer)                       \
    F(p2p_channels, p2p.nChannels)              \
    F(channel_id, kernelCh.channelId)           \
    F(channel_timer, kernelCh.pTimer)           \
    F(coll_api_captured, collApi.graphCaptured) \
    F(p2p_api_captured, p2pApi.graphCaptured)   \
    F(ce_sequence, ceColl.seqNumber)            \
    F(ce_function, ceColl.func)                 \
    F(ce_count, ceColl.count)                   \
    F(ce_root, ceColl.root)                     \
    F(ce_type, ceColl.datatype)

/* Offsets in the event descriptor, in bytes. NCCL_ABSENT: the version does not have the field. */
struct nccl_layout {
    uint16_t size, type_bytes; /* of the descriptor and `type` */
    uint16_t state_timer;      /* in the state arguments: GPU time when a channel ends */
#define F(name, member) uint16_t name;
    NCCL_FIELDS(F)
#undef F
};
/* NULL: unknown version */
const struct nccl_layout *nccl_layout(unsigned version);

/* NCCL finds one of these structs by its symbol. It calls the functions on its own threads and on the
 * program's threads. */
typedef void nccl_log(int level, unsigned long flags, const char *file, int line, const char *format, ...);
struct nccl_profiler_v2 { /* also version 3 */
    const char *name;
    int (*init)(void **context, int *mask);
    int (*start)(void *context, void **event, void *descriptor);
    int (*stop)(void *event);
    int (*state)(void *event, int state, void *args);
    int (*finalize)(void *context);
};
struct nccl_profiler_v4 {
    const char *name;
    int (*init)(void **context, int *mask, const char *comm_name, uint64_t comm_hash, int nodes, int ranks,
                int rank, nccl_log *log);
    int (*start)(void *context, void **event, void *descriptor);
    int (*stop)(void *event);
    int (*state)(void *event, int state, void *args);
    int (*finalize)(void *context);
};
struct nccl_profiler_v5 { /* also version 6 */
    const char *name;
    int (*init)(void **context, uint64_t comm_hash, int *mask, const char *comm_name, int nodes, int ranks,
                int rank, nccl_log *log);
    int (*start)(void *context, void **event, void *descriptor);
    int (*stop)(void *event);
    int (*state)(void *event, int state, void *args);
    int (*finalize)(void *context);
};
/* In some headers of NCCL and RCCL, version 7 has one or two more functions. They are optional, and NULL
 * here. */
struct nccl_profiler_v7 {
    const char *name;
    int (*init)(void **context, uint64_t comm_hash, int *mask, const char *comm_name, int nodes, int ranks,
                int rank, nccl_log *log);
    int (*start)(void *context, void **event, void *descriptor);
    int (*stop)(void *event);
    int (*state)(void *event, int state, void *args);
    int (*finalize)(void *context);
    void (*optional[8])(void);
};

#endif
