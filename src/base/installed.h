/* Files shipped with this program: helper programs, engines, the collector. They are executed, so they must
 * not come from a folder that another user can write to. */
#ifndef BASE_INSTALLED_H
#define BASE_INSTALLED_H

#include "base/err.h"

#define INSTALLED_BUILD_MARKER ".inferprof-build" /* written by the Makefile into the build folder */

/* Searches ../lib/inferprof, then the folder of the program, both relative to the program's real path. A
 * build folder (one with INSTALLED_BUILD_MARKER) is searched first, and its two parent folders last.
 *
 * Skips a file if it, or one of its folders up to the first that contains the program, is writable for all
 * users or belongs to a user other than root, the current user and the owner of the program. Returns the
 * real path; caller frees. NULL: not found, err lists what was searched or skipped. */
char *installed_find(const char *name, struct err *err);

/* The same with the path of the program as an argument; for tests. */
char *installed_find_for(const char *program, const char *name, struct err *err);

#endif
