/* Finds models of the Hugging Face hub, such as "Qwen/Qwen3-8B", in the local cache. */
#ifndef SESSION_HUB_CACHE_H
#define SESSION_HUB_CACHE_H

#include <stdbool.h>

#include "base/err.h"

/* Returns true for ORG/NAME if it is not a path on this machine. */
bool hub_is_id(const char *text);
/* Returns the folder of the snapshot of the branch main, or of any snapshot if that one is missing. The
 * caller frees it. NULL: the model is not in the cache, and err contains the command that downloads it. */
char *hub_cache_find(const char *id, struct err *err);

#endif
