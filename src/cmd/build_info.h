/* Version of this binary. */
#ifndef CMD_BUILD_INFO_H
#define CMD_BUILD_INFO_H

#include "base/strbuf.h"
#include "session/env.h"

const char *build_version(void); /* "0.1.0" */
/* Short hash, with "-dirty" if files were modified; "unknown" outside a checkout. */
const char *build_commit(void);
void build_info_text(struct strbuf *out); /* for --version */
void build_info_env(struct env *e);       /* for env.json */

#endif
