/* Version and build information of this binary. */
#ifndef CMD_BUILD_INFO_H
#define CMD_BUILD_INFO_H

#include "base/strbuf.h"
#include "session/env.h"

const char *build_version(void); /* "0.1.0" */
const char *build_commit(void);  /* short hash, with "-dirty" if modified; "unknown" outside a checkout */
void build_info_text(struct strbuf *out); /* for --version */
void build_info_env(struct env *e);       /* the same for env.json */

#endif
