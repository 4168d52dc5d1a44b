#include "import/kineto_args.h"

#include <string.h>

#include "base/util.h"
#include "import/json_members.h"
#include "import/json_pull.h"

static bool key_is(const struct json_pull *j, const char *text) {
    size_t n = strlen(text);
    return j->len == n && memcmp(j->text, text, n) == 0;
}

/* Members of args that are used. */
enum member {
    MEMBER_OTHER,
    MEMBER_NUMBER,
    MEMBER_GRID,
    MEMBER_BLOCK,
    MEMBER_DIMS,
    MEMBER_TYPES,
    MEMBER_VALUES,
    MEMBER_KIND
};

static enum member member_of(struct kineto_args *a, const char *key, size_t n, uint64_t **number) {
#define IS(text) (memcmp(key, text, sizeof text - 1) == 0)
#define NUMBER(field) (*number = &a->field, MEMBER_NUMBER)
    switch (n) {
    case 4:
        return IS("grid")   ? MEMBER_GRID
               : IS("kind") ? MEMBER_KIND
               : IS("Addr") ? NUMBER(address)
                            : MEMBER_OTHER;
    case 5: return IS("block") ? MEMBER_BLOCK : IS("bytes") ? NUMBER(bytes) : MEMBER_OTHER;
    case 6: return IS("device") ? NUMBER(device) : IS("stream") ? NUMBER(stream) : MEMBER_OTHER;
    case 7: return IS("context") ? NUMBER(context) : MEMBER_OTHER;
    case 8: return IS("graph id") ? NUMBER(graph) : MEMBER_OTHER;
    case 10:
        return IS("Input Dims") || IS("Input dims") ? MEMBER_DIMS
               : IS("Input type")                   ? MEMBER_TYPES
                                                    : MEMBER_OTHER;
    case 9: return IS("Device Id") ? NUMBER(device) : MEMBER_OTHER;
    case 11:
        return IS("correlation")   ? NUMBER(correlation)
               : IS("Device Type") ? NUMBER(device_type)
                                   : MEMBER_OTHER;
    case 13:
        return IS("shared memory")   ? NUMBER(smem_bytes)
               : IS("graph node id") ? NUMBER(graph_node)
               : IS("correlationId") ? NUMBER(correlation)
                                     : MEMBER_OTHER;
    case 14:
        return IS("cuda_sync_kind") ? MEMBER_KIND : IS("correlation_id") ? NUMBER(correlation) : MEMBER_OTHER;
    case 15:
        return IS("Concrete Inputs")   ? MEMBER_VALUES
               : IS("Total Allocated") ? NUMBER(total_bytes)
                                       : MEMBER_OTHER;
    case 20: return IS("registers per thread") ? NUMBER(registers) : MEMBER_OTHER;
    default: return MEMBER_OTHER;
    }
#undef NUMBER
#undef IS
}

/* Parses "[12544, 2, 1]". */
static void take_triple(const char *p, size_t n, uint64_t out[3]) {
    struct json_pull j;
    enum json_token tok;
    json_pull_memory(&j, p, n);
    if (json_pull_next(&j) != JSON_ARRAY) return;
    for (int i = 0; (tok = json_pull_next(&j)) > JSON_END && tok != JSON_ARRAY_END; i++)
        if (tok != JSON_NUMBER || i > 2 || !json_to_u64(j.text, j.len, &out[i])) return;
}

static void take_member(struct kineto_args *a, const struct json_members *m) {
    uint64_t *number = NULL;
    enum member what = member_of(a, m->key, m->key_len, &number);
    switch (what) {
    case MEMBER_NUMBER:
        if (m->kind != '0' && m->kind != '"') return;
        if (!json_to_u64(m->value, m->value_len, number)) *number = KINETO_UNKNOWN;
        return;
    case MEMBER_GRID:
    case MEMBER_BLOCK:
        if (m->kind == '[') take_triple(m->value, m->value_len, what == MEMBER_GRID ? a->grid : a->block);
        return;
    case MEMBER_DIMS:
    case MEMBER_TYPES:
        if (m->kind == '[')
            *(what == MEMBER_DIMS ? &a->dims : &a->types) = (struct span){ m->value, m->value_len };
        return;
    case MEMBER_VALUES:
        if (m->kind == '[') a->values = (struct span){ m->value, m->value_len };
        return;
    case MEMBER_KIND:
        if (m->kind == '"') a->kind = (struct span){ m->value, m->value_len };
        return;
    case MEMBER_OTHER: return;
    }
}

/* Used if json_members fails, for example at a key with an escape. */
static void parse_slow(struct span args, struct kineto_args *out) {
    struct json_pull j;
    enum json_token tok;
    json_pull_memory(&j, args.p, args.n);
    if (json_pull_next(&j) != JSON_OBJECT) return;
    while ((tok = json_pull_next(&j)) == JSON_KEY) {
        char key[32];
        struct json_members m = { .key = key, .key_len = MIN(j.len, sizeof key) };
        memcpy(key, j.text, m.key_len);
        tok = json_pull_raw(&j);
        if (tok <= JSON_END) break;
        m.value = j.text;
        m.value_len = j.len;
        m.kind = tok == JSON_OBJECT                          ? '{'
                 : tok == JSON_ARRAY                         ? '['
                 : tok == JSON_STRING && j.text != j.scratch ? '"'
                 : tok == JSON_NUMBER                        ? '0'
                                                             : '?';
        take_member(out, &m);
    }
    out->valid = tok == JSON_OBJECT_END;
}

static void start_args(struct kineto_args *out) {
    memset(out, 0, sizeof *out);
    out->device = out->stream = out->context = out->correlation = out->bytes = KINETO_UNKNOWN;
    out->device_type = out->address = out->total_bytes = KINETO_UNKNOWN;
    out->registers = out->smem_bytes = out->graph = out->graph_node = KINETO_UNKNOWN;
    out->dims = out->types = out->values = out->kind = (struct span){ "", 0 };
    out->valid = true;
}

void kineto_args_parse(struct span args, struct kineto_args *out) {
    struct json_members m = { .p = args.p, .end = args.p + args.n };
    enum json_members_result rc;
    start_args(out);
    if (!args.n) return;
    while ((rc = json_members_next(&m)) == JSON_MEMBERS_ONE) take_member(out, &m);
    if (rc == JSON_MEMBERS_END) return;
    start_args(out);
    parse_slow(args, out);
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

/* ---- Shapes */

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

/* Copies without blanks. */
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

void kineto_args_values(struct span values, struct strbuf *out) {
    struct json_pull j;
    enum json_token tok;
    json_pull_memory(&j, values.p, values.n);
    if (!values.n || json_pull_next(&j) != JSON_ARRAY) return;
    strbuf_addch(out, ';');
    while ((tok = json_pull_raw(&j)) > JSON_END && tok != JSON_ARRAY_END) {
        if (tok != JSON_STRING || !j.len) continue; /* tensors are empty strings */
        strbuf_addch(out, ' ');
        add_tight(out, j.text, j.len);
    }
}

/* ---- Counters */

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
        else {
            names->len = before;
            names->buf[before] = 0;
        }
    }
    return n;
}
