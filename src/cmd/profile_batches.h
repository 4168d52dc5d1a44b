/* `inferprof profile MODEL -p N -n N -b N,...`: speed by batch size, without inputs. */
#ifndef CMD_PROFILE_BATCHES_H
#define CMD_PROFILE_BATCHES_H

#include <stdbool.h>
#include <stdint.h>

#include "session/profile_plan.h"

struct batches_opts {
    uint64_t prompt_tokens, new_tokens; /* 0: not given */
    const char *batches;                /* "1,8,32"; NULL: not given */
    const char *chart;                  /* SVG file; NULL: none */
    bool csv, json;
};

bool batches_asked(const struct batches_opts *o);
const char *batches_misused(const struct batches_opts *o); /* NULL: the options are consistent */
/* for --dry-run */
void batches_plan_text(const struct profile_plan *p, const struct batches_opts *o, struct strbuf *out);
int batches_run(const struct profile_plan *p, const struct batches_opts *o); /* exit status */

#endif
