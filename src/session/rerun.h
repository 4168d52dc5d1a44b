/* Checks a run folder before its configuration is executed again: the folder may come from somebody else. */
#ifndef SESSION_RERUN_H
#define SESSION_RERUN_H

#include <stdbool.h>

#include "base/err.h"
#include "conf/node.h"

/* Fails if the configuration would run code that the folder chose: an engine.command that is not the one of a
 * built-in engine, a variable of engine.env that is not the user's own (LD_PRELOAD, PYTHONPATH), or
 * engine.load.trust_remote_code. Values from the command line are not checked. With `trusted`, fails only if
 * the folder belongs to another user. err names the command. */
int rerun_check(const char *folder, const struct conf_node *root, bool trusted, struct err *err);

#endif
