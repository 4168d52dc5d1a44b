/* Chooses the next token from logits. Greedy choice takes the largest logit. Sampling divides the logits by
 * the temperature, keeps the top_k largest ones, then the smallest set of them whose probabilities add up
 * to top_p, and draws one. If logits are equal, lower ids take precedence. The same seed and the same logits
 * give the same tokens on any machine. NaN counts as -inf; if all logits are -inf, id 0 is chosen. */
#ifndef ENGINE_SAMPLING_SAMPLER_H
#define ENGINE_SAMPLING_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

struct sampler_settings {
    double temperature; /* 0 or less: greedy */
    uint32_t top_k;     /* 0: all */
    double top_p;       /* 0 or less, or 1 or more: all tokens */
    uint64_t seed;
};

uint32_t sampler_argmax(const float *logits, size_t vocab);

struct sampler;
struct sampler *sampler_open(const struct sampler_settings *s, size_t vocab);
void sampler_close(struct sampler *s);
void sampler_reset(struct sampler *s); /* restarts the generator from the seed */
uint32_t sampler_pick(struct sampler *s, const float *logits);

#endif
