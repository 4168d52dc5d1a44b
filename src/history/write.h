/* Writes one run with all its rows to the database. */
#ifndef HISTORY_WRITE_H
#define HISTORY_WRITE_H

#include "history/history.h"
#include "history/record.h"

/* Adds or replaces the run with this path, inside the caller's transaction. Adds a suffix if another run has
 * the name. *stored_name: the result; caller frees; may be NULL. */
int history_write(struct history *h, const char *path, const char *name, const struct run_record *r,
                  char **stored_name, struct err *err);
/* Updates SQLite's search index. `exists`: the index may contain the run. `remains`: the run was not
 * deleted. */
int history_write_text(struct history *h, int64_t id, bool exists, bool remains, struct err *err);

#endif
