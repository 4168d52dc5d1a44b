#include "run/trace_facts.h"

#include <stdio.h>
#include <string.h>

#include "base/die.h"
#include "base/units.h"

const char *run_trace_device(const struct timeline *tl) {
    const char *named = NULL;
    for (size_t i = 0; tl && i < tl->ndevices; i++) {
        if (!tl->devices[i].name) continue;
        if (tl->devices[i].kernel_count) return timeline_text(tl, tl->devices[i].name);
        if (!named) named = timeline_text(tl, tl->devices[i].name);
    }
    return named;
}

char *run_trace_title(const struct timeline *tl, const char *otherwise) {
    const char *command = timeline_meta_value(tl, "process.command"), *device = run_trace_device(tl);
    const char *what = command && *command ? command : otherwise;
    return xasprintf("%.120s%s%s", what, device ? " on " : "", device ? device : "");
}

void run_add_warning(struct strlist *list, const char *line) {
    if (!strlist_has(list, line)) strlist_add(list, "%s", line);
}

void run_trace_warnings(const struct timeline *tl, struct strlist *list) {
    for (size_t i = 0; i < tl->nwarnings; i++) run_add_warning(list, timeline_text(tl, tl->warnings[i]));
    for (unsigned k = 0; k < TRACE_KIND_END; k++) {
        char count[40], line[160];
        if (!tl->lost[k]) continue;
        snprintf(line, sizeof line, "%s %s records were lost while recording",
                 units_grouped(tl->lost[k], count, sizeof count),
                 trace_kind_name(k) ? trace_kind_name(k) : "unknown");
        run_add_warning(list, line);
    }
}
