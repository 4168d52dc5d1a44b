#include "engine/sampling/sampler.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/die.h"

struct candidate {
    uint32_t id;
    float logit;
    double weight; /* exp(scaled logit - largest scaled logit), not normalised */
};

struct sampler {
    struct sampler_settings set;
    size_t vocab;
    uint64_t state;
    struct candidate *pool; /* [vocab] */
};

uint32_t sampler_argmax(const float *logits, size_t vocab) {
    uint32_t best = 0;
    float most = -INFINITY;
    for (size_t i = 0; i < vocab; i++) {
        /* the comparison is false for NaN; if logits are equal, the lowest id is chosen */
        if (logits[i] > most) {
            most = logits[i];
            best = (uint32_t)i;
        }
    }
    return best;
}

struct sampler *sampler_open(const struct sampler_settings *set, size_t vocab) {
    struct sampler *s = xcalloc(1, sizeof *s);
    s->set = *set;
    s->vocab = vocab;
    if (set->temperature > 0) s->pool = xcalloc(vocab, sizeof *s->pool);
    sampler_reset(s);
    return s;
}

void sampler_close(struct sampler *s) {
    if (!s) return;
    free(s->pool);
    free(s);
}

void sampler_reset(struct sampler *s) { s->state = s->set.seed; }

/* SplitMix64: the state advances by a constant and the output is mixed, so any seed works. */
static uint64_t next_u64(struct sampler *s) {
    uint64_t z = s->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static double next_unit(struct sampler *s) { return (double)(next_u64(s) >> 11) * 0x1p-53; }

/* Orders candidates: the more likely candidate first; if both are equally likely, the lower id first. */
static bool before(const struct candidate *a, const struct candidate *b) {
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

/* A heap ordered by `before`. Taking the best k costs O(vocab + k log vocab). */
static void sift_down(struct candidate *v, size_t n, size_t i) {
    for (;;) {
        size_t top = i, left = 2 * i + 1, right = left + 1;
        if (left < n && before(&v[left], &v[top])) top = left;
        if (right < n && before(&v[right], &v[top])) top = right;
        if (top == i) return;
        struct candidate t = v[i];
        v[i] = v[top];
        v[top] = t;
        i = top;
    }
}

static size_t gather(struct sampler *s, const float *logits, double most) {
    size_t n = 0;
    for (size_t i = 0; i < s->vocab; i++) {
        if (!(logits[i] > -INFINITY)) continue;
        double w = exp((logits[i] - most) / s->set.temperature);
        s->pool[n++] = (struct candidate){ (uint32_t)i, logits[i], w };
    }
    for (size_t i = n / 2; i-- > 0;) sift_down(s->pool, n, i);
    return n;
}

/* Moves the most likely candidates from the heap to the end of the pool, one by one: at most k, and only
 * until their total weight reaches `reach`. Returns their number. */
static size_t take_top(struct sampler *s, size_t n, size_t k, double reach) {
    double sum = 0;
    size_t taken = 0;
    while (taken < k && n > 0 && (taken == 0 || sum < reach)) {
        struct candidate c = s->pool[0];
        s->pool[0] = s->pool[--n];
        sift_down(s->pool, n, 0);
        s->pool[n] = c;
        sum += c.weight;
        taken++;
    }
    return taken;
}

static double weight_sum(const struct candidate *v, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += v[i].weight;
    return sum;
}

/* Returns how many of the most likely candidates (the last `taken` of the pool) are needed to reach the
 * requested total weight. */
static size_t trim(const struct sampler *s, size_t end, size_t taken, double reach) {
    double sum = 0;
    size_t keep = 0;
    while (keep < taken && (keep == 0 || sum < reach)) sum += s->pool[end - ++keep].weight;
    return keep;
}

/* Moves the candidates that top_k and top_p keep to the end of the pool [0, n). Returns their number. */
static size_t keep_likely(struct sampler *s, size_t n) {
    size_t k = s->set.top_k, taken = n;
    bool limit_k = k > 0 && k<n, limit_p = s->set.top_p> 0 && s->set.top_p < 1;
    if (limit_k) taken = take_top(s, n, k, INFINITY);
    if (!limit_p) return taken;
    double reach = s->set.top_p * weight_sum(s->pool + n - taken, taken);
    return limit_k ? trim(s, n, taken, reach) : take_top(s, n, n, reach);
}

uint32_t sampler_pick(struct sampler *s, const float *logits) {
    uint32_t greedy = sampler_argmax(logits, s->vocab);
    if (!(s->set.temperature > 0) || !isfinite(logits[greedy])) return greedy;
    size_t n = gather(s, logits, logits[greedy]), taken = keep_likely(s, n);
    double left = next_unit(s) * weight_sum(s->pool + n - taken, taken);
    for (size_t i = 1; i < taken; i++) {
        left -= s->pool[n - i].weight;
        if (left < 0) return s->pool[n - i].id;
    }
    return s->pool[n - taken].id;
}
