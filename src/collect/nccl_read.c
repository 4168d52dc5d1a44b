#include "collect/nccl_read.h"

#include <string.h>

static const void *field(const void *descriptor, uint16_t offset) {
    return offset == NCCL_ABSENT ? NULL : (const char *)descriptor + offset;
}
uint64_t nccl_read_u64(const void *d, uint16_t offset, uint64_t otherwise) {
    const void *p = field(d, offset);
    uint64_t v = otherwise;
    if (p) memcpy(&v, p, sizeof v);
    return v;
}
static uint32_t get_int(const void *d, uint16_t offset) {
    const void *p = field(d, offset);
    int v = -1;
    if (p) memcpy(&v, p, sizeof v);
    return nccl_known(v);
}
uint32_t nccl_read_byte(const void *d, uint16_t offset) {
    const unsigned char *p = field(d, offset);
    return p ? *p : TRACE_UNKNOWN_U32;
}
static const char *get_text(const void *d, uint16_t offset) {
    const void *p = field(d, offset);
    const char *text = NULL;
    if (p) memcpy(&text, p, sizeof text);
    return text ? text : "";
}
uint64_t nccl_read_type(const struct nccl_layout *l, const void *d) {
    return l->type_bytes == 1 ? nccl_read_byte(d, l->type) : nccl_read_u64(d, l->type, 0);
}

static uint32_t add_text(struct trace_writer *w, const char *text) {
    return w && *text ? trace_writer_str(w, text) : 0;
}

/* NCCL's count of an all-to-all is the number of elements per rank. It is multiplied by the number of
 * ranks. */
static void set_data(struct trace_writer *w, struct trace_collective *r, const char *function,
                     const char *type, uint64_t count) {
    uint32_t bytes;
    const char *name = trace_collective_type_of(type, strlen(type), &bytes);
    r->op = trace_collective_op_of(function, strlen(function));
    r->name = add_text(w, function);
    r->data_type = add_text(w, name ? name : type);
    if (r->op == TRACE_OP_ALL_TO_ALL &&
        (r->size == TRACE_UNKNOWN_U32 || __builtin_mul_overflow(count, (uint64_t)r->size, &count)))
        return;
    r->count = count;
    if (!name || __builtin_mul_overflow(count, (uint64_t)bytes, &r->bytes)) r->bytes = TRACE_UNKNOWN_U64;
}

static bool has_root(uint32_t op) {
    return op == TRACE_OP_BROADCAST || op == TRACE_OP_REDUCE || op == TRACE_OP_GATHER ||
           op == TRACE_OP_SCATTER;
}

static void read_coll(struct trace_writer *w, const struct nccl_layout *l, const void *d,
                      struct trace_collective *r) {
    set_data(w, r, get_text(d, l->coll_function), get_text(d, l->coll_type),
             nccl_read_u64(d, l->coll_count, 0));
    r->sequence = nccl_read_u64(d, l->coll_sequence, TRACE_UNKNOWN_U64);
    if (has_root(r->op)) r->root = get_int(d, l->coll_root);
    r->channels =
        nccl_read_byte(d, l->coll_channels != NCCL_ABSENT ? l->coll_channels : l->coll_max_channels);
    r->algorithm = add_text(w, get_text(d, l->coll_algorithm));
    r->protocol = add_text(w, get_text(d, l->coll_protocol));
    if (l->coll_hash == NCCL_ABSENT) return;
    r->communicator = nccl_read_u64(d, l->coll_hash, TRACE_UNKNOWN_U64);
    r->communicator_name = add_text(w, get_text(d, l->coll_name));
}

/* NCCL does not number sends and receives. Counting them per peer and direction gives the same numbers on
 * both sides. */
static void count_pair(struct nccl_comm *c, struct trace_collective *r) {
    if (r->peer >= NCCL_PEERS || (r->op != TRACE_OP_SEND && r->op != TRACE_OP_RECV)) return;
    r->sequence = atomic_fetch_add(r->op == TRACE_OP_SEND ? &c->sent[r->peer] : &c->received[r->peer], 1);
    r->flags |= TRACE_COLLECTIVE_COUNTED;
}

static void read_p2p(struct trace_writer *w, struct nccl_comm *c, const void *d, struct trace_collective *r) {
    const struct nccl_layout *l = c->layout;
    set_data(w, r, get_text(d, l->p2p_function), get_text(d, l->p2p_type), nccl_read_u64(d, l->p2p_count, 0));
    r->peer = get_int(d, l->p2p_peer);
    r->channels = nccl_read_byte(d, l->p2p_channels);
    count_pair(c, r);
    if (l->p2p_hash == NCCL_ABSENT) return;
    r->communicator = nccl_read_u64(d, l->p2p_hash, TRACE_UNKNOWN_U64);
    r->communicator_name = add_text(w, get_text(d, l->p2p_name));
}

static void read_ce(struct trace_writer *w, const struct nccl_layout *l, const void *d,
                    struct trace_collective *r) {
    set_data(w, r, get_text(d, l->ce_function), get_text(d, l->ce_type), nccl_read_u64(d, l->ce_count, 0));
    r->sequence = nccl_read_u64(d, l->ce_sequence, TRACE_UNKNOWN_U64);
    if (has_root(r->op)) r->root = get_int(d, l->ce_root);
    r->algorithm = add_text(w, "CE");
}

void nccl_read_operation(struct trace_writer *w, struct nccl_comm *c, uint64_t type, const void *d,
                         struct trace_collective *r) {
    r->rank = c->rank != TRACE_UNKNOWN_U32 ? c->rank : get_int(d, c->layout->rank);
    r->size = c->size;
    r->nodes = c->nodes;
    r->communicator = c->hash;
    r->communicator_name = add_text(w, c->name);
    if (type == NCCL_EVENT_COLL) read_coll(w, c->layout, d, r);
    if (type == NCCL_EVENT_P2P) read_p2p(w, c, d, r);
    if (type == NCCL_EVENT_CE_COLL) read_ce(w, c->layout, d, r);
}
