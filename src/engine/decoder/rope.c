#include "engine/decoder/rope.h"

#include <math.h>
#include <stdlib.h>

#include "base/die.h"
#include "base/util.h"

static double given(double v, double otherwise) { return isnan(v) ? otherwise : v; }

/* Llama 3: low frequencies are divided by the factor, high ones kept, those between blended. */
static double llama3_frequency(const struct llm_rope *c, double f) {
    double factor = given(c->factor, 8), low = given(c->low_freq_factor, 1),
           high = given(c->high_freq_factor, 4);
    double original = c->original_max_positions ? (double)c->original_max_positions : 8192;
    double wavelength = 2 * M_PI / f;
    if (wavelength < original / high) return f;
    if (wavelength > original / low) return f / factor;
    double smooth = (original / wavelength - low) / (high - low);
    return (1 - smooth) * f / factor + smooth * f;
}

/* YaRN: the dimension whose wavelength makes `turns` turns within the original context. */
static double yarn_dimension(const struct llm_rope *c, double turns) {
    double original = c->original_max_positions ? (double)c->original_max_positions : 4096;
    return c->dims * log(original / (turns * 2 * M_PI)) / (2 * log(c->theta));
}

static double yarn_frequency(const struct llm_rope *c, int i, double f) {
    double low = yarn_dimension(c, given(c->beta_fast, 32));
    double high = yarn_dimension(c, given(c->beta_slow, 1));
    if (c->whole_dimensions) {
        low = floor(low);
        high = ceil(high);
    }
    low = MAX(low, 0.0);
    high = MIN(high, c->dims - 1.0);
    if (low == high) high += 0.001;
    double ramp = MIN(1.0, MAX(0.0, (i - low) / (high - low)));
    return f / given(c->factor, 1) * ramp + f * (1 - ramp);
}

static double yarn_mscale(double factor, double mscale) {
    return factor <= 1 ? 1.0 : 0.1 * mscale * log(factor) + 1.0;
}

/* cos and sin themselves are scaled under YaRN. */
static double amplitude(const struct llm_rope *c) {
    double factor = given(c->factor, 1);
    if (c->kind != LLM_ROPE_YARN) return 1.0;
    if (!isnan(c->attention_factor)) return c->attention_factor;
    bool both = given(c->mscale, 0) != 0 && given(c->mscale_all_dim, 0) != 0;
    if (both) return yarn_mscale(factor, c->mscale) / yarn_mscale(factor, c->mscale_all_dim);
    return yarn_mscale(factor, 1);
}

double rope_score_scale(const struct llm_rope *c) {
    double all = given(c->mscale_all_dim, 0);
    if (c->kind != LLM_ROPE_YARN || all == 0) return 1.0;
    double m = yarn_mscale(given(c->factor, 1), all);
    return m * m;
}

static double frequency(const struct llm_rope *c, int i) {
    double f = pow(c->theta, -2.0 * i / c->dims);
    switch (c->kind) {
    case LLM_ROPE_LINEAR: return f / given(c->factor, 1);
    case LLM_ROPE_LLAMA3: return llama3_frequency(c, f);
    case LLM_ROPE_YARN: return yarn_frequency(c, i, f);
    default: return f;
    }
}

int rope_init(struct rope *r, const struct llm_rope *c, bool interleaved, int positions, struct err *err) {
    *r = (struct rope){ .dims = (int)c->dims, .interleaved = interleaved };
    if (c->kind != LLM_ROPE_PLAIN && c->kind != LLM_ROPE_LINEAR && c->kind != LLM_ROPE_LLAMA3 &&
        c->kind != LLM_ROPE_YARN)
        return err_set(err,
                       "config.json: this engine knows the rope types default, linear, llama3 and yarn only");
    if (c->dims == 0 || c->dims % 2) return err_set(err, "config.json: rotary dimensions must be even");
    int half = r->dims / 2;
    double scale = amplitude(c);
    r->cosine = xcalloc((size_t)positions * (size_t)half, sizeof(float));
    r->sine = xcalloc((size_t)positions * (size_t)half, sizeof(float));
    for (int i = 0; i < half; i++) {
        float f = (float)frequency(c, i); /* angles in float, as the models are trained */
        for (int p = 0; p < positions; p++) {
            double angle = (double)((float)p * f);
            r->cosine[(size_t)p * (size_t)half + (size_t)i] = (float)(cos(angle) * scale);
            r->sine[(size_t)p * (size_t)half + (size_t)i] = (float)(sin(angle) * scale);
        }
    }
    return 0;
}

void rope_free(struct rope *r) {
    free(r->cosine);
    free(r->sine);
    *r = (struct rope){ 0 };
}

void rope_apply(const struct rope *r, float *x, int heads, int stride, int offset, int position) {
    int half = r->dims / 2, step = r->interleaved ? 2 : 1, apart = r->interleaved ? 1 : half;
    const float *c = r->cosine + (size_t)position * (size_t)half,
                *s = r->sine + (size_t)position * (size_t)half;
    for (int h = 0; h < heads; h++) {
        float *v = x + (ptrdiff_t)h * stride + offset;
        for (int i = 0; i < half; i++) {
            float a = v[i * step], b = v[i * step + apart];
            v[i * step] = a * c[i] - b * s[i];
            v[i * step + apart] = b * c[i] + a * s[i];
        }
    }
}
