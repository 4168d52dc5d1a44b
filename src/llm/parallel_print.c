/* Prints memory, cost and communication of each GPU, as tables and as JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/table.h"
#include "base/units.h"
#include "base/util.h"
#include "llm/parallel.h"

#define CELL 32
#define STAGES_SHOWN 16
#define DASH "\xe2\x80\x93"

static void heading(struct strbuf *out, struct llm_print how, const char *text) {
    strbuf_addf(out, how.markdown ? "\n## %s\n\n" : "\n%s\n", text);
}

static void start_table(struct table *t, const char *const *heads, size_t n, size_t left) {
    table_init(t);
    for (size_t i = 0; i < n; i++) table_column(t, heads[i], i < left ? TABLE_LEFT : TABLE_RIGHT);
}

static void finish_table(struct table *t, struct llm_print how, struct strbuf *out) {
    t->text_line_width = how.width;
    (how.markdown ? table_markdown : table_text)(t, out);
    table_free(t);
}

static void cell_bytes(struct table *t, double v) {
    char s[CELL];
    table_cell(t, "%s", units_bytes(v, s, sizeof s));
}

static void cell_seconds(struct table *t, double v) {
    char s[CELL];
    table_cell(t, "%s", units_duration_ns(v * 1e9, s, sizeof s));
}

/* Of a long pipeline, only the first stages and the last one are shown. */
static bool is_shown(const struct llm_parallel *p, uint64_t i) {
    return i + 1 < STAGES_SHOWN || i + 1 == p->topology.layout.pp;
}

/* ---- Text */
static void add_layout_line(const struct llm_parallel *p, struct strbuf *out) {
    const struct llm_topology *t = &p->topology;
    const struct llm_layout *l = &t->layout;
    strbuf_addf(out, "%" PRIu64 " GPUs: tp %" PRIu64 ", pp %" PRIu64, p->gpus, l->tp, l->pp);
    if (l->ep) strbuf_addf(out, ", ep %" PRIu64, l->ep);
    strbuf_addf(out, ", dp %" PRIu64 "; %" PRIu64 " per node\n", l->dp, t->gpus_per_node);
}

static void add_link(const char *where, const struct llm_link *l, const char *option, struct strbuf *out) {
    if (l)
        strbuf_addf(out, "%s: %s, %.6g GB/s per GPU and direction (%s)\n", where, l->name, l->gbytes_per_s,
                    l->source);
    else
        strbuf_addf(out, "%s: unknown, so no times; use %s NAME (%s list shows all)\n", where, option,
                    option);
}

static void add_held(const struct llm_parallel *p, struct llm_print how, struct strbuf *out) {
    static const char *const heads[] = { "pipeline stage", "layers",      "experts per layer", "weights",
                                         "KV cache",       "activations", "together" };
    struct table t;
    start_table(&t, heads, COUNTOF(heads), 2);
    for (uint64_t i = 0; i < p->topology.layout.pp; i++) {
        const struct llm_part *part = &p->parts[i];
        if (!is_shown(p, i)) continue;
        table_cell(&t, "%" PRIu64, i);
        table_cell(&t, "%u to %u", part->layers.first, part->layers.end - 1);
        if (part->experts)
            table_cell(&t, "%" PRIu64, part->experts);
        else
            table_cell(&t, DASH);
        cell_bytes(&t, part->weight_bytes);
        cell_bytes(&t, part->kv_bytes);
        cell_bytes(&t, part->activation_bytes);
        cell_bytes(&t, part->memory_bytes);
    }
    finish_table(&t, how, out);
}

static void add_cost_row(struct table *t, uint64_t stage, const char *name, const struct llm_part_pass *p) {
    char s[CELL];
    table_cell(t, "%" PRIu64, stage);
    table_cell(t, "%s", name);
    table_cell(t, "%s", units_flops(p->cost.flops, s, sizeof s));
    cell_bytes(t, p->cost.bytes);
    cell_bytes(t, p->sent_bytes);
    cell_seconds(t, p->cost.floor_s);
    cell_seconds(t, p->comm_s);
    cell_seconds(t, p->floor_s);
}

static void add_costs(const struct llm_parallel *p, struct llm_print how, struct strbuf *out) {
    static const char *const heads[] = { "pipeline stage", "pass",     "FLOPs",         "bytes",
                                         "sends",          "roofline", "communication", "together" };
    struct table t;
    start_table(&t, heads, COUNTOF(heads), 2);
    for (uint64_t i = 0; i < p->topology.layout.pp; i++) {
        if (!is_shown(p, i)) continue;
        add_cost_row(&t, i, "prefill", &p->parts[i].prefill);
        add_cost_row(&t, i, "decode step", &p->parts[i].decode);
    }
    finish_table(&t, how, out);
}

static void add_comm_rows(struct table *t, uint64_t stage, const char *name, const struct llm_part_pass *p) {
    for (size_t i = 0; i < p->ncomms; i++) {
        const struct llm_comm *c = &p->comms[i];
        table_cell(t, "%" PRIu64, stage);
        table_cell(t, "%s", name);
        table_cell(t, "%s (%s)", llm_collective_name(c->kind), c->what);
        table_cell(t, "%s", c->group);
        table_cell(t, "%" PRIu64, c->count);
        cell_bytes(t, c->bytes);
        cell_bytes(t, c->sent_bytes);
        cell_seconds(t, c->seconds);
        table_cell(t, "%s", c->link ? c->link : DASH);
    }
}

static void add_comms(const struct llm_parallel *p, struct llm_print how, struct strbuf *out) {
    static const char *const heads[] = { "pipeline stage", "pass",  "operation", "group", "count",
                                         "bytes each",     "sends", "time",      "link" };
    struct table t;
    start_table(&t, heads, COUNTOF(heads), 4);
    for (uint64_t i = 0; i < p->topology.layout.pp; i++) {
        if (!is_shown(p, i)) continue;
        add_comm_rows(&t, i, "prefill", &p->parts[i].prefill);
        add_comm_rows(&t, i, "decode step", &p->parts[i].decode);
    }
    if (table_rows(&t)) {
        heading(out, how, "Communication of each GPU per pass");
        t.text_line_width = how.width;
        (how.markdown ? table_markdown : table_text)(&t, out);
    }
    table_free(&t);
}

static void add_job(const struct llm_static *r, const struct llm_parallel *p, const char *gap,
                    struct strbuf *out) {
    char a[CELL], b[CELL], c[CELL];
    int fits = llm_parallel_fits(r, p);
    if (fits >= 0)
        strbuf_addf(out, "%severy GPU's part %s its %s (%s)\n", gap, fits ? "fits in" : "does NOT fit in",
                    units_bytes(r->device->gpu->memory_gb * 1e9, a, sizeof a), r->device->gpu->name);
    if (isnan(p->decode_s)) return;
    strbuf_addf(out, "%sjob at the roofline: first token %s, decode step %s, %s tokens/s", gap,
                units_duration_ns(p->prefill_s * 1e9, a, sizeof a),
                units_duration_ns(p->decode_s * 1e9, b, sizeof b), units_count(p->tokens_per_s, c, sizeof c));
    if (p->topology.layout.pp > 1)
        strbuf_addf(out, "; %s tokens/s with %" PRIu64 " batches per replica in flight",
                    units_count(p->tokens_per_s_full, c, sizeof c), p->topology.layout.pp);
    strbuf_addf(out, "\n%shard bound: first token %s, decode step %s\n", gap,
                units_duration_ns(p->prefill_bound_s * 1e9, a, sizeof a),
                units_duration_ns(p->decode_bound_s * 1e9, b, sizeof b));
}

void llm_parallel_text(const struct llm_static *r, const struct llm_parallel *p, struct llm_print how,
                       struct strbuf *out) {
    const char *gap = how.markdown ? "\n" : "";
    const struct llm_topology *t = &p->topology;
    heading(out, how, "Parallel layout");
    add_layout_line(p, out);
    strbuf_addstr(out, gap);
    if (p->gpus > 1) add_link("link in a node", t->link, "--link", out);
    strbuf_addstr(out, gap);
    if (p->gpus > t->gpus_per_node) add_link("link between nodes", t->net, "--net", out);
    heading(out, how, "Memory of each GPU");
    add_held(p, how, out);
    heading(out, how, "Cost of each GPU per pass");
    add_costs(p, how, out);
    add_comms(p, how, out);
    add_job(r, p, gap, out);
    if (t->layout.pp > STAGES_SHOWN)
        strbuf_addf(out, "%s%d of %" PRIu64 " pipeline stages; --json has all\n", gap, STAGES_SHOWN,
                    t->layout.pp);
    if (p->nnotes) heading(out, how, "Assumptions of the layout");
    for (size_t i = 0; i < p->nnotes; i++)
        strbuf_addf(out, "%s%s\n", how.markdown ? "- " : "  ", p->notes[i]);
}

/* ---- JSON */
static void write_comm(const struct llm_comm *c, struct jsonw *j) {
    jsonw_object(j);
    jsonw_kstr(j, "operation", llm_collective_name(c->kind));
    jsonw_kstr(j, "what", c->what);
    jsonw_kstr(j, "group", c->group);
    jsonw_ku64(j, "ranks", c->ranks);
    jsonw_ku64(j, "count", c->count);
    jsonw_knum(j, "bytes", c->bytes);
    jsonw_knum(j, "sent_bytes", c->sent_bytes);
    jsonw_knum(j, "ms", c->seconds * 1e3);
    jsonw_kstr(j, "link", c->link);
    jsonw_end(j);
}

static void write_pass(const char *key, const struct llm_part_pass *p, struct jsonw *j) {
    jsonw_kobject(j, key);
    jsonw_knum(j, "flops", p->cost.flops);
    jsonw_knum(j, "bytes", p->cost.bytes);
    jsonw_knum(j, "roofline_ms", p->cost.floor_s * 1e3);
    jsonw_knum(j, "sent_bytes", p->sent_bytes);
    jsonw_knum(j, "communication_ms", p->comm_s * 1e3);
    jsonw_knum(j, "floor_ms", p->floor_s * 1e3);
    jsonw_karray(j, "communication");
    for (size_t i = 0; i < p->ncomms; i++) write_comm(&p->comms[i], j);
    jsonw_end(j);
    jsonw_end(j);
}

static void write_part(const struct llm_part *p, struct jsonw *j) {
    jsonw_object(j);
    jsonw_ku64(j, "first_layer", p->layers.first);
    jsonw_ku64(j, "layers", p->layers.end - p->layers.first);
    jsonw_ku64_known(j, "experts_per_layer", p->experts);
    jsonw_knum(j, "weights_bytes", p->weight_bytes);
    jsonw_knum(j, "kv_cache_bytes", p->kv_bytes);
    jsonw_knum(j, "activation_peak_bytes", p->activation_bytes);
    jsonw_knum(j, "total_bytes", p->memory_bytes);
    write_pass("prefill", &p->prefill, j);
    write_pass("decode_step", &p->decode, j);
    jsonw_end(j);
}

void llm_parallel_json(const struct llm_static *r, const struct llm_parallel *p, struct jsonw *j) {
    const struct llm_topology *t = &p->topology;
    jsonw_object(j);
    jsonw_ku64(j, "gpus", p->gpus);
    jsonw_ku64(j, "tp", t->layout.tp);
    jsonw_ku64(j, "pp", t->layout.pp);
    jsonw_ku64_known(j, "ep", t->layout.ep);
    jsonw_ku64(j, "dp", t->layout.dp);
    jsonw_ku64(j, "gpus_per_node", t->gpus_per_node);
    jsonw_key(j, "link");
    llm_link_json(t->link, j);
    jsonw_key(j, "net");
    llm_link_json(t->net, j);
    jsonw_karray(j, "stages");
    for (uint64_t i = 0; i < t->layout.pp; i++) write_part(&p->parts[i], j);
    jsonw_end(j);
    jsonw_kobject(j, "job");
    jsonw_knum(j, "prefill_floor_ms", p->prefill_s * 1e3);
    jsonw_knum(j, "decode_floor_ms", p->decode_s * 1e3);
    jsonw_knum(j, "prefill_hard_bound_ms", p->prefill_bound_s * 1e3);
    jsonw_knum(j, "decode_hard_bound_ms", p->decode_bound_s * 1e3);
    jsonw_knum(j, "tokens_per_s", p->tokens_per_s);
    jsonw_knum(j, "tokens_per_s_full_pipeline", p->tokens_per_s_full);
    jsonw_kbool_known(j, "fits", llm_parallel_fits(r, p));
    jsonw_end(j);
    jsonw_karray(j, "assumptions");
    for (size_t i = 0; i < p->nnotes; i++) jsonw_str(j, p->notes[i]);
    jsonw_end(j);
    jsonw_end(j);
}
