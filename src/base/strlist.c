#include "base/strlist.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/vec.h"

void strlist_add(struct strlist *list, const char *fmt, ...) {
    struct strbuf s = STRBUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    strbuf_vaddf(&s, fmt, ap);
    va_end(ap);
    vec_push(list, strbuf_detach(&s));
}

bool strlist_has(const struct strlist *list, const char *text) {
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->v[i], text) == 0) return true;
    return false;
}

void strlist_free(struct strlist *list) {
    for (size_t i = 0; i < list->n; i++) free(list->v[i]);
    free(list->v);
    *list = (struct strlist){ 0 };
}
