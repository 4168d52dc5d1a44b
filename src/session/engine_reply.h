/* Parses and checks replies of engines; docs/engine.md defines the protocol. Invalid lines are errors; times
 * that were not measured are NaN. */
#ifndef SESSION_ENGINE_REPLY_H
#define SESSION_ENGINE_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/format.h"

struct engine_stage_ms {
    char *name;
    double ms;
};

/* Reply to hello and load. Texts may be NULL; numbers are NaN if unknown. */
struct engine_info {
    char *name, *version, *device, *isa;
    double threads, load_ms;
    double max_batch; /* maximum sequences per request; 1: the engine does not support batches */
    char *model_name, *architecture, *model_path, *weights, *dtype;
    double parameters, weight_bytes, layers, max_context;
    bool vision;
    struct {
        char **v;
        size_t n, cap;
    } stages;
    char *model_json; /* "model" of the reply, as JSON text; NULL: none */
};

/* Reply to infer. */
struct engine_answer {
    double preprocess_ms, prefill_ms, decode_ms, ttft_ms;
    double prompt_tokens, new_tokens; /* sum over all sequences */
    double batch;                     /* parallel sequences (default: 1) */
    double peak_memory_bytes;         /* of the device */
    /* Number of different experts per routed layer and pass, counted by the engine; NaN: not reported. */
    double prefill_experts, decode_experts;
    struct {
        struct engine_stage_ms *v;
        size_t n, cap;
    } stages; /* inside prefill */
    struct {
        double *v;
        size_t n, cap;
    } token_ms;
    struct {
        int64_t *v;
        size_t n, cap;
    } ids;
    struct {
        char **v;
        size_t n, cap;
    } notes; /* messages of the engine about this request */
    /* device memory over time, if profile_memory was requested */
    struct {
        struct engine_memory_point {
            uint64_t time_ns; /* unix time */
            double bytes[TRACE_MEMORY_KIND_END];
        } * v;
        size_t n, cap;
        uint32_t device;
    } memory;
    char *text, *stop;
};

enum engine_verdict {
    ENGINE_GOOD,
    ENGINE_REFUSED, /* {"error": ...}: err has the text; the engine is usable */
    ENGINE_GARBAGE, /* violates the protocol: see err */
};

/* `op` and `id` are those of the request. `out` is only filled on success; the caller then frees it. */
enum engine_verdict engine_reply_info(const char *line, size_t n, const char *op, uint64_t id,
                                      struct engine_info *out, struct err *err);
enum engine_verdict engine_reply_infer(const char *line, size_t n, uint64_t id, struct engine_answer *out,
                                       struct err *err);
enum engine_verdict engine_reply_warmup(const char *line, size_t n, uint64_t id, double *ms, struct err *err);
void engine_info_free(struct engine_info *i);
void engine_answer_free(struct engine_answer *a);

#endif
