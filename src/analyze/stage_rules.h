/* From the names of ranges to stages: the caller's rules, then presets for known servers and programs. */
#ifndef ANALYZE_STAGE_RULES_H
#define ANALYZE_STAGE_RULES_H

#include <stdbool.h>
#include <stddef.h>

#include "analyze/analyze.h"

struct stage_match {
    char stage[64];
    bool nested_only; /* a stage only inside another stage */
    /* by a preset from the name alone: neither a rule nor the program says that it is a stage */
    bool guessed;
    double tokens_in,
        tokens_out; /* the label's count: prompt tokens of the step, tokens it makes; NaN: not said */
};

/* True: a range of this name and category is (an occurrence of) a stage. */
bool stage_rules_match(const struct analyze_input *input, const char *name,
                       enum trace_range_category category, struct stage_match *out);
/* Shell-like: * any run, ? one character, the rest literally; case counts. */
bool stage_rules_glob(const char *glob, const char *text);

#endif
