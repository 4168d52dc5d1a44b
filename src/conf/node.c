#include "conf/node.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/vec.h"

static struct conf_node *new_node(enum conf_kind kind) {
    struct conf_node *n = xcalloc(1, sizeof *n);
    n->kind = kind;
    return n;
}

struct conf_node *conf_map(void) {
    return new_node(CONF_MAP);
}
struct conf_node *conf_list(void) {
    return new_node(CONF_LIST);
}

struct conf_node *conf_scalar(const char *text, bool quoted) {
    struct conf_node *n = new_node(CONF_SCALAR);
    n->text = xstrdup(text);
    n->quoted = quoted;
    return n;
}

struct conf_node *conf_copy(const struct conf_node *n) {
    struct conf_node *c = new_node(n->kind);
    c->key = n->key ? xstrdup(n->key) : NULL;
    c->text = n->text ? xstrdup(n->text) : NULL;
    c->written = n->written ? xstrdup(n->written) : NULL;
    c->quoted = n->quoted;
    c->mark = n->mark;
    c->file = n->file;
    c->line = n->line;
    for (size_t i = 0; i < n->n; i++) vec_push(c, conf_copy(n->v[i]));
    return c;
}

void conf_node_free(struct conf_node *n) {
    if (!n) return;
    for (size_t i = 0; i < n->n; i++) conf_node_free(n->v[i]);
    free(n->v);
    free(n->key);
    free(n->text);
    free(n->written);
    free(n);
}

size_t conf_count(const struct conf_node *n) {
    size_t total = 1;
    for (size_t i = 0; i < n->n; i++) total += conf_count(n->v[i]);
    return total;
}

void conf_set_origin(struct conf_node *n, const char *file, unsigned line) {
    n->file = file;
    n->line = line;
    for (size_t i = 0; i < n->n; i++) conf_set_origin(n->v[i], file, line);
}

struct conf_node *conf_child(const struct conf_node *map, const char *key, size_t key_len) {
    if (map->kind != CONF_MAP) return NULL;
    for (size_t i = 0; i < map->n; i++)
        if (strncmp(map->v[i]->key, key, key_len) == 0 && map->v[i]->key[key_len] == '\0') return map->v[i];
    return NULL;
}

void conf_add(struct conf_node *parent, const char *key, struct conf_node *child) {
    char *name = key ? xstrdup(key) : NULL;
    free(child->key);
    child->key = name;
    vec_push(parent, child);
}

void conf_remove(struct conf_node *parent, const struct conf_node *child) {
    for (size_t i = 0; i < parent->n; i++) {
        if (parent->v[i] != child) continue;
        conf_node_free(parent->v[i]);
        memmove(parent->v + i, parent->v + i + 1, (parent->n - i - 1) * sizeof parent->v[0]);
        parent->n--;
        return;
    }
}

/* Replaces the child `old` by `with`, which gets the position and key of `old`. Frees `old`. */
static void replace(struct conf_node *parent, struct conf_node *old, struct conf_node *with) {
    for (size_t i = 0; i < parent->n; i++) {
        if (parent->v[i] != old) continue;
        char *key = old->key;
        old->key = NULL;
        conf_node_free(old);
        free(with->key);
        with->key = key;
        parent->v[i] = with;
        return;
    }
}

struct conf_node *conf_get(const struct conf_node *root, const char *path) {
    const struct conf_node *at = root;
    for (const char *p = path; at; p++) {
        size_t len = strcspn(p, ".");
        at = conf_child(at, p, len);
        p += len;
        if (!*p) break;
    }
    return (struct conf_node *)at;
}

/* Returns the map that contains the last component of the path, creating it if necessary. NULL: see err. */
static struct conf_node *holder(struct conf_node *root, const char *path, struct err *err) {
    struct conf_node *at = root;
    for (const char *p = path;; p++) {
        size_t len = strcspn(p, ".");
        if (len == 0) {
            err_set(err, "'%s' is not a valid key: empty part before or after a dot", path);
            return NULL;
        }
        if (!p[len]) return at;
        struct conf_node *next = conf_child(at, p, len);
        if (next && conf_is_null(next)) { /* model.path=... after `model: null` turns the value into a map */
            replace(at, next, conf_map());
            next = conf_child(at, p, len);
        }
        if (!next) {
            char *word = xstrndup(p, len);
            next = conf_map();
            conf_add(at, word, next);
            free(word);
        }
        if (next->kind != CONF_MAP) {
            err_set(err, "%s: %.*s is a value, not a group of keys", path, (int)(p + len - path), path);
            return NULL;
        }
        at = next;
        p += len;
    }
}

int conf_put(struct conf_node *root, const char *path, struct conf_node *value, struct err *err) {
    struct conf_node *in = holder(root, path, err);
    if (!in) {
        conf_node_free(value);
        return -1;
    }
    const char *dot = strrchr(path, '.'), *last = dot ? dot + 1 : path;
    struct conf_node *old = conf_child(in, last, strlen(last));
    if (old)
        replace(in, old, value);
    else
        conf_add(in, last, value);
    return 0;
}

bool conf_delete(struct conf_node *root, const char *path) {
    const char *dot = strrchr(path, '.');
    char *parent = dot ? xstrndup(path, (size_t)(dot - path)) : NULL;
    struct conf_node *in = parent ? conf_get(root, parent) : root;
    const char *last = dot ? dot + 1 : path;
    struct conf_node *old = in ? conf_child(in, last, strlen(last)) : NULL;
    if (old) conf_remove(in, old);
    free(parent);
    return old != NULL;
}

void conf_merge(struct conf_node *base, const struct conf_node *over) {
    for (size_t i = 0; i < over->n; i++) {
        const struct conf_node *theirs = over->v[i];
        struct conf_node *ours = conf_child(base, theirs->key, strlen(theirs->key));
        if (ours && ours->kind == CONF_MAP && theirs->kind == CONF_MAP)
            conf_merge(ours, theirs);
        else if (ours)
            replace(base, ours, conf_copy(theirs));
        else
            conf_add(base, theirs->key, conf_copy(theirs));
    }
}

bool conf_is_null(const struct conf_node *n) {
    if (n->kind != CONF_SCALAR || n->quoted) return false;
    return !n->text[0] || strcmp(n->text, "~") == 0 || strcasecmp(n->text, "null") == 0;
}

bool conf_as_bool(const struct conf_node *n, bool *out) {
    if (n->kind != CONF_SCALAR || n->quoted) return false;
    *out = strcasecmp(n->text, "true") == 0;
    return *out || strcasecmp(n->text, "false") == 0;
}

bool conf_as_int(const struct conf_node *n, int64_t *out) {
    if (n->kind != CONF_SCALAR || n->quoted) return false;
    const char *digits = n->text + (n->text[0] == '-' || n->text[0] == '+');
    bool hex = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
    if (digits[0] < '0' || digits[0] > '9') return false;
    char *end;
    errno = 0;
    long long v = strtoll(n->text, &end, hex ? 16 : 10);
    if (*end || errno) return false;
    *out = v;
    return true;
}

bool conf_as_num(const struct conf_node *n, double *out) {
    if (n->kind != CONF_SCALAR || n->quoted) return false;
    const char *p = n->text + (n->text[0] == '-' || n->text[0] == '+');
    if (!(*p >= '0' && *p <= '9') && *p != '.') return false; /* strtod would accept "nan" and "inf" */
    char *end;
    *out = strtod(n->text, &end);
    return !*end && isfinite(*out);
}

void conf_origin(const struct conf_node *n, struct strbuf *out) {
    strbuf_addstr(out, n->file ? n->file : "nowhere");
    if (n->line) strbuf_addf(out, ":%u", n->line);
}
