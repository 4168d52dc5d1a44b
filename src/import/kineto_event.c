#include "import/kineto_event.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/util.h"
#include "import/json_members.h"
#include "import/json_pull.h"
#include "trace/format.h"

#define ID_IS_TEXT (1ull << 63)

void kineto_scratch_init(struct kineto_scratch *s) {
    *s = (struct kineto_scratch){ .cap = 8 *
                                         /* space for six texts */
                                         JSON_TEXT_MAX };
}

void kineto_scratch_free(struct kineto_scratch *s) {
    free(s->buf);
    s->buf = NULL;
}

/* Copies the text of the last token if it is in the parser's scratch buffer. */
static struct span keep(struct kineto_scratch *s, const struct json_pull *j) {
    if (j->text != j->scratch) return (struct span){ j->text, j->len };
    size_t n = MIN(j->len, s->cap - s->used);
    if (!s->buf) s->buf = xmalloc(s->cap);
    memcpy(s->buf + s->used, j->text, n);
    s->used += n;
    return (struct span){ s->buf + s->used - n, n };
}

#define ROW(name, category) \
    { name, sizeof name - 1, category }
static const struct {
    const char *name;
    size_t len;
    enum kineto_category category;
} category_names[] = {
    ROW("cpu_op", KINETO_OP),
    ROW("kernel", KINETO_KERNEL),
    ROW("cuda_runtime", KINETO_RUNTIME),
    ROW("python_function", KINETO_PYTHON),
    ROW("user_annotation", KINETO_USER),
    ROW("gpu_memcpy", KINETO_MEMCPY),
    ROW("gpu_memset", KINETO_MEMSET),
    ROW("gpu_user_annotation", KINETO_GPU_USER),
    ROW("cuda_driver", KINETO_DRIVER),
    ROW("cuda_sync", KINETO_SYNC),
    ROW("overhead", KINETO_OVERHEAD),
    ROW("Operator", KINETO_OP),
    ROW("Kernel", KINETO_KERNEL),
    ROW("Runtime", KINETO_RUNTIME),
    ROW("Memcpy", KINETO_MEMCPY),
    ROW("Memset", KINETO_MEMSET),
    ROW("hip_runtime", KINETO_RUNTIME),
    ROW("xpu_runtime", KINETO_RUNTIME),
    ROW("mtia_runtime", KINETO_RUNTIME),
    ROW("glow_runtime", KINETO_RUNTIME),
    ROW("privateuse1_runtime", KINETO_RUNTIME),
    ROW("xpu_driver", KINETO_DRIVER),
    ROW("privateuse1_driver", KINETO_DRIVER),
    ROW("Sync", KINETO_SYNC),
    ROW("Overhead", KINETO_OVERHEAD),
    ROW("Python", KINETO_PYTHON),
};
#undef ROW

static enum kineto_category category_of(struct span cat) {
    if (!cat.n) return KINETO_NONE;
    for (size_t i = 0; i < COUNTOF(category_names); i++)
        if (category_names[i].len == cat.n && memcmp(category_names[i].name, cat.p, cat.n) == 0)
            return category_names[i].category;
    return KINETO_OTHER;
}

/* "stream 7" -> 7; UINT64_MAX: none */
static uint64_t trailing_number(const char *p, size_t n) {
    size_t from = n;
    uint64_t v;
    while (from > 0 && p[from - 1] >= '0' && p[from - 1] <= '9') from--;
    return json_to_u64(p + from, n - from, &v) ? v : UINT64_MAX;
}

static struct kineto_id id_of(const char *text, size_t len) {
    struct kineto_id id = { 0, UINT64_MAX, (int64_t)TRACE_ID_NONE, { "", 0 } };
    int64_t v;
    if (json_to_scaled(text, len, 0, &v)) { /* also quoted and negative numbers */
        id.key = (uint64_t)v & ~ID_IS_TEXT;
        id.shown = v;
        if (v >= 0) id.number = (uint64_t)v;
    } else {
        id.key = hash_bytes(text, len) | ID_IS_TEXT;
        id.number = trailing_number(text, len);
        id.text = (struct span){ text, len };
        if (!len) id.shown = (int64_t)TRACE_ID_EMPTY;
    }
    return id;
}

static void take_time(struct kineto_event *ev, struct span text, int64_t *out, bool *have) {
    *have = json_to_scaled(text.p, text.n, 3, out);
    ev->bad_number |= !*have;
}

enum field {
    FIELD_OTHER,
    FIELD_PH,
    FIELD_CAT,
    FIELD_NAME,
    FIELD_PID,
    FIELD_TID,
    FIELD_TS,
    FIELD_DUR,
    FIELD_ARGS,
    FIELD_ID
};

static enum field field_of(const char *key, size_t n) {
#define IS(text) (memcmp(key, text, sizeof text - 1) == 0)
    switch (n) {
    case 2: return IS("ph") ? FIELD_PH : IS("ts") ? FIELD_TS : IS("id") ? FIELD_ID : FIELD_OTHER;
    case 3:
        return IS("cat")   ? FIELD_CAT
               : IS("pid") ? FIELD_PID
               : IS("tid") ? FIELD_TID
               : IS("dur") ? FIELD_DUR
               : IS("id2") ? FIELD_ID
                           : FIELD_OTHER;
    case 4: return IS("name") ? FIELD_NAME : IS("args") ? FIELD_ARGS : FIELD_OTHER;
    default: return FIELD_OTHER;
    }
#undef IS
}

/* `text` is not copied and must stay valid while the event is used. */
static void take_scalar(struct kineto_event *ev, enum field field, struct span text, bool quoted) {
    switch (field) {
    case FIELD_PH:
        if (quoted && text.n) ev->phase = text.p[0];
        break;
    case FIELD_CAT: ev->cat = text; break;
    case FIELD_NAME: ev->name = text; break;
    case FIELD_ID: ev->id = text; break;
    case FIELD_PID: ev->pid = id_of(text.p, text.n); break;
    case FIELD_TID: ev->tid = id_of(text.p, text.n); break;
    case FIELD_TS: take_time(ev, text, &ev->ts_ns, &ev->has_ts); break;
    case FIELD_DUR: take_time(ev, text, &ev->dur_ns, &ev->has_dur); break;
    case FIELD_ARGS:
    case FIELD_OTHER: break;
    }
}

static void start_event(struct kineto_event *ev) {
    memset(ev, 0, sizeof *ev);
    ev->pid = ev->tid = (struct kineto_id){ 0, UINT64_MAX, (int64_t)TRACE_ID_NONE, { "", 0 } };
    ev->cat = ev->name = ev->id = ev->args = (struct span){ "", 0 };
}

/* Handles escapes and unusual JSON. */
static bool parse_slow(const char *text, size_t len, struct kineto_scratch *scratch,
                       struct kineto_event *ev) {
    struct json_pull j;
    json_pull_memory(&j, text, len);
    start_event(ev);
    scratch->used = 0;
    if (json_pull_next(&j) != JSON_OBJECT) return false;
    for (;;) {
        enum json_token tok = json_pull_next(&j);
        if (tok == JSON_OBJECT_END) break;
        if (tok != JSON_KEY) return false;
        enum field field = field_of(j.text, j.len);
        tok = json_pull_raw(&j);
        if (tok <= JSON_END) return false;
        if (tok == JSON_OBJECT && field == FIELD_ARGS)
            ev->args = (struct span){ j.text, j.len };
        else if (tok == JSON_OBJECT && field == FIELD_ID)
            ev->id = (struct span){ j.text, j.len };
        else if (tok == JSON_STRING || tok == JSON_NUMBER)
            take_scalar(ev, field, keep(scratch, &j), tok == JSON_STRING);
        else
            ev->bad_number |= field == FIELD_TS || field == FIELD_DUR;
    }
    ev->cut_text = j.cut_texts > 0;
    return true;
}

/* Returns false if the event has escapes or unusual JSON: parse_slow() is used then. */
static bool parse_fast(const char *text, size_t len, struct kineto_event *ev) {
    struct json_members m = { .p = text, .end = text + len };
    enum json_members_result rc;
    start_event(ev);
    while ((rc = json_members_next(&m)) == JSON_MEMBERS_ONE) {
        enum field field = field_of(m.key, m.key_len);
        struct span value = { m.value, m.value_len };
        if (field == FIELD_OTHER) continue;
        if (m.kind == '{' && field == FIELD_ARGS) {
            ev->args = value;
            continue;
        }
        bool number = m.kind == '0' && (*m.value == '-' || (*m.value >= '0' && *m.value <= '9'));
        if ((m.kind != '"' && !number) || value.n > JSON_TEXT_MAX) return false;
        take_scalar(ev, field, value, m.kind == '"');
    }
    return rc == JSON_MEMBERS_END && m.p == m.end;
}

bool kineto_event_parse(const char *text, size_t len, struct kineto_scratch *scratch,
                        struct kineto_event *ev) {
    if (!parse_fast(text, len, ev) && !parse_slow(text, len, scratch, ev)) return false;
    ev->category = category_of(ev->cat);
    return true;
}
