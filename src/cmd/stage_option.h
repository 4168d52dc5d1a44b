/* --stage NAME=GLOB */
#ifndef CMD_STAGE_OPTION_H
#define CMD_STAGE_OPTION_H

#include "analyze/analyze.h"
#include "base/err.h"
#include "base/opt.h"

struct stage_option {
    struct analyze_rule *v;
    size_t n, cap;
};

/* Returns -1 if a value is not NAME=GLOB. The caller frees *out in any case. The globs point into the
 * list. */
int stage_option_parse(const struct opt_list *in, struct stage_option *out, struct err *err);
void stage_option_free(struct stage_option *rules);

#endif
