/* NVTX: push/pop and start/end ranges, marks, domains, inline and registered texts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "base/vec.h"
#include "import/nsys_internal.h"

enum { NVTX_CATEGORY = 33, NVTX_MARK = 34, NVTX_PUSH_POP = 59, NVTX_START_END = 60, NVTX_DOMAIN = 75 };
enum { START, END, TYPE, TEXT, TEXT_ID, TID, DOMAIN_ID, I64, F64, CATEGORY };
static const char *const columns[] = { "start",       "end",       "eventType", "text",
                                       "textId",      "globalTid", "domainId",  "int64Value",
                                       "doubleValue", "category",  NULL };

struct names {
    struct domain {
        uint64_t process, id;
        uint32_t name;
    } * v;
    size_t n, cap;
    uint64_t category_id[TRACE_CATEGORY_END]; /* of `inferprof export`; 0: not in the file */
};

static const char *event_text(struct nsys *n, const struct nsys_rows *r, size_t *len) {
    const char *text = nsys_text(r, TEXT, len);
    if (text && *len) return text;
    text = nsys_null(r, TEXT_ID) ? NULL : nsys_string(n, nsys_i64(r, TEXT_ID, -1), len);
    if (!text) *len = 0;
    return text ? text : "";
}

static void take_category(struct names *d, const char *text, size_t len, uint64_t id) {
    static const char prefix[] = "inferprof:"; /* report/export_sqlite.c */
    size_t n = sizeof prefix - 1;
    if (len < n || memcmp(text, prefix, n) != 0) return;
    for (unsigned i = 0; i < TRACE_CATEGORY_END; i++) {
        const char *name = trace_range_category_name(i);
        if (strlen(name) == len - n && memcmp(name, text + n, len - n) == 0) d->category_id[i] = id;
    }
}

static void read_names(struct nsys *n, struct names *d) {
    struct nsys_rows r;
    if (nsys_rows_open(&r, n->db, "NVTX_EVENTS", columns, NULL))
        while (nsys_rows_next(&r) && d->n < 4096) {
            int64_t type = nsys_i64(&r, TYPE, 0);
            if (type != NVTX_DOMAIN && type != NVTX_CATEGORY) continue;
            size_t len;
            const char *text = event_text(n, &r, &len);
            if (type == NVTX_CATEGORY)
                take_category(d, text, len, nsys_u64(&r, CATEGORY, 0));
            else
                vec_push(d, ((struct domain){ nsys_u64(&r, TID, 0) >> 24, nsys_u64(&r, DOMAIN_ID, 0),
                                              sink_text(n->sink, text, len) }));
        }
    nsys_end(n, &r);
}

static uint32_t domain_name(const struct names *d, uint64_t tid, uint64_t id) {
    if (!id) return NSYS_UNKNOWN_TEXT;
    for (size_t i = 0; i < d->n; i++)
        if (d->v[i].process == tid >> 24 && d->v[i].id == id) return d->v[i].name;
    return NSYS_UNKNOWN_TEXT;
}

/* Length of the name in texts of torch.autograd.profiler.emit_nvtx, such as "aten::mm, op_id = 7" or
 * "aten::mm, seq = 3, sizes = [[2, 2]]". *numbered: the name is followed by the number of the call, which
 * only emit_nvtx writes. *called: it is that of an operator: record_function has an op_id, but no seq. */
static size_t op_name_len(const char *text, size_t len, bool *numbered, bool *called) {
    enum { SEQ };
    static const char *const tails[] = { ", seq = ", ", op_id = ", ", sizes = " };
    size_t name = len;
    *numbered = *called = false;
    for (size_t i = 0; i < COUNTOF(tails); i++) {
        const char *hit = memmem(text, len, tails[i], strlen(tails[i]));
        if (!hit) continue;
        name = MIN(name, (size_t)(hit - text));
        const char *number = hit + strlen(tails[i]);
        bool here = hit > text && number < text + len && *number >= '0' && *number <= '9';
        *numbered |= here;
        *called |= here && (i == SEQ || memmem(text, name, "::", 2));
    }
    return name;
}

/* Framework operators: a lower-case namespace, "::" and a name without blanks and parentheses, such as
 * aten::mm or c10d::allreduce_. */
static bool is_operator(const char *text, size_t len) {
    size_t i = 0;
    while (i < len &&
           ((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= '0' && text[i] <= '9') || text[i] == '_'))
        i++;
    return i > 0 && i + 2 < len && text[i] == ':' && text[i + 1] == ':' && !memchr(text, ' ', len) &&
           !memchr(text, '(', len);
}

/* Returns the category that `inferprof export` wrote; TRACE_CATEGORY_END: none. */
static uint32_t own_category(const struct names *d, uint64_t id) {
    uint32_t i = 0;
    while (i < TRACE_CATEGORY_END && (!id || d->category_id[i] != id)) i++;
    return i;
}

static void take_range(struct nsys *n, const struct nsys_rows *r, const struct names *d, int64_t type) {
    struct trace_range g = { .flops = NAN, .bytes = NAN, .payload = NAN };
    bool mark = type == NVTX_MARK;
    if (!nsys_interval(n, r, START, mark || nsys_null(r, END) ? START : END, &g.start_ns, &g.end_ns)) return;
    uint64_t tid = nsys_u64(r, TID, 0);
    size_t len, name_len;
    const char *text = event_text(n, r, &len);
    bool numbered, called;
    name_len = op_name_len(text, len, &numbered, &called);
    uint32_t own = own_category(d, nsys_u64(r, CATEGORY, 0));
    bool op = own == TRACE_CATEGORY_END ? !mark && (called || is_operator(text, name_len))
                                        : own == TRACE_CATEGORY_OP;
    if ((!op && !numbered) || own != TRACE_CATEGORY_END) name_len = len;
    g.thread = nsys_thread(n, tid);
    g.category = own != TRACE_CATEGORY_END ? own : op ? TRACE_CATEGORY_OP : TRACE_CATEGORY_USER;
    g.flags = mark ? TRACE_RANGE_MARK : type == NVTX_START_END ? TRACE_RANGE_FREE : 0;
    if (!mark && nsys_null(r, END)) { /* open when recording stopped */
        g.flags |= TRACE_RANGE_OPEN;
        g.end_ns = MAX(g.start_ns, n->sink->last_ns);
        n->sink->problems[SINK_PROBLEM_UNCLOSED]++;
    }
    g.domain = domain_name(d, tid, nsys_u64(r, DOMAIN_ID, 0));
    const char *sizes = name_len < len ? memmem(text, len, "sizes = ", 8) : NULL;
    if (sizes) g.detail = sink_text(n->sink, sizes + 8, len - (size_t)(sizes + 8 - text));
    g.name = sink_text(n->sink, text, name_len);
    if (!nsys_null(r, F64))
        g.payload = nsys_double(r, F64);
    else if (!nsys_null(r, I64))
        g.payload = (double)nsys_i64(r, I64, 0);
    n->sink->events[mark ? SINK_EVENT_INSTANT : op ? SINK_EVENT_CPU_OP : SINK_EVENT_NVTX]++;
    sink_range(n->sink, &g);
}

void nsys_read_nvtx(struct nsys *n) {
    struct names d = { 0 };
    struct nsys_rows r;
    read_names(n, &d);
    if (nsys_rows_open(&r, n->db, "NVTX_EVENTS", columns, NULL))
        while (nsys_rows_next(&r)) {
            int64_t type = nsys_i64(&r, TYPE, 0);
            if (type == NVTX_MARK || type == NVTX_PUSH_POP || type == NVTX_START_END)
                take_range(n, &r, &d, type);
            else
                n->sink->events[SINK_EVENT_METADATA]++;
        }
    nsys_end(n, &r);
    free(d.v);
}
