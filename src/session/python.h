/* Asks a Python interpreter a question. */
#ifndef SESSION_PYTHON_H
#define SESSION_PYTHON_H

#include "base/err.h"
#include "base/strbuf.h"

/* Runs the script and adds the last line that it prints to *out. `python -c` would import modules from the
 * current folder first, which may belong to another user; here it is not in sys.path. */
int python_ask(const char *python, const char *script, double limit_s, struct strbuf *out, struct err *err);

#endif
