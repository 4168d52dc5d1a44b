/* Matches a name with a pattern of *, ?, [...] and backslash escapes, byte by byte. Unlike fnmatch(), it does
 * not depend on the program's locale and does not allocate memory. */
#ifndef COLLECT_GLOB_H
#define COLLECT_GLOB_H

#include <stdbool.h>

bool glob_match(const char *pattern, const char *text);

#endif
