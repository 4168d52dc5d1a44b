/* The environment variables that an engine gets for its device and from engine.env. */
#ifndef SESSION_ENGINE_ENV_H
#define SESSION_ENGINE_ENV_H

#include "base/strlist.h"
#include "conf/settings.h"
#include "session/device.h"

void engine_env(const struct settings *s, const struct device_choice *device, struct strlist *env);

#endif
