#include "conf/secrets.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/secret.h"
#include "base/util.h"
#include "conf/yaml.h"

#define ENGINE_ENV "engine.env."
#define REFERENCE "${oc.env:"

static void replace_by_variable(struct conf_node *n, const char *path) {
    struct strbuf out = STRBUF_INIT;
    strbuf_addstr(&out, REFERENCE);
    if (strncmp(path, ENGINE_ENV, strlen(ENGINE_ENV)) == 0) {
        strbuf_addstr(&out, path + strlen(ENGINE_ENV));
    } else {
        strbuf_addstr(&out, "INFERPROF_");
        for (const char *p = path; *p; p++)
            strbuf_addch(&out, (char)(isalnum((unsigned char)*p) ? toupper((unsigned char)*p) : '_'));
    }
    strbuf_addch(&out, '}');
    free(n->text);
    n->text = strbuf_detach(&out);
    n->quoted = true;
}

static bool is_reference(const char *text) { return strncmp(text, REFERENCE, strlen(REFERENCE)) == 0; }

/* A scalar is secret if its key is the name of a secret and its value is not true or false, or if masking
 * would change its text, as in a URL with a password. For engine.env, secret_is_env() decides too. */
static bool is_secret_scalar(const struct conf_node *n, const char *path) {
    if (conf_is_null(n) || is_reference(n->text)) return false;
    if (strncmp(path, ENGINE_ENV, strlen(ENGINE_ENV)) == 0 &&
        secret_is_env(path + strlen(ENGINE_ENV), n->text))
        return true;
    bool is_switch;
    if (n->key && secret_is_name(n->key, strlen(n->key))) return !conf_as_bool(n, &is_switch);
    char *copy = xstrdup(n->text);
    size_t len = strlen(copy), kept = secret_mask_args(copy, len);
    bool changed = kept != len || memcmp(copy, n->text, len) != 0;
    free(copy);
    return changed;
}

/* Returns true for an option such as `--token`, whose value is the next word of the list. */
static bool is_secret_option(const struct conf_node *n) {
    return n->kind == CONF_SCALAR && n->text[0] == '-' && !strchr(n->text, '=') &&
           secret_is_name(n->text, strlen(n->text));
}

static size_t hide_below(struct conf_node *n, struct strbuf *path) {
    size_t hidden = 0, len = path->len;
    for (size_t i = 0; i < n->n; i++) {
        struct conf_node *child = n->v[i];
        bool after_option = n->kind == CONF_LIST && i && is_secret_option(n->v[i - 1]);
        if (child->key)
            strbuf_addf(path, "%s%s", len ? "." : "", child->key);
        else
            strbuf_addf(path, "%s%zu", len ? "." : "", i);
        if (child->kind != CONF_SCALAR) {
            hidden += hide_below(child, path);
        } else if ((after_option && child->text[0] != '-' && !is_reference(child->text)) ||
                   is_secret_scalar(child, path->buf)) {
            replace_by_variable(child, path->buf);
            hidden++;
        }
        path->len = len;
        path->buf[len] = '\0';
    }
    return hidden;
}

size_t conf_hide_secrets(struct conf_node *root) {
    struct strbuf path = STRBUF_INIT;
    size_t hidden = hide_below(root, &path);
    strbuf_free(&path);
    return hidden;
}

void conf_hide_secrets_in_text(struct strbuf *yaml) {
    struct err ignored;
    struct conf_node *root = conf_yaml_parse(yaml->buf, yaml->len, "config.yaml", &ignored);
    if (root && conf_hide_secrets(root)) {
        strbuf_reset(yaml);
        conf_yaml_write(root, CONF_YAML_PLAIN, yaml);
    }
    conf_node_free(root);
}

void conf_missing_variables(const char *yaml, struct strbuf *out) {
    for (const char *p = yaml; (p = strstr(p, REFERENCE));) {
        p += strlen(REFERENCE);
        size_t n = strcspn(p, "},");
        char *name = xstrndup(p, n);
        if (p[n] == '}' && !getenv(name)) strbuf_addf(out, "%s%s", out->len ? ", " : "", name);
        free(name);
    }
}
