/* Finds the trace files behind a command line operand: a file itself, the files in trace/ of a run folder, or
 * the files in any other folder. A file that is already listed is not added again. */
#ifndef TRACE_READER_FILES_H
#define TRACE_READER_FILES_H

#include <stdbool.h>

#include "base/strlist.h"

/* Appends the paths; paths from a folder are sorted by name. Returns false for a folder without traces. */
bool trace_files_add(struct strlist *paths, const char *operand);

#endif
