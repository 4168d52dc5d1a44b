#include "cmd/stage_option.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/vec.h"

int stage_option_parse(const struct opt_list *in, struct stage_option *out, struct err *err) {
    for (size_t i = 0; i < in->n; i++) {
        const char *text = in->v[i], *equals = strchr(text, '=');
        if (!equals || equals == text || !equals[1])
            return err_set(err, "--stage: '%s' is not NAME=GLOB, as in --stage 'decode=step *'", text);
        struct analyze_rule rule = { xstrndup(text, (size_t)(equals - text)), equals + 1 };
        vec_push(out, rule);
    }
    return 0;
}

void stage_option_free(struct stage_option *rules) {
    for (size_t i = 0; i < rules->n; i++) free((char *)rules->v[i].stage);
    free(rules->v);
}
