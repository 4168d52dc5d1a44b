/* What stands in a Kineto file beside its events: devices, place in a distributed job, versions. */
#ifndef IMPORT_KINETO_HEAD_H
#define IMPORT_KINETO_HEAD_H

#include <stddef.h>

#include "import/kineto.h"

/* One member of the top-level object. `text` is its value: an object or array as it stands, else resolved. */
void kineto_head_member(struct sink *sink, struct kineto_info *info, const char *key, const char *text,
                        size_t len);

#endif
