/* The next token from logits. Greedy takes the largest, the lowest id among equals. Sampling divides by the
 * temperature, keeps the top_k largest (lowest ids among equals), then the fewest of those that together
 * reach top_p, and draws with its own generator: same seed and same logits give the same tokens on any
 * machine. NaN counts as -inf; if no logit is finite, the lowest id is taken. Nothing is allocated per
 * token. */
#ifndef ENGINE_SAMPLING_SAMPLER_H
#define ENGINE_SAMPLING_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

struct sampler_settings {
    double temperature; /* 0 or less: greedy */
    uint32_t top_k;     /* 0: all */
    double top_p;       /* 0 or less, 1 or more: all */
    uint64_t seed;
};

uint32_t sampler_argmax(const float *logits, size_t vocab);

struct sampler;
struct sampler *sampler_open(const struct sampler_settings *s, size_t vocab);
void sampler_close(struct sampler *s);
void sampler_reset(struct sampler *s); /* back to the seed */
uint32_t sampler_pick(struct sampler *s, const float *logits);

#endif
