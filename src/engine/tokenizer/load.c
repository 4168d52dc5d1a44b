/* Converts a tokenizer.json to a tokenizer: vocabulary, merges, added tokens, post-processor. load_steps.c
 * converts the other parts. */
#include <stdlib.h>
#include <string.h>

#include "base/jsonr.h"
#include "base/die.h"
#include "base/vec.h"
#include "engine/tokenizer/internal.h"

static bool flag(json_t *node, const char *key) { return json_is_true(json_object_get(node, key)); }

static int read_id(json_t *node, uint32_t *id) {
    json_int_t v = json_integer_value(node);
    if (!json_is_integer(node) || v < 0 || v >= TOK_MAX_ID) return -1;
    *id = (uint32_t)v;
    return 0;
}

static int load_vocab(struct tok_bpe *bpe, json_t *vocab, struct err *err) {
    if (!json_is_object(vocab)) return err_set(err, "model.vocab is missing or not an object");
    for (void *i = json_object_iter(vocab); i; i = json_object_iter_next(vocab, i)) {
        const char *text = json_object_iter_key(i);
        uint32_t id;
        if (read_id(json_object_iter_value(i), &id) < 0)
            return err_set(err, "model.vocab: \"%.60s\" has no id between 0 and %u", text, TOK_MAX_ID - 1);
        if (tok_bpe_add_token(bpe, text, strlen(text), id, err) < 0) return -1;
    }
    return 0;
}

/* Parses "a b", or ["a", "b"] in files since 2024. */
static int load_merge(struct tok_bpe *bpe, json_t *merge, size_t number, struct err *err) {
    if (json_is_array(merge) && json_array_size(merge) == 2) {
        json_t *l = json_array_get(merge, 0), *r = json_array_get(merge, 1);
        if (json_is_string(l) && json_is_string(r))
            return tok_bpe_add_merge(bpe, json_string_value(l), json_string_length(l), json_string_value(r),
                                     json_string_length(r), err);
    }
    const char *text = json_string_value(merge), *space = text ? strchr(text, ' ') : NULL;
    if (!space || strchr(space + 1, ' '))
        return err_set(err, "model.merges: entry %zu is neither \"a b\" nor [\"a\", \"b\"]", number);
    return tok_bpe_add_merge(bpe, text, (size_t)(space - text), space + 1, strlen(space + 1), err);
}

static const char *text_or(json_t *node, const char *key, const char *otherwise) {
    const char *text = json_string_value(json_object_get(node, key));
    return text ? text : otherwise;
}

static int load_model(struct tok_bpe *bpe, json_t *model, struct err *err) {
    const char *type = tok_json_type(model);
    json_t *merges = json_object_get(model, "merges"), *merge;
    size_t i;
    if (!json_is_object(model)) return err_set(err, "\"model\" is missing: is this a tokenizer.json?");
    if (strcmp(type, "BPE") != 0 && !(type[0] == '\0' && merges)) /* old files have no type */
        return err_set(err, "model.type is \"%.40s\": only BPE is supported", type);
    if (json_number_value(json_object_get(model, "dropout")) > 0)
        return err_set(err, "model.dropout is set: ids would be random");
    if (load_vocab(bpe, json_object_get(model, "vocab"), err) < 0) return -1;
    struct tok_bpe_settings set = {
        .unk_token = text_or(model, "unk_token", NULL),
        .prefix = text_or(model, "continuing_subword_prefix", ""),
        .suffix = text_or(model, "end_of_word_suffix", ""),
        .fuse_unk = flag(model, "fuse_unk"),
        .byte_fallback = flag(model, "byte_fallback"),
        .ignore_merges = flag(model, "ignore_merges"),
    };
    if (tok_bpe_set(bpe, &set, err) < 0) return -1;
    if (!json_is_array(merges)) return err_set(err, "model.merges is missing or not an array");
    json_array_foreach(merges, i, merge) {
        if (load_merge(bpe, merge, i, err) < 0) return -1;
    }
    return 0;
}

/* ---- added tokens */
void tok_add_added(struct tokenizer *t, struct tok_added a, const char *text, size_t n) {
    if (n == 0) return;
    uint32_t known = tok_bpe_find(t->bpe, text, n);
    if (known != TOKENIZER_NONE) a.id = known; /* the vocabulary takes precedence */
    a.len = n;
    a.text = xstrndup(text, n);
    vec_push(&t->added, a);
    while (t->added_at.n <= a.id) vec_push(&t->added_at, 0);
    t->added_at.v[a.id] = (uint32_t)t->added.n;
}

static int load_added_one(struct tokenizer *t, json_t *node, size_t number, struct err *err) {
    json_t *content = json_object_get(node, "content");
    struct tok_added a = { .special = flag(node, "special"),
                           .single_word = flag(node, "single_word"),
                           .lstrip = flag(node, "lstrip"),
                           .rstrip = flag(node, "rstrip"),
                           .normalized = flag(node, "normalized") };
    if (!json_is_string(content) || read_id(json_object_get(node, "id"), &a.id) < 0)
        return err_set(err, "added_tokens: entry %zu lacks its content or an id", number);
    tok_add_added(t, a, json_string_value(content), json_string_length(content));
    return 0;
}

/* Adds a token to the matcher of normalised text. The token's text is normalised first. */
static int add_cooked(struct tokenizer *t, const struct tok_added *a, struct err *err) {
    tok_pieces_clear(&t->pieces);
    tok_pieces_add(&t->pieces, a->text, a->len, true);
    if (tok_steps_run(&t->normalizer, &t->pieces, &t->work, err) < 0) return -1;
    if (t->pieces.n == 1) tok_matcher_add(&t->cooked, tok_piece_text(&t->pieces, 0), t->pieces.v[0].len, a);
    return 0;
}

static int load_added(struct tokenizer *t, json_t *list, struct err *err) {
    size_t i;
    json_t *node;
    if (list && !json_is_array(list) && !json_is_null(list))
        return err_set(err, "added_tokens is not an array");
    json_array_foreach(list, i, node) {
        if (load_added_one(t, node, i, err) < 0) return -1;
    }
    return tok_index_added(t, err);
}

int tok_index_added(struct tokenizer *t, struct err *err) {
    /* the list no longer grows, so addresses of its elements stay valid */
    for (size_t i = 0; i < t->added.n; i++) {
        const struct tok_added *a = &t->added.v[i];
        if (!a->normalized) {
            tok_matcher_add(&t->raw, a->text, a->len, a);
        } else if (add_cooked(t, a, err) < 0) {
            return -1;
        }
    }
    tok_matcher_ready(&t->raw);
    tok_matcher_ready(&t->cooked);
    return 0;
}

/* ---- post-processor: ids before and after the text */
static int add_template_token(json_t *specials, const char *name, struct token_ids *out, struct err *err) {
    json_t *ids = json_object_get(json_object_get(specials, name), "ids"), *id;
    size_t i;
    if (!json_is_array(ids)) return err_set(err, "post_processor: \"%.60s\" has no ids", name);
    json_array_foreach(ids, i, id) {
        uint32_t v;
        if (read_id(id, &v) < 0) return err_set(err, "post_processor: \"%.60s\" has an invalid id", name);
        vec_push(out, v);
    }
    return 0;
}

static int load_template(struct tokenizer *t, json_t *node, struct err *err) {
    json_t *single = json_object_get(node, "single"), *item;
    struct token_ids *out = &t->prefix;
    size_t i;
    if (!json_is_array(single)) return err_set(err, "post_processor.single is missing or not an array");
    json_array_foreach(single, i, item) {
        const char *name = json_string_value(json_object_get(json_object_get(item, "SpecialToken"), "id"));
        if (json_object_get(item, "Sequence")) {
            out = &t->suffix;
        } else if (!name) {
            return err_set(err, "post_processor.single: entry %zu is neither a token nor the text", i);
        } else if (add_template_token(json_object_get(node, "special_tokens"), name, out, err) < 0) {
            return -1;
        }
    }
    return 0;
}

static int load_pair(struct token_ids *out, json_t *pair, struct err *err) { /* ["[CLS]", 101] */
    uint32_t id;
    if (read_id(json_array_get(pair, 1), &id) < 0)
        return err_set(err, "post_processor: cls or sep lacks its id");
    vec_push(out, id);
    return 0;
}

static int load_post_processor(struct tokenizer *t, json_t *node, int depth, struct err *err) {
    const char *type = tok_json_type(node);
    json_t *list = json_object_get(node, "processors"), *item;
    size_t i;
    if (!node || json_is_null(node) || strcmp(type, "ByteLevel") == 0)
        return 0; /* ByteLevel only changes offsets */
    if (strcmp(type, "TemplateProcessing") == 0) return load_template(t, node, err);
    if (strcmp(type, "RobertaProcessing") == 0 || strcmp(type, "BertProcessing") == 0) {
        if (load_pair(&t->prefix, json_object_get(node, "cls"), err) < 0) return -1;
        return load_pair(&t->suffix, json_object_get(node, "sep"), err);
    }
    if (strcmp(type, "Sequence") != 0 || depth > 4)
        return err_set(err, "post_processor \"%.40s\" is not supported", type);
    json_array_foreach(list, i, item) {
        if (load_post_processor(t, item, depth + 1, err) < 0) return -1;
    }
    return 0;
}

int tok_load(struct tokenizer *t, json_t *root, struct err *err) {
    if (!json_is_object(root)) return err_set(err, "not an object: is this a tokenizer.json?");
    if (load_model(t->bpe, json_object_get(root, "model"), err) < 0) return -1;
    if (tok_load_steps(json_object_get(root, "normalizer"), "normalizer", &t->normalizer, err) < 0) return -1;
    if (tok_load_steps(json_object_get(root, "pre_tokenizer"), "pre_tokenizer", &t->pre_tokenizer, err) < 0)
        return -1;
    if (load_added(t, json_object_get(root, "added_tokens"), err) < 0) return -1;
    if (load_post_processor(t, json_object_get(root, "post_processor"), 0, err) < 0) return -1;
    return tok_load_decoder(json_object_get(root, "decoder"), &t->decoder, err);
}
