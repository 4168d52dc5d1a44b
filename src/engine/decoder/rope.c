#include "engine/decoder/rope.h"

#include <math.h>
#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"

static double value_or(double v, double fallback) { return isnan(v) ? fallback : v; }

/* Llama 3: low frequencies are divided by the factor, high ones are kept, and frequencies in between are
 * blended. */
static double llama3_frequency(const struct llm_rope *c, double f) {
    double factor = value_or(c->factor, 8), low = value_or(c->low_freq_factor, 1),
           high = value_or(c->high_freq_factor, 4);
    double original = c->original_max_positions ? (double)c->original_max_positions : 8192;
    double wavelength = 2 * M_PI / f;
    if (wavelength < original / high) return f;
    if (wavelength > original / low) return f / factor;
    double smooth = (original / wavelength - low) / (high - low);
    return (1 - smooth) * f / factor + smooth * f;
}

/* YaRN: returns the dimension whose pair makes `turns` rotations within the original context. */
static double yarn_dimension(const struct llm_rope *c, double turns) {
    double original = c->original_max_positions ? (double)c->original_max_positions : 4096;
    return c->dims * log(original / (turns * 2 * M_PI)) / (2 * log(c->theta));
}

static double yarn_frequency(const struct llm_rope *c, int i, double f) {
    double low = yarn_dimension(c, value_or(c->beta_fast, 32));
    double high = yarn_dimension(c, value_or(c->beta_slow, 1));
    if (c->whole_dimensions) {
        low = floor(low);
        high = ceil(high);
    }
    low = MAX(low, 0.0);
    high = MIN(high, c->dims - 1.0);
    if (low == high) high += 0.001;
    double ramp = MIN(1.0, MAX(0.0, (i - low) / (high - low)));
    return f / value_or(c->factor, 1) * ramp + f * (1 - ramp);
}

static double yarn_mscale(double factor, double mscale) {
    return factor <= 1 ? 1.0 : 0.1 * mscale * log(factor) + 1.0;
}

static double longrope_amplitude(const struct llm_rope *c) {
    double original = (double)c->original_max_positions;
    double factor = value_or(c->factor, (double)c->max_positions / original);
    if (!isnan(c->attention_factor)) return c->attention_factor;
    return factor <= 1 ? 1.0 : sqrt(1 + log(factor) / log(original));
}

/* Returns the factor for cos and sin; 1 without YaRN and LongRoPE. */
static double rope_amplitude(const struct llm_rope *c) {
    double factor = value_or(c->factor, 1);
    if (c->kind == LLM_ROPE_LONGROPE) return longrope_amplitude(c);
    if (c->kind != LLM_ROPE_YARN) return 1.0;
    if (!isnan(c->attention_factor)) return c->attention_factor;
    bool both = value_or(c->mscale, 0) != 0 && value_or(c->mscale_all_dim, 0) != 0;
    if (both) return yarn_mscale(factor, c->mscale) / yarn_mscale(factor, c->mscale_all_dim);
    return yarn_mscale(factor, 1);
}

double rope_score_scale(const struct llm_rope *c) {
    double all = value_or(c->mscale_all_dim, 0);
    if (c->kind != LLM_ROPE_YARN || all == 0) return 1.0;
    double m = yarn_mscale(value_or(c->factor, 1), all);
    return m * m;
}

bool rope_fits_length(const struct llm_rope *c) {
    return c->kind == LLM_ROPE_DYNAMIC || c->kind == LLM_ROPE_LONGROPE;
}

uint64_t rope_positions(const struct llm_rope *c, uint64_t trained) {
    if (c->kind != LLM_ROPE_DYNAMIC) return trained;
    return (uint64_t)((double)trained * MAX(1.0, value_or(c->factor, 1)));
}

struct llm_rope rope_local(const struct llm_rope *c) {
    struct llm_rope out = *c;
    out.kind = LLM_ROPE_PLAIN;
    out.theta = c->local_theta;
    return out;
}

/* Returns the number that selects the frequencies for a text: for dynamic, the factor of the base; for
 * longrope, 1 if the long divisors apply. Otherwise 0. */
static double length_scale(const struct llm_rope *c, int length) {
    double trained = (double)c->max_positions, factor = value_or(c->factor, 1);
    if (c->kind == LLM_ROPE_LONGROPE) return (uint64_t)length > c->original_max_positions ? 1 : 0;
    if (c->kind != LLM_ROPE_DYNAMIC) return 0;
    double stretch = factor * MAX(length, trained) / trained - (factor - 1);
    return pow(stretch, (double)c->dims / ((double)c->dims - 2));
}

static double rope_frequency(const struct llm_rope *c, int i, double scale) {
    double f = pow(c->theta, -2.0 * i / c->dims);
    switch (c->kind) {
    case LLM_ROPE_DYNAMIC: return pow(c->theta * scale, -2.0 * i / c->dims);
    case LLM_ROPE_LONGROPE: return f / (double)(scale > 0 ? c->long_factor[i] : c->short_factor[i]);
    case LLM_ROPE_LINEAR: return f / value_or(c->factor, 1);
    case LLM_ROPE_LLAMA3: return llama3_frequency(c, f);
    case LLM_ROPE_YARN: return yarn_frequency(c, i, f);
    default: return f;
    }
}

static int check_rope(const struct llm_rope *c, struct err *err) {
    if (c->kind != LLM_ROPE_PLAIN && c->kind != LLM_ROPE_MROPE && c->kind != LLM_ROPE_LINEAR &&
        c->kind != LLM_ROPE_LLAMA3 && c->kind != LLM_ROPE_YARN && !rope_fits_length(c))
        return err_set(err, "config.json: this engine supports only the rope types default, linear, dynamic, "
                            "llama3, yarn, longrope and mrope");
    if (c->dims == 0 || c->dims % 2) return err_set(err, "config.json: rotary dimensions must be even");
    if (c->kind == LLM_ROPE_DYNAMIC && c->dims < 4)
        return err_set(err, "config.json: rope type dynamic requires at least 4 rotary dimensions");
    if (c->kind == LLM_ROPE_LONGROPE && c->factors != c->dims / 2)
        return err_set(
            err,
            "config.json: rope type longrope requires short_factor and long_factor with %u positive "
            "numbers each",
            c->dims / 2);
    if (c->kind == LLM_ROPE_LONGROPE && c->original_max_positions < 2)
        return err_set(err, "config.json: rope type longrope requires original_max_position_embeddings");
    return 0;
}

/* Returns the position of a token for pair i. */
static int place_of(const struct llm_rope *c, const struct rope_places *places, int position, size_t i) {
    if (!places) return position;
    if (position >= places->n) return position + places->shift;
    int axis = i < c->sections[0] ? 0 : i < c->sections[0] + c->sections[1] ? 1 : 2;
    return places->v[position][axis];
}

/* Writes cos and sin of the positions [first, first + n). */
static void fill_rows(struct rope_table *t, struct ops *o, const struct llm_rope *c, const float *factors,
                      int first, int n, double scale, const struct rope_places *places) {
    size_t half = c->dims / 2, numbers = (size_t)n * half;
    float amplitude = (float)rope_amplitude(c);
    float *cosine = xcalloc(numbers, sizeof *cosine), *sine = xcalloc(numbers, sizeof *sine);
    float *frequency = xcalloc(half, sizeof *frequency);
    for (size_t i = 0; i < half; i++) {
        double exact = rope_frequency(c, (int)i, scale);
        frequency[i] = (float)(factors ? exact / (double)factors[i] : exact);
    }
    /* Angles are floats, as in training. The float functions are four times as fast as the double ones,
     * and computing a table of 8192 positions takes a large part of the time to load a mapped model. */
    for (size_t p = 0; p < (size_t)n; p++)
        for (size_t i = 0; i < half; i++) {
            float angle = (float)place_of(c, places, first + (int)p, i) * frequency[i];
            cosine[p * half + i] = cosf(angle) * amplitude;
            sine[p * half + i] = sinf(angle) * amplitude;
        }
    free(frequency);
    ops_upload(o, view_at(view_of(t->cosine), (size_t)first * half), cosine, numbers);
    ops_upload(o, view_at(view_of(t->sine), (size_t)first * half), sine, numbers);
    free(cosine);
    free(sine);
}

int rope_init(struct rope_table *t, struct ops *o, const struct llm_rope *c, bool interleaved, int positions,
              const float *factors, struct err *err) {
    if (check_rope(c, err) < 0) return -1;
    size_t n = (size_t)positions * (c->dims / 2);
    *t = (struct rope_table){ .dims = (int)c->dims, .interleaved = interleaved };
    t->cosine = ops_alloc(o, n, TENSOR_ANY);
    t->sine = ops_alloc(o, n, TENSOR_ANY);
    fill_rows(t, o, c, factors, 0, positions, length_scale(c, 1), NULL);
    return 0;
}

void rope_fit(struct rope_table *t, struct ops *o, const struct llm_rope *c, struct rope_filled *filled,
              int position, int n, int length, const struct rope_places *places) {
    if (!rope_fits_length(c) && !places && !filled->moved) return;
    double scale = length_scale(c, length);
    if (filled->n == n && filled->position == position && filled->scale == scale && filled->places == places)
        return;
    fill_rows(t, o, c, NULL, position, n, scale, places);
    *filled = (struct rope_filled){ position, n, scale, places, filled->moved || places };
}

void rope_free(struct rope_table *t, struct ops *o) {
    ops_free(o, t->cosine);
    ops_free(o, t->sine);
    *t = (struct rope_table){ 0 };
}
