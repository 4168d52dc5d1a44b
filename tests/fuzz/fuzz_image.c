/* One PNG or JPEG file. A decoded image is also resized to a small square. */
#include "engine/image/internal.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct image im, small;
    struct err err;
    struct image_file f = { data, size, "fuzz", 1 << 18 }; /* the real limit would be too slow */
    if (image_decode_limited(&f, &im, &err) < 0) return 0;
    if (image_fit_pad(&im, 32, &small, &err) == 0) image_free(&small);
    image_free(&im);
    return 0;
}
