/* Files shipped with this program: helper programs, engines, the collector. They are executed, so they must
 * not come from a folder that another user can write to. */
#ifndef BASE_INSTALLED_H
#define BASE_INSTALLED_H

#include "base/err.h"

#define INSTALLED_BUILD_MARKER ".inferprof-build" /* written by the Makefile */

/* Searches ../lib/inferprof, then the folder of the program, both relative to the program's real path. If the
 * program is in a build folder (with INSTALLED_BUILD_MARKER), that folder is searched first and its two
 * parents last. Skips files that other users could have written. Returns the real path; caller frees. NULL:
 * err lists the searched and skipped paths. */
char *installed_find(const char *name, struct err *err);

/* For tests: `program` is the path of the program. */
char *installed_find_for(const char *program, const char *name, struct err *err);

#endif
