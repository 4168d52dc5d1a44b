/* The environment of a run: rows of group, key and value, for env.json and the report.
 *     struct env e = { 0 };
 *     env_capture(&e, inventory);           -- NULL: no NVML
 *     env_add(&e, "Software", "inferprof", "%s", version);
 *     env_json(&e, &out);
 *     env_free(&e); */
#ifndef SESSION_ENV_H
#define SESSION_ENV_H

#include <stddef.h>

#include "base/strbuf.h"
#include "session/nvml.h"

struct env_row {
    const char *group; /* borrowed */
    char *key, *value;
};

struct env {
    struct env_row *v;
    size_t n, cap;
};

void env_capture(struct env *e, const struct nvml_inventory *inventory);
/* Skips empty values: unknown values have no row. */
void env_add(struct env *e, const char *group, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void env_json(const struct env *e, struct strbuf *out); /* {"schema": ..., "group": {"key": "value"}} */
void env_free(struct env *e);

#endif
