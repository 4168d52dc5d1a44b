/* Checks a run folder before its configuration is executed again, because the folder may come from someone
 * else. */
#ifndef SESSION_RERUN_H
#define SESSION_RERUN_H

#include <stdbool.h>

#include "base/err.h"
#include "conf/node.h"

/* Fails if the configuration would run code chosen by the folder: an engine.command that differs from the
 * command of the built-in engine, a variable in engine.env that is not the user's own (LD_PRELOAD,
 * PYTHONPATH), or engine.load.trust_remote_code. Values from the command line are not checked. If `trusted`,
 * fails only if the folder or its config.yaml also belongs to another user. err describes the code. */
int rerun_check(const char *folder, const struct conf_node *root, bool trusted, struct err *err);

#endif
