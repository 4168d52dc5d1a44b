#include <stdatomic.h>

#include "base/parallel.h"
#include "unit/test.h"

#define N 1000

static void count(void *arg, size_t i) { atomic_fetch_add((atomic_uint *)arg + i, 1); }

TEST(parallel_for_calls_once_for_each_index) {
    static const unsigned threads[] = { 0, 1, 2, 7, 5000 };
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        atomic_uint calls[N + 1] = { 0 };
        parallel_for(N, threads[t], count, calls);
        for (size_t i = 0; i < N; i++) CHECK_INT(calls[i], 1);
        CHECK_INT(calls[N], 0);
    }
}

TEST(parallel_for_of_nothing_calls_nothing) {
    atomic_uint calls[1] = { 0 };
    parallel_for(0, 4, count, calls);
    CHECK_INT(calls[0], 0);
}
