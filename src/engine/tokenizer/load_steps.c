/* Converts the normalizer and the pre_tokenizer of a tokenizer.json to primitive steps, and the decoder to a
 * struct tok_decoder. Unsupported kinds are an error, because ignoring a step would silently change the ids
 * or the text. */
#include <stdlib.h>
#include <string.h>

#include "base/jsonr.h"
#include "base/die.h"
#include "base/util.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "engine/tokenizer/internal.h"

#define MAX_DEPTH 8 /* limit of nested Sequences */
#define GPT2_PATTERN "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define DEFAULT_MARK "\xe2\x96\x81" /* U+2581 */

struct loader {
    const char *where; /* "normalizer" or "pre_tokenizer" */
    struct tok_steps *out;
    struct err *err;
};

typedef int (*load_fn)(struct loader *l, json_t *node);
struct kind {
    const char *type;
    load_fn load;
};

const char *tok_json_type(json_t *node) {
    const char *type = json_string_value(json_object_get(node, "type"));
    return type ? type : "";
}

static bool flag_or(json_t *node, const char *key, bool otherwise) {
    json_t *v = json_object_get(node, key);
    return json_is_boolean(v) ? json_is_true(v) : otherwise;
}

static int bad(struct loader *l, json_t *node, const char *what) {
    return err_set(l->err, "%s \"%.40s\": %s", l->where, tok_json_type(node), what);
}

static void add_text_step(struct loader *l, enum tok_step_kind kind, const char *text, size_t n) {
    vec_push(l->out, ((struct tok_step){ .kind = kind, .text = xstrndup(text, n), .len = n }));
}

static int add_split(struct loader *l, struct tok_regex *re, enum tok_split split, bool invert) {
    if (!re) return err_wrap(l->err, "%s", l->where);
    vec_push(l->out,
             ((struct tok_step){ .kind = TOK_STEP_SPLIT, .re = re, .split = split, .invert = invert }));
    return 0;
}

static int add_pattern_split(struct loader *l, const char *pattern, enum tok_split split, bool invert) {
    return add_split(l, tok_regex_open(pattern, strlen(pattern), l->err), split, invert);
}

/* Parses {"Regex": "..."} or {"String": "..."}. Returns NULL on errors, see err. */
static struct tok_regex *load_pattern(struct loader *l, json_t *node) {
    json_t *pattern = json_object_get(node, "pattern");
    json_t *regex = json_object_get(pattern, "Regex"), *text = json_object_get(pattern, "String");
    if (json_is_string(regex))
        return tok_regex_open(json_string_value(regex), json_string_length(regex), l->err);
    if (json_is_string(text) && json_string_length(text) > 0)
        return tok_regex_open_literal(json_string_value(text), json_string_length(text), l->err);
    err_set(l->err, "\"%.40s\" has no pattern", tok_json_type(node));
    return NULL;
}

static int load_behaviour(struct loader *l, json_t *node, enum tok_split *out) {
    static const char *const names[] = { [TOK_SPLIT_ISOLATED] = "Isolated",
                                         [TOK_SPLIT_REMOVED] = "Removed",
                                         [TOK_SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
                                         [TOK_SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
                                         [TOK_SPLIT_CONTIGUOUS] = "Contiguous" };
    const char *name = json_string_value(json_object_get(node, "behavior"));
    for (size_t i = 0; i < COUNTOF(names) && name; i++) {
        if (strcmp(names[i], name) != 0) continue;
        *out = (enum tok_split)i;
        return 0;
    }
    return bad(l, node, "its behavior is missing or unknown");
}

/* ---- pre-tokenizers */
static int load_split(struct loader *l, json_t *node) {
    enum tok_split split;
    if (load_behaviour(l, node, &split) < 0) return -1;
    return add_split(l, load_pattern(l, node), split, flag_or(node, "invert", false));
}

static int load_byte_level(struct loader *l, json_t *node) {
    if (flag_or(node, "add_prefix_space", true)) add_text_step(l, TOK_STEP_PREPEND_UNLESS, " ", 1);
    if (flag_or(node, "use_regex", true) && add_pattern_split(l, GPT2_PATTERN, TOK_SPLIT_ISOLATED, false) < 0)
        return -1;
    vec_push(l->out, ((struct tok_step){ .kind = TOK_STEP_BYTES }));
    return 0;
}

static int load_digits(struct loader *l, json_t *node) {
    bool each = flag_or(node, "individual_digits", false);
    return add_pattern_split(l, "\\p{N}", each ? TOK_SPLIT_ISOLATED : TOK_SPLIT_CONTIGUOUS, false);
}

static int load_whitespace(struct loader *l, json_t *node) {
    (void)node;
    return add_pattern_split(l, "\\w+|[^\\w\\s]+", TOK_SPLIT_REMOVED, true);
}

static int load_whitespace_split(struct loader *l, json_t *node) {
    (void)node;
    return add_pattern_split(l, "\\s", TOK_SPLIT_REMOVED, false);
}

static int load_punctuation(struct loader *l, json_t *node) {
    enum tok_split split = TOK_SPLIT_ISOLATED;
    if (json_object_get(node, "behavior") && load_behaviour(l, node, &split) < 0) return -1;
    return add_pattern_split(l, "[!-/:-@\\[-`{-~\\p{P}]", split, false);
}

static const char *mark_of(json_t *node) {
    const char *mark = json_string_value(json_object_get(node, "replacement"));
    return mark && mark[0] ? mark : DEFAULT_MARK;
}

/* Returns the prepend_scheme: "always", "never" or "first" in valid files. Files before 2024 have
 * add_prefix_space instead. */
static const char *scheme_of(json_t *node) {
    const char *scheme = json_string_value(json_object_get(node, "prepend_scheme"));
    if (scheme) return scheme;
    return flag_or(node, "add_prefix_space", true) ? "always" : "never";
}

static int load_metaspace(struct loader *l, json_t *node) {
    const char *mark = mark_of(node), *scheme = scheme_of(node);
    struct tok_regex *space = tok_regex_open_literal(" ", 1, l->err);
    if (!space) return -1;
    vec_push(l->out,
             ((struct tok_step){
                 .kind = TOK_STEP_REPLACE, .re = space, .text = xstrdup(mark), .len = strlen(mark) }));
    if (strcmp(scheme, "always") == 0) {
        add_text_step(l, TOK_STEP_PREPEND_UNLESS, mark, strlen(mark));
    } else if (strcmp(scheme, "first") == 0) {
        add_text_step(l, TOK_STEP_PREPEND_FIRST, mark, strlen(mark));
    } else if (strcmp(scheme, "never") != 0) {
        return bad(l, node, "its prepend_scheme is unknown");
    }
    if (!flag_or(node, "split", true)) return 0;
    return add_split(l, tok_regex_open_literal(mark, strlen(mark), l->err), TOK_SPLIT_MERGED_WITH_NEXT,
                     false);
}

/* ---- normalizers */
static int load_prepend(struct loader *l, json_t *node) {
    json_t *text = json_object_get(node, "prepend");
    if (!json_is_string(text)) return bad(l, node, "its text is missing");
    add_text_step(l, TOK_STEP_PREPEND, json_string_value(text), json_string_length(text));
    return 0;
}

static int load_replace(struct loader *l, json_t *node) {
    json_t *content = json_object_get(node, "content");
    if (!json_is_string(content)) return bad(l, node, "its content is missing");
    struct tok_regex *re = load_pattern(l, node);
    if (!re) return err_wrap(l->err, "%s", l->where);
    add_text_step(l, TOK_STEP_REPLACE, json_string_value(content), json_string_length(content));
    l->out->v[l->out->n - 1].re = re;
    return 0;
}

static int load_nfc(struct loader *l, json_t *node) {
    (void)node;
    vec_push(l->out, ((struct tok_step){ .kind = TOK_STEP_NFC }));
    return 0;
}

static int load_nfd(struct loader *l, json_t *node) {
    (void)node;
    vec_push(l->out, ((struct tok_step){ .kind = TOK_STEP_NFD }));
    return 0;
}

static int load_strip(struct loader *l, json_t *node) {
    vec_push(l->out, ((struct tok_step){ .kind = TOK_STEP_STRIP,
                                         .left = flag_or(node, "strip_left", true),
                                         .right = flag_or(node, "strip_right", true) }));
    return 0;
}

static const struct kind normalizers[] = {
    { "Prepend", load_prepend }, { "Replace", load_replace }, { "NFC", load_nfc },
    { "NFD", load_nfd },         { "Strip", load_strip },
};
static const struct kind pre_tokenizers[] = {
    { "Split", load_split },
    { "ByteLevel", load_byte_level },
    { "Digits", load_digits },
    { "Metaspace", load_metaspace },
    { "Punctuation", load_punctuation },
    { "Whitespace", load_whitespace },
    { "WhitespaceSplit", load_whitespace_split },
};

static int load_any(struct loader *l, json_t *node, const struct kind *kinds, size_t n, int depth) {
    const char *type = tok_json_type(node);
    json_t *item;
    size_t i;
    if (!node || json_is_null(node)) return 0;
    if (strcmp(type, "Sequence") == 0 && depth < MAX_DEPTH) {
        json_t *list = json_object_get(node, kinds == normalizers ? "normalizers" : "pretokenizers");
        if (!json_is_array(list)) return bad(l, node, "its list is missing");
        json_array_foreach(list, i, item) {
            if (load_any(l, item, kinds, n, depth + 1) < 0) return -1;
        }
        return 0;
    }
    for (i = 0; i < n; i++)
        if (strcmp(kinds[i].type, type) == 0) return kinds[i].load(l, node);
    return bad(l, node, "this kind is not supported");
}

int tok_load_steps(json_t *node, const char *where, struct tok_steps *out, struct err *err) {
    struct loader l = { where, out, err };
    bool norm = strcmp(where, "normalizer") == 0;
    return norm ? load_any(&l, node, normalizers, COUNTOF(normalizers), 0)
                : load_any(&l, node, pre_tokenizers, COUNTOF(pre_tokenizers), 0);
}

/* ---- decoders: a whole Sequence becomes one decoder */
static void add_replace(struct tok_decoder *d, const char *from, const char *to) {
    d->replace = vec_fit(d->replace, d->nreplace + 1, &d->replace_cap, sizeof *d->replace);
    d->replace[d->nreplace++] = (struct tok_replace){ xstrdup(from), xstrdup(to), strlen(from), strlen(to) };
}

static int decoder_replace(struct tok_decoder *d, json_t *node, struct err *err) {
    const char *from = json_string_value(json_object_get(json_object_get(node, "pattern"), "String"));
    const char *to = json_string_value(json_object_get(node, "content"));
    if (!from || !from[0] || !to) return err_set(err, "decoder \"Replace\": only a fixed text is supported");
    add_replace(d, from, to);
    return 0;
}

static int decoder_strip(struct tok_decoder *d, json_t *node, bool fused, struct err *err) {
    const char *what = json_string_value(json_object_get(node, "content"));
    json_int_t start = json_integer_value(json_object_get(node, "start"));
    if (!fused || !what || strlen(what) >= sizeof d->strip ||
        json_integer_value(json_object_get(node, "stop")) != 0 || start < 0 || start > 1000)
        return err_set(err, "decoder \"Strip\": only stripping the start, after a Fuse, is supported");
    memcpy(d->strip, what, strlen(what) + 1);
    d->strip_count = (size_t)start;
    return 0;
}

static int decoder_one(struct tok_decoder *d, json_t *node, bool *fused, struct err *err) {
    const char *type = tok_json_type(node);
    bool plain = d->kind == TOK_DECODER_NONE || d->kind == TOK_DECODER_TEXT;
    if (strcmp(type, "Fuse") == 0) {
        *fused = true;
        if (plain) d->kind = TOK_DECODER_TEXT;
        return 0;
    }
    if (strcmp(type, "ByteLevel") == 0 && d->kind == TOK_DECODER_NONE) {
        d->kind = TOK_DECODER_BYTES;
        return 0;
    }
    if (strcmp(type, "Metaspace") == 0 && d->kind == TOK_DECODER_NONE) {
        d->kind = TOK_DECODER_METASPACE;
        d->keep_first = strcmp(scheme_of(node), "never") == 0;
        add_replace(d, mark_of(node), " ");
        return 0;
    }
    if (!plain) return err_set(err, "decoder \"%.40s\" is not supported in this position", type);
    d->kind = TOK_DECODER_TEXT;
    if (strcmp(type, "Replace") == 0 && !*fused) return decoder_replace(d, node, err);
    if (strcmp(type, "Strip") == 0) return decoder_strip(d, node, *fused, err);
    if (strcmp(type, "ByteFallback") != 0 || *fused)
        return err_set(err, "decoder \"%.40s\" is not supported", type);
    d->byte_fallback = true;
    return 0;
}

int tok_load_decoder(json_t *node, struct tok_decoder *out, struct err *err) {
    bool fused = false;
    json_t *list = json_object_get(node, "decoders"), *item;
    size_t i;
    if (!node || json_is_null(node)) return 0;
    if (strcmp(tok_json_type(node), "Sequence") != 0) return decoder_one(out, node, &fused, err);
    if (!json_is_array(list)) return err_set(err, "decoder \"Sequence\": its list is missing");
    json_array_foreach(list, i, item) {
        if (decoder_one(out, item, &fused, err) < 0) return -1;
    }
    return 0;
}
