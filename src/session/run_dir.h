/* The folder of a run. It is made with a name nobody else has, and holds a file INCOMPLETE until the run says
 * that it is whole: a folder left by a crash or a kill says so itself. */
#ifndef SESSION_RUN_DIR_H
#define SESSION_RUN_DIR_H

#include <stdint.h>

#include "base/err.h"
#include "base/strlist.h"

#define RUN_DIR_MARKER "INCOMPLETE"

/* "20260102-030405-model", with what is not fit for a file name replaced. Caller frees. */
char *run_dir_default_id(uint64_t wall_ns, const char *model);
/* Makes <out>/<id>, or <out>/<id>-2 and so on when that is taken, with its marker. Caller frees; NULL:
 * err. */
char *run_dir_create(const char *out, const char *id, struct err *err);
int run_dir_complete(const char *dir, struct err *err);              /* takes the marker away */
int run_dir_mark(const char *dir, const char *why, struct err *err); /* what the marker says */
/* Can a run folder be made there, with so much room? */
void run_dir_check(const char *out, uint64_t min_free_bytes, struct strlist *problems);
int run_dir_write(const char *dir, const char *name, const char *text, size_t n, struct err *err);

#endif
