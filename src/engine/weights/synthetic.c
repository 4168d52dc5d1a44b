/* The generator of synthetic weights. */
#include <math.h>
#include <string.h>

#include "engine/weights/weights.h"

/* Derives the two words of the stream's state from the seed and the name's FNV-1a hash. */
struct weights_stream weights_stream_make(uint64_t seed, const char *name, float scale, float offset) {
    uint64_t h = 0xcbf29ce484222325u;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    h ^= seed * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 27) * 0x94d049bb133111ebu;
    h ^= h >> 31;
    return (struct weights_stream){ (uint32_t)h, (uint32_t)(h >> 32), scale * 0x1p-31f, offset };
}

float weights_stream_at(const struct weights_stream *s, uint32_t i) {
    uint32_t x = i * 0x9e3779b1u + s->a;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x = (x ^ s->b) * 0x846ca68bu;
    x ^= x >> 16;
    return s->offset + (float)(int32_t)x * s->scale;
}
