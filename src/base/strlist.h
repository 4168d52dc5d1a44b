/* Everything that is wrong, said at once: checks add to the list and go on.
 *     struct problems p = { 0 };
 *     problems_add(&p, "%s: no such folder", path);
 *     if (p.n) ...
 *     problems_free(&p); */
#ifndef BASE_PROBLEMS_H
#define BASE_PROBLEMS_H

#include <stddef.h>

struct problems {
    char **v;
    size_t n, cap;
};

void problems_add(struct problems *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void problems_free(struct problems *p);

#endif
