#include "collect/nvtx.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "collect/attach.h"
#include "collect/cupti.h"
#include "collect/host.h"
#include "collect/nvtx_names.h"
#include "collect/nvtx_own.h"
#include "collect/nvtx_ranges.h"
#include "collect/output.h"

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

static void event_text(struct nvtx_event *e, const char *text) {
    e->domain = e->category = e->registered = e->own = 0;
    e->text = text ? text : "";
    e->payload = (double)NAN;
}

/* Handles the prefixes of nvtx_own.h. */
static void event_plain(struct nvtx_event *e, const char *text) {
    struct nvtx_own_text own;
    event_text(e, text);
    if (!nvtx_own_split(e->text, &own)) return;
    e->own = own.kind;
    e->text = own.name;
    e->payload = own.count;
}

static void event_wide(struct nvtx_event *e, const wchar_t *text) {
    nvtx_utf8(text, e->wide, sizeof e->wide);
    event_text(e, e->wide);
}

/* If the program uses a version of NVTX with a shorter struct, only `size` is read. */
static void event_attributes(struct nvtx_event *e, const void *domain, const struct nvtx_attributes *a) {
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

static void put_name(const char *what, uint32_t number, const char *name) {
    struct trace_writer *w = output_take();
    char key[48];
    if (!w) return;
    snprintf(key, sizeof key, "%s.%u.name", what, number);
    trace_writer_meta(w, key, "%s", name);
    output_give();
}

static uint32_t add_name(enum nvtx_table table, const char *text) {
    int saved_errno;
    if (!host_enter(&saved_errno)) return 0;
    uint32_t number = nvtx_name_add(table, text ? text : "");
    host_leave(saved_errno);
    return number;
}

/* ---- handlers called by NVTX */
static void on_mark_ex(const struct nvtx_attributes *a) {
    struct nvtx_event e;
    event_attributes(&e, NULL, a);
    nvtx_range_mark(&e);
}
static void on_mark_a(const char *text) {
    struct nvtx_event e;
    event_plain(&e, text);
    nvtx_range_mark(&e);
}
static void on_mark_w(const wchar_t *text) {
    struct nvtx_event e;
    event_wide(&e, text);
    nvtx_range_mark(&e);
}
static uint64_t on_start_ex(const struct nvtx_attributes *a) {
    struct nvtx_event e;
    event_attributes(&e, NULL, a);
    return nvtx_range_start(&e);
}
static uint64_t on_start_a(const char *text) {
    struct nvtx_event e;
    event_plain(&e, text);
    return nvtx_range_start(&e);
}
static uint64_t on_start_w(const wchar_t *text) {
    struct nvtx_event e;
    event_wide(&e, text);
    return nvtx_range_start(&e);
}
static int on_push_ex(const struct nvtx_attributes *a) {
    struct nvtx_event e;
    event_attributes(&e, NULL, a);
    return nvtx_range_push(&e);
}
static int on_push_a(const char *text) {
    struct nvtx_event e;
    event_plain(&e, text);
    return nvtx_range_push(&e);
}
static int on_push_w(const wchar_t *text) {
    struct nvtx_event e;
    event_wide(&e, text);
    return nvtx_range_push(&e);
}
static int on_pop_default(void) { return nvtx_range_pop(0); }
static void on_domain_category_a(const void *domain, uint32_t category, const char *name) {
    int saved_errno;
    if (!name || !host_enter(&saved_errno)) return;
    nvtx_category_name(handle_number(domain), category, name);
    host_leave(saved_errno);
}
static void on_domain_category_w(const void *domain, uint32_t category, const wchar_t *name) {
    char text[NVTX_TEXT_MAX];
    nvtx_utf8(name, text, sizeof text);
    on_domain_category_a(domain, category, text);
}
static void on_category_a(uint32_t category, const char *name) { on_domain_category_a(NULL, category, name); }
static void on_category_w(uint32_t category, const wchar_t *name) {
    on_domain_category_w(NULL, category, name);
}
static void on_name_thread_a(uint32_t tid, const char *name) {
    int saved_errno;
    if (!name || !host_enter(&saved_errno)) return;
    put_name("thread", tid, name);
    host_leave(saved_errno);
}
static void on_name_thread_w(uint32_t tid, const wchar_t *name) {
    char text[NVTX_TEXT_MAX];
    nvtx_utf8(name, text, sizeof text);
    on_name_thread_a(tid, text);
}
static bool stream_number(void *stream, uint32_t *id) {
    if (!cupti.stream_id || !attach_enter()) return false;
    int rc = cupti.stream_id(NULL, stream, 0, id);
    attach_exit();
    return rc == CUPTI_OK;
}
static void on_name_stream_a(void *stream, const char *name) {
    uint32_t id = 0;
    int saved_errno;
    if (!name || !host_enter(&saved_errno)) return;
    if (stream_number(stream, &id)) put_name("stream", id, name);
    host_leave(saved_errno);
}
static void on_name_stream_w(void *stream, const wchar_t *name) {
    char text[NVTX_TEXT_MAX];
    nvtx_utf8(name, text, sizeof text);
    on_name_stream_a(stream, text);
}
static void on_domain_mark(const void *domain, const struct nvtx_attributes *a) {
    struct nvtx_event e;
    event_attributes(&e, domain, a);
    nvtx_range_mark(&e);
}
static uint64_t on_domain_start(const void *domain, const struct nvtx_attributes *a) {
    struct nvtx_event e;
    event_attributes(&e, domain, a);
    return nvtx_range_start(&e);
}
static void on_domain_end(const void *domain, uint64_t id) {
    (void)domain;
    nvtx_range_end(id);
}
static int on_domain_push(const void *domain, const struct nvtx_attributes *a) {
    struct nvtx_event e;
    event_attributes(&e, domain, a);
    return nvtx_range_push(&e);
}
static int on_domain_pop(const void *domain) { return nvtx_range_pop(handle_number(domain)); }
static void *on_register_string_a(const void *domain, const char *text) {
    (void)domain;
    return (void *)(uintptr_t)add_name(NVTX_STRINGS, text);
}
static void *on_register_string_w(const void *domain, const wchar_t *text) {
    char narrow[NVTX_TEXT_MAX];
    nvtx_utf8(text, narrow, sizeof narrow);
    return on_register_string_a(domain, narrow);
}
static void *on_create_domain_a(const char *name) { return (void *)(uintptr_t)add_name(NVTX_DOMAINS, name); }
static void *on_create_domain_w(const wchar_t *name) {
    char text[NVTX_TEXT_MAX];
    nvtx_utf8(name, text, sizeof text);
    return on_create_domain_a(text);
}

/* The slot numbers are those of NVTX: NvtxCallbackIdCore, NvtxCallbackIdCore2, NvtxCallbackIdCuda and
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
    SLOT(NVTX_MODULE_CORE, 7, nvtx_range_end),
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
    for (int m = NVTX_MODULE_CORE; m < NVTX_MODULES; m++) /* NVTX 1 has no CORE2 */
        if (!callbacks->get_module(m, &table[m], &n[m])) n[m] = 0;
    if (!n[NVTX_MODULE_CORE]) return false;
    nvtx_ranges_start();
    for (size_t i = 0; i < COUNTOF(slots); i++) {
        nvtx_function **t = table[slots[i].module];
        if (slots[i].slot < n[slots[i].module] && t && t[slots[i].slot]) *t[slots[i].slot] = slots[i].f;
    }
    return true;
}

void nvtx_after_fork(void) {
    nvtx_ranges_after_fork();
    nvtx_names_after_fork();
}
