/* One override on the command line: key=value, +key=value, ++key=value, ~key, ~key=value. */
#ifndef CONF_OVERRIDE_H
#define CONF_OVERRIDE_H

#include "base/err.h"
#include "conf/node.h"

enum conf_op {
    CONF_OP_SET,    /* key=value */
    CONF_OP_ADD,    /* +key=value: the key must be new */
    CONF_OP_FORCE,  /* ++key=value: the key may be new or existing */
    CONF_OP_DELETE, /* ~key, or ~key=value: the key must have this value */
};

struct conf_override {
    enum conf_op op;
    const char *word; /* as given; borrowed */
    char *key;
    const char *value; /* borrowed from word; NULL: none */
};

int conf_override_parse(const char *word, struct conf_override *out, struct err *err);
void conf_override_free(struct conf_override *o);

/* Returns the value as a tree: [a, b], {a: 1} and quotes are parsed as YAML, anything else is one literal
 * scalar. With `is_text` the key expects text, so only quotes are parsed. NULL: see err. */
struct conf_node *conf_override_value(const struct conf_override *o, bool is_text, struct err *err);

#endif
