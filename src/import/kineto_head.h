/* Reads the members of a Kineto file other than events: devices, distributed job, versions. */
#ifndef IMPORT_KINETO_HEAD_H
#define IMPORT_KINETO_HEAD_H

#include <stddef.h>

#include "import/kineto.h"

/* Reads one member of the top-level object. `text`: its value, raw for objects and arrays, otherwise
 * decoded. */
void kineto_head_member(struct sink *sink, struct kineto_info *info, const char *key, const char *text,
                        size_t len);

#endif
