/* Prevents repeated n-grams: bans the ids that would complete an n-gram which the last `window` tokens
 * already contain.
 *     struct ngram *g = ngram_open(&(struct ngram_rule){ .n = 30, .window = 90, .allow = td, .nallow = 2 });
 *     ngram_push(g, id);                       -- every token of the sequence, in order
 *     ngram_ban(g, logits, vocab);             -- -inf for banned ids
 * Hugging Face's rule is window 0 with the prompt pushed too; vLLM's rule pushes only generated tokens. */
#ifndef ENGINE_SAMPLING_NGRAM_H
#define ENGINE_SAMPLING_NGRAM_H

#include <stddef.h>
#include <stdint.h>

struct ngram_rule {
    uint32_t n;            /* length of the n-grams; 0: the rule is off */
    uint32_t window;       /* only n-grams that start within the last `window` tokens count; 0: all */
    const uint32_t *allow; /* ids never banned; copied */
    size_t nallow;
};

struct ngram;
struct ngram *ngram_open(const struct ngram_rule *rule);
void ngram_close(struct ngram *g);
void ngram_reset(struct ngram *g); /* removes the tokens but keeps the memory */
/* afterwards, pushing up to this many tokens does not allocate */
void ngram_reserve(struct ngram *g, size_t tokens);
void ngram_push(struct ngram *g, uint32_t id);
size_t ngram_ban(const struct ngram *g, float *logits,
                 size_t vocab); /* returns the number of distinct banned ids */

#endif
