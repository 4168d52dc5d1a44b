/* Keeps answers until the revision of the database changes. Thread-safe. */
#ifndef SERVE_HTTP_CACHE_H
#define SERVE_HTTP_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

struct http_cache;
struct http_cache *http_cache_open(size_t max_bytes);
void http_cache_close(struct http_cache *c);
/* Appends the body for this key and revision. Returns false if there is none. *type: a string constant. */
bool http_cache_get(struct http_cache *c, const char *key, int64_t revision, struct strbuf *out,
                    const char **type);
/* Stores an answer, unless it is larger than an eighth of max_bytes. May discard other answers. */
void http_cache_put(struct http_cache *c, const char *key, int64_t revision, const void *body, size_t n,
                    const char *type);

#endif
