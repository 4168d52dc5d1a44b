#include "engine/protocol/request.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/jsonr.h"
#include "base/suggest.h"
#include "base/util.h"
#include "base/vec.h"

static const char *const op_names[] = { [PROTOCOL_HELLO] = "hello",
                                        [PROTOCOL_LOAD] = "load",
                                        [PROTOCOL_WARMUP] = "warmup",
                                        [PROTOCOL_INFER] = "infer",
                                        [PROTOCOL_BYE] = "bye" };
static const char *const detail_names[] = { "none", "stages", "modules", "operators" };

/* ---- fields: a missing or null field keeps the default */
static int get_str(const json_t *o, const char *key, const char **out, struct err *err) {
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v)) return 0;
    if (!json_is_string(v)) return err_set(err, "\"%s\" must be a string", key);
    if (strlen(json_string_value(v)) != json_string_length(v))
        return err_set(err, "\"%s\" must not contain a NUL character", key);
    *out = json_string_value(v);
    return 0;
}

static int get_int(const json_t *o, const char *key, int64_t min, int64_t max, int64_t *out,
                   struct err *err) {
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v)) return 0;
    if (!json_is_integer(v) || json_integer_value(v) < min || json_integer_value(v) > max)
        return err_set(err, "\"%s\" must be a whole number from %lld to %lld", key, (long long)min,
                       (long long)max);
    *out = json_integer_value(v);
    return 0;
}

static int get_num(const json_t *o, const char *key, double min, double max, double *out, struct err *err) {
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v)) return 0;
    double d = json_number_value(v);
    if (!json_is_number(v) || !(d >= min && d <= max))
        return err_set(err, "\"%s\" must be a number from %g to %g", key, min, max);
    *out = d;
    return 0;
}

static int get_bool(const json_t *o, const char *key, bool *out, struct err *err) {
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v)) return 0;
    if (!json_is_boolean(v)) return err_set(err, "\"%s\" must be true or false", key);
    *out = json_is_true(v);
    return 0;
}

static int get_object(const json_t *o, const char *key, const json_t **out, struct err *err) {
    *out = json_object_get(o, key);
    if (*out && !json_is_null(*out) && !json_is_object(*out))
        return err_set(err, "\"%s\" must be an object", key);
    return 0;
}

static int get_array(const json_t *o, const char *key, const json_t **out, struct err *err) {
    *out = json_object_get(o, key);
    if (*out && !json_is_null(*out) && !json_is_array(*out))
        return err_set(err, "\"%s\" must be a list", key);
    return 0;
}

/* ---- requests */
static int parse_load(struct protocol_request *r, struct err *err) {
    int64_t threads = 0, context = 0;
    if (get_str(r->root, "model", &r->load.model, err) < 0 ||
        get_str(r->root, "weights", &r->load.weights, err) < 0 ||
        get_str(r->root, "assume", &r->load.assume, err) < 0 ||
        get_str(r->root, "dtype", &r->load.dtype, err) < 0 ||
        get_str(r->root, "device", &r->load.device, err) < 0 ||
        get_str(r->root, "kv_dtype", &r->load.kv_dtype, err) < 0 ||
        get_str(r->root, "decode", &r->load.decode, err) < 0 ||
        get_int(r->root, "threads", 0, 256, &threads, err) < 0 ||
        get_bool(r->root, "exact", &r->load.exact, err) < 0 ||
        get_int(r->root, "max_context", 0, 1 << 24, &context, err) < 0)
        return -1;
    r->load.threads = (int)threads;
    r->load.max_context = (int)context;
    return 0;
}

static int parse_sampling(struct protocol_request *r, struct err *err) {
    const json_t *s;
    int64_t top_k = 0, seed = 0, ngram = ENGINE_MODEL_NGRAM, window = 0;
    if (get_object(r->root, "sampling", &s, err) < 0) return -1;
    r->infer.sampling.top_p = 1;
    if (get_num(s, "temperature", 0, 1e3, &r->infer.sampling.temperature, err) < 0 ||
        get_num(s, "top_p", 0, 1, &r->infer.sampling.top_p, err) < 0 ||
        get_int(s, "top_k", 0, INT32_MAX, &top_k, err) < 0 ||
        get_int(s, "seed", 0, INT64_MAX, &seed, err) < 0 ||
        get_int(s, "no_repeat_ngram", 0, 1 << 20, &ngram, err) < 0 ||
        get_int(s, "ngram_window", 0, 1 << 24, &window, err) < 0)
        return -1;
    r->infer.sampling.top_k = (uint32_t)top_k;
    r->infer.sampling.seed = (uint64_t)seed;
    r->infer.no_repeat_ngram = (int)ngram;
    r->infer.ngram_window = (uint32_t)window;
    return 0;
}

static int parse_ids(const json_t *ids, const char *name, struct token_ids *out, struct err *err) {
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= UINT32_MAX)
            return err_set(err, "%s[%zu] must be a token id", name, i);
        vec_push(out, (uint32_t)json_integer_value(id));
    }
    return 0;
}

static int parse_batch(struct protocol_request *r, const json_t *ids, struct err *err) {
    size_t n = json_array_size(ids);
    if (n > ENGINE_MAX_BATCH)
        return err_set(err, "a batch of %zu sequences: this engine runs at most %d", n, ENGINE_MAX_BATCH);
    r->batch = xcalloc(n, sizeof *r->batch);
    r->infer.batch = r->batch;
    r->infer.nbatch = n;
    for (size_t i = 0; i < n; i++) {
        char name[48];
        snprintf(name, sizeof name, "\"prompt_ids\"[%zu]", i);
        if (!json_is_array(json_array_get(ids, i)))
            return err_set(err, "%s must be a list of token ids, like the first one", name);
        if (parse_ids(json_array_get(ids, i), name, &r->batch[i], err) < 0) return -1;
    }
    return 0;
}

static int parse_prompt(struct protocol_request *r, struct err *err) {
    const json_t *text = json_object_get(r->root, "prompt"), *ids;
    if (text && !json_is_null(text)) {
        if (!json_is_string(text)) return err_set(err, "\"prompt\" must be a string");
        r->infer.prompt = json_string_value(text);
        r->infer.prompt_len = json_string_length(text);
    }
    if (get_array(r->root, "prompt_ids", &ids, err) < 0) return -1;
    if (json_is_array(json_array_get(ids, 0))) return parse_batch(r, ids, err);
    if (parse_ids(ids, "\"prompt_ids\"", &r->ids, err) < 0) return -1;
    r->infer.ids = r->ids.v;
    r->infer.nids = r->ids.n;
    return 0;
}

static int parse_inputs(struct protocol_request *r, struct err *err) {
    const json_t *inputs, *image;
    int64_t tiles = 0, base = 0, side = 0;
    bool crop = false;
    if (get_array(r->root, "inputs", &inputs, err) < 0 || get_object(r->root, "image", &image, err) < 0)
        return -1;
    r->images = xcalloc(json_array_size(inputs) + 1, sizeof *r->images);
    for (size_t i = 0; i < json_array_size(inputs); i++) {
        r->images[i] = json_string_value(json_array_get(inputs, i));
        if (!r->images[i]) return err_set(err, "\"inputs\"[%zu] must be the path of an image", i);
    }
    r->infer.images = r->images;
    r->infer.nimages = json_array_size(inputs);
    if (get_str(image, "mode", &r->infer.image_mode, err) < 0 ||
        get_int(image, "max_tiles", 0, 64, &tiles, err) < 0 ||
        get_int(image, "base_size", 64, 4096, &base, err) < 0 ||
        get_int(image, "image_size", 64, 4096, &side, err) < 0 ||
        get_bool(image, "crop_mode", &crop, err) < 0)
        return -1;
    r->infer.max_tiles = (int)tiles;
    r->infer.base_size = (int)base;
    r->infer.image_size = (int)side;
    if (json_is_boolean(json_object_get(image, "crop_mode"))) r->infer.crop = crop ? 1 : -1;
    return 0;
}

static int parse_detail(struct protocol_request *r, struct err *err) {
    const char *detail = "none";
    bool shapes = true;
    if (get_str(r->root, "detail", &detail, err) < 0 || get_str(r->root, "trace", &r->infer.trace, err) < 0 ||
        get_bool(r->root, "record_shapes", &shapes, err) < 0 ||
        get_bool(r->root, "profile_memory", &r->infer.memory, err) < 0)
        return -1;
    r->infer.no_shapes = !shapes;
    for (size_t i = 0; i < COUNTOF(detail_names); i++)
        if (strcmp(detail, detail_names[i]) == 0) {
            r->infer.detail = (enum record_detail)i;
            if (i != RECORD_NONE && !r->infer.trace && !getenv("NVTX_INJECTION64_PATH"))
                return err_set(err, "\"detail\" is \"%s\", but \"trace\" names no file for the records",
                               detail);
            return 0;
        }
    return err_set(err, "\"detail\" must be none, stages, modules or operators, not \"%s\"", detail);
}

static int parse_infer(struct protocol_request *r, struct err *err) {
    int64_t max_new = 128, rounds = 1;
    if (get_int(r->root, "max_new_tokens", 1, 1 << 24, &max_new, err) < 0 ||
        get_int(r->root, "rounds", 0, 1 << 20, &rounds, err) < 0 ||
        get_bool(r->root, "ignore_eos", &r->infer.ignore_eos, err) < 0)
        return -1;
    r->infer.max_new_tokens = (uint32_t)max_new;
    r->rounds = (uint32_t)rounds;
    if (parse_prompt(r, err) < 0 || parse_inputs(r, err) < 0 || parse_sampling(r, err) < 0) return -1;
    return parse_detail(r, err);
}

static int find_op(struct protocol_request *r, struct err *err) {
    struct suggest near;
    suggest_start(&near, r->op_name);
    for (size_t i = 0; i < COUNTOF(op_names); i++) {
        if (strcmp(r->op_name, op_names[i]) == 0) {
            r->op = (enum protocol_op)i;
            return 0;
        }
        suggest_try(&near, op_names[i]);
    }
    if (near.best) return err_set(err, "unknown op \"%.64s\"; did you mean \"%s\"?", r->op_name, near.best);
    return err_set(err, "unknown op \"%.64s\"; expected hello, load, warmup, infer or bye", r->op_name);
}

int protocol_request_parse(struct protocol_request *r, const char *line, size_t n, struct err *err) {
    *r = (struct protocol_request){ .rounds = 1 };
    r->root = jsonr_load_text(line, n, "request", err);
    if (!r->root) return -1;
    if (!json_is_object(r->root))
        return err_set(err, "request: expected an object such as {\"op\":\"hello\"}");
    r->id = json_object_get(r->root, "id");
    r->op_name = json_string_value(json_object_get(r->root, "op"));
    if (!r->op_name)
        return err_set(err, "request: \"op\" is missing; expected hello, load, warmup, infer or bye");
    if (find_op(r, err) < 0) return -1;
    if (r->op == PROTOCOL_LOAD) return parse_load(r, err);
    if (r->op == PROTOCOL_INFER || r->op == PROTOCOL_WARMUP) return parse_infer(r, err);
    return 0;
}

void protocol_request_free(struct protocol_request *r) {
    json_decref(r->root);
    free(r->ids.v);
    for (size_t i = 0; r->batch && i < r->infer.nbatch; i++) free(r->batch[i].v);
    free(r->batch);
    free(r->images);
}
