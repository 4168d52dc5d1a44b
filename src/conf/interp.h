/* ${...} in values: ${other.key} is the value of another key (of any kind when it stands alone),
 * ${now:%Y%m%d} the time of the run, ${oc.env:NAME,otherwise} an environment variable. \${ is a plain ${.
 * Nested ones (${a.${b}}) work; a circle is an error that shows the way round. */
#ifndef CONF_INTERP_H
#define CONF_INTERP_H

#include <stdint.h>

#include "base/err.h"
#include "conf/node.h"

int conf_interpolate(struct conf_node *root, uint64_t now_wall_ns, struct err *err);

/* Makes every ${ of a finished tree plain text, so that it reads back as it is when it is written out. */
void conf_escape_references(struct conf_node *root);

#endif
