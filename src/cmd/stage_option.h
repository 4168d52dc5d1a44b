/* --stage NAME=GLOB of the commands that have it, as rules. */
#ifndef CMD_STAGE_OPTION_H
#define CMD_STAGE_OPTION_H

#include "analyze/analyze.h"
#include "base/err.h"
#include "base/opt.h"

struct stage_option {
    struct analyze_rule *v;
    size_t n, cap;
};

/* -1: one is not NAME=GLOB. Free in any case; globs are borrowed from the list. */
int stage_option_parse(const struct opt_list *in, struct stage_option *out, struct err *err);
void stage_option_free(struct stage_option *rules);

#endif
