/* Finds configuration files: first in the folders given by the user, in order, then among the files built
 * into the program. Names are relative and have no ".yaml": "config", "model/embedded". */
#ifndef CONF_STORE_H
#define CONF_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/strbuf.h"

struct conf_builtin {
    const char *path; /* "model/embedded.yaml" */
    const char *text;
    size_t bytes;
};

/* everything under conf/ in the source tree */
const struct conf_builtin *conf_builtin_files(size_t *n);

struct conf_store {
    const char *const *dirs;
    size_t ndirs;
    const struct conf_builtin *builtin;
    size_t nbuiltin;
};

/* Appends the content of the file to `text` and its display name to `origin`. Returns 1 if it was read, 0 if
 * there is no such file, -1 on an error (see err). */
int conf_store_read(const struct conf_store *s, const char *name, struct strbuf *text, struct strbuf *origin,
                    struct err *err);
bool conf_store_is_group(const struct conf_store *s, const char *group);
/* Calls `each` once per choice of the group, sorted, without duplicates. */
void conf_store_choices(const struct conf_store *s, const char *group,
                        void (*each)(void *ctx, const char *choice), void *ctx);

#endif
