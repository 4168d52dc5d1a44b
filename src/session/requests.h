/* Builds requests to an engine (docs/engine.md) from the settings. The caller owns the result. */
#ifndef SESSION_REQUESTS_H
#define SESSION_REQUESTS_H

#include <jansson.h>

#include "conf/settings.h"
#include "session/dataset.h"

/* `device`: "cpu" or "cuda:0", as the engine sees it. */
json_t *request_load(const struct settings *s, const char *device);
/* If `detail` is not "none", `trace` is required: the output file for the records. */
json_t *request_infer(const struct settings *s, const struct dataset_item *item, int64_t max_new_tokens,
                      const char *detail, const char *trace);
json_t *request_warmup(const struct settings *s, const struct dataset_item *item, int64_t rounds);

#endif
