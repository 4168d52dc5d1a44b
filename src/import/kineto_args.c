#include "import/kineto_args.h"

#include <string.h>

#include "base/util.h"
#include "import/json_pull.h"

static bool key_is(const struct json_pull *j, const char *text) {
    size_t n = strlen(text);
    return j->len == n && memcmp(j->text, text, n) == 0;
}

/* Where a key's number goes; NULL: a key we have no use for. */
static uint64_t *number_field(struct kineto_args *a, const struct json_pull *j) {
    switch (j->len) {
    case 5: return key_is(j, "bytes") ? &a->bytes : NULL;
    case 6: return key_is(j, "device") ? &a->device : key_is(j, "stream") ? &a->stream : NULL;
    case 7: return key_is(j, "context") ? &a->context : NULL;
    case 8: return key_is(j, "graph id") ? &a->graph : NULL;
    case 11: return key_is(j, "correlation") ? &a->correlation : NULL;
    case 13:
        return key_is(j, "shared memory")   ? &a->smem_bytes
               : key_is(j, "graph node id") ? &a->graph_node
               : key_is(j, "correlationId") ? &a->correlation
                                            : NULL;
    case 14: return key_is(j, "correlation_id") ? &a->correlation : NULL;
    case 20: return key_is(j, "registers per thread") ? &a->registers : NULL;
    default: return NULL;
    }
}

static void take_three(struct json_pull *j, uint64_t out[3]) {
    if (json_pull_next(j) != JSON_ARRAY) return;
    enum json_token tok;
    for (int i = 0; (tok = json_pull_next(j)) > JSON_END && tok != JSON_ARRAY_END; i++)
        if (tok != JSON_NUMBER || i > 2 || !json_to_u64(j->text, j->len, &out[i])) return;
}

static void take_triple(struct span raw, uint64_t out[3]) {
    struct json_pull j;
    json_pull_memory(&j, raw.p, raw.n);
    take_three(&j, out);
}

static bool take_member(struct kineto_args *a, struct json_pull *j) {
    uint64_t *number = number_field(a, j);
    uint64_t *triple = key_is(j, "grid") ? a->grid : key_is(j, "block") ? a->block : NULL;
    struct span *text = key_is(j, "kind") || key_is(j, "cuda_sync_kind") ? &a->kind : NULL;
    struct span *raw = j->len != 10                                         ? NULL
                       : key_is(j, "Input Dims") || key_is(j, "Input dims") ? &a->dims
                       : key_is(j, "Input type")                            ? &a->types
                                                                            : NULL;
    enum json_token tok = json_pull_raw(j);
    if (tok <= JSON_END) return false;
    if (number && (tok == JSON_NUMBER || tok == JSON_STRING)) {
        if (!json_to_u64(j->text, j->len, number)) *number = KINETO_UNKNOWN;
    } else if (triple && tok == JSON_ARRAY) {
        take_triple((struct span){ j->text, j->len }, triple);
    } else if (raw && tok == JSON_ARRAY) {
        *raw = (struct span){ j->text, j->len };
    } else if (text && tok == JSON_STRING && j->text != j->scratch) {
        *text = (struct span){ j->text, j->len };
    }
    return true;
}

void kineto_args_parse(struct span args, struct kineto_args *out) {
    memset(out, 0, sizeof *out);
    out->device = out->stream = out->context = out->correlation = out->bytes = KINETO_UNKNOWN;
    out->registers = out->smem_bytes = out->graph = out->graph_node = KINETO_UNKNOWN;
    out->valid = true;
    if (!args.n) return;
    struct json_pull j;
    json_pull_memory(&j, args.p, args.n);
    if (json_pull_next(&j) != JSON_OBJECT) return;
    enum json_token tok;
    while ((tok = json_pull_next(&j)) == JSON_KEY)
        if (!take_member(out, &j)) break;
    out->valid = tok == JSON_OBJECT_END;
}

bool kineto_args_text(struct span args, const char *key, struct strbuf *out) {
    struct json_pull j;
    json_pull_memory(&j, args.p, args.n);
    if (!args.n || json_pull_next(&j) != JSON_OBJECT) return false;
    while (json_pull_next(&j) == JSON_KEY) {
        bool wanted = key_is(&j, key);
        enum json_token tok = json_pull_raw(&j);
        if (tok <= JSON_END) return false;
        if (!wanted || (tok != JSON_STRING && tok != JSON_NUMBER)) continue;
        strbuf_add(out, j.text, j.len);
        return true;
    }
    return false;
}

/* ---- shapes */

static const char *short_type(const char *p, size_t n) {
    static const char *const rows[][2] = {
        { "c10::BFloat16", "bf16" },
        { "c10::Half", "f16" },
        { "float", "f32" },
        { "double", "f64" },
        { "long int", "i64" },
        { "long", "i64" },
        { "int", "i32" },
        { "short int", "i16" },
        { "short", "i16" },
        { "signed char", "i8" },
        { "unsigned char", "u8" },
        { "bool", "bool" },
        { "c10::Float8_e4m3fn", "f8e4m3" },
        { "c10::Float8_e5m2", "f8e5m2" },
        { "c10::Float8_e4m3fnuz", "f8e4m3" },
        { "c10::complex<float>", "c64" },
    };
    for (size_t i = 0; i < COUNTOF(rows); i++)
        if (strlen(rows[i][0]) == n && memcmp(rows[i][0], p, n) == 0) return rows[i][1];
    return NULL;
}

/* Copies an array of numbers, or of arrays of numbers, without its blanks. */
static void add_tight(struct strbuf *out, const char *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (p[i] != ' ' && p[i] != '\n' && p[i] != '\t' && p[i] != '\r') strbuf_addch(out, p[i]);
}

void kineto_args_detail(struct span dims, struct span types, struct strbuf *out) {
    struct json_pull d, t;
    json_pull_memory(&d, dims.p, dims.n);
    json_pull_memory(&t, types.p, types.n);
    if (!dims.n || json_pull_next(&d) != JSON_ARRAY) return;
    bool have_types = types.n && json_pull_next(&t) == JSON_ARRAY;
    for (;;) {
        enum json_token tok = json_pull_raw(&d);
        if (tok <= JSON_END || tok == JSON_ARRAY_END) return;
        enum json_token type = have_types ? json_pull_raw(&t) : JSON_END;
        have_types = have_types && type > JSON_END && type != JSON_ARRAY_END;
        if (tok != JSON_ARRAY || d.len <= 2) continue;
        if (out->len) strbuf_addch(out, ' ');
        add_tight(out, d.text, d.len);
        const char *word = type == JSON_STRING ? short_type(t.text, t.len) : NULL;
        if (word)
            strbuf_addstr(out, word);
        else if (type == JSON_STRING)
            strbuf_add(out, t.text, MIN(t.len, (size_t)40));
    }
}

/* ---- counters */

size_t kineto_args_counters(struct span args, struct span event_name, struct strbuf *names, double *values,
                            size_t max) {
    struct json_pull j;
    json_pull_memory(&j, args.p, args.n);
    if (!args.n || json_pull_next(&j) != JSON_OBJECT) return 0;
    size_t n = 0;
    while (n < max && json_pull_next(&j) == JSON_KEY) {
        size_t before = names->len;
        if (n) strbuf_addch(names, ';');
        strbuf_add(names, event_name.p, event_name.n);
        strbuf_addch(names, '.');
        strbuf_add(names, j.text, MIN(j.len, (size_t)200));
        enum json_token tok = json_pull_raw(&j);
        if (tok <= JSON_END) return n;
        if (tok == JSON_NUMBER && json_to_double(j.text, j.len, &values[n]))
            n++;
        else
            names->len = before, names->buf[before] = 0;
    }
    return n;
}
