/* The decoder's blocks one at a time, compared with transformers in fp32. */
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "base/util.h"
#include "engine/decoder/decoder.h"
#include "engine/internal.h"
#include "unit/engine-models/fixture.h"
#include "unit/test.h"

enum { HIDDEN = 48 };
static const double most = 1e-4;

/* The difference that attention makes to the rows, if they are processed in these portions: later portions
 * need the cache of the earlier ones. */
static void check_portions(const struct fixture *f, struct engine *e, const int *portions, size_t n) {
    struct decoder *d = e->decoder;
    size_t floats = (size_t)fixture_int(f, "tokens") * HIDDEN;
    float *before = fixture_rows(f, "x", floats), *after = xcalloc(floats, sizeof *after);
    struct tensor *x = fixture_upload(d->ops, before, floats);
    int at = 0;
    for (size_t i = 0; i < n; at += portions[i++]) {
        struct decoder_rows rows = { .position = at, .n = portions[i] };
        decoder_attention(d, &d->layer[0], view_at(view_of(x), (size_t)at * HIDDEN),
                          (struct decoder_pass){ &rows, 1 });
    }
    CHECK_INT(at * HIDDEN, floats);
    ops_download(d->ops, after, view_of(x), floats);
    for (size_t i = 0; i < floats; i++) after[i] -= before[i];
    fixture_check(f, "out", after, floats, most);
    ops_free(d->ops, x);
    free(before);
    free(after);
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
    struct decoder *d = e->decoder;
    uint32_t *positions;
    size_t n = fixture_ids(f, "positions", &positions);
    int heads = (int)fixture_int(f, "heads");
    size_t row = (size_t)heads * (size_t)d->rope.dims;
    float *rows = fixture_rows(f, "x", n * row);
    struct tensor *x = fixture_upload(d->ops, rows, n * row);
    for (size_t i = 0; i < n; i++)
        ops_rope(d->ops, &d->rope,
                 &(struct rope_rows){ .x = view_at(view_of(x), i * row),
                                      .rows = 1,
                                      .heads = heads,
                                      .stride = d->rope.dims,
                                      .position = (int)positions[i] });
    fixture_check_tensor(f, "out", d->ops, x, n * row, most);
    ops_free(d->ops, x);
    free(positions);
    free(rows);
    engine_close(e);
}
TEST(rotary_positions_of_every_kind_agree_with_transformers) { fixture_each("block_rope", check_rope); }

/* The chosen experts, most likely first, and their weights. */
static void check_choices(const struct fixture *f, const struct routing_choice *got, size_t choices) {
    uint32_t *want;
    size_t n = fixture_ids(f, "chosen", &want);
    float *weights = xcalloc(n, sizeof *weights);
    CHECK_INT(n, choices);
    for (size_t i = 0; i < n; i++) {
        CHECK_INT(got[i].expert, want[i]);
        weights[i] = got[i].weight;
    }
    fixture_check(f, "weights", weights, n, most);
    free(weights);
    free(want);
}

/* The tokens in portions of `portion`: several run expert by expert, one runs through its experts
 * together. */
static void check_experts(const struct fixture *f, struct decoder *d, int portion) {
    const struct moe *m = &d->layer[0].moe;
    struct ops *o = d->ops;
    int tokens = (int)fixture_int(f, "tokens"), k = m->routing.k;
    size_t n = (size_t)tokens * HIDDEN;
    struct routing_choice *choices = xcalloc((size_t)(tokens * k), sizeof *choices);
    float *rows = fixture_rows(f, "x", n);
    struct tensor *x = fixture_upload(o, rows, n), *y = fixture_upload(o, NULL, n);
    for (int i = 0; i < tokens; i += portion) {
        size_t at = (size_t)i * HIDDEN;
        moe_forward(o, m, view_at(view_of(x), at), portion, HIDDEN, view_at(view_of(y), at), &d->moe,
                    d->moe.gate);
        memcpy(choices + i * k, d->moe.choices, (size_t)(portion * k) * sizeof *choices);
    }
    fixture_check_tensor(f, "out", o, y, n, most);
    check_choices(f, choices, (size_t)(tokens * k));
    ops_free(o, x);
    ops_free(o, y);
    free(rows);
    free(choices);
}

static void check_moe(const struct fixture *f) {
    struct engine *e = fixture_engine(f, "f32");
    check_experts(f, e->decoder, (int)fixture_int(f, "tokens"));
    check_experts(f, e->decoder, 1);
    engine_close(e);
}
TEST(routers_and_experts_agree_with_transformers) { fixture_each("block_moe", check_moe); }
