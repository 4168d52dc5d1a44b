/* The folder of a run. It gets a unique name and contains a file INCOMPLETE until the run has finished, so
 * that folders left by a crash or a kill can be recognised. */
#ifndef SESSION_RUN_DIR_H
#define SESSION_RUN_DIR_H

#include <stdint.h>

#include "base/err.h"
#include "base/strlist.h"

#define RUN_DIR_MARKER "INCOMPLETE"
/* Default folder of runs, also in conf/output/default.yaml. */
#define RUN_DIR_ROOT "runs"

/* Returns a name such as "20260102-030405-model"; replaces characters that are not suitable for a file
 * name. The caller frees it. */
char *run_dir_default_id(uint64_t wall_ns, const char *model);
/* Creates <out>/<id> with its marker, or <out>/<id>-2 and so on if it already exists. The caller frees the
 * path; NULL: see err. */
char *run_dir_create(const char *out, const char *id, struct err *err);
int run_dir_complete(const char *dir, struct err *err);              /* removes the marker */
int run_dir_mark(const char *dir, const char *why, struct err *err); /* sets the text of the marker */
void run_dir_check(const char *out, uint64_t min_free_bytes, struct strlist *errors);
int run_dir_write(const char *dir, const char *name, const char *text, size_t n, struct err *err);

#endif
