/* A model shared by several GPUs: memory, cost and communication of each GPU, and the roofline time.
 *     struct llm_topology t = { llm_layout_of(8, 2, 0, 1), 8, .link = llm_link_of_gpu(gpu), .net = net };
 *     if (llm_parallel_eval(&r, &t, &p, &err) < 0) ...            -- r: result of llm_static_eval()
 *     llm_parallel_text(&r, &p, how, &out);
 *     llm_parallel_free(&p);
 * The roofline time assumes that communication does not overlap with computation, just as operators do not
 * overlap. GPUs are numbered tp first, then dp, then pp; `--batch` is the batch of one replica. */
#ifndef LLM_PARALLEL_H
#define LLM_PARALLEL_H

#include "llm/links.h"
#include "llm/shard.h"
#include "llm/static.h"

#define LLM_COMMS_MAX 12

struct llm_topology {
    struct llm_layout layout;
    uint64_t gpus_per_node;
    const struct llm_link *link, *net; /* within a node, between nodes; NULL: unknown */
};

/* One kind of collective of a GPU in one pass. */
struct llm_comm {
    enum llm_collective_kind kind;
    const char *what;  /* "attention" */
    const char *group; /* "tp" */
    uint64_t ranks, count;
    double bytes;      /* size of one collective, as defined for llm_collective_factor() */
    double sent_bytes; /* bytes that this GPU sends in the pass */
    double seconds;    /* time of all `count` collectives; NAN: a link is unknown */
    const char *link;  /* the limiting link; NULL: unknown */
};

/* One pass (prefill or decode step) of one GPU. */
struct llm_part_pass {
    struct llm_cost cost;
    struct llm_comm comms[LLM_COMMS_MAX];
    size_t ncomms;
    double sent_bytes, comm_s;
    double floor_s; /* cost.floor_s + comm_s */
};

/* A GPU of one pipeline stage; all GPUs of a stage have the same part. */
struct llm_part {
    struct llm_layers layers;
    uint64_t experts; /* per layer; 0: none */
    double weight_bytes, kv_bytes, activation_bytes, memory_bytes;
    struct llm_part_pass prefill, decode;
};

struct llm_parallel {
    struct llm_topology topology;
    uint64_t gpus;
    struct llm_part *parts; /* [topology.layout.pp] */
    /* Times of one batch through all stages. The hard bounds assume that all work within a stage overlaps. */
    double prefill_s, decode_s, prefill_bound_s, decode_bound_s;
    double slowest_decode_s; /* decode time of the slowest stage, which limits a full pipeline */
    double tokens_per_s;     /* rate of the job with one batch per replica in flight */
    /* rate of the job with pp batches per replica in flight; each batch needs its own KV cache */
    double tokens_per_s_full;
    char **notes;
    size_t nnotes;
};

int llm_parallel_eval(const struct llm_static *r, const struct llm_topology *t, struct llm_parallel *p,
                      struct err *err);
void llm_parallel_free(struct llm_parallel *p);
/* Returns 1 if the part of every GPU fits into its memory, 0 if not, -1 if unknown. */
int llm_parallel_fits(const struct llm_static *r, const struct llm_parallel *p);

void llm_parallel_text(const struct llm_static *r, const struct llm_parallel *p, struct llm_print how,
                       struct strbuf *out);
void llm_parallel_json(const struct llm_static *r, const struct llm_parallel *p, struct jsonw *j);

#endif
