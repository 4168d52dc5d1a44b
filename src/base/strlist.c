#include "base/problems.h"

#include <stdarg.h>
#include <stdlib.h>

#include "base/strbuf.h"
#include "base/vec.h"

void problems_add(struct problems *p, const char *fmt, ...) {
    struct strbuf s = STRBUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    strbuf_vaddf(&s, fmt, ap);
    va_end(ap);
    vec_push(p, strbuf_detach(&s));
}

void problems_free(struct problems *p) {
    for (size_t i = 0; i < p->n; i++) free(p->v[i]);
    free(p->v);
    *p = (struct problems){ 0 };
}
