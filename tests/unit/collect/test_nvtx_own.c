#include <math.h>

#include "collect/nvtx_own.c"
#include "unit/test.h"

/* "kind|name|count", or "-" for an ordinary text. */
static const char *split(const char *text) {
    static char shown[200];
    struct nvtx_own_text t;
    if (!nvtx_own_split(text, &t)) return "-";
    int n = snprintf(shown, sizeof shown, "%d|%s|", (int)t.kind, t.name);
    if (!isnan(t.count)) snprintf(shown + n, sizeof shown - (size_t)n, "%.0f", t.count);
    return shown;
}

TEST(prefixes_give_ranges_and_marks_a_meaning) {
    CHECK_STR(split("inferprof:stage prefill"), "1|prefill|");
    CHECK_STR(split("inferprof:module model.layers.0"), "2|model.layers.0|");
    CHECK_STR(split("inferprof:op a b"), "3|a b|");
    CHECK_STR(split("inferprof:consumed 501"), "4|501|501");
    CHECK_STR(split("inferprof:made 1"), "5|1|1");
}

TEST(similar_texts_are_ordinary) {
    static const char *const other[] = { "",
                                         "prefill",
                                         "inferprof",
                                         "inferprof:",
                                         "inferprof:stage",
                                         "inferprof:stage ",
                                         "inferprof:Stage x",
                                         " inferprof:stage x",
                                         "inferprof:made",
                                         "inferprof:made x",
                                         "inferprof:made 1 ",
                                         "inferprof:made -1",
                                         "inferprof:made 1234567890" };
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) CHECK_STR(split(other[i]), "-");
}
