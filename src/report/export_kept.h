/* Reads the events that an import kept from a Chrome trace, in the order of the file.
 *     struct export_kept k;
 *     if (export_kept_open(&k, readers, path)) {
 *         while (export_kept_next(&k)) use(k.event, k.name, ...);
 *     }
 *     export_kept_close(&k); */
#ifndef REPORT_EXPORT_KEPT_H
#define REPORT_EXPORT_KEPT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"
#include "trace/reader_set.h"

struct export_kept {
    const struct trace_source_event *event;
    const char *category, *name, *pid_text, *tid_text; /* "": none */
    const char *args;                                  /* JSON object; "": none, or not valid */

    struct trace_set *readers; /* private from here on */
    struct trace_reader *reader;
    struct trace_batch batch;
    size_t chunk, row;
    struct strbuf text;
    signed char *valid; /* [string_end]: 1 valid, -1 not, 0 unchecked */
};

/* `readers` may be NULL. Returns false if there are no kept events. */
bool export_kept_open(struct export_kept *k, struct trace_set *readers, const char *path);
bool export_kept_next(struct export_kept *k);
void export_kept_close(struct export_kept *k);

#endif
