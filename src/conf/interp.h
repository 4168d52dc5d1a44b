/* Interpolation of ${...} in values. ${other.key} is the value of another key (of any type if it is the whole
 * value), ${now:%Y%m%d} the time of the run, ${oc.env:NAME,default} an environment variable,
 * ${hydra:runtime.cwd} the current folder. \${ is a literal ${. Nesting (${a.${b}}) is supported; a circular
 * reference is an error. */
#ifndef CONF_INTERP_H
#define CONF_INTERP_H

#include <stdint.h>

#include "base/err.h"
#include "conf/node.h"

int conf_interpolate(struct conf_node *root, uint64_t now_wall_ns, struct err *err);

/* Escapes every ${ in a finished tree, so that the written file reads back unchanged. */
void conf_escape_references(struct conf_node *root);

#endif
