#include "llm/gpu_columns.h"

#include "base/util.h"
#include "llm/gpus.h"
#include "llm/links.h"

/* clang-format off */
/* X(member of struct llm_gpu, key, heading, position); 0 is unknown */
#define NUMBERS(X) \
    X(fp64, "fp64_tflops", "fp64", 15) \
    X(fp32, "fp32_tflops", "fp32", 25) \
    X(tf32, "tf32_tflops", "tf32", 35) \
    X(fp16, "fp16_tflops", "fp16", 45) \
    X(bf16, "bf16_tflops", "bf16", 55) \
    X(fp8, "fp8_tflops", "fp8", 65) \
    X(int8, "int8_tops", "int8", 75) \
    X(fp4, "fp4_tflops", "fp4", 85) \
    X(gbytes_per_s, "memory_gbps", "GB/s", 95) \
    X(memory_gb, "memory_gb", "GB", 105) \
    X(l2_mb, "l2_mb", "L2 MiB", 115) \
    X(sms, "sms", "SMs", 125) \
    X(boost_mhz, "boost_mhz", "MHz", 135) \
    X(tensor_mhz, "tensor_mhz", "tensor MHz", 145) \
    X(tdp_w, "tdp_w", "W", 155)
/* clang-format on */

#define X(field, key, heading, position)                                            \
    static struct column_value get_##field(const struct column_row *r) {            \
        return column_f64(llm_gpu_known(((const struct llm_gpu *)r->item)->field)); \
    }                                                                               \
    static void show_##field(const struct column_row *r, struct strbuf *out) {      \
        double v = ((const struct llm_gpu *)r->item)->field;                        \
        if (v > 0) strbuf_addf(out, "%.6g", v);                                     \
    }
NUMBERS(X)
#undef X

static void show_rate(const struct column_row *r, struct strbuf *out) {
    strbuf_addf(out, "%.6g", ((const struct llm_link *)r->item)->gbytes_per_s);
}
static void show_place(const struct column_row *r, struct strbuf *out) {
    strbuf_addstr(out, ((const struct llm_link *)r->item)->network ? "nodes" : "GPUs");
}

/* clang-format off */
#define G(field) FIELD(struct llm_gpu, field)
#define L(field) FIELD(struct llm_link, field)
#define AT(position) .data = JSON, .at = { .terminal = position }
static const struct column name_column[] = {
    { "name", "GPU (dense TFLOP/s)", COLUMN_TEXT, G(name), AT(1) },
};
static const struct column gpu_columns[] = {
#define X(field, key, heading, position) \
    { key, heading, COLUMN_NUMBER, GET(get_##field), AT(position), .show = show_##field },
    NUMBERS(X)
#undef X
    { "compute_capability", "cc", COLUMN_TEXT, G(capability), AT(160), .right = true,
      .help = "compute capability; AMD: the architecture" },
    { "source", "source", COLUMN_TEXT, G(source), AT(170) },
};
static const struct column link_columns[] = {
    { "name", "link", COLUMN_TEXT, L(name), AT(10) },
    { "gbytes_per_s", "GB/s per GPU and direction", COLUMN_NUMBER, L(gbytes_per_s), AT(20),
      .show = show_rate },
    { "between_nodes", "between", COLUMN_TEXT, L(network), AT(30), .show = show_place },
    { "source", "source", COLUMN_TEXT, L(source), AT(40) },
};
/* clang-format on */
const struct column_group llm_gpu_name_column = { .columns = name_column, .n = COUNTOF(name_column) };
const struct column_group llm_gpu_columns = { .columns = gpu_columns, .n = COUNTOF(gpu_columns) };
const struct column_group llm_link_columns = { .columns = link_columns, .n = COUNTOF(link_columns) };
