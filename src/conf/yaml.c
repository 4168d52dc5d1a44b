#include "conf/yaml.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/die.h"
#include "base/utf8.h"
#include "base/vec.h"

#define MAX_DEPTH 32
#define MAX_NODES 20000u /* maximum number of values, including copies made for aliases */

struct anchor {
    char *name;
    struct conf_node *node; /* borrowed from the tree under construction */
};

struct reader {
    yaml_parser_t parser;
    const char *file;
    struct err *err;
    size_t nodes;
    struct {
        struct anchor *v;
        size_t n, cap;
    } anchors;
};

static int next_event(struct reader *r, yaml_event_t *e) {
    if (yaml_parser_parse(&r->parser, e)) return 0;
    const char *why = r->parser.problem ? r->parser.problem : "not YAML";
    return err_set(r->err, "%s:%zu: %s%s%s", r->file, r->parser.problem_mark.line + 1, why,
                   r->parser.context ? " " : "", r->parser.context ? r->parser.context : "");
}

static unsigned line_of(const yaml_event_t *e) { return (unsigned)e->start_mark.line + 1; }

static void add_anchor(struct reader *r, const yaml_char_t *anchor, struct conf_node *node) {
    if (anchor) vec_push(&r->anchors, ((struct anchor){ xstrdup((const char *)anchor), node }));
}

static struct conf_node *set_node_origin(struct reader *r, struct conf_node *n, unsigned line) {
    n->file = r->file;
    n->line = line;
    r->nodes++;
    return n;
}

static struct conf_node *read_alias(struct reader *r, const yaml_event_t *e) {
    const char *name = (const char *)e->data.alias.anchor;
    for (size_t i = r->anchors.n; i-- > 0;) {
        if (strcmp(r->anchors.v[i].name, name) != 0) continue;
        const struct conf_node *from = r->anchors.v[i].node;
        /* the alias refers to a node that is still open, so the value would contain itself */
        if (from->mark) {
            err_set(r->err, "%s:%u: *%s is inside &%s", r->file, line_of(e), name, name);
            return NULL;
        }
        r->nodes += conf_count(from);
        if (r->nodes > MAX_NODES) break;
        struct conf_node *copy = conf_copy(from);
        free(copy->key);
        copy->key = NULL;
        return copy;
    }
    if (r->nodes > MAX_NODES)
        err_set(r->err, "%s:%u: more than %u values", r->file, line_of(e), MAX_NODES);
    else
        err_set(r->err, "%s:%u: *%s has no &%s before it", r->file, line_of(e), name, name);
    return NULL;
}

static struct conf_node *read_value(struct reader *r, const yaml_event_t *e, int depth);

static struct conf_node *read_scalar(struct reader *r, const yaml_event_t *e) {
    if (strlen((const char *)e->data.scalar.value) != e->data.scalar.length) {
        err_set(r->err, "%s:%u: a value contains a NUL character", r->file, line_of(e));
        return NULL;
    }
    bool quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    struct conf_node *n =
        set_node_origin(r, conf_scalar((const char *)e->data.scalar.value, quoted), line_of(e));
    add_anchor(r, e->data.scalar.anchor, n);
    return n;
}

static int read_list_items(struct reader *r, struct conf_node *list, int depth) {
    for (;;) {
        yaml_event_t e;
        if (next_event(r, &e) < 0) return -1;
        bool end = e.type == YAML_SEQUENCE_END_EVENT;
        struct conf_node *item = end ? NULL : read_value(r, &e, depth + 1);
        yaml_event_delete(&e);
        if (end) return 0;
        if (!item) return -1;
        conf_add(list, NULL, item);
    }
}

static int read_map_item(struct reader *r, struct conf_node *map, const yaml_event_t *key, int depth) {
    const char *name = (const char *)key->data.scalar.value;
    if (key->type != YAML_SCALAR_EVENT || !*name || strlen(name) != key->data.scalar.length)
        return err_set(r->err, "%s:%u: a key must be a scalar", r->file, line_of(key));
    if (strchr(name, '.'))
        return err_set(r->err, "%s:%u: key '%s': write nested keys as nested maps", r->file, line_of(key),
                       name);
    if (conf_child(map, name, strlen(name)))
        return err_set(r->err, "%s:%u: duplicate key '%s'", r->file, line_of(key), name);
    yaml_event_t e;
    if (next_event(r, &e) < 0) return -1;
    struct conf_node *v = read_value(r, &e, depth + 1);
    yaml_event_delete(&e);
    if (!v) return -1;
    conf_add(map, name, v);
    return 0;
}

static int read_map_items(struct reader *r, struct conf_node *map, int depth) {
    for (;;) {
        yaml_event_t key;
        if (next_event(r, &key) < 0) return -1;
        bool end = key.type == YAML_MAPPING_END_EVENT;
        int rc = end ? 0 : read_map_item(r, map, &key, depth);
        yaml_event_delete(&key);
        if (end || rc < 0) return rc;
    }
}

static struct conf_node *read_collection(struct reader *r, const yaml_event_t *e, int depth) {
    bool is_map = e->type == YAML_MAPPING_START_EVENT;
    struct conf_node *n = set_node_origin(r, is_map ? conf_map() : conf_list(), line_of(e));
    add_anchor(r, is_map ? e->data.mapping_start.anchor : e->data.sequence_start.anchor, n);
    n->mark = 1;
    int rc = is_map ? read_map_items(r, n, depth) : read_list_items(r, n, depth);
    n->mark = 0;
    if (rc == 0) return n;
    conf_node_free(n);
    return NULL;
}

static struct conf_node *read_value(struct reader *r, const yaml_event_t *e, int depth) {
    if (depth > MAX_DEPTH || r->nodes > MAX_NODES) {
        err_set(r->err, "%s:%u: %s", r->file, line_of(e),
                depth > MAX_DEPTH ? "nested too deeply" : "too many values");
        return NULL;
    }
    switch (e->type) {
    case YAML_SCALAR_EVENT: return read_scalar(r, e);
    case YAML_ALIAS_EVENT: return read_alias(r, e);
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT: return read_collection(r, e, depth);
    default: err_set(r->err, "%s:%u: a value is missing", r->file, line_of(e)); return NULL;
    }
}

/* Parses STREAM-START [DOCUMENT-START value DOCUMENT-END] STREAM-END. */
static struct conf_node *document(struct reader *r) {
    struct conf_node *root = NULL;
    for (;;) {
        yaml_event_t e;
        if (next_event(r, &e) < 0) break;
        yaml_event_type_t type = e.type;
        bool bad = false;
        if (type == YAML_DOCUMENT_START_EVENT && root)
            bad = err_set(r->err, "%s:%u: a second document; expected one", r->file, line_of(&e)) < 0;
        else if (type != YAML_STREAM_START_EVENT && type != YAML_DOCUMENT_START_EVENT &&
                 type != YAML_DOCUMENT_END_EVENT && type != YAML_STREAM_END_EVENT)
            bad = !(root = read_value(r, &e, 0));
        yaml_event_delete(&e);
        if (bad) break;
        if (type == YAML_STREAM_END_EVENT) return root ? root : conf_map();
    }
    conf_node_free(root);
    return NULL;
}

struct conf_node *conf_yaml_parse(const char *text, size_t n, const char *file, struct err *err) {
    struct reader r = { .file = file, .err = err };
    if (!yaml_parser_initialize(&r.parser)) die("out of memory: YAML parser");
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, n);
    struct conf_node *root = document(&r);
    yaml_parser_delete(&r.parser);
    for (size_t i = 0; i < r.anchors.n; i++) free(r.anchors.v[i].name);
    free(r.anchors.v);
    return root;
}

/* ---- Writing */

#define MAX_SIMPLE_KEY 1000 /* YAML finds the colon after a key within 1024 characters */

static bool is_number(const char *text) {
    const struct conf_node n = { .kind = CONF_SCALAR, .text = (char *)text };
    double d;
    return conf_as_num(&n, &d);
}

/* Returns true if the text needs no quotes in YAML. A YAML reader may still give it another type, such as
 * number. */
static bool plain_safe(const char *text) {
    size_t n = strlen(text);
    if (n == 0 || strchr("-?:,[]{}#&*!|>'\"%@` \t=<", text[0]) || text[n - 1] == ' ' || text[n - 1] == ':')
        return text[0] == '-' && is_number(text);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c >= 0x7f || strchr(",[]{}\"", c)) return false;
        if (c == ':' && (text[i + 1] == ' ' || text[i + 1] == '\0')) return false;
        if (c == '#' && text[i - 1] == ' ') return false;
    }
    return true;
}

static bool looks_typed(const char *text) {
    const struct conf_node n = { .kind = CONF_SCALAR, .text = (char *)text };
    static const char *const words[] = { "yes", "no", "on", "off", "y", "n", ".inf", ".nan" }; /* YAML 1.1 */
    bool b;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(text, words[i]) == 0) return true;
    return conf_is_null(&n) || conf_as_bool(&n, &b) || is_number(text);
}

static void add_escape(uint32_t c, struct strbuf *out) {
    if (c == '\n')
        strbuf_addstr(out, "\\n");
    else
        strbuf_addf(out, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)c);
}

/* Adds the text with an escape for every character that YAML does not allow or takes for the end of a line,
 * and with a backslash before the characters of `special`. Bytes that are not UTF-8 are replaced. */
static void add_characters(const char *text, const char *special, struct strbuf *out) {
    for (const char *p = text, *end = text + strlen(text); p < end;) {
        const char *from = p;
        uint32_t c = utf8_next(&p, end);
        if (c == UTF8_BAD) {
            strbuf_addstr(out, UTF8_REPLACEMENT);
        } else if (utf8_is_unsafe(c) || c == 0xfffe || c == 0xffff) {
            add_escape(c, out);
        } else {
            if (strchr(special, *from)) strbuf_addch(out, '\\');
            strbuf_add(out, from, (size_t)(p - from));
        }
    }
}

void conf_yaml_scalar(const char *text, bool quoted, struct strbuf *out) {
    if (plain_safe(text) && !(quoted && looks_typed(text))) {
        strbuf_addstr(out, text);
        return;
    }
    if (!quoted && (!text[0] || strcmp(text, "~") == 0)) {
        strbuf_addstr(out, "null");
        return;
    }
    strbuf_addch(out, '"');
    add_characters(text, "\"\\", out);
    strbuf_addch(out, '"');
}

static void end_line(const struct conf_node *n, enum conf_yaml_style style, size_t from, struct strbuf *out) {
    if (style == CONF_YAML_ORIGINS && n) {
        size_t width = out->len - from;
        strbuf_addchars(out, ' ', width < 44 ? 44 - width : 2);
        struct strbuf origin = STRBUF_INIT;
        conf_origin(n, &origin);
        if (n->written) strbuf_addf(&origin, " as %s", n->written);
        strbuf_addstr(out, "# ");
        add_characters(origin.buf, "", out);
        strbuf_free(&origin);
    }
    strbuf_addch(out, '\n');
}

static void write_children(const struct conf_node *n, enum conf_yaml_style style, size_t indent,
                           struct strbuf *out);

/* Writes the value that follows "key:" or "-". */
static void write_value(const struct conf_node *n, enum conf_yaml_style style, size_t indent, size_t from,
                        struct strbuf *out) {
    if (n->kind != CONF_SCALAR && n->n) {
        strbuf_addch(out, '\n');
        write_children(n, style, indent + 2, out);
        return;
    }
    strbuf_addch(out, ' ');
    if (n->kind == CONF_SCALAR)
        conf_yaml_scalar(n->text, n->quoted, out);
    else
        strbuf_addstr(out, n->kind == CONF_MAP ? "{}" : "[]");
    end_line(n, style, from, out);
}

/* Writes "key:". A key that is too long for this becomes "? key", and the colon starts the next line. */
static void write_key(const char *key, size_t indent, struct strbuf *out) {
    struct strbuf text = STRBUF_INIT;
    conf_yaml_scalar(key, true, &text);
    bool is_long = text.len > MAX_SIMPLE_KEY;
    if (is_long) strbuf_addstr(out, "? ");
    strbuf_add(out, text.buf, text.len);
    if (is_long) {
        strbuf_addch(out, '\n');
        strbuf_addchars(out, ' ', indent);
    }
    strbuf_addch(out, ':');
    strbuf_free(&text);
}

static void write_children(const struct conf_node *n, enum conf_yaml_style style, size_t indent,
                           struct strbuf *out) {
    for (size_t i = 0; i < n->n; i++) {
        size_t from = out->len;
        strbuf_addchars(out, ' ', indent);
        if (n->kind == CONF_MAP)
            write_key(n->v[i]->key, indent, out);
        else
            strbuf_addch(out, '-');
        write_value(n->v[i], style, indent, from, out);
    }
}

void conf_yaml_write(const struct conf_node *root, enum conf_yaml_style style, struct strbuf *out) {
    if (root->kind == CONF_SCALAR)
        write_value(root, style, 0, out->len, out);
    else if (root->n == 0)
        strbuf_addstr(out, root->kind == CONF_MAP ? "{}\n" : "[]\n");
    else
        write_children(root, style, 0, out);
}
