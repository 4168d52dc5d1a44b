/* Which traces a user means: a file stands for itself, a run folder for those in its trace/, any other
 * folder for those in it. The same file twice is one. */
#ifndef TRACE_READER_FILES_H
#define TRACE_READER_FILES_H

#include <stdbool.h>

#include "base/strlist.h"

/* Appends the paths behind `operand`, a folder's sorted by name. False: a folder without traces. */
bool trace_files_add(struct strlist *paths, const char *operand);

#endif
