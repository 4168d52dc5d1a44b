/* Maps names of ranges to stages. Tried in this order: the rules of the caller, ranges marked as stages (they
 * keep their name), presets for known servers and programs. */
#ifndef ANALYZE_STAGE_RULES_H
#define ANALYZE_STAGE_RULES_H

#include <stdbool.h>
#include <stddef.h>

#include "analyze/analyze.h"

struct attention_step;

struct stage_match {
    char stage[64];
    bool nested_only; /* only inside another stage */
    /* only a common name was recognised, such as "decode" or "lm_head" */
    bool guessed;
    /* From the label; NaN: not in the label. Tokens that the step reads and generates, and keys that its
     * sequences attend to, each summed over the sequences. */
    double tokens_in, tokens_out, keys;
};

bool stage_rules_match(const struct analyze_input *input, const char *name,
                       enum trace_range_category category, struct stage_match *out);
/* Reads the sums of a server's label: numbers of queries (sq), keys (sk), and products of both (sqsq, sqsk).
 * Returns false if the label does not contain them. */
bool stage_rules_attention(const char *label, struct attention_step *out);
/* Shell-like glob: * matches any text, ? one character, other characters match themselves. Case-sensitive. */
bool stage_rules_glob(const char *glob, const char *text);

#endif
