#include "conf/override.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/utf8.h"
#include "conf/yaml.h"

#define ORIGIN CONF_COMMAND_LINE

int conf_override_parse(const char *word, struct conf_override *out, struct err *err) {
    *out = (struct conf_override){ .word = word };
    const char *key = word;
    if (!utf8_valid(word, strlen(word))) return err_set(err, "an argument is not valid UTF-8");
    if (strncmp(word, "++", 2) == 0) {
        out->op = CONF_OP_FORCE;
        key += 2;
    } else if (*word == '+') {
        out->op = CONF_OP_ADD;
        key++;
    } else if (*word == '~') {
        out->op = CONF_OP_DELETE;
        key++;
    }
    size_t n = strcspn(key, "=");
    if (key[n] == '=') out->value = key + n + 1;
    if (n == 0 || strcspn(key, " \t\n[]{}\"'$") < n)
        return err_set(err, "'%s': expected key=value, +key=value or ~key", word);
    if (!out->value && out->op != CONF_OP_DELETE)
        return err_set(err, "'%s': expected %s=VALUE (options start with --)", word, key);
    out->key = xstrndup(key, n);
    return 0;
}

void conf_override_free(struct conf_override *o) {
    free(o->key);
    o->key = NULL;
}

struct conf_node *conf_override_value(const struct conf_override *o, bool is_text, struct err *err) {
    const char *v = o->value, *structured = is_text ? "\"'" : "\"'[{";
    struct conf_node *n;
    if (*v && strchr(structured, *v)) {
        n = conf_yaml_parse(v, strlen(v), ORIGIN, err);
        if (!n) {
            err_wrap(err, "the value of %s", o->key);
            return NULL;
        }
    } else {
        n = conf_scalar(v, false);
    }
    conf_set_origin(n, ORIGIN, 0);
    return n;
}
