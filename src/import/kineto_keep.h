/* Keeps the events of a Chrome trace, so that `export --format chrome` writes the same category, name,
 * arguments and flows. */
#ifndef IMPORT_KINETO_KEEP_H
#define IMPORT_KINETO_KEEP_H

#include "base/strbuf.h"
#include "import/kineto_event.h"
#include "import/sink.h"

struct kineto_sources {
    struct sink *sink;
    struct strbuf text; /* scratch buffer */
    size_t text_bytes;  /* size of all different arguments */
    struct text_cache args;
};
void kineto_sources_init(struct kineto_sources *k, struct sink *sink);
void kineto_sources_free(struct kineto_sources *k);
void kineto_keep(struct kineto_sources *k, const struct kineto_event *ev, uint64_t start_ns);

#endif
