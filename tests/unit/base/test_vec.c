#include <stdlib.h>

#include "base/vec.h"
#include "unit/test.h"

TEST(vec_keeps_pushed_values) {
    struct {
        int *v;
        size_t n, cap;
    } a = { 0 };
    for (int i = 0; i < 1000; i++) vec_push(&a, i * 3);
    CHECK_INT(a.n, 1000);
    for (int i = 0; i < 1000; i++) CHECK_INT(a.v[i], i * 3);
    free(a.v);
}
