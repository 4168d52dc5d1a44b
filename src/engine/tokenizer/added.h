/* Added tokens: strings that are extracted from the text before the normalizer or, if they are
 * `normalized`, after it. The leftmost match wins. If several tokens match there, the longest wins. */
#ifndef ENGINE_TOKENIZER_ADDED_H
#define ENGINE_TOKENIZER_ADDED_H

#include "engine/tokenizer/pieces.h"
#include "engine/tokenizer/regex.h"

struct tok_added {
    char *text; /* as written in the file */
    size_t len;
    uint32_t id;
    bool special, single_word, lstrip, rstrip, normalized;
};

struct tok_added_list {
    struct tok_added *v;
    size_t n, cap;
};
void tok_added_list_free(struct tok_added_list *l);

/* The patterns of added tokens, sorted for longest_at(). */
struct tok_matcher {
    struct tok_pattern {
        char *text;
        size_t len;
        const struct tok_added *token; /* borrowed */
    } * v;
    size_t n, cap;
    bool starts[256];       /* true if a pattern begins with that byte */
    struct tok_regex *word; /* regex \w if any token is a single_word token; otherwise NULL */
};
void tok_matcher_add(struct tok_matcher *m, const char *pattern, size_t n, const struct tok_added *token);
void tok_matcher_ready(struct tok_matcher *m); /* call after the last tok_matcher_add() */
void tok_matcher_free(struct tok_matcher *m);
void tok_matcher_split(const struct tok_matcher *m, const struct tok_pieces *in, struct tok_pieces *out);

#endif
