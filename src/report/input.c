#include <math.h>
#include <string.h>

#include "report/report.h"

void report_input_init(struct report_input *in) {
    memset(in, 0, sizeof *in);
    in->peak.flops_per_s = in->peak.bytes_per_s = NAN;
    in->model_mfu = in->model_mbu = NAN;
}

void report_stage_init(struct report_stage *s) {
    memset(s, 0, sizeof *s);
    s->tokens = s->flops = s->bytes = s->floor_ms = NAN;
    s->mfu = s->mbu = s->distance = s->representative_ms = NAN;
}
