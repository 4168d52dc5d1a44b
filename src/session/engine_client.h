/* A running engine with its model loaded. Requests are JSON objects (docs/engine.md). The client numbers
 * them, enforces time limits and classifies failures.
 *     struct engine_client *c = engine_client_open(&options, &info, &err);    -- started, hello and load done
 *     switch (engine_client_infer(c, request, &answer, &err)) ...
 *     engine_client_close(c);                                                 -- sends bye; accepts NULL */
#ifndef SESSION_ENGINE_CLIENT_H
#define SESSION_ENGINE_CLIENT_H

#include <jansson.h>
#include <sys/types.h>

#include "base/err.h"
#include "session/engine_reply.h"

enum engine_result {
    ENGINE_OK,
    ENGINE_NO,      /* the engine replied with an error and is still usable */
    ENGINE_BROKEN,  /* died, timed out or sent an invalid reply: close and open again */
    ENGINE_STOPPED, /* interrupted (interrupt.h) while waiting: close */
};

struct engine_client_options {
    char *const *argv;
    const char *const *set; /* environment, see engine_proc.h */
    const json_t *load;     /* the load request */
    double start_limit_s, load_limit_s, request_limit_s;
    void (*tick)(void *ctx);
    void *tick_ctx;
};

struct engine_client;
struct engine_client *engine_client_open(const struct engine_client_options *o, struct engine_info *info,
                                         struct err *err);
enum engine_result engine_client_infer(struct engine_client *c, json_t *request, struct engine_answer *out,
                                       struct err *err);
enum engine_result engine_client_warmup(struct engine_client *c, json_t *request, double *ms,
                                        struct err *err);
pid_t engine_client_pid(const struct engine_client *c); /* 0: it is not running */
void engine_client_close(struct engine_client *c);

#endif
