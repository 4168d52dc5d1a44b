/* Models of the Hugging Face hub in the local cache: the folder of "Qwen/Qwen3-8B". */
#ifndef SESSION_HUB_CACHE_H
#define SESSION_HUB_CACHE_H

#include <stdbool.h>

#include "base/err.h"

/* True for ORG/NAME that is not a path on this machine. */
bool hub_is_id(const char *text);
/* The newest snapshot of the model; caller frees. NULL: it is not in the cache, and err has the command that
 * downloads it. */
char *hub_cache_find(const char *id, struct err *err);

#endif
