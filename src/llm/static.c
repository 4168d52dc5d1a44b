#include "llm/static.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "llm/fields.h"
#include "llm/gguf_model.h"

#define TOKENS_MAX ((uint64_t)1 << 32)
#define BATCH_MAX ((uint64_t)1 << 24)

struct llm_device llm_device_of(const struct llm_gpu *gpu, const struct llm_model *m, double tflops,
                                const char *tflops_source, double gbps) {
    struct llm_device d = { .gpu = gpu, .peak = { NAN, NAN } };
    if (gpu) d.peak = (struct llm_peak){ llm_gpu_flop_per_s(gpu, m->dtype), llm_gpu_bytes_per_s(gpu), 0 };
    if (gpu && tflops <= 0 && m->pack.type) {
        d.quantized = llm_gpu_peak(gpu, m->pack.type, m->pack.activations);
        if (!isnan(d.quantized.flop_per_s)) d.peak.quantized_flop_per_s = d.quantized.flop_per_s;
    }
    if (!isnan(d.peak.flop_per_s)) d.peak_source = "table";
    if (!isnan(d.peak.bytes_per_s)) d.bandwidth_source = "table";
    if (tflops > 0) {
        d.peak.flop_per_s = tflops * 1e12;
        d.peak_source = tflops_source;
    }
    if (gbps > 0) {
        d.peak.bytes_per_s = gbps * 1e9;
        d.bandwidth_source = "--peak-gbps";
    }
    return d;
}

/* ---- Workload */
static int check_limits(const struct llm_workload *w, struct err *err) {
    const struct {
        const char *name;
        uint64_t value, max;
    } rows[] = { { "batch", w->batch, BATCH_MAX },
                 { "prompt tokens", w->prompt_tokens, TOKENS_MAX },
                 { "text tokens", w->text_tokens, TOKENS_MAX },
                 { "new tokens", w->new_tokens, TOKENS_MAX },
                 { "context", w->context, TOKENS_MAX } };
    if (w->batch == 0) return err_set(err, "batch is 0; expected 1 or more");
    for (size_t i = 0; i < COUNTOF(rows); i++)
        if (rows[i].value > rows[i].max)
            return err_set(err, "%s is %" PRIu64 "; at most %" PRIu64, rows[i].name, rows[i].value,
                           rows[i].max);
    return 0;
}

static void add_counts(struct llm_counts *sum, const struct llm_counts *c, double times) {
    for (int i = 0; i < LLM_ROWS_N; i++) sum->rows[i] += c->rows[i] * times;
    for (int i = 0; i < LLM_PAIRS_N; i++) sum->pairs[i] += c->pairs[i] * times;
}

static int plan_images(struct llm_static *r, struct err *err) {
    struct llm_workload *w = &r->work;
    if (!r->model->decodes && r->model->vision.rule &&
        w->nimages == 0) { /* a model without a decoder needs an image */
        w->nimages = 1;
        w->images[0].width = w->images[0].height = r->model->vision.tower.image_size;
    }
    r->plans = xcalloc(MAX(1, w->nimages), sizeof *r->plans);
    for (size_t i = 0; i < w->nimages; i++) {
        struct llm_image_plan *p = &r->plans[i];
        if (llm_image_plan(r->model, w->images[i].width, w->images[i].height, &w->image_opts, p, err) < 0)
            return -1;
        r->image_tokens += p->tokens;
        add_counts(&r->counts, &p->counts, (double)w->batch);
        if (r->model->vision.image_attends_both_ways)
            r->prefill_pass.extra_pairs += (double)p->tokens * ((double)p->tokens - 1) / 2;
    }
    return 0;
}

/* Completes the workload. prompt_tokens is the number of all tokens of the prompt; 0 becomes the image tokens
 * plus text_tokens. If it is smaller than the number of image tokens, it is used as the number of text
 * tokens, with a warning. */
static void settle_prompt(struct llm_static *r, struct llm_notes *warnings) {
    struct llm_workload *w = &r->work;
    if (w->prompt_tokens == 0) {
        w->prompt_tokens = r->image_tokens + w->text_tokens;
    } else if (w->prompt_tokens < r->image_tokens) {
        notes_add(warnings,
                  "a prompt of %" PRIu64 " tokens is too short for %" PRIu64
                  " image tokens: using it as --text-tokens",
                  w->prompt_tokens, r->image_tokens);
        w->prompt_tokens += r->image_tokens;
    }
    w->text_tokens = w->prompt_tokens - r->image_tokens;
    if (w->context == 0) w->context = w->prompt_tokens + 1;
    r->decode_steps = w->new_tokens ? w->new_tokens - 1 : 0;
}

/* ---- Assumptions */
static void assume(struct llm_static *r, struct llm_notes *n) {
    const struct llm_model *m = r->model;
    for (size_t i = 0; i < m->nnotes; i++) notes_add(n, "%s", m->notes[i]);
    notes_add(n, "FLOPs: a multiply-add is 2; matrix products, convolutions and attention only");
    notes_add(n, "bytes: every weight used is read once per pass; activations between operators are not "
                 "written to memory");
    if (m->decodes) {
        notes_add(n, "attention is causal: only unmasked query-key pairs count; sliding windows are applied");
        notes_add(n, r->work.head_all ? "the head is computed for every prompt row (--lm-head all)"
                                      : "the head is computed for the last prompt row only (--lm-head last)");
        notes_add(n, "prefill generates the first new token, decode the other %" PRIu64, r->decode_steps);
        notes_add(n, "decode per token is for a context of %" PRIu64 " keys, including the token itself",
                  r->work.context);
    }
    if (m->text.experts)
        notes_add(n,
                  "experts: %" PRIu64 " of %" PRIu64
                  " compute per token; bytes count the experts that T tokens use on average, E(1-(1-k/E)^T)",
                  m->text.experts_per_token, m->text.experts);
    if (m->text.kv_lora_rank)
        notes_add(n, "latent attention: FLOPs as with expanded heads, cache bytes as the compressed latent");
    if (r->work.nimages)
        notes_add(
            n, "image weights are read once for all images of the batch; prefill includes the image stages");
    if (m->vision.family && strcmp(m->family, "llava") == 0)
        notes_add(n, "layers of the image tower after the one whose features are used are not counted; the "
                     "reference code runs them too");
    if (r->device->gpu && strstr(r->device->gpu->source, "superchip"))
        notes_add(n, "%s: figures for one GPU", r->device->gpu->name);
}

/* ---- Memory */
static void measure_memory(struct llm_static *r) {
    const struct llm_model *m = r->model;
    const struct llm_workload *w = &r->work;
    r->kv_bytes_per_token = llm_kv_bytes_per_token(m, llm_kv_dtype(m, w->kv));
    r->kv_bytes_at_end =
        (double)w->batch * llm_kv_bytes_held(m, w->kv, MAX(w->context, w->prompt_tokens + w->new_tokens));
    r->weight_bytes = llm_weight_bytes(m);
    r->activation_bytes = llm_activation_bytes(m, LLM_STAGE_DECODER, &r->prefill_pass);
    for (int s = 1; s < m->nstages; s++) {
        struct llm_pass p = { .counts = r->counts };
        r->activation_bytes = fmax(r->activation_bytes, llm_activation_bytes(m, s, &p));
    }
    r->memory_bytes = r->weight_bytes + r->kv_bytes_at_end + r->activation_bytes;
}

static void evaluate_decoder(struct llm_static *r) {
    const struct llm_model *m = r->model;
    const struct llm_workload *w = &r->work;
    double extra = r->prefill_pass.extra_pairs;
    r->prefill_pass = llm_pass_decoder(&r->setup, w->batch, w->prompt_tokens, 0);
    r->prefill_pass.extra_pairs = extra;
    r->decode_pass = llm_pass_decoder(&r->setup, w->batch, 1, w->context - 1);
    r->decoder = llm_cost_stage(m, &r->setup, LLM_STAGE_DECODER, &r->prefill_pass);
    r->decode = llm_cost_stage(m, &r->setup, LLM_STAGE_DECODER, &r->decode_pass);
    r->generation = llm_cost_generate(m, &r->setup, w->batch, w->prompt_tokens + 1, r->decode_steps);
}

static void evaluate_text_tower(struct llm_static *r) {
    double tokens = (double)MIN(r->work.prompt_tokens, r->model->text.max_positions),
           batch = (double)r->work.batch;
    r->counts.rows[LLM_ROWS_TEXT] = batch * tokens;
    r->counts.pairs[LLM_PAIRS_TEXT] = batch * tokens * (tokens + 1) / 2;
    if (r->counts.rows[LLM_ROWS_VIEWS] == 0) r->counts.rows[LLM_ROWS_VIEWS] = batch;
    r->decoder = llm_cost_vision(r->model, &r->setup, 0, &r->counts);
}

static void evaluate(struct llm_static *r) {
    const struct llm_model *m = r->model;
    if (m->decodes)
        evaluate_decoder(r);
    else if (m->text.family)
        evaluate_text_tower(r);
    r->prefill = r->decoder;
    for (int s = 1; s < m->nstages; s++) {
        r->vision[s] = llm_cost_vision(m, &r->setup, s, &r->counts);
        llm_cost_add(&r->prefill, &r->vision[s]);
    }
    measure_memory(r);
}

int llm_static_eval(const struct llm_model *m, const struct llm_workload *w, const struct llm_device *d,
                    struct llm_static *r, struct err *err) {
    *r = (struct llm_static){ .model = m, .device = d, .work = *w };
    struct llm_notes assumptions = { 0 }, warnings = { 0 };
    r->setup = (struct llm_setup){ .peak = d->peak, .kv = w->kv, .head_all = w->head_all };
    if (check_limits(w, err) < 0 || plan_images(r, err) < 0) {
        llm_static_free(r);
        return -1;
    }
    settle_prompt(r, &warnings);
    evaluate(r);
    assume(r, &assumptions);
    if (m->decodes &&
        m->text.max_positions < MAX(r->work.context, r->work.prompt_tokens + r->work.new_tokens))
        notes_add(&warnings, "the workload exceeds max_position_embeddings, %" PRIu64, m->text.max_positions);
    r->assumptions = assumptions.v;
    r->nassumptions = assumptions.n;
    r->warnings = warnings.v;
    r->nwarnings = warnings.n;
    return 0;
}

void llm_static_vary(const struct llm_static *base, uint64_t batch, uint64_t prompt_tokens, uint64_t context,
                     struct llm_static *r) {
    *r = (struct llm_static){ .model = base->model,
                              .device = base->device,
                              .work = base->work,
                              .setup = base->setup,
                              .image_tokens = base->image_tokens,
                              .decode_steps = base->decode_steps };
    r->work.batch = batch;
    r->work.prompt_tokens = prompt_tokens;
    r->work.text_tokens = prompt_tokens > base->image_tokens ? prompt_tokens - base->image_tokens : 0;
    r->work.context = context;
    r->prefill_pass.extra_pairs = base->prefill_pass.extra_pairs;
    add_counts(&r->counts, &base->counts, (double)batch / (double)base->work.batch);
    evaluate(r);
}

void llm_static_free(struct llm_static *r) {
    for (size_t i = 0; i < r->nassumptions; i++) free(r->assumptions[i]);
    for (size_t i = 0; i < r->nwarnings; i++) free(r->warnings[i]);
    free(r->assumptions);
    free(r->warnings);
    free(r->plans);
    free(r->files.layer_bytes);
    *r = (struct llm_static){ 0 };
}

/* ---- Weight files */
static bool has_ending(const char *name, const char *const *endings, size_t n) {
    size_t len = strlen(name);
    for (size_t i = 0; i < n; i++) {
        size_t k = strlen(endings[i]);
        if (len >= k && strcmp(name + len - k, endings[i]) == 0) return true;
    }
    return false;
}

/* Returns true for scales, zero points and indexes of quantised weights. */
static bool is_scale(const char *name) {
    static const char *const endings[] = { ".scales",       ".qzeros",        ".g_idx",
                                           "_scales",       ".weight_scale",  ".weight_scale_inv",
                                           ".input_scale",  ".k_scale",       ".v_scale",
                                           ".weight_shape", ".weight_g_idx",  ".weight_zero_point",
                                           "_global_scale", ".weight_scale_2" };
    return has_ending(name, endings, COUNTOF(endings));
}

/* Returns the number of parameters of a tensor. Packed types store several parameters per number. Returns
 * 0 if the tensor does not contain parameters. */
static uint64_t params_of(const struct safetensors_tensor *t, const struct llm_pack *pack) {
    static const char *const packed[] = { ".qweight", ".weight_packed", "_blocks", ".weight" };
    if (is_scale(t->name)) return 0;
    bool whole = t->dtype == LLM_I64 || t->dtype == LLM_I32 || t->dtype == LLM_BOOL || t->dtype == LLM_U8;
    if (!whole) return t->numbers;
    if (!pack->bits || t->dtype == LLM_I64 || t->dtype == LLM_BOOL) return 0; /* position ids and masks */
    return has_ending(t->name, packed, COUNTOF(packed)) ? t->bytes * 8 / pack->bits : 0;
}

/* Warns if the files and the config differ by more than 0.5% of the bytes. The files may or may not
 * contain layers for multi-token prediction. */
static void compare_bytes(const struct llm_static *r, struct llm_notes *warnings) {
    double expected = r->weight_bytes, other = r->weight_bytes + r->model->mtp.bytes, got = r->files.bytes;
    if (fabs(got / expected - 1) <= 0.005 || fabs(got / other - 1) <= 0.005) return;
    notes_add(warnings, "the weight files have %.4g GB, the quantisation of the config gives %.4g GB",
              got / 1e9, other / 1e9);
}

void llm_static_add_files(struct llm_static *r, const struct safetensors *st) {
    const struct llm_model *m = r->model;
    struct llm_notes warnings = { .v = r->warnings, .n = r->nwarnings, .cap = r->nwarnings };
    r->files.found = true;
    for (size_t i = 0; i < safetensors_count(st); i++) {
        const struct safetensors_tensor *t = safetensors_at(st, i);
        r->files.tensors++;
        r->files.by_dtype[t->dtype] += t->numbers;
        r->files.bytes += (double)t->bytes;
        r->files.params += params_of(t, &m->pack);
    }
    if (r->files.params != m->params.total && r->files.params != m->params.total + m->mtp.params)
        notes_add(&warnings, "the weight files have %" PRIu64 " parameters, the config describes %" PRIu64,
                  r->files.params, m->params.total);
    if (m->quantization) compare_bytes(r, &warnings);
    if (!m->quantization && r->files.by_dtype[m->dtype] * 2 < r->files.params)
        notes_add(&warnings, "most weights are not stored as %s, which the figures assume",
                  llm_dtype_name(m->dtype));
    r->warnings = warnings.v;
    r->nwarnings = warnings.n;
}

void llm_static_add_gguf(struct llm_static *r, const struct gguf *g) {
    r->files.found = true;
    r->files.layers = r->model->text.layers;
    r->files.layer_bytes = xcalloc(r->files.layers + 1, sizeof *r->files.layer_bytes);
    for (size_t i = 0; i < gguf_count(g); i++) {
        const struct gguf_tensor *t = gguf_at(g, i);
        int layer = gguf_layer_of(t->name);
        r->files.tensors++;
        r->files.params += t->numbers;
        r->files.bytes += (double)t->bytes;
        r->files.by_ggml[t->type] += t->numbers;
        bool known = layer >= 0 && (uint32_t)layer < r->files.layers;
        r->files.layer_bytes[known ? layer + 1 : 0][t->type] += (double)t->bytes;
    }
}

/* ---- Derived values */
int llm_static_fits(const struct llm_static *r) {
    double have = r->device->gpu ? llm_gpu_known(r->device->gpu->memory_gb) * 1e9 : NAN;
    return isnan(have) ? -1 : r->memory_bytes <= have;
}

double llm_static_tokens_per_s(const struct llm_static *r) {
    return r->model->decodes ? (double)r->work.batch / r->decode.floor_s : NAN;
}
