#include "run/info.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"

void run_info_init(struct run_info *in) {
    memset(in, 0, sizeof *in);
    in->peak.flops_per_s = in->peak.bytes_per_s = in->context.tokens = NAN;
}

struct stats run_figure_stats(const struct run_info *in, const struct run_figure *f) {
    struct stats s = stats_of(f->values, f->n);
    if (in->neach_repeat != f->n) return s;
    uint32_t *inputs = xcalloc(f->n + 1, sizeof *inputs);
    for (size_t i = 0; i < f->n; i++) inputs[i] = in->each_repeat[i].input;
    s.cv = stats_grouped_cv(f->values, inputs, f->n);
    free(inputs);
    return s;
}
