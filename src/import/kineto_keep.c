#include "import/kineto_keep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "import/json_members.h"
#include "import/json_pull.h"

#define ARGS_BYTES (8u << 20) /* of all different arguments */
#define ARGS_MAX 32000u       /* bytes per event */

void kineto_sources_init(struct kineto_sources *k, struct sink *sink) {
    *k = (struct kineto_sources){ .sink = sink, .text = STRBUF_INIT };
}

void kineto_sources_free(struct kineto_sources *k) {
    text_cache_free(&k->args);
    strbuf_free(&k->text);
}

/* True for arguments with a different number in almost every event. */
static bool is_numbering(const char *key, size_t n) {
    static const char *const keys[] = { "External id",
                                        "external id",
                                        "Ev Idx",
                                        "Record function id",
                                        "Sequence number",
                                        "Python id",
                                        "Python parent id",
                                        "correlation",
                                        "external ts",
                                        "Addr",
                                        "Bytes",
                                        "Total Allocated",
                                        "Profiler Event Index",
                                        "wait_on_cuda_event_record_corr_id",
                                        "seq_num",
                                        "k_work_ptr" };
    for (size_t i = 0; i < COUNTOF(keys); i++)
        if (strlen(keys[i]) == n && memcmp(keys[i], key, n) == 0) return true;
    return false;
}

static bool is_bandwidth(const char *key, size_t n) {
    return n == strlen("memory bandwidth (GB/s)") && memcmp(key, "memory bandwidth (GB/s)", n) == 0;
}

/* True for digits only, because a placeholder is written back without a sign or leading zeros. */
static bool plain_number(const char *p, size_t n, uint64_t *out) {
    if (n == 0 || n > 19 || (n > 1 && *p == '0')) return false;
    for (size_t i = 0; i < n; i++)
        if (p[i] < '0' || p[i] > '9') return false;
    return json_to_u64(p, n, out);
}

/* True for a number with a point or an exponent, because a placeholder is written back with one. */
static bool plain_value(const char *p, size_t n, double *out) {
    char text[40], *end;
    if (n == 0 || n >= sizeof text) return false;
    memcpy(text, p, n);
    text[n] = '\0';
    if (!strpbrk(text, ".eE")) return false;
    *out = strtod(text, &end);
    return *end == '\0' && isfinite(*out);
}

/* Copies JSON without blanks between tokens. */
static void add_compact(struct strbuf *out, const char *p, size_t n) {
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '\\' && quoted && i + 1 < n) {
            strbuf_add(out, p + i++, 2);
            continue;
        }
        if (p[i] == '"') quoted = !quoted;
        if (quoted || (p[i] != ' ' && p[i] != '\n' && p[i] != '\t' && p[i] != '\r')) strbuf_addch(out, p[i]);
    }
}

static void add_value(struct strbuf *out, const struct json_members *m) {
    bool quoted = m->kind == '"' || m->kind == '\\';
    if (quoted) strbuf_addch(out, '"');
    if (quoted)
        strbuf_add(out, m->value, m->value_len);
    else
        add_compact(out, m->value, m->value_len);
    if (quoted) strbuf_addch(out, '"');
}

/* Writes the arguments to k->text, with placeholders for the numbers that are stored in the record. Returns
 * false if the arguments are not simple JSON. */
static bool make_template(struct kineto_sources *k, struct span args, struct trace_source_event *r) {
    struct json_members m = { .p = args.p, .end = args.p + args.n };
    enum json_members_result rc;
    uint64_t *const ids[] = { &r->id0, &r->id1, &r->id2, &r->id3 };
    size_t n = 0;
    strbuf_reset(&k->text);
    strbuf_addch(&k->text, '{');
    while ((rc = json_members_next(&m)) == JSON_MEMBERS_ONE) {
        if (k->text.len > 1) strbuf_addch(&k->text, ',');
        strbuf_addch(&k->text, '"');
        strbuf_add(&k->text, m.key, m.key_len);
        strbuf_addstr(&k->text, "\":");
        if (n < COUNTOF(ids) && m.kind == '0' && is_numbering(m.key, m.key_len) &&
            plain_number(m.value, m.value_len, ids[n])) {
            strbuf_addch(&k->text, '#');
            n++;
        } else if (m.kind == '0' && isnan(r->value) && is_bandwidth(m.key, m.key_len) &&
                   plain_value(m.value, m.value_len, &r->value)) {
            strbuf_addch(&k->text, '~');
        } else {
            add_value(&k->text, &m);
        }
    }
    strbuf_addch(&k->text, '}');
    return rc == JSON_MEMBERS_END;
}

static uint32_t keep_args(struct kineto_sources *k, struct span args, struct trace_source_event *r) {
    if (args.n <= 2 || args.n > ARGS_MAX) return 0;
    if (!make_template(k, args, r)) return 0;
    bool known;
    uint32_t *slot = text_cache_slot(&k->args, k->text.buf, k->text.len, &known);
    if (known) return *slot;
    k->text_bytes += k->text.len;
    *slot = k->text_bytes < ARGS_BYTES ? sink_text(k->sink, k->text.buf, k->text.len) : 0;
    k->sink->problems[SINK_PROBLEM_TOO_MANY_TEXTS] += *slot == 0;
    return *slot;
}

void kineto_keep(struct kineto_sources *k, const struct kineto_event *ev, uint64_t start_ns) {
    struct sink *s = k->sink;
    struct trace_source_event r = {
        .start_ns = start_ns,
        .duration_ns = ev->phase == 'X' ? (uint64_t)ev->dur_ns : 0,
        .phase = (unsigned char)ev->phase,
        .pid = (uint64_t)ev->pid.shown,
        .tid = (uint64_t)ev->tid.shown,
        .pid_text = sink_text(s, ev->pid.text.p, ev->pid.text.n),
        .tid_text = sink_text(s, ev->tid.text.p, ev->tid.text.n),
        .category = sink_text(s, ev->cat.p, ev->cat.n),
        .name = sink_text(s, ev->name.p, ev->name.n),
        .value = NAN,
    };
    json_to_u64(ev->id.p, ev->id.n, &r.flow);
    r.args = keep_args(k, ev->args, &r);
    sink_source_event(s, &r);
}
