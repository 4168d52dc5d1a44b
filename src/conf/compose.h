/* Composes the configuration of a run, in the style of Hydra: config.yaml names a choice for each group in
 * its `defaults:` list. A file given with --config overrides choices and values, and the command line
 * overrides both files: group=choice, key.path=value.
 *     struct conf *c = conf_compose(&request, &err);
 *     conf_root(c)        -- interpolated; every node has its origin
 *     conf_close(c);
 * schema.h defines the valid keys and their values. */
#ifndef CONF_COMPOSE_H
#define CONF_COMPOSE_H

#include <stdint.h>

#include "base/err.h"
#include "base/strbuf.h"
#include "conf/node.h"
#include "conf/store.h"

struct conf_request {
    struct conf_store store;
    const char *file;         /* from --config; NULL: none */
    const char *const *words; /* command-line overrides: key=value, group=choice, ... */
    size_t nwords;
    uint64_t now_wall_ns; /* for ${now:...} */
};

struct conf;
struct conf *conf_compose(const struct conf_request *req, struct err *err);
void conf_close(struct conf *c);
struct conf_node *conf_root(struct conf *c);
void conf_choices_text(const struct conf *c, struct strbuf *out); /* "model=embedded dataset=samples ..." */

#endif
