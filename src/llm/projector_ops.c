/* Operator table of the projectors, which map image tokens to the decoder's width. */
#include "base/util.h"
#include "llm/oprow.h"
#include "llm/parts.h"

enum number { NONE, ONE, FROM, TO, FROM_TO, NORM_IN, TEXT_WIDTH, COMMON };

enum condition {
    IS_MLP2 = 1 << 0,
    IS_NORM_ONE = 1 << 1,
    IS_MERGER = 1 << 2,
    IS_NORM_MLP2 = 1 << 3,
    IS_LINEAR = 1 << 4,
    IS_DUAL = 1 << 5,
    HAS_NORM_BIAS = 1 << 6,
};

#define ROW(n, k, i, o, ...)                                                                           \
    {                                                                                                  \
        .name = n, .module = "projector", .kind = k, .rows = LLM_ROWS_IMAGE_TOKENS, .in = i, .out = o, \
        .count = ONE, __VA_ARGS__                                                                      \
    }
#define LINEAR(n, i, o, ...) ROW(n, LLM_OP_LINEAR, i, o, __VA_ARGS__)

static const struct oprow projector[] = {
    LINEAR("linear_1", FROM, TO, .vector = TO, .when = IS_MLP2),
    LINEAR("linear_2", TO, TO, .vector = TO, .io = TO, .when = IS_MLP2),
    ROW("soft_norm", LLM_OP_NORM, FROM, NONE, .when = IS_NORM_ONE),
    LINEAR("input_projection", FROM, TO, .io = TO, .when = IS_NORM_ONE),
    ROW("merger_norm", LLM_OP_NORM, NORM_IN, NONE, .vector = NORM_IN, .vector_when = HAS_NORM_BIAS,
        .when = IS_MERGER),
    LINEAR("merger_fc1", FROM, FROM, .vector = FROM, .when = IS_MERGER),
    LINEAR("merger_fc2", FROM, TO, .vector = TO, .io = TO, .when = IS_MERGER),
    ROW("norm", LLM_OP_NORM, FROM, NONE, .vector = FROM, .when = IS_NORM_MLP2),
    LINEAR("linear_1", FROM, TO, .vector = TO, .when = IS_NORM_MLP2),
    LINEAR("linear_2", TO, TO, .vector = TO, .io = TO, .when = IS_NORM_MLP2),
    LINEAR("projector", FROM, TO, .vector = TO, .io = FROM_TO, .when = IS_LINEAR),
    { .name = "image_newline",
      .module = "image_tokens",
      .kind = LLM_OP_PARAM,
      .in = TO,
      .count = ONE,
      .when = IS_LINEAR },
    { .name = "view_seperator",
      .module = "image_tokens",
      .kind = LLM_OP_PARAM,
      .in = TO,
      .count = ONE,
      .when = IS_LINEAR },
    { .name = "visual_projection",
      .module = "projector",
      .kind = LLM_OP_LINEAR,
      .rows = LLM_ROWS_VIEWS,
      .in = FROM,
      .out = COMMON,
      .count = ONE,
      .when = IS_DUAL },
    { .name = "logit_scale",
      .module = "projector",
      .kind = LLM_OP_PARAM,
      .in = ONE,
      .count = ONE,
      .when = IS_DUAL },
};

static const struct oprow text_side[] = {
    { .name = "text_projection",
      .module = "projector",
      .kind = LLM_OP_LINEAR,
      .rows = LLM_ROWS_VIEWS,
      .in = TEXT_WIDTH,
      .out = COMMON,
      .count = ONE,
      .when = IS_DUAL },
};

void projector_ops(struct llm_model *m, enum projector_kind kind, uint32_t tower_traits, uint64_t common,
                   int stage, int text_stage) {
    static const uint32_t bits[] = { [PROJECTOR_MLP2] = IS_MLP2,     [PROJECTOR_NORM_ONE] = IS_NORM_ONE,
                                     [PROJECTOR_MERGER] = IS_MERGER, [PROJECTOR_NORM_MLP2] = IS_NORM_MLP2,
                                     [PROJECTOR_LINEAR] = IS_LINEAR, [PROJECTOR_DUAL] = IS_DUAL };
    if (kind == PROJECTOR_NONE) return;
    const struct llm_vision *v = &m->vision;
    struct opbuild b = { .model = m, .stage = stage, .has = bits[kind] };
    if (!(tower_traits & VISION_RMS_NORM)) b.has |= HAS_NORM_BIAS;
    b.numbers[ONE] = 1;
    b.numbers[FROM] = v->projector_in;
    b.numbers[TO] = v->projector_out;
    b.numbers[FROM_TO] = v->projector_in + v->projector_out;
    b.numbers[NORM_IN] = v->tower.hidden;
    b.numbers[TEXT_WIDTH] = m->text.hidden;
    b.numbers[COMMON] = common;
    oprow_add(&b, projector, COUNTOF(projector));
    b.stage = text_stage;
    oprow_add(&b, text_side, COUNTOF(text_side));
}
