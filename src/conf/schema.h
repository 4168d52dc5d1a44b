/* Every key of `inferprof profile`: its type, its bounds, what it means, and the field of `struct
 * settings` it fills. The one list behind checking, --show-config, and the table of docs/configuration.md. */
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
    SCHEMA_LIST, /* of texts; each one of `choices` where given */
    SCHEMA_MAP,  /* of anything: passed on to the engine */
};

struct schema_row {
    const char *key;
    enum schema_type type;
    bool optional; /* may be null: NULL, NaN or -1 */
    size_t offset;
    double min, max; /* numbers; both 0: any */
    const char *choices;
    const char *help;
};

const struct schema_row *schema_rows(size_t *n);
const struct schema_row *schema_find(const char *key); /* NULL: unknown; keys inside a MAP find the map */
bool schema_is_text(const char *key);                  /* text or path: a value is taken as it stands */

/* Checks the whole tree and fills `out`; adds every problem found. Makes paths absolute in the tree. */
void schema_apply(struct conf_node *root, struct settings *out, struct strlist *problems);

#endif
