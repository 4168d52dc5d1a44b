/* Converts YAML text to a configuration tree and back. Reading uses libyaml with limits: one document, no
 * duplicate keys, aliases are copied up to a total number of nodes, depth at most 32. Writing uses block
 * style. */
#ifndef CONF_YAML_H
#define CONF_YAML_H

#include "base/err.h"
#include "base/strbuf.h"
#include "conf/node.h"

/* Returns the tree; nodes have `file` (borrowed) and line as origin. An empty document is an empty map.
 * NULL: see err, which contains file and line. */
struct conf_node *conf_yaml_parse(const char *text, size_t n, const char *file, struct err *err);

enum conf_yaml_style {
    CONF_YAML_PLAIN,
    CONF_YAML_ORIGINS, /* adds "# conf/config.yaml:7" after every value */
};
void conf_yaml_write(const struct conf_node *root, enum conf_yaml_style style, struct strbuf *out);
void conf_yaml_scalar(const char *text, bool quoted, struct strbuf *out); /* quoted if necessary */

#endif
