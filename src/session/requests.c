#include "session/requests.h"

#include <string.h>

static json_t *to_json(const struct conf_node *n) {
    json_t *out;
    bool b;
    int64_t i;
    double d;
    switch (n->kind) {
    case CONF_MAP:
        out = json_object();
        for (size_t k = 0; k < n->n; k++) json_object_set_new(out, n->v[k]->key, to_json(n->v[k]));
        return out;
    case CONF_LIST:
        out = json_array();
        for (size_t k = 0; k < n->n; k++) json_array_append_new(out, to_json(n->v[k]));
        return out;
    case CONF_SCALAR: break;
    }
    if (conf_is_null(n)) return json_null();
    if (conf_as_bool(n, &b)) return json_boolean(b);
    if (conf_as_int(n, &i)) return json_integer(i);
    if (conf_as_num(n, &d)) return json_real(d);
    return json_string(n->text);
}

/* Fields from the configuration come last, so they override other fields. */
static json_t *with_extra(json_t *request, const struct conf_node *extra) {
    json_t *more = extra ? to_json(extra) : NULL;
    if (more) json_object_update(request, more);
    json_decref(more);
    return request;
}

static void set_text(json_t *o, const char *key, const char *text) {
    if (text) json_object_set_new(o, key, json_string(text));
}

static void set_int(json_t *o, const char *key, int64_t v) { json_object_set_new(o, key, json_integer(v)); }

json_t *request_load(const struct settings *s, const char *device) {
    json_t *r = json_object();
    set_text(r, "op", "load");
    set_text(r, "model", s->model.path);
    set_text(r, "weights", s->model.weights);
    if (s->model.assume) set_text(r, "assume", s->model.assume);
    set_text(r, "dtype", s->model.dtype);
    set_text(r, "device", device);
    set_int(r, "threads", s->engine.threads);
    if (s->engine.exact) json_object_set_new(r, "exact", json_true());
    if (s->engine.decode && strcmp(s->engine.decode, "auto") != 0) set_text(r, "decode", s->engine.decode);
    set_int(r, "max_context", s->engine.max_context);
    if (s->model.stages) json_object_set_new(r, "stages", to_json(s->model.stages));
    return with_extra(r, s->engine.load);
}

static json_t *sampling_json(const struct settings *s) {
    json_t *o = json_object();
    bool on = s->infer.do_sample;
    json_object_set_new(o, "temperature", json_real(on ? s->infer.temperature : 0));
    json_object_set_new(o, "top_p", json_real(on ? s->infer.top_p : 1));
    set_int(o, "top_k", on ? s->infer.top_k : 0);
    set_int(o, "seed", s->infer.seed);
    set_int(o, "no_repeat_ngram", s->infer.no_repeat_ngram_size);
    set_int(o, "ngram_window", s->infer.ngram_window);
    return o;
}

static json_t *image_json(const struct settings *s) {
    json_t *o = json_object();
    set_text(o, "mode", s->model.preprocess.mode);
    if (s->model.preprocess.max_tiles > 0) set_int(o, "max_tiles", s->model.preprocess.max_tiles);
    if (s->model.preprocess.base_size > 0) set_int(o, "base_size", s->model.preprocess.base_size);
    if (s->model.preprocess.image_size > 0) set_int(o, "image_size", s->model.preprocess.image_size);
    const char *crop = s->model.preprocess.crop_mode;
    if (crop) json_object_set_new(o, "crop_mode", json_boolean(strcmp(crop, "true") == 0));
    return o;
}

json_t *request_infer(const struct settings *s, const struct dataset_item *item, int64_t max_new_tokens,
                      const char *detail, const char *trace) {
    json_t *r = json_object(), *inputs = json_array();
    set_text(r, "op", "infer");
    if (item->prompt_ids)
        json_object_set_new(r, "prompt_ids", json_loads(item->prompt_ids, 0, NULL));
    else
        set_text(r, "prompt", item->prompt ? item->prompt : s->prompt);
    if (item->path) json_array_append_new(inputs, json_string(item->path));
    json_object_set_new(r, "inputs", inputs);
    set_int(r, "max_new_tokens", max_new_tokens);
    json_object_set_new(r, "ignore_eos", json_boolean(s->infer.ignore_eos));
    json_object_set_new(r, "sampling", sampling_json(s));
    json_object_set_new(r, "image", image_json(s));
    set_text(r, "detail", detail);
    set_text(r, "trace", trace);
    if (trace) {
        json_object_set_new(r, "record_shapes", json_boolean(s->profiling.record_shapes));
        if (s->profiling.profile_memory) json_object_set_new(r, "profile_memory", json_true());
        if (s->profiling.with_stack) json_object_set_new(r, "with_stack", json_true());
    }
    return with_extra(r, s->engine.infer);
}

json_t *request_warmup(const struct settings *s, const struct dataset_item *item, int64_t rounds) {
    json_t *r = request_infer(
        s, item, item->max_new_tokens > 0 ? item->max_new_tokens : s->infer.max_new_tokens, "none", NULL);
    set_text(r, "op", "warmup");
    set_int(r, "rounds", rounds);
    return r;
}
