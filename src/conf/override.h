/* One word of the command line: key=value, +key=value, ++key=value, ~key, ~key=value. */
#ifndef CONF_OVERRIDE_H
#define CONF_OVERRIDE_H

#include "base/err.h"
#include "conf/node.h"

enum conf_op {
    CONF_OP_SET,    /* key=value */
    CONF_OP_ADD,    /* +key=value: it must not be there yet */
    CONF_OP_FORCE,  /* ++key=value: either way */
    CONF_OP_DELETE, /* ~key */
};

struct conf_override {
    enum conf_op op;
    const char *word; /* as given; borrowed */
    char *key;
    const char *value; /* borrowed from word; NULL: none */
};

int conf_override_parse(const char *word, struct conf_override *out, struct err *err);
void conf_override_free(struct conf_override *o);

/* The value as a tree: [a, b] and {a: 1} and quotes are read as YAML, anything else is one scalar as it
 * stands. `is_text`: the key holds text, so that only quotes mean anything. NULL: err. */
struct conf_node *conf_override_value(const struct conf_override *o, bool is_text, struct err *err);

#endif
