#include "session/engine_reply.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/jsonr.h"
#include "base/strbuf.h"
#include "base/vec.h"

#define MAX_STAGES 256u
#define MAX_NOTES 16u

/* Adds text of the engine to a message, as one printable line of limited length. */
static void add_short(struct strbuf *out, const char *text, size_t n) {
    size_t cut = n > 160 ? 160 : n;
    strbuf_add_printable(out, text, cut);
    if (cut < n) strbuf_addstr(out, "...");
}

static enum engine_verdict invalid_reply(const char *line, size_t n, struct err *err, const char *why) {
    struct strbuf shown = STRBUF_INIT;
    add_short(&shown, line, n);
    err_set(err, "invalid reply of the engine: %s: %s", why, shown.buf);
    strbuf_free(&shown);
    return ENGINE_GARBAGE;
}

/* Parses the reply to this request. Returns NULL if the reply is an error or not valid; *verdict and err then
 * have the reason. */
static json_t *open_reply(const char *line, size_t n, const char *op, uint64_t id,
                          enum engine_verdict *verdict, struct err *err) {
    struct err why;
    json_t *root = jsonr_load_text_with_nul(line, n, "reply", &why);
    *verdict = ENGINE_GARBAGE;
    if (!root || !json_is_object(root)) {
        *verdict = invalid_reply(line, n, err, n && line[0] == '{' ? why.msg : "not a JSON object");
        json_decref(root);
        return NULL;
    }
    const json_t *error = json_object_get(root, "error"), *their_op = json_object_get(root, "op"),
                 *their_id = json_object_get(root, "id");
    if (json_is_string(error)) {
        struct strbuf text = STRBUF_INIT;
        strbuf_add_printable(&text, json_string_value(error), strlen(json_string_value(error)));
        err_set(err, "error from the engine: %s", text.buf);
        strbuf_free(&text);
        *verdict = ENGINE_REFUSED;
    } else if (!json_is_string(their_op) || strcmp(json_string_value(their_op), op) != 0) {
        *verdict = invalid_reply(line, n, err, "answers another request (op)");
    } else if (json_is_integer(their_id) && (uint64_t)json_integer_value(their_id) != id) {
        *verdict = invalid_reply(line, n, err, "answers another request (id)");
    } else {
        *verdict = ENGINE_GOOD;
        return root;
    }
    json_decref(root);
    return NULL;
}

/* A model can generate NUL characters, which C strings cannot hold: they are shown as U+FFFD. */
static char *text_of(const json_t *object, const char *key) {
    const json_t *v = json_object_get(object, key);
    struct strbuf out = STRBUF_INIT;
    if (!json_is_string(v)) return NULL;
    const char *text = json_string_value(v);
    for (size_t i = 0, n = json_string_length(v); i < n; i++)
        text[i] ? strbuf_addch(&out, text[i]) : strbuf_addstr(&out, "\xef\xbf\xbd");
    return strbuf_detach(&out);
}

/* Returns NaN if the value is missing, null, or not valid as a time or count. */
static double number_of(const json_t *object, const char *key) {
    const json_t *v = json_object_get(object, key);
    double d = json_is_number(v) ? json_number_value(v) : NAN;
    return isfinite(d) && d >= 0 ? d : NAN;
}

static void read_model(const json_t *model, struct engine_info *out) {
    out->model_name = text_of(model, "name");
    out->architecture = text_of(model, "architecture");
    out->model_path = text_of(model, "path");
    out->weights = text_of(model, "weights");
    out->dtype = text_of(model, "dtype");
    out->parameters = number_of(model, "parameters");
    out->weight_bytes = number_of(model, "weight_bytes");
    out->layers = number_of(model, "layers");
    out->max_context = number_of(model, "max_context");
    out->vision = json_is_true(json_object_get(model, "vision"));
    out->model_json = json_is_object(model) ? json_dumps(model, JSON_COMPACT) : NULL;
}

enum engine_verdict engine_reply_info(const char *line, size_t n, const char *op, uint64_t id,
                                      struct engine_info *out, struct err *err) {
    enum engine_verdict verdict;
    json_t *root = open_reply(line, n, op, id, &verdict, err);
    if (!root) return verdict;
    const json_t *protocol = json_object_get(root, "protocol"), *stages = json_object_get(root, "stages"), *s;
    size_t i;
    if (json_is_integer(protocol) && json_integer_value(protocol) != 1) {
        err_set(err, "the engine uses protocol %lld, this inferprof supports 1",
                (long long)json_integer_value(protocol));
        json_decref(root);
        return ENGINE_GARBAGE;
    }
    *out = (struct engine_info){ .name = text_of(root, "name"),
                                 .version = text_of(root, "version"),
                                 .device = text_of(root, "device"),
                                 .isa = text_of(root, "isa"),
                                 .threads = number_of(root, "threads"),
                                 .load_ms = number_of(root, "load_ms"),
                                 .max_batch = number_of(root, "max_batch") };
    if (!(out->max_batch >= 1)) out->max_batch = 1;
    read_model(json_object_get(root, "model"), out);
    json_array_foreach(stages, i, s) {
        if (json_is_string(s) && out->stages.n < MAX_STAGES)
            vec_push(&out->stages, xstrdup(json_string_value(s)));
    }
    json_decref(root);
    return ENGINE_GOOD;
}

void engine_info_free(struct engine_info *i) {
    char *texts[] = { i->name,         i->version,    i->device,  i->isa,   i->model_name,
                      i->architecture, i->model_path, i->weights, i->dtype, i->model_json };
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) free(texts[k]);
    for (size_t k = 0; k < i->stages.n; k++) free(i->stages.v[k]);
    free(i->stages.v);
    *i = (struct engine_info){ 0 };
}

static void read_lists(json_t *root, struct engine_answer *out) {
    const json_t *stages = json_object_get(root, "stages"), *v;
    const char *key;
    size_t i;
    json_object_foreach((json_t *)stages, key, v) {
        double ms = json_is_number(v) && json_number_value(v) >= 0 ? json_number_value(v) : NAN;
        if (out->stages.n < MAX_STAGES && key[0])
            vec_push(&out->stages, ((struct engine_stage_ms){ xstrdup(key), ms }));
    }
    json_array_foreach(json_object_get(root, "token_ms"), i, v) {
        vec_push(&out->token_ms, json_is_number(v) && json_number_value(v) >= 0 ? json_number_value(v) : NAN);
    }
    json_array_foreach(json_object_get(root, "notes"), i, v) {
        if (json_is_string(v) && out->notes.n < MAX_NOTES)
            vec_push(&out->notes, xstrdup(json_string_value(v)));
    }
    json_array_foreach(json_object_get(root, "ids"), i, v) {
        if (json_is_integer(v)) vec_push(&out->ids, json_integer_value(v));
    }
}

/* Reads the kind of each column of "points" after the time, and returns the number of kinds (at most `cap`).
 * TRACE_MEMORY_KIND_END: the name is unknown and the column is ignored. */
static size_t read_memory_kinds(const json_t *memory, unsigned *kinds, size_t cap) {
    static const char *const names[] = { [TRACE_MEMORY_OTHER] = "other",
                                         [TRACE_MEMORY_WEIGHTS] = "weights",
                                         [TRACE_MEMORY_KV_CACHE] = "kv_cache",
                                         [TRACE_MEMORY_ACTIVATIONS] = "activations",
                                         [TRACE_MEMORY_WORKSPACE] = "workspace" };
    const json_t *list = json_object_get(memory, "kinds");
    size_t n = json_array_size(list) < cap ? json_array_size(list) : cap;
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        kinds[i] = 0;
        while (kinds[i] < TRACE_MEMORY_KIND_END && (!name || strcmp(names[kinds[i]], name) != 0)) kinds[i]++;
    }
    return n;
}

#define MAX_MEMORY_POINTS 100000u
#define MAX_MEMORY_COLUMNS 16u

/* "memory": { "device": 0, "kinds": ["weights", ...], "points": [[unix time in ns, bytes, ...], ...] }, or
 * "note" with the reason why there are no points. */
static void read_memory(const json_t *memory, struct engine_answer *out) {
    unsigned kinds[MAX_MEMORY_COLUMNS];
    const json_t *note = json_object_get(memory, "note"), *point;
    size_t n = read_memory_kinds(memory, kinds, MAX_MEMORY_COLUMNS), i;
    if (json_is_string(note) && out->notes.n < MAX_NOTES)
        vec_push(&out->notes, xstrdup(json_string_value(note)));
    double device = number_of(memory, "device");
    out->memory.device = device >= 0 && device < 1024 ? (uint32_t)device : 0;
    json_array_foreach(json_object_get(memory, "points"), i, point) {
        const json_t *time = json_array_get(point, 0);
        if (!json_is_integer(time) || json_integer_value(time) < 0 || out->memory.n >= MAX_MEMORY_POINTS)
            continue;
        struct engine_memory_point p = { .time_ns = (uint64_t)json_integer_value(time) };
        for (size_t k = 0; k < n; k++) {
            double bytes = json_number_value(json_array_get(point, k + 1));
            if (kinds[k] < TRACE_MEMORY_KIND_END && bytes >= 0 && bytes < 1e18) p.bytes[kinds[k]] += bytes;
        }
        vec_push(&out->memory, p);
    }
}

enum engine_verdict engine_reply_infer(const char *line, size_t n, uint64_t id, struct engine_answer *out,
                                       struct err *err) {
    enum engine_verdict verdict;
    json_t *root = open_reply(line, n, "infer", id, &verdict, err);
    if (!root) return verdict;
    const json_t *stages = json_object_get(root, "stages");
    if (!json_is_number(json_object_get(root, "new_tokens")) ||
        (stages && !json_is_object(stages) && !json_is_null(stages))) {
        json_decref(root);
        return invalid_reply(line, n, err, stages ? "no new_tokens, or invalid stages" : "no new_tokens");
    }
    *out = (struct engine_answer){
        .preprocess_ms = number_of(root, "preprocess_ms"),
        .prefill_ms = number_of(root, "prefill_ms"),
        .decode_ms = number_of(root, "decode_ms"),
        .ttft_ms = number_of(root, "ttft_ms"),
        .prompt_tokens = number_of(root, "prompt_tokens"),
        .new_tokens = number_of(root, "new_tokens"),
        .batch = number_of(root, "batch"),
        .peak_memory_bytes = number_of(root, "peak_memory_bytes"),
        .prefill_experts = number_of(json_object_get(root, "experts_read"), "prefill"),
        .decode_experts = number_of(json_object_get(root, "experts_read"), "decode"),
        .text = text_of(root, "text"),
        .stop = text_of(root, "stop"),
    };
    if (!(out->batch >= 1)) out->batch = 1;
    read_lists(root, out);
    read_memory(json_object_get(root, "memory"), out);
    json_decref(root);
    return ENGINE_GOOD;
}

void engine_answer_free(struct engine_answer *a) {
    for (size_t i = 0; i < a->stages.n; i++) free(a->stages.v[i].name);
    free(a->stages.v);
    for (size_t i = 0; i < a->notes.n; i++) free(a->notes.v[i]);
    free(a->notes.v);
    free(a->memory.v);
    free(a->token_ms.v);
    free(a->ids.v);
    free(a->text);
    free(a->stop);
    *a = (struct engine_answer){ 0 };
}

enum engine_verdict engine_reply_warmup(const char *line, size_t n, uint64_t id, double *ms,
                                        struct err *err) {
    enum engine_verdict verdict;
    json_t *root = open_reply(line, n, "warmup", id, &verdict, err);
    if (!root) return verdict;
    *ms = number_of(root, "ms");
    json_decref(root);
    return ENGINE_GOOD;
}
