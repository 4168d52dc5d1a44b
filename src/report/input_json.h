/* What was told to an analysis beside its traces (costs, times, tokens, rules, peaks), as a member of
 * metrics.json: so that `report` can tell a finished run the same again.
 *     input_json_write(&j, in.analysis->input);
 *     struct input_json *kept = input_json_read(member);         -- NULL: there is none
 *     analyze_run(tl, &kept->input, &a);                          -- kept must live as long as a
 *     input_json_free(kept);
 * Texts of `kept` belong to the document it was read from. */
#ifndef REPORT_INPUT_JSON_H
#define REPORT_INPUT_JSON_H

#include <jansson.h>

#include "analyze/analyze.h"
#include "base/jsonw.h"

struct input_json {
    struct analyze_input input;
    struct analyze_cost *costs;
    struct analyze_timing *timings;
    struct analyze_tokens *tokens;
    struct analyze_rule *rules;
};

void input_json_write(struct jsonw *j, const struct analysis *a); /* nothing if it has no input */
struct input_json *input_json_read(const json_t *member);
void input_json_free(struct input_json *kept); /* NULL is fine */

#endif
