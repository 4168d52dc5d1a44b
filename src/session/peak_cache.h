/* Cache files of measured peaks, in $XDG_CACHE_HOME/inferprof or ~/.cache/inferprof: one JSON object with one
 * list, one row per device. */
#ifndef SESSION_PEAK_CACHE_H
#define SESSION_PEAK_CACHE_H

#include <jansson.h>
#include <stdbool.h>

/* Returns the path of a cache file, for example "cpu-peak.json". The caller frees it. NULL: XDG_CACHE_HOME
 * is not an absolute path, and HOME is not set. */
char *peak_cache_path(const char *file);
/* Returns the whole file; NULL if it does not exist or is not valid. The caller releases it with
 * json_decref. */
json_t *peak_cache_load(const char *path);
/* Writes `row` to the list and removes the rows for which same(old, row) is true. Takes ownership of row.
 * Returns false if the file cannot be written. */
bool peak_cache_replace(const char *path, const char *list, json_t *row,
                        bool (*same)(const json_t *old, const json_t *row));

#endif
