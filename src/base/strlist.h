/* A growing list of owned strings.
 *     struct strlist list = { 0 };
 *     strlist_add(&list, "%s: no such folder", path);
 *     for (size_t i = 0; i < list.n; i++) puts(list.v[i]);
 *     strlist_free(&list); */
#ifndef BASE_STRLIST_H
#define BASE_STRLIST_H

#include <stdbool.h>
#include <stddef.h>

struct strlist {
    char **v;
    size_t n, cap;
};

void strlist_add(struct strlist *list, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool strlist_has(const struct strlist *list, const char *text);
void strlist_free(struct strlist *list);

#endif
