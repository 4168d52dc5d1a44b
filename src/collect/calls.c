#include "collect/calls.h"

#define X(class_, name, id_) [id_] = CALL_##class_,
static const uint8_t classes[CALLS_MAX_ID] = { CALLS_12_0(X) CALLS_12_8(X) CALLS_13_0(X) CALLS_13_1(X) };
#undef X

enum call_class call_class(uint32_t id) { return id < CALLS_MAX_ID ? classes[id] : CALL_NONE; }
