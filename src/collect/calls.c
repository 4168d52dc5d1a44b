#include "collect/calls.h"

#define CLASS(class_, name, id_) [id_] = CALL_##class_,
static const uint8_t classes[CALLS_MAX_ID] = { CALLS(CLASS) };

enum call_class call_class(uint32_t id) { return id < CALLS_MAX_ID ? classes[id] : CALL_NONE; }

#define NAME(class_, name, id_) [id_] = #name,
static const char *const names[CALLS_MAX_ID] = { CALLS(NAME) };

const char *call_name(uint32_t id) { return id < CALLS_MAX_ID && names[id] ? names[id] : "unknown"; }
