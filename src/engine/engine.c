#include "engine/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc_guard.h"
#include "base/die.h"
#include "base/embed.h"
#include "base/file.h"
#include "base/util.h"
#include "engine/compute/kernels.h"
#include "engine/decoder/steps.h"
#include "engine/internal.h"
#include "llm/gguf.h"

#define EMBEDDED_CONFIG "samples/deepseek-ocr-small/config.json"
enum { CONTEXT_CAP = 8192 };

static bool is_embedded(const struct engine_load *l) {
    return !l->model || strcmp(l->model, "embedded") == 0;
}

static bool is_gguf(const struct engine_load *l) {
    return !is_embedded(l) && file_has_ending(l->model, ".gguf");
}

static int read_model(struct engine *e, const struct engine_load *l, struct err *err) {
    struct llm_load how = { .assume = is_embedded(l) ? NULL : l->assume };
    if (is_embedded(l)) {
        const struct embed_file *f = embed_find(EMBEDDED_CONFIG);
        if (!f) return err_set(err, "this program was built without " EMBEDDED_CONFIG);
        e->model = llm_model_parse((const char *)f->data, embed_bytes(f), EMBEDDED_CONFIG, &how, err);
    } else {
        e->model = llm_model_load(l->model, &how, err);
    }
    if (!e->model) return -1;
    if (!e->model->text.family)
        return err_set(err, "%s: this model has no text decoder, so the native engine cannot generate text",
                       l->model);
    return e->model->vision.family ? vision_check(e->model, e->ops, err) : 0;
}

static int parse_seed(const char *text, uint64_t *seed, struct err *err) {
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text == '-')
        return err_set(err, "weights 'synthetic:%s': the seed must be a whole number, as in synthetic:7",
                       text);
    *seed = v;
    return 0;
}

/* The config's type; fp8 if the config says that the model is quantised to it. */
static enum dtype config_type(const struct llm_model *m) {
    if (m->pack.type == LLM_FP8) return DTYPE_F8_E4M3;
    return m->dtype == LLM_F32 ? DTYPE_F32 : m->dtype == LLM_F16 ? DTYPE_F16 : DTYPE_BF16;
}

static int pick_type(const struct engine *e, const char *name, enum dtype *out, struct err *err) {
    if (!name || strcmp(name, "auto") == 0) {
        *out = config_type(e->model);
        return 0;
    }
    for (int t = DTYPE_F32; t <= DTYPE_F16; t++)
        if (strcmp(name, dtype_name((enum dtype)t)) == 0) {
            *out = (enum dtype)t;
            return 0;
        }
    return err_set(err, "dtype '%s': expected auto, bf16, f16 or f32", name);
}

static int open_weights(struct engine *e, const struct engine_load *l, struct err *err) {
    const char *source = l->weights;
    if (!source || strcmp(source, "auto") == 0) source = is_embedded(l) ? "synthetic:0" : "files";
    e->source = xstrdup(source);
    if (strcmp(source, "files") == 0) {
        e->weights = weights_open_files(e->ops, l->model, err);
        return e->weights
                   ? 0
                   : err_wrap(err, "weights (weights=synthetic:0 runs the model without weight files)");
    }
    uint64_t seed = 0;
    enum dtype type = DTYPE_BF16;
    if (strncmp(source, "synthetic:", 10) != 0)
        return err_set(err, "weights '%s': expected auto or synthetic:SEED", source);
    if (parse_seed(source + 10, &seed, err) < 0 || pick_type(e, l->dtype, &type, err) < 0) return -1;
    e->weights = weights_open_synthetic(e->ops, seed, type);
    if (type == DTYPE_F8_E4M3)
        weights_fp8_blocks(e->weights, (int)e->model->pack.block_out, (int)e->model->pack.block_in);
    return 0;
}

static void on_weights(void *context, uint64_t done, uint64_t total) {
    const struct engine_load *l = *(const struct engine_load **)context;
    if (l->progress) l->progress(l->context, "weights", done, total);
}

static int parse_decode(const char *text, enum decode_path *path, struct err *err) {
    static const char *const names[] = { "auto", "graph", "persistent" }; /* order of enum decode_path */
    for (size_t i = 0; i < COUNTOF(names); i++)
        if (strcmp(text ? text : "auto", names[i]) == 0) {
            *path = (enum decode_path)i;
            return 0;
        }
    return err_set(err, "decode '%s': expected auto, graph or persistent", text);
}

static int build_model(struct engine *e, const struct engine_load *l, struct err *err) {
    const struct llm_text *t = &e->model->text;
    uint64_t positions = rope_positions(&t->rope, t->max_positions);
    uint64_t context = l->max_context > 0 ? (uint64_t)l->max_context : MIN(positions, (uint64_t)CONTEXT_CAP);
    if (context > positions)
        return err_set(err, "max_context %llu: the model has %llu positions", (unsigned long long)context,
                       (unsigned long long)positions);
    enum dtype kv = l->exact || (l->kv_dtype && strcmp(l->kv_dtype, "f32") == 0) ? DTYPE_F32 : DTYPE_BF16;
    if (l->kv_dtype && strcmp(l->kv_dtype, "f32") != 0 && strcmp(l->kv_dtype, "bf16") != 0)
        return err_set(err, "kv_dtype '%s': expected bf16 or f32", l->kv_dtype);
    enum decode_path path = DECODE_AUTO;
    if (parse_decode(l->decode, &path, err) < 0) return -1;
    e->decoder = decoder_open(t, e->ops, e->weights, (int)context, kv, err);
    if (!e->decoder) return -1;
    if (e->model->vision.family) {
        e->vision = vision_open(e->model, e->decoder->hidden, e->weights, err);
        if (!e->vision) return -1;
    }
    if (ops_check(e->ops, err) < 0) return -1; /* checks that the weights fit before they are read */
    if (weights_finish(e->weights, e->threads, on_weights, &l, err) < 0) return -1;
    e->logits = xcalloc((size_t)e->decoder->vocab, sizeof *e->logits);
    e->steps = decoder_steps_open(e->decoder, path);
    return ops_check(e->ops, err);
}

static int open_gguf_tokenizer(struct engine *e, const char *path, struct err *err) {
    struct gguf *g = gguf_open(path, err);
    if (!g) return -1;
    int rc = 0;
    if (tokenizer_in_gguf(g)) {
        e->tokenizer = tokenizer_open_gguf(g, path, &e->no_tokenizer);
        rc = e->tokenizer ? 1 : 0; /* 0 is no error: a request with prompt_ids needs no tokenizer */
    }
    gguf_close(g);
    return rc;
}

/* Opens the tokenizer of the folder or GGUF file. If the model has none, opens the built-in tokenizer,
 * provided that the model's vocabulary contains all of its ids. If the vocabulary of a GGUF file is not
 * supported, there is no tokenizer. */
static int open_tokenizer(struct engine *e, const struct engine_load *l, struct err *err) {
    if (is_gguf(l)) {
        int rc = open_gguf_tokenizer(e, l->model, err);
        if (rc != 0 || e->no_tokenizer.msg[0]) return rc < 0 ? -1 : 0;
    }
    char *path = is_embedded(l) || is_gguf(l) ? NULL : file_join(l->model, "tokenizer.json");
    if (path && file_exists(path)) {
        e->tokenizer = tokenizer_open(path, err);
        free(path);
        return e->tokenizer ? 0 : -1;
    }
    free(path);
    e->tokenizer = tokenizer_open_builtin();
    if (tokenizer_size(e->tokenizer) > (uint32_t)e->decoder->vocab) { /* prompt_ids work without it */
        tokenizer_close(e->tokenizer);
        e->tokenizer = NULL;
    }
    return 0;
}

static void find_special_tokens(struct engine *e) {
    const struct llm_text *t = &e->model->text;
    e->bos = t->bos_id < 0 ? TOKENIZER_NONE : (uint32_t)t->bos_id;
}

static int open_device(struct engine *e, const struct engine_load *l, struct err *err) {
    if (engine_device_find(l->device, &e->device, err) < 0) return -1;
    if (l->backend) e->device.backend = l->backend;
    e->ops = e->device.backend->open(e->threads, e->device.index, err);
    if (e->ops) ops_set_exact(e->ops, l->exact);
    return e->ops ? 0 : -1;
}

/* A model that is being loaded. `e` owns everything loaded so far, so that nothing leaks if memory runs
 * out. */
struct loading {
    const struct engine_load *l;
    struct err *err;
    struct engine *e;
    int rc;
};

static void load_parts(void *context) {
    struct loading *g = context;
    const struct engine_load *l = g->l;
    struct engine *e = g->e = xcalloc(1, sizeof *e);
    const char *slowdown = getenv("INFERPROF_TEST_SLOWDOWN");
    e->slowdown = slowdown ? MIN(strtod(slowdown, NULL), 10) : 1;
    e->path = xstrdup(is_embedded(l) ? "embedded" : l->model);
    e->threads = threads_open(l->threads);
    if (open_device(e, l, g->err) < 0 || read_model(e, l, g->err) < 0 || open_weights(e, l, g->err) < 0 ||
        build_model(e, l, g->err) < 0 || open_tokenizer(e, l, g->err) < 0)
        return;
    find_special_tokens(e);
    g->rc = 0;
}

struct engine *engine_open(const struct engine_load *l, struct err *err) {
    struct engine_load own = *l;
    char *model = is_embedded(l) ? NULL : gguf_in_folder(l->model);
    struct loading g = { .l = &own, .err = err, .rc = -1 };
    size_t bytes;
    if (model) own.model = model;
    if (!alloc_guard_run(load_parts, &g, &bytes))
        err_set(err, "%s: out of memory, %zu bytes could not be allocated: load with a smaller max_context",
                model ? model : "embedded", bytes);
    free(model);
    if (g.rc == 0) return g.e;
    engine_close(g.e);
    return NULL;
}

void engine_close(struct engine *e) {
    if (!e) return;
    tokenizer_close(e->tokenizer);
    vision_close(e->vision);
    decoder_steps_close(e->steps);
    decoder_batch_close(e->batch_steps);
    decoder_close(e->decoder);
    weights_close(e->weights);
    llm_model_free(e->model);
    ops_free(e->ops, e->device_logits);
    ops_free(e->ops, e->rows);
    ops_close(e->ops);
    threads_close(e->threads);
    free(e->logits);
    free(e->path);
    free(e->source);
    free(e);
}

const char *engine_device(const struct engine *e) { return e ? e->device.label : engine_default_device(); }
const char *engine_isa(const struct engine *e) { return e ? ops_device(e->ops) : kernels_pick()->name; }
int engine_threads(const struct engine *e) { return threads_count(e->threads); }

size_t engine_stages(const struct engine *e, const char *out[8]) {
    size_t n = 0;
    out[n++] = "prefill";
    n += vision_stages(e->vision, out + n);
    out[n++] = "decode";
    return n;
}

void engine_describe(const struct engine *e, struct jsonw *j) {
    const struct llm_text *t = &e->model->text;
    jsonw_object(j);
    jsonw_kstr(j, "name", strcmp(e->path, "embedded") == 0 ? "deepseek-ocr-small" : e->model->name);
    jsonw_kstr(j, "architecture", e->model->family);
    jsonw_kstr(j, "path", e->path);
    jsonw_kstr(j, "weights", e->source);
    jsonw_kstr(j, "dtype", weights_types(e->weights));
    jsonw_ku64(j, "parameters", weights_parameters(e->weights));
    jsonw_ku64(j, "weight_bytes", weights_bytes(e->weights));
    jsonw_ku64(j, "layers", t->layers);
    jsonw_ku64(j, "hidden_size", t->hidden);
    jsonw_ku64(j, "vocab_size", t->vocab);
    jsonw_ku64(j, "max_context", (uint64_t)e->decoder->max_context);
    jsonw_kbool(j, "vision", e->vision != NULL);
    jsonw_end(j);
}
