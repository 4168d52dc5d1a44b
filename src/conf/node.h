/* Configuration tree: maps in file order, lists, and scalars kept as text. Scalars are converted (to number,
 * bool, null) on access. Every node stores its origin (file and line).
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

#define CONF_COMMAND_LINE "command line" /* origin of values given as arguments */

enum conf_kind { CONF_SCALAR, CONF_LIST, CONF_MAP };

struct conf_node {
    enum conf_kind kind;
    char *key;        /* key in a map; otherwise NULL */
    char *text;       /* scalars only */
    char *written;    /* text before interpolation; NULL: not interpolated */
    bool quoted;      /* the scalar was in quotes, so it is always text */
    char mark;        /* state while the tree is parsed (yaml.c) or interpolated (interp.c) */
    const char *file; /* "conf/config.yaml", CONF_COMMAND_LINE; NULL: unknown */
    unsigned line;    /* 0: none */
    struct conf_node **v;
    size_t n, cap;
};

struct conf_node *conf_map(void);
struct conf_node *conf_list(void);
struct conf_node *conf_scalar(const char *text, bool quoted);
struct conf_node *conf_copy(const struct conf_node *n);                     /* with origins */
void conf_node_free(struct conf_node *n);                                   /* accepts NULL */
size_t conf_count(const struct conf_node *n);                               /* including n itself */
void conf_set_origin(struct conf_node *n, const char *file, unsigned line); /* of the whole tree */

/* NULL: `map` has no such key, or is not a map */
struct conf_node *conf_child(const struct conf_node *map, const char *key, size_t key_len);
void conf_add(struct conf_node *parent, const char *key, struct conf_node *child); /* takes ownership */
void conf_remove(struct conf_node *parent, const struct conf_node *child);

/* Access by dotted path. conf_put creates intermediate maps, replaces an existing value and always takes
 * ownership of `value`, even on failure. It fails if the path has an empty part, or leads through a node that
 * is neither a map nor null. */
struct conf_node *conf_get(const struct conf_node *root, const char *path);
int conf_put(struct conf_node *root, const char *path, struct conf_node *value, struct err *err);
bool conf_delete(struct conf_node *root, const char *path); /* false: not found */

/* Merges `over` into `base`: maps are merged key by key, anything else is replaced. `over` is copied. */
void conf_merge(struct conf_node *base, const struct conf_node *over);

/* Scalar conversions, similar to YAML 1.2. Words may have upper case: True, NULL. The functions return
 * false if the scalar does not have that type. A quoted scalar is always text. */
bool conf_is_null(const struct conf_node *n);
bool conf_as_bool(const struct conf_node *n, bool *out);
bool conf_as_int(const struct conf_node *n, int64_t *out); /* decimal, or 0x1f */
bool conf_as_num(const struct conf_node *n, double *out);  /* finite; accepts integers too */

void conf_origin(const struct conf_node *n, struct strbuf *out); /* "conf/config.yaml:7" */

#endif
