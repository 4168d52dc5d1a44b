#include "conf/interp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/vec.h"

#define MAX_DEPTH 40
#define MAX_BYTES (1u << 20) /* maximum total size of all replacements: ${a}${a} doubles at every step */

enum { UNSEEN, OPEN, DONE }; /* values of conf_node.mark */

struct interp {
    struct conf_node *root;
    uint64_t now_wall_ns;
    size_t bytes;
    int depth;
    struct err *err;
};

static int resolve_node(struct interp *in, struct conf_node *n);
static int expand(struct interp *in, const struct conf_node *at, const char *text, struct strbuf *out);

static int interp_error(struct interp *in, const struct conf_node *at, const char *fmt, const char *arg) {
    struct strbuf where = STRBUF_INIT;
    conf_origin(at, &where);
    err_set(in->err, fmt, arg);
    err_wrap(in->err, "%s", where.buf);
    strbuf_free(&where);
    return -1;
}

/* Returns the length of "${...}" at p, with balanced braces; 0: not closed. */
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

static int add_env(struct interp *in, const struct conf_node *at, char *arg, struct strbuf *out) {
    char *comma = strchr(arg, ',');
    if (comma) *comma = '\0';
    const char *v = getenv(arg);
    if (!v && !comma) return interp_error(in, at, "the environment variable %s is not set", arg);
    strbuf_addstr(out, v ? v : comma + 1);
    return 0;
}

static int add_time(struct interp *in, const char *format, struct strbuf *out) {
    char text[256];
    strbuf_addstr(out, clock_format(in->now_wall_ns, format, 0, text, sizeof text));
    return 0;
}

static int add_cwd(struct interp *in, const struct conf_node *at, struct strbuf *out) {
    char here[4096];
    if (!getcwd(here, sizeof here)) return interp_error(in, at, "${hydra:runtime.cwd}: %s", strerror(errno));
    strbuf_addstr(out, here);
    return 0;
}

/* Returns the resolved node that an expression refers to; NULL: see err. */
static struct conf_node *target(struct interp *in, const struct conf_node *at, const char *key) {
    struct conf_node *to = *key ? conf_get(in->root, key) : NULL;
    if (!to) {
        interp_error(in, at, "${%s}: no such key", key);
        return NULL;
    }
    if (to->mark == OPEN) {
        interp_error(in, at, "${%s} refers to itself", key);
        return NULL;
    }
    return resolve_node(in, to) < 0 ? NULL : to;
}

/* `inside` is the text between the braces, with inner expressions already replaced. */
static int evaluate(struct interp *in, const struct conf_node *at, char *inside, struct strbuf *out) {
    char *colon = strchr(inside, ':');
    if (colon) {
        *colon = '\0';
        if (strcmp(inside, "now") == 0) return add_time(in, colon + 1, out);
        if (strcmp(inside, "oc.env") == 0 || strcmp(inside, "env") == 0)
            return add_env(in, at, colon + 1, out);
        if (strcmp(inside, "hydra") == 0 && strcmp(colon + 1, "runtime.cwd") == 0)
            return add_cwd(in, at, out);
        return interp_error(in, at, "${%s:...}: unknown resolver; available: now, oc.env, hydra:runtime.cwd",
                            inside);
    }
    const struct conf_node *to = target(in, at, inside);
    if (!to) return -1;
    if (to->kind != CONF_SCALAR)
        return interp_error(in, at, "${%s} is a group of values and cannot be part of a text", inside);
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
    if (++in->depth > MAX_DEPTH) return interp_error(in, at, "%s: nested too deeply", "${...}");
    int rc = 0;
    for (const char *p = text; *p && rc == 0;) {
        if (p[0] == '\\' && p[1] == '$' && p[2] == '{') {
            strbuf_addstr(out, "${");
            p += 3;
        } else if (p[0] == '$' && p[1] == '{') {
            size_t len = expression_length(p), before = out->len;
            if (!len) return interp_error(in, at, "%s is not closed with }", "${");
            rc = expand_one(in, at, p, len, out);
            in->bytes += out->len - before;
            if (rc == 0 && in->bytes > MAX_BYTES)
                rc = interp_error(in, at, "%s: the text is too large", "${...}");
            p += len;
        } else {
            strbuf_addch(out, *p++);
        }
    }
    in->depth--;
    return rc;
}

/* A value that is only "${key}" becomes a copy of the value of that key, which may be a whole group. */
static int copy_value(struct interp *in, struct conf_node *n, const char *key) {
    const struct conf_node *to = target(in, n, key);
    if (!to) return -1;
    in->bytes += conf_count(to) * 16;
    if (in->bytes > MAX_BYTES) return interp_error(in, n, "${%s}: the configuration is too large", key);
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
        rc = copy_value(in, n, key);
        free(key);
    } else {
        struct strbuf out = STRBUF_INIT;
        rc = expand(in, n, written, &out);
        free(n->text);
        n->text = strbuf_detach(&out);
        /* a value assembled from parts is always text */
        n->quoted = expression_length(written) != strlen(written);
    }
    free(n->written);
    n->written = written;
    return rc;
}

static int resolve_node(struct interp *in, struct conf_node *n) {
    if (n->mark == DONE) return 0;
    if (++in->depth > MAX_DEPTH) return interp_error(in, n, "%s: too many references in a chain", "${...}");
    n->mark = OPEN;
    int rc = n->kind == CONF_SCALAR ? resolve_scalar(in, n) : 0;
    for (size_t i = 0; i < n->n && rc == 0; i++) rc = resolve_node(in, n->v[i]);
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
    return resolve_node(&in, root);
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
