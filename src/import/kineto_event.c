#include "import/kineto_event.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/util.h"
#include "import/json_pull.h"

#define ID_IS_TEXT (1ull << 63)

void kineto_scratch_init(struct kineto_scratch *s) {
    s->cap = 8 * JSON_TEXT_MAX; /* name, cat, id, pid, tid and ph, each at its longest */
    s->buf = xmalloc(s->cap);
    s->used = 0;
}

void kineto_scratch_free(struct kineto_scratch *s) {
    free(s->buf);
    s->buf = NULL;
}

/* The last token's text, where it stays put. */
static struct span keep(struct kineto_scratch *s, const struct json_pull *j) {
    if (j->text != j->scratch) return (struct span){ j->text, j->len };
    size_t n = MIN(j->len, s->cap - s->used);
    memcpy(s->buf + s->used, j->text, n);
    s->used += n;
    return (struct span){ s->buf + s->used - n, n };
}

static const struct {
    const char *name;
    enum kineto_category category;
} category_names[] = {
    { "cpu_op", KINETO_OP },
    { "kernel", KINETO_KERNEL },
    { "cuda_runtime", KINETO_RUNTIME },
    { "python_function", KINETO_PYTHON },
    { "user_annotation", KINETO_USER },
    { "gpu_memcpy", KINETO_MEMCPY },
    { "gpu_memset", KINETO_MEMSET },
    { "gpu_user_annotation", KINETO_GPU_USER },
    { "cuda_driver", KINETO_DRIVER },
    { "cuda_sync", KINETO_SYNC },
    { "overhead", KINETO_OVERHEAD },
    { "Operator", KINETO_OP },
    { "Kernel", KINETO_KERNEL },
    { "Runtime", KINETO_RUNTIME },
    { "Memcpy", KINETO_MEMCPY },
    { "Memset", KINETO_MEMSET },
    { "hip_runtime", KINETO_RUNTIME },
    { "xpu_runtime", KINETO_RUNTIME },
    { "mtia_runtime", KINETO_RUNTIME },
    { "glow_runtime", KINETO_RUNTIME },
    { "privateuse1_runtime", KINETO_RUNTIME },
    { "xpu_driver", KINETO_DRIVER },
    { "privateuse1_driver", KINETO_DRIVER },
    { "Sync", KINETO_SYNC },
    { "Overhead", KINETO_OVERHEAD },
    { "Python", KINETO_PYTHON },
};

static enum kineto_category category_of(struct span cat) {
    if (!cat.n) return KINETO_NONE;
    for (size_t i = 0; i < COUNTOF(category_names); i++)
        if (strlen(category_names[i].name) == cat.n && memcmp(category_names[i].name, cat.p, cat.n) == 0)
            return category_names[i].category;
    return KINETO_OTHER;
}

/* The digits a text ends with: "stream 7" -> 7. */
static uint64_t trailing_number(const char *p, size_t n) {
    size_t from = n;
    uint64_t v;
    while (from > 0 && p[from - 1] >= '0' && p[from - 1] <= '9') from--;
    return json_to_u64(p + from, n - from, &v) ? v : UINT64_MAX;
}

static struct kineto_id id_of(const struct json_pull *j) {
    struct kineto_id id = { 0, UINT64_MAX };
    int64_t v;
    if (json_to_scaled(j->text, j->len, 0, &v)) { /* also texts that hold a number, and negative ones */
        id.key = (uint64_t)v & ~ID_IS_TEXT;
        if (v >= 0) id.number = (uint64_t)v;
    } else {
        id.key = hash_bytes(j->text, j->len) | ID_IS_TEXT;
        id.number = trailing_number(j->text, j->len);
    }
    return id;
}

static void take_time(struct kineto_event *ev, const struct json_pull *j, int64_t *out, bool *have) {
    *have = json_to_scaled(j->text, j->len, 3, out);
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

static void take_scalar(struct kineto_event *ev, struct kineto_scratch *scratch, const struct json_pull *j,
                        enum field field, enum json_token tok) {
    bool text = tok == JSON_STRING, number = tok == JSON_NUMBER;
    if (!text && !number) {
        ev->bad_number |= field == FIELD_TS || field == FIELD_DUR;
        return;
    }
    switch (field) {
    case FIELD_PH:
        if (text && j->len) ev->phase = j->text[0];
        break;
    case FIELD_CAT: ev->cat = keep(scratch, j); break;
    case FIELD_NAME: ev->name = keep(scratch, j); break;
    case FIELD_ID: ev->id = keep(scratch, j); break;
    case FIELD_PID: ev->pid = id_of(j); break;
    case FIELD_TID: ev->tid = id_of(j); break;
    case FIELD_TS: take_time(ev, j, &ev->ts_ns, &ev->has_ts); break;
    case FIELD_DUR: take_time(ev, j, &ev->dur_ns, &ev->has_dur); break;
    case FIELD_ARGS:
    case FIELD_OTHER: break;
    }
}

bool kineto_event_parse(const char *text, size_t len, struct kineto_scratch *scratch,
                        struct kineto_event *ev) {
    struct json_pull j;
    json_pull_memory(&j, text, len);
    memset(ev, 0, sizeof *ev);
    ev->pid.number = ev->tid.number = UINT64_MAX;
    scratch->used = 0;
    if (json_pull_next(&j) != JSON_OBJECT) return false;
    for (;;) {
        enum json_token tok = json_pull_next(&j);
        if (tok == JSON_OBJECT_END) break;
        if (tok != JSON_KEY) return false;
        enum field field = field_of(j.text, j.len);
        tok = json_pull_raw(&j);
        if (tok <= JSON_END) return false;
        if (tok == JSON_OBJECT && (field == FIELD_ARGS || field == FIELD_ID)) {
            if (field == FIELD_ARGS) ev->args = (struct span){ j.text, j.len };
            if (field == FIELD_ID) ev->id = (struct span){ j.text, j.len };
        } else {
            take_scalar(ev, scratch, &j, field, tok);
        }
    }
    ev->category = category_of(ev->cat);
    ev->cut_text = j.cut_texts > 0;
    return true;
}
