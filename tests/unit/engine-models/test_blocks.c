/* The decoder's blocks one at a time, against transformers' own in fp32. */
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "engine/decoder/decoder.h"
#include "engine/engine.h"
#include "unit/engine-models/fixture.h"
#include "unit/test.h"

enum { HIDDEN = 48 };
static const double most = 1e-4;

/* What attention adds to the rows when they come in these portions: the cache has to hold what came
 * before. */
static void check_portions(const struct fixture *f, struct engine *e, const int *portions, size_t n) {
    struct decoder *d = engine_decoder(e);
    size_t tokens = (size_t)fixture_int(f, "tokens");
    float *before = fixture_rows(f, "x", tokens * HIDDEN), *x = fixture_rows(f, "x", tokens * HIDDEN);
    int at = 0;
    for (size_t i = 0; i < n; at += portions[i++])
        decoder_attention(d, engine_ops(e), &d->layer[0], x + (size_t)at * HIDDEN, portions[i], at);
    CHECK_INT(at, tokens);
    for (size_t i = 0; i < tokens * HIDDEN; i++) x[i] -= before[i];
    fixture_check(f, "out", x, tokens * HIDDEN, most);
    free(before);
    free(x);
}

static void check_attention(const struct fixture *f) {
    static const int whole[] = { 21 }, parts[] = { 5, 9, 1, 1, 3, 1, 1 };
    int singles[21];
    struct engine *e = fixture_engine(f, "f32");
    for (size_t i = 0; i < COUNTOF(singles); i++) singles[i] = 1;
    check_portions(f, e, whole, COUNTOF(whole));
    check_portions(f, e, parts, COUNTOF(parts));
    check_portions(f, e, singles, COUNTOF(singles));
    engine_close(e);
}
TEST(attention_blocks_agree_with_transformers) { fixture_each("block_attention", check_attention); }

static void check_rope(const struct fixture *f) {
    struct engine *e = fixture_engine(f, "f32");
    const struct rope *r = &engine_decoder(e)->rope;
    uint32_t *positions;
    size_t n = fixture_ids(f, "positions", &positions);
    int heads = (int)fixture_int(f, "heads");
    size_t row = (size_t)heads * (size_t)r->dims;
    float *x = fixture_rows(f, "x", n * row);
    for (size_t i = 0; i < n; i++) rope_apply(r, x + i * row, heads, r->dims, 0, (int)positions[i]);
    fixture_check(f, "out", x, n * row, most);
    free(positions);
    free(x);
    engine_close(e);
}
TEST(rotary_positions_of_every_kind_agree_with_transformers) { fixture_each("block_rope", check_rope); }

/* The choice itself: experts from the likeliest on, and their weights. */
static void check_choices(const struct fixture *f, const struct moe *m, const struct moe_choice *got,
                          int tokens) {
    uint32_t *want;
    size_t n = fixture_ids(f, "chosen", &want);
    float *weights = xcalloc(n, sizeof *weights);
    CHECK_INT(n, tokens * m->k);
    for (size_t i = 0; i < n; i++) {
        CHECK_INT(got[i].expert, want[i]);
        weights[i] = got[i].weight;
    }
    fixture_check(f, "weights", weights, n, most);
    free(weights);
    free(want);
}

/* All tokens at once go expert by expert; one token alone goes through its experts together. */
static void check_moe(const struct fixture *f) {
    struct engine *e = fixture_engine(f, "f32");
    const struct moe *m = &engine_decoder(e)->layer[0].moe;
    int tokens = (int)fixture_int(f, "tokens"), *order = xcalloc((size_t)(tokens * m->k), sizeof *order);
    size_t n = (size_t)tokens * HIDDEN;
    float *x = fixture_rows(f, "x", n), *y = xcalloc(n, sizeof *y);
    float *scratch = xcalloc(moe_scratch_floats(m, HIDDEN, tokens), sizeof *scratch);
    struct moe_choice *choices = xcalloc((size_t)(tokens * m->k), sizeof *choices);
    moe_forward(engine_ops(e), m, x, tokens, HIDDEN, y, choices, order, scratch);
    fixture_check(f, "out", y, n, most);
    check_choices(f, m, choices, tokens);
    memset(y, 0, n * sizeof *y);
    for (int i = 0; i < tokens; i++)
        moe_forward(engine_ops(e), m, x + i * HIDDEN, 1, HIDDEN, y + i * HIDDEN, choices + i * m->k, order,
                    scratch);
    fixture_check(f, "out", y, n, most);
    check_choices(f, m, choices, tokens);
    free(x);
    free(y);
    free(scratch);
    free(choices);
    free(order);
    engine_close(e);
}
TEST(routers_and_experts_agree_with_transformers) { fixture_each("block_moe", check_moe); }
