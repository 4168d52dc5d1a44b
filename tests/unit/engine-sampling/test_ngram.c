#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sampling/ngram.h"
#include "unit/test.h"

#define VOCAB 8

/* The rule without optimisation: every n-gram of the window compared with the tail. */
static void ban_by_definition(const uint32_t *ids, size_t len, const struct ngram_rule *r, float *logits) {
    if (len < r->n) return;
    size_t first = r->window > 0 && len > r->window ? len - r->window : 0;
    for (size_t i = first; i + r->n <= len; i++) {
        if (memcmp(ids + i, ids + len - (r->n - 1), (r->n - 1) * sizeof *ids) != 0) continue;
        uint32_t id = ids[i + r->n - 1];
        int allowed = 0;
        for (size_t k = 0; k < r->nallow; k++) allowed |= r->allow[k] == id;
        if (!allowed) logits[id] = -INFINITY;
    }
}

static void compare_on_random_tokens(const struct ngram_rule *rule, uint32_t alphabet, size_t tokens) {
    uint32_t *ids = calloc(tokens, sizeof *ids), state = 12345;
    struct ngram *g = ngram_open(rule);
    size_t bans = 0;
    for (size_t len = 0; len < tokens; len++) {
        float got[VOCAB] = { 0 }, want[VOCAB] = { 0 };
        size_t n = ngram_ban(g, got, VOCAB), differ = 0;
        ban_by_definition(ids, len, rule, want);
        for (int i = 0; i < VOCAB; i++) differ += isinf(want[i]) != 0;
        CHECK_MEM(got, want, sizeof got);
        CHECK_INT(n, differ);
        bans += n;
        state = state * 1664525u + 1013904223u;
        ids[len] = (state >> 16) % alphabet;
        ngram_push(g, ids[len]);
    }
    CHECK(bans > 0);
    ngram_close(g);
    free(ids);
}

TEST(ngram_bans_what_the_windowed_rule_bans) {
    const uint32_t allow[] = { 1, 2 };
    for (uint32_t n = 1; n <= 5; n++)
        compare_on_random_tokens(&(struct ngram_rule){ n, 40, allow, 2 }, 4, 3000);
    compare_on_random_tokens(&(struct ngram_rule){ 4, 90, NULL, 0 }, VOCAB, 3000);
}

TEST(ngram_bans_what_the_whole_history_rule_bans) {
    for (uint32_t n = 1; n <= 6; n++) compare_on_random_tokens(&(struct ngram_rule){ .n = n }, 3, 2500);
}

TEST(ngram_stops_a_loop_of_twenty) {
    float logits[VOCAB] = { 0 };
    struct ngram *g = ngram_open(&(struct ngram_rule){ .n = 20 });
    ngram_reserve(g, 64);
    for (int i = 0; i < 19; i++) ngram_push(g, 3);
    CHECK_INT(ngram_ban(g, logits, VOCAB),
              0); /* nineteen in a row: the twentieth completes the first such run */
    ngram_push(g, 3);
    CHECK_INT(ngram_ban(g, logits, VOCAB), 1);
    CHECK(isinf(logits[3]));
    ngram_reset(g);
    memset(logits, 0, sizeof logits);
    CHECK_INT(ngram_ban(g, logits, VOCAB), 0);
    ngram_close(g);
}

TEST(ngram_zero_switches_the_rule_off) {
    float logits[VOCAB] = { 0 };
    struct ngram *g = ngram_open(&(struct ngram_rule){ .n = 0 });
    for (int i = 0; i < 10; i++) ngram_push(g, 1);
    CHECK_INT(ngram_ban(g, logits, VOCAB), 0);
    ngram_close(g);
    ngram_close(NULL);
}
