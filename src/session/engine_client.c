#include "session/engine_client.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "session/engine_proc.h"

/* Time limit for the reply to "bye", and for the exit after it. The collector writes its last records
 * before the exit. */
#define BYE_LIMIT_S 20.0

struct engine_client {
    struct engine_proc *proc; /* NULL: broken */
    struct engine_client_options options;
    uint64_t next_id;
};

/* Stops the process and sets err to the failure and the last line of its stderr. */
static enum engine_result engine_failed(struct engine_client *c, const char *what, double grace_s,
                                        struct err *err) {
    struct strbuf how = STRBUF_INIT, words = STRBUF_INIT;
    strbuf_addstr(&words, engine_proc_last_words(c->proc));
    const char *last = strrchr(words.buf, '\n');
    engine_proc_stop(c->proc, grace_s, &how);
    c->proc = NULL;
    if (words.len)
        err_set(err, "the engine %s (%s); last line of its stderr: %s", what, how.buf,
                last ? last + 1 : words.buf);
    else
        err_set(err, "the engine %s (%s)", what, how.buf);
    strbuf_free(&how);
    strbuf_free(&words);
    return ENGINE_BROKEN;
}

/* Sends a request with a new id, returned in *id. Appends the reply line to `reply`. */
static enum engine_result talk(struct engine_client *c, json_t *request, double limit_s, uint64_t *id,
                               struct strbuf *reply, struct err *err) {
    if (!c->proc) {
        err_set(err, "the engine is not running");
        return ENGINE_BROKEN;
    }
    *id = c->next_id++;
    json_object_set_new(request, "id", json_integer((json_int_t)*id));
    char *text = json_dumps(request, JSON_COMPACT), what[96];
    if (!text) die("cannot encode a request to the engine as JSON");
    char *line = xasprintf("%s\n", text);
    free(text);
    enum engine_io io = engine_proc_exchange(c->proc, line, strlen(line), limit_s, reply);
    free(line);
    switch (io) {
    case ENGINE_IO_LINE: return ENGINE_OK;
    case ENGINE_IO_ENDED: return engine_failed(c, "died", 0.5, err);
    case ENGINE_IO_TOO_LONG: return engine_failed(c, "sent a line of more than 16 MiB", 0, err);
    case ENGINE_IO_TIMEOUT:
        snprintf(what, sizeof what, "did not answer within %g s and was stopped", limit_s);
        return engine_failed(c, what, 0, err);
    case ENGINE_IO_INTERRUPTED: break;
    }
    err_set(err, "interrupted");
    return ENGINE_STOPPED;
}

/* After an invalid reply, replies and requests may no longer match, so the engine is stopped. */
static enum engine_result judge(struct engine_client *c, enum engine_verdict v, struct err *err) {
    if (v == ENGINE_GOOD) return ENGINE_OK;
    if (v == ENGINE_REFUSED) return ENGINE_NO;
    struct err ignored;
    engine_failed(c, "was stopped", 0, &ignored);
    (void)err; /* err already describes the invalid reply */
    return ENGINE_BROKEN;
}

static enum engine_result request_info(struct engine_client *c, const json_t *template, const char *op,
                                       double limit_s, struct engine_info *info, struct err *err) {
    json_t *request = template ? json_copy((json_t *)template) : json_object();
    struct strbuf reply = STRBUF_INIT;
    uint64_t id;
    json_object_set_new(request, "op", json_string(op));
    enum engine_result r = talk(c, request, limit_s, &id, &reply, err);
    if (r == ENGINE_OK) r = judge(c, engine_reply_info(reply.buf, reply.len, op, id, info, err), err);
    json_decref(request);
    strbuf_free(&reply);
    return r;
}

struct engine_client *engine_client_open(const struct engine_client_options *o, struct engine_info *info,
                                         struct err *err) {
    struct engine_client *c = xcalloc(1, sizeof *c);
    c->options = *o;
    c->next_id = 1;
    c->proc = engine_proc_start(o->argv, o->set, err);
    if (c->proc) {
        engine_proc_on_wait(c->proc, o->tick, o->tick_ctx);
        struct engine_info hello;
        if (request_info(c, NULL, "hello", o->start_limit_s, &hello, err) == ENGINE_OK) {
            engine_info_free(&hello);
            if (request_info(c, o->load, "load", o->load_limit_s, info, err) == ENGINE_OK) return c;
            err_wrap(err, "loading the model");
        } else {
            err_wrap(err, "starting the engine");
        }
    }
    engine_client_close(c);
    return NULL;
}

enum engine_result engine_client_infer(struct engine_client *c, json_t *request, struct engine_answer *out,
                                       struct err *err) {
    struct strbuf reply = STRBUF_INIT;
    uint64_t id;
    json_object_set_new(request, "op", json_string("infer"));
    enum engine_result r = talk(c, request, c->options.request_limit_s, &id, &reply, err);
    if (r == ENGINE_OK) r = judge(c, engine_reply_infer(reply.buf, reply.len, id, out, err), err);
    strbuf_free(&reply);
    return r;
}

enum engine_result engine_client_warmup(struct engine_client *c, json_t *request, double *ms,
                                        struct err *err) {
    struct strbuf reply = STRBUF_INIT;
    uint64_t id;
    json_object_set_new(request, "op", json_string("warmup"));
    double rounds = json_number_value(json_object_get(request, "rounds"));
    double limit_s = c->options.request_limit_s * (rounds > 1 ? rounds : 1);
    enum engine_result r = talk(c, request, limit_s, &id, &reply, err);
    if (r == ENGINE_OK) r = judge(c, engine_reply_warmup(reply.buf, reply.len, id, ms, err), err);
    strbuf_free(&reply);
    return r;
}

pid_t engine_client_pid(const struct engine_client *c) { return c && c->proc ? engine_proc_pid(c->proc) : 0; }

void engine_client_close(struct engine_client *c) {
    if (!c) return;
    if (c->proc) {
        static const char bye[] = "{\"op\":\"bye\"}\n";
        struct strbuf reply = STRBUF_INIT, how = STRBUF_INIT;
        bool polite = !interrupt_signal();
        if (polite) engine_proc_exchange(c->proc, bye, sizeof bye - 1, BYE_LIMIT_S, &reply);
        engine_proc_stop(c->proc, polite ? BYE_LIMIT_S : 0, &how);
        log_debug("engine ended: %s", how.buf);
        strbuf_free(&reply);
        strbuf_free(&how);
    }
    free(c);
}
