/* The configuration of a run, put together the way users of Hydra expect: config.yaml names a choice for each
 * group in its `defaults:` list, the command line changes choices (group=choice) and values (key.path=value),
 * and a file given with --config lies between the two.
 *     struct conf *c = conf_compose(&request, &err);
 *     conf_root(c)        -- interpolated; every node knows its origin
 *     conf_close(c);
 * What keys exist and what they may hold is schema.h's business. */
#ifndef CONF_COMPOSE_H
#define CONF_COMPOSE_H

#include <stdint.h>

#include "base/err.h"
#include "base/strbuf.h"
#include "conf/node.h"
#include "conf/store.h"

struct conf_request {
    struct conf_store store;
    const char *file;         /* --config; NULL: none */
    const char *const *words; /* key=value and the like */
    size_t nwords;
    uint64_t now_wall_ns; /* for ${now:...} */
};

struct conf;
struct conf *conf_compose(const struct conf_request *req, struct err *err);
void conf_close(struct conf *c);
struct conf_node *conf_root(struct conf *c);
void conf_choices_text(const struct conf *c, struct strbuf *out); /* "model=embedded dataset=samples ..." */

#endif
