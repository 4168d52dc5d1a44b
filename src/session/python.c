#include "session/python.h"

#include <stdlib.h>

#include "base/die.h"
#include "base/tool.h"

int python_ask(const char *python, const char *script, double limit_s, struct strbuf *out, struct err *err) {
    char *whole = xasprintf("import sys; sys.path[:] = [p for p in sys.path if p]; %s", script);
    char *argv[] = { (char *)python, (char *)"-c", whole, NULL };
    int rc = tool_ask(argv, limit_s, out, err);
    free(whole);
    return rc;
}
