#include "session/engine_env.h"

void engine_env(const struct settings *s, const struct device_choice *device, struct strlist *env) {
    const struct conf_node *given = s->engine.env;
    strlist_add(env, "CUDA_VISIBLE_DEVICES=%s", device->id);
    for (size_t i = 0; given && i < given->n; i++)
        if (given->v[i]->kind == CONF_SCALAR) strlist_add(env, "%s=%s", given->v[i]->key, given->v[i]->text);
}
