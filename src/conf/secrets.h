/* Keeps secrets out of a stored configuration. */
#ifndef CONF_SECRETS_H
#define CONF_SECRETS_H

#include "base/strbuf.h"
#include "conf/node.h"

/* Replaces every secret value (base/secret.h) by a reference to an environment variable, so that the
 * stored file can be run again: ${oc.env:HF_TOKEN} for engine.env.HF_TOKEN,
 * ${oc.env:INFERPROF_ENGINE_LOAD_TOKEN} for engine.load.token. Returns the number of replacements. */
size_t conf_hide_secrets(struct conf_node *root);

/* Like conf_hide_secrets(), for the text of a config.yaml that an older version wrote with secrets. The
 * text does not change if it contains no secrets or is not valid YAML. */
void conf_hide_secrets_in_text(struct strbuf *yaml);

/* Appends the names of environment variables that the text refers to without a default and that are not set,
 * separated by ", ". */
void conf_missing_variables(const char *yaml, struct strbuf *out);

#endif
