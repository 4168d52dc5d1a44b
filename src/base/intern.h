/* Interned strings: equal texts have the same id. Ids count from 0.
 *     struct intern *t = intern_open();
 *     uint32_t id = intern_id(t, name, len);      intern_text(t, id) -- NUL-terminated, lives until close
 * Ends the program or the guarded call when out of memory (alloc_guard.h). Not thread-safe. */
#ifndef BASE_INTERN_H
#define BASE_INTERN_H

#include <stddef.h>
#include <stdint.h>

#define INTERN_NONE UINT32_MAX

struct intern;
struct intern *intern_open(void);
void intern_close(struct intern *t);
uint32_t intern_id(struct intern *t, const char *text, size_t len);
uint32_t intern_str(struct intern *t, const char *text);
uint32_t intern_find(const struct intern *t, const char *text, size_t len); /* INTERN_NONE: not found */
const char *intern_text(const struct intern *t, uint32_t id);               /* NULL: no such id */
size_t intern_len(const struct intern *t, uint32_t id);
uint32_t intern_count(const struct intern *t);

#endif
