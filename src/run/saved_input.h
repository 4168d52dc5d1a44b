/* The input of an analysis as stored in metrics.json, to repeat the analysis.
 *     struct saved_input *kept = saved_input_read(member);        -- NULL: there is none
 *     analyze_run(tl, &kept->input, &a);                          -- kept must live as long as a
 *     saved_input_free(kept);
 * Texts of `kept` belong to the JSON document. */
#ifndef RUN_SAVED_INPUT_H
#define RUN_SAVED_INPUT_H

#include <jansson.h>

#include "analyze/analyze.h"

struct saved_input {
    struct analyze_input input;
    struct analyze_cost *costs;
    struct analyze_timing *timings;
    struct analyze_tokens *tokens;
    struct analyze_rule *rules;
};

struct saved_input *saved_input_read(const json_t *member);
void saved_input_free(struct saved_input *kept); /* NULL is fine */

#endif
