#include "llm/parallel.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"
#include "llm/fields.h"

/* ---- Links */

static double group_per_node(const struct llm_topology *t, uint64_t ranks) {
    return (double)MIN(ranks, t->gpus_per_node);
}

/* Returns the seconds to send `sent` bytes in a group of consecutive GPUs, and sets c->link to the limiting
 * link. A ring across nodes uses the network adapters of all its GPUs in a node. An all-to-all sends to every
 * other node through the GPU's own adapter. */
static double send_seconds(const struct llm_topology *t, struct llm_comm *c, double sent, bool across) {
    double link = t->link ? t->link->gbytes_per_s * 1e9 : NAN,
           net = t->net ? t->net->gbytes_per_s * 1e9 : NAN;
    double n = (double)c->ranks, local = group_per_node(t, c->ranks);
    if (!across) {
        c->link = t->link ? t->link->name : NULL;
        return sent / link;
    }
    if (c->kind == LLM_SEND) {
        c->link = t->net ? t->net->name : NULL;
        return sent / net;
    }
    double inside_s = 0, outside_s = 0;
    if (c->kind == LLM_ALL_TO_ALL) {
        inside_s = local > 1 ? sent * (local - 1) / (n - 1) / link : 0;
        outside_s = sent * (n - local) / (n - 1) / net;
    } else {
        inside_s = local > 1 ? sent / link : 0;
        outside_s = sent / (local * net);
    }
    if (isnan(inside_s) || isnan(outside_s)) return NAN;
    c->link = inside_s > outside_s ? t->link->name : t->net->name;
    return fmax(inside_s, outside_s);
}

/* Adds c.count collectives of c.bytes each. `across`: the group spans several nodes. */
static void add_comm(const struct llm_topology *t, struct llm_part_pass *p, struct llm_comm c, bool across) {
    if (!c.count || c.ranks < 2 || !(c.bytes > 0) || p->ncomms == LLM_COMMS_MAX) return;
    c.sent_bytes = (double)c.count * c.bytes * llm_collective_factor(c.kind, c.ranks);
    c.seconds = send_seconds(t, &c, c.sent_bytes, across);
    p->sent_bytes += c.sent_bytes;
    p->comm_s += c.seconds;
    p->comms[p->ncomms++] = c;
}

/* ---- Communication of a stage */
struct stage_layers {
    uint64_t all, moe;
};

static struct stage_layers count_layers(const struct llm_model *m, struct llm_layers range) {
    struct stage_layers n = { range.end - range.first, 0 };
    for (uint32_t i = range.first; i < range.end; i++) n.moe += m->text.layer[i].moe;
    return n;
}

/* Adds the collectives of the tensor-parallel group. `bytes`: size of the hidden states of all tokens. */
static void add_tensor(const struct llm_model *m, const struct llm_topology *t, uint64_t stage,
                       struct stage_layers n, double bytes, double logit_bytes, struct llm_part_pass *p) {
    const struct llm_layout *l = &t->layout;
    bool across = l->tp > t->gpus_per_node, exchange = llm_experts_exchange(l);
    uint64_t scattered = exchange ? n.moe : 0, dense = n.all - n.moe, reduced = dense + n.moe - scattered;
    struct llm_comm c = { .kind = LLM_ALL_REDUCE, .group = "tp", .ranks = l->tp, .bytes = bytes };
    c.what = "embedding";
    c.count = stage == 0;
    add_comm(t, p, c, across);
    c.what = "attention";
    c.count = n.all - scattered - (m->text.parallel_residual ? dense : 0);
    add_comm(t, p, c, across);
    c.what = m->text.parallel_residual ? "attention and MLP" : "MLP";
    c.count = reduced;
    add_comm(t, p, c, across);
    c.what = "attention, before experts";
    c.kind = LLM_REDUCE_SCATTER;
    c.count = scattered;
    add_comm(t, p, c, across);
    c.what = "after experts";
    c.kind = LLM_ALL_GATHER;
    add_comm(t, p, c, across);
    c.what = "from the stage before";
    c.count = stage > 0;
    add_comm(t, p, c, across);
    c.what = "logits";
    c.count = stage + 1 == l->pp;
    c.bytes = logit_bytes;
    add_comm(t, p, c, across);
}

/* Returns the probability that a token uses at least one expert of a given GPU, under even routing: k
 * different experts of E, of which E / ep are on the GPU. */
static double reaches_gpu(const struct llm_text *t, uint64_t ep) {
    double e = (double)t->experts, here = e / (double)ep, none = 1;
    for (uint64_t i = 0; i < t->experts_per_token; i++)
        none *= fmax(0, (e - here - (double)i) / (e - (double)i));
    return 1 - none;
}

/* Each GPU sends each of its tokens once to every GPU that has at least one of the token's experts, and
 * receives one sum per token from each of these GPUs. */
static void add_exchange(const struct llm_model *m, const struct llm_topology *t, struct stage_layers n,
                         double bytes, struct llm_part_pass *p) {
    const struct llm_layout *l = &t->layout;
    if (!llm_experts_exchange(l)) return;
    struct llm_comm c = { .kind = LLM_ALL_TO_ALL,
                          .what = "experts, dispatch",
                          .group = "ep",
                          .ranks = l->ep,
                          .count = n.moe,
                          .bytes = bytes / (double)l->tp * (double)l->ep * reaches_gpu(&m->text, l->ep) };
    add_comm(t, p, c, l->ep > t->gpus_per_node);
    c.what = "experts, combine";
    add_comm(t, p, c, l->ep > t->gpus_per_node);
}

static double activation_width(const struct llm_model *m) {
    return llm_dtype_bytes(llm_kv_dtype(m, LLM_DTYPE_UNKNOWN));
}

/* Adds the communication of one GPU of pipeline stage `stage` in a pass of `rows` tokens, of which
 * `head_rows` need logits. */
static void add_comms(const struct llm_model *m, const struct llm_topology *t, uint64_t stage, double rows,
                      double head_rows, struct llm_part_pass *out) {
    const struct llm_layout *l = &t->layout;
    struct stage_layers n = count_layers(m, llm_stage_layers(m, l, stage));
    double width = activation_width(m), bytes = rows * (double)m->text.hidden * width;
    add_tensor(m, t, stage, n, bytes, head_rows * (double)m->text.vocab * width, out);
    add_exchange(m, t, n, bytes, out);
    struct llm_comm send = { .kind = LLM_SEND,
                             .what = "to the next stage",
                             .group = "pp",
                             .ranks = 2,
                             .count = stage + 1 < l->pp,
                             .bytes = bytes / (double)l->tp };
    add_comm(t, out, send, llm_layout_gpus(l) > t->gpus_per_node);
}

/* ---- Evaluation */
static void eval_pass(const struct llm_static *r, const struct llm_topology *t, const struct llm_model *part,
                      uint64_t stage, const struct llm_pass *pass, struct llm_part_pass *out) {
    out->cost = llm_cost_stage(part, &r->setup, LLM_STAGE_DECODER, pass);
    add_comms(r->model, t, stage, pass->counts.rows[LLM_ROWS_TOKENS], pass->counts.rows[LLM_ROWS_HEAD], out);
}

static void eval_part(const struct llm_static *r, const struct llm_topology *t, uint64_t stage,
                      struct llm_part *p) {
    const struct llm_workload *w = &r->work;
    struct llm_model *part = llm_shard_new(r->model, &t->layout, stage);
    p->layers = llm_stage_layers(r->model, &t->layout, stage);
    p->experts = llm_experts_per_gpu(r->model, &t->layout);
    eval_pass(r, t, part, stage, &r->prefill_pass, &p->prefill);
    eval_pass(r, t, part, stage, &r->decode_pass, &p->decode);
    p->activation_bytes = llm_activation_bytes(part, LLM_STAGE_DECODER, &r->prefill_pass);
    for (int s = 1; stage == 0 && s < part->nstages; s++) {
        struct llm_pass images = { .counts = r->counts };
        llm_cost_add(&p->prefill.cost, &r->vision[s]);
        p->activation_bytes = fmax(p->activation_bytes, llm_activation_bytes(part, s, &images));
    }
    p->prefill.floor_s = p->prefill.cost.floor_s + p->prefill.comm_s;
    p->decode.floor_s = p->decode.cost.floor_s + p->decode.comm_s;
    p->weight_bytes = llm_weight_bytes(part);
    p->kv_bytes =
        (double)w->batch * llm_kv_bytes_held(part, w->kv, MAX(w->context, w->prompt_tokens + w->new_tokens));
    p->memory_bytes = p->weight_bytes + p->kv_bytes + p->activation_bytes;
    llm_shard_free(part);
}

static double part_bound_s(const struct llm_part_pass *p) {
    double bound = llm_cost_hard_bound_s(&p->cost);
    return isnan(bound) || isnan(p->comm_s) ? NAN : fmax(bound, p->comm_s);
}

static void sum_parts(struct llm_parallel *p, uint64_t batch) {
    const struct llm_layout *l = &p->topology.layout;
    for (uint64_t i = 0; i < l->pp; i++) {
        const struct llm_part *part = &p->parts[i];
        p->prefill_s += part->prefill.floor_s;
        p->decode_s += part->decode.floor_s;
        p->prefill_bound_s += part_bound_s(&part->prefill);
        p->decode_bound_s += part_bound_s(&part->decode);
        p->slowest_decode_s = fmax(p->slowest_decode_s, part->decode.floor_s);
    }
    if (isnan(p->decode_s)) p->slowest_decode_s = NAN;
    p->tokens_per_s = (double)(batch * l->dp) / p->decode_s;
    p->tokens_per_s_full = (double)(batch * l->dp) / p->slowest_decode_s;
}

static void add_split_notes(const struct llm_model *m, const struct llm_layout *l, struct llm_notes *n) {
    const struct llm_text *t = &m->text;
    if (l->tp > 1 && !t->kv_lora_rank && t->kv_heads < l->tp)
        notes_add(n, "each of the %" PRIu64 " KV heads is on %" PRIu64 " GPUs", t->kv_heads,
                  l->tp / t->kv_heads);
    if (l->tp > 1 && t->kv_lora_rank) notes_add(n, "every GPU has the whole latent cache of its layers");
    if (t->vocab % l->tp)
        notes_add(n, "the vocabulary is padded to %" PRIu64 " rows, a multiple of %" PRIu64,
                  (t->vocab + l->tp - 1) / l->tp * l->tp, l->tp);
    if (t->layers % l->pp)
        notes_add(n, "the first %" PRIu64 " pipeline stages have one layer more than the others",
                  t->layers % l->pp);
    if (l->ep > 1 && t->experts % l->ep)
        notes_add(n,
                  "%" PRIu64 " experts do not divide evenly among %" PRIu64
                  " GPUs: the figures are those of a GPU with the most experts",
                  t->experts, l->ep);
    if (m->nstages > 1 && l->tp > 1)
        notes_add(n, "every GPU of the first stage runs the whole image encoder");
}

static void add_traffic_notes(const struct llm_model *m, const struct llm_topology *t, struct llm_notes *n) {
    const struct llm_layout *l = &t->layout;
    if (llm_layout_gpus(l) > 1)
        notes_add(n,
                  "--batch is the batch of one replica; GPUs are numbered tp first, then dp, then pp, with "
                  "%" PRIu64 " per node",
                  t->gpus_per_node);
    if (l->tp > 1)
        notes_add(
            n, "all-reduce sends 2(n-1)/n of its bytes per GPU; switches that add (NVLink SHARP) need fewer");
    if (llm_experts_exchange(l))
        notes_add(n,
                  "experts: a token is sent once to every GPU that has one of its experts, in %s, and "
                  "routing is even",
                  llm_dtype_name(llm_kv_dtype(m, LLM_DTYPE_UNKNOWN)));
    else if (m->text.experts && l->ep > 1)
        notes_add(n, "experts: the GPUs of an expert group have the same tokens, so an all-reduce of the "
                     "outputs replaces the all-to-all");
    if (llm_layout_gpus(l) > t->gpus_per_node) notes_add(n, "every GPU has a network adapter of its own");
}

int llm_parallel_eval(const struct llm_static *r, const struct llm_topology *t, struct llm_parallel *p,
                      struct err *err) {
    struct llm_notes notes = { 0 };
    *p = (struct llm_parallel){ .topology = *t, .gpus = llm_layout_gpus(&t->layout) };
    if (llm_layout_check(r->model, &t->layout, err) < 0) return -1;
    if (!r->model->decodes) return err_set(err, "only models with a decoder can be shared by several GPUs");
    p->parts = xcalloc(t->layout.pp, sizeof *p->parts);
    for (uint64_t i = 0; i < t->layout.pp; i++) eval_part(r, t, i, &p->parts[i]);
    sum_parts(p, r->work.batch);
    add_split_notes(r->model, &t->layout, &notes);
    add_traffic_notes(r->model, t, &notes);
    p->notes = notes.v;
    p->nnotes = notes.n;
    return 0;
}

void llm_parallel_free(struct llm_parallel *p) {
    for (size_t i = 0; i < p->nnotes; i++) free(p->notes[i]);
    free(p->notes);
    free(p->parts);
    *p = (struct llm_parallel){ 0 };
}

int llm_parallel_fits(const struct llm_static *r, const struct llm_parallel *p) {
    double have = r->device->gpu ? llm_gpu_known(r->device->gpu->memory_gb) * 1e9 : NAN, most = 0;
    for (uint64_t i = 0; i < p->topology.layout.pp; i++) most = fmax(most, p->parts[i].memory_bytes);
    return isnan(have) ? -1 : most <= have;
}
