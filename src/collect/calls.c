#include "collect/calls.h"

#include "base/util.h"

static const struct call calls[] = {
#define X(class_, name, id_) { DOMAIN_RUNTIME, CALL_##class_, id_ },
    RUNTIME_CALLS(X) RUNTIME_CALLS_12(X) RUNTIME_CALLS_13(X)
#undef X
#define X(class_, name, id_) { DOMAIN_DRIVER, CALL_##class_, id_ },
        DRIVER_CALLS(X) DRIVER_CALLS_13(X)
#undef X
};

const struct call *calls_all(unsigned *n) {
    *n = COUNTOF(calls);
    return calls;
}
