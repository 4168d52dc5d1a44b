#include "llm/cost_columns.h"

#include <math.h>

#include "base/text.h"
#include "base/util.h"

static const struct llm_cost *cost_of(const struct column_row *r) {
    return &((const struct llm_cost_row *)r->item)->cost;
}
static struct column_value get_intensity(const struct column_row *r) {
    return column_f64(llm_intensity(cost_of(r)->flops, cost_of(r)->bytes));
}
static struct column_value get_floor_ms(const struct column_row *r) {
    return column_f64(cost_of(r)->floor_s * 1e3);
}
static void show_floor(const struct column_row *r, struct strbuf *out) {
    strbuf_addstr(out, text_seconds(cost_of(r)->floor_s).s);
}
static struct column_value get_hard_bound_ms(const struct column_row *r) {
    return column_f64(llm_cost_hard_bound_s(cost_of(r)) * 1e3);
}
static struct column_value get_compute_ms(const struct column_row *r) {
    return column_f64(cost_of(r)->compute_s * 1e3);
}
static struct column_value get_memory_ms(const struct column_row *r) {
    return column_f64(cost_of(r)->memory_s * 1e3);
}
static struct column_value get_bound(const struct column_row *r) {
    return column_str(llm_cost_bound(cost_of(r)));
}
static struct column_value get_in(const struct column_row *r) {
    return column_u64_known(((const struct llm_cost_row *)r->item)->in);
}
static struct column_value get_out(const struct column_row *r) {
    return column_u64_known(((const struct llm_cost_row *)r->item)->out);
}
static void show_layers(const struct column_row *r, struct strbuf *out) {
    strbuf_addf(out, "%llu", (unsigned long long)((const struct llm_cost_row *)r->item)->layers);
}

/* clang-format off */
#define R(field) FIELD(struct llm_cost_row, field)
#define C(field) FIELD(struct llm_cost_row, cost.field)
#define AT(position) .at = { .terminal = position }
static const struct column cost_columns[] = {
    { "flops", "FLOPs", COLUMN_FLOPS, C(flops), .data = JSON, AT(30),
      .help = "floating-point operations; a multiplication and an addition are two" },
    { "bytes", "bytes", COLUMN_BYTES, C(bytes), .data = JSON, AT(40), .help = "least memory traffic" },
    { NULL, "FLOP/byte", COLUMN_UNITS, GET(get_intensity), AT(50), .help = "arithmetic intensity" },
    { "floor_ms", "roofline", COLUMN_MS, GET(get_floor_ms), .data = JSON, AT(60), .show = show_floor,
      .help = "sum over operators of the larger of compute time and memory time" },
    { "bound", "bound by", COLUMN_TEXT, GET(get_bound), .data = JSON, AT(70), .right = true,
      .help = "the resource that takes most of the roofline time" },
};
static const struct column bound_columns[] = {
    { "hard_bound_ms", .source = GET(get_hard_bound_ms), .data = JSON },
};
static const struct column detail_columns[] = {
    { "linear_flops", .source = C(linear_flops), .data = JSON },
    { "attention_flops", .source = C(attention_flops), .data = JSON },
    { "full_attention_flops", .source = C(full_attention_flops), .data = JSON },
    { "head_flops", .source = C(head_flops), .data = JSON },
    { "weight_bytes", .source = C(weight_bytes), .data = JSON },
    { "kv_read_bytes", .source = C(kv_read_bytes), .data = JSON },
    { "kv_write_bytes", .source = C(kv_write_bytes), .data = JSON },
    { "io_bytes", .source = C(io_bytes), .data = JSON },
    { "intensity_flops_per_byte", .source = GET(get_intensity), .data = JSON },
    { "compute_ms", .source = GET(get_compute_ms), .data = JSON },
    { "memory_ms", .source = GET(get_memory_ms), .data = JSON },
};
static const struct column stage_columns[] = {
    { NULL, "stage", COLUMN_TEXT, R(label), AT(10) },
};
static const struct column stage_list_columns[] = {
    { "name", .source = R(stage), .data = JSON },
    { "parent", .source = R(parent), .data = JSON },
    { "tokens", .source = R(tokens), .data = JSON },
    { "flops_per_byte", .source = GET(get_intensity), .data = JSON },
};
static const struct column operator_columns[] = {
    { NULL, "operator", COLUMN_TEXT, R(label), AT(10) },
    { "stage", .source = R(stage), .data = JSON },
    { "module", .source = R(module), .data = JSON },
    { "name", .source = R(name), .data = JSON },
    { "layers", "layers", COLUMN_COUNT, R(layers), .data = JSON, AT(20), .show = show_layers,
      .help = "layers that contain the operator" },
    { "in", .source = GET(get_in), .data = JSON },
    { "out", .source = GET(get_out), .data = JSON },
};
static const struct column module_columns[] = {
    { "stage", .source = R(stage), .data = JSON },
    { "module", .source = R(module), .data = JSON },
};
/* clang-format on */

#define GROUP(list) \
    { .columns = list, .n = COUNTOF(list) }
const struct column_group llm_cost_columns = GROUP(cost_columns);
const struct column_group llm_cost_bound_columns = GROUP(bound_columns);
const struct column_group llm_cost_detail_columns = GROUP(detail_columns);
const struct column_group llm_stage_columns = GROUP(stage_columns);
const struct column_group llm_stage_list_columns = GROUP(stage_list_columns);
const struct column_group llm_operator_columns = GROUP(operator_columns);
const struct column_group llm_module_columns = GROUP(module_columns);
