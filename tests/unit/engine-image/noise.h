/* The test image of tests/oracle/images.py: a ramp with noise, the same in both languages. */
#ifndef TESTS_UNIT_ENGINE_IMAGE_NOISE_H
#define TESTS_UNIT_ENGINE_IMAGE_NOISE_H

#include "engine/image/image.h"

static inline void noise_image(int width, int height, struct image *im) {
    image_init(im, width, height, 0);
    uint32_t state = (uint32_t)(width * 7919 + height);
    for (int i = 0; i < width * height * 3; i++) {
        state = state * 1664525u + 1013904223u;
        uint32_t ramp = (uint32_t)(i / 3 % width * 255 / width), grain = state >> 24;
        im->rgb[i] = (uint8_t)(i / (3 * width) % 8 < 6 ? (ramp + grain) / 2 : grain);
    }
}

#endif
