/* Configuration as a tree: maps in the order they were written, lists, and scalars kept as text. What a
 * scalar means (number, truth, nothing) is asked when it is needed. Every node remembers where it was said.
 *     struct conf_node *root = conf_map();
 *     conf_put(root, "infer.top_p", conf_scalar("0.9", false), &err);
 *     conf_get(root, "infer.top_p")->text
 *     conf_node_free(root);
 * `file` is borrowed and must outlive the tree. */
#ifndef CONF_NODE_H
#define CONF_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/strbuf.h"

enum conf_kind { CONF_SCALAR, CONF_LIST, CONF_MAP };

struct conf_node {
    enum conf_kind kind;
    char *key;        /* inside a map; else NULL */
    char *text;       /* scalars only */
    char *written;    /* what stood there before interpolation; NULL when nothing was replaced */
    bool quoted;      /* was in quotes: text, whatever it looks like */
    char mark;        /* for walks: see interp.c */
    const char *file; /* "conf/config.yaml", "command line"; NULL: nowhere */
    unsigned line;    /* 0: none */
    struct conf_node **v;
    size_t n, cap;
};

struct conf_node *conf_map(void);
struct conf_node *conf_list(void);
struct conf_node *conf_scalar(const char *text, bool quoted);
struct conf_node *conf_copy(const struct conf_node *n); /* with origins */
void conf_node_free(struct conf_node *n);               /* NULL is fine */
size_t conf_count(const struct conf_node *n);           /* nodes of the tree, itself included */
void conf_set_origin(struct conf_node *n, const char *file, unsigned line); /* the whole tree */

/* Children. conf_add takes the child over. */
struct conf_node *conf_child(const struct conf_node *map, const char *key, size_t key_len); /* or NULL */
void conf_add(struct conf_node *parent, const char *key, struct conf_node *child);
void conf_remove(struct conf_node *parent, const struct conf_node *child);

/* Dotted paths. Put makes the maps on the way, replaces what is there and takes `value` over in any case;
 * it fails where the path runs through something that is no map. */
struct conf_node *conf_get(const struct conf_node *root, const char *path);
int conf_put(struct conf_node *root, const char *path, struct conf_node *value, struct err *err);
bool conf_delete(struct conf_node *root, const char *path); /* false: was not there */

/* Lays `over` on `base`: maps unite key by key, anything else replaces. Takes nothing over. */
void conf_merge(struct conf_node *base, const struct conf_node *over);

/* What a scalar means, by the rules of YAML 1.2. False: it is not that. */
bool conf_is_null(const struct conf_node *n);
bool conf_as_bool(const struct conf_node *n, bool *out);
bool conf_as_int(const struct conf_node *n, int64_t *out); /* decimal, or 0x1f */
bool conf_as_num(const struct conf_node *n, double *out);  /* finite; whole numbers too */

void conf_origin(const struct conf_node *n, struct strbuf *out); /* "conf/config.yaml:7" */

#endif
