#include "session/rerun.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/die.h"
#include "base/file.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/strbuf.h"
#include "base/util.h"
#include "base/words.h"
#include "conf/compose.h"

/* Returns true if the value comes from the command line. Values of built-in files do not count, because
 * they can refer to values of the folder: engine.command of engine=hf starts with ${engine.python}. */
static bool is_typed(const struct conf_node *n) { return n->file && strcmp(n->file, CONF_COMMAND_LINE) == 0; }

static bool same_text(const struct conf_node *a, const struct conf_node *b) {
    return a && b && a->kind == CONF_SCALAR && b->kind == CONF_SCALAR && strcmp(a->text, b->text) == 0;
}

static bool same_list(const struct conf_node *a, const struct conf_node *b) {
    if (!a || !b || a->kind != CONF_LIST || b->kind != CONF_LIST || a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++)
        if (!same_text(a->v[i], b->v[i])) return false;
    return true;
}

/* Returns the configuration of the built-in engine with this name; NULL: there is none. */
static struct conf *compose_builtin(const char *engine) {
    char *word = xasprintf("engine=%s", engine);
    const char *words[] = { word };
    struct conf_request req = { .words = words, .nwords = 1 };
    struct err ignored;
    req.store.builtin = conf_builtin_files(&req.store.nbuiltin);
    struct conf *c = conf_compose(&req, &ignored);
    free(word);
    return c;
}

/* Returns true for a value that config.yaml takes from the user's environment, such as HF_TOKEN:
 * ${oc.env:HF_TOKEN}. */
static bool is_users_own(const struct conf_node *n) {
    char *own = xasprintf("${oc.env:%s}", n->key);
    bool yes = n->written && strcmp(n->written, own) == 0;
    free(own);
    return yes;
}

/* Settings that name no file. Others of the same libraries do: OMP_TOOL_LIBRARIES and INFERPROF_COLLECT_CUPTI
 * load the library that they name. */
static bool is_harmless(const char *name) {
    static const char *const names[] = {
        "INFERPROF_ISA", "INFERPROF_CUDA_MATH", "INFERPROF_CUDA_PRODUCTS", "OMP_NUM_THREADS",
        "OMP_DYNAMIC",   "OMP_PLACES",          "OMP_PROC_BIND",           "OMP_SCHEDULE",
        "OMP_STACKSIZE", "OMP_THREAD_LIMIT",    "OMP_WAIT_POLICY",         "OMP_MAX_ACTIVE_LEVELS",
    };
    return words_has(names, COUNTOF(names), name);
}

/* Returns the first environment variable that the folder sets to a value of its own; NULL: none. Values of
 * the built-in engine, the user's own values and harmless settings are allowed. */
static const char *foreign_variable(const struct conf_node *env, const struct conf_node *builtin) {
    for (size_t i = 0; env && i < env->n; i++) {
        const struct conf_node *n = env->v[i];
        const struct conf_node *own = builtin ? conf_child(builtin, n->key, strlen(n->key)) : NULL;
        if (!is_typed(n) && !is_harmless(n->key) && !same_text(n, own) && !is_users_own(n)) return n->key;
    }
    return NULL;
}

/* Returns a value such as "owner/name" in engine.load.attn_implementation, which may be a map of the parts of
 * the model: a repository of kernels, which transformers loads and runs. NULL: none. */
static const char *foreign_repository(const struct conf_node *attention) {
    if (!attention || is_typed(attention)) return NULL;
    if (attention->kind == CONF_SCALAR) return strchr(attention->text, '/') ? attention->text : NULL;
    const char *found = NULL;
    for (size_t i = 0; i < attention->n && !found; i++) found = foreign_repository(attention->v[i]);
    return found;
}

/* Returns the interpreter if the folder sets another one than the built-in engine has; NULL otherwise. The
 * check of a dry run starts it without engine.command. */
static const char *foreign_python(const struct conf_node *root, const struct conf_node *builtin) {
    const struct conf_node *python = conf_get(root, "engine.python"),
                           *own = builtin ? conf_get(builtin, "engine.python") : NULL;
    if (!python || is_typed(python) || conf_is_null(python) || same_text(python, own)) return NULL;
    return python->kind == CONF_SCALAR ? python->text : "?";
}

static void add_command(const struct conf_node *command, struct strbuf *out) {
    struct strbuf words = STRBUF_INIT;
    for (size_t i = 0; i < command->n; i++) {
        if (i) strbuf_addch(&words, ' ');
        if (command->v[i]->kind == CONF_SCALAR) strbuf_add_shell_word(&words, command->v[i]->text);
    }
    secret_mask(words.buf);
    strbuf_addf(out, "runs the program: %s", words.buf);
    strbuf_free(&words);
}

/* Appends a description of the code that the folder would run: its own engine.command or engine.python, a
 * foreign variable, the code of the model (trust_remote_code) or of a repository. Appends nothing if there is
 * no such code. */
static void describe_foreign_code(const struct conf_node *root, struct strbuf *out) {
    const struct conf_node *command = conf_get(root, "engine.command"), *name = conf_get(root, "engine.name"),
                           *trust = conf_get(root, "engine.load.trust_remote_code");
    struct conf *c = name && name->kind == CONF_SCALAR ? compose_builtin(name->text) : NULL;
    const struct conf_node *builtin = c ? conf_root(c) : NULL;
    const char *variable =
        foreign_variable(conf_get(root, "engine.env"), builtin ? conf_get(builtin, "engine.env") : NULL);
    bool allowed = true; /* the worker takes every value as "true" that is not false, 0 or null in JSON */
    const char *python = foreign_python(root, builtin),
               *repository = foreign_repository(conf_get(root, "engine.load.attn_implementation"));
    if (command && !is_typed(command) &&
        !(builtin && same_list(command, conf_get(builtin, "engine.command"))))
        add_command(command, out);
    else if (python)
        strbuf_addf(out, "runs the program: %s (engine.python)", python);
    if (variable) strbuf_addf(out, "%ssets engine.env.%s", out->len ? "; it " : "", variable);
    if (trust && !is_typed(trust) && !conf_is_null(trust) && (!conf_as_bool(trust, &allowed) || allowed))
        strbuf_addf(out, "%sruns the code in the model's folder (trust_remote_code)",
                    out->len ? "; it " : "");
    if (repository)
        strbuf_addf(out, "%sruns the code of %s (attn_implementation)", out->len ? "; it " : "", repository);
    conf_close(c);
}

static bool belongs_to_user(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && st.st_uid == geteuid();
}

int rerun_check(const char *folder, const struct conf_node *root, bool trusted, struct err *err) {
    struct strbuf code = STRBUF_INIT;
    char *config = file_join(folder, "config.yaml");
    int rc = 0;
    describe_foreign_code(root, &code);
    if (code.len && !(belongs_to_user(folder) && belongs_to_user(config)))
        rc = err_set(err, "%s belongs to another user and %s; read its config.yaml, then use your own copy",
                     folder, code.buf);
    else if (code.len && !trusted)
        rc = err_set(err, "%s %s; add --trust to run it", folder, code.buf);
    else if (code.len)
        log_info("%s %s", folder, code.buf);
    strbuf_free(&code);
    free(config);
    return rc;
}
