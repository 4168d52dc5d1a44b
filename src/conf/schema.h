/* All keys of `inferprof profile`: type, bounds, meaning and the field of `struct settings` that each key
 * sets. Validation, --show-config and the table of docs/configuration.md all use this list. */
#ifndef CONF_SCHEMA_H
#define CONF_SCHEMA_H

#include <stdbool.h>

#include "base/strlist.h"
#include "conf/node.h"
#include "conf/settings.h"

enum schema_type {
    SCHEMA_TEXT,
    SCHEMA_PATH,   /* made absolute, except for the words in `choices` */
    SCHEMA_CHOICE, /* one of `choices` */
    SCHEMA_INT,
    SCHEMA_NUM,
    SCHEMA_BOOL,
    SCHEMA_LIST, /* list of texts; if `choices` is set, each text is one of them */
    SCHEMA_MAP,  /* map with any values; passed on to the engine */
};

struct schema_row {
    const char *key;
    enum schema_type type;
    bool optional; /* may be null; stored as NULL, NaN, -1 or false */
    size_t offset;
    double min, max; /* numbers; both 0: any */
    const char *choices;
    const char *help;
};

const struct schema_row *schema_rows(size_t *n);
/* Makes a path absolute: ~/x is in the home folder, other relative paths are in the current folder. The
 * caller frees it. */
char *schema_absolute_path(const char *path);
bool schema_is_text(const char *key); /* returns true for texts and paths, whose values are used literally */

/* Checks the whole tree and fills `out`; adds every error found to the list. Makes paths absolute in the
 * tree. */
void schema_apply(struct conf_node *root, struct settings *out, struct strlist *errors);

#endif
