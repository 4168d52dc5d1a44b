/* Finds models of the Hugging Face hub, such as "Qwen/Qwen3-8B", in the local cache. */
#ifndef SESSION_HUB_CACHE_H
#define SESSION_HUB_CACHE_H

#include <stdbool.h>

#include "base/err.h"

/* Returns true for ORG/NAME if it is not a path on this machine. */
bool hub_is_id(const char *text);
/* Returns the folder of the snapshot of the branch main, or of any other snapshot if main has no
 * config.json. The caller frees it. NULL: no snapshot has a config.json; err contains the command that
 * downloads the model. */
char *hub_cache_find(const char *id, struct err *err);

#endif
