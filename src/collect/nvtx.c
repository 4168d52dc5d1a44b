#include "collect/nvtx.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "collect/attach.h"
#include "collect/cupti.h"
#include "collect/nvtx_names.h"
#include "collect/nvtx_own.h"
#include "collect/nvtx_torch.h"
#include "collect/output.h"
#include "collect/thread.h"
#include "collect/window.h"

/* One event, whichever NVTX function it came through. */
struct event {
    uint32_t domain, category;
    uint32_t own; /* enum nvtx_own; 0: an ordinary event */
    const char *text;
    uint32_t registered; /* number in NVTX_STRINGS instead of text; 0: none */
    double payload;
    char wide[NVTX_TEXT_MAX]; /* buffer for `text` if it was given as wide characters */
};

static uint32_t handle_number(const void *handle) {
    uintptr_t v = (uintptr_t)handle;
    return v <= UINT32_MAX ? (uint32_t)v : 0;
}

static bool is_own_domain(uint32_t domain) {
    return strcmp(nvtx_name_text(NVTX_DOMAINS, domain), NVTX_OWN_DOMAIN) == 0;
}

static double payload_of(const struct nvtx_attributes *a) {
    switch (a->payload_type) {
    case NVTX_PAYLOAD_U64: return (double)a->payload.u64;
    case NVTX_PAYLOAD_I64: return (double)a->payload.i64;
    case NVTX_PAYLOAD_F64: return a->payload.f64;
    case NVTX_PAYLOAD_U32: return a->payload.u32;
    case NVTX_PAYLOAD_I32: return a->payload.i32;
    case NVTX_PAYLOAD_F32: return (double)a->payload.f32;
    default: return (double)NAN;
    }
}

static void event_text(struct event *e, const char *text) {
    e->domain = e->category = e->registered = e->own = 0;
    e->text = text ? text : "";
    e->payload = (double)NAN;
}

/* A plain text may carry one of the prefixes of nvtx_own.h. */
static void event_plain(struct event *e, const char *text) {
    struct nvtx_own_text own;
    event_text(e, text);
    if (!nvtx_own_split(e->text, &own)) return;
    e->own = own.kind;
    e->text = own.name;
    e->payload = own.count;
}

static void event_wide(struct event *e, const wchar_t *text) {
    nvtx_utf8(text, e->wide, sizeof e->wide);
    event_text(e, e->wide);
}

/* A program built against another NVTX may pass shorter attributes: nothing past their size is read. */
static void event_attributes(struct event *e, const void *domain, const struct nvtx_attributes *a) {
    event_text(e, NULL);
    e->domain = handle_number(domain);
    if (!a || a->size < sizeof *a) return;
    e->category = a->category;
    e->own = is_own_domain(e->domain) ? a->category : 0;
    e->payload = payload_of(a);
    if (a->text_type == NVTX_TEXT_ASCII && a->text) e->text = a->text;
    if (a->text_type == NVTX_TEXT_REGISTERED) {
        e->registered = handle_number(a->text);
        e->text = nvtx_name_text(NVTX_STRINGS, e->registered);
    }
    if (a->text_type == NVTX_TEXT_WIDE) {
        nvtx_utf8(a->text, e->wide, sizeof e->wide);
        e->text = e->wide;
    }
}

static uint32_t event_name(const struct event *e, struct trace_writer *w) {
    return e->registered ? nvtx_name_string(NVTX_STRINGS, e->registered, w) : trace_writer_str(w, e->text);
}

/* PyTorch's names are in the default domain, without category; see nvtx_torch.h. */
static void name_range(struct open_range *r, const struct event *e, struct trace_writer *w) {
    struct torch_name t;
    if (e->domain || e->category || e->own || e->registered || !torch_name_split(e->text, &t)) {
        r->name = event_name(e, w);
        return;
    }
    r->name = trace_writer_string(w, e->text, t.name_len);
    r->detail = t.detail_len ? trace_writer_string(w, t.detail, t.detail_len) : 0;
    r->op = true;
}

static uint32_t range_category(const struct open_range *r) {
    if (r->op) return TRACE_CATEGORY_OP;
    switch (r->own) {
    case NVTX_OWN_STAGE: return TRACE_CATEGORY_STAGE;
    case NVTX_OWN_MODULE: return TRACE_CATEGORY_MODULE;
    case NVTX_OWN_OP: return TRACE_CATEGORY_OP;
    default: return TRACE_CATEGORY_USER;
    }
}

static void write_range(struct trace_writer *w, const struct open_range *r, uint32_t tid, uint32_t depth,
                        uint64_t end_ns, uint32_t flags) {
    struct trace_range out = {
        .start_ns = r->start_ns,
        .end_ns = MAX(end_ns, r->start_ns),
        .thread = tid,
        .depth = depth,
        .category = range_category(r),
        .flags = flags,
        .domain = nvtx_name_string(NVTX_DOMAINS, r->domain, w),
        .name = r->name,
        .detail = r->op ? r->detail : nvtx_category_string(r->domain, r->category, w),
        .flops = (double)NAN,
        .bytes = (double)NAN,
        .payload = r->payload,
    };
    trace_writer_range(w, &out, 1);
}

static struct open_range open_range(const struct event *e, struct trace_writer *w) {
    struct open_range r = { .domain = e->domain,
                            .category = e->category,
                            .own = e->own,
                            .payload = e->payload,
                            .windowed = window_matches(e->text) };
    name_range(&r, e, w);
    r.start_ns = clock_wall_ns();
    return r;
}

/* ---- push and pop */
static int range_push(const struct event *e) {
    struct thread_state *t = thread_self();
    struct trace_writer *w = t ? output_take() : NULL;
    if (!w) return -1;
    if (t->nopen >= THREAD_MAX_OPEN) {
        t->too_deep++;
        trace_writer_lost(w, TRACE_RANGE, TRACE_LOST_MEMORY, 1);
        output_give();
        return (int)(t->nopen + t->too_deep - 1);
    }
    struct open_range *r = &t->open[t->nopen];
    *r = open_range(e, w);
    output_give();
    t->nopen++;
    if (r->windowed) window_range(1, r->start_ns);
    return (int)t->nopen - 1;
}

/* Pops the innermost open range of the domain. Ranges of other domains may have been pushed after it. */
static int range_pop(uint32_t domain) {
    struct thread_state *t = thread_self();
    uint64_t now = clock_wall_ns();
    if (!t) return -1;
    if (t->too_deep) return (int)(t->nopen + --t->too_deep);
    uint32_t i = t->nopen;
    while (i > 0 && t->open[i - 1].domain != domain) i--;
    if (i == 0) return -1; /* more pops than pushes */
    struct open_range r = t->open[i - 1];
    memmove(&t->open[i - 1], &t->open[i], (t->nopen - i) * sizeof t->open[0]);
    t->nopen--;
    struct trace_writer *w = output_take();
    if (w) {
        write_range(w, &r, t->tid, i - 1, now, 0);
        output_give();
    }
    if (r.windowed) window_range(-1, now);
    return (int)i - 1;
}

/* ---- start and end: a range may end on another thread, in any order */
#define MAX_STARTED 4096u
static struct {
    pthread_mutex_t lock;
    struct {
        uint64_t id; /* 0: empty */
        uint32_t tid;
        struct open_range range;
    } v[MAX_STARTED];
    uint64_t next;
} started = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t range_start(const struct event *e) {
    struct trace_writer *w = output_take();
    uint64_t id = 0;
    if (!w) return 0;
    struct open_range r = open_range(e, w);
    pthread_mutex_lock(&started.lock);
    for (unsigned tries = 0; tries < 64 && !id; tries++) {
        uint64_t candidate = ++started.next;
        if (started.v[candidate % MAX_STARTED].id) continue;
        id = candidate;
        started.v[id % MAX_STARTED].id = id;
        started.v[id % MAX_STARTED].tid = thread_id();
        started.v[id % MAX_STARTED].range = r;
    }
    pthread_mutex_unlock(&started.lock);
    if (!id) trace_writer_lost(w, TRACE_RANGE, TRACE_LOST_MEMORY, 1);
    output_give();
    if (id && r.windowed) window_range(1, r.start_ns);
    return id;
}

static void range_end(uint64_t id) {
    struct open_range r;
    uint32_t tid = 0;
    uint64_t now = clock_wall_ns();
    pthread_mutex_lock(&started.lock);
    bool found = id && started.v[id % MAX_STARTED].id == id;
    if (found) {
        r = started.v[id % MAX_STARTED].range;
        tid = started.v[id % MAX_STARTED].tid;
        started.v[id % MAX_STARTED].id = 0;
    }
    pthread_mutex_unlock(&started.lock);
    if (!found) return;
    struct trace_writer *w = output_take();
    if (w) {
        write_range(w, &r, tid, 0, now, TRACE_RANGE_FREE);
        output_give();
    }
    if (r.windowed) window_range(-1, now);
}

/* ---- marks; some marks of our own domain are token counts */
static void put_mark(const struct event *e) {
    struct thread_state *t = thread_self();
    struct trace_writer *w = output_take();
    if (!w) return;
    if (e->own == NVTX_OWN_CONSUMED || e->own == NVTX_OWN_MADE) {
        struct trace_token k = { .time_ns = clock_wall_ns(),
                                 .count = e->payload >= 0 && e->payload < 4e9 ? (uint32_t)e->payload : 0,
                                 .token_kind =
                                     e->own == NVTX_OWN_MADE ? TRACE_TOKEN_MADE : TRACE_TOKEN_CONSUMED,
                                 .thread = thread_id() };
        trace_writer_token(w, &k, 1);
    } else {
        struct open_range r = open_range(e, w);
        write_range(w, &r, thread_id(), t ? t->nopen : 0, r.start_ns, TRACE_RANGE_MARK);
    }
    output_give();
}

/* ---- the handlers that NVTX calls */
static void on_mark_ex(const struct nvtx_attributes *a) {
    struct event e;
    event_attributes(&e, NULL, a);
    put_mark(&e);
}
static void on_mark_a(const char *text) {
    struct event e;
    event_plain(&e, text);
    put_mark(&e);
}
static void on_mark_w(const wchar_t *text) {
    struct event e;
    event_wide(&e, text);
    put_mark(&e);
}
static uint64_t on_start_ex(const struct nvtx_attributes *a) {
    struct event e;
    event_attributes(&e, NULL, a);
    return range_start(&e);
}
static uint64_t on_start_a(const char *text) {
    struct event e;
    event_plain(&e, text);
    return range_start(&e);
}
static uint64_t on_start_w(const wchar_t *text) {
    struct event e;
    event_wide(&e, text);
    return range_start(&e);
}
static int on_push_ex(const struct nvtx_attributes *a) {
    struct event e;
    event_attributes(&e, NULL, a);
    return range_push(&e);
}
static int on_push_a(const char *text) {
    struct event e;
    event_plain(&e, text);
    return range_push(&e);
}
static int on_push_w(const wchar_t *text) {
    struct event e;
    event_wide(&e, text);
    return range_push(&e);
}
static int on_pop_default(void) { return range_pop(0); }
static void on_domain_category_a(const void *domain, uint32_t category, const char *name) {
    if (name) nvtx_category_name(handle_number(domain), category, name);
}
static void on_domain_category_w(const void *domain, uint32_t category, const wchar_t *name) {
    char text[NVTX_TEXT_MAX];
    nvtx_utf8(name, text, sizeof text);
    nvtx_category_name(handle_number(domain), category, text);
}
static void on_category_a(uint32_t category, const char *name) { on_domain_category_a(NULL, category, name); }
static void on_category_w(uint32_t category, const wchar_t *name) {
    on_domain_category_w(NULL, category, name);
}
static void on_name_thread_a(uint32_t tid, const char *name) {
    struct trace_writer *w = name ? output_take() : NULL;
    if (!w) return;
    char key[48];
    snprintf(key, sizeof key, "thread.%u.name", tid);
    trace_writer_meta(w, key, "%s", name);
    output_give();
}
static void on_name_thread_w(uint32_t tid, const wchar_t *name) {
    char text[NVTX_TEXT_MAX];
    nvtx_utf8(name, text, sizeof text);
    on_name_thread_a(tid, text);
}
static void on_name_stream_a(void *stream, const char *name) {
    uint32_t id = 0;
    if (!name || !cupti.stream_id || !attach_enter()) return;
    int rc = cupti.stream_id(NULL, stream, 0, &id);
    attach_exit();
    if (rc != CUPTI_OK) return;
    struct trace_writer *w = output_take();
    if (!w) return;
    char key[48];
    snprintf(key, sizeof key, "stream.%u.name", id);
    trace_writer_meta(w, key, "%s", name);
    output_give();
}
static void on_name_stream_w(void *stream, const wchar_t *name) {
    char text[NVTX_TEXT_MAX];
    nvtx_utf8(name, text, sizeof text);
    on_name_stream_a(stream, text);
}
static void on_domain_mark(const void *domain, const struct nvtx_attributes *a) {
    struct event e;
    event_attributes(&e, domain, a);
    put_mark(&e);
}
static uint64_t on_domain_start(const void *domain, const struct nvtx_attributes *a) {
    struct event e;
    event_attributes(&e, domain, a);
    return range_start(&e);
}
static void on_domain_end(const void *domain, uint64_t id) {
    (void)domain;
    range_end(id);
}
static int on_domain_push(const void *domain, const struct nvtx_attributes *a) {
    struct event e;
    event_attributes(&e, domain, a);
    return range_push(&e);
}
static int on_domain_pop(const void *domain) { return range_pop(handle_number(domain)); }
static void *on_register_string_a(const void *domain, const char *text) {
    (void)domain;
    return (void *)(uintptr_t)nvtx_name_add(NVTX_STRINGS, text ? text : "");
}
static void *on_register_string_w(const void *domain, const wchar_t *text) {
    char narrow[NVTX_TEXT_MAX];
    nvtx_utf8(text, narrow, sizeof narrow);
    return on_register_string_a(domain, narrow);
}
static void *on_create_domain_a(const char *name) {
    return (void *)(uintptr_t)nvtx_name_add(NVTX_DOMAINS, name ? name : "");
}
static void *on_create_domain_w(const wchar_t *name) {
    char text[NVTX_TEXT_MAX];
    nvtx_utf8(name, text, sizeof text);
    return on_create_domain_a(text);
}

/* Slot numbers are NVTX's: NvtxCallbackIdCore, NvtxCallbackIdCore2, NvtxCallbackIdCuda,
 * NvtxCallbackIdCudart. */
#define SLOT(module, n, f) \
    { module, n, (nvtx_function)(f) }
static const struct {
    int module;
    unsigned slot;
    nvtx_function f;
} slots[] = {
    SLOT(NVTX_MODULE_CORE, 1, on_mark_ex),
    SLOT(NVTX_MODULE_CORE, 2, on_mark_a),
    SLOT(NVTX_MODULE_CORE, 3, on_mark_w),
    SLOT(NVTX_MODULE_CORE, 4, on_start_ex),
    SLOT(NVTX_MODULE_CORE, 5, on_start_a),
    SLOT(NVTX_MODULE_CORE, 6, on_start_w),
    SLOT(NVTX_MODULE_CORE, 7, range_end),
    SLOT(NVTX_MODULE_CORE, 8, on_push_ex),
    SLOT(NVTX_MODULE_CORE, 9, on_push_a),
    SLOT(NVTX_MODULE_CORE, 10, on_push_w),
    SLOT(NVTX_MODULE_CORE, 11, on_pop_default),
    SLOT(NVTX_MODULE_CORE, 12, on_category_a),
    SLOT(NVTX_MODULE_CORE, 13, on_category_w),
    SLOT(NVTX_MODULE_CORE, 14, on_name_thread_a),
    SLOT(NVTX_MODULE_CORE, 15, on_name_thread_w),
    SLOT(NVTX_MODULE_CORE2, 1, on_domain_mark),
    SLOT(NVTX_MODULE_CORE2, 2, on_domain_start),
    SLOT(NVTX_MODULE_CORE2, 3, on_domain_end),
    SLOT(NVTX_MODULE_CORE2, 4, on_domain_push),
    SLOT(NVTX_MODULE_CORE2, 5, on_domain_pop),
    SLOT(NVTX_MODULE_CORE2, 8, on_domain_category_a),
    SLOT(NVTX_MODULE_CORE2, 9, on_domain_category_w),
    SLOT(NVTX_MODULE_CORE2, 10, on_register_string_a),
    SLOT(NVTX_MODULE_CORE2, 11, on_register_string_w),
    SLOT(NVTX_MODULE_CORE2, 12, on_create_domain_a),
    SLOT(NVTX_MODULE_CORE2, 13, on_create_domain_w),
    SLOT(NVTX_MODULE_CUDA, 5, on_name_stream_a),
    SLOT(NVTX_MODULE_CUDA, 6, on_name_stream_w),
    SLOT(NVTX_MODULE_CUDART, 3, on_name_stream_a),
    SLOT(NVTX_MODULE_CUDART, 4, on_name_stream_w),
};

bool nvtx_attach(nvtx_get_table get_table) {
    const struct nvtx_callbacks *callbacks = get_table ? get_table(NVTX_TABLE_CALLBACKS) : NULL;
    nvtx_function **table[NVTX_MODULES] = { 0 };
    unsigned n[NVTX_MODULES] = { 0 };
    if (!callbacks || callbacks->bytes < sizeof *callbacks) return false;
    for (int m = NVTX_MODULE_CORE; m < NVTX_MODULES; m++) /* NVTX 1 has no domains */
        if (!callbacks->get_module(m, &table[m], &n[m])) n[m] = 0;
    if (!n[NVTX_MODULE_CORE]) return false;
    for (size_t i = 0; i < COUNTOF(slots); i++) {
        nvtx_function **t = table[slots[i].module];
        if (slots[i].slot < n[slots[i].module] && t && t[slots[i].slot]) *t[slots[i].slot] = slots[i].f;
    }
    return true;
}

static void write_open_range(uint32_t tid, uint32_t depth, const struct open_range *r) {
    struct trace_writer *w = output_take();
    if (!w) return;
    write_range(w, r, tid, depth, clock_wall_ns(), TRACE_RANGE_OPEN);
    output_give();
}

void nvtx_finish(void) {
    thread_each_open(write_open_range);
    if (pthread_mutex_trylock(&started.lock) != 0) return;
    struct trace_writer *w = output_take();
    for (unsigned i = 0; w && i < MAX_STARTED; i++)
        if (started.v[i].id)
            write_range(w, &started.v[i].range, started.v[i].tid, 0, clock_wall_ns(),
                        TRACE_RANGE_FREE | TRACE_RANGE_OPEN);
    if (w) output_give();
    pthread_mutex_unlock(&started.lock);
}

void nvtx_after_fork(void) {
    pthread_mutex_init(&started.lock, NULL);
    for (unsigned i = 0; i < MAX_STARTED; i++) started.v[i].id = 0;
    nvtx_names_after_fork();
}
