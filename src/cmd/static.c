/* `inferprof static MODEL`: computes the theoretical cost of a model. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/columns.h"
#include "base/die.h"
#include "base/file.h"
#include "base/log.h"
#include "base/schema.h"
#include "base/text.h"
#include "base/util.h"
#include "base/wrap.h"
#include "cmd/command.h"
#include "cmd/commands.h"
#include "llm/gpu_columns.h"
#include "llm/parallel.h"
#include "llm/price.h"
#include "llm/static.h"
#include "llm/sweep.h"

#define PEAK_ENV "MFU_PEAK_TFLOPS"

struct static_opts {
    const char *gpu, *dtype, *kv_dtype, *lm_head, *assume, *sweep, *svg, *image_mode;
    struct opt_list images;
    const char *link, *net;
    uint64_t batch, prompt_tokens, text_tokens, new_tokens, context, max_tiles;
    uint64_t tp, pp, ep, dp, gpus_per_node;
    double peak_tflops, peak_gbps, price, mfu, mbu;
    bool json, md, operators;
};

static const struct static_opts static_defaults = {
    .batch = 1, .new_tokens = 128, .lm_head = "last", .gpus_per_node = 8
};

static const struct opt static_rows[] = {
    { 'g', "gpu", OPT_STR, offsetof(struct static_opts, gpu), "NAME",
      "GPU of the table; 'list' prints the table, 'all' compares all", NULL },
    { 'b', "batch", OPT_UINT, offsetof(struct static_opts, batch), "N", "sequences per batch (default: 1)",
      "1..16777216" },
    { 'p', "prompt-tokens", OPT_UINT, offsetof(struct static_opts, prompt_tokens), "N",
      "tokens of the whole prompt, including image tokens (default: 512, or image tokens + 10)",
      "1..4294967296" },
    { 0, "text-tokens", OPT_UINT, offsetof(struct static_opts, text_tokens), "N",
      "tokens of the prompt without image tokens", "1..4294967296" },
    { 'n', "new-tokens", OPT_UINT, offsetof(struct static_opts, new_tokens), "N",
      "tokens to generate (default: 128)", "0..4294967296" },
    { 'c', "context", OPT_UINT, offsetof(struct static_opts, context), "N",
      "context length of the reported decode step (default: prompt + 1)", "1..4294967296" },
    { 'i', "image", OPT_LIST, offsetof(struct static_opts, images), "WxH",
      "an image in every prompt; may be repeated", NULL },
    { 0, "image-mode", OPT_CHOICE, offsetof(struct static_opts, image_mode), NULL,
      "image mode of DeepSeek-OCR (default: gundam)", "gundam|tiny|small|base|large" },
    { 0, "max-tiles", OPT_UINT, offsetof(struct static_opts, max_tiles), "N",
      "maximum tiles per image (default: from the model)", "1..1024" },
    { 0, "dtype", OPT_STR, offsetof(struct static_opts, dtype), "TYPE",
      "type of weights and arithmetic: bf16, fp16, fp32, tf32, fp8, ...", NULL },
    { 0, "kv-dtype", OPT_STR, offsetof(struct static_opts, kv_dtype), "TYPE",
      "type of the KV cache (default: as --dtype)", NULL },
    { 0, "lm-head", OPT_CHOICE, offsetof(struct static_opts, lm_head), NULL,
      "compute logits for the last prompt row, or for all", "last|all" },
    { 0, "peak-tflops", OPT_DOUBLE, offsetof(struct static_opts, peak_tflops), "T",
      "dense peak TFLOP/s instead of the table's value; also " PEAK_ENV, ">0" },
    { 0, "peak-gbps", OPT_DOUBLE, offsetof(struct static_opts, peak_gbps), "G",
      "memory bandwidth in GB/s instead of the table's value", ">0" },
    { 0, "tp", OPT_UINT, offsetof(struct static_opts, tp), "N",
      "tensor parallel: number of GPUs that divide each layer", "1..65536" },
    { 0, "pp", OPT_UINT, offsetof(struct static_opts, pp), "N",
      "pipeline parallel: number of stages with different layers", "1..4096" },
    { 0, "ep", OPT_UINT, offsetof(struct static_opts, ep), "N",
      "expert parallel: number of GPUs with different experts", "1..65536" },
    { 0, "dp", OPT_UINT, offsetof(struct static_opts, dp), "N",
      "data parallel: number of replicas, each with its own --batch", "1..65536" },
    { 0, "link", OPT_STR, offsetof(struct static_opts, link), "NAME|GB/s",
      "link between GPUs of a node (default: the GPU's); 'list' prints the table", NULL },
    { 0, "net", OPT_STR, offsetof(struct static_opts, net), "NAME|GB/s",
      "link between nodes, per GPU and direction", NULL },
    { 0, "gpus-per-node", OPT_UINT, offsetof(struct static_opts, gpus_per_node), "N",
      "GPUs per node (default: 8)", "1..65536" },
    { 0, "price", OPT_DOUBLE, offsetof(struct static_opts, price), "USD",
      "price of the device per hour, for the cost per million tokens", ">0" },
    { 0, "mfu", OPT_DOUBLE, offsetof(struct static_opts, mfu), "F",
      "with --price: also print the price at this fraction of the peak FLOP/s (0 to 1)", ">0" },
    { 0, "mbu", OPT_DOUBLE, offsetof(struct static_opts, mbu), "F",
      "with --price: also print the price at this fraction of the bandwidth (0 to 1)", ">0" },
    { 0, "assume", OPT_STR, offsetof(struct static_opts, assume), "FAMILY",
      "interpret the model as this family", NULL },
    { 0, "sweep", OPT_STR, offsetof(struct static_opts, sweep), "WHAT=A..B",
      "vary batch, prompt or context; A..B:STEP, A..B:xFACTOR", NULL },
    { 0, "svg", OPT_STR, offsetof(struct static_opts, svg), "FILE",
      "output file for the sweep's chart (default: MODEL-WHAT.svg)", NULL },
    { 0, "operators", OPT_FLAG, offsetof(struct static_opts, operators), NULL,
      "list every operator (--json always does)", NULL },
    { 0, "json", OPT_FLAG, offsetof(struct static_opts, json), NULL, "print JSON", NULL },
    { 0, "md", OPT_FLAG, offsetof(struct static_opts, md), NULL, "print Markdown", NULL },
};

static void print_json(void (*write)(const void *, struct jsonw *), const void *arg) {
    struct strbuf out = STRBUF_INIT;
    struct jsonw j;
    jsonw_start(&j, &out, JSONW_PRETTY);
    write(arg, &j);
    jsonw_finish(&j);
    fputs(out.buf, stdout);
    strbuf_free(&out);
}

/* `least`: headings of the columns that a narrow terminal omits first; ends with NULL. */
static void print_table(struct table *t, bool md, const char *const *least) {
    struct strbuf out = STRBUF_INIT;
    if (!md) table_fit(t, command_line_width(), least);
    if (md)
        table_markdown(t, &out);
    else
        table_text(t, &out);
    fputs(out.buf, stdout);
    strbuf_free(&out);
    table_free(t);
}

/* ---- --gpu list */
static void gpu_list_json(const void *unused, struct jsonw *j) {
    (void)unused;
    jsonw_object(j);
    jsonw_kstr(j, "schema", SCHEMA_GPUS);
    jsonw_karray(j, "gpus");
    for (size_t i = 0; i < llm_gpus(); i++) {
        struct column_row row = { .item = llm_gpu_at(i), .index = i };
        jsonw_object(j);
        columns_json(&llm_gpu_name_column, &row, j);
        columns_json(&llm_gpu_columns, &row, j);
        jsonw_end(j);
    }
    jsonw_end(j);
    jsonw_end(j);
}

static void gpu_list_table(bool md) {
    const struct column_group groups[] = { llm_gpu_name_column, llm_gpu_columns };
    struct column_set set;
    struct table t;
    column_set_init(&set, groups, COUNTOF(groups), COLUMN_DOC_TERMINAL, NULL);
    column_set_heads(&set, &t);
    for (size_t i = 0; i < llm_gpus(); i++)
        column_set_cells(&set, &(struct column_row){ .item = llm_gpu_at(i), .index = i }, &t);
    static const char *const least[] = { "source", "cc",  "W",    "tensor MHz", "MHz",  "SMs", "L2 MiB",
                                         "fp64",   "fp4", "int8", "tf32",       "fp32", NULL };
    print_table(&t, md, least);
}

static int list_gpus(const struct static_opts *o) {
    if (o->json)
        print_json(gpu_list_json, NULL);
    else
        gpu_list_table(o->md);
    return EXIT_DONE;
}

/* ---- --link list */
static void link_list_json(const void *unused, struct jsonw *j) {
    (void)unused;
    jsonw_object(j);
    jsonw_kstr(j, "schema", SCHEMA_LINKS);
    jsonw_karray(j, "links");
    for (size_t i = 0; i < llm_links(); i++) llm_link_json(llm_link_at(i), j);
    jsonw_end(j);
    jsonw_end(j);
}

static int list_links(const struct static_opts *o) {
    struct table t;
    if (o->json) {
        print_json(link_list_json, NULL);
        return EXIT_DONE;
    }
    struct column_set set;
    column_set_init(&set, &llm_link_columns, 1, COLUMN_DOC_TERMINAL, NULL);
    column_set_heads(&set, &t);
    for (size_t i = 0; i < llm_links(); i++)
        column_set_cells(&set, &(struct column_row){ .item = llm_link_at(i), .index = i }, &t);
    static const char *const least[] = { "source", NULL };
    print_table(&t, o->md, least);
    return EXIT_DONE;
}

/* ---- Options */
static bool is_parallel(const struct static_opts *o) { return o->tp || o->pp || o->ep || o->dp; }

static int parse_dtype(const char *option, const char *text, enum llm_dtype *out, struct err *err) {
    *out = text ? llm_dtype_parse(text) : LLM_DTYPE_UNKNOWN;
    if (text && (*out == LLM_DTYPE_UNKNOWN || *out >= LLM_I64))
        return err_set(
            err,
            "%s: unknown type '%s'; expected fp64, fp32, tf32, fp16, bf16, fp8, int8, fp4, mxfp4 or int4",
            option, text);
    return 0;
}

static int parse_images(const struct static_opts *o, struct llm_workload *w, struct err *err) {
    if (o->images.n > LLM_IMAGES_MAX) return err_set(err, "--image: at most %d images", LLM_IMAGES_MAX);
    for (size_t i = 0; i < o->images.n; i++) {
        unsigned width, height;
        char rest;
        if (sscanf(o->images.v[i], "%6u%*[xX]%6u%c", &width, &height, &rest) != 2 || !width || !height)
            return err_set(err, "--image: '%s' is not a size; expected WIDTHxHEIGHT, for example 1654x2339",
                           o->images.v[i]);
        w->images[i].width = width;
        w->images[i].height = height;
    }
    w->nimages = o->images.n;
    return 0;
}

static int parse_workload(const struct static_opts *o, struct llm_workload *w, struct err *err) {
    *w = (struct llm_workload){ .batch = o->batch,
                                .prompt_tokens = o->prompt_tokens,
                                .text_tokens = o->text_tokens,
                                .new_tokens = o->new_tokens,
                                .context = o->context,
                                .image_opts = { .mode = o->image_mode, .max_tiles = o->max_tiles },
                                .head_all = strcmp(o->lm_head, "all") == 0 };
    if (parse_images(o, w, err) < 0 || parse_dtype("--kv-dtype", o->kv_dtype, &w->kv, err) < 0) return -1;
    if (o->prompt_tokens && o->text_tokens)
        return err_set(err, "--prompt-tokens and --text-tokens exclude each other");
    if (!o->prompt_tokens && !o->text_tokens) w->text_tokens = w->nimages ? 10 : 512;
    return 0;
}

/* Peak from --peak-tflops or from the environment; 0: neither is given. */
static int given_peak(const struct static_opts *o, double *tflops, const char **source, struct err *err) {
    const char *env = getenv(PEAK_ENV);
    *tflops = o->peak_tflops;
    *source = "--peak-tflops";
    if (o->peak_tflops > 0 || !env || !*env) return 0;
    char *end;
    *tflops = strtod(env, &end);
    *source = PEAK_ENV;
    if (*end || !isfinite(*tflops) || *tflops <= 0)
        return err_set(err, "%s is '%s'; expected TFLOP/s, for example 989.4", PEAK_ENV, env);
    return 0;
}

/* ---- --gpu all */
struct comparison {
    const struct static_opts *o;
    const struct llm_model *m;
    struct llm_static *each; /* one per GPU */
    struct llm_device *devices;
};

/* The item is a struct llm_static. */
static const struct llm_static *result_of(const struct column_row *r) { return r->item; }
static struct column_value get_gpu(const struct column_row *r) {
    return column_str(result_of(r)->device->gpu->name);
}
static struct column_value get_tflops(const struct column_row *r) {
    return column_f64(result_of(r)->device->peak.flop_per_s / 1e12);
}
static struct column_value get_gbps(const struct column_row *r) {
    return column_f64(result_of(r)->device->peak.bytes_per_s / 1e9);
}
static struct column_value get_prefill_ms(const struct column_row *r) {
    return column_f64(result_of(r)->prefill.floor_s * 1e3);
}
static struct column_value get_decode_ms(const struct column_row *r) {
    return column_f64(result_of(r)->decode.floor_s * 1e3);
}
static struct column_value get_prefill_bound(const struct column_row *r) {
    return column_str(llm_cost_bound(&result_of(r)->prefill));
}
static struct column_value get_decode_bound(const struct column_row *r) {
    return column_str(llm_cost_bound(&result_of(r)->decode));
}
static struct column_value get_rate(const struct column_row *r) {
    return column_f64(llm_static_tokens_per_s(result_of(r)));
}
static struct column_value get_fits(const struct column_row *r) {
    return column_bool_known(llm_static_fits(result_of(r)));
}
static void show_known(double v, struct strbuf *out) {
    if (v > 0) strbuf_addf(out, "%.6g", v);
}
static void show_tflops(const struct column_row *r, struct strbuf *out) {
    show_known(get_tflops(r).f64, out);
}
static void show_gbps(const struct column_row *r, struct strbuf *out) { show_known(get_gbps(r).f64, out); }
static void show_prefill(const struct column_row *r, struct strbuf *out) {
    strbuf_addstr(out, text_seconds(result_of(r)->prefill.floor_s).s);
}
static void show_decode(const struct column_row *r, struct strbuf *out) {
    strbuf_addstr(out, text_seconds(result_of(r)->decode.floor_s).s);
}

/* clang-format off */
#define AT(position) .data = JSON, .at = { .terminal = position }
static const struct column compare_columns[] = {
    { "gpu", "GPU", COLUMN_TEXT, GET(get_gpu), AT(10) },
    { "peak_tflops", "TFLOP/s", COLUMN_NUMBER, GET(get_tflops), AT(20), .show = show_tflops },
    { "peak_gbps", "GB/s", COLUMN_NUMBER, GET(get_gbps), AT(30), .show = show_gbps },
    { "prefill_floor_ms", "prefill", COLUMN_MS, GET(get_prefill_ms), AT(40), .show = show_prefill },
    { "prefill_bound", "bound by", COLUMN_TEXT, GET(get_prefill_bound), AT(50), .right = true },
    { "decode_floor_ms", "decode step", COLUMN_MS, GET(get_decode_ms), AT(60), .show = show_decode },
    { "decode_bound", "bound by", COLUMN_TEXT, GET(get_decode_bound), AT(70), .right = true },
    { "tokens_per_s", "tokens/s", COLUMN_UNITS, GET(get_rate), AT(80) },
    { "fits", "fits", COLUMN_YES_NO, GET(get_fits), AT(90) },
};
/* clang-format on */
static const struct column_group compare_group = { .columns = compare_columns,
                                                   .n = COUNTOF(compare_columns) };

static struct column_items compare_items(const struct comparison *c) {
    return (struct column_items){ c->each, llm_gpus(), sizeof *c->each };
}

static void compare_json(const void *arg, struct jsonw *j) {
    const struct comparison *c = arg;
    jsonw_object(j);
    jsonw_kstr(j, "schema", SCHEMA_STATIC_GPUS);
    jsonw_kstr(j, "model", c->m->name);
    columns_json_array("gpus", &compare_group, NULL, compare_items(c), SIZE_MAX, j);
    jsonw_end(j);
}

static void compare_table(const struct comparison *c) {
    struct table t;
    columns_table(&compare_group, 1, COLUMN_DOC_TERMINAL, NULL, compare_items(c), &t);
    static const char *const least[] = { "bound by", "bound by", "TFLOP/s", "GB/s", NULL };
    print_table(&t, c->o->md, least);
}

static int compare_gpus(const struct static_opts *o, const struct llm_model *m, const struct llm_workload *w,
                        struct err *err) {
    struct comparison c = { .o = o,
                            .m = m,
                            .each = xcalloc(llm_gpus(), sizeof *c.each),
                            .devices = xcalloc(llm_gpus(), sizeof *c.devices) };
    int rc = 0;
    for (size_t i = 0; i < llm_gpus() && rc == 0; i++) {
        c.devices[i] = llm_device_of(llm_gpu_at(i), m, 0, NULL, 0);
        rc = llm_static_eval(m, w, &c.devices[i], &c.each[i], err);
    }
    if (rc == 0 && o->json) print_json(compare_json, &c);
    if (rc == 0 && !o->json) compare_table(&c);
    for (size_t i = 0; i < llm_gpus(); i++) llm_static_free(&c.each[i]);
    free(c.each);
    free(c.devices);
    return rc;
}

/* ---- One device */
struct answer {
    const struct llm_static *r;
    const struct llm_sweep *sweep;                /* NULL: none */
    const struct llm_price *roofline, *efficient; /* NULL: none */
    const struct llm_parallel *parallel;          /* NULL: one GPU */
};

static void print_result_json(const void *arg, struct jsonw *j) {
    const struct answer *a = arg;
    jsonw_object(j);
    llm_static_json_fields(a->r, j);
    if (a->parallel) {
        jsonw_key(j, "parallel");
        llm_parallel_json(a->r, a->parallel, j);
    }
    if (a->roofline) {
        jsonw_key(j, "price");
        llm_price_json(a->roofline, a->efficient, j);
    }
    if (a->sweep) {
        jsonw_key(j, "sweep");
        llm_sweep_json(a->sweep, j);
    }
    jsonw_end(j);
}

static int write_chart(const struct static_opts *o, const struct answer *a, struct err *err) {
    struct strbuf svg = STRBUF_INIT;
    char *path =
        o->svg ? xstrdup(o->svg) : xasprintf("%s-%s.svg", a->r->model->name, llm_sweep_name(a->sweep->what));
    llm_sweep_svg(a->r, a->sweep, &svg);
    int rc = file_write_atomic(path, svg.buf, svg.len, err);
    if (rc == 0) log_info("chart: %s", path);
    free(path);
    strbuf_free(&svg);
    return rc;
}

static void print_result_text(const struct static_opts *o, const struct answer *a) {
    struct strbuf out = STRBUF_INIT, lines = STRBUF_INIT;
    const struct llm_print how = { .markdown = o->md, .width = command_line_width() };
    llm_static_text(a->r, how, o->operators, &out);
    if (a->parallel) llm_parallel_text(a->r, a->parallel, how, &out);
    if (a->roofline) llm_price_text(a->roofline, a->efficient, how, &out);
    if (a->sweep) llm_sweep_text(a->sweep, how, &out);
    wrap_lines(&lines, out.buf, o->md ? 0 : how.width);
    fputs(lines.buf, stdout);
    strbuf_free(&lines);
    strbuf_free(&out);
}

/* `given`: storage for links given in GB/s. It must live as long as `p`. */
static int eval_parallel(const struct static_opts *o, const struct llm_static *r, struct llm_link given[2],
                         struct llm_parallel *p, struct err *err) {
    struct llm_topology t = { .layout = llm_layout_of(o->tp, o->pp, o->ep, o->dp),
                              .gpus_per_node = o->gpus_per_node,
                              .link = llm_link_of_gpu(r->device->gpu) };
    if (o->link && !(t.link = llm_link_find(o->link, &given[0], err))) return err_wrap(err, "--link");
    if (o->net && !(t.net = llm_link_find(o->net, &given[1], err))) return err_wrap(err, "--net");
    return llm_parallel_eval(r, &t, p, err);
}

static int print_result(const struct static_opts *o, const struct llm_static *r, const struct llm_parallel *p,
                        struct err *err) {
    struct llm_sweep sweep;
    struct llm_price roofline, efficient;
    struct answer a = { .r = r, .parallel = p };
    if (o->price > 0) {
        roofline = llm_price_of(r, o->price, 1, 1);
        efficient = llm_price_of(r, o->price, o->mfu > 0 ? o->mfu : 1, o->mbu > 0 ? o->mbu : 1);
        a.roofline = &roofline;
        a.efficient = o->mfu > 0 || o->mbu > 0 ? &efficient : NULL;
        if (isnan(roofline.decode_usd))
            log_warn("--price needs a device with known peaks and a model that decodes");
    }
    if (o->sweep) {
        if (llm_sweep_parse(o->sweep, &sweep, err) < 0 || llm_sweep_run(r, &sweep, err) < 0) return -1;
        a.sweep = &sweep;
    }
    if (o->json)
        print_json(print_result_json, &a);
    else
        print_result_text(o, &a);
    int rc = o->sweep ? write_chart(o, &a, err) : 0;
    if (o->sweep) llm_sweep_free(&sweep);
    return rc;
}

/* `path`: a .safetensors file or a folder. NULL: none, or damaged. Damage causes only a warning, because the
 * config is sufficient. */
static struct safetensors *open_weights(const char *path) {
    struct err err;
    bool is_file = file_has_ending(path, ".safetensors");
    if (!is_file && !file_is_dir(path)) return NULL;
    struct safetensors *st = safetensors_open(path, &err);
    if (!st && (is_file || !strstr(err.msg, "no .safetensors file"))) log_warn("%s", err.msg);
    return st;
}

/* NULL: not found */
struct weights {
    struct safetensors *safetensors;
    struct gguf *gguf;
};

static int eval_one_gpu(const struct static_opts *o, const struct llm_model *m, const struct llm_workload *w,
                        const struct weights *weights, struct err *err) {
    const struct llm_gpu *gpu = NULL;
    const char *source;
    double tflops;
    struct llm_static r;
    if (o->gpu && !(gpu = llm_gpu_find(o->gpu, err))) return -1;
    if (given_peak(o, &tflops, &source, err) < 0) return -1;
    struct llm_device device = llm_device_of(gpu, m, tflops, source, o->peak_gbps);
    if (llm_static_eval(m, w, &device, &r, err) < 0) return -1;
    if (gpu && !device.peak_source)
        log_warn("%s has no known dense peak for %s: no times (choose another type with --dtype)", gpu->name,
                 llm_dtype_name(m->dtype));
    if (weights->safetensors) llm_static_add_files(&r, weights->safetensors);
    if (weights->gguf) llm_static_add_gguf(&r, weights->gguf);
    for (size_t i = 0; i < r.nwarnings; i++) log_warn("%s", r.warnings[i]);
    struct llm_parallel parallel = { 0 };
    struct llm_link given[2];
    int rc = is_parallel(o) ? eval_parallel(o, &r, given, &parallel, err) : 0;
    if (rc == 0) rc = print_result(o, &r, is_parallel(o) ? &parallel : NULL, err);
    llm_parallel_free(&parallel);
    llm_static_free(&r);
    return rc;
}

/* Checks the options before any file is opened. */
static int check_options(const struct static_opts *o, struct llm_load *how, struct llm_workload *w,
                         struct err *err) {
    struct llm_sweep sweep;
    if (o->json && o->md) return err_set(err, "--json and --md exclude each other");
    if (o->gpu && strcmp(o->gpu, "all") == 0 && (o->sweep || o->operators))
        return err_set(err, "--gpu all cannot be combined with --sweep or --operators; give one device");
    if (o->gpu && strcmp(o->gpu, "all") == 0 && (o->peak_tflops > 0 || o->peak_gbps > 0))
        return err_set(err, "--gpu all uses the peaks of each device; remove --peak-tflops and --peak-gbps");
    if ((o->image_mode || o->max_tiles) && !o->images.n)
        return err_set(err, "--image-mode and --max-tiles need an --image");
    if (o->gpu && strcmp(o->gpu, "all") == 0 && o->price > 0)
        return err_set(err, "--price is the price of one device; give one with --gpu");
    if (is_parallel(o) && ((o->gpu && strcmp(o->gpu, "all") == 0) || o->sweep || o->price > 0))
        return err_set(err,
                       "--tp, --pp, --ep and --dp cannot be combined with --gpu all, --sweep or --price");
    if ((o->link || o->net) && !is_parallel(o))
        return err_set(err, "--link and --net need --tp, --pp, --ep or --dp");
    if ((o->mfu > 0 || o->mbu > 0) && !(o->price > 0)) return err_set(err, "--mfu and --mbu need a --price");
    if (o->mfu > 1 || o->mbu > 1)
        return err_set(err, "%s is %g; expected a fraction, at most 1", o->mfu > 1 ? "--mfu" : "--mbu",
                       o->mfu > 1 ? o->mfu : o->mbu);
    if (o->svg && !o->sweep) return err_set(err, "--svg needs a --sweep");
    if (o->assume && !llm_family_known(o->assume))
        return err_set(err, "--assume: '%s' is not a known family; known: %s", o->assume, llm_families());
    if (o->sweep && llm_sweep_parse(o->sweep, &sweep, err) < 0) return -1;
    if (o->gpu && strcmp(o->gpu, "all") != 0 && !llm_gpu_find(o->gpu, err)) return err_wrap(err, "--gpu");
    if (parse_dtype("--dtype", o->dtype, &how->dtype, err) < 0) return -1;
    return parse_workload(o, w, err);
}

static int run_static(const void *opts, int argc, char **argv) {
    const struct static_opts *o = opts;
    struct err err;
    struct llm_workload w;
    struct llm_load how = { .assume = o->assume };
    if (o->gpu && strcmp(o->gpu, "list") == 0) return list_gpus(o);
    if (o->link && strcmp(o->link, "list") == 0) return list_links(o);
    if (argc == 0)
        return command_usage(
            "static: expected a model: a config.json, its folder, a .safetensors or a .gguf file");
    if (check_options(o, &how, &w, &err) < 0) return command_usage("static: %s", err.msg);
    struct weights weights = { .safetensors = open_weights(argv[0]) };
    how.weights = weights.safetensors;
    struct llm_model *m = llm_model_load(argv[0], &how, &err);
    int rc = -1;
    if (m && file_has_ending(argv[0], ".gguf") && !(weights.gguf = gguf_open(argv[0], &err))) {
        llm_model_free(m);
        m = NULL;
    }
    if (m && o->gpu && strcmp(o->gpu, "all") == 0)
        rc = compare_gpus(o, m, &w, &err);
    else if (m)
        rc = eval_one_gpu(o, m, &w, &weights, &err);
    llm_model_free(m);
    safetensors_close(weights.safetensors);
    gguf_close(weights.gguf);
    return rc < 0 ? command_fail(&err) : EXIT_DONE;
}

const struct command cmd_static = {
    .name = "static",
    .args = "MODEL",
    .summary = "compute the theoretical cost of a model on a GPU, without running it",
    .details = "MODEL is a Hugging Face config.json, a folder with one, a .safetensors file next to one, "
               "or a .gguf\nfile. Prints parameters, FLOPs, bytes, memory and the roofline time, per stage.",
    .opts = static_rows,
    .nopts = COUNTOF(static_rows),
    .defaults = &static_defaults,
    .opts_bytes = sizeof(struct static_opts),
    .min_args = 0,
    .max_args = 1,
    .complete = COMPLETE_FILES,
    .run = run_static,
};
