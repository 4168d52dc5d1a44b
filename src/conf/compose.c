#include "conf/compose.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/file.h"
#include "base/intern.h"
#include "base/suggest.h"
#include "base/util.h"
#include "base/vec.h"
#include "conf/interp.h"
#include "conf/override.h"
#include "conf/schema.h"
#include "conf/yaml.h"

#define MAX_FILE_BYTES (1u << 20)
#define MAX_DEFAULTS_DEPTH 8
#define MAX_FILES 200u
#define SELF "_self_"

/* One entry of a defaults list, such as "- model: embedded". The group _self_ is the file itself. */
struct choice {
    char *group;
    char *name;        /* NULL: the group is not used */
    const char *where; /* file or CONF_COMMAND_LINE; borrowed */
};

struct choices {
    struct choice *v;
    size_t n, cap;
};

struct conf {
    struct conf_store store;
    struct intern *files; /* file names that nodes borrow */
    struct conf_node *root;
    struct choices choices;
    size_t merges; /* group files read so far */
};

struct conf_node *conf_root(struct conf *c) {
    return c->root;
}

static void choices_free(struct choices *list) {
    for (size_t i = 0; i < list->n; i++) {
        free(list->v[i].group);
        free(list->v[i].name);
    }
    free(list->v);
}

void conf_close(struct conf *c) {
    if (!c) return;
    conf_node_free(c->root);
    intern_close(c->files);
    choices_free(&c->choices);
    free(c);
}

static const char *keep_name(struct conf *c, const char *name) {
    return intern_text(c->files, intern_str(c->files, name));
}

static struct choice *find_choice(struct choices *list, const char *group) {
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->v[i].group, group) == 0) return &list->v[i];
    return NULL;
}

static void set_choice(struct choices *list, const char *group, const char *name, const char *where) {
    struct choice *old = find_choice(list, group);
    if (!old) {
        vec_push(list, ((struct choice){ .group = xstrdup(group) }));
        old = &list->v[list->n - 1];
    }
    free(old->name);
    old->name = name ? xstrdup(name) : NULL;
    old->where = where;
}

/* ---- Reading files */

static struct conf_node *parse_map(struct conf *c, const char *text, size_t n, const char *name,
                                   struct err *err) {
    const char *file = keep_name(c, name);
    struct conf_node *tree = conf_yaml_parse(text, n, file, err);
    if (tree && tree->kind != CONF_MAP) {
        err_set(err, "%s: expected 'key: value' lines", file);
        conf_node_free(tree);
        return NULL;
    }
    return tree;
}

/* Returns the package of a "# @package _global_" comment at the top of the file; NULL: none. The caller
 * frees it. */
static char *package_line(const char *text) {
    for (const char *p = text; *p == '#' || *p == '\n'; p++) {
        const char *at = p + 1 + strspn(p + 1, " \t");
        if (*p == '#' && strncmp(at, "@package", 8) == 0) {
            at += 8 + strspn(at + 8, " \t");
            return xstrndup(at, strcspn(at, " \t\r\n"));
        }
        p += strcspn(p, "\n");
        if (!*p) break;
    }
    return NULL;
}

struct listing {
    struct strbuf *out;
    struct suggest near;
    char *best;
};

static void list_choice(void *ctx, const char *choice) {
    struct listing *l = ctx;
    const char *before = l->near.best;
    strbuf_addf(l->out, "%s%s", l->out->len ? ", " : "", choice);
    suggest_try(&l->near, choice);
    if (l->near.best != before) { /* copied, because the name is only valid during this call */
        free(l->best);
        l->near.best = l->best = xstrdup(choice);
    }
}

static int no_such_choice(const struct conf *c, const char *group, const struct choice *ch, struct err *err) {
    struct strbuf names = STRBUF_INIT;
    struct listing l = { .out = &names };
    suggest_start(&l.near, ch->name);
    conf_store_choices(&c->store, group, list_choice, &l);
    if (!names.len)
        err_set(err, "%s: unknown group '%s'", ch->where, group);
    else if (l.near.best)
        err_set(err, "%s: %s=%s: no such choice; did you mean %s? Choices: %s", ch->where, group, ch->name,
                l.near.best, names.buf);
    else
        err_set(err, "%s: %s=%s: no such choice; choices: %s%s", ch->where, group, ch->name, names.buf,
                strchr(ch->name, '/') ? ". To give a folder, use model.path=DIR or dataset.root=DIR" : "");
    free(l.best);
    strbuf_free(&names);
    return -1;
}

/* ---- Defaults lists */

/* Entries are "- group: name", "- group: null", "- optional group: name" and "- _self_". In a group file, "-
 * name" includes another file of the same group. `override group` means the same as `group`. */
static int read_default(struct conf *c, const struct conf_node *e, const char *inside, struct choices *list,
                        struct err *err) {
    const char *where = e->file;
    if (e->kind == CONF_SCALAR && strcmp(e->text, SELF) == 0) {
        set_choice(list, SELF, SELF, where);
        return 0;
    }
    if (e->kind == CONF_SCALAR && inside && e->text[0]) {
        vec_push(list,
                 ((struct choice){ .group = xstrdup(inside), .name = xstrdup(e->text), .where = where }));
        return 0;
    }
    if (e->kind != CONF_MAP || e->n != 1 || e->v[0]->kind != CONF_SCALAR)
        return err_set(err, "%s:%u: expected '- group: choice' in defaults", where, e->line);
    const char *group = e->v[0]->key;
    if (strncmp(group, "override ", 9) == 0) group += 9;
    if (strncmp(group, "optional ", 9) == 0) {
        struct strbuf text = STRBUF_INIT, origin = STRBUF_INIT;
        char *name = xasprintf("%s/%s", group += 9, e->v[0]->text);
        int rc = conf_store_read(&c->store, name, &text, &origin, err);
        free(name);
        strbuf_free(&text);
        strbuf_free(&origin);
        if (rc <= 0) return rc;
    }
    set_choice(list, group, conf_is_null(e->v[0]) ? NULL : e->v[0]->text, where);
    return 0;
}

/* Moves the entries of `defaults` from the tree to the list. If _self_ is not among them, it is added
 * first, so that the other entries override the file's own values. */
static int take_defaults(struct conf *c, struct conf_node *tree, const char *inside, struct choices *list,
                         struct err *err) {
    const struct conf_node *d = conf_child(tree, "defaults", 8);
    bool self = false;
    if (!d) {
        set_choice(list, SELF, SELF, "");
        return 0;
    }
    if (d->kind != CONF_LIST) return err_set(err, "%s:%u: defaults must be a list", d->file, d->line);
    for (size_t i = 0; i < d->n; i++)
        self |= d->v[i]->kind == CONF_SCALAR && strcmp(d->v[i]->text, SELF) == 0;
    if (!self) set_choice(list, SELF, SELF, "");
    for (size_t i = 0; i < d->n; i++)
        if (read_default(c, d->v[i], inside, list, err) < 0) return -1;
    conf_remove(tree, d);
    return 0;
}

/* Merges a tree into the configuration at `package`: a dotted path, or _global_ for the root. */
static int merge_at(struct conf *c, const char *package, const struct conf_node *tree, struct err *err) {
    if (strcmp(package, "_global_") == 0) {
        conf_merge(c->root, tree);
        return 0;
    }
    struct conf_node *at = conf_get(c->root, package);
    if (!at || at->kind != CONF_MAP) {
        if (conf_put(c->root, package, conf_map(), err) < 0) return -1;
        at = conf_get(c->root, package);
        at->file = tree->file;
    }
    conf_merge(at, tree);
    return 0;
}

static char *package_of(const char *group, const char *text) {
    char *package = package_line(text);
    if (package && strcmp(package, "_group_") != 0) return package;
    free(package);
    package = xstrdup(group);
    for (char *p = package; *p; p++)
        if (*p == '/') *p = '.';
    return package;
}

static int merge_group(struct conf *c, const char *group, const struct choice *ch, int depth,
                       struct err *err);

static int merge_file(struct conf *c, const char *group, const char *package, struct conf_node *tree,
                      int depth, struct err *err) {
    struct choices list = { 0 };
    int rc = take_defaults(c, tree, group, &list, err);
    for (size_t i = 0; i < list.n && rc == 0; i++) {
        if (strcmp(list.v[i].group, SELF) == 0)
            rc = merge_at(c, package, tree, err);
        else if (list.v[i].name)
            rc = merge_group(c, list.v[i].group, &list.v[i], depth + 1, err);
    }
    choices_free(&list);
    return rc;
}

static int merge_group(struct conf *c, const char *group, const struct choice *ch, int depth,
                       struct err *err) {
    if (depth > MAX_DEFAULTS_DEPTH || ++c->merges > MAX_FILES)
        return err_set(err, "%s: circular defaults", ch->where);
    struct strbuf text = STRBUF_INIT, origin = STRBUF_INIT;
    char *file = xasprintf("%s/%s", group, ch->name);
    int rc = conf_store_read(&c->store, file, &text, &origin, err);
    if (rc == 0) rc = no_such_choice(c, group, ch, err);
    struct conf_node *tree = rc > 0 ? parse_map(c, text.buf, text.len, origin.buf, err) : NULL;
    if (rc > 0 && !tree) rc = -1;
    if (rc > 0) {
        char *package = package_of(group, text.buf);
        rc = merge_file(c, group, package, tree, depth, err);
        free(package);
    }
    conf_node_free(tree);
    free(file);
    strbuf_free(&text);
    strbuf_free(&origin);
    return rc;
}

/* ---- Command line */

/* Returns true if the key is a group: the override then changes the list of choices. All other overrides
 * are applied later, as values. */
static bool names_a_group(const struct conf *c, const struct conf_override *o) {
    return !strchr(o->key, '.') && conf_store_is_group(&c->store, o->key);
}

static int apply_group_choice(struct conf *c, const struct conf_override *o, struct err *err) {
    bool chosen = find_choice(&c->choices, o->key) != NULL;
    if (o->op == CONF_OP_ADD && chosen)
        return err_set(err, "%s: group %s is already chosen; write %s=%s", o->word, o->key, o->key, o->value);
    bool none = o->op == CONF_OP_DELETE || strcmp(o->value, "null") == 0;
    set_choice(&c->choices, o->key, none ? NULL : o->value, CONF_COMMAND_LINE);
    return 0;
}

static int apply_value(struct conf *c, const struct conf_override *o, struct err *err) {
    const struct conf_node *old = conf_get(c->root, o->key);
    if (o->op == CONF_OP_DELETE) {
        if (!old) return err_set(err, "%s: cannot remove %s: no such key", o->word, o->key);
        if (o->value && (old->kind != CONF_SCALAR || strcmp(old->text, o->value) != 0))
            return err_set(err, "%s: %s has a different value", o->word, o->key);
        conf_delete(c->root, o->key);
        return 0;
    }
    if (o->op == CONF_OP_ADD && old)
        return err_set(err, "%s: %s already exists; write %s=%s", o->word, o->key, o->key, o->value);
    struct conf_node *v = conf_override_value(o, schema_is_text(o->key), err);
    return v ? conf_put(c->root, o->key, v, err) : -1;
}

/* Rejects overrides that other Hydra projects use but this program does not accept. The error message
 * contains the replacement. */
static int refuse_familiar(const struct conf_override *o, struct err *err) {
    static const struct {
        const char *key, *write;
    } rows[] = {
        { "model/", "model=deepseek_ocr (the choices: --show-config, docs/configuration.md)" },
        { "profiling/", "profiling=min, profiling=default or profiling=max" },
        { "dataset/", "dataset=omnidocbench, dataset=images, dataset=prompts or dataset=samples" },
        { "infer=", "its keys, as infer.max_new_tokens=64" },
        { "experiment=", "output.run_id=NAME to name the run" },
        { "use_flash_attn=", "+engine.load.attn_implementation=flash_attention_2" },
    };
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        const char *word = o->word + strspn(o->word, "+~");
        if (strncmp(word, rows[i].key, strlen(rows[i].key)) == 0)
            return err_set(err, "%s: not a setting here; write %s", o->word, rows[i].write);
    }
    return 0;
}

static int apply_overrides(struct conf *c, const struct conf_override *list, size_t n, struct err *err) {
    for (size_t i = 0; i < n; i++)
        if (refuse_familiar(&list[i], err) < 0) return -1;
    for (size_t i = 0; i < n; i++)
        if (!names_a_group(c, &list[i]) && apply_value(c, &list[i], err) < 0) return -1;
    return 0;
}

/* ---- Composition */

static struct conf_node *load_primary(struct conf *c, struct err *err) {
    struct strbuf text = STRBUF_INIT, origin = STRBUF_INIT;
    struct conf_node *tree = NULL;
    int rc = conf_store_read(&c->store, "config", &text, &origin, err);
    if (rc == 0) err_set(err, "no config.yaml in any configuration folder");
    if (rc > 0) tree = parse_map(c, text.buf, text.len, origin.buf, err);
    strbuf_free(&text);
    strbuf_free(&origin);
    return tree;
}

static struct conf_node *load_file(struct conf *c, const char *path, struct err *err) {
    if (!path) return conf_map();
    struct strbuf text = STRBUF_INIT;
    struct conf_node *tree = NULL;
    if (file_read(path, MAX_FILE_BYTES, &text, err) == 0) tree = parse_map(c, text.buf, text.len, path, err);
    strbuf_free(&text);
    return tree;
}

/* Combines the choices of config.yaml, --config FILE and the command line. Later ones take precedence. */
static int decide(struct conf *c, struct conf_node *primary, struct conf_node *file,
                  const struct conf_override *list, size_t n, struct err *err) {
    struct choices extra = { 0 };
    int rc = take_defaults(c, primary, NULL, &c->choices, err);
    if (rc == 0) rc = take_defaults(c, file, NULL, &extra, err);
    for (size_t i = 0; i < extra.n && rc == 0; i++)
        if (strcmp(extra.v[i].group, SELF) != 0)
            set_choice(&c->choices, extra.v[i].group, extra.v[i].name, extra.v[i].where);
    for (size_t i = 0; i < n && rc == 0; i++)
        if (names_a_group(c, &list[i])) rc = apply_group_choice(c, &list[i], err);
    choices_free(&extra);
    return rc;
}

static int compose_with(struct conf *c, const struct conf_request *req, const struct conf_override *list,
                        struct err *err) {
    struct conf_node *primary = load_primary(c, err);
    struct conf_node *file = primary ? load_file(c, req->file, err) : NULL;
    int rc = file ? decide(c, primary, file, list, req->nwords, err) : -1;
    for (size_t i = 0; i < c->choices.n && rc == 0; i++) {
        const struct choice *ch = &c->choices.v[i];
        if (strcmp(ch->group, SELF) == 0)
            conf_merge(c->root, primary);
        else if (ch->name)
            rc = merge_group(c, ch->group, ch, 0, err);
    }
    if (rc == 0) {
        conf_merge(c->root, file);
        rc = apply_overrides(c, list, req->nwords, err);
    }
    if (rc == 0) rc = conf_interpolate(c->root, req->now_wall_ns, err);
    conf_node_free(primary);
    conf_node_free(file);
    return rc;
}

struct conf *conf_compose(const struct conf_request *req, struct err *err) {
    struct conf *c = xcalloc(1, sizeof *c);
    struct conf_override *list = xcalloc(req->nwords + 1, sizeof *list);
    c->store = req->store;
    c->files = intern_open();
    c->root = conf_map();
    int rc = 0;
    for (size_t i = 0; i < req->nwords && rc == 0; i++)
        rc = conf_override_parse(req->words[i], &list[i], err);
    if (rc == 0) rc = compose_with(c, req, list, err);
    for (size_t i = 0; i < req->nwords; i++) conf_override_free(&list[i]);
    free(list);
    if (rc == 0) return c;
    conf_close(c);
    return NULL;
}

void conf_choices_text(const struct conf *c, struct strbuf *out) {
    for (size_t i = 0; i < c->choices.n; i++) {
        const struct choice *ch = &c->choices.v[i];
        if (strcmp(ch->group, SELF) != 0)
            strbuf_addf(out, "%s%s=%s", out->len ? " " : "", ch->group, ch->name ? ch->name : "null");
    }
}
