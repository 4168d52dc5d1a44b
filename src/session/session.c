#include "session/session.h"

#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/util.h"
#include "base/vec.h"
#include "session/contention.h"
#include "session/counters.h"
#include "session/engine_client.h"
#include "session/engine_env.h"
#include "session/inject.h"
#include "session/nvml.h"
#include "session/nvml_meter.h"
#include "session/requests.h"
#include "trace/writer.h"

/* An error message of the engine. Each message is listed once. */
struct failure {
    char *message;
    size_t requests; /* that failed with this message */
    size_t warning;  /* index in session_result.warnings */
};

struct run {
    const struct session_plan *plan;
    const struct settings *s;
    struct session_result *out;
    struct engine_client *engine; /* NULL: not running */
    bool recording;               /* the engine runs with the collector loaded */
    bool good_since_start;        /* the engine has answered since its last start */
    uint64_t shown;               /* number of repeats in the progress line */
    unsigned starts;              /* of the engine */
    unsigned starts_before_timing;
    struct contention contention;
    struct {
        struct failure *v;
        size_t n, cap;
    } failures;
    struct {
        const char **v;
        size_t n, cap;
    } env; /* "NAME=VALUE": set for the engine in addition to our environment; NULL-terminated */
    struct {
        char **v;
        size_t n, cap;
    } owned;
};

static void on_tick(void *ctx) {
    const struct run *r = ctx;
    progress_update(r->shown);
}

static bool is_stopped(const struct run *r) { return r->out->interrupted || r->out->gave_up; }

static void note_interrupt(struct run *r, const char *during) {
    if (r->out->interrupted) return;
    r->out->interrupted = interrupt_signal();
    log_warn("%s: stopping the current step (%s); the report is written from the results so far",
             strsignal(r->out->interrupted), during);
    strlist_add(&r->out->warnings, "The run was stopped by %s during %s.", strsignal(r->out->interrupted),
                during);
}

/* ---- Starting the engine */

static void add_env(struct run *r, char *pair) {
    vec_push(&r->owned, pair);
    vec_push(&r->env, pair);
}

/* Returns the detail to record. Modules and operators are CPU activities: without "cpu", only stages are
 * recorded. The native engine names kernels after operators, so its own records are no use to a tool that
 * selects kernels by function. */
static const char *recorded_detail(const struct session_plan *p) {
    const struct settings *s = p->settings;
    if (p->function_names && p->device->cuda && strcmp(s->engine.name, "native") == 0) return "stages";
    for (size_t i = 0; i < s->profiling.activities->n; i++)
        if (strcmp(s->profiling.activities->v[i]->text, "cpu") == 0) return s->profiling.detail;
    return "stages";
}

/* Returns true if the representative run needs the collector. The native engine records its operators with
 * the kernels and their times, so the collector would record every kernel a second time, and its overhead
 * would be larger than the engine's. */
static bool needs_collector(const struct session_plan *p) {
    bool own =
        strcmp(p->settings->engine.name, "native") == 0 && strcmp(recorded_detail(p), "operators") == 0;
    return p->device->cuda && !own;
}

/* Adds the variables that load the collector. Used for the engine of the representative run only. */
static void add_collector(struct run *r) {
    const struct settings *s = r->s;
    struct inject_options o = { .trace_dir = r->plan->trace_dir, .what = INJECT_NVTX };
    struct inject_env env;
    struct err err;
    for (size_t i = 0; i < s->profiling.activities->n; i++) {
        const char *a = s->profiling.activities->v[i]->text;
        if (strcmp(a, "cuda") == 0) o.what |= INJECT_KERNELS | INJECT_LAUNCHES;
        if (strcmp(a, "memcpy") == 0) o.what |= INJECT_COPIES;
        if (strcmp(a, "sync") == 0) o.what |= INJECT_SYNCS;
    }
    if (s->profiling.gemm_shapes) o.what |= INJECT_GEMMS;
    if (inject_env_make(&env, &o, &err) < 0) {
        strlist_add(&r->out->warnings, "GPU kernels were not recorded: %s", err.msg);
        log_warn("GPU kernels will not be recorded: %s", err.msg);
        return;
    }
    for (char **e = env.set; e && *e; e++) add_env(r, xstrdup(*e));
    inject_env_free(&env);
}

static void clear_env(struct run *r) {
    for (size_t i = 0; i < r->owned.n; i++) free(r->owned.v[i]);
    r->owned.n = r->env.n = 0;
}

static void make_env(struct run *r, bool recording) {
    struct strlist env = { 0 };
    clear_env(r);
    engine_env(r->s, r->plan->device, &env);
    for (size_t i = 0; i < env.n; i++) add_env(r, env.v[i]);
    free(env.v);
    if (recording) add_collector(r);
    vec_push(&r->env, NULL);
}

static int start_engine(struct run *r, bool recording, struct err *err) {
    const struct settings *s = r->s;
    make_env(r, recording);
    json_t *load = request_load(s, r->plan->device->cuda ? "cuda:0" : "cpu");
    struct engine_client_options o = { .argv = r->plan->argv,
                                       .set = r->env.v,
                                       .load = load,
                                       .start_limit_s = s->engine.start_timeout_s,
                                       .load_limit_s = s->engine.load_timeout_s,
                                       .request_limit_s = s->engine.request_timeout_s,
                                       .tick = on_tick,
                                       .tick_ctx = r };
    struct engine_info info;
    uint64_t from = clock_mono_ns();
    log_debug("starting engine %s: %s", s->engine.name, r->plan->argv[0]);
    r->engine = engine_client_open(&o, &info, err);
    r->out->engine_ns += clock_mono_ns() - from;
    json_decref(load);
    if (!r->engine) return -1;
    r->recording = recording;
    r->good_since_start = false;
    r->starts++;
    if (r->out->loaded) engine_info_free(&r->out->info);
    r->out->info = info;
    r->out->loaded = true;
    log_debug("engine %s %s on %s: model %s loaded in %.1f ms", info.name ? info.name : "?",
              info.version ? info.version : "", info.device ? info.device : "?",
              info.model_name ? info.model_name : "?", info.load_ms);
    return 0;
}

static void stop_engine(struct run *r) {
    uint64_t from = clock_mono_ns();
    engine_client_close(r->engine);
    r->engine = NULL;
    r->out->engine_ns += clock_mono_ns() - from;
}

/* ---- Steps */

static void give_up(struct run *r, const char *fmt, const char *why) {
    r->out->gave_up = true;
    log_error(fmt, why);
    strlist_add(&r->out->warnings, fmt, why);
}

#define ALIKE_MAX 2 /* the run stops after this many failures with one message and no success */

static bool any_done(const struct run *r) {
    bool any = r->out->representative.done;
    for (size_t i = 0; i < r->out->nrepeats && !any; i++) any = r->out->repeats[i].done;
    return any;
}

/* Adds the message to the warnings, if it is new. */
static void note_failure(struct run *r, const char *what, const char *message) {
    size_t i = 0;
    while (i < r->failures.n && strcmp(r->failures.v[i].message, message) != 0) i++;
    if (i == r->failures.n) {
        log_warn("%s failed: %s", what, message);
        vec_push(&r->failures, ((struct failure){ xstrdup(message), 1, r->out->warnings.n }));
        strlist_add(&r->out->warnings, "%c%s failed: %s", what[0] & ~0x20, what + 1, message);
        return;
    }
    log_warn("%s failed with the same message", what);
    r->failures.v[i].requests++;
}

/* Stops the run if all requests so far failed with one message, because further requests would fail too. */
static void stop_if_alike(struct run *r) {
    if (r->failures.n == 1 && r->failures.v[0].requests >= ALIKE_MAX && !any_done(r))
        give_up(r, "%s", "Every request failed with the same message; the run stops here.");
}

static void end_failures(struct run *r) {
    for (size_t i = 0; i < r->failures.n; i++) {
        const struct failure *f = &r->failures.v[i];
        char **text = &r->out->warnings.v[f->warning], *before = *text;
        if (f->requests > 1) {
            *text = xasprintf("%s (%zu more failed with the same message)", before, f->requests - 1);
            free(before);
        }
        free(f->message);
    }
    free(r->failures.v);
}

/* Runs the warmup rounds. Returns -1 if the engine broke, or on interrupt. */
static int warm_up(struct run *r, const char *why) {
    const struct dataset *d = r->plan->dataset;
    if (r->s->profiling.warmup_rounds == 0 || !d->order.n) return 0;
    struct dataset_item item = d->v[d->order.v[0]];
    if (r->plan->synthetic_page && item.path) item.path = (char *)r->plan->synthetic_page;
    json_t *request = request_warmup(r->s, &item, r->s->profiling.warmup_rounds);
    struct err err;
    double ms = NAN;
    uint64_t from = clock_mono_ns();
    log_debug("warmup (%s): %lld rounds of %s", why, (long long)r->s->profiling.warmup_rounds,
              r->plan->synthetic_page ? "a synthetic page" : item.name);
    enum engine_result result = engine_client_warmup(r->engine, request, &ms, &err);
    r->out->engine_ns += clock_mono_ns() - from;
    json_decref(request);
    if (result == ENGINE_STOPPED) note_interrupt(r, "warm-up");
    if (result == ENGINE_NO) {
        note_failure(r, "the warm-up", err.msg);
        stop_if_alike(r);
        return 0;
    }
    if (result == ENGINE_BROKEN) {
        note_failure(r, "the warm-up", err.msg);
        stop_engine(r);
    }
    r->out->warmup_ms = ms;
    return result == ENGINE_OK ? 0 : -1;
}

/* Restarts the engine, or gives up if it was restarted before and has given no good answer since its last
 * start. */
static void restart(struct run *r) {
    struct err err;
    bool deserves = r->good_since_start || r->out->restarts == 0;
    stop_engine(r);
    if (!deserves) {
        give_up(r, "%s", "The engine failed again right after its restart; the run stops here.");
        return;
    }
    r->out->restarts++;
    log_warn("restarting the engine");
    if (start_engine(r, r->recording, &err) < 0) {
        if (interrupt_signal())
            note_interrupt(r, "the restart of the engine");
        else
            give_up(r, "The engine could not be restarted: %s", err.msg);
    } else if (warm_up(r, "after a restart") < 0 && !is_stopped(r)) {
        give_up(r, "%s", "The engine failed again during the warmup after its restart; the run stops here.");
    }
}

/* Adds the notes of the engine to the warnings, each once. */
static void take_notes(struct run *r, const struct engine_answer *a) {
    for (size_t i = 0; i < a->notes.n; i++) {
        struct strbuf note = STRBUF_INIT;
        bool known = false;
        strbuf_addstr(&note, "From the engine: ");
        strbuf_add_printable(&note, a->notes.v[i], strlen(a->notes.v[i]));
        for (size_t k = 0; k < r->out->warnings.n && !known; k++)
            known = strcmp(r->out->warnings.v[k], note.buf) == 0;
        if (!known) {
            log_warn("%s", note.buf);
            strlist_add(&r->out->warnings, "%s", note.buf);
        }
        strbuf_free(&note);
    }
}

/* Runs one request. Stores a failure in `to`; restarts the engine if it is broken. */
static void infer(struct run *r, struct session_repeat *to, json_t *request, const char *what) {
    struct err err;
    uint64_t from = clock_mono_ns();
    enum engine_result result = engine_client_infer(r->engine, request, &to->answer, &err);
    uint64_t took = clock_mono_ns() - from;
    r->out->engine_ns += took;
    to->request_ms = (double)took * 1e-6;
    json_decref(request);
    if (result == ENGINE_OK) {
        to->done = r->good_since_start = true;
        take_notes(r, &to->answer);
        log_debug("%s: prefill %.3f ms, decode %.3f ms, %g prompt tokens, %g new tokens", what,
                  to->answer.prefill_ms, to->answer.decode_ms, to->answer.prompt_tokens,
                  to->answer.new_tokens);
        return;
    }
    if (result == ENGINE_STOPPED) {
        note_interrupt(r, what);
        return;
    }
    to->error = xstrdup(err.msg);
    note_failure(r, what, err.msg);
    if (result == ENGINE_BROKEN)
        restart(r);
    else
        stop_if_alike(r);
}

static int64_t tokens_for(const struct run *r, const struct dataset_item *it) {
    return it->max_new_tokens > 0 ? it->max_new_tokens : r->s->infer.max_new_tokens;
}

static int64_t recorded_tokens(const struct run *r, const struct dataset_item *it) {
    int64_t most = r->s->profiling.rep_max_new_tokens, asked = tokens_for(r, it);
    return most > 0 ? MIN(most, asked) : asked;
}

/* Samplers that run during the representative run, outside of the engine. */
struct watchers {
    struct nvml_sampler *power;
    struct engine_proc *counters;
};

static struct watchers start_watchers(struct run *r) {
    struct watchers w = { 0 };
    struct err err;
    const struct settings *s = r->s;
    char *power = xasprintf("%s/nvml.ipt", r->plan->trace_dir),
         *counters = xasprintf("%s/counters.ipt", r->plan->trace_dir);
    if (r->plan->device->cuda && s->hardware.power) {
        w.power = nvml_sampler_start(power, (unsigned)s->hardware.power_interval_ms, &err);
        if (!w.power) strlist_add(&r->out->warnings, "Power and clocks were not sampled: %s", err.msg);
    }
    if (r->plan->device->cuda && s->profiling.counters) {
        w.counters =
            counters_start(counters, (unsigned)s->profiling.counter_interval_us, r->plan->device->id, &err);
        if (!w.counters) strlist_add(&r->out->warnings, "Hardware counters were not sampled: %s", err.msg);
    }
    free(power);
    free(counters);
    return w;
}

static void stop_watchers(struct watchers *w) {
    struct err err;
    counters_stop(w->counters);
    if (w->power && nvml_sampler_stop(w->power, &err) < 0) log_warn("power samples: %s", err.msg);
}

static void write_memory(struct run *r, const struct engine_answer *a) {
    struct err err;
    if (!a->memory.n) return;
    char *path = xasprintf("%s/memory.ipt", r->plan->trace_dir);
    struct trace_writer *w = trace_writer_open(path, NULL, &err);
    trace_writer_meta(w, "clock", "unix");
    trace_writer_meta(w, "source", "engine memory");
    char key[48];
    snprintf(key, sizeof key, "device.%u.name", a->memory.device);
    trace_writer_meta(w, key, "%s", r->plan->device->name);
    snprintf(key, sizeof key, "device.%u.uuid", a->memory.device);
    if (*r->plan->device->id) trace_writer_meta(w, key, "%s", r->plan->device->id);
    uint32_t allocator = trace_writer_str(w, "engine");
    for (size_t i = 0; w && i < a->memory.n; i++)
        for (unsigned k = 0; k < TRACE_MEMORY_KIND_END; k++) {
            double bytes = a->memory.v[i].bytes[k];
            if (i ? bytes == a->memory.v[i - 1].bytes[k] : bytes == 0) continue;
            struct trace_memory m = { .time_ns = a->memory.v[i].time_ns,
                                      .bytes = (uint64_t)bytes,
                                      .device = a->memory.device,
                                      .memory_kind = k,
                                      .action = TRACE_MEMORY_TOTAL,
                                      .allocator = allocator };
            trace_writer_memory(w, &m, 1);
        }
    if (!w || trace_writer_close(w, &err) < 0)
        strlist_add(&r->out->warnings, "The memory of the run was not written: %s", err.msg);
    free(path);
}

static void run_representative(struct run *r) {
    const struct dataset *d = r->plan->dataset;
    const struct dataset_item *it = &d->v[d->order.v[0]];
    char *trace = xasprintf("%s/engine.ipt", r->plan->trace_dir);
    struct watchers watchers = start_watchers(r);
    log_debug("representative run: %s, detail %s", it->name, recorded_detail(r->plan));
    r->out->representative.item = d->order.v[0];
    infer(r, &r->out->representative,
          request_infer(r->s, it, recorded_tokens(r, it), recorded_detail(r->plan), trace),
          "the representative run");
    stop_watchers(&watchers);
    write_memory(r, &r->out->representative.answer);
    free(trace);
}

/* Replaces the engine by a new process without the collector, so that timing has no recording overhead. */
static void start_timed_process(struct run *r) {
    struct err err;
    stop_engine(r);
    if (start_engine(r, false, &err) < 0) {
        if (interrupt_signal())
            note_interrupt(r, "starting the engine for the timing");
        else
            give_up(r, "The engine could not be started for the timing: %s", err.msg);
    } else if (warm_up(r, "before the timing") < 0 && !is_stopped(r)) {
        give_up(r, "%s", "The engine failed in the warmup before the timing; the run stops here.");
    }
}

/* Requests below this time have unknown energy: NVML updates its counter only every 20 to 100 ms. */
#define METER_MIN_MS 200

/* Runs a timed repeat and measures its GPU energy. The two energy readings are outside of the engine's
 * timing. */
static void timed_repeat(struct run *r, struct nvml_meter *meter, size_t i, const char *what) {
    const struct dataset *d = r->plan->dataset;
    struct session_repeat *rep = &r->out->repeats[i];
    const struct dataset_item *it = &d->v[rep->item];
    rep->process = r->starts - r->starts_before_timing;
    double before = nvml_meter_joules(meter);
    pid_t pid = engine_client_pid(r->engine);
    struct contention_times cpu = contention_times(pid);
    infer(r, rep, request_infer(r->s, it, tokens_for(r, it), "none", NULL), what);
    if (rep->done) contention_add(&r->contention, pid, &cpu, (uint64_t)(rep->request_ms * 1e6));
    if (rep->done && rep->request_ms >= METER_MIN_MS) rep->joules = nvml_meter_joules(meter) - before;
}

static void run_timing(struct run *r) {
    struct session_result *out = r->out;
    double tokens = 0, ms = 0;
    struct err why;
    struct nvml_meter *meter =
        r->plan->device->cuda && r->s->hardware.power ? nvml_meter_open(r->plan->device->id, &why) : NULL;
    r->starts_before_timing = r->starts - 1;
    progress_start("timing", "repeats", out->nrepeats);
    for (size_t i = 0; i < out->nrepeats && !is_stopped(r); i++) {
        const struct session_repeat *rep = &out->repeats[i];
        char what[64];
        snprintf(what, sizeof what, "repeat %zu of %zu", i + 1, out->nrepeats);
        r->shown = i;
        if (ms > 0) progress_note("%s, %.1f tokens/s", what, tokens / ms * 1e3);
        progress_update(i);
        if (i && i % r->plan->dataset->order.n == 0) start_timed_process(r);
        if (is_stopped(r)) break;
        timed_repeat(r, meter, i, what);
        out->done += rep->done;
        out->failed += rep->error != NULL;
        if (rep->done && rep->answer.decode_ms > 0) {
            tokens += rep->answer.new_tokens - 1;
            ms += rep->answer.decode_ms;
        }
        progress_update(i + 1);
    }
    progress_finish();
    nvml_meter_close(meter);
    out->busy = contention_reason(&r->contention, !r->plan->device->cuda);
}

static void add_unrecorded(struct run *r) {
    struct strlist *warnings = &r->out->warnings;
    size_t before = warnings->n;
    inject_add_warnings(r->plan->trace_dir, warnings);
    for (size_t i = before; i < warnings->n; i++) log_warn("%s", warnings->v[i]);
}

static void run_phases(struct run *r) {
    struct err err;
    bool collector = needs_collector(r->plan);
    progress_start("starting the engine and warming up", NULL, 0);
    if (start_engine(r, collector, &err) < 0) {
        if (interrupt_signal())
            note_interrupt(r, "the start of the engine");
        else
            give_up(r, "The engine did not start: %s", err.msg);
    } else if (warm_up(r, "at the start") < 0 && !is_stopped(r)) {
        restart(r);
    }
    progress_finish();
    if (!is_stopped(r)) {
        progress_start("representative run, everything recorded", NULL, 0);
        run_representative(r);
        progress_finish();
    }
    if (!is_stopped(r) && (collector || r->s->processes > 1)) start_timed_process(r);
    if (!is_stopped(r)) run_timing(r);
    stop_engine(r);
    if (collector) add_unrecorded(r);
}

void session_run(const struct session_plan *plan, struct session_result *out) {
    struct run r = { .plan = plan, .s = plan->settings, .out = out };
    size_t processes = plan->settings->processes > 1 ? (size_t)plan->settings->processes : 1;
    *out = (struct session_result){ .warmup_ms = NAN, .nrepeats = plan->dataset->order.n * processes };
    contention_start(&r.contention);
    out->repeats = xcalloc(out->nrepeats + 1, sizeof *out->repeats);
    for (size_t i = 0; i < out->nrepeats; i++) {
        out->repeats[i].item = plan->dataset->order.v[i % plan->dataset->order.n];
        out->repeats[i].joules = NAN;
    }
    run_phases(&r);
    end_failures(&r);
    clear_env(&r);
    free(r.env.v);
    free(r.owned.v);
}

static void add_line(struct strbuf *lines, json_t *request, const char *op) {
    size_t id = 1;
    for (const char *c = lines->buf; *c; c++) id += *c == '\n';
    json_object_set_new(request, "op", json_string(op));
    json_object_set_new(request, "id", json_integer((json_int_t)id));
    char *text = json_dumps(request, JSON_COMPACT);
    if (!text) die("cannot encode a request to the engine as JSON");
    strbuf_addf(lines, "%s\n", text);
    free(text);
    json_decref(request);
}

void session_replay(const struct session_plan *plan, const char *trace, struct strbuf *lines,
                    struct strlist *env) {
    struct session_result nothing = { 0 };
    struct run r = { .plan = plan, .s = plan->settings, .out = &nothing };
    const struct dataset *d = plan->dataset;
    const struct dataset_item *it = &d->v[d->order.v[0]];
    add_line(lines, json_object(), "hello");
    add_line(lines, request_load(r.s, plan->device->cuda ? "cuda:0" : "cpu"), "load");
    if (r.s->profiling.warmup_rounds) {
        struct dataset_item item = *it;
        if (plan->synthetic_page && item.path) item.path = (char *)(uintptr_t)plan->synthetic_page;
        add_line(lines, request_warmup(r.s, &item, r.s->profiling.warmup_rounds), "warmup");
    }
    add_line(lines, request_infer(r.s, it, recorded_tokens(&r, it), recorded_detail(plan), trace), "infer");
    add_line(lines, json_object(), "bye");
    make_env(&r, false);
    for (size_t i = 0; i < r.env.n && r.env.v[i]; i++) strlist_add(env, "%s", r.env.v[i]);
    clear_env(&r);
    free(r.env.v);
    free(r.owned.v);
}

void session_result_free(struct session_result *r) {
    if (r->loaded) engine_info_free(&r->info);
    engine_answer_free(&r->representative.answer);
    free(r->representative.error);
    for (size_t i = 0; i < r->nrepeats; i++) {
        engine_answer_free(&r->repeats[i].answer);
        free(r->repeats[i].error);
    }
    free(r->busy);
    free(r->repeats);
    strlist_free(&r->warnings);
    *r = (struct session_result){ 0 };
}
