#include "conf/interp.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/vec.h"

#define DEEPEST 40
#define MOST_BYTES (1u << 20) /* of all replacements together: ${a}${a} doubles at every step */

enum { UNSEEN, OPEN, DONE }; /* conf_node.mark */

struct interp {
    struct conf_node *root;
    uint64_t now_wall_ns;
    size_t bytes;
    int depth;
    struct err *err;
};

static int resolve(struct interp *in, struct conf_node *n);
static int expand(struct interp *in, const struct conf_node *at, const char *text, struct strbuf *out);

static int fail(struct interp *in, const struct conf_node *at, const char *fmt, const char *arg) {
    struct strbuf where = STRBUF_INIT;
    conf_origin(at, &where);
    err_set(in->err, fmt, arg);
    err_wrap(in->err, "%s", where.buf);
    strbuf_free(&where);
    return -1;
}

/* The length of "${...}" at p, braces balanced; 0: never closed. */
static size_t expression_length(const char *p) {
    int depth = 0;
    for (size_t i = 0; p[i]; i++) {
        if (p[i] == '$' && p[i + 1] == '{') {
            depth++;
            i++;
        } else if (p[i] == '}' && --depth == 0)
            return i + 1;
    }
    return 0;
}

static int from_env(struct interp *in, const struct conf_node *at, char *arg, struct strbuf *out) {
    char *comma = strchr(arg, ',');
    if (comma) *comma = '\0';
    const char *v = getenv(arg);
    if (!v && !comma) return fail(in, at, "the environment variable %s is not set", arg);
    strbuf_addstr(out, v ? v : comma + 1);
    return 0;
}

static int from_clock(struct interp *in, const char *format, struct strbuf *out) {
    char text[256];
    strbuf_addstr(out, clock_format(in->now_wall_ns, format, 0, text, sizeof text));
    return 0;
}

/* The node an expression names, resolved; NULL: err. */
static struct conf_node *target(struct interp *in, const struct conf_node *at, const char *key) {
    struct conf_node *to = *key ? conf_get(in->root, key) : NULL;
    if (!to) {
        fail(in, at, "${%s}: there is no such key", key);
        return NULL;
    }
    if (to->mark == OPEN) {
        fail(in, at, "${%s} leads back to itself", key);
        return NULL;
    }
    return resolve(in, to) < 0 ? NULL : to;
}

/* `inside` is what stands between the braces, with inner expressions already replaced. */
static int evaluate(struct interp *in, const struct conf_node *at, char *inside, struct strbuf *out) {
    char *colon = strchr(inside, ':');
    if (colon) {
        *colon = '\0';
        if (strcmp(inside, "now") == 0) return from_clock(in, colon + 1, out);
        if (strcmp(inside, "oc.env") == 0 || strcmp(inside, "env") == 0)
            return from_env(in, at, colon + 1, out);
        return fail(in, at, "${%s:...}: unknown; there are now and oc.env", inside);
    }
    const struct conf_node *to = target(in, at, inside);
    if (!to) return -1;
    if (to->kind != CONF_SCALAR)
        return fail(in, at, "${%s} is a group of values and cannot stand inside a text", inside);
    if (!conf_is_null(to))
        strbuf_addstr(out, to->text);
    else
        strbuf_addstr(out, "null");
    return 0;
}

static int expand_one(struct interp *in, const struct conf_node *at, const char *p, size_t len,
                      struct strbuf *out) {
    struct strbuf inside = STRBUF_INIT;
    char *raw = xstrndup(p + 2, len - 3);
    int rc = expand(in, at, raw, &inside);
    if (rc == 0) rc = evaluate(in, at, inside.buf, out);
    free(raw);
    strbuf_free(&inside);
    return rc;
}

static int expand(struct interp *in, const struct conf_node *at, const char *text, struct strbuf *out) {
    if (++in->depth > DEEPEST) return fail(in, at, "%s: nested too deeply", "${...}");
    int rc = 0;
    for (const char *p = text; *p && rc == 0;) {
        if (p[0] == '\\' && p[1] == '$' && p[2] == '{') {
            strbuf_addstr(out, "${");
            p += 3;
        } else if (p[0] == '$' && p[1] == '{') {
            size_t len = expression_length(p), before = out->len;
            if (!len) return fail(in, at, "%s is never closed with }", "${");
            rc = expand_one(in, at, p, len, out);
            in->bytes += out->len - before;
            if (rc == 0 && in->bytes > MOST_BYTES)
                rc = fail(in, at, "%s: the text grows too large", "${...}");
            p += len;
        } else {
            strbuf_addch(out, *p++);
        }
    }
    in->depth--;
    return rc;
}

/* "${key}" and nothing else takes the other value over as it is: its type, or a whole group. */
static int take_over(struct interp *in, struct conf_node *n, const char *key) {
    const struct conf_node *to = target(in, n, key);
    if (!to) return -1;
    in->bytes += conf_count(to) * 16;
    if (in->bytes > MOST_BYTES) return fail(in, n, "${%s}: the configuration grows too large", key);
    struct conf_node *copy = conf_copy(to);
    n->kind = copy->kind;
    n->quoted = copy->quoted;
    free(n->text);
    n->text = copy->text;
    n->v = copy->v;
    n->n = copy->n;
    n->cap = copy->cap;
    copy->text = NULL;
    copy->v = NULL;
    copy->n = 0;
    conf_node_free(copy);
    return 0;
}

static bool is_bare_reference(const char *text) {
    size_t len = strncmp(text, "${", 2) == 0 ? expression_length(text) : 0;
    return len && !text[len] && !strchr(text, ':') && !strstr(text + 2, "${");
}

static int resolve_scalar(struct interp *in, struct conf_node *n) {
    if (!strstr(n->text, "${")) return 0;
    char *written = xstrdup(n->text);
    int rc;
    if (is_bare_reference(written)) {
        char *key = xstrndup(written + 2, strlen(written) - 3);
        rc = take_over(in, n, key);
        free(key);
    } else {
        struct strbuf out = STRBUF_INIT;
        rc = expand(in, n, written, &out);
        free(n->text);
        n->text = strbuf_detach(&out);
        n->quoted =
            expression_length(written) != strlen(written); /* put together: a text, whatever it looks like */
    }
    free(n->written);
    n->written = written;
    return rc;
}

static int resolve(struct interp *in, struct conf_node *n) {
    if (n->mark == DONE) return 0;
    if (++in->depth > DEEPEST) return fail(in, n, "%s: too many steps from one key to the next", "${...}");
    n->mark = OPEN;
    int rc = n->kind == CONF_SCALAR ? resolve_scalar(in, n) : 0;
    for (size_t i = 0; i < n->n && rc == 0; i++) rc = resolve(in, n->v[i]);
    n->mark = DONE;
    in->depth--;
    return rc;
}

static void clear_marks(struct conf_node *n) {
    n->mark = UNSEEN;
    for (size_t i = 0; i < n->n; i++) clear_marks(n->v[i]);
}

int conf_interpolate(struct conf_node *root, uint64_t now_wall_ns, struct err *err) {
    struct interp in = { .root = root, .now_wall_ns = now_wall_ns, .err = err };
    clear_marks(root);
    return resolve(&in, root);
}

void conf_escape_references(struct conf_node *root) {
    for (size_t i = 0; i < root->n; i++) conf_escape_references(root->v[i]);
    if (root->kind != CONF_SCALAR || !strstr(root->text, "${")) return;
    struct strbuf out = STRBUF_INIT;
    for (const char *p = root->text; *p; p++) {
        if (p[0] == '$' && p[1] == '{') strbuf_addch(&out, '\\');
        strbuf_addch(&out, *p);
    }
    free(root->text);
    root->text = strbuf_detach(&out);
}
