/* Prints memory, cost and communication of each GPU, as tables and as JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/columns.h"
#include "base/text.h"
#include "base/units.h"
#include "base/util.h"
#include "llm/parallel.h"

#define CELL 32
#define STAGES_SHOWN 16

static void heading(struct strbuf *out, struct llm_print how, const char *text) {
    strbuf_addf(out, how.markdown ? "\n## %s\n\n" : "\n%s\n", text);
}

static void finish_table(struct table *t, struct llm_print how, struct strbuf *out) {
    t->text_line_width = how.width;
    (how.markdown ? table_markdown : table_text)(t, out);
    table_free(t);
}

/* Of a long pipeline, only the first stages and the last one are shown. */
static bool is_shown(const struct llm_parallel *p, uint64_t i) {
    return i + 1 < STAGES_SHOWN || i + 1 == p->topology.layout.pp;
}

/* ---- Columns */

/* One pipeline stage. `pass` and `comm` are for the tables of passes and of collectives. */
struct part_row {
    uint64_t stage;
    const struct llm_part *part;
    const char *pass_name;
    const struct llm_part_pass *pass;
    const struct llm_comm *comm;
};
static const struct part_row *row_of(const struct column_row *r) { return r->item; }

static void show_stage(const struct column_row *r, struct strbuf *out) {
    strbuf_addf(out, "%" PRIu64, row_of(r)->stage);
}
static void show_layers(const struct column_row *r, struct strbuf *out) {
    strbuf_addf(out, "%u to %u", row_of(r)->part->layers.first, row_of(r)->part->layers.end - 1);
}
static void show_experts(const struct column_row *r, struct strbuf *out) {
    if (row_of(r)->part->experts) strbuf_addf(out, "%" PRIu64, row_of(r)->part->experts);
}
static void show_operation(const struct column_row *r, struct strbuf *out) {
    const struct llm_comm *c = row_of(r)->comm;
    strbuf_addf(out, "%s (%s)", llm_collective_name(c->kind), c->what);
}
static void show_count(const struct column_row *r, struct strbuf *out) {
    strbuf_addf(out, "%" PRIu64, row_of(r)->comm->count);
}
static struct column_value get_first_layer(const struct column_row *r) {
    return column_u64(row_of(r)->part->layers.first);
}
static struct column_value get_layers(const struct column_row *r) {
    return column_u64(row_of(r)->part->layers.end - row_of(r)->part->layers.first);
}
static struct column_value get_experts(const struct column_row *r) {
    return column_u64_known(row_of(r)->part->experts);
}
static struct column_value get_operation(const struct column_row *r) {
    return column_str(llm_collective_name(row_of(r)->comm->kind));
}
#define GET_MEMBER(name, make, member) \
    static struct column_value get_##name(const struct column_row *r) { return make(row_of(r)->member); }
/* `name` in seconds: the value in ms, and the text with its unit */
#define GET_SECONDS(name, member)                                             \
    static struct column_value get_##name(const struct column_row *r) {       \
        return column_f64(row_of(r)->member * 1e3);                           \
    }                                                                         \
    static void show_##name(const struct column_row *r, struct strbuf *out) { \
        strbuf_addstr(out, text_seconds(row_of(r)->member).s);                \
    }
GET_MEMBER(weights, column_f64, part->weight_bytes)
GET_MEMBER(kv, column_f64, part->kv_bytes)
GET_MEMBER(activations, column_f64, part->activation_bytes)
GET_MEMBER(memory, column_f64, part->memory_bytes)
GET_MEMBER(flops, column_f64, pass->cost.flops)
GET_MEMBER(bytes, column_f64, pass->cost.bytes)
GET_MEMBER(sent, column_f64, pass->sent_bytes)
GET_SECONDS(roofline, pass->cost.floor_s)
GET_SECONDS(communication, pass->comm_s)
GET_SECONDS(together, pass->floor_s)
GET_MEMBER(what, column_str, comm->what)
GET_MEMBER(group, column_str, comm->group)
GET_MEMBER(ranks, column_u64, comm->ranks)
GET_MEMBER(count, column_u64, comm->count)
GET_MEMBER(each, column_f64, comm->bytes)
GET_MEMBER(comm_sent, column_f64, comm->sent_bytes)
GET_SECONDS(time, comm->seconds)
GET_MEMBER(link, column_str, comm->link)

/* clang-format off */
#define AT(position) .at = { .terminal = position }
#define STAGE_COLUMN \
    { NULL, "pipeline stage", COLUMN_TEXT, FIELD(struct part_row, pass_name), AT(1), .show = show_stage }
#define PASS_COLUMN { NULL, "pass", COLUMN_TEXT, FIELD(struct part_row, pass_name), AT(2) }
static const struct column held_columns[] = {
    STAGE_COLUMN,
    { "first_layer", .source = GET(get_first_layer), .data = JSON },
    { "layers", "layers", COLUMN_TEXT, GET(get_layers), .data = JSON, AT(10), .show = show_layers },
    { "experts_per_layer", "experts per layer", COLUMN_COUNT, GET(get_experts), .data = JSON, AT(20),
      .show = show_experts },
    { "weights_bytes", "weights", COLUMN_BYTES, GET(get_weights), .data = JSON, AT(30) },
    { "kv_cache_bytes", "KV cache", COLUMN_BYTES, GET(get_kv), .data = JSON, AT(40) },
    { "activation_peak_bytes", "activations", COLUMN_BYTES, GET(get_activations), .data = JSON, AT(50) },
    { "total_bytes", "together", COLUMN_BYTES, GET(get_memory), .data = JSON, AT(60) },
};
static const struct column pass_columns[] = {
    STAGE_COLUMN,
    PASS_COLUMN,
    { "flops", "FLOPs", COLUMN_FLOPS, GET(get_flops), .data = JSON, AT(10) },
    { "bytes", "bytes", COLUMN_BYTES, GET(get_bytes), .data = JSON, AT(20) },
    { "roofline_ms", "roofline", COLUMN_MS, GET(get_roofline), .data = JSON, AT(40), .show = show_roofline },
    { "sent_bytes", "sends", COLUMN_BYTES, GET(get_sent), .data = JSON, AT(30) },
    { "communication_ms", "communication", COLUMN_MS, GET(get_communication), .data = JSON, AT(50),
      .show = show_communication },
    { "floor_ms", "together", COLUMN_MS, GET(get_together), .data = JSON, AT(60), .show = show_together },
};
static const struct column comm_columns[] = {
    STAGE_COLUMN,
    PASS_COLUMN,
    { "operation", "operation", COLUMN_TEXT, GET(get_operation), .data = JSON, AT(10),
      .show = show_operation },
    { "what", .source = GET(get_what), .data = JSON },
    { "group", "group", COLUMN_TEXT, GET(get_group), .data = JSON, AT(20) },
    { "ranks", .source = GET(get_ranks), .data = JSON },
    { "count", "count", COLUMN_COUNT, GET(get_count), .data = JSON, AT(30), .show = show_count },
    { "bytes", "bytes each", COLUMN_BYTES, GET(get_each), .data = JSON, AT(40) },
    { "sent_bytes", "sends", COLUMN_BYTES, GET(get_comm_sent), .data = JSON, AT(50) },
    { "ms", "time", COLUMN_MS, GET(get_time), .data = JSON, AT(60), .show = show_time },
    { "link", "link", COLUMN_TEXT, GET(get_link), .data = JSON, AT(70), .right = true },
};
/* clang-format on */
static const struct column_group held_group = { .columns = held_columns, .n = COUNTOF(held_columns) },
                                 pass_group = { .columns = pass_columns, .n = COUNTOF(pass_columns) },
                                 comm_group = { .columns = comm_columns, .n = COUNTOF(comm_columns) };

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

/* Starts a table and adds a row. */
static void start_rows(struct column_set *set, const struct column_group *group, struct table *t) {
    column_set_init(set, group, 1, COLUMN_DOC_TERMINAL, NULL);
    column_set_heads(set, t);
}
static void add_row(const struct column_set *set, const struct part_row *row, struct table *t) {
    column_set_cells(set, &(struct column_row){ .item = row }, t);
}

static void add_held(const struct llm_parallel *p, struct llm_print how, struct strbuf *out) {
    struct column_set set;
    struct table t;
    start_rows(&set, &held_group, &t);
    for (uint64_t i = 0; i < p->topology.layout.pp; i++)
        if (is_shown(p, i)) add_row(&set, &(struct part_row){ .stage = i, .part = &p->parts[i] }, &t);
    finish_table(&t, how, out);
}

/* The two passes of a pipeline stage. */
static struct part_row pass_row(const struct llm_parallel *p, uint64_t stage, int pass) {
    const struct llm_part *part = &p->parts[stage];
    return pass == 0 ? (struct part_row){ stage, part, "prefill", &part->prefill, NULL }
                     : (struct part_row){ stage, part, "decode step", &part->decode, NULL };
}

static void add_costs(const struct llm_parallel *p, struct llm_print how, struct strbuf *out) {
    struct column_set set;
    struct table t;
    start_rows(&set, &pass_group, &t);
    for (uint64_t i = 0; i < p->topology.layout.pp; i++)
        for (int pass = 0; pass < 2 && is_shown(p, i); pass++) {
            struct part_row row = pass_row(p, i, pass);
            add_row(&set, &row, &t);
        }
    finish_table(&t, how, out);
}

static void add_comms(const struct llm_parallel *p, struct llm_print how, struct strbuf *out) {
    struct column_set set;
    struct table t;
    start_rows(&set, &comm_group, &t);
    for (uint64_t i = 0; i < p->topology.layout.pp; i++)
        for (int pass = 0; pass < 2 && is_shown(p, i); pass++) {
            struct part_row row = pass_row(p, i, pass);
            for (size_t k = 0; k < row.pass->ncomms; k++) {
                row.comm = &row.pass->comms[k];
                add_row(&set, &row, &t);
            }
        }
    if (table_rows(&t)) heading(out, how, "Communication of each GPU per pass");
    if (table_rows(&t))
        finish_table(&t, how, out);
    else
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
static void write_pass(const char *key, const struct llm_part_pass *p, struct jsonw *j) {
    struct part_row item = { .pass = p };
    struct column_row row = { .item = &item };
    jsonw_kobject(j, key);
    columns_json(&pass_group, &row, j);
    jsonw_karray(j, "communication");
    for (size_t i = 0; i < p->ncomms; i++) {
        item.comm = &p->comms[i];
        jsonw_object(j);
        columns_json(&comm_group, &row, j);
        jsonw_end(j);
    }
    jsonw_end(j);
    jsonw_end(j);
}

static void write_part(const struct llm_part *p, struct jsonw *j) {
    struct part_row item = { .part = p };
    jsonw_object(j);
    columns_json(&held_group, &(struct column_row){ .item = &item }, j);
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
