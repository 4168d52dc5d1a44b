#include "engine/protocol/protocol.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/alloc_guard.h"
#include "base/die.h"
#include "base/jsonw.h"

struct protocol {
    const char *version;
    engine_progress *progress;
    struct engine *engine; /* NULL: nothing loaded */
    struct {
        struct engine_result *v; /* [n] */
        size_t n;
    } results;    /* results of the request that is being served */
    int reply_fd; /* file descriptor of the replies, used to detect a closed reader; -1: not used */
};

struct protocol *protocol_open(const char *version, engine_progress *progress) {
    struct protocol *p = xcalloc(1, sizeof *p);
    p->version = version;
    p->progress = progress;
    p->reply_fd = -1;
    return p;
}

void protocol_close(struct protocol *p) {
    if (!p) return;
    engine_close(p->engine);
    free(p);
}

/* ---- replies */
static void begin(struct jsonw *j, struct strbuf *out, const struct protocol_request *r) {
    jsonw_start(j, out, JSONW_COMPACT);
    jsonw_object(j);
    jsonw_kstr(j, "op", r->op_name);
}

/* Ends the object. If the request has an id, the id is the last field, unchanged. */
static void end(struct jsonw *j, struct strbuf *out, const struct protocol_request *r) {
    jsonw_end(j);
    jsonw_finish(j);
    if (!r->id) return;
    char *id = json_dumps(r->id, JSON_ENCODE_ANY | JSON_COMPACT);
    if (!id) return;
    out->buf[--out->len] = '\0'; /* removes the closing brace */
    strbuf_addf(out, ",\"id\":%s}", id);
    free(id);
}

static void reply_error(struct strbuf *out, const struct protocol_request *r, const struct err *err) {
    struct jsonw j;
    strbuf_reset(out);
    begin(&j, out, r);
    jsonw_kstr(&j, "error", err->msg);
    end(&j, out, r);
}

static void reply_hello(const struct protocol *p, struct strbuf *out, const struct protocol_request *r,
                        double load_ms) {
    struct jsonw j;
    const char *stages[8];
    size_t n = p->engine ? engine_stages(p->engine, stages) : 0;
    begin(&j, out, r);
    jsonw_ku64(&j, "protocol", PROTOCOL_VERSION);
    jsonw_kstr(&j, "name", "native");
    jsonw_kstr(&j, "version", p->version);
    jsonw_kstr(&j, "device", engine_device(p->engine));
    jsonw_kstr(&j, "isa", engine_isa(p->engine));
    jsonw_key(&j, "threads");
    if (p->engine)
        jsonw_u64(&j, (uint64_t)engine_threads(p->engine));
    else
        jsonw_null(&j);
    jsonw_ku64(&j, "max_batch", ENGINE_MAX_BATCH);
    if (!isnan(load_ms)) jsonw_knum(&j, "load_ms", load_ms);
    jsonw_key(&j, "model");
    if (p->engine)
        engine_describe(p->engine, &j);
    else
        jsonw_null(&j);
    jsonw_karray(&j, "stages");
    for (size_t i = 0; i < n; i++) jsonw_str(&j, stages[i]);
    jsonw_end(&j);
    end(&j, out, r);
}

static void add_stages(struct jsonw *j, const struct engine_result *v) {
    jsonw_kobject(j, "stages");
    for (size_t i = 0; i < v->nstages; i++) jsonw_knum(j, v->stage[i], v->stage_ms[i]);
    jsonw_end(j);
}

static void add_answer(struct jsonw *j, const struct engine_result *v) {
    jsonw_key(j, "text");
    jsonw_strn(j, v->text.buf, v->text.len);
    jsonw_karray(j, "ids");
    for (size_t i = 0; i < v->ids.n; i++) jsonw_u64(j, v->ids.v[i]);
    jsonw_end(j);
}

static void add_sequences(struct jsonw *j, const struct engine_result *v, size_t n) {
    jsonw_karray(j, "sequences");
    for (size_t i = 0; i < n; i++) {
        jsonw_object(j);
        jsonw_ku64(j, "prompt_tokens", v[i].prompt_tokens);
        jsonw_ku64(j, "new_tokens", v[i].ids.n);
        add_answer(j, &v[i]);
        jsonw_kstr(j, "stop", engine_stop_name(v[i].stop));
        jsonw_end(j);
    }
    jsonw_end(j);
}

/* v[n] has one result per sequence. */
static void reply_infer(struct strbuf *out, const struct protocol_request *r, const struct engine_result *v,
                        size_t n) {
    struct jsonw j;
    size_t prompt_tokens = 0, new_tokens = 0, longest = 0;
    for (size_t i = 0; i < n; i++) {
        prompt_tokens += v[i].prompt_tokens;
        new_tokens += v[i].ids.n;
        if (v[i].ids.n > v[longest].ids.n) longest = i;
    }
    begin(&j, out, r);
    jsonw_knum(&j, "prefill_ms", v->prefill_ms);
    jsonw_knum(&j, "decode_ms", v->decode_ms);
    add_stages(&j, v);
    jsonw_knum(&j, "preprocess_ms", v->preprocess_ms);
    jsonw_ku64(&j, "prompt_tokens", prompt_tokens);
    jsonw_ku64(&j, "new_tokens", new_tokens);
    jsonw_ku64(&j, "batch", n);
    add_answer(&j, v);
    jsonw_karray(&j, "token_ms");
    for (size_t i = 0; i < v[longest].ids.n; i++) jsonw_num(&j, v[longest].token_ms[i]);
    jsonw_end(&j);
    jsonw_knum(&j, "ttft_ms", v->ttft_ms);
    if (isfinite(v->prefill_experts)) {
        jsonw_kobject(&j, "experts_read");
        jsonw_knum(&j, "prefill", v->prefill_experts);
        jsonw_knum(&j, "decode", v->decode_experts);
        jsonw_end(&j);
    }
    jsonw_kstr(&j, "stop", engine_stop_name(v->stop));
    if (r->infer.nbatch) add_sequences(&j, v, n);
    end(&j, out, r);
}

/* ---- requests */
static int do_load(struct protocol *p, const struct protocol_request *r, struct strbuf *out,
                   struct err *err) {
    uint64_t start = clock_mono_ns();
    struct engine_load load = r->load;
    load.progress = p->progress;
    engine_close(p->engine);
    p->engine = NULL;
    p->engine = engine_open(&load, err);
    if (!p->engine) return -1;
    reply_hello(p, out, r, (double)(clock_mono_ns() - start) / 1e6);
    return 0;
}

/* poll() detects a closed pipe or socket without writing to it. */
static bool has_reader(void *context) {
    struct pollfd f = { .fd = ((const struct protocol *)context)->reply_fd };
    return poll(&f, 1, 0) <= 0 || !(f.revents & (POLLERR | POLLHUP));
}

static struct engine_request with_hooks(struct protocol *p, const struct protocol_request *r) {
    struct engine_request infer = r->infer;
    infer.progress = p->progress;
    infer.wanted = has_reader;
    infer.context = p;
    return infer;
}

static void results_free(struct protocol *p) {
    for (size_t i = 0; i < p->results.n; i++) engine_result_free(&p->results.v[i]);
    free(p->results.v);
    p->results.v = NULL;
    p->results.n = 0;
}

static int infer_once(struct protocol *p, const struct engine_request *infer, struct err *err) {
    p->results.v = xcalloc(infer->nbatch ? infer->nbatch : 1, sizeof *p->results.v);
    if (engine_infer(p->engine, infer, p->results.v, err) < 0) return -1;
    p->results.n = infer->nbatch ? infer->nbatch : 1;
    return 0;
}

static int do_infer(struct protocol *p, const struct protocol_request *r, struct strbuf *out,
                    struct err *err) {
    struct engine_request infer = with_hooks(p, r);
    if (infer_once(p, &infer, err) < 0) return -1;
    reply_infer(out, r, p->results.v, p->results.n);
    return 0;
}

static int do_warmup(struct protocol *p, const struct protocol_request *r, struct strbuf *out,
                     struct err *err) {
    uint64_t start = clock_mono_ns();
    struct engine_request infer = with_hooks(p, r);
    struct jsonw j;
    infer.progress = NULL;
    for (uint32_t i = 0; i < r->rounds; i++) {
        if (infer_once(p, &infer, err) < 0) return -1;
        results_free(p);
    }
    begin(&j, out, r);
    jsonw_ku64(&j, "rounds", r->rounds);
    jsonw_knum(&j, "ms", (double)(clock_mono_ns() - start) / 1e6);
    end(&j, out, r);
    return 0;
}

static int serve_request(struct protocol *p, const struct protocol_request *r, struct strbuf *out,
                         struct err *err) {
    struct jsonw j;
    switch (r->op) {
    case PROTOCOL_HELLO: reply_hello(p, out, r, NAN); return 0;
    case PROTOCOL_LOAD: return do_load(p, r, out, err);
    case PROTOCOL_BYE:
        begin(&j, out, r);
        end(&j, out, r);
        return 0;
    case PROTOCOL_WARMUP:
    case PROTOCOL_INFER: break;
    }
    if (!p->engine) return err_set(err, "no model is loaded: send {\"op\":\"load\"} first");
    return r->op == PROTOCOL_INFER ? do_infer(p, r, out, err) : do_warmup(p, r, out, err);
}

/* A request that is being served. The struct owns the parsed request, so that nothing leaks if memory
 * runs out. */
struct serving {
    struct protocol *p;
    const char *line;
    size_t n;
    struct strbuf *reply;
    struct protocol_request r;
    struct err err;
    int rc;
};

static void serve_line(void *context) {
    struct serving *s = context;
    s->rc = protocol_request_parse(&s->r, s->line, s->n, &s->err);
    if (s->rc == 0) s->rc = serve_request(s->p, &s->r, s->reply, &s->err);
}

bool protocol_line(struct protocol *p, const char *line, size_t n, struct strbuf *reply) {
    struct serving s = { .p = p, .line = line, .n = n, .reply = reply };
    size_t bytes;
    strbuf_reset(reply);
    if (!alloc_guard_run(serve_line, &s, &bytes))
        s.rc = err_set(&s.err, "out of memory, %zu bytes could not be allocated", bytes);
    results_free(p);
    if (s.rc < 0) reply_error(reply, &s.r, &s.err);
    bool more = s.rc < 0 || s.r.op != PROTOCOL_BYE;
    protocol_request_free(&s.r);
    return more;
}

/* Reads a line without its newline. Returns 1, or 0 at the end of input, or -1 if the line is too long. The
 * rest of a long line is skipped. */
static int read_line(FILE *in, struct strbuf *line) {
    int c, rc = 1;
    strbuf_reset(line);
    while ((c = getc_unlocked(in)) != EOF && c != '\n') {
        if (line->len < PROTOCOL_MAX_LINE)
            strbuf_addch(line, (char)c);
        else
            rc = -1;
    }
    return c == EOF && line->len == 0 ? 0 : rc;
}

static bool blank(const struct strbuf *line) { return strspn(line->buf, " \t\r") == line->len; }

int protocol_serve(struct protocol *p, FILE *in, FILE *out, struct err *err) {
    struct strbuf line = STRBUF_INIT, reply = STRBUF_INIT;
    bool more = true;
    int rc = 0, got;
    p->reply_fd = fileno(out);
    while (more && (got = read_line(in, &line)) != 0) {
        if (got > 0 && blank(&line)) continue;
        if (got > 0) {
            more = protocol_line(p, line.buf, line.len, &reply);
        } else {
            struct err too_long;
            err_set(&too_long, "request: the line is longer than %u bytes", PROTOCOL_MAX_LINE);
            reply_error(&reply, &(struct protocol_request){ 0 }, &too_long);
        }
        strbuf_addch(&reply, '\n');
        if (fwrite(reply.buf, 1, reply.len, out) != reply.len || fflush(out) != 0) {
            rc = err_set(err, "writing a reply: %s", strerror(errno));
            break;
        }
    }
    if (rc == 0 && ferror(in)) rc = err_set(err, "reading requests: %s", strerror(errno));
    strbuf_free(&line);
    strbuf_free(&reply);
    return rc;
}
